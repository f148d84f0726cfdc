//! Warnings about rules that a division ignores (T4): static weights and specified replicas ignore
//! spread constraints and free capacity. Upstream documents this but does not warn.

use serde_json::Value;

use crate::tree::{self, Object};

/// Returns a warning about the placement of a policy or a binding whose division ignores its spread
/// constraints.
pub fn advise(object: &Object) -> Option<String> {
    let placement = object.get("spec")?.get("placement")?;
    let has_spread = placement.get("spreadConstraints").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let strategy = placement.get("replicaScheduling")?.as_object()?;
    let division = ignoring(strategy).filter(|_| has_spread)?;
    Some(format!(
        "spec.placement.spreadConstraints: {division} ignore spread constraints and do not look at room; the condition \
         Scheduled and `ballast why` say what does not hold"
    ))
}

/// Returns the description of the division, if it ignores spread constraints.
fn ignoring(strategy: &Object) -> Option<&'static str> {
    if !["", "Divided"].contains(&tree::text(strategy, "replicaSchedulingType")) {
        return None;
    }
    let weights = strategy.get("weightPreference").and_then(Value::as_object);
    let is_static = weights.is_none_or(|weights| {
        let listed = weights.get("staticWeightList").and_then(Value::as_array);
        tree::text(weights, "dynamicWeight").is_empty() && listed.is_some_and(|list| !list.is_empty())
    });
    match tree::text(strategy, "replicaDivisionPreference") {
        "Weighted" => is_static.then_some("static weights"),
        "Specified" => Some("specified replicas"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn t4_a_spread_constraint_that_the_division_ignores_is_warned_of() {
        let warns = |strategy: Value| {
            let spread = json!([{"spreadByField": "cluster", "maxGroups": 1}]);
            let placement = json!({"spreadConstraints": spread, "replicaScheduling": strategy});
            advise(json!({"spec": {"placement": placement}}).as_object().unwrap()).is_some()
        };
        let weights = json!([{"targetCluster": {}, "weight": 1}]);
        assert!(warns(json!({"replicaDivisionPreference": "Weighted"})));
        assert!(warns(
            json!({"replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": weights}})
        ));
        assert!(warns(json!({"replicaDivisionPreference": "Specified"})));
        let dynamic = json!({"dynamicWeight": "AvailableReplicas"});
        assert!(!warns(json!({"replicaDivisionPreference": "Weighted", "weightPreference": dynamic})));
        assert!(!warns(json!({"replicaDivisionPreference": "Aggregated"})));
        assert!(!warns(json!({"replicaSchedulingType": "Duplicated", "replicaDivisionPreference": "Weighted"})));
        assert!(advise(json!({"spec": {"placement": {}}}).as_object().unwrap()).is_none());
    }
}
