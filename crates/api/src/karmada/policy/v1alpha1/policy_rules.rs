//! Defaults and validation of the spec of policies beyond the schema, as in upstream's webhook.

use serde_json::{Value, json};

use super::failover::{ApplicationFailoverBehavior, PurgeMode, StatePreservation};
use super::placement_price;
use super::placement_rules;
use super::propagation_spec::{Preemption, PropagationSpec};
use super::resource_selector::ResourceSelector;
use super::selector_rules;
use super::specified_replicas;
use crate::tree::{self, Object};
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Upstream's default for the grace period of an eviction, in seconds.
const GRACE_PERIOD_SECONDS: i32 = 600;

/// Sets upstream's defaults, for both policies.
pub fn prepare_spec(spec: &mut Object) {
    let wants_service_imports = tree::items(spec, "resourceSelectors").any(|(_, selector)| {
        tree::text(selector, "kind") == "ServiceImport"
            && tree::text(selector, "apiVersion") == "multicluster.x-k8s.io/v1alpha1"
    });
    if wants_service_imports {
        // A ServiceImport depends on the Service that is derived from it.
        spec.insert("propagateDeps".to_owned(), json!(true));
    }
    if let Some(application) = tree::object(spec, &["failover", "application"])
        && ["Gracefully", "Graciously"].contains(&tree::text(application, "purgeMode"))
    {
        application.entry("gracePeriodSeconds").or_insert(json!(GRACE_PERIOD_SECONDS));
    }
    if let Some(placement) = tree::object(spec, &["placement"]) {
        prepare_placement(placement);
    }
}

/// Sets the namespace of the selectors of a namespaced policy, where they have none.
pub fn fill_namespaces(policy: &mut Object) {
    let namespace = policy.get("metadata").and_then(|metadata| metadata.get("namespace")).cloned();
    let Some(spec) = tree::object(policy, &["spec"]) else { return };
    for (_, selector) in tree::items(spec, "resourceSelectors") {
        if tree::text(selector, "namespace").is_empty() {
            selector.extend(namespace.clone().map(|namespace| ("namespace".to_owned(), namespace)));
        }
    }
}

fn prepare_placement(placement: &mut Object) {
    for (_, constraint) in tree::items(placement, "spreadConstraints") {
        if tree::text(constraint, "spreadByField").is_empty() && tree::text(constraint, "spreadByLabel").is_empty() {
            constraint.insert("spreadByField".to_owned(), json!("cluster"));
        }
        let fewest = constraint.entry("minGroups").or_insert(Value::Null);
        if fewest.is_null() || *fewest == 0 {
            *fewest = json!(1);
        }
    }
    if let Some(strategy) = tree::object(placement, &["replicaScheduling"])
        && tree::text(strategy, "replicaSchedulingType") == "Divided"
        && tree::text(strategy, "extendReplicaDivisionPreference").is_empty()
    {
        strategy.entry("replicaDivisionPreference").or_insert(json!("Weighted"));
    }
}

/// Checks the rules that both policies share.
pub fn check(spec: &PropagationSpec, old: Option<&PropagationSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let path = FieldPath::new("spec");
    check_selectors(spec, &path.child("resourceSelectors"), &mut errors);
    errors.append(selector_rules::added(spec, old, |spec, errors| {
        selector_rules::check_resources(&spec.resource_selectors, &path.child("resourceSelectors"), errors);
        if let Some(placement) = &spec.placement {
            selector_rules::check_placement(placement, &path.child("placement"), errors);
            placement_price::check(placement, &path.child("placement"), errors);
        }
    }));
    if let Some(placement) = &spec.placement {
        let path = path.child("placement");
        placement_rules::check(placement, &path, &mut errors);
        if let Some(strategy) = &placement.replica_scheduling {
            let path = path.child("replicaScheduling");
            specified_replicas::check_extension(spec.scheduler_name.as_deref(), strategy, &path, &mut errors);
        }
    }
    check_failover(spec, &path, &mut errors);
    if let Some(suspension) = &spec.suspension
        && suspension.dispatching == Some(true)
        && suspension.dispatching_on_clusters.as_ref().is_some_and(|clusters| !clusters.cluster_names.is_empty())
    {
        let detail = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames";
        errors.invalid(&path.child("suspension"), suspension, detail);
    }
    if let Some(old) = old
        && spec.scheduler_name != old.scheduler_name
    {
        let path = path.child("schedulerName");
        errors.invalid(&path, &spec.scheduler_name, "the schedulerName should not be updated");
    }
    errors
}

fn check_selectors(spec: &PropagationSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if spec.preemption != Some(Preemption::Always) {
        return;
    }
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        if selector.name.as_deref().unwrap_or_default().is_empty() {
            let detail = "name cannot be empty if preemption is Always, the empty name may cause unexpected resources \
                          preemption";
            errors.invalid(&path.index(index).child("name"), "", detail);
        }
    }
}

/// Checks that a namespaced policy selects objects in its own namespace. A stored policy that
/// violates this rule stays writable as long as its selectors do not change.
pub fn check_namespaces(
    namespace: &str,
    selectors: &[ResourceSelector],
    old: Option<&[ResourceSelector]>,
) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if old == Some(selectors) {
        return errors;
    }
    let path = FieldPath::new("spec").child("resourceSelectors");
    for (index, selector) in selectors.iter().enumerate() {
        let wanted = selector.namespace.as_deref().unwrap_or_default();
        if !wanted.is_empty() && wanted != namespace {
            let detail = "namespace of resource selector must be the same as the namespace of the policy";
            errors.invalid(&path.index(index).child("namespace"), wanted, detail);
        }
    }
    errors
}

fn check_failover(spec: &PropagationSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(failover) = &spec.failover else { return };
    if failover.application.is_some() && spec.propagate_deps != Some(true) {
        let detail = "application failover is set, propagateDeps must be true";
        errors.invalid(&path.child("propagateDeps"), false, detail);
    }
    let path = path.child("failover");
    if let Some(application) = &failover.application {
        check_application(application, &path.child("application"), errors);
    }
    if let Some(cluster) = &failover.cluster {
        check_state(cluster.state_preservation.as_ref(), &path.child("cluster"), errors);
    }
}

fn check_application(application: &ApplicationFailoverBehavior, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(seconds @ ..0) = application.decision_conditions.toleration_seconds {
        let path = path.child("decisionConditions").child("tolerationSeconds");
        errors.invalid(&path, seconds, "must be greater than or equal to 0");
    }
    let grace_path = path.child("gracePeriodSeconds");
    let graceful = application.purge_mode.map(PurgeMode::renamed) == Some(PurgeMode::Gracefully);
    match application.grace_period_seconds {
        Some(seconds) if !graceful => {
            errors.invalid(&grace_path, seconds, "only takes effect when purgeMode is gracefully");
        }
        None if graceful => errors.invalid(&grace_path, (), "should not be empty when purgeMode is gracefully"),
        _ => {}
    }
    if let Some(seconds @ ..=0) = application.grace_period_seconds {
        errors.invalid(&grace_path, seconds, "must be greater than 0");
    }
    check_state(application.state_preservation.as_ref(), path, errors);
}

fn check_state(state: Option<&StatePreservation>, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, rule) in state.iter().flat_map(|state| &state.rules).enumerate() {
        let path = path.child("statePreservation").child("rules").index(index).child("aliasLabelName");
        for fault in names::qualified_name_faults(&rule.alias_label_name) {
            errors.invalid(&path, &rule.alias_label_name, fault);
        }
    }
}
