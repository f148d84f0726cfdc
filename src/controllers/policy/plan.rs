//! What a policy's change means for a binding that it manages. Pure.
//!
//! The fields that Karmada copies from a policy are made equal to the policy's. A Lazy policy changes
//! nothing by itself: bindings keep the placement they were made with (R7, R49).

use serde_json::{Map, Value};

/// The fields of a policy's spec that bindings carry under the same name.
const COPIED: [&str; 6] =
    ["placement", "propagateDeps", "schedulerName", "failover", "conflictResolution", "preserveResourcesOnDeletion"];

/// Whether changes of the policy reach its bindings.
pub fn is_active(policy: &Map<String, Value>) -> bool {
    policy.get("spec").is_some_and(|spec| spec["activationPreference"] != "Lazy")
}

/// The binding as its policy wants it; `None` where it is so already.
pub fn renewed(policy: &Map<String, Value>, mut binding: Map<String, Value>) -> Option<Map<String, Value>> {
    let wanted = policy.get("spec")?.as_object()?;
    let spec = binding.get_mut("spec")?.as_object_mut()?;
    let mut changed = false;
    for field in COPIED {
        match wanted.get(field) {
            value if value == spec.get(field) => continue,
            Some(value) => drop(spec.insert(field.to_owned(), value.clone())),
            None => drop(spec.remove(field)),
        }
        changed = true;
    }
    changed.then_some(binding)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn r121_the_binding_gets_the_policy_s_placement_and_loses_what_the_policy_lacks() {
        let policy = object(json!({"spec": {"placement": {"clusterTolerations": []}, "priority": 3}}));
        let binding = object(json!({"spec": {"replicas": 2, "placement": {}, "failover": {}}}));
        let expected = object(json!({"spec": {"replicas": 2, "placement": {"clusterTolerations": []}}}));
        assert_eq!(renewed(&policy, binding), Some(expected.clone()));
        assert_eq!(renewed(&policy, expected), None);
    }

    #[test]
    fn r7_a_lazy_policy_does_not_reach_its_bindings() {
        assert!(!is_active(&object(json!({"spec": {"activationPreference": "Lazy"}}))));
        assert!(is_active(&object(json!({"spec": {}}))));
    }
}
