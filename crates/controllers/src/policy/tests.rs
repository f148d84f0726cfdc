//! Compares scans limited by the index with scans of all bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::policy_index::{BindingEntry, PolicyIndex};
use super::shows_placement;
use super::updates::{self, AffectedBindings, LivePolicies, Updates};
use ballast_api::karmada::policy::v1alpha1::{
    CLUSTER_PROPAGATION_POLICIES, ClusterPropagationPolicy, PROPAGATION_POLICIES, PolicyIds, PropagationPolicy,
};
use ballast_api::karmada::work::v1alpha2::{PartialBinding, RESOURCE_BINDINGS};
use ballast_k8s::{Key, Object, Revision};
use ballast_registry::Change;
use ballast_watch::View;

const SHOP: &str = "shop";

#[derive(Default)]
struct World {
    objects: BTreeMap<Key, Arc<Object>>,
    index: PolicyIndex,
    revision: i64,
}

impl World {
    /// Stores an object, and handles its event as the controller does.
    fn put(&mut self, key: &Key, object: &Value) {
        self.revision += 1;
        let mut object = object.clone();
        if key.resource != RESOURCE_BINDINGS {
            object["metadata"] = json!({"name": *key.name, "labels": id_of(key)});
        }
        let text = serde_json::to_vec(&object).unwrap();
        let object = Arc::new(Object::decode(key.clone(), Revision(self.revision), text.into()).unwrap());
        if key.resource == RESOURCE_BINDINGS {
            let content = object.text.content();
            self.index.upsert(key, BindingEntry::of(&object, &PartialBinding::of(&content).unwrap()));
        }
        self.objects.insert(key.clone(), object);
    }

    fn remove(&mut self, key: &Key) {
        self.objects.remove(key);
        if key.resource == RESOURCE_BINDINGS {
            self.index.forget(key);
        }
    }

    /// Finds the updates for the changed policies by a limited scan and by a full scan.
    fn look(&mut self, changed: &[Key]) -> (Updates, BTreeMap<Key, Map<String, Value>>) {
        let view = View::of(self.objects.values().cloned());
        let (live, changed) = (LivePolicies::of(&view), changed.iter().cloned().collect());
        let affected = updates::affected(&live, &changed, Some(&mut self.index));
        let updates = updates::find(&view, &live, &changed, &affected);
        let all = updates::find(&view, &live, &changed, &AffectedBindings::all(&view));
        for (key, entry, is_selected) in &updates.evaluated {
            self.index.record_selected(key, entry, *is_selected);
        }
        (updates, results(all))
    }

    /// Returns the binding's managers, referenced by name or by id.
    fn named(&self, key: &Key) -> Vec<Key> {
        let binding = &self.objects[key];
        let content = binding.text.content();
        let ids = PolicyIds::of(self.objects.values());
        ids.managers(binding, &PartialBinding::of(&content).unwrap().annotations())
    }
}

fn results(updates: Updates) -> BTreeMap<Key, Map<String, Value>> {
    let result = |change: Change| match change {
        Change::Update { object, .. } => {
            (key(object["metadata"]["name"].as_str().unwrap().trim_start_matches('b').parse().unwrap()), object)
        }
        _ => unreachable!("policies update bindings"),
    };
    updates.stale.into_iter().map(|(_, change)| result(change)).collect()
}

fn key(number: usize) -> Key {
    Key::namespaced(RESOURCE_BINDINGS, SHOP, format!("b{number}"))
}

