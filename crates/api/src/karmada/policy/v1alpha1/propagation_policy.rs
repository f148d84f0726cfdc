//! PropagationPolicy: placement rules for objects of its namespace.
//!
//! It has the same spec as ClusterPropagationPolicy.

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
    /// Placement of objects of the same namespace on clusters. Ballast copies its placement to the
    /// bindings that reference it, and creates no bindings for workloads.
    pub struct PropagationPolicy {
        /// Selected objects, and their placement.
        pub spec: PropagationSpec,
    }
}

impl PropagationPolicy {
    /// Label with which a binding references its policy.
    pub const PERMANENT_ID: &'static str = "propagationpolicy.karmada.io/permanent-id";
}

impl Resource for PropagationPolicy {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "PropagationPolicy";
    const PLURAL: &'static str = "propagationpolicies";
    const SINGULAR: &'static str = "propagationpolicy";
    const SHORT_NAMES: &'static [&'static str] = &["pp"];
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Namespaced;
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
        permanent_id::keep(object, PropagationPolicy::PERMANENT_ID, given, OnChange::Refuse);
        if let Some(spec) = tree::object(object, &["spec"]) {
            policy_rules::prepare_spec(spec);
        }
        policy_rules::fill_namespaces(object);
    }

    fn advise(object: &Map<String, Value>) -> Vec<String> {
        let mut warnings = specified_replicas::advise(object);
        warnings.extend(ignored_rules::advise(object));
        warnings.extend(cluster_bounds::advise(object));
        warnings
    }

    fn validate(object: &PropagationPolicy, old: Option<&PropagationPolicy>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let old_metadata = old.map(|old| &old.metadata);
        permanent_id::check(PropagationPolicy::PERMANENT_ID, &object.metadata, old_metadata, &mut errors);
        specified_replicas::check_annotation(&object.metadata, object.spec.placement.as_deref(), &mut errors);
        errors.append(policy_rules::check(&object.spec, old.map(|old| &old.spec)));
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let old = old.map(|old| old.spec.resource_selectors.as_slice());
        errors.append(policy_rules::check_namespaces(namespace, &object.spec.resource_selectors, old));
        errors
    }
}
