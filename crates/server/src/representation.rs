//! Responds with an object or a list in the negotiated representation: the object itself, a Table,
//! or metadata.

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use super::codec::{Accepted, Encoding, Representation};
use super::frames::{self, Size};
use super::respond::{self, Response};
use ballast_base::clock::Clock;
use ballast_k8s::{Object, Query, Status};
use ballast_registry::table::{self, Columns, Include, Page, Printer, TableForm};
use ballast_registry::{List, Registry};
use ballast_resource::ResourceKind;

/// Writes one item of a list.
type Piece = Box<dyn FnMut(&Object, &mut Vec<u8>) + Send>;

/// Makes the rows of a kind, with the cells that the server computes.
pub fn printer(registry: &Registry, row: &ResourceKind) -> Printer {
    Printer::of(row).with_computed(registry.computed(row.resource))
}

/// Responds with one object.
pub fn object(
    clock: &dyn Clock,
    query: &Query<'_>,
    registry: &Registry,
    row: &ResourceKind,
    object: &Object,
    code: StatusCode,
    accepted: Accepted,
) -> Result<Response, Status> {
    match accepted.representation {
        Representation::Object => respond::stored(code, accepted, &row.wording().of(object)),
        Representation::Table(version) => {
            let form = table_form(clock, query, version.api_version())?;
            respond::stored(code, accepted, &printer(registry, row).single(&form, object, Columns::Named))
        }
        Representation::Metadata(version) => {
            respond::stored(code, accepted, &table::metadata(version.api_version(), object))
        }
    }
}

/// Responds with a list, which is serialized while it is sent.
pub fn list(
    clock: &dyn Clock,
    query: &Query<'_>,
    registry: &Registry,
    row: &ResourceKind,
    list: List,
    accepted: Accepted,
) -> Result<Response, Status> {
    let List { revision, items, continue_token, remaining } = list;
    let remaining = remaining.and_then(|count| u64::try_from(count).ok());
    let page = Page { revision, continue_token, remaining };
    let (head, piece): (Bytes, Piece) = match accepted.representation {
        Representation::Object => {
            let wording = row.wording();
            (whole_head(row, &page), Box::new(move |object, out| wording.write(object, out)))
        }
        Representation::Table(version) => {
            let form = table_form(clock, query, version.api_version())?;
            let printer = printer(registry, row);
            (
                printer.head(&form, &page, Columns::Named),
                Box::new(move |object, out| out.extend_from_slice(&printer.row(&form, object))),
            )
        }
        Representation::Metadata(version) => {
            let version = version.api_version();
            (
                table::metadata_head(version, &page),
                Box::new(move |object, out| out.extend_from_slice(&table::metadata(version, object))),
            )
        }
    };
    let stored_bytes = items.iter().map(|item| item.text.len()).sum::<usize>();
    let size = match accepted.representation {
        Representation::Object if row.is_stored_version() => {
            let commas = items.len().saturating_sub(1);
            Size::Exactly(head.len() + stored_bytes + commas + table::TAIL.len())
        }
        Representation::Object | Representation::Table(_) | Representation::Metadata(_) => Size::About(stored_bytes),
    };
    let pieces = frames::joined(head, items, piece, Bytes::from_static(table::TAIL));
    if accepted.encoding == Encoding::Yaml {
        let whole: Vec<u8> = pieces.flatten().collect();
        return respond::stored(StatusCode::OK, accepted, &whole);
    }
    let mut response = respond::with_type(StatusCode::OK, accepted.encoding.content_type(), Body::empty());
    frames::send(&mut response, pieces, size, accepted.gzip);
    Ok(response)
}

/// Returns the form of a Table that the query requests (TA5).
pub fn table_form(clock: &dyn Clock, query: &Query<'_>, api_version: &'static str) -> Result<TableForm, Status> {
    let text = query.text("includeObject").unwrap_or_default();
    let include = Include::parse(text).ok_or_else(|| {
        Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {text:?}: \
             must be 'Metadata', 'Object', 'None', or empty"
        ))
    })?;
    Ok(TableForm { api_version, include, now: clock.now() })
}

/// Returns the start of a list, up to its first item. Lists of custom resources always have the
/// field `continue` (CH1).
fn whole_head(row: &ResourceKind, page: &Page) -> Bytes {
    let mut meta = json!({
        "continue": page.continue_token.as_deref().unwrap_or_default(),
        "resourceVersion": page.revision.to_string(),
    });
    if let Some(remaining) = page.remaining {
        meta["remainingItemCount"] = remaining.into();
    }
    let (kind, api_version) = (row.kind, row.api_version());
    format!(r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{meta},"items":["#).into()
}
