//! Whether spans are exported, and how a span joins the trace of a caller. The exporter is in a
//! crate above this one, and may be left out of the binary, so it registers itself here.

use std::sync::OnceLock;

use http::HeaderMap;
use tracing::Span;

/// Adds a span that has not started to the trace in these headers.
pub type Follow = fn(&Span, &HeaderMap);

static EXPORTING: OnceLock<Follow> = OnceLock::new();

/// Records that spans are exported from now on. Later calls have no effect.
pub(super) fn register(follow: Follow) {
    let _already_registered = EXPORTING.set(follow);
}

/// Returns whether spans are exported, so that recording fields on them is useful.
pub fn is_exporting() -> bool {
    EXPORTING.get().is_some()
}

/// Adds a span that has not started to the trace in these headers, if spans are exported.
pub fn follow(span: &Span, headers: &HeaderMap) {
    if let Some(follow) = EXPORTING.get() {
        follow(span, headers);
    }
}
