//! The published API: the files in `openapi/` match the registry, and contain what clients need.
//!
//! `UPDATE=1 cargo test openapi` writes the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ballast::api;
use ballast::registry::{Discovery, OpenApi, openapi};
use ballast::resource::Lifetime;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi")
}

/// Names of all files below `folder`, relative to it.
fn files(folder: &Path, below: &str) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder.join(below)) else { return BTreeSet::new() };
    let mut names = BTreeSet::new();
    for entry in entries.map(Result::unwrap) {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            names.extend(files(folder, &format!("{name}/")));
        } else {
            names.insert(name);
        }
    }
    names
}

#[test]
fn the_files_in_openapi_are_what_the_rows_say() {
    let documents = openapi::documents(&api::kinds());
    let update = std::env::var_os("UPDATE").is_some();
    let made: BTreeSet<String> = documents.iter().map(|(name, _)| name.clone()).collect();
    let known: BTreeSet<String> = files(&folder(), "").into_iter().filter(|name| name.ends_with(".json")).collect();
    let mut stale: Vec<&String> = known.symmetric_difference(&made).collect();
    for (name, text) in &documents {
        let path = folder().join(name);
        if fs::read(&path).is_ok_and(|known| known == *text) {
            continue;
        }
        if update {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        }
        stale.push(name);
    }
    if update {
        known.difference(&made).for_each(|name| fs::remove_file(folder().join(name)).unwrap());
        return;
    }
    assert!(stale.is_empty(), "openapi/ is out of date, run `UPDATE=1 cargo test openapi`: {stale:?}");
}

#[test]
fn di18_every_resource_has_its_paths_and_its_schema() {
    let kinds = api::standalone_kinds();
    let (discovery, published) = (Discovery::new(&kinds), OpenApi::new(&kinds));
    for row in kinds.rows() {
        let list = discovery.resources(row.group, row.version).expect("every version is listed");
        let list: Value = serde_json::from_slice(&list.body).unwrap();
        let resources = list["resources"].as_array().unwrap();
        let resource = resources.iter().find(|resource| resource["name"] == row.plural).expect("every row is listed");
        let document = published.document(&row.root()).expect("every version is published");
        let document: Value = serde_json::from_slice(&document.body).unwrap();
        let schemas = &document["components"]["schemas"];
        let name = format!("{}.{}", row.openapi_package, row.kind);
        assert_eq!(schemas[&name]["x-kubernetes-group-version-kind"][0]["kind"], row.kind);
        let middle = if row.is_namespaced() { "namespaces/{namespace}/" } else { "" };
        let path = format!("/{}/{middle}{}", row.root(), row.plural);
        let writable = row.verbs().contains(&"create");
        assert_eq!(document["paths"][&path]["post"].is_object(), writable, "{path}");
        let readable = resource["verbs"].as_array().unwrap().iter().any(|verb| verb == "get");
        assert_eq!(readable, row.lifetime == Lifetime::Stored);
        assert_eq!(document["paths"][format!("{path}/{{name}}")]["get"].is_object(), readable, "{path}");
    }
}

/// openapi-generator rejects a document with a duplicate operation id.
#[test]
fn oa13_operation_ids_are_unique_in_swagger_and_in_all_other_documents_together() {
    let documents: Vec<(String, Value)> = openapi::documents(&api::standalone_kinds())
        .into_iter()
        .map(|(name, text)| (name, serde_json::from_slice(&text).unwrap()))
        .collect();
    let ids = |document: &Value| -> Vec<String> {
        let items = document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
        items.filter_map(|operation| operation["operationId"].as_str()).map(str::to_owned).collect()
    };
    let (swagger, v3): (Vec<_>, Vec<_>) = documents.iter().partition(|(name, _)| name == "swagger.json");
    for documents in [swagger, v3] {
        let mut seen = BTreeSet::new();
        for (name, document) in documents {
            for id in ids(document) {
                assert!(seen.insert(id.clone()), "{name}: {id} is there twice");
            }
        }
        assert!(seen.contains("getClusterKarmadaAPIGroup") && seen.contains("getWorkAPIGroup"), "{seen:?}");
    }
}

