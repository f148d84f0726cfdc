//! Every field of every stored kind survives POST, PUT /status and GET, in every version of the
//! kind.
//!
//! The objects are made from the schemas, so new fields are covered automatically. Some fields
//! exclude each other. For these, `variants` makes several valid objects, and a check makes sure
//! that together they set every field.

use std::collections::BTreeSet;

use ballast::api;
use ballast::k8s::FieldValidation;
use ballast::resource::Lifetime;
use serde_json::{Value, json};

use super::api_fields::full_object;
use crate::support::registry::{Api, NAMESPACE};

/// Fields of a shared type that one of its users rejects.
const NEVER_SET: [&str; 10] = [
    // An exclusion of everything selects nothing.
    ".exclude[].all",
    // A schedule plans again each time.
    ".template.spec.expectPlan",
    // A quota names resources, and `key` is none. Each has `cpu` in its place.
    ".overall.key",
    ".overallUsed.key",
    ".hard.key",
    ".used.key",
    // A Rebalance selects in its own namespace.
    ".select[].namespace",
    ".exclude[].namespace",
    ".requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[].propertySorter.",
    ".preferredDuringSchedulingIgnoredDuringExecution[].preference.propertySelector.",
];

#[tokio::test]
async fn an_object_with_every_field_set_survives_the_api() {
    let kinds = api::kinds();
    for kind in kinds.rows().iter().filter(|kind| kind.lifetime == Lifetime::Stored) {
        if kind.group.is_empty() || !kind.written_by_clients {
            continue;
        }
        let full = Value::Object(full_object(kind));
        let variants = variants(kind.kind, &full);
        let mut covered = BTreeSet::new();
        for sent in &variants {
            list_leaves(sent, "", &mut covered);
            let api = Api::start().await;
            let written = api.create(sent.clone(), FieldValidation::Strict).await;
            let written = written.unwrap_or_else(|status| panic!("{} is refused: {status}", kind.kind));
            assert_eq!(written.warnings, [""; 0]);
            if kind.status_subresource {
                let status = api.get(sent).await["status"].clone();
                assert!(status.is_null() || status == json!({}), "ST1: {status}");
                api.put_status(sent.clone()).await.unwrap();
            }
            let mut stored = api.get(sent).await;
            // The server derives this condition from the clusters' reports, with every write.
            if let Some(conditions) = stored.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                conditions.retain(|condition| condition["type"] != "FullyApplied");
            }
            assert_eq!(stored["spec"], sent["spec"], "{}", kind.kind);
            assert_eq!(stored.get("status"), sent.get("status"), "{}", kind.kind);
            for other in kinds.rows().iter().filter(|row| row.resource == kind.resource && row.version != kind.version)
            {
                let mut asked = sent.clone();
                asked["apiVersion"] = json!(other.api_version());
                let told = api.get(&asked).await;
                assert_eq!((&told["spec"], told.get("status")), (&stored["spec"], stored.get("status")));
            }
        }
        let mut all = BTreeSet::new();
        list_leaves(&full, "", &mut all);
        let is_wanted = |path: &&String| {
            let is_refused = kind.kind == "Rebalance" && path.starts_with(".spec.drain");
            !path.starts_with(".metadata") && !is_refused && NEVER_SET.iter().all(|part| !path.contains(part))
        };
        let left_out: Vec<_> = all.difference(&covered).filter(is_wanted).collect();
        assert!(left_out.is_empty(), "{}: {left_out:#?}", kind.kind);
    }
}

