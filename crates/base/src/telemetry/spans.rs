//! Whether spans leave this process, and how a span joins the trace of a caller. What sends them is
//! above this crate, and may be left out of the binary, so it registers itself here.

use std::sync::OnceLock;

use http::HeaderMap;
use tracing::Span;

/// Makes a span that has not begun part of the trace that these headers name.
pub type Follow = fn(&Span, &HeaderMap);

static EXPORTING: OnceLock<Follow> = OnceLock::new();

/// Notes that spans are exported from now on. Later calls change nothing.
pub(super) fn register(follow: Follow) {
    let _already_registered = EXPORTING.set(follow);
}

/// Whether spans are exported, so that recording fields on them is of use.
pub fn is_exporting() -> bool {
    EXPORTING.get().is_some()
}

/// Makes a span that has not begun part of the trace that these headers name, if spans are
/// exported.
pub fn follow(span: &Span, headers: &HeaderMap) {
    if let Some(follow) = EXPORTING.get() {
        follow(span, headers);
    }
}
