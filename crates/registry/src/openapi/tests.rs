//! The documents of two made-up kinds.

use std::collections::BTreeSet;

use super::*;
use crate::test_kinds::kinds;

fn v3_document() -> Value {
    v3(&kinds()).remove("apis/garden.example.com/v1").unwrap()
}

/// Returns all references in a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                found.insert(reference.clone());
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn oa11_every_reference_resolves_in_its_document() {
    for (path, document) in v3(&kinds()).into_iter().chain([("swagger".to_owned(), write::v2(&kinds()))]) {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some_and(Value::is_object), "{path}: {reference}");
        }
    }
}

#[test]
fn oa1_the_index_names_every_document_with_its_hash() {
    let api = OpenApi::new(&kinds());
    let index: Value = serde_json::from_slice(&api.index().body).unwrap();
    let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["apis", "apis/garden.example.com", "apis/garden.example.com/v1", "version"]);
    let document = api.document("apis/garden.example.com/v1").unwrap();
    assert_eq!(
        index["paths"]["apis/garden.example.com/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/garden.example.com/v1?hash={}", document.hash)
    );
    assert_eq!(document.hash.len(), 128);
}

#[test]
fn oa13_operations_are_named_as_kubernetes_names_them() {
    let document = v3_document();
    let ids = |path: &str| -> Vec<String> {
        let item = document["paths"][path].as_object().unwrap_or_else(|| panic!("{path}"));
        let methods = ["get", "post", "put", "patch", "delete"];
        let operations = methods.iter().filter_map(|method| item.get(*method));
        operations.map(|operation| operation["operationId"].as_str().unwrap().to_owned()).collect()
    };
    let root = "/apis/garden.example.com/v1";
    assert_eq!(ids(&format!("{root}/")), ["getGardenV1APIResources"]);
    assert_eq!(ids(&format!("{root}/gardens")), ["listGardenV1GardenForAllNamespaces"]);
    let namespaced = format!("{root}/namespaces/{{namespace}}/gardens");
    assert_eq!(
        ids(&namespaced),
        ["listGardenV1NamespacedGarden", "createGardenV1NamespacedGarden", "deleteGardenV1CollectionNamespacedGarden"]
    );
    assert_eq!(
        ids(&format!("{namespaced}/{{name}}")),
        [
            "readGardenV1NamespacedGarden",
            "replaceGardenV1NamespacedGarden",
            "patchGardenV1NamespacedGarden",
            "deleteGardenV1NamespacedGarden",
        ]
    );
    assert_eq!(
        ids(&format!("{namespaced}/{{name}}/status")),
        [
            "readGardenV1NamespacedGardenStatus",
            "replaceGardenV1NamespacedGardenStatus",
            "patchGardenV1NamespacedGardenStatus",
        ]
    );
    assert_eq!(ids(&format!("{root}/waterings")), ["createGardenV1Watering"], "an action can only be created");
    assert_eq!(document["paths"][namespaced]["get"]["tags"], json!(["garden_v1"]));
}

#[test]
fn oa7_oa8_kinds_are_marked_on_operations_and_schemas() {
    let document = v3_document();
    let path = "/apis/garden.example.com/v1/namespaces/{namespace}/gardens/{name}";
    let patch = &document["paths"][path]["patch"];
    let kind = json!({"group": "garden.example.com", "version": "v1", "kind": "Garden"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["com.example.garden.v1.Garden"]["x-kubernetes-group-version-kind"], json!([kind]));
    let list = json!({"group": "garden.example.com", "version": "v1", "kind": "GardenList"});
    assert_eq!(schemas["com.example.garden.v1.GardenList"]["x-kubernetes-group-version-kind"], json!([list]));
    let options = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    assert_eq!(options, &json!([{"group": "garden.example.com", "version": "v1", "kind": "DeleteOptions"}]));
    assert!(schemas.get("com.example.garden.v1.WateringList").is_none());
}

#[test]
fn oa9_oa10_a_patch_has_its_parameters_and_content_types() {
    let document = v3_document();
    let path = "/apis/garden.example.com/v1/namespaces/{namespace}/gardens/{name}";
    let item = &document["paths"][path];
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&item["parameters"]), ["name", "namespace", "pretty"]);
    assert_eq!(names(&item["patch"]["parameters"]), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let types: Vec<&String> = item["patch"]["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert!(types.iter().any(|name| *name == "application/merge-patch+json"));
    assert!(!types.iter().any(|name| name.contains("strategic")));
}

#[test]
fn every_failure_is_documented_with_a_status() {
    let document = v3_document();
    let status = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status";
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values().filter(|operation| operation.is_object()) {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("401") && responses.contains_key("504"), "{operation}");
            assert!(!responses.contains_key("default"), "it would hide the status that was forgotten: {operation}");
            for failure in responses.values().filter_map(|response| response["$ref"].as_str()) {
                let response = document.pointer(&failure[1..]).unwrap_or_else(|| panic!("{failure}"));
                for media in ["application~1json", "application~1yaml"] {
                    let schema = response.pointer(&format!("/content/{media}/schema/$ref")).unwrap();
                    assert_eq!(schema, status);
                }
            }
        }
    }
}

#[test]
fn oa6_oa14_schemas_are_written_in_the_dialect_of_each_version() {
    let document = v3_document();
    assert_eq!(document["openapi"], "3.0.0");
    let schemas = &document["components"]["schemas"];
    let spec = &schemas["com.example.garden.v1.GardenSpec"];
    assert_eq!(
        spec["properties"]["beds"],
        json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "default": 2, "description": "The number of beds."})
    );
    assert_eq!(spec["required"], json!(["plants"]));
    let plants = json!({"$ref": "#/components/schemas/com.example.garden.v1.Plant"});
    assert_eq!(
        spec["properties"]["plants"],
        json!({"type": "array", "items": plants, "minItems": 1, "description": "The plants of the garden."})
    );
    assert_eq!(
        spec["properties"]["fence"],
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    );
    assert_eq!(spec["properties"]["notes"], json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let conditions = &schemas["com.example.garden.v1.GardenStatus"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    let garden = &schemas["com.example.garden.v1.Garden"]["properties"];
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(garden["metadata"]["allOf"], json!([{"$ref": meta}]));

    let swagger = write::v2(&kinds());
    assert_eq!(swagger["swagger"], "2.0");
    let spec = &swagger["definitions"]["com.example.garden.v1.GardenSpec"]["properties"];
    assert_eq!(spec["fence"], json!({"x-kubernetes-int-or-string": true}));
    let garden = &swagger["definitions"]["com.example.garden.v1.Garden"]["properties"];
    assert_eq!(garden["metadata"]["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
}

#[test]
fn oa13_operation_ids_are_unique() {
    let swagger = write::v2(&kinds());
    let mut seen = BTreeSet::new();
    for item in swagger["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values().filter(|operation| operation.is_object()) {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(seen.insert(id.clone()), "{id} twice");
        }
    }
}
