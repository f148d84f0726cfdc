//! Fields that upstream does not have, and clients that do not know them.
//!
//! Karmada's controllers and webhook read policies and bindings into their own types, which lack
//! these fields, and write them back. Without `restore` the first such write would remove the
//! fields. `carry` copies the fields of a policy to its bindings, because Karmada's detector copies
//! only the fields that it knows.
//!
//! Differs from Karmada (D54).

use serde_json::Value;

use super::placement::Placement;
use crate::tree::{self, Object};

/// The fields of a strategy that upstream's type lacks.
const OF_STRATEGY: [&str; 3] = ["specifyPreference", "extendReplicaDivisionPreference", "extendClusterPreferences"];
/// If these fields of a strategy are unchanged, it is still the same strategy.
const SAYS_WHICH: [&str; 2] = ["replicaSchedulingType", "replicaDivisionPreference"];
const STRATEGY: [&str; 3] = ["spec", "placement", "replicaScheduling"];
const FORCE: &str = "forceRescheduling";

/// Restores the fields that were lost because a client does not know them. `before` is the object
/// that the client read. If the object still has one of the fields, or another strategy, the
/// missing fields count as removed on purpose.
pub fn restore(object: &mut Object, before: &Object) {
    let known = |name: &str| before.get("spec")?.get(name).cloned();
    if known(FORCE) == Some(Value::Bool(true))
        && let Some(spec) = tree::object(object, &["spec"])
    {
        spec.entry(FORCE).or_insert(Value::Bool(true));
    }
    let Some(was) = strategy(before) else { return };
    let Some(is) = tree::object(object, &STRATEGY) else { return };
    let is_same = SAYS_WHICH.iter().all(|name| tree::text(is, name) == tree::text(was, name));
    if is_same && !has_own(is) {
        is.extend(own(was));
    }
}

/// Copies the fields of a policy to its binding, if the rest of the placement is equal. Returns
/// whether that changed anything.
pub fn carry(policy: &Object, binding: &mut Object) -> bool {
    let wanted = strategy(policy).map(own).unwrap_or_default();
    let there = strategy(binding).map(own).unwrap_or_default();
    if wanted == there || !has_same_rest(policy, binding) {
        return false;
    }
    let Some(strategy) = tree::object(binding, &STRATEGY) else { return false };
    OF_STRATEGY.iter().for_each(|name| drop(strategy.remove(*name)));
    strategy.extend(wanted);
    true
}

/// Whether the object has a strategy that can have these fields, and has none of them.
pub fn may_lack(object: &Object) -> bool {
    let takes = |strategy: &Object| ["", "Specified"].contains(&tree::text(strategy, "replicaDivisionPreference"));
    strategy(object).is_some_and(|strategy| takes(strategy) && !has_own(strategy))
}

/// Whether these fields are equal in both objects.
pub fn has_same_own(one: &Object, other: &Object) -> bool {
    let [one, other] = [strategy(one), strategy(other)];
    let is_alike = |name: &&str| one.and_then(|one| one.get(*name)) == other.and_then(|other| other.get(*name));
    one.is_some() == other.is_some() && OF_STRATEGY.iter().all(is_alike)
}

/// Whether two objects have the same placement, apart from these fields. Upstream leaves out empty
/// lists and objects, so an absent one equals an empty one.
pub fn has_same_rest(one: &Object, other: &Object) -> bool {
    // Their texts are nearly always equal, and need no parsing then.
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
    }
    Some(placement)
}

fn strategy(object: &Object) -> Option<&Object> {
    placement(object)?.get("replicaScheduling")?.as_object()
}

fn has_own(strategy: &Object) -> bool {
    OF_STRATEGY.iter().any(|name| strategy.contains_key(*name))
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
}
