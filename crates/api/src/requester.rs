//! The requester of a trigger, as an annotation next to the trigger. After a restart or a change of
//! the leader, a pass thus still names the object that made a workload move (BD11). Pure.
//!
//! The annotation contains the trigger that it belongs to, so an annotation of an earlier trigger
//! is ignored. The pass that serves the trigger removes it.

use super::core::ObjectReference;
use ballast_k8s::Edit;

/// The annotation, with the value `TRIGGER APIVERSION KIND NAMESPACE NAME UID`. No part contains
/// spaces, and unknown parts are empty.
pub const ASKED_BY: &str = "ballast.dev/asked-by";

/// Returns the edit that records the requester of `trigger`: the pending pass of a binding, or the
/// trigger timestamp of a placement.
pub fn signed(trigger: &str, requester: &ObjectReference) -> Edit {
    let ObjectReference { api_version, kind, namespace, name, uid, .. } = requester;
    let mut text = trigger.to_owned();
    for field in [api_version, kind, namespace, name, uid] {
        text.push(' ');
        text.push_str(field.as_deref().unwrap_or_default());
    }
    Edit::set(&["metadata", "annotations", ASKED_BY], text)
}

/// Returns the edit that removes the requester together with its trigger.
pub fn forgotten() -> Edit {
    Edit::remove(&["metadata", "annotations", ASKED_BY])
}

/// Parses the requester of `trigger`. Returns `None` if the annotation belongs to another trigger
/// or is malformed.
pub fn read(text: &str, trigger: &str) -> Option<ObjectReference> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [of, api_version, kind, namespace, name, uid] = fields[..] else { return None };
    let field = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    (of == trigger).then(|| ObjectReference {
        api_version: field(api_version),
        kind: field(kind),
        namespace: field(namespace),
        name: field(name),
        uid: field(uid),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_read_again_and_belongs_to_one_trigger() {
        let requester = ObjectReference {
            api_version: Some("apps.karmada.io/v1alpha1".to_owned()),
            kind: Some("WorkloadRebalancer".to_owned()),
            name: Some("after-outage".to_owned()),
            uid: Some("1-2".to_owned()),
            ..ObjectReference::default()
        };
        let edit = signed("17", &requester);
        let tree = edit.value.as_ref().unwrap().tree();
        let text = tree.as_str().unwrap();
        assert_eq!(text, "17 apps.karmada.io/v1alpha1 WorkloadRebalancer  after-outage 1-2");
        assert_eq!(read(text, "17"), Some(requester));
        assert_eq!((read(text, "18"), read("17 damaged", "17"), read("", "")), (None, None, None));
    }
}
