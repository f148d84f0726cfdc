//! The largest body of each list and map of each kind costs time that grows linearly with its size.
//!
//! The lists are found in the OpenAPI documents, so new ones are covered. Rejected bodies count,
//! too: any check of the server may be the slow one.

use std::collections::BTreeMap;
use std::time::Duration;

use ballast::cli::client::Client;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};

use crate::process::ServerProcess;

/// The size of a body and the CPU time limit of its request. An optimized server has 2 s for the
/// largest body. An unoptimized one is about ten times slower, and gets a tenth of the body:
/// quadratic steps then take ten seconds.
const BYTES: usize = if cfg!(debug_assertions) { 300_000 } else { 2_900_000 };
const CPU_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 2 });
/// Annotations have a lower limit.
const ANNOTATION_BYTES: usize = 200_000;

/// A kind that clients create, and the schemas of its document.
struct Kind {
    name: String,
    api_version: String,
    collection: String,
    has_status: bool,
    schema: Value,
    schemas: Map<String, Value>,
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/v3")).unwrap();
    for file in files.map(|file| file.unwrap().path()) {
        let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let Some(schemas) = document["components"]["schemas"].as_object() else { continue };
        let paths = document["paths"].as_object().unwrap();
        for (path, item) in paths {
            let about = &item["post"]["x-kubernetes-group-version-kind"];
            if about.is_null() || path.ends_with('}') || path.contains("{name}") {
                continue;
            }
            let body = item["post"]["requestBody"]["content"].as_object().unwrap();
            let part = |name: &str| about[name].as_str().unwrap();
            kinds.push(Kind {
                name: part("kind").to_owned(),
                api_version: format!("{}/{}", part("group"), part("version")),
                collection: path.replace("{namespace}", "default"),
                has_status: paths.contains_key(&format!("{path}/{{name}}/status")),
                schema: body.values().next().unwrap()["schema"].clone(),
                schemas: schemas.clone(),
            });
        }
    }
    kinds
}

/// Returns the further fields that a kind requires.
fn base(kind: &str) -> Value {
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"});
    let select = json!([{"kind": "Deployment"}]);
    let namespaces = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "prod"}]);
    let deployments = json!([{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}]);
    match kind {
        "WorkloadRebalancer" => json!({"workloads": [workload]}),
        "RescheduleTask" => json!({"targetRefResource": [workload]}),
        "ClusterRebalance" | "Rebalance" | "PlacementReview" | "LocalPlacementReview" => json!({"select": select}),
        "RebalanceSchedule" => json!({"schedule": "0 3 * * *", "template": {"spec": {"select": select}}}),
        "EvictionLimit" => json!({"bindingsPerSecond": "1"}),
        "PropagationPolicy" | "ClusterPropagationPolicy" => {
            json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]})
        }
        "ResourceBinding" | "ClusterResourceBinding" => json!({"resource": workload}),
        "Cluster" => json!({"syncMode": "Pull"}),
        "FederatedResourceQuota" => json!({"overall": {"cpu": "10"}}),
        "ClusterResourcePlacement" => json!({"resourceSelectors": namespaces, "policy": {"placementType": "PickAll"}}),
        "ResourcePlacement" => json!({"resourceSelectors": deployments, "policy": {"placementType": "PickAll"}}),
        "ClusterTaintPolicy" => json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        _ => json!({}),
    }
}

