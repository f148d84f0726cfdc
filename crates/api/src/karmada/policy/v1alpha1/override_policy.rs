//! OverridePolicy: changes that are made to objects of its namespace for certain clusters.
//!
//! It has the same spec as ClusterOverridePolicy.

use serde_json::{Map, Value};

use super::override_rules;
use super::override_spec::OverrideSpec;
use super::policy_rules;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Given, Resource, Scope};

kind! {
    /// Changes that are made to objects of the same namespace before they are sent to a cluster.
    /// Ballast stores the policy. Karmada's controllers apply it.
    pub struct OverridePolicy {
        /// Objects to change, and the changes.
        pub spec: OverrideSpec,
    }
}

impl Resource for OverridePolicy {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "OverridePolicy";
    const PLURAL: &'static str = "overridepolicies";
    const SINGULAR: &'static str = "overridepolicy";
    const SHORT_NAMES: &'static [&'static str] = &["op"];
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.policy.v1alpha1";

    fn prepare(object: &mut Map<String, Value>, _given: &Given<'_>) {
        policy_rules::fill_namespaces(object);
    }

    fn validate(object: &OverridePolicy, old: Option<&OverridePolicy>) -> FieldErrors {
        let mut errors = override_rules::check(&object.spec, old.map(|old| &old.spec));
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let old = old.map(|old| old.spec.resource_selectors.as_slice());
        errors.append(policy_rules::check_namespaces(namespace, &object.spec.resource_selectors, old));
        errors
    }
}
