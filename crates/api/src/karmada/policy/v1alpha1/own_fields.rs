//! Preservation of fields that upstream's types do not have.
//!
//! Karmada's controllers and webhook read policies and bindings into their own types, which lack
//! these fields, and write them back. `restore` keeps the first such write from removing the
//! fields. `carry` copies the fields of a policy to its bindings, because Karmada's detector copies
//! only the fields that it knows.
//!
//! Differs from Karmada (D54).

use std::collections::HashMap;

use serde_json::Value;

use super::placement::Placement;
use crate::tree::{self, Object};

/// Fields of a strategy that upstream's type lacks.
const OF_STRATEGY: [&str; 5] = [
    "specifyPreference",
    "extendReplicaDivisionPreference",
    "extendClusterPreferences",
    WHEN_UNSATISFIABLE,
    "clusterBounds",
];
/// Field of spread constraints and of strategies that upstream's types lack.
const WHEN_UNSATISFIABLE: &str = "whenUnsatisfiable";
/// Fields that identify a strategy: if they are unchanged, it is still the same strategy.
const SAYS_WHICH: [&str; 2] = ["replicaSchedulingType", "replicaDivisionPreference"];
/// Fields that identify a spread constraint: if they are unchanged, it is still the same
/// constraint.
const SAYS_BY_WHAT: [&str; 2] = ["spreadByField", "spreadByLabel"];
const STRATEGY: [&str; 3] = ["spec", "placement", "replicaScheduling"];
const PLACEMENT: [&str; 2] = ["spec", "placement"];
const SPREAD: &str = "spreadConstraints";
const FORCE: &str = "forceRescheduling";

/// Restores fields that were lost because a client does not know them. `before` is the object that
/// the client read. If the object still has one of the fields, or has another strategy, the missing
/// fields count as removed on purpose.
pub fn restore(object: &mut Object, before: &Object) {
    let known = |name: &str| before.get("spec")?.get(name).cloned();
    if known(FORCE) == Some(Value::Bool(true))
        && let Some(spec) = tree::object(object, &["spec"])
    {
        spec.entry(FORCE).or_insert(Value::Bool(true));
    }
    if !has_any(before) || has_any(object) {
        return;
    }
    if let Some(was) = strategy(before)
        && let Some(is) = tree::object(object, &STRATEGY)
        && SAYS_WHICH.iter().all(|name| tree::text(is, name) == tree::text(was, name))
    {
        is.extend(own(was));
    }
    let Some(placement) = tree::object(object, &PLACEMENT) else { return };
    fn by_what(constraint: &Object) -> [&str; 2] {
        SAYS_BY_WHAT.map(|name| tree::text(constraint, name))
    }
    let mut known: HashMap<[&str; 2], &Object> = HashMap::new();
    for was in constraints(before) {
        known.entry(by_what(was)).or_insert(was);
    }
    for (_, is) in tree::items(placement, SPREAD) {
        let was = known.get(&by_what(is)).and_then(|was| was.get(WHEN_UNSATISFIABLE)).cloned();
        is.extend(was.map(|value| (WHEN_UNSATISFIABLE.to_owned(), value)));
    }
}

/// Copies the fields of a policy to its binding, if the rest of the placement is equal. Returns
/// whether the binding changed.
pub fn carry(policy: &Object, binding: &mut Object) -> bool {
    if has_same_own(policy, binding) || !has_same_rest(policy, binding) {
        return false;
    }
    if let Some(strategy) = tree::object(binding, &STRATEGY) {
        OF_STRATEGY.iter().for_each(|name| drop(strategy.remove(*name)));
        strategy.extend(self::strategy(policy).map(own).unwrap_or_default());
    }
    let Some(placement) = tree::object(binding, &PLACEMENT) else { return false };
    // The rest is equal, so both have the same constraints in the same order.
    for ((_, constraint), wanted) in tree::items(placement, SPREAD).zip(constraints(policy)) {
        constraint.remove(WHEN_UNSATISFIABLE);
        let wanted = wanted.get(WHEN_UNSATISFIABLE).cloned();
        constraint.extend(wanted.map(|value| (WHEN_UNSATISFIABLE.to_owned(), value)));
    }
    true
}

