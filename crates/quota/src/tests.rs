//! Tests of quotas over many transactions, and of single rules.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::usage::Usage;
use super::*;
use ballast_api::karmada::policy::v1alpha1::FEDERATED_RESOURCE_QUOTAS;
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::{Document, Key, Quantity, Revision};
use ballast_watch::{CommitHookFactory as _, Draft, Write};

fn tree(value: Value) -> serde_json::Map<String, Value> {
    let Value::Object(tree) = value else { panic!("an object") };
    tree
}

/// Returns the written document. A hook never deletes a quota.
fn document_of(write: &Write) -> &Document {
    let Draft::Put(document) = &write.draft else { panic!("a hook deletes no quota") };
    document
}

fn object(key: Key, value: Value) -> Arc<Object> {
    Arc::new(Object::of(key, Revision(1), Revision(1), &Document::new(tree(value))))
}

fn quota(name: &str, overall: Value, status: Value) -> Arc<Object> {
    let key = Key::namespaced(FEDERATED_RESOURCE_QUOTAS, "shop", name);
    object(
        key,
        json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"overall": overall}, "status": status}),
    )
}

fn binding(name: &str, spec: Value) -> Arc<Object> {
    let key = Key::namespaced(RESOURCE_BINDINGS, "shop", name);
    object(key, json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec}))
}

/// Returns a binding of one resource on clusters with these replicas.
fn uses(name: &str, cpu: &str, replicas: &[i64]) -> Arc<Object> {
    let clusters: Vec<Value> =
        replicas.iter().map(|count| json!({"name": format!("m{count}"), "replicas": count})).collect();
    binding(name, json!({"replicaRequirements": {"resourceRequest": {"cpu": cpu}}, "clusters": clusters}))
}

fn used(binding: &Object) -> Vec<(String, String)> {
    Usage::of(binding).iter().map(|(resource, amount)| (resource.to_owned(), amount.to_string())).collect()
}

fn pairs(amounts: &[(&str, &str)]) -> Vec<(String, String)> {
    amounts.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
}

#[test]
fn qu1_a_binding_uses_its_request_for_each_replica_on_each_cluster() {
    let request = json!({"resourceRequest": {"cpu": "100m", "memory": "1Gi", "pods": "0"}});
    let clusters = json!([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 3}]);
    let whole = binding("web", json!({"replicaRequirements": request, "clusters": clusters, "replicas": 9}));
    assert_eq!(used(&whole), pairs(&[("cpu", "0.5"), ("memory", "5368709120")]));
    assert_eq!(used(&binding("web", json!({"replicaRequirements": request}))), []);
    assert_eq!(used(&binding("web", json!({"clusters": clusters}))), []);
}

