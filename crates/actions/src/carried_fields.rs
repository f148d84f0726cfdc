//! Copies to a binding the fields of its policy that are unknown to Karmada's detector
//! (`own_fields`), in the same write in which the detector creates or changes the binding. So the
//! scheduler never sees an incomplete placement.
//!
//! Only a write that changes the placement is completed. If a client removes the fields by a patch,
//! they stay removed until the policy changes.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use ballast_api::karmada::policy::v1alpha1::{PolicyIds, Template, own_fields, selectors};
use ballast_api::karmada::work::v1alpha2::ObjectReference;
use ballast_k8s::{Key, Status};
use ballast_registry::{AdmissionAttributes, Client, Validator};
use ballast_watch::View;

/// Copies fields from policies to bindings.
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
        if brings_placement && let Some(policy) = manager(&self.client.view(), object) {
            own_fields::carry(&policy, object);
        }
        Ok(())
    }
}

/// Returns the policy that manages the binding: the first policy that the binding names and that
/// selects its template. Fields of any other named policy are not disclosed (WH9).
fn manager(view: &View, binding: &Map<String, Value>) -> Option<Map<String, Value>> {
    let named: Vec<Key> = PolicyIds::named(binding).collect();
    // Most policies have none of the fields, which is visible in their text without parsing.
    let may_have = |key: &Key| {
        view.get(key).is_some_and(|policy| std::str::from_utf8(&policy.text.content()).is_ok_and(own_fields::may_have))
    };
    if !own_fields::has_any(binding) && !named.iter().any(may_have) {
        return None;
    }
    let metadata = binding.get("metadata")?;
    let own = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let resource = ObjectReference::deserialize(binding.get("spec")?.get("resource")?).ok()?.of_binding(own)?;
    let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    let mut labels: Vec<(&str, &str)> = labels.filter_map(|(key, value)| Some((&**key, value.as_str()?))).collect();
    labels.sort_unstable();
    let template = Template::new(&resource, labels);
    named.iter().find_map(|key| {
        let policy = view.get(key)?.value().ok()?;
        template.may_be_selected(key, &selectors(&policy)).then_some(policy)
    })
}
