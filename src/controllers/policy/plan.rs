//! What policies mean for a binding: whose it is, and what its policy makes of it. Pure.
//!
//! The fields that Karmada copies from a policy are made equal to the policy's. A Lazy policy changes
//! nothing by itself: bindings keep the placement they were made with (R7, R49).
//!
//! Where policies overlap, upstream's order decides: the namespace's own policy before a cluster-wide one, then the
//! higher priority, then the one that names the resource, then the name. Who manages a binding keeps it until its
//! policy is gone, or until a policy that comes before it preempts (`preemption: Always`).
//!
//! Deliberately absent: selectors by label. Labels are the template's, which only its detector knows.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use crate::api::karmada::policy::v1alpha1::{PROPAGATION_POLICIES, PolicyIds};
use crate::k8s::Key;

/// The fields of a policy's spec that bindings carry under the same name.
const COPIED: [&str; 6] =
    ["placement", "propagateDeps", "schedulerName", "failover", "conflictResolution", "preserveResourcesOnDeletion"];

pub type Tree = Map<String, Value>;

/// A policy with its name.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    pub key: &'a Key,
    pub tree: &'a Tree,
}

/// Whether changes of the policy reach its bindings.
pub fn is_active(policy: &Tree) -> bool {
    policy.get("spec").is_some_and(|spec| spec["activationPreference"] != "Lazy")
}

/// Who is to manage a binding of `resource` that `manager` manages, or that has lost its manager.
pub fn successor<'a>(manager: Option<Policy<'a>>, all: &[Policy<'a>], resource: &Value) -> Option<Policy<'a>> {
    let claims = all.iter().filter(|policy| is_active(policy.tree));
    let claims = claims.filter_map(|policy| Some((rank(*policy, resource)?, *policy)));
    let before = manager.map(|manager| (manager.is_of_namespace(), manager.priority()));
    claims
        .filter(|(rank, policy)| before.is_none_or(|before| policy.preempts() && (rank.0, rank.1) > before))
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, policy)| policy)
}

impl Policy<'_> {
    pub fn is_of_namespace(&self) -> bool {
        self.key.resource == PROPAGATION_POLICIES
    }

    pub fn priority(&self) -> i64 {
        self.spec("priority").and_then(Value::as_i64).unwrap_or_default()
    }

    fn preempts(&self) -> bool {
        self.spec("preemption").is_some_and(|preemption| preemption == "Always")
    }

    fn spec(&self, field: &str) -> Option<&Value> {
        self.tree.get("spec")?.get(field)
    }
}

type Rank<'a> = (bool, i64, bool, Reverse<&'a str>);

/// None: the policy does not select the resource. The greatest prevails.
fn rank<'a>(policy: Policy<'a>, resource: &Value) -> Option<Rank<'a>> {
    let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    if policy.is_of_namespace() && *policy.key.namespace != *text(resource, "namespace") {
        return None;
    }
    let selects = |selector: &Value| {
        let same = |field: &str| text(selector, field) == text(resource, field);
        let (name, namespace) = (text(selector, "name"), text(selector, "namespace"));
        let is_of_kind = same("apiVersion") && same("kind") && (namespace.is_empty() || same("namespace"));
        match name.as_str() {
            _ if !is_of_kind => None,
            "" => selector["labelSelector"].is_null().then_some(false),
            _ => same("name").then_some(true),
        }
    };
    let names_it = policy.spec("resourceSelectors")?.as_array()?.iter().filter_map(selects).max()?;
    Some((policy.is_of_namespace(), policy.priority(), names_it, Reverse(&*policy.key.name)))
}

/// The binding with `policy` as its manager and as the policy wants it.
pub fn claimed(policy: Policy<'_>, mut binding: Tree) -> Option<Tree> {
    PolicyIds::claim(policy.key, policy.tree, &mut binding);
    renewed(policy.tree, binding.clone()).or(Some(binding))
}

/// The binding as its policy wants it; `None` where it is so already.
pub fn renewed(policy: &Tree, mut binding: Tree) -> Option<Tree> {
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
    use crate::api::karmada::policy::v1alpha1::CLUSTER_PROPAGATION_POLICIES;

    fn object(value: Value) -> Tree {
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

    fn own(name: &str) -> Key {
        Key::namespaced(PROPAGATION_POLICIES, "shop", name)
    }

    fn wide(name: &str) -> Key {
        Key::cluster(CLUSTER_PROPAGATION_POLICIES, name)
    }

    fn policy(name: Option<&str>, priority: i64, preemption: &str) -> Tree {
        let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        object(json!({"spec": {"resourceSelectors": [selector], "priority": priority, "preemption": preemption}}))
    }

    /// The name of the successor among the others of whoever manages the deployment `shop/web`.
    fn follows(manager: Option<(&Key, &Tree)>, all: &[(Key, Tree)]) -> Option<String> {
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"});
        let all: Vec<Policy<'_>> = all.iter().map(|(key, tree)| Policy { key, tree }).collect();
        let manager = manager.map(|(key, tree)| Policy { key, tree });
        successor(manager, &all, &resource).map(|policy| policy.key.name.to_string())
    }

    #[test]
    fn the_order_of_overlapping_policies_is_upstream_s() {
        let steps = [
            (wide("all"), policy(None, 9, "Never")),
            (own("z-any"), policy(None, 0, "Never")),
            (own("b-named"), policy(Some("web"), 0, "Never")),
            (own("a-named"), policy(Some("web"), 0, "Never")),
            (own("high"), policy(None, 1, "Never")),
        ];
        for (count, expected) in [(1, "all"), (2, "z-any"), (3, "b-named"), (4, "a-named"), (5, "high")] {
            assert_eq!(follows(None, &steps[..count]).as_deref(), Some(expected));
        }
        let strangers = [
            (own("other"), policy(Some("api"), 9, "Always")),
            (Key::namespaced(PROPAGATION_POLICIES, "office", "elsewhere"), policy(None, 9, "Always")),
        ];
        assert_eq!(follows(None, &strangers), None);
    }

    #[test]
    fn a_manager_gives_way_only_to_who_comes_before_it_and_preempts() {
        let (manager, tree) = (own("manager"), policy(None, 3, "Never"));
        let manager = Some((&manager, &tree));
        assert_eq!(follows(manager, &[(own("polite"), policy(None, 5, "Never"))]), None);
        assert_eq!(follows(manager, &[(own("equal"), policy(None, 3, "Always"))]), None);
        assert_eq!(follows(manager, &[(wide("wide"), policy(None, 9, "Always"))]), None);
        assert_eq!(follows(manager, &[(own("first"), policy(None, 4, "Always"))]).as_deref(), Some("first"));
        let (wide_manager, tree) = (wide("manager"), policy(None, 9, "Never"));
        let of_namespace = [(own("own"), policy(None, 0, "Always"))];
        assert_eq!(follows(Some((&wide_manager, &tree)), &of_namespace).as_deref(), Some("own"));
    }
}
