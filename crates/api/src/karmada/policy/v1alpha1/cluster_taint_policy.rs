//! ClusterTaintPolicy: taints that are added to and removed from clusters depending on their
//! conditions.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::placement::ClusterAffinity;
use super::selector_rules;
use crate::type_meta::kind;
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::{Resource, Scope};

kind! {
    /// Taints that are added to and removed from clusters depending on their conditions. Ballast
    /// stores the policy. Karmada's controllers set the taints.
    pub struct ClusterTaintPolicy {
        /// Clusters, conditions and taints.
        pub spec: ClusterTaintPolicySpec,
    }
}

/// The clusters, conditions and taints of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTaintPolicySpec {
    /// Clusters that the policy applies to. Absent: all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
    /// Conditions under which the cluster gets the taints. All of them must hold. Empty: the taints
    /// are never added.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// Conditions under which the cluster loses the taints. All of them must hold. Empty: the
    /// taints are never removed.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub remove_on_conditions: Vec<MatchCondition>,
    /// Taints to add and remove. At least one.
    #[schema(min_items = 1)]
    pub taints: Vec<PolicyTaint>,
}

/// A requirement on one condition of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// Type of the condition.
    pub condition_type: String,
    /// `In` or `NotIn`.
    pub operator: String,
    /// Values to which the condition's status is compared: `True`, `False`, `Unknown`.
    pub status_values: Vec<String>,
}

/// A taint that a policy sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Taint)]
pub struct PolicyTaint {
    /// Key of the taint.
    pub key: String,
    /// Effect of the taint.
    pub effect: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Resource for ClusterTaintPolicy {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "ClusterTaintPolicy";
    const PLURAL: &'static str = "clustertaintpolicies";
    const SINGULAR: &'static str = "clustertaintpolicy";
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.policy.v1alpha1";

    /// Applies the rules of upstream's webhook (QU9).
    fn validate(object: &ClusterTaintPolicy, old: Option<&ClusterTaintPolicy>) -> FieldErrors {
        let path = FieldPath::new("spec");
        let mut errors = selector_rules::added(object, old, |object, errors| {
            if let Some(affinity) = &object.spec.target_clusters {
                selector_rules::check_affinity(affinity, &path.child("targetClusters"), errors);
            }
        });
        let mut seen = BTreeSet::new();
        for (index, taint) in object.spec.taints.iter().enumerate() {
            let PolicyTaint { key, effect, .. } = taint;
            if !seen.insert((key, effect)) {
                let told = format!("taint({key}:{effect}) already exist");
                errors.duplicate(&path.child("taints").index(index), told);
            }
        }
        errors
    }
}
