//! Adds to a binding the fields of its policy that Karmada's detector does not know (`own_fields`),
//! in the same write in which the detector creates or changes the binding. So the scheduler never
//! sees half of a placement.
//!
//! Only a write that changes the placement is completed. If a client removes the fields by a patch,
//! they stay away until the policy changes.

use async_trait::async_trait;
use serde_json::{Map, Value};

use ballast_api::karmada::policy::v1alpha1::{PolicyIds, own_fields};
use ballast_k8s::Status;
use ballast_registry::{AdmissionAttributes, Client, Validator};

/// Carries fields from policies to bindings.
pub struct CarriedFields {
    client: Client,
}

impl CarriedFields {
    pub fn new(client: Client) -> CarriedFields {
        CarriedFields { client }
    }
}

#[async_trait]
impl Validator for CarriedFields {
    async fn validate(
        &self,
        _: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let brings_placement = match old {
            None => own_fields::may_lack(object),
            Some(old) => own_fields::has_same_own(object, old) && !own_fields::has_same_rest(object, old),
        };
        let Some(key) = PolicyIds::named(object).filter(|_| brings_placement) else { return Ok(()) };
        let view = self.client.view();
        if let Some(policy) = view.get(&key).and_then(|policy| policy.value().ok()) {
            own_fields::carry(&policy, object);
        }
        Ok(())
    }
}
