//! The YAML samples of the seed documents, as users copy them. Each is accepted unchanged,
//! corrected with a warning, or rejected (C3, C15, R125).

use ballast::k8s::{Body, FieldValidation};
use serde_json::{Value, json};

use crate::support::registry::{Api, tree};

macro_rules! sample {
    ($name:literal) => {
        read(include_str!(concat!("../data/seeds/", $name, ".yaml")))
    };
}

#[tokio::test]
async fn samples_without_a_flaw_are_taken_as_they_are() {
    for sample in [
        sample!("reschedule-task-binding-marked"),
        sample!("reschedule-task-binding-unmarked"),
        sample!("scheduling-groups-one"),
        sample!("scheduling-groups-several"),
        sample!("workload-rebalancer"),
        sample!("workload-rebalancer-binding-scheduled"),
    ] {
        let api = Api::start().await;
        let written = api.create(sample.clone(), FieldValidation::Strict).await.unwrap();
        assert_eq!(written.warnings, [""; 0], "{sample}");
        let stored = api.get(&sample).await;
        assert_contains(&stored["spec"], &sample["spec"]);
        if sample.get("status").is_some() {
            api.put_status(sample.clone()).await.unwrap();
            assert_eq!(api.get(&sample).await["status"], sample["status"]);
        }
    }
}

#[tokio::test]
async fn a_finished_rebalancer_reads_back_as_the_seed_shows_it() {
    let sample = sample!("workload-rebalancer-finished");
    let api = Api::start().await;
    api.create(sample.clone(), FieldValidation::Strict).await.unwrap();
    api.put_status(sample.clone()).await.unwrap();
    assert_eq!(api.get(&sample).await["status"], sample["status"]);
}

#[tokio::test]
async fn c14_c15_all_ways_to_specify_replicas_come_to_the_same() {
    let by = |target: Value, replicas: i64| json!({"targetCluster": target, "replicas": replicas});
    let regions = |names: &[&str]| json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": names}]}});
    let per_cluster = [by(json!({"clusterNames": ["member1"]}), 2), by(json!({"clusterNames": ["member2"]}), 2)];
    let per_region = [by(regions(&["RegionA"]), 2), by(regions(&["RegionB"]), 2)];
    let together = [by(regions(&["RegionA", "RegionB"]), 4)];
    for (sample, expected, warnings) in [
        (sample!("specify-replicas-solution-1-clusters"), &per_cluster[..], 2),
        (sample!("specify-replicas-solution-1-regions"), &per_region[..], 2),
        (sample!("specify-replicas-solution-1-region-list"), &together[..], 1),
        (sample!("specify-replicas-solution-2-clusters"), &per_cluster[..], 3),
        (sample!("specify-replicas-solution-2-regions"), &per_region[..], 3),
        (sample!("specify-replicas-solution-2-region-list"), &together[..], 1),
        (sample!("specify-replicas-solution-3-clusters"), &per_cluster[..], 1),
        (sample!("specify-replicas-solution-3-regions"), &per_region[..], 1),
        (sample!("specify-replicas-solution-3-region-list"), &together[..], 2),
    ] {
        let api = Api::start().await;
        let written = api.create(sample.clone(), FieldValidation::Warn).await.unwrap();
        assert_eq!(written.warnings.len(), warnings, "{:#?}", written.warnings);
        assert!(written.warnings.iter().all(|warning| warning.contains("was read as")), "{:#?}", written.warnings);
        let strategy = &tree(&written)["spec"]["placement"]["replicaScheduling"];
        assert_eq!(strategy["replicaSchedulingType"], "Divided");
        assert_eq!(strategy["replicaDivisionPreference"], "Specified");
        assert_eq!(strategy["specifyPreference"], json!({"staticSpecifyList": expected}));

        let refused = Api::start().await.create(sample, FieldValidation::Strict).await.unwrap_err();
        assert_eq!(refused.code, 400, "{refused}");
        assert!(refused.message.contains("strict decoding error: "), "{refused}");
        assert!(refused.message.contains(&written.warnings[0]), "what to write is part of the message: {refused}");
    }
}

