//! A watch as a body: one JSON object a line, for as long as the client stays (1.8).
//!
//! *Invariants:* the head of the answer leaves at once, with or without events (WA1); nothing is compressed
//! or held back (WA23); a shutdown ends the body cleanly (SH1). Events that are ready together leave
//! together. What a slow client has not fetched is not made: it loses its place in the registry instead
//! (WA17).

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{FutureExt, Stream, stream};
use http::StatusCode;
use serde_json::Value;

use super::codec::{Accepted, Form};
use super::respond::{self, Response};
use super::{App, Shutdown, forms};
use crate::k8s::{Query, Status};
use crate::registry::table::{self, Columns, Printer, TableForm};
use crate::registry::{Watch, WatchEvent};
use crate::resource::ResourceKind;

/// Ready events are put into one piece up to this size.
const PIECE_BYTES: usize = 64 * 1024;

pub fn response(
    app: &App,
    query: &Query<'_>,
    row: &Arc<ResourceKind>,
    watch: Watch,
    accepted: Accepted,
) -> Result<Response, Status> {
    let writer = match accepted.form {
        Form::Whole => Writer::Whole { row: row.clone() },
        Form::Metadata(version) => Writer::Metadata { api_version: version.api_version() },
        Form::Table(version) => Writer::Table {
            printer: Printer::of(row),
            form: forms::table_form(app.clock.as_ref(), query, version.api_version())?,
            columns: Columns::Named,
        },
    };
    let lines = Lines { watch, writer, clock: app.clock.clone(), shutdown: app.shutdown.clone() };
    let body = Body::from_stream(pieces(lines));
    Ok(respond::with_type(StatusCode::OK, accepted.encoding.content_type(), body))
}

struct Lines {
    watch: Watch,
    writer: Writer,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
}

fn pieces(lines: Lines) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(lines, async |mut lines| {
        let first = tokio::select! {
            event = lines.watch.next() => event?,
            () = lines.shutdown.closing() => return None,
        };
        let mut piece = BytesMut::new();
        lines.write(&mut piece, &first);
        while piece.len() < PIECE_BYTES
            && let Some(Some(event)) = lines.watch.next().now_or_never()
        {
            lines.write(&mut piece, &event);
        }
        Some((Ok(piece.freeze()), lines))
    })
}