/// Returns whether the object has a placement that can have these fields, and has none of them.
pub fn may_lack(object: &Object) -> bool {
    (strategy(object).is_some() || constraints(object).next().is_some()) && !has_any(object)
}

/// Returns whether the text of an object can contain one of these fields. Searching for their names
/// is faster than parsing.
pub fn may_have(text: &str) -> bool {
    OF_STRATEGY.iter().any(|name| text.contains(name))
}

/// Returns whether these fields are equal in both objects.
pub fn has_same_own(one: &Object, other: &Object) -> bool {
    let value = |strategy: Option<&Object>, name: &str| strategy.and_then(|strategy| strategy.get(name)).cloned();
    let [a, b] = [strategy(one), strategy(other)];
    let wishes = |object| -> Vec<Option<&Value>> {
        constraints(object).map(|constraint| constraint.get(WHEN_UNSATISFIABLE)).collect()
    };
    // Lists of constraints without the field are equal, whatever their lengths.
    let told = |wishes: Vec<Option<&Value>>| if wishes.iter().any(Option::is_some) { wishes.len() } else { 0 };
    let (wished, others) = (wishes(one), wishes(other));
    OF_STRATEGY.iter().all(|name| value(a, name) == value(b, name))
        && (told(wished.clone()) + told(others.clone()) == 0 || wished == others)
}

/// Returns whether two objects have the same placement, apart from these fields. Upstream omits
/// empty lists and objects, so an absent one equals an empty one.
pub fn has_same_rest(one: &Object, other: &Object) -> bool {
    // The texts are nearly always equal, which avoids parsing.
    let is_spelled_alike = placement(one).is_some_and(|one| placement(other) == Some(one));
    is_spelled_alike || rest(one).is_some_and(|one| rest(other) == Some(one))
}

fn placement(object: &Object) -> Option<&Value> {
    object.get("spec")?.get("placement")
}

fn rest(object: &Object) -> Option<Placement> {
    let mut placement: Placement = serde::Deserialize::deserialize(placement(object)?).ok()?;
    if let Some(strategy) = &mut placement.replica_scheduling {
        strategy.specify_preference = None;
        strategy.extend_replica_division_preference = None;
        strategy.extend_cluster_preferences = None;
        strategy.when_unsatisfiable = None;
        strategy.cluster_bounds.clear();
    }
    placement.spread_constraints.iter_mut().for_each(|constraint| constraint.when_unsatisfiable = None);
    Some(placement)
}

fn strategy(object: &Object) -> Option<&Object> {
    placement(object)?.get("replicaScheduling")?.as_object()
}

fn constraints(object: &Object) -> impl Iterator<Item = &Object> {
    let constraints = placement(object).and_then(|placement| placement.get(SPREAD)).and_then(Value::as_array);
    constraints.into_iter().flatten().filter_map(Value::as_object)
}

/// Returns whether the object has one of these fields.
pub fn has_any(object: &Object) -> bool {
    strategy(object).is_some_and(|strategy| OF_STRATEGY.iter().any(|name| strategy.contains_key(*name)))
        || constraints(object).any(|constraint| constraint.contains_key(WHEN_UNSATISFIABLE))
}

