//! Records the user as the cause if a client changes the targets of a binding (D123).
//!
//! Clients can neither write nor remove the annotation `ballast.dev/last-change` themselves.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use ballast_api::karmada::work::v1alpha2::{LAST_CHANGE, LastChange, TargetCluster, TargetDiff, shares};
use ballast_api::tree::object_or_new;
use ballast_base::clock::Clock;
use ballast_k8s::Status;
use ballast_registry::{AdmissionAttributes, Validator};

/// The validator of both kinds of bindings.
pub struct ClientChanges {
    clock: Arc<dyn Clock>,
}

impl ClientChanges {
    pub fn new(clock: Arc<dyn Clock>) -> ClientChanges {
        ClientChanges { clock }
    }

    fn record(&self, user: &str, object: &mut Map<String, Value>, old: Option<&Map<String, Value>>) {
        let recorded = old.and_then(annotation);
        let (before, after) = (old.map(targets).unwrap_or_default(), targets(object));
        let text = TargetDiff::between(shares(&before), shares(&after)).map(|diff| {
            let verb = if old.is_some() { "changed its clusters" } else { "created it there" };
            let known = recorded.iter().map(|text| (LAST_CHANGE.to_owned(), text.clone())).collect();
            let sentence = format!("{diff}, because user {user} {verb}.");
            LastChange::text(&known, self.clock.now(), shares(&after), &sentence)
        });
        set(object, text.or(recorded));
    }
}

#[async_trait]
impl Validator for ClientChanges {
    async fn validate(
        &self,
        write: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        self.record(&write.caller.user.name, object, old);
        Ok(())
    }
}

fn targets(binding: &Map<String, Value>) -> Vec<TargetCluster> {
    let clusters = binding.get("spec").and_then(|spec| spec.get("clusters"));
    clusters.and_then(|clusters| Vec::deserialize(clusters).ok()).unwrap_or_default()
}

fn annotation(binding: &Map<String, Value>) -> Option<String> {
    binding.get("metadata")?.get("annotations")?.get(LAST_CHANGE)?.as_str().map(str::to_owned)
}

fn set(binding: &mut Map<String, Value>, text: Option<String>) {
    if annotation(binding) == text {
        return;
    }
    let Some(annotations) = object_or_new(binding, &["metadata", "annotations"]) else { return };
    match text {
        Some(text) => drop(annotations.insert(LAST_CHANGE.to_owned(), text.into())),
        None => drop(annotations.remove(LAST_CHANGE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_base::clock::SystemClock;
    use serde_json::json;

    fn binding(clusters: &Value, recorded: Option<&str>) -> Map<String, Value> {
        let annotations = recorded.map_or_else(|| json!({"a": "b"}), |text| json!({"a": "b", LAST_CHANGE: text}));
        let tree = json!({"metadata": {"annotations": annotations}, "spec": {"clusters": clusters}});
        tree.as_object().unwrap().clone()
    }

    fn recorded(new: Map<String, Value>, old: Option<&Map<String, Value>>) -> Option<String> {
        let mut new = new;
        ClientChanges::new(Arc::new(SystemClock)).record("anna", &mut new, old);
        assert_eq!(new["metadata"]["annotations"]["a"], "b");
        annotation(&new)
    }

    #[test]
    fn the_user_is_the_cause_of_changed_targets_alone() {
        let (one, other) = (json!([{"name": "m1", "replicas": 2}]), json!([{"name": "m2", "replicas": 2}]));
        let old = binding(&one, Some("x"));
        let text = recorded(binding(&other, Some("x")), Some(&old)).unwrap();
        let sentence = LastChange::read(&text).sentence;
        assert_eq!(sentence, "2 replicas moved: m1 2 to 0, m2 0 to 2, because user anna changed its clusters.");
        assert_eq!(recorded(binding(&one, Some("forged")), Some(&old)).as_deref(), Some("x"));
        assert_eq!(recorded(binding(&one, None), Some(&old)).as_deref(), Some("x"));
    }

    #[test]
    fn a_new_binding_has_the_cause_of_its_creation_alone() {
        let text = recorded(binding(&json!([{"name": "m1", "replicas": 2}]), Some("forged")), None).unwrap();
        assert_eq!(LastChange::read(&text).cause(), Some("because user anna created it there"));
        assert_eq!(recorded(binding(&json!([]), Some("forged")), None), None);
    }
}
