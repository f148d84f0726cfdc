//! ClusterTaintPolicies may not set NoExecute taints, which evict workloads, unless the server
//! allows it (QU9).
//!
//! A stored policy that has such a taint stays writable as long as its taints do not change.

use async_trait::async_trait;
use serde_json::{Map, Value};

use ballast_api::karmada::policy::v1alpha1::ClusterTaintPolicy;
use ballast_k8s::{FieldErrors, FieldPath, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

/// Refuses ClusterTaintPolicies with the effect NoExecute.
pub struct NoExecuteTaints;

#[async_trait]
impl Validator for NoExecuteTaints {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if old.is_some_and(|old| taints(old) == taints(object)) {
            return Ok(());
        }
        let mut errors = FieldErrors::default();
        let path = FieldPath::new("spec.taints");
        for (index, taint) in taints(object).iter().enumerate() {
            if taint["effect"] == "NoExecute" {
                let detail = "NoExecute is not allowed here: it evicts workloads. The server allows it with \
                              --allow-no-execute-taint-policy";
                errors.forbidden(&path.index(index).child("effect"), detail);
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => {
                Err(Status::invalid(ClusterTaintPolicy::GROUP, ClusterTaintPolicy::KIND, attributes.name, &errors))
            }
        }
    }
}

fn taints(policy: &Map<String, Value>) -> &[Value] {
    let taints = policy.get("spec").and_then(|spec| spec["taints"].as_array());
    taints.map_or(&[], Vec::as_slice)
}