fn own(strategy: &Object) -> Object {
    let fields = OF_STRATEGY.iter().filter_map(|name| Some(((*name).to_owned(), strategy.get(*name)?.clone())));
    fields.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers(cluster: &str) -> Value {
        json!({"staticSpecifyList": [{"targetCluster": {"clusterNames": [cluster]}, "replicas": 2}]})
    }

    fn object(strategy: Value) -> Object {
        let placement = json!({"clusterTolerations": [{"key": "a"}], "replicaScheduling": strategy});
        json!({"metadata": {}, "spec": {"placement": placement}}).as_object().unwrap().clone()
    }

    fn specified(own: Value) -> Object {
        let mut strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified"});
        strategy.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        object(strategy)
    }

    #[test]
    fn what_a_client_does_not_know_it_does_not_lose() {
        let before = specified(json!({"specifyPreference": numbers("m1")}));
        let mut written = specified(json!({}));
        written["spec"]["placement"]["clusterTolerations"] = json!([]);
        restore(&mut written, &before);
        assert_eq!(strategy(&written), strategy(&before));
        assert_eq!(written["spec"]["placement"]["clusterTolerations"], json!([]));
    }

    #[test]
    fn who_names_another_strategy_or_other_numbers_means_it() {
        let before = specified(json!({"specifyPreference": numbers("m1")}));
        for written in [
            object(json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})),
            object(json!({"replicaSchedulingType": "Duplicated"})),
            specified(json!({"specifyPreference": numbers("m2")})),
            json!({"spec": {}}).as_object().unwrap().clone(),
        ] {
            let mut restored = written.clone();
            restore(&mut restored, &before);
            assert_eq!(restored, written);
        }
    }

    #[test]
    fn a_mark_is_not_lost_either_and_can_be_taken_back() {
        let spec = |spec: Value| json!({"spec": spec}).as_object().unwrap().clone();
        let marked = spec(json!({"forceRescheduling": true}));
        let mut written = spec(json!({"replicas": 2}));
        restore(&mut written, &marked);
        assert_eq!(written["spec"], json!({"replicas": 2, "forceRescheduling": true}));
        let mut withdrawn = spec(json!({"forceRescheduling": false}));
        restore(&mut withdrawn, &marked);
        assert_eq!(withdrawn["spec"]["forceRescheduling"], false);
    }

    #[test]
    fn a_binding_gets_its_policy_s_numbers_if_the_rest_is_its_policy_s() {
        let policy = specified(json!({"specifyPreference": numbers("m1")}));
        let mut bare = specified(json!({}));
        assert!(carry(&policy, &mut bare) && !carry(&policy, &mut bare));
        assert!(has_same_own(&policy, &bare) && has_same_rest(&policy, &bare));
        let mut stale = specified(json!({"specifyPreference": numbers("m2")}));
        assert!(carry(&policy, &mut stale) && has_same_own(&policy, &stale));
        assert!(carry(&specified(json!({})), &mut stale) && strategy(&stale).unwrap().len() == 2);
        let mut own_way = specified(json!({}));
        own_way["spec"]["placement"]["clusterTolerations"] = json!([{"key": "b"}]);
        assert!(!carry(&policy, &mut own_way));
    }

    fn spread(wish: Value, strategy: Value) -> Object {
        let mut constraint = json!({"spreadByField": "region", "minGroups": 2});
        constraint.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        let cluster = json!({"spreadByField": "cluster", "minGroups": 1});
        let placement = json!({"spreadConstraints": [cluster, constraint], "replicaScheduling": strategy});
        json!({"spec": {"placement": placement}}).as_object().unwrap().clone()
    }

    #[test]
    fn s7_a_wish_and_bounds_are_not_lost_under_any_strategy_and_reach_the_bindings() {
        let aggregated = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
        let mut with_bounds = aggregated.clone();
        with_bounds["whenUnsatisfiable"] = json!("ScheduleWhatFits");
        with_bounds["clusterBounds"] = json!([{"targetCluster": {}, "maxReplicas": 2}]);
        let policy = spread(json!({"whenUnsatisfiable": "ScheduleAnyway"}), with_bounds);
        let bare = spread(json!({}), aggregated);
        let (mut restored, mut carried) = (bare.clone(), bare.clone());
        restore(&mut restored, &policy);
        assert_eq!(restored, policy);
        assert!(may_lack(&carried) && carry(&policy, &mut carried) && !carry(&policy, &mut carried));
        assert_eq!(carried, policy);
        assert!(carry(&bare, &mut carried) && carried == bare);
        // The presence of one of the fields means that the client knows them.
        let known = spread(
            json!({"whenUnsatisfiable": "DoNotSchedule"}),
            bare["spec"]["placement"]["replicaScheduling"].clone(),
        );
        let mut written = known.clone();
        restore(&mut written, &policy);
        assert_eq!(written, known);
    }
}
