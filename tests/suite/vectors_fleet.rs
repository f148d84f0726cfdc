//! Replays the recorded decisions of KubeFleet's scheduler (`tests/vectors/fleet`).
//!
//! Every case of every group runs through lowering, the engine and the core of `ballast simulate`.
//! All cases are decided as recorded.

use std::io::Read;
use std::path::Path;

use ballast::cli::simulate_fleet::simulate_fleet;
use flate2::read::GzDecoder;
use serde_json::Value;

#[test]
fn every_recorded_cycle_ends_as_it_did_upstream() {
    check(|_| {});
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    check(|case| {
        for list in ["memberClusters", "bindings"] {
            // Reversed and rotated, so that the order is neither sorted nor the recorded one.
            let items = case[list].as_array_mut().unwrap();
            items.reverse();
            let middle = items.len() / 2;
            items.rotate_left(middle);
        }
    });
}

/// The result of a cycle, as the input of the next cycle, changes nothing.
#[test]
fn a_placement_that_is_settled_stays_as_it_is() {
    use ballast::api::fleet::placement::v1beta1::{ClusterResourceBinding, ClusterSchedulingPolicySnapshot};
    use ballast::scheduler::convert::fleet::{BindingParts, PlacementObjects, SnapshotParts, cluster, settle};
    for (_, text) in groups() {
        for line in text.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let list = |field: &str| case[field].as_array().unwrap().clone().into_iter();
            let ClusterSchedulingPolicySnapshot { metadata, spec, status, .. } =
                serde_json::from_value(case["policySnapshot"].clone()).unwrap();
            let bindings = list("bindings").map(|binding| {
                let ClusterResourceBinding { metadata, spec, .. } = serde_json::from_value(binding).unwrap();
                BindingParts { metadata, spec }
            });
            let objects =
                PlacementObjects { snapshot: SnapshotParts { metadata, spec, status }, bindings: bindings.collect() };
            let fleet =
                list("memberClusters").map(|object| cluster(&serde_json::from_value(object).unwrap())).collect();
            let now = case["now"].as_str().unwrap().parse().unwrap();
            let mut name = |cluster: &str| format!("new-{cluster}");
            let settled = settle(&fleet, objects, now, &mut name);
            if settled.cycles.iter().any(|decision| decision.fault.is_some()) {
                continue;
            }
            let again = settle(&fleet, settled.objects, now, &mut name);
            let [decision] = again.cycles.as_slice() else { panic!("{}: {} cycles", case["id"], again.cycles.len()) };
            assert!(decision.writes.is_empty(), "{}: {:?}", case["id"], decision.writes);
        }
    }
}

#[track_caller]
fn check(prepare: impl Fn(&mut Value)) {
    let mut seen = 0;
    let mut failures = Vec::new();
    for (group, text) in groups() {
        for line in text.lines() {
            let mut case: Value = serde_json::from_str(line).unwrap();
            prepare(&mut case);
            seen += 1;
            let differences = compare(&case["expect"], &simulate_fleet(&case).unwrap());
            let id = case["id"].as_str().unwrap();
            if !differences.is_empty() {
                failures.push(format!("{group}/{id} ({}):\n{}", case["note"], differences.join("\n")));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {seen} cases failed, first of them\n{}", failures.len(), first(&failures));
    assert!(seen >= 1000, "only {seen} cases were found");
}

fn first(failures: &[String]) -> String {
    failures.iter().take(12).cloned().collect::<Vec<_>>().join("\n")
}

fn groups() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/fleet");
    let mut groups: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .map(|path| {
            let mut text = String::new();
            GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
            (path.file_name().unwrap().to_string_lossy().replace(".jsonl.gz", ""), text)
        })
        .collect();
    groups.sort();
    groups
}

/// Compares as `tests/vectors/fleet/README.md` describes.
fn compare(expected: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let mut same = |field: &str, expected: &Value, found: &Value| {
        if expected != found {
            differences.push(format!("  {field}:\n    expected {expected}\n    found    {found}"));
        }
    };
    for field in ["error", "cycles", "batches", "created", "patched", "unscheduled", "deleted"] {
        same(field, &expected[field], &found[field]);
    }
    same("bindings", &sorted(&expected["bindings"]), &sorted(&found["bindings"]));
    same("condition", &expected["condition"], &found["condition"]);
    same("observedCRPGeneration", &expected["observedCRPGeneration"], &found["observedCRPGeneration"]);
    let (selected, unselected) = split(&expected["decisions"]);
    let (found_selected, found_unselected) = split(&found["decisions"]);
    same("selected decisions", &sorted(&selected), &sorted(&found_selected));
    same("unselected decisions", &unselected, &found_unselected);
    differences
}

/// Sorts without names, because new bindings have none.
fn sorted(list: &Value) -> Value {
    let mut items = list.as_array().cloned().unwrap_or_default();
    items.sort_by_cached_key(Value::to_string);
    items.into()
}

fn split(decisions: &Value) -> (Value, Value) {
    let decisions = decisions.as_array().cloned().unwrap_or_default();
    let (selected, unselected): (Vec<Value>, Vec<Value>) =
        decisions.into_iter().partition(|decision| decision["selected"] == true);
    (selected.into(), unselected.into())
}
