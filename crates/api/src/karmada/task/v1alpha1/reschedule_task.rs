//! RescheduleTask: a create-only request for fresh placements of everything that it selects
//! (R8-R25).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::karmada::policy::v1alpha1::ResourceSelector;
use crate::label_rules;
use crate::type_meta::kind;
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::{Lifetime, Resource, Scope};

/// Maximum number of entries of a task that select by labels. Each of them is compared with each
/// binding of its kind.
const LABEL_SELECTORS_MAX: usize = 100;

kind! {
    /// A one-time request for fresh placements of the selected workloads. It takes effect when it
    /// is created, and is never stored.
    pub struct RescheduleTask {
        /// Workloads to reschedule: the union of both lists.
        pub spec: RescheduleTaskSpec,
    }
}

impl Resource for RescheduleTask {
    const GROUP: &'static str = "task.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "RescheduleTask";
    const PLURAL: &'static str = "rescheduletasks";
    const SINGULAR: &'static str = "rescheduletask";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.task.v1alpha1";

    fn validate(object: &RescheduleTask, _old: Option<&RescheduleTask>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let path = FieldPath::new("spec");
        let spec = &object.spec;
        if spec.target_ref_policy.is_empty() && spec.target_ref_resource.is_empty() {
            // Here, empty lists select nothing, not everything (C5).
            let detail = "name policies in targetRefPolicy or resources in targetRefResource; to reschedule \
                          everything that any policy manages, write targetRefPolicy: [{}]";
            errors.required(&path, detail);
        }
        for (index, selector) in spec.target_ref_resource.iter().enumerate() {
            let path = path.child("targetRefResource").index(index);
            for (name, value) in [("apiVersion", &selector.api_version), ("kind", &selector.kind)] {
                if value.is_empty() {
                    errors.required(&path.child(name), "");
                }
            }
            if let Some(labels) = &selector.label_selector {
                // A task takes effect immediately, so a selector that can never match is an error.
                label_rules::check_selector(labels, &path.child("labelSelector"), &mut errors);
            }
        }
        let by_labels =
            |it: &&ResourceSelector| it.label_selector.is_some() && it.name.as_deref().unwrap_or_default().is_empty();
        let labelled = spec.target_ref_resource.iter().filter(by_labels).count();
        if labelled > LABEL_SELECTORS_MAX {
            let detail = format!("{labelled} entries select by labels, and {LABEL_SELECTORS_MAX} at most may");
            errors.forbidden(&path.child("targetRefResource"), detail);
        }
        errors
    }
}

/// The workloads to reschedule: the union of both lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RescheduleTaskSpec {
    /// Policies. All workloads that they manage are rescheduled.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub target_ref_policy: Vec<PolicySelector>,
    /// Resources that are rescheduled.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub target_ref_resource: Vec<ResourceSelector>,
}

/// Selects policies by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicySelector {
    /// Namespace of the policies. Empty: policies of all namespaces, and cluster-wide ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the policy. Empty: all policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
