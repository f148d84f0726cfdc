//! Decides which policy a binding has, and what the policy makes of it. Pure.
//!
//! The fields that Karmada copies from a policy are made equal to the policy's. A Lazy policy
//! changes nothing by itself: its bindings keep the placement that they were made with (R7, R49).
//!
//! Where policies overlap, upstream's order decides: the namespace's own policy before a
//! cluster-wide one, then the higher priority, then the closer selector (by name, by labels, by
//! kind), then the name. A binding keeps its policy until that is gone, no longer selects it, or is
//! preempted by one before it (`preemption: Always`).

use std::cmp::Reverse;

use serde_json::{Map, Value};

use ballast_api::karmada::policy::v1alpha1::{Closeness, PROPAGATION_POLICIES, PolicyIds, PolicyOutline, Template};
use ballast_k8s::Key;

/// The fields of a policy's spec that bindings have under the same name. `schedulePriority` is
/// absent: only the host cluster's PriorityClass knows its number, so the writer of the binding
/// sets it.
const COPIED: [&str; 6] =
    ["placement", "propagateDeps", "schedulerName", "failover", "conflictResolution", "preserveResourcesOnDeletion"];

pub type Tree = Map<String, Value>;

/// A policy with its name.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    pub key: &'a Key,
    pub outline: &'a PolicyOutline,
}

/// Returns the policy that takes over a binding from `manager`, or one that has lost its policy.
pub fn successor<'a>(manager: Option<Policy<'a>>, all: &[Policy<'a>], template: &Template<'_>) -> Option<Policy<'a>> {
    let claims = all.iter().filter(|policy| policy.outline.is_active());
    let claims = claims.filter_map(|policy| Some((rank(*policy, template)?, *policy)));
    let before = manager.map(|manager| manager.standing());
    claims
        .filter(|(rank, policy)| before.is_none_or(|before| policy.outline.preempts() && (rank.0, rank.1) > before))
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, policy)| policy)
}

impl<'a> Policy<'a> {
    pub fn is_of_namespace(&self) -> bool {
        self.key.resource == PROPAGATION_POLICIES
    }

    /// Returns the part of the rank that does not depend on the template. A policy that preempts
    /// takes templates from policies with a lower standing.
    pub fn standing(&self) -> (bool, i64) {
        (self.is_of_namespace(), self.outline.priority())
    }

    /// Returns whether the policy selects templates of this kind by labels or without a name.
    pub fn selects_widely(&self, api_version: &str, kind: &str) -> bool {
        self.outline
            .selectors()
            .iter()
            .any(|selector| selector.name().is_none() && selector.is_of_kind(api_version, kind))
    }

    /// Returns the API versions, kinds and names of the templates that the policy selects by name.
    pub fn selected_names(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> + use<'a> {
        let selectors = self.outline.selectors();
        selectors.iter().filter_map(|selector| Some((selector.api_version(), selector.kind(), selector.name()?)))
    }

    /// Returns whether the policy may select the template, as far as is known.
    pub fn may_select(&self, template: &Template<'_>) -> bool {
        template.may_be_selected(self.key, self.outline.selectors())
    }

    fn closeness(&self, template: &Template<'_>) -> Option<Closeness> {
        template.closeness(self.key, self.outline.selectors())
    }
}

type PolicyRank<'a> = (bool, i64, Closeness, Reverse<&'a str>);

/// Ranks the policy for the template; `None` if not selected. The greatest rank wins.
fn rank<'a>(policy: Policy<'a>, template: &Template<'_>) -> Option<PolicyRank<'a>> {
    let closeness = policy.closeness(template)?;
    let (is_of_namespace, priority) = policy.standing();
    Some((is_of_namespace, priority, closeness, Reverse(&*policy.key.name)))
}

/// Returns the binding with `policy` as its manager and with its fields, or `None` if nothing
/// changes.
pub fn renewed(policy: &Key, tree: &Tree, mut binding: Tree) -> Option<Tree> {
    let before = binding.get("metadata").cloned();
    PolicyIds::claim(policy, tree, &mut binding);
    let mut changed = binding.get("metadata") != before.as_ref();
    let wanted = tree.get("spec")?.as_object()?;
    let spec = binding.get_mut("spec")?.as_object_mut()?;
    let suspension = suspension(wanted.get("suspension"), spec.get("suspension"));
    let copied = COPIED.into_iter().map(|field| (field, wanted.get(field).cloned()));
    for (field, value) in copied.chain([("suspension", suspension)]) {
        if value.as_ref() == spec.get(field) {
            continue;
        }
        match value {
            Some(value) => drop(spec.insert(field.to_owned(), value)),
            None => drop(spec.remove(field)),
        }
        changed = true;
    }
    changed.then_some(binding)
}

