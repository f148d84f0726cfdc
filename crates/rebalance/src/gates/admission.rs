//! Refuses gates with addresses that are not allowed (SG17).

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::address::{AllowedAddress, allowed};
use ballast_api::ballast::v1alpha1::{ClusterRebalance, Gate, Rebalance, RebalanceSchedule};
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

/// The allowed addresses of gates.
pub struct GateAddresses(Vec<AllowedAddress>);

impl GateAddresses {
    /// Returns the validators, by kind. Without addresses, no gate is accepted.
    pub fn validators(allow: &[AllowedAddress]) -> [(GroupResource, Arc<dyn Validator>); 3] {
        let validator: Arc<dyn Validator> = Arc::new(GateAddresses(allow.to_vec()));
        [Rebalance::resource(), ClusterRebalance::resource(), RebalanceSchedule::resource()]
            .map(|kind| (kind, Arc::clone(&validator)))
    }

    fn check(&self, gates: &[Gate], path: &FieldPath) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if self.0.is_empty() {
            errors.forbidden(path, "gates ask other servers, and no --gate-address-allow of this server names any");
            return errors;
        }
        for (index, gate) in gates.iter().enumerate() {
            let Some(([asked, field], address)) = gate.address() else { continue };
            if let Err(fault) = allowed(gate, &self.0) {
                errors.invalid(&path.index(index).child(asked).child(field), address, fault);
            }
        }
        errors
    }
}

/// Returns the gates of an object, and their field path. A schedule has them in its template.
fn gates_of(object: &Map<String, Value>) -> (Option<&Value>, &'static str) {
    let spec = object.get("spec");
    match spec.and_then(|spec| spec.get("template")) {
        Some(template) => (of_rollout(template.get("spec")), "spec.template.spec.rollout.gates"),
        None => (of_rollout(spec), "spec.rollout.gates"),
    }
}

fn of_rollout(spec: Option<&Value>) -> Option<&Value> {
    spec?.get("rollout")?.get("gates")
}

#[async_trait]
impl Validator for GateAddresses {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let (gates, path) = gates_of(object);
        let Some(gates) = gates.filter(|gates| gates.as_array().is_some_and(|gates| !gates.is_empty())) else {
            return Ok(());
        };
        // Unchanged gates do not block other changes. A gate that is no longer allowed is not
        // requested.
        if old.is_some_and(|old| gates_of(old).0 == Some(gates)) {
            return Ok(());
        }
        let gates = Vec::<Gate>::deserialize(gates).map_err(|error| Status::bad_request(error.to_string()))?;
        let errors = self.check(&gates, &FieldPath::new(path));
        let row = attributes.row;
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(row.group, row.kind, attributes.name, &errors)) }
    }
}
