//! Validates the input manifests of commands, like a server with strict field validation.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::{ClusterRebalance, LocalPlacementReview, PlacementReview, Rebalance};
use ballast_api::karmada::apps::v1alpha1::WorkloadRebalancer;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::policy::v1alpha1::{ClusterPropagationPolicy, PropagationPolicy};
use ballast_api::karmada::task::v1alpha1::RescheduleTask;
use ballast_api::karmada::work::v1alpha2::{ClusterResourceBinding, ResourceBinding};
use ballast_k8s::{FieldError, Time};
use ballast_resource::{Given, ResourceKind};

/// The kinds that commands accept as input.
static KINDS: LazyLock<[ResourceKind; 11]> = LazyLock::new(|| {
    [
        ResourceKind::of::<Cluster>(),
        ResourceKind::of::<ResourceBinding>(),
        ResourceKind::of::<ClusterResourceBinding>(),
        ResourceKind::of::<PropagationPolicy>(),
        ResourceKind::of::<ClusterPropagationPolicy>(),
        ResourceKind::of::<WorkloadRebalancer>(),
        ResourceKind::of::<RescheduleTask>(),
        ResourceKind::of::<Rebalance>(),
        ResourceKind::of::<ClusterRebalance>(),
        ResourceKind::of::<PlacementReview>(),
        ResourceKind::of::<LocalPlacementReview>(),
    ]
});

/// The faults of a manifest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ManifestFaults {
    /// Unknown fields, values of a wrong type, and entries of a selection that select everything
    /// without `all: true`, each with its field path.
    pub errors: Vec<String>,
    /// Unknown fields of the status. An API server of a later version writes such fields, and no
    /// command depends on them.
    pub warnings: Vec<String>,
}

/// Finds the faults of an object of a known kind. Known mistakes are corrected, and are faults.
pub fn check(object: &mut Map<String, Value>) -> ManifestFaults {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(row) = KINDS.iter().find(|row| row.kind == kind) else { return ManifestFaults::default() };
    let mut found = ManifestFaults { errors: (row.mend)(object), warnings: Vec::new() };
    let unknown = row.schema.unknown_fields(object, &[]);
    let inspection = (row.inspect)(&row.schema, object);
    found.errors.extend(inspection.warnings);
    for error in unknown.iter() {
        let is_status = error.path.as_str().starts_with("status.");
        if is_status { &mut found.warnings } else { &mut found.errors }.push(shown(error));
    }
    found.errors.extend(inspection.errors.without(&unknown).iter().map(ToString::to_string));
    // Nulls and whole numbers are normalized to their stored form.
    row.schema.prune(object);
    // A server accepts some numbers as text, such as quantities of a Cluster.
    let mut prepared = object.clone();
    (row.prepare)(&mut prepared, &Given { old: None, now: Time::from_seconds(0), is_by_client: false });
    let wrong_types = row.schema.validate(&prepared);
    let is_type = |error: &&FieldError| error.reason == "FieldValueTypeInvalid";
    found.errors.extend(wrong_types.iter().filter(is_type).map(ToString::to_string));
    found
}

fn shown(error: &FieldError) -> String {
    error.to_string().replacen("Forbidden: unknown field", "unknown field", 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(object: Value) -> ManifestFaults {
        let Value::Object(mut object) = object else { panic!("an object") };
        check(&mut object)
    }

    #[test]
    fn unknown_fields_are_named_with_the_nearest_known_one() {
        let spec = json!({"placement": {"replicaSchedulng": {}}, "resource": {"name": "web"}});
        let found = faults(json!({"kind": "ResourceBinding", "spec": spec, "status": {"later": 1}}));
        let expected =
            r#"spec.placement.replicaSchedulng: unknown field; the nearest known field is "replicaScheduling""#;
        assert_eq!(found.errors, [expected]);
        assert_eq!(found.warnings, ["status.later: unknown field"]);
        assert_eq!(faults(json!({"kind": "Deployment", "spec": {"x": 1}})), ManifestFaults::default());
    }

    #[test]
    fn a_wrong_type_is_named_with_its_path() {
        let found =
            faults(json!({"kind": "ResourceBinding", "spec": {"replicas": "four", "resource": {"name": null}}}));
        let expected =
            "spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"";
        assert_eq!(found.errors, [expected]);
    }

    #[test]
    fn a_quantity_may_be_a_number() {
        let summary = |cpu: Value| json!({"resourceSummary": {"allocatable": {"cpu": cpu}}});
        let found = |cpu: Value| faults(json!({"kind": "Cluster", "spec": {}, "status": summary(cpu)})).errors.len();
        assert_eq!([found(json!(8)), found(json!("8")), found(json!(true))], [0, 0, 1]);
    }

    #[test]
    fn a_manifest_states_that_it_selects_everything() {
        let found = |entry: Value| faults(json!({"kind": "ClusterRebalance", "spec": {"select": [entry]}})).errors;
        assert_eq!(found(json!({"all": true})), [""; 0]);
        for entry in [json!({}), json!({"labelSelector": {}})] {
            assert!(found(entry.clone())[0].contains("all: true"), "{entry}");
        }
        assert_eq!(found(json!({"displacd": true})).len(), 1);
    }
}