/// Merges the suspensions. The policy determines the dispatching, and the binding the scheduling.
fn suspension(policy: Option<&Value>, binding: Option<&Value>) -> Option<Value> {
    let scheduling = binding.and_then(|suspension| suspension.get("scheduling"));
    let mut merged = policy.cloned().or_else(|| scheduling.map(|_| Value::Object(Tree::new())))?;
    if let (Some(scheduling), Some(merged)) = (scheduling, merged.as_object_mut()) {
        merged.insert("scheduling".to_owned(), scheduling.clone());
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ballast_api::karmada::policy::v1alpha1::CLUSTER_PROPAGATION_POLICIES;
    use ballast_api::karmada::work::v1alpha2::ObjectReference;

    fn object(value: Value) -> Tree {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn r121_the_binding_gets_the_policy_s_placement_and_loses_what_the_policy_lacks() {
        let policy = object(json!({"spec": {"placement": {"clusterTolerations": []}, "priority": 3}}));
        let binding = object(json!({"spec": {"replicas": 2, "placement": {}, "failover": {}}}));
        let expected = object(json!({"spec": {"replicas": 2, "placement": {"clusterTolerations": []}}}));
        let key = own("policy");
        assert_eq!(renewed(&key, &policy, binding), Some(expected.clone()));
        assert_eq!(renewed(&key, &policy, expected), None);
    }

    #[test]
    fn a_policy_suspends_what_is_sent_and_leaves_the_scheduling_alone() {
        let policy = object(json!({"spec": {"suspension": {"dispatching": true}}}));
        let resumed = object(json!({"spec": {}}));
        for (policy, binding, expected) in [
            (&policy, json!({}), json!({"suspension": {"dispatching": true}})),
            (
                &policy,
                json!({"suspension": {"scheduling": true}}),
                json!({"suspension": {"dispatching": true, "scheduling": true}}),
            ),
            (
                &resumed,
                json!({"suspension": {"dispatching": true, "scheduling": true}}),
                json!({"suspension": {"scheduling": true}}),
            ),
            (&resumed, json!({"suspension": {"dispatching": true}}), json!({})),
        ] {
            let binding = object(json!({"spec": binding}));
            let key = own("policy");
            let renewed_once = renewed(&key, policy, binding).unwrap();
            assert_eq!(renewed_once["spec"], expected);
            assert_eq!(renewed(&key, policy, renewed_once), None);
        }
    }

    #[test]
    fn a_binding_of_the_policy_is_named_as_upstream_names_it() {
        let id = "propagationpolicy.karmada.io/permanent-id";
        let tree = object(json!({"metadata": {"labels": {id: "new"}}, "spec": {}}));
        let key = own("policy");
        let names = json!({
            "propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "policy", "a": "b",
        });
        let expected = object(json!({"metadata": {"labels": {id: "new"}, "annotations": names}, "spec": {}}));
        let cluster_wide = json!({"clusterpropagationpolicy.karmada.io/name": "former", "a": "b"});
        for metadata in [
            json!({"labels": {id: "old"}, "annotations": {"a": "b"}}),
            json!({"annotations": names}),
            json!({"labels": {"propagationpolicy.karmada.io/name": "older"}, "annotations": cluster_wide}),
        ] {
            let binding = object(json!({"metadata": metadata, "spec": {}}));
            assert_eq!(renewed(&key, &tree, binding), Some(expected.clone()), "{metadata}");
        }
        assert_eq!(renewed(&key, &tree, expected), None);
    }

    #[test]
    fn r7_a_lazy_policy_does_not_reach_its_bindings() {
        let is_active = |spec: Value| PolicyOutline::of(&object(json!({"spec": spec}))).is_active();
        assert!(!is_active(json!({"activationPreference": "Lazy"})));
        assert!(is_active(json!({})));
    }

    fn own(name: &str) -> Key {
        Key::namespaced(PROPAGATION_POLICIES, "shop", name)
    }

    fn wide(name: &str) -> Key {
        Key::cluster(CLUSTER_PROPAGATION_POLICIES, name)
    }

    fn selecting(selector: Value, priority: i64, preemption: &str) -> Tree {
        let mut wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        wanted.as_object_mut().unwrap().extend(object(selector));
        object(json!({"spec": {"resourceSelectors": [wanted], "priority": priority, "preemption": preemption}}))
    }

    fn policy(name: Option<&str>, priority: i64, preemption: &str) -> Tree {
        selecting(json!({"name": name}), priority, preemption)
    }

    /// Returns a policy that selects by these labels.
    fn labelled(selector: Value) -> Tree {
        selecting(json!({"labelSelector": selector}), 0, "Never")
    }

    const UNTOLD: &[(&str, &str)] = &[("propagationpolicy.karmada.io/permanent-id", "1")];
    const GOLD: &[(&str, &str)] = &[("propagationpolicy.karmada.io/permanent-id", "1"), ("tier", "gold")];

    fn web() -> ObjectReference {
        let (namespace, name) = (Some("shop".to_owned()), "web".to_owned());
        ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace,
            name,
            ..ObjectReference::default()
        }
    }

    /// Returns the name of the successor of the manager of the deployment `shop/web`.
    fn follows_with(labels: &[(&str, &str)], manager: Option<(&Key, &Tree)>, all: &[(Key, Tree)]) -> Option<String> {
        let outlines: Vec<PolicyOutline> = all.iter().map(|(_, tree)| PolicyOutline::of(tree)).collect();
        let all = all.iter().zip(&outlines).map(|((key, _), outline)| Policy { key, outline });
        let manager = manager.map(|(key, tree)| (key, PolicyOutline::of(tree)));
        let manager = manager.as_ref().map(|(key, outline)| Policy { key, outline });
        let resource = web();
        let template = Template::new(&resource, labels.iter().copied());
        successor(manager, &all.collect::<Vec<_>>(), &template).map(|policy| policy.key.name.to_string())
    }

    fn follows(manager: Option<(&Key, &Tree)>, all: &[(Key, Tree)]) -> Option<String> {
        follows_with(GOLD, manager, all)
    }

    #[test]
    fn the_order_of_overlapping_policies_is_upstream_s() {
        let gold = || labelled(json!({"matchLabels": {"tier": "gold"}}));
        let steps = [
            (wide("all"), policy(None, 9, "Never")),
            (own("z-any"), policy(None, 0, "Never")),
            (own("z-gold"), gold()),
            (own("y-gold"), gold()),
            (own("b-named"), policy(Some("web"), 0, "Never")),
            (own("a-named"), policy(Some("web"), 0, "Never")),
            (own("high"), policy(None, 1, "Never")),
        ];
        for (count, (key, _)) in steps.iter().enumerate() {
            assert_eq!(follows(None, &steps[..=count]).as_deref(), Some(&*key.name));
        }
        let strangers = [
            (own("other"), policy(Some("api"), 9, "Always")),
            (own("silver"), labelled(json!({"matchLabels": {"tier": "silver"}}))),
            (own("elsewhere"), selecting(json!({"namespace": "office"}), 9, "Always")),
            (Key::namespaced(PROPAGATION_POLICIES, "office", "elsewhere"), policy(None, 9, "Always")),
        ];
        assert_eq!(follows(None, &strangers), None);
    }

    #[test]
    fn of_a_template_without_known_labels_no_selector_by_labels_says_anything() {
        let absent = labelled(json!({"matchExpressions": [{"key": "legacy", "operator": "DoesNotExist"}]}));
        let gold = labelled(json!({"matchLabels": {"tier": "gold"}}));
        let any = labelled(json!({}));
        for (tree, labels, claims, keeps) in [
            (&absent, GOLD, true, true),
            (&absent, UNTOLD, false, true),
            (&gold, GOLD, true, true),
            (&gold, UNTOLD, false, true),
            (&gold, &[("tier", "silver")][..], false, false),
            // An empty selector matches every set of labels, even an unknown one.
            (&any, UNTOLD, true, true),
            (&policy(Some("api"), 0, "Never"), UNTOLD, false, false),
        ] {
            let key = own("policy");
            let claimed = follows_with(labels, None, &[(key.clone(), tree.clone())]);
            assert_eq!(claimed.is_some(), claims, "{tree:?} {labels:?}");
            let (resource, outline) = (web(), PolicyOutline::of(tree));
            let template = Template::new(&resource, labels.iter().copied());
            assert_eq!(Policy { key: &key, outline: &outline }.may_select(&template), keeps, "{tree:?}");
        }
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
