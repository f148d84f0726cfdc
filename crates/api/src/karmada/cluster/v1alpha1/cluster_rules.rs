//! Defaults and validation of clusters beyond the schema, as in upstream.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Cluster, ClusterSpec, LocalSecretReference, ResourceModel};
use crate::core::{Quantity, Taint};
use crate::tree::{self, Object};
use ballast_k8s::{self as k8s, FieldErrors, FieldPath, names};
use ballast_resource::Given;

/// Maximum length of the name of a cluster, because upstream adds a prefix of 15 characters to make
/// the name of a namespace.
const NAME_LENGTH_MAX: usize = 48;

const RESOURCES: &[&str] = &["cpu", "ephemeral-storage", "memory", "storage"];

/// Lower bounds of the default classes: `cpu` and `memory` (BK6). A class ends where the next one
/// begins.
const DEFAULT_CLASSES: [(&str, &str); 9] = [
    ("0", "0"),
    ("1", "4Gi"),
    ("2", "16Gi"),
    ("4", "32Gi"),
    ("8", "64Gi"),
    ("16", "128Gi"),
    ("32", "256Gi"),
    ("64", "512Gi"),
    ("128", "1Ti"),
];

/// Sets the defaults of a Cluster: times of taints, zones and resource models.
pub fn prepare(object: &mut Object, given: &Given<'_>) {
    if let Some(spec) = tree::object(object, &["spec"]) {
        for (_, taint) in tree::items(spec, "taints") {
            if tree::text(taint, "effect") == "NoExecute" {
                // `tolerationSeconds` counts from this time.
                taint.entry("timeAdded").or_insert(json!(given.now));
            }
        }
        if spec.get("zones").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            // `zone` is superseded by `zones`.
            let zone = spec.remove("zone").filter(|zone| *zone != "");
            spec.extend(zone.map(|zone| ("zones".to_owned(), json!([zone]))));
        }
        if given.old.is_none() && spec.get("resourceModels").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("resourceModels".to_owned(), default_models());
        }
        prepare_models(spec);
    }
    if let Some(summary) = tree::object(object, &["status", "resourceSummary"]) {
        for name in ["allocatable", "allocating", "allocated"] {
            let amounts = summary.get_mut(name).and_then(Value::as_object_mut);
            amounts.into_iter().flat_map(Object::values_mut).for_each(write_as_text);
        }
    }
}

/// Returns the classes of a new cluster that specifies none. Upstream's gate
/// `CustomizedClusterResourceModeling` is on, and its controller counts the nodes of each class.
fn default_models() -> Value {
    let last = (i64::MAX.to_string(), i64::MAX.to_string());
    let ends = DEFAULT_CLASSES.iter().skip(1).map(|(cpu, memory)| ((*cpu).to_owned(), (*memory).to_owned()));
    let classes = DEFAULT_CLASSES.iter().zip(ends.chain([last])).enumerate();
    let range = |name: &str, min: &str, max: String| json!({"name": name, "min": min, "max": max});
    classes
        .map(|(grade, ((cpu, memory), (cpu_end, memory_end)))| {
            json!({"grade": grade, "ranges": [range("cpu", cpu, cpu_end), range("memory", memory, memory_end)]})
        })
        .collect()
}

/// Sorts the classes. The first one starts at zero, and the last one has no upper bound.
fn prepare_models(spec: &mut Object) {
    for (_, model) in tree::items(spec, "resourceModels") {
        for (_, range) in tree::items(model, "ranges") {
            range.get_mut("min").map(write_as_text);
            range.get_mut("max").map(write_as_text);
        }
    }
    let Some(models) = spec.get_mut("resourceModels").and_then(Value::as_array_mut) else { return };
    models.sort_by_key(|model| model.get("grade").and_then(Value::as_i64));
    for (model, bound, amount) in
        [(0, "min", "0".to_owned()), (models.len().wrapping_sub(1), "max", i64::MAX.to_string())]
    {
        let ranges = models.get_mut(model).and_then(|model| model.get_mut("ranges")?.as_array_mut());
        for range in ranges.into_iter().flatten().filter_map(Value::as_object_mut) {
            range.insert(bound.to_owned(), json!(amount));
        }
    }
}

/// Converts a number to text, as the schema requires. Users often write numbers.
fn write_as_text(amount: &mut Value) {
    if let Value::Number(number) = amount {
        *amount = json!(number.to_string());
    }
}

/// Checks a Cluster: its name, its spec, and the amounts in its status.
pub fn check(cluster: &Cluster) -> FieldErrors {
    let mut errors = FieldErrors::default();
    check_name(cluster.metadata.name.as_deref().unwrap_or_default(), &mut errors);
    check_spec(&cluster.spec, &FieldPath::new("spec"), &mut errors);
    if let Some(summary) = &cluster.status.resource_summary {
        let path = FieldPath::new("status.resourceSummary");
        let lists = [
            ("allocatable", &summary.allocatable),
            ("allocating", &summary.allocating),
            ("allocated", &summary.allocated),
        ];
        for (name, amounts) in lists {
            for (resource, quantity) in amounts {
                amount(quantity, &path.child(name).key(resource), &mut errors);
            }
        }
    }
    errors
}