impl Kind {
    fn resolved<'s>(&'s self, mut schema: &'s Value) -> &'s Value {
        loop {
            if let Some(name) = schema["$ref"].as_str() {
                schema = &self.schemas[name.rsplit('/').next().unwrap()];
            } else if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
                schema = only;
            } else {
                return schema;
            }
        }
    }

    /// Returns the paths of all lists and maps. `[]` and `{}` stand for an item.
    fn lists(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        self.find(&self.schema, &mut Vec::new(), &mut Vec::new(), &mut found);
        found
    }

    fn find<'s>(
        &'s self,
        schema: &'s Value,
        path: &mut Vec<String>,
        above: &mut Vec<&'s Value>,
        found: &mut Vec<Vec<String>>,
    ) {
        let schema = self.resolved(schema);
        if above.iter().any(|known| std::ptr::eq(*known, schema)) {
            return;
        }
        above.push(schema);
        for (inner, step) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[inner].is_object() {
                found.push(path.clone());
                path.push(step.to_owned());
                self.find(&schema[inner], path, above, found);
                path.pop();
            }
        }
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            path.push(name.clone());
            self.find(child, path, above, found);
            path.pop();
        }
        above.pop();
    }

    /// Returns a value of the schema that is distinct per number.
    fn value(&self, schema: &Value, name: &str, number: usize, depth: usize) -> Value {
        let schema = self.resolved(schema);
        if let Some(one_of) = schema["enum"].as_array() {
            return one_of.iter().find(|value| **value != "").unwrap_or(&Value::Null).clone();
        }
        let text = match name {
            _ if schema["format"] == "date-time" => "2026-01-01T00:00:00Z".to_owned(),
            "operator" => "In".to_owned(),
            "effect" => "NoSchedule".to_owned(),
            "kind" => "Deployment".to_owned(),
            "apiVersion" => "apps/v1".to_owned(),
            "namespace" => "default".to_owned(),
            "uid" => format!("00000000-0000-0000-0000-{number:012}"),
            _ => format!("c{number}"),
        };
        match schema["type"].as_str() {
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("array") if depth < 3 => json!([self.value(&schema["items"], name, number, depth + 1)]),
            Some("array") => json!([]),
            Some("object") => {
                let required = schema["required"].as_array();
                let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
                let properties = schema["properties"].as_object().into_iter().flatten();
                let wanted = properties.filter(|(name, _)| is_required(name) || depth < 2);
                wanted.map(|(name, child)| (name.clone(), self.value(child, name, number, depth + 1))).collect()
            }
            _ => json!(text),
        }
    }

    /// Returns a body with a list of maximum size at `path`. `shift`: 0 or 1, for other items.
    fn body(&self, path: &[String], shift: usize) -> Value {
        let mut object = self.with_list(&self.schema, path, path, shift);
        let fields = object.as_object_mut().unwrap();
        if path[0] != "spec" {
            fields.insert("spec".to_owned(), json!({}));
        }
        if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
            for (name, value) in base(&self.name).as_object().unwrap() {
                spec.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        fields.insert("apiVersion".to_owned(), json!(self.api_version));
        fields.insert("kind".to_owned(), json!(self.name));
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = json!("big");
        object
    }

    fn with_list(&self, schema: &Value, rest: &[String], path: &[String], shift: usize) -> Value {
        let schema = self.resolved(schema);
        match rest {
            [] => self.list(schema, path.last().unwrap(), shift),
            [step, rest @ ..] if step == "[]" => json!([self.with_list(&schema["items"], rest, path, shift)]),
            [step, rest @ ..] if step == "{}" => {
                json!({"k1": self.with_list(&schema["additionalProperties"], rest, path, shift)})
            }
            [name, rest @ ..] => {
                let mut object = match rest.is_empty() || name == "spec" || name == "metadata" || name == "status" {
                    true => Map::new(),
                    // The required members other than the list.
                    false => self.value(schema, "", 1, 2).as_object().cloned().unwrap_or_default(),
                };
                object.insert(name.clone(), self.with_list(&schema["properties"][name], rest, path, shift));
                Value::Object(object)
            }
        }
    }

    fn list(&self, schema: &Value, name: &str, shift: usize) -> Value {
        let bytes_max = if name == "annotations" { ANNOTATION_BYTES.min(BYTES) } else { BYTES };
        let is_map = schema["items"].is_null();
        let item = if is_map { &schema["additionalProperties"] } else { &schema["items"] };
        let (mut items, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max {
            let number = 2 * items.len() + shift;
            let value = self.value(item, name, number, 1);
            bytes += value.to_string().len() + if is_map { 12 } else { 1 };
            items.push((format!("k{number}"), value));
        }
        match is_map {
            true => Value::Object(items.into_iter().collect()),
            false => items.into_iter().map(|(_, value)| value).collect(),
        }
    }
}

/// Returns the CPU time that the process has used.
fn cpu_time(server: &ServerProcess) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).expect("Linux");
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    // User and system time, in hundredths of a second.
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// Sends a request, and returns its status code and the CPU time until the server has finished it.
async fn measured(server: &ServerProcess, client: &Client, request: (Method, String, Value)) -> (u16, Duration) {
    let (method, path, body) = request;
    let content_type = match method {
        Method::PATCH => Some("application/merge-patch+json"),
        Method::POST => Some("application/json"),
        _ => None,
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let before = cpu_time(server);
    let (code, answer) = client.send(method, &path, content_type, body.into()).await.unwrap();
    answer.collect().await.unwrap();
    (code.as_u16(), cpu_time(server) - before)
}

#[tokio::test]
async fn the_largest_list_of_each_field_costs_what_its_size_allows() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let mut slow: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut lists, mut accepted) = (0, 0);
    for kind in kinds() {
        let Kind { name, collection, .. } = &kind;
        let object = format!("{collection}/big");
        for path in kind.lists() {
            lists += 1;
            let status = if path[0] == "status" && kind.has_status { "/status" } else { "" };
            let mut requests = Vec::new();
            if status.is_empty() {
                requests.push((Method::POST, format!("{collection}?dryRun=All"), kind.body(&path, 0)));
                requests.push((Method::POST, collection.clone(), kind.body(&path, 0)));
            } else {
                let mut plain = kind.body(&path, 0);
                plain.as_object_mut().unwrap().remove("status");
                requests.push((Method::POST, collection.clone(), plain));
                requests.push((Method::PATCH, format!("{object}{status}"), kind.body(&path, 0)));
            }
            requests.push((Method::PATCH, format!("{object}{status}"), kind.body(&path, 1)));
            requests.push((Method::PATCH, object.clone(), json!({"metadata": {"finalizers": null}})));
            requests.push((Method::DELETE, object.clone(), Value::Null));
            for request in requests {
                let what = format!("{name} {}: {} {}", path.join("."), request.0, request.1);
                let (code, cpu) = measured(&server, &client, request).await;
                assert!(code != 504 && code < 500, "{what}: {code}");
                accepted += usize::from(code < 300);
                if cpu > CPU_MAX {
                    slow.entry(name.clone()).or_default().push(format!("{what}: {code}, {cpu:?}"));
                }
            }
        }
    }
    assert!(slow.is_empty(), "requests of {BYTES} bytes that took more than {CPU_MAX:?} of CPU: {slow:#?}");
    assert!(lists > 300 && accepted > lists, "only {accepted} requests were accepted, of {lists} lists");
}