#[test]
fn qu1_components_are_used_once_on_each_cluster() {
    let component = |replicas: i64, cpu: &str| json!({"name": cpu, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
    let clusters = json!([{"name": "a"}, {"name": "b", "replicas": 7}]);
    let components = json!([component(2, "1"), component(3, "500m"), {"name": "free", "replicas": 4}]);
    assert_eq!(used(&binding("web", json!({"components": components, "clusters": clusters}))), pairs(&[("cpu", "7")]));
}

#[test]
fn qu1_replicas_that_are_being_evicted_count_once_with_those_that_replace_them() {
    let usage = |replicas: i64, assigned: &[i64], leaving: &[(&str, i64)]| {
        let target = |(at, replicas): (usize, &i64)| json!({"name": format!("m{at}"), "replicas": replicas});
        let task = |(cluster, replicas): &(&str, i64)| json!({"fromCluster": cluster, "replicas": replicas});
        let spec = json!({
            "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "clusters": assigned.iter().enumerate().map(target).collect::<Vec<_>>(),
            "gracefulEvictionTasks": leaving.iter().map(task).collect::<Vec<_>>(),
        });
        Usage::of(&binding("web", spec)).get("cpu").to_string()
    };
    assert_eq!(usage(6, &[], &[("a", 6)]), "6", "the share of the quota stays");
    assert_eq!(usage(6, &[6], &[("a", 6)]), "6", "a failover exceeds no quota");
    assert_eq!(usage(6, &[4], &[("a", 2)]), "6");
    assert_eq!(usage(6, &[6, 6, 6], &[("a", 6), ("b", 6)]), "18", "copies are replaced by copies");
    assert_eq!(usage(6, &[6], &[("m0", 6)]), "6", "the cluster is a target again");
    assert_eq!(usage(1, &[], &[("a", 100), ("b", 100)]), "199", "more than the workload has");
}

/// The object before and after a write.
type Written = (Option<Arc<Object>>, Option<Arc<Object>>);

/// Returns the status after these writes in one transaction, or the first refusal.
fn after(view: &mut View, writes: Vec<Written>) -> Result<Vec<Value>, String> {
    let mut hook = Quotas.begin();
    for (before, after) in writes {
        hook.on_write(view, before.as_ref(), after.as_ref()).map_err(|status| {
            assert_eq!((status.code, status.reason.as_str()), (403, "QuotaExceeded"));
            status.message
        })?;
    }
    let written = hook.finish(view).into_iter();
    let texts =
        written.map(|write| serde_json::from_slice::<Value>(&document_of(&write).at(Revision(2)).whole()).unwrap());
    Ok(texts.map(|object| object["status"].clone()).collect())
}

#[test]
fn qu3_the_refusal_names_the_quota_the_resource_the_sum_and_the_limit() {
    let overall = json!({"cpu": "0.02"});
    let mut view = View::of([quota("q", overall.clone(), json!({"overall": overall, "overallUsed": {"cpu": "10m"}}))]);
    let create = |replicas| vec![(None, Some(uses("web", "10m", &[replicas])))];
    assert_eq!(
        after(&mut view, create(7)).unwrap_err(),
        "FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 80m, limit 20m."
    );
    let status = json!({"overall": {"cpu": "0.02"}, "overallUsed": {"cpu": "20m"}});
    assert_eq!(after(&mut view, create(1)).unwrap(), [status]);
    assert_eq!(after(&mut view, create(0)).unwrap(), Vec::<Value>::new(), "a difference of zero is none");
}

#[test]
fn qu2_all_quotas_take_it_or_none() {
    let told = |overall: Value| json!({"overall": overall});
    let quota = |name: &str, cpu: &str| quota(name, json!({"cpu": cpu}), told(json!({"cpu": cpu})));
    let mut view = View::of([quota("a", "9"), quota("b", "5")]);
    let writes = vec![(None, Some(uses("one", "1", &[4])))];
    let [a, b]: [Value; 2] = after(&mut view, writes).unwrap().try_into().unwrap();
    assert_eq!((&a["overallUsed"], &b["overallUsed"]), (&json!({"cpu": "4"}), &json!({"cpu": "4"})));
    let mut hook = Quotas.begin();
    let refused = hook.on_write(&view, None, Some(&uses("one", "1", &[6]))).unwrap_err();
    assert!(refused.message.contains("(shop/b)"), "{}", refused.message);
    assert!(hook.finish(&view).is_empty(), "the other one has not taken it either");
}

#[test]
fn qu3_what_is_over_the_limit_may_shrink_and_move() {
    let overall = json!({"cpu": "2"});
    let mut view = View::of([quota("q", overall.clone(), json!({"overall": overall, "overallUsed": {"cpu": "5"}}))]);
    let whole = uses("web", "1", &[2, 3]);
    let moved = vec![(Some(whole.clone()), Some(uses("web", "1", &[4, 1])))];
    assert_eq!(after(&mut view, moved).unwrap(), Vec::<Value>::new());
    let shrunk = vec![(Some(whole.clone()), Some(uses("web", "1", &[4])))];
    assert_eq!(after(&mut view, shrunk).unwrap()[0]["overallUsed"], json!({"cpu": "4"}));
    let gone = vec![(Some(whole.clone()), None)];
    assert_eq!(after(&mut view, gone).unwrap()[0]["overallUsed"], Value::Null);
    let grown = vec![(Some(whole), Some(uses("web", "1", &[4, 2])))];
    assert!(after(&mut view, grown).is_err());
}

#[test]
fn a_quota_that_others_write_is_counted_anew() {
    let lying = json!({"overall": {"cpu": "9"}, "overallUsed": {"cpu": "8"}});
    let written = quota("q", json!({"cpu": "9", "memory": "1Gi"}), lying);
    let mut view = View::of([uses("web", "500m", &[3]), written.clone()]);
    let status = json!({"overall": {"cpu": "9", "memory": "1Gi"}, "overallUsed": {"cpu": "1500m"}});
    assert_eq!(after(&mut view, vec![(None, Some(written))]).unwrap(), [status]);
}

#[test]
fn there_is_more_room_where_the_limit_rises_or_the_use_falls() {
    let quota = |overall: Value, used: Value| quota("q", overall, json!({"overallUsed": used}));
    let before = quota(json!({"cpu": "5", "memory": "1Gi"}), json!({"cpu": "5", "memory": "0"}));
    let grows = |overall: Value, used: Value| has_more_capacity(Some(&before), Some(&quota(overall, used)));
    assert!(grows(json!({"cpu": "6", "memory": "1Gi"}), json!({"cpu": "5"})));
    assert!(grows(json!({"cpu": "5", "memory": "1Gi"}), json!({"cpu": "4"})));
    assert!(grows(json!({"memory": "1Gi"}), json!({})));
    assert!(!grows(json!({"cpu": "5", "memory": "512Mi"}), json!({"cpu": "5"})));
    assert!(has_more_capacity(Some(&before), None) && !has_more_capacity(None, Some(&before)));
}

const NAMES: usize = 5;

#[derive(Clone, Debug)]
enum Operation {
    /// Writes a binding: its name, its request in thousandths, and its replicas by cluster.
    Write(usize, i64, Vec<i64>),
    Delete(usize),
    /// Writes a quota: its name, and its limit in thousandths.
    Limit(usize, i64),
    Drop(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0..NAMES, 0_i64..40, prop::collection::vec(0_i64..4, 0..3)).prop_map(|(name, cpu, on)| Operation::Write(name, cpu, on)),
        2 => (0..NAMES).prop_map(Operation::Delete),
        2 => (0..2_usize, 0_i64..400).prop_map(|(name, limit)| Operation::Limit(name, limit)),
        1 => (0..2_usize).prop_map(Operation::Drop),
    ]
}

/// Returns the usage of all bindings, computed independently.
fn sum(view: &View) -> Quantity {
    let bindings = view.list(RESOURCE_BINDINGS, Some("shop"));
    bindings.fold(Quantity::ZERO, |sum, binding| {
        let spec = &binding.value().unwrap()["spec"];
        let cpu = spec["replicaRequirements"]["resourceRequest"]["cpu"].as_str().unwrap().parse::<Quantity>().unwrap();
        let replicas = spec["clusters"].as_array().unwrap().iter().map(|on| on["replicas"].as_i64().unwrap());
        sum.plus(Quantity::from_millis(cpu.millis() * replicas.sum::<i64>()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over any transactions, the reported usage of a quota is that of its bindings, and no
    /// accepted write raises it above the limit.
    #[test]
    fn qu5_what_is_told_is_the_sum_and_no_write_raises_it_above_the_limit(
        transactions in prop::collection::vec(prop::collection::vec(operation(), 1..5), 1..12),
    ) {
        let mut state: BTreeMap<Key, Arc<Object>> = BTreeMap::new();
        let view = |state: &BTreeMap<Key, Arc<Object>>| View::of(state.values().cloned());
        for steps in transactions {
            let mut hook = Quotas.begin();
            for step in steps {
                let (key, after) = match step {
                    Operation::Write(name, cpu, on) => {
                        let after = uses(&format!("b{name}"), &format!("{cpu}m"), &on);
                        (after.key.clone(), Some(after))
                    }
                    Operation::Delete(name) => (Key::namespaced(RESOURCE_BINDINGS, "shop", format!("b{name}").as_str()), None),
                    Operation::Limit(name, limit) => {
                        // The client sends an arbitrary status.
                        let after = quota(&format!("q{name}"), json!({"cpu": format!("{limit}m")}), json!({}));
                        (after.key.clone(), Some(after))
                    }
                    Operation::Drop(name) => (Key::namespaced(FEDERATED_RESOURCE_QUOTAS, "shop", format!("q{name}").as_str()), None),
                };
                let before = state.get(&key).cloned();
                let was = sum(&view(&state));
                if hook.on_write(&view(&state), before.as_ref(), after.as_ref()).is_err() {
                    continue;
                }
                match after {
                    Some(after) => drop(state.insert(key.clone(), after)),
                    None => drop(state.remove(&key)),
                }
                let now = sum(&view(&state));
                for quota in view(&state).list(FEDERATED_RESOURCE_QUOTAS, Some("shop")) {
                    let limit = quota.value().unwrap()["spec"]["overall"]["cpu"].as_str().unwrap().parse::<Quantity>().unwrap();
                    prop_assert!(now <= was || now <= limit || key.resource == FEDERATED_RESOURCE_QUOTAS);
                }
            }
            for write in hook.finish(&view(&state)) {
                let written = Object::of(write.key.clone(), Revision(2), Revision(1), document_of(&write));
                state.insert(write.key.clone(), Arc::new(written));
            }
            for quota in view(&state).list(FEDERATED_RESOURCE_QUOTAS, Some("shop")) {
                let told = quota.value().unwrap()["status"]["overallUsed"]["cpu"].clone();
                let told = told.as_str().map_or(Quantity::ZERO, |told| told.parse::<Quantity>().unwrap());
                prop_assert_eq!(told, sum(&view(&state)));
            }
        }
    }
}