/// The flawed samples of the proposal, and likely variations.
fn flawed_samples() -> Vec<Value> {
    let mut samples = vec![
        sample!("specify-replicas-solution-1-clusters"),
        sample!("specify-replicas-solution-1-regions"),
        sample!("specify-replicas-solution-1-region-list"),
        sample!("specify-replicas-solution-2-clusters"),
        sample!("specify-replicas-solution-2-regions"),
        sample!("specify-replicas-solution-2-region-list"),
        sample!("specify-replicas-solution-3-clusters"),
        sample!("specify-replicas-solution-3-regions"),
        sample!("specify-replicas-solution-3-region-list"),
    ];
    // The region lists without their total.
    let mut bare = sample!("specify-replicas-solution-2-region-list");
    bare["spec"].as_object_mut().unwrap().remove("replicas");
    samples.push(bare);
    let mut bare = sample!("specify-replicas-solution-3-region-list");
    bare["spec"].as_object_mut().unwrap().remove("replicas");
    samples.push(bare);
    // The region list as the proposal's types have it, with a total.
    let mut extended = sample!("specify-replicas-solution-2-region-list");
    extended["spec"]["placement"]["replicaScheduling"] =
        json!({"replicaSchedulingType": "Divided", "extendReplicaDivisionPreference": "Regions"});
    samples.push(extended);
    // A total, although there are numbers already.
    let mut twice = sample!("specify-replicas-solution-2-clusters");
    twice["spec"]["replicas"] = json!(4);
    samples.push(twice);
    samples
}

#[tokio::test]
async fn c15_a_correction_that_is_followed_to_the_letter_is_taken_strictly_and_means_the_same() {
    for sample in flawed_samples() {
        let written = Api::start().await.create(sample.clone(), FieldValidation::Warn).await.unwrap();
        assert!(!written.warnings.is_empty(), "{sample}");
        let refused = Api::start().await.create(sample.clone(), FieldValidation::Strict).await.unwrap_err();
        let mut corrected = sample.clone();
        for correction in &written.warnings {
            assert!(refused.message.contains(correction), "{correction} in {refused}");
            follow(correction, &mut corrected);
        }
        let taken = Api::start().await.create(corrected.clone(), FieldValidation::Strict).await;
        let taken = taken.unwrap_or_else(|refused| panic!("{:#?}\n{corrected:#}\n{refused}", written.warnings));
        assert_eq!(taken.warnings, [""; 0], "{corrected:#}");
        assert_eq!(tree(&taken)["spec"], tree(&written)["spec"], "{:#?}", written.warnings);
    }
}

/// Applies a correction: `FIELD: was read as VALUE`, `FIELD: was read as OTHER`, `FIELD: was read
/// as OTHER: VALUE`, or `FIELD: … was left out`.
fn follow(correction: &str, object: &mut Value) {
    let (field, rest) = correction.split_once(": ").unwrap();
    let Some((_, read)) = rest.split_once("was read as ") else {
        assert!(rest.ends_with("was left out"), "{correction}");
        drop(take(object, field));
        return;
    };
    let value = |yaml: &str| {
        let text = format!("value: {yaml}");
        Body::from_yaml(text.as_bytes()).unwrap_or_else(|fault| panic!("{correction}: {fault}")).value["value"].clone()
    };
    if read.starts_with(['{', '"', '\'']) {
        drop(take(object, field));
        put(object, field, value(read));
    } else if let Some((other, yaml)) = read.split_once(": ") {
        drop(take(object, field));
        put(object, other, value(yaml));
    } else {
        let moved = take(object, field);
        put(object, read, moved);
    }
}

/// `a.b[0].c[d.e]` as the steps a, b, 0, c and d.e.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for part in path.split('[') {
        let (key, names) = part.split_once(']').map_or((None, part), |(key, names)| (Some(key), names));
        steps.extend(key.map(str::to_owned));
        steps.extend(names.split('.').filter(|name| !name.is_empty()).map(str::to_owned));
    }
    steps
}

/// The parent of the field at `path`, and the name of the field. Missing parents are created.
fn place<'a>(object: &'a mut Value, path: &str) -> (&'a mut Value, String) {
    let mut steps = steps(path);
    let last = steps.pop().unwrap();
    let above = steps.iter().fold(object, |at, step| match step.parse::<usize>() {
        Ok(index) => &mut at[index],
        Err(_) => &mut at[step.as_str()],
    });
    (above, last)
}