/// Variants of the object that the kind's rules accept. Together they set every field.
fn variants(kind: &str, full: &Value) -> Vec<Value> {
    let mut object = full.clone();
    object["metadata"] = json!({"name": "full"});
    amend_selectors(&mut object["spec"]);
    if object["spec"].get("resourceSelectors").is_some() && object["spec"].get("policy").is_some() {
        return placement_variants(&object);
    }
    if kind == "EvictionLimit" {
        object["metadata"]["name"] = json!("fleet");
        object["spec"]["bindingsPerSecond"] = json!("500m");
        return vec![object];
    }
    if kind == "RebalanceSchedule" {
        return schedule_variants(&object);
    }
    if kind.ends_with("Rebalance") {
        let specs = rebalance_specs(&object["spec"], kind == "Rebalance").into_iter();
        return specs.map(|spec| with_spec(&object, spec)).collect();
    }
    if kind.ends_with("OverridePolicy") {
        return override_variants(&object, kind == "OverridePolicy");
    }
    if kind == "FederatedResourceQuota" {
        name_resources(&mut object);
    }
    if kind == "ClusterTaintPolicy" {
        set(&mut object, "/spec/targetClusters/fieldSelector/matchExpressions/0/key", json!("region"));
        set(&mut object, "/spec/targetClusters/fieldSelector/matchExpressions/0/operator", json!("In"));
    }
    if object["spec"].get("placement").is_none() {
        amend_cluster(&mut object);
        return vec![object];
    }
    let placement = &mut object["spec"]["placement"];
    for path in ["/clusterAffinity", "/clusterAffinities/0", "/clusterAffinities/0/overflowAffinities/0"] {
        set(placement, &format!("{path}/fieldSelector/matchExpressions/0/key"), json!("region"));
        set(placement, &format!("{path}/fieldSelector/matchExpressions/0/operator"), json!("In"));
    }
    let specified =
        "/replicaScheduling/specifyPreference/staticSpecifyList/0/targetCluster/fieldSelector/matchExpressions/0";
    set(placement, &format!("{specified}/key"), json!("zone"));
    set(placement, &format!("{specified}/operator"), json!("NotIn"));
    let bounds = "/replicaScheduling/clusterBounds/0";
    set(placement, &format!("{bounds}/targetCluster/fieldSelector/matchExpressions/0/key"), json!("zone"));
    set(placement, &format!("{bounds}/targetCluster/fieldSelector/matchExpressions/0/operator"), json!("In"));
    set(placement, &format!("{bounds}/minReplicas"), json!(1));
    set(placement, &format!("{bounds}/maxReplicas"), json!(2));
    set(placement, "/clusterAffinities/0/overflowAffinities/0/affinityName", json!("overflow"));
    set(placement, "/clusterTolerations/0/operator", json!("Exists"));
    set(placement, "/replicaScheduling/replicaSchedulingType", json!("Divided"));
    set(placement, "/workloadAffinity/antiAffinity/groupByLabelKey", json!("other"));
    if kind == "ResourceBinding" {
        set(&mut object, "/spec/resource/namespace", json!(NAMESPACE));
    }
    if kind == "PropagationPolicy" {
        // A policy selects in its own namespace.
        set(&mut object, "/spec/resourceSelectors/0/namespace", json!(NAMESPACE));
    }
    if kind.ends_with("PropagationPolicy") {
        // Only `Gracefully` has a grace period.
        set(&mut object, "/spec/failover/application/purgeMode", json!("Gracefully"));
    }

    let (mut with_groups, mut with_one_group) = (object.clone(), object);
    remove(&mut with_groups, "/spec/placement", "clusterAffinity");
    remove(&mut with_one_group, "/spec/placement", "clusterAffinities");
    remove(&mut with_groups, "/spec/placement/spreadConstraints/0", "spreadByField");
    remove(&mut with_one_group, "/spec/placement/spreadConstraints/0", "spreadByLabel");
    if kind.ends_with("PropagationPolicy") {
        remove(&mut with_groups, "/spec/suspension", "dispatching");
        remove(&mut with_one_group, "/spec/suspension", "dispatchingOnClusters");
    }
    vec![with_groups, with_one_group]
}

/// Gives each selector an operator that exists, and a field that clusters have.
fn amend_selectors(value: &mut Value) {
    const SELECTORS: [&str; 3] = ["labelSelector", "fieldSelector", "hardNodeAffinity"];
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if SELECTORS.contains(&name.as_str()) {
                    amend_expressions(member, name == "fieldSelector");
                } else {
                    amend_selectors(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(amend_selectors),
        _ => {}
    }
}

fn amend_expressions(selector: &mut Value, is_by_field: bool) {
    for term in selector.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut).into_iter().flatten() {
        amend_expressions(term, false);
    }
    for one in selector.get_mut("matchExpressions").and_then(Value::as_array_mut).into_iter().flatten() {
        one["operator"] = json!("In");
        if is_by_field {
            one["key"] = json!("region");
        }
    }
}

