//! Predicates for whether a change of a binding needs a pass. Pure.
//!
//! Only the input of a decision counts: the spec (by its generation), the labels that name its
//! policy, and its pending pass, which may change without a new trigger timestamp. A change of the
//! status, which is the most frequent change of a binding, does not count.

use ballast_api::karmada::work::v1alpha2::{IS_MOVING, IS_PENDING, PartialBinding, PartialSpec, PartialTarget};
use ballast_engine::karmada::{Component, Placement, Request, Requirements, Shared, Target};
use ballast_k8s::Object;

/// Returns whether the change from `before` (`None`: it was created) to `after` may change the
/// decision.
pub fn is_dirtied(before: Option<&Object>, after: &Object) -> bool {
    match before {
        _ if after.deleting => false,
        None => true,
        Some(before) => {
            before.generation != after.generation
                || before.labels != after.labels
                || has_new_pending_pass(before, after)
        }
    }
}

/// Returns whether a trigger was accepted between the two versions.
fn has_new_pending_pass(before: &Object, after: &Object) -> bool {
    let pending_pass = |object: &Object| PartialBinding::of(&object.text.content()).ok()?.pending_pass();
    // Most bindings have no pending pass, and need no parsing.
    after.has(&IS_PENDING) && pending_pass(after).is_some_and(|revision| pending_pass(before) != Some(revision))
}

/// Returns whether a rebalance has ended its move of the binding. The rebalance may leave more
/// replicas than desired, and only the annotation shows the end.
pub fn is_let_go(before: Option<&Object>, after: &Object) -> bool {
    before.is_some_and(|before| before.has(&IS_MOVING) && !after.has(&IS_MOVING))
}

/// Returns `Request::is_settled` for a partially parsed binding. `placement` is the placement of
/// the binding.
pub fn is_settled(spec: &PartialSpec<'_>, placement: Option<&Shared<Placement>>) -> bool {
    let target = |target: &PartialTarget<'_>| Target {
        name: (&*target.name).into(),
        replicas: target.replicas.unwrap_or_default().max(0),
        components: Vec::new(),
    };
    let component = || Component { name: Box::default(), replicas: 0, requirements: None };
    let request = Request {
        placement: placement.cloned(),
        replicas: spec.replicas(),
        requirements: spec.has_requirements().then(|| Shared::new(Requirements::default())),
        components: (0..spec.component_count()).map(|_| component()).collect(),
        targets: spec.clusters().iter().map(target).collect(),
        ..Request::default()
    };
    request.is_settled()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ballast_api::karmada::work::v1alpha2::{MOVE, PENDING_PASS};
    use ballast_k8s::{GroupResource, Key, Revision};

    fn object(value: serde_json::Value) -> Object {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        Object::decode(key, Revision(1), serde_json::to_vec(&value).unwrap().into()).unwrap()
    }

    #[test]
    fn a_new_binding_a_new_generation_and_new_labels_count_a_status_does_not() {
        let first = object(json!({"metadata": {"generation": 1}}));
        let status = object(json!({"metadata": {"generation": 1}, "status": {"lastScheduledTime": "x"}}));
        let spec = object(json!({"metadata": {"generation": 2}}));
        let labels = object(json!({"metadata": {"generation": 1, "labels": {"a": "b"}}}));
        assert!(is_dirtied(None, &first));
        assert!(!is_dirtied(Some(&first), &status));
        assert!(is_dirtied(Some(&first), &spec));
        assert!(is_dirtied(Some(&first), &labels));
    }

    #[test]
    fn c10_a_trigger_without_a_new_stamp_counts_and_its_answer_does_not() {
        let noted = |note: &str| object(json!({"metadata": {"generation": 1, "annotations": {PENDING_PASS: note}}}));
        let bare = object(json!({"metadata": {"generation": 1, "annotations": {"other": PENDING_PASS}}}));
        assert!(is_dirtied(Some(&bare), &noted("7")));
        assert!(is_dirtied(Some(&noted("7")), &noted("9")));
        assert!(!is_dirtied(Some(&noted("9")), &noted("9")));
        assert!(!is_dirtied(Some(&noted("9")), &bare));
    }

    #[test]
    fn a_binding_is_let_go_when_its_mark_goes() {
        let free = object(json!({"metadata": {"generation": 1, "annotations": {"a": "b"}}}));
        let marked = object(json!({"metadata": {"generation": 1, "annotations": {MOVE: "{}"}}}));
        assert!(is_let_go(Some(&marked), &free));
        assert!(!is_let_go(Some(&marked), &marked) && !is_let_go(Some(&free), &marked) && !is_let_go(None, &free));
    }

    #[test]
    fn a_binding_that_is_going_needs_no_place() {
        let going = object(json!({"metadata": {"generation": 2, "deletionTimestamp": "2024-01-01T00:00:00Z"}}));
        assert!(!is_dirtied(None, &going));
    }
}
