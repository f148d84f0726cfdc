//! ClusterPropagationPolicy: placement rules for objects of any namespace and for cluster-scoped
//! objects.
//!
//! It has the same spec as PropagationPolicy.

use serde_json::{Map, Value};

use super::cluster_bounds;
use super::ignored_rules;
use super::mend;
use super::own_fields;
use super::policy_rules;
use super::propagation_spec::{COLUMNS, PropagationSpec};
use super::specified_replicas;
use crate::permanent_id::{self, OnChange};
use crate::tree;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Resource, Scope};

kind! {
    /// Placement of objects, of any namespace or cluster-scoped, on clusters. Ballast copies its
    /// placement to the bindings that reference it, and creates no bindings for workloads.
    pub struct ClusterPropagationPolicy {
        /// Selected objects, and their placement.
        pub spec: PropagationSpec,
    }
}

impl ClusterPropagationPolicy {
    /// Label with which a binding references its policy.
    pub const PERMANENT_ID: &'static str = "clusterpropagationpolicy.karmada.io/permanent-id";
}

impl Resource for ClusterPropagationPolicy {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "ClusterPropagationPolicy";
    const PLURAL: &'static str = "clusterpropagationpolicies";
    const SINGULAR: &'static str = "clusterpropagationpolicy";
    const SHORT_NAMES: &'static [&'static str] = &["cpp"];
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] = COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.policy.v1alpha1";

    fn mend(object: &mut Map<String, Value>) -> Vec<String> {
        mend::mend_policy(object)
    }

    fn restore(object: &mut Map<String, Value>, before: &Map<String, Value>) {
        own_fields::restore(object, before);
    }

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        specified_replicas::prepare_annotation(object, given.old);
        specified_replicas::prepare_extension(object, given.old);
        permanent_id::keep(object, ClusterPropagationPolicy::PERMANENT_ID, given, OnChange::Refuse);
        if let Some(spec) = tree::object(object, &["spec"]) {
            policy_rules::prepare_spec(spec);
        }
    }

    fn advise(object: &Map<String, Value>) -> Vec<String> {
        let mut warnings = specified_replicas::advise(object);
        warnings.extend(ignored_rules::advise(object));
        warnings.extend(cluster_bounds::advise(object));
        warnings
    }

    fn validate(object: &ClusterPropagationPolicy, old: Option<&ClusterPropagationPolicy>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let old_metadata = old.map(|old| &old.metadata);
        permanent_id::check(ClusterPropagationPolicy::PERMANENT_ID, &object.metadata, old_metadata, &mut errors);
        specified_replicas::check_annotation(&object.metadata, object.spec.placement.as_deref(), &mut errors);
        errors.append(policy_rules::check(&object.spec, old.map(|old| &old.spec)));
        errors
    }
}
