//! Who wrote a trigger: an annotation beside it, so that a restart or another leader still knows
//! because of whom a workload moves (BD11). Pure.
//!
//! The annotation names the trigger that it belongs to. So one that a later trigger has left behind
//! says nothing. It goes with the pass that answers the trigger.

use super::core::ObjectReference;
use ballast_k8s::Edit;

/// `TRIGGER APIVERSION KIND NAMESPACE NAME UID`, each without spaces, and empty where it is not
/// known.
pub const ASKED_BY: &str = "ballast.dev/asked-by";

/// The edit that says who wrote this trigger: the debt of a binding, or the stamp of a placement.
pub fn signed(trigger: &str, asker: &ObjectReference) -> Edit {
    let ObjectReference { api_version, kind, namespace, name, uid, .. } = asker;
    let mut text = trigger.to_owned();
    for field in [api_version, kind, namespace, name, uid] {
        text.push(' ');
        text.push_str(field.as_deref().unwrap_or_default());
    }
    Edit::set(&["metadata", "annotations", ASKED_BY], text)
}

/// The edit that takes the name away with its trigger.
pub fn forgotten() -> Edit {
    Edit::remove(&["metadata", "annotations", ASKED_BY])
}

/// Who wrote this trigger, as the annotation says. `None`: it belongs to another one, or cannot be
/// read.
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
        let asker = ObjectReference {
            api_version: Some("apps.karmada.io/v1alpha1".to_owned()),
            kind: Some("WorkloadRebalancer".to_owned()),
            name: Some("after-outage".to_owned()),
            uid: Some("1-2".to_owned()),
            ..ObjectReference::default()
        };
        let edit = signed("17", &asker);
        let tree = edit.value.as_ref().unwrap().tree();
        let text = tree.as_str().unwrap();
        assert_eq!(text, "17 apps.karmada.io/v1alpha1 WorkloadRebalancer  after-outage 1-2");
        assert_eq!(read(text, "17"), Some(asker));
        assert_eq!((read(text, "18"), read("17 damaged", "17"), read("", "")), (None, None, None));
    }
}
