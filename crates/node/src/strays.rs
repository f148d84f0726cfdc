//! Reports stored bindings that have no effect because they name a workload of another namespace
//! (WH10).
//!
//! Clients can no longer create such a binding, and Karmada's detector never creates one. An older
//! version or an import may have stored it. It is left unchanged.

use ballast_api::karmada::work::v1alpha2::{PartialBinding, RESOURCE_BINDINGS};
use ballast_watch::View;

/// Logs one line, if there are any. It reads all bindings, at about a microsecond each.
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
