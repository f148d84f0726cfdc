//! Sends a watch as a body with one JSON object a line, until the client disconnects.
//!
//! *Invariants:* the head of the response is sent at once, with or without events (WA1). Nothing is
//! compressed. No event is delayed (WA23), except by the batching of the cache (`Cache::follow`). A
//! shutdown ends the body cleanly (SH1). Events that are ready together are sent together. A line
//! is made only when the client reads it: a slow client falls out of the window of past events
//! (WA17).

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::StatusCode;
use serde_json::{Value, json};

use super::codec::{Accepted, Representation};
use super::representation;
use super::respond::{self, Response};
use super::send_buffers::LastEvent;
use super::shutdown::Shutdown;
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_k8s::{Object, Query, Revision, Status};
use ballast_registry::table::{self, Columns, Printer, TableForm};
use ballast_registry::{Registry, Watch, WatchEvent};
use ballast_resource::{ResourceKind, Wording};

/// Ready events are put into one chunk up to this size.
const PIECE_BYTES: usize = 48 * 1024;
/// The approximate size of an event without its object.
const WORDS_BYTES: usize = 40;

pub fn response(lines: Lines, accepted: Accepted) -> Response {
    let body = Body::from_stream(pieces(lines));
    let mut response = respond::with_type(StatusCode::OK, accepted.encoding.content_type(), body);
    response.extensions_mut().insert(LastEvent(too_slow()));
    response
}

/// Returns the event that ends a watch if its client does not read. The client resumes from its
/// last revision.
fn too_slow() -> Bytes {
    let mut status = Status::too_many_requests(1);
    status.message = "the watch was ended because its client does not read the events".to_owned();
    let mut line = json!({"type": "ERROR", "object": status}).to_string();
    line.push('\n');
    line.into()
}

/// The events of a watch, and how each becomes a line.
pub struct Lines {
    watch: Watch,
    writer: Writer,
    sent: metrics::WatchEvents,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
}

fn pieces(lines: Lines) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(lines, async |mut lines| {
        let first = lines.next().await?;
        let mut size = first.size() + WORDS_BYTES;
        let mut events = vec![first];
        while size < PIECE_BYTES
            && let Some(event) = lines.watch.next_ready()
        {
            size += event.size() + WORDS_BYTES;
            events.push(event);
        }
        // For whole objects the buffer is large enough from the start. Other representations are
        // much shorter.
        let mut piece = Vec::with_capacity(if matches!(lines.writer, Writer::Whole { .. }) { size } else { 0 });
        events.iter().for_each(|event| lines.write(&mut piece, event));
        lines.sent.left(events.len() as u64, piece.len() as u64);
        Some((Ok(piece.into()), lines))
    })
}

/// Writes objects in the negotiated representation.
enum Writer {
    Whole {
        row: Arc<ResourceKind>,
        wording: Wording,
    },
    Metadata {
        api_version: &'static str,
    },
    /// Only the first event names the columns (WA20).
    Table {
        printer: Printer,
        form: TableForm,
        columns: Columns,
    },
}

impl Lines {
    pub fn of(
        clock: &Arc<dyn Clock>,
        shutdown: &Shutdown,
        registry: &Registry,
        query: &Query<'_>,
        row: &Arc<ResourceKind>,
        watch: Watch,
        accepted: Accepted,
    ) -> Result<Lines, Status> {
        let writer = match accepted.representation {
            Representation::Object => Writer::Whole { row: row.clone(), wording: row.wording() },
            Representation::Metadata(version) => Writer::Metadata { api_version: version.api_version() },
            Representation::Table(version) => Writer::Table {
                printer: representation::printer(registry, row),
                form: representation::table_form(clock.as_ref(), query, version.api_version())?,
                columns: Columns::Named,
            },
        };
        let sent = metrics::WatchEvents::of(row.group, row.version, row.plural);
        Ok(Lines { watch, writer, sent, clock: clock.clone(), shutdown: shutdown.clone() })
    }

    /// Returns the line of the next event; `None` at the end.
    pub async fn next_line(&mut self) -> Option<String> {
        let event = self.next().await?;
        let mut line = Vec::with_capacity(event.size() + WORDS_BYTES);
        self.write(&mut line, &event);
        self.sent.left(1, line.len() as u64);
        Some(String::from_utf8(line).expect("JSON is UTF-8"))
    }

    /// Returns the next event; `None` at the end.
    async fn next(&mut self) -> Option<WatchEvent> {
        tokio::select! {
            event = self.watch.next() => event,
            () = self.shutdown.closing() => None,
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, event: &WatchEvent) {
        out.extend_from_slice(br#"{"type":""#);
        out.extend_from_slice(event.kind().as_bytes());
        out.extend_from_slice(br#"","object":"#);
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                self.object(object, out);
            }
            WatchEvent::Bookmark { revision, initial_events_end } => {
                out.extend_from_slice(&self.bookmark(*revision, *initial_events_end));
            }
            WatchEvent::Error(status) => {
                serde_json::to_writer(&mut *out, status).expect("a Status always serializes");
            }
        }
        out.extend_from_slice(b"}\n");
    }

    fn object(&mut self, object: &Object, out: &mut Vec<u8>) {
        match &mut self.writer {
            Writer::Whole { wording, .. } => wording.write(object, out),
            Writer::Metadata { api_version } => out.extend_from_slice(&table::metadata(api_version, object)),
            Writer::Table { printer, form, columns } => {
                // The columns of ages need the present time.
                form.now = self.clock.now();
                let columns = std::mem::replace(columns, Columns::Unnamed);
                out.extend_from_slice(&printer.single(form, object, columns));
            }
        }
    }

    fn bookmark(&mut self, revision: Revision, is_initial_end: bool) -> Bytes {
        let annotations = match is_initial_end {
            true => json!({"k8s.io/initial-events-end": "true"}),
            false => Value::Null,
        };
        match &mut self.writer {
            Writer::Whole { row, .. } => {
                let mut metadata = json!({"resourceVersion": revision.to_string()});
                if is_initial_end {
                    metadata["annotations"] = annotations;
                }
                let bookmark = json!({"kind": row.kind, "apiVersion": row.api_version(), "metadata": metadata});
                bookmark.to_string().into()
            }
            Writer::Metadata { api_version } => table::metadata_bookmark(api_version, revision, &annotations),
            Writer::Table { printer, form, columns } => {
                let columns = std::mem::replace(columns, Columns::Unnamed);
                printer.bookmark(form, revision, &annotations, columns)
            }
        }
    }
}