/// Returns a binding of a Deployment with this label, which references its policy as Karmada does,
/// or by id only.
fn binding(number: usize, team: usize, manager: Option<&Key>, by_id: bool) -> Value {
    let (mut labels, mut annotations) = (json!({"team": format!("t{team}")}), Map::new());
    match manager {
        Some(policy) if by_id => labels.as_object_mut().unwrap().extend(id_of(policy)),
        Some(policy) if policy.resource == PROPAGATION_POLICIES => {
            annotations.insert("propagationpolicy.karmada.io/namespace".to_owned(), json!(SHOP));
            annotations.insert("propagationpolicy.karmada.io/name".to_owned(), json!(*policy.name));
        }
        Some(policy) => {
            annotations.insert("clusterpropagationpolicy.karmada.io/name".to_owned(), json!(*policy.name));
        }
        None => {}
    }
    json!({
        "metadata": {"namespace": SHOP, "name": format!("b{number}"), "labels": labels,
            "annotations": annotations},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": SHOP, "name": format!("web-{number}")},
            "placement": {"clusterAffinity": {"clusterNames": ["none"]}},
        },
    })
}

/// Returns the label with the policy's permanent id.
fn id_of(policy: &Key) -> Map<String, Value> {
    let is_of_namespace = policy.resource == PROPAGATION_POLICIES;
    let label = if is_of_namespace { PropagationPolicy::PERMANENT_ID } else { ClusterPropagationPolicy::PERMANENT_ID };
    Map::from_iter([(label.to_owned(), json!(format!("id of {}", policy.name)))])
}

fn policy(selector: Value, priority: usize, preempts: bool, is_lazy: bool, cluster: &str) -> Value {
    let mut wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    wanted.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
    json!({"spec": {
        "resourceSelectors": [wanted], "priority": priority, "preemption": if preempts { "Always" } else { "Never" },
        "activationPreference": if is_lazy { json!("Lazy") } else { Value::Null },
        "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
    }})
}

fn wide(name: &str) -> Key {
    Key::cluster(CLUSTER_PROPAGATION_POLICIES, name)
}

/// Asserts that both scans agree, stores the updates, and returns the number of evaluated and of
/// changed bindings.
fn renewed(world: &mut World, changed: &[Key]) -> (usize, usize) {
    let (updates, all) = world.look(changed);
    let (looked_at, found) = (updates.looked_at, results(updates));
    assert!(found == all, "{} of {} were found", found.len(), all.len());
    for (key, object) in &found {
        world.put(key, &Value::Object(object.clone()));
    }
    (looked_at, found.len())
}

#[test]
fn a_policy_of_all_namespaces_costs_a_look_at_its_own_bindings() {
    const TEAMS: usize = 20;
    const OF_EACH: usize = 50;
    let mut world = World::default();
    let teams: Vec<Key> = (0..TEAMS).map(|team| wide(&format!("team{team}"))).collect();
    let of_team = |team: usize, cluster: &str| {
        policy(json!({"labelSelector": {"matchLabels": {"team": format!("t{team}")}}}), 0, false, false, cluster)
    };
    for (team, name) in teams.iter().enumerate() {
        world.put(name, &of_team(team, "m1"));
    }
    for number in 0..TEAMS * OF_EACH {
        world.put(&key(number), &binding(number, number % TEAMS, Some(&teams[number % TEAMS]), false));
    }
    // As at start: all policies are evaluated.
    assert_eq!(renewed(&mut world, &teams), (TEAMS * OF_EACH, TEAMS * OF_EACH));
    // The bindings received the ids of their policies, which is a change.
    assert_eq!(renewed(&mut world, &teams), (TEAMS * OF_EACH, 0));

    world.put(&teams[3], &of_team(3, "m2"));
    assert_eq!(renewed(&mut world, &teams[3..4]), (OF_EACH, OF_EACH));

    // The first selects all Deployments and preempts no policy, the second selects a single one.
    let (everything, one) = (wide("everything"), wide("one"));
    world.put(&everything, &policy(json!({}), 5, false, false, "m3"));
    assert_eq!(renewed(&mut world, std::slice::from_ref(&everything)), (0, 0));
    world.put(&one, &policy(json!({"name": "web-7"}), 9, true, false, "m3"));
    assert_eq!(renewed(&mut world, std::slice::from_ref(&one)), (1, 1));

    // The bindings move to the policy for everything.
    world.remove(&teams[4]);
    assert_eq!(renewed(&mut world, &teams[4..5]), (OF_EACH, OF_EACH));
}