fn check_name(name: &str, errors: &mut FieldErrors) {
    for fault in name_faults(name) {
        errors.invalid(&FieldPath::new("metadata.name"), name, fault);
    }
}

/// Returns the reasons for which `name` is not a valid name of a cluster.
pub fn name_faults(name: &str) -> Vec<String> {
    if name.len() > NAME_LENGTH_MAX {
        return vec![format!("must be no more than {NAME_LENGTH_MAX} characters")];
    }
    names::dns_label_faults(name)
}

fn check_spec(spec: &ClusterSpec, path: &FieldPath, errors: &mut FieldErrors) {
    match spec.sync_mode.as_str() {
        "Push" | "Pull" => {}
        "" => errors.required(&path.child("syncMode"), ""),
        other => errors.not_supported(&path.child("syncMode"), other, &["Pull", "Push"]),
    }
    if let Some(endpoint) = spec.api_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
        check_endpoint(endpoint, &path.child("apiEndpoint"), errors);
    }
    let secrets = [("secretRef", &spec.secret_ref), ("impersonatorSecretRef", &spec.impersonator_secret_ref)];
    for (name, secret) in secrets {
        if let Some(LocalSecretReference { namespace, name: secret }) = secret {
            for (part, value) in [("namespace", namespace), ("name", secret)] {
                if value.is_empty() {
                    errors.required(&path.child(name).child(part), "");
                }
            }
        }
    }
    if let Some(proxy) = spec.proxy_url.as_deref().filter(|proxy| !proxy.is_empty()) {
        let scheme = proxy.split_once(':').map_or("", |(scheme, _)| scheme);
        if !["http", "https", "socks5"].contains(&scheme) {
            let detail = format!("unsupported scheme {scheme:?}, must be http, https, or socks5");
            errors.invalid(&path.child("proxyURL"), proxy, detail);
        }
    }
    check_taints(&spec.taints, &path.child("taints"), errors);
    check_models(&spec.resource_models, &path.child("resourceModels"), errors);
}

fn check_endpoint(endpoint: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let (rest, has_fragment) = endpoint.split_once('#').map_or((endpoint, false), |(rest, _)| (rest, true));
    let (rest, has_query) = rest.split_once('?').map_or((rest, false), |(rest, _)| (rest, true));
    let authority = rest.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        let detail = "host must be provided; desired format: hostname, hostname:port, IP or IP:port";
        errors.invalid(path, endpoint, detail);
    }
    if user.is_some() {
        errors.invalid(path, endpoint, "user information is not permitted in the URL");
    }
    if has_fragment {
        errors.invalid(path, endpoint, "fragments are not permitted in the URL");
    }
    if has_query {
        errors.invalid(path, endpoint, "query parameters are not permitted in the URL");
    }
}

fn check_taints(taints: &[Taint], path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        for fault in names::qualified_name_faults(&taint.key) {
            errors.invalid(&path.child("key"), &taint.key, fault);
        }
        let value = taint.value.as_deref().unwrap_or_default();
        for fault in names::label_value_faults(value) {
            errors.invalid(&path.child("value"), value, fault);
        }
        if !seen.insert((taint.key.as_str(), taint.effect)) {
            let shown = serde_json::to_string(taint).unwrap_or_default();
            let body = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            errors.push(&path, "FieldValueDuplicate", body);
        }
    }
}

fn check_models(models: &[ResourceModel], path: &FieldPath, errors: &mut FieldErrors) {
    for (index, model) in models.iter().enumerate() {
        let below = index.checked_sub(1).map(|below| &models[below]);
        let path = path.index(index);
        if below.is_some_and(|below| below.grade == model.grade) {
            errors.invalid(&path.child("grade"), model.grade, "The grade of each models should not be the same");
        }
        if below.is_some_and(|below| below.ranges.len() != model.ranges.len()) {
            errors.invalid(&path.child("ranges"), &model.ranges, "The number of resource types should be the same");
            continue;
        }
        for (place, range) in model.ranges.iter().enumerate() {
            let path = path.child("ranges").index(place);
            if !RESOURCES.contains(&range.name.as_str()) {
                errors.not_supported(&path.child("name"), &range.name, RESOURCES);
            }
            let (min, max) =
                (amount(&range.min, &path.child("min"), errors), amount(&range.max, &path.child("max"), errors));
            let (Some(min), Some(max)) = (min, max) else { continue };
            if max <= min {
                let detail = "The max value of each resource must be greater than the min value";
                errors.invalid(&path.child("max"), &range.max, detail);
            }
            let Some(below) = below.map(|below| &below.ranges[place]) else { continue };
            if below.name != range.name {
                let detail = "The resource types of each models should be the same";
                errors.invalid(&path.child("name"), &range.name, detail);
            } else if below.max.text().parse() != Ok(min) {
                let detail = "Model intervals for resources must be contiguous and non-overlapping";
                errors.invalid(&path.child("min"), &range.min, detail);
            }
        }
    }
}

fn amount(quantity: &Quantity, path: &FieldPath, errors: &mut FieldErrors) -> Option<k8s::Quantity> {
    match quantity.text().parse() {
        Ok(amount) => Some(amount),
        Err(fault) => {
            errors.invalid(path, quantity, fault);
            None
        }
    }
}
