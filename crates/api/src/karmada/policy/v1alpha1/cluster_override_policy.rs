//! ClusterOverridePolicy: changes that are made to objects for certain clusters.
//!
//! It has the same spec as OverridePolicy.

use super::override_rules;
use super::override_spec::OverrideSpec;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Resource, Scope};

kind! {
    /// Changes that are made to objects, of any namespace or cluster-scoped, before they are sent
    /// to a cluster. Ballast stores the policy. Karmada's controllers apply it.
    pub struct ClusterOverridePolicy {
        /// Objects to change, and the changes.
        pub spec: OverrideSpec,
    }
}

impl Resource for ClusterOverridePolicy {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "ClusterOverridePolicy";
    const PLURAL: &'static str = "clusteroverridepolicies";
    const SINGULAR: &'static str = "clusteroverridepolicy";
    const SHORT_NAMES: &'static [&'static str] = &["cop"];
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.policy.v1alpha1";

    fn validate(object: &ClusterOverridePolicy, old: Option<&ClusterOverridePolicy>) -> FieldErrors {
        override_rules::check(&object.spec, old.map(|old| &old.spec))
    }
}