#[test]
fn only_a_placement_of_the_spec_is_seen_without_parsing() {
    let shows = |text: &str| shows_placement(text.as_bytes());
    assert!(shows(r#"{"metadata":{"labels":{"placement":"edge"}},"spec":{"placement":{}}}"#));
    assert!(!shows(r#"{"metadata":{"labels":{"placement":"edge"}},"spec":{"replicas":1}}"#));
    assert!(!shows(r#"{"metadata":{"annotations":{"note":"\"placement\":{"}},"spec":{"replicas":1}}"#));
    assert!(!shows(r#"{"spec":{},"status":{"aggregatedStatus":[{"status":{"placement":{}}}]}}"#));
}

#[derive(Clone, Debug)]
enum Step {
    Policy { name: usize, selector: usize, priority: usize, preempts: bool, is_lazy: bool },
    NoPolicy(usize),
    Binding { number: usize, team: usize, manager: usize, by_id: bool },
    NoBinding(usize),
}

const POLICIES: usize = 5;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let policy = (0..POLICIES, 0_usize..5, 0_usize..3, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(name, selector, priority, preempts, is_lazy)| Step::Policy { name, selector, priority, preempts, is_lazy },
    );
    let binding = (0_usize..6, 0_usize..2, 0..=POLICIES, prop::bool::weighted(0.2))
        .prop_map(|(number, team, manager, by_id)| Step::Binding { number, team, manager, by_id });
    let step = prop_oneof![
        4 => policy,
        2 => (0..POLICIES).prop_map(Step::NoPolicy),
        4 => binding,
        1 => (0_usize..6).prop_map(Step::NoBinding),
    ];
    prop::collection::vec(step, 1..40)
}

/// Returns the keys of two namespaced policies and three cluster-wide ones.
fn policy_key(number: usize) -> Key {
    match number {
        0 | 1 => Key::namespaced(PROPAGATION_POLICIES, SHOP, format!("p{number}")),
        _ => wide(&format!("p{number}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The limited scan finds the same updates as a full scan. The full scan also finds bindings
    /// that were reassigned by hand and that no changed policy concerns.
    #[test]
    fn a_look_at_few_finds_what_a_look_at_all_finds(steps in steps()) {
        let mut world = World::default();
        for (count, step) in steps.into_iter().enumerate() {
            let changed = match step {
                Step::Policy { name, selector, priority, preempts, is_lazy } => {
                    let selector = match selector {
                        0 => json!({}),
                        1 | 2 => json!({"labelSelector": {"matchLabels": {"team": format!("t{}", selector - 1)}}}),
                        number => json!({"name": format!("web-{number}")}),
                    };
                    let policy = policy(selector, priority, preempts, is_lazy, &format!("m{count}"));
                    world.put(&policy_key(name), &policy);
                    Some(policy_key(name))
                }
                Step::NoPolicy(name) => {
                    world.remove(&policy_key(name));
                    Some(policy_key(name))
                }
                Step::Binding { number, team, manager, by_id } => {
                    let manager = (manager < POLICIES).then(|| policy_key(manager));
                    world.put(&key(number), &binding(number, team, manager.as_ref(), by_id));
                    None
                }
                Step::NoBinding(number) => {
                    world.remove(&key(number));
                    None
                }
            };
            let Some(changed) = changed else { continue };
            let (updates, all) = world.look(std::slice::from_ref(&changed));
            let found = results(updates);
            for (key, object) in &found {
                prop_assert_eq!(Some(object), all.get(key));
            }
            for (key, object) in all.iter().filter(|(key, _)| !found.contains_key(key)) {
                let parts: BTreeSet<Key> = world.named(key).into_iter().chain(PolicyIds::named(object)).collect();
                prop_assert!(!parts.contains(&changed), "{} has a part in {}", changed, key);
            }
            for (key, object) in found {
                world.put(&key, &Value::Object(object));
            }
        }
    }
}