/// A client that is generated from the documents of one server fits the other.
#[test]
fn oa8_successful_answers_are_those_that_kubernetes_publishes() {
    let published = OpenApi::new(&api::standalone_kinds());
    let swagger: Value = serde_json::from_slice(&published.swagger().body).unwrap();
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings";
    let answers = |path: &str, method: &str| -> Vec<String> {
        let responses = swagger["paths"][path][method]["responses"].as_object().unwrap();
        responses.keys().filter(|code| code.starts_with('2')).cloned().collect()
    };
    let one = format!("{bindings}/{{name}}");
    assert_eq!(answers(bindings, "post"), ["200", "201", "202"]);
    assert_eq!(answers(&one, "put"), ["200", "201"]);
    assert_eq!(answers(&format!("{one}/status"), "put"), ["200", "201"]);
    assert_eq!(answers(&one, "patch"), ["200", "201"]);
    assert_eq!(answers(&one, "delete"), ["200", "202"]);
}

#[test]
fn oa11_definitions_have_types_and_are_described_and_nothing_is_said_twice() {
    let kinds = api::standalone_kinds();
    for row in kinds.rows() {
        let published = OpenApi::new(&kinds);
        let document = published.document(&row.root()).unwrap();
        let document: Value = serde_json::from_slice(&document.body).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut told = BTreeSet::new();
        for (name, schema) in schemas {
            for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                let Some(reference) = schema["allOf"][0]["$ref"].as_str() else { continue };
                let of = reference.rsplit('/').next().unwrap();
                // `kubectl explain` prints one after the other.
                assert_ne!(schema["description"], schemas[of]["description"], "{name}.{field}");
                told.extend(schema["description"].is_string().then_some(of));
            }
        }
        for (name, schema) in schemas {
            assert!(schema["type"].is_string(), "{name} has no type");
            assert!(schema["description"].is_string() || told.contains(&**name), "{name} has no description");
        }
    }
}

/// The values below `value`, with itself.
fn all<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    match value {
        Value::Object(members) => members.values().for_each(|value| all(value, found)),
        Value::Array(items) => items.iter().for_each(|value| all(value, found)),
        _ => {}
    }
}

#[test]
fn cu4_generators_take_the_documents() {
    let kinds = api::all_kinds();
    for (name, text) in openapi::documents(&kinds) {
        let document: Value = serde_json::from_slice(&text).unwrap();
        let mut values = Vec::new();
        all(&document, &mut values);
        assert!(!values.iter().any(|value| value.get("default") == Some(&json!({}))), "{name}");
        let Some(paths) = document["paths"].as_object().filter(|_| document.get("openapi").is_some()) else { continue };
        for (path, item) in paths {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(_, it)| it.is_object()) {
                for (code, answer) in operation["responses"].as_object().into_iter().flatten() {
                    let Some(reason) =
                        answer["$ref"].as_str().and_then(|it| it.strip_prefix("#/components/responses/"))
                    else {
                        assert!(code.starts_with('2'), "{method} {path} {code}");
                        continue;
                    };
                    let schema = &document["components"]["responses"][reason]["content"]["application/json"]["schema"];
                    let status = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status";
                    assert_eq!(schema["$ref"], status, "{method} {path} {code}");
                }
            }
            let row = kinds.rows().iter().find(|row| path.ends_with(row.plural) && path.contains(&row.api_version()));
            if let Some(row) = row.filter(|row| row.lifetime == Lifetime::Action) {
                let content = item["post"]["requestBody"]["content"].as_object().unwrap();
                assert_eq!(content.keys().collect::<Vec<_>>(), ["application/json"], "{}", row.kind);
            }
        }
    }
}