fn take(object: &mut Value, path: &str) -> Value {
    match place(object, path) {
        (Value::Object(above), name) => above.remove(&name).unwrap_or_else(|| panic!("{path} is there")),
        (above, index) => above[index.parse::<usize>().unwrap()].take(),
    }
}

fn put(object: &mut Value, path: &str, value: Value) {
    match place(object, path) {
        (Value::Array(above), index) => above[index.parse::<usize>().unwrap()] = value,
        (above, name) => above[name.as_str()] = value,
    }
}

#[tokio::test]
async fn what_was_mended_needs_no_mending_again() {
    let api = Api::start().await;
    let written = api.create(sample!("specify-replicas-solution-1-clusters"), FieldValidation::Warn).await.unwrap();
    let mut again = tree(&written);
    again["metadata"] = json!({"name": "again"});
    let written = api.create(again, FieldValidation::Strict).await.unwrap();
    assert_eq!(written.warnings, [""; 0]);
}

#[tokio::test]
async fn r154_an_annotation_that_cannot_be_read_is_refused() {
    let annotation = "metadata.annotations[scheduling.karmada.io/specified-replicas]: Invalid value: ";
    for (text, fault) in [
        ("{", "cannot be read: unexpected end of JSON input"),
        ("{}", "must have exactly one of specifiedClusters, specifiedIdcs and idcs"),
        (r#"{"idcs": []}"#, "must name at least one cluster or region"),
        (r#"{"specifiedClusters": [{"name": "member1", "replicas": 2}], "replicas": 2}"#, "replicas belongs to idcs"),
        (r#"{"specifiedClusters": [{"name": "member1"}]}"#, "cannot be read: missing field `replicas`"),
    ] {
        let mut sample = sample!("specify-replicas-solution-3-clusters");
        sample["metadata"]["annotation"] = json!(text);
        let refused = Api::start().await.create(sample, FieldValidation::Warn).await.unwrap_err();
        assert_eq!(refused.code, 422);
        assert!(refused.message.contains(annotation) && refused.message.contains(fault), "{refused}");
    }
}

#[tokio::test]
async fn r125_the_rejected_alternative_is_an_unknown_field() {
    let sample = sample!("scheduling-groups-rejected-alternative");
    let fault = "unknown field \"spec.placement.clusterAffinity.propagatePriority\"";
    let written = Api::start().await.create(sample.clone(), FieldValidation::Warn).await.unwrap();
    assert_eq!(written.warnings, [fault]);
    let refused = Api::start().await.create(sample, FieldValidation::Strict).await.unwrap_err();
    assert!(refused.code == 400 && refused.message.ends_with(fault), "{refused}");
}

#[tokio::test]
async fn c3_r114_r117_r118_the_samples_name_of_the_observed_group_is_an_unknown_field() {
    let sample = sample!("scheduling-groups-status");
    let api = Api::start().await;
    api.create(sample.clone(), FieldValidation::Ignore).await.unwrap();
    // Workloads report status with any fields.
    let mut sample = sample;
    sample["status"]["aggregatedStatus"][0]["status"]["phase"] = json!({"deeply": [{"nested": true}]});
    let written = api.put_status(sample.clone()).await.unwrap();
    assert_eq!(written.warnings, ["unknown field \"status.SchedulerObservedAffinityName\""]);
    let status = &tree(&written)["status"];
    assert_eq!(status["aggregatedStatus"], sample["status"]["aggregatedStatus"]);
    for field in ["clusterName", "applied", "health", "status"] {
        assert!(!status["aggregatedStatus"][0][field].is_null(), "{field} in {status}");
    }
    assert_eq!(status["aggregatedStatus"][0]["status"]["updatedReplicas"], 2);
    assert_contains(&status["conditions"], &sample["status"]["conditions"]);
    assert_eq!(status["conditions"][1]["reason"], "BindingScheduled", "old reasons are kept (C4)");
}

fn read(yaml: &str) -> Value {
    Value::Object(Body::from_yaml(yaml.as_bytes()).expect("the sample is YAML").value)
}

/// Asserts that `whole` contains everything in `part`. `whole` may have more, such as defaults.
#[track_caller]
fn assert_contains(whole: &Value, part: &Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, part) in part {
                assert_contains(whole.get(name).unwrap_or(&Value::Null), part);
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len());
            for (whole, part) in whole.iter().zip(part) {
                assert_contains(whole, part);
            }
        }
        _ => assert_eq!(whole, part),
    }
}
