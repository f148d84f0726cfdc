//! Tells of stored bindings that have no effect: they name a workload of another namespace (WH10).
//!
//! No client can create such a binding any more, and Karmada's detector never makes one. An older
//! version may have stored it, or an import. It stays as it is.

use ballast_api::karmada::work::v1alpha2::{PartialBinding, RESOURCE_BINDINGS};
use ballast_watch::View;

/// Logs one line, if there are any. It reads all bindings: about a microsecond for each.
pub fn tell(view: &View) {
    let mut strays = view
        .list(RESOURCE_BINDINGS, None)
        .filter(|object| PartialBinding::of(&object.text.content()).is_ok_and(|it| it.is_elsewhere(&object.key)))
        .map(|object| &object.key);
    if let Some(example) = strays.next() {
        let bindings = 1 + strays.count();
        tracing::warn!(
            bindings,
            %example,
            "bindings name a workload of another namespace (spec.resource.namespace), and have no effect"
        );
    }
}