/// KubeFleet placements: one picks a number of clusters, and one names them.
fn placement_variants(full: &Value) -> Vec<Value> {
    let mut of_number = full.clone();
    set(&mut of_number, "/spec/strategy/applyStrategy/type", json!("ServerSideApply"));
    set(&mut of_number, "/spec/policy/tolerations/0/operator", json!("Equal"));
    let mut named = of_number.clone();
    set(&mut of_number, "/spec/policy/placementType", json!("PickN"));
    remove(&mut of_number, "/spec/policy", "clusterNames");
    remove(&mut of_number, "/spec/resourceSelectors/0", "name");
    set(&mut of_number, "/spec/resourceSelectors/0/labelSelector/matchExpressions/0/operator", json!("In"));
    let affinity = "/spec/policy/affinity/clusterAffinity";
    let required = format!("{affinity}/requiredDuringSchedulingIgnoredDuringExecution/clusterSelectorTerms/0");
    let preferred = format!("{affinity}/preferredDuringSchedulingIgnoredDuringExecution/0/preference");
    for term in [&required, &preferred] {
        set(&mut of_number, &format!("{term}/labelSelector/matchExpressions/0/operator"), json!("In"));
    }
    let expression = format!("{required}/propertySelector/matchExpressions/0");
    set(&mut of_number, &format!("{expression}/operator"), json!("Ge"));
    set(&mut of_number, &format!("{expression}/values"), json!(["4"]));
    remove(&mut of_number, &required, "propertySorter");
    remove(&mut of_number, &preferred, "propertySelector");

    set(&mut named, "/spec/policy", json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
    remove(&mut named, "/spec/resourceSelectors/0", "labelSelector");
    vec![of_number, named]
}

/// With rules and with the deprecated fields, and with field patches of both kinds.
fn override_variants(full: &Value, is_namespaced: bool) -> Vec<Value> {
    let mut full = full.clone();
    if is_namespaced {
        set(&mut full, "/spec/resourceSelectors/0/namespace", json!(NAMESPACE));
    }
    for holder in ["/spec", "/spec/overrideRules/0"] {
        let expression = format!("{holder}/targetCluster/fieldSelector/matchExpressions/0");
        set(&mut full, &format!("{expression}/key"), json!("region"));
        set(&mut full, &format!("{expression}/operator"), json!("In"));
        let overriders = format!("{holder}/overriders");
        set(&mut full, &format!("{overriders}/imageOverrider/0/predicate/path"), json!("/spec/image"));
        set(&mut full, &format!("{overriders}/fieldOverrider/0/fieldPath"), json!("/data/a"));
        for form in ["json", "yaml"] {
            set(&mut full, &format!("{overriders}/fieldOverrider/0/{form}/0/subPath"), json!("/b"));
        }
    }
    let mut variants = Vec::new();
    for form in ["json", "yaml"] {
        let mut one = full.clone();
        for holder in ["/spec", "/spec/overrideRules/0"] {
            remove(&mut one, &format!("{holder}/overriders/fieldOverrider/0"), form);
        }
        let (mut with_rules, mut without) = (one.clone(), one);
        remove(&mut with_rules, "/spec", "targetCluster");
        remove(&mut with_rules, "/spec", "overriders");
        remove(&mut without, "/spec", "overrideRules");
        variants.extend([with_rules, without]);
    }
    variants
}

fn name_resources(quota: &mut Value) {
    let amounts = json!({"cpu": "500m"});
    for path in [
        "/spec/overall",
        "/spec/staticAssignments/0/hard",
        "/status/overall",
        "/status/overallUsed",
        "/status/aggregatedStatus/0/hard",
        "/status/aggregatedStatus/0/used",
    ] {
        set(quota, path, amounts.clone());
    }
    set(quota, "/spec/staticAssignments/0/clusterName", json!("m1"));
    set(quota, "/status/aggregatedStatus/0/clusterName", json!("m1"));
}

/// One that selects, and one that undoes another.
fn rebalance_specs(full: &Value, is_namespaced: bool) -> Vec<Value> {
    let mut selecting = full.clone();
    set(&mut selecting, "/rollout/strategy", json!("SurgeFirst"));
    set(&mut selecting, "/rollout/gates/0/name", json!("smoke"));
    set(&mut selecting, "/rollout/gates/0/for", json!("3s"));
    set(&mut selecting, "/rollout/gates/0/prometheus/holds", json!("< 5"));
    set(&mut selecting, "/mode", json!("AsBefore"));
    // A Rebalance drains no cluster.
    let drain = selecting.as_object_mut().expect("an object").remove("drain");
    let mut undoing = selecting.clone();
    for name in ["select", "exclude", "before"] {
        remove(&mut undoing, "", name);
    }
    set(&mut undoing, "/mode", json!("Fresh"));
    set(&mut undoing, "/undo/clusters", json!(["m1"]));
    let mut draining = undoing.clone();
    remove(&mut draining, "", "undo");
    // An objective specifies the destination of workloads, and so do the past and an undo.
    remove(&mut undoing, "", "objective");
    remove(&mut selecting, "", "undo");
    set(&mut selecting, "/exclude/0/name", json!("other"));
    for entry in ["/select/0", "/exclude/0"] {
        set(&mut selecting, &format!("{entry}/namespace"), json!("shop"));
        set(&mut selecting, &format!("{entry}/placedOn"), json!(["m1"]));
        set(&mut selecting, &format!("{entry}/notPlacedOn"), json!(["m2"]));
        set(&mut selecting, &format!("{entry}/labelSelector/matchExpressions/0/operator"), json!("In"));
        set(&mut selecting, &format!("{entry}/policyRef/kind"), json!("PropagationPolicy"));
        set(&mut selecting, &format!("{entry}/policyRef/namespace"), json!("shop"));
        remove(&mut selecting, entry, "all");
        if is_namespaced {
            remove(&mut selecting, entry, "namespace");
        }
    }
    // An entry that selects everything has no other field.
    selecting["select"].as_array_mut().expect("a list").push(json!({"all": true}));
    // The past is a revision or a time, and a workload is displaced or drifted.
    let mut drifted = selecting.clone();
    remove(&mut selecting, "/before", "time");
    remove(&mut drifted, "/before", "revision");
    for entry in ["/select/0", "/exclude/0"] {
        remove(&mut selecting, entry, "drifted");
        remove(&mut drifted, entry, "displaced");
    }
    let mut aiming = selecting.clone();
    remove(&mut aiming, "", "before");
    set(&mut aiming, "/mode", json!("Fresh"));
    for spec in [&mut selecting, &mut drifted] {
        remove(spec, "", "objective");
    }
    // A domain fails for one goal, and other goals consider a resource.
    let mut surviving = aiming.clone();
    set(&mut surviving, "/objective/goal", json!("Survive"));
    remove(&mut surviving, "/objective", "resource");
    set(&mut surviving, "/objective/tolerance", json!(3));
    remove(&mut aiming, "/objective", "by");
    remove(&mut draining, "/objective", "by");
    let mut specs = vec![selecting, drifted, undoing, aiming, surviving];
    if let Some(drain) = drain.filter(|_| !is_namespaced) {
        draining["drain"] = drain;
        set(&mut draining, "/drain/clusters", json!(["m1"]));
        specs.push(draining);
    }
    // A gate calls one of two kinds of servers.
    for (index, spec) in specs.iter_mut().enumerate() {
        remove(spec, "/rollout/gates/0", if index == 1 { "prometheus" } else { "webhook" });
    }
    specs
}

/// One by the clock, and one by an event.
fn schedule_variants(full: &Value) -> Vec<Value> {
    let mut full = full.clone();
    set(&mut full, "/spec/schedule", json!("0 3 * * 6"));
    set(&mut full, "/spec/timeZone", json!("Europe/Berlin"));
    set(&mut full, "/spec/on/clusterRecovered/clusterSelector/matchExpressions/0/operator", json!("In"));
    set(&mut full, "/spec/template/spec/abort", json!(false));
    remove(&mut full, "/spec/template/spec", "expectPlan");
    let specs = rebalance_specs(&full["spec"]["template"]["spec"], false).into_iter().enumerate();
    let of = |(at, spec): (usize, Value)| {
        let mut schedule = full.clone();
        set(&mut schedule, "/spec/template/spec", spec);
        let others: &[&str] = if at % 2 == 0 { &["on"] } else { &["schedule", "timeZone"] };
        others.iter().for_each(|name| remove(&mut schedule, "/spec", name));
        schedule
    };
    specs.map(of).collect()
}

fn with_spec(object: &Value, spec: Value) -> Value {
    let mut object = object.clone();
    object["spec"] = spec;
    object
}

fn amend_cluster(object: &mut Value) {
    if object["spec"].get("syncMode").is_none() {
        return;
    }
    let spec = &mut object["spec"];
    set(spec, "/syncMode", json!("Push"));
    set(spec, "/apiEndpoint", json!("https://m1:6443"));
    set(spec, "/proxyURL", json!("https://proxy"));
    let all = json!({"name": "cpu", "min": "0", "max": i64::MAX.to_string()});
    set(spec, "/resourceModels/0/ranges/0", all);
    for amounts in ["allocatable", "allocating", "allocated"] {
        set(object, &format!("/status/resourceSummary/{amounts}/key"), json!("500m"));
    }
}

#[track_caller]
fn set(object: &mut Value, pointer: &str, value: Value) {
    *object.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is there")) = value;
}

#[track_caller]
fn remove(object: &mut Value, pointer: &str, name: &str) {
    let holder = object.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is there"));
    holder.as_object_mut().expect("an object").remove(name).unwrap_or_else(|| panic!("{pointer}/{name} is there"));
}

fn list_leaves(value: &Value, at: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                list_leaves(value, &format!("{at}.{name}"), paths);
            }
        }
        Value::Array(items) => {
            for item in items {
                list_leaves(item, &format!("{at}[]"), paths);
            }
        }
        _ => drop(paths.insert(at.to_owned())),
    }
}
