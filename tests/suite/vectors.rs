//! Recorded decisions of Karmada's scheduler (tests/vectors/karmada): as they are, with the inputs in another order,
//! and fed back.

use std::fs;
use std::io::Read;
use std::path::Path;

use ballast::cli::simulate::{Options, Output, simulate};
use ballast::engine::karmada::Rules;
use serde_json::Value;

/// Known differences.
const DIFFERENT: &[&str] = &[];

fn group(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/karmada/{name}.jsonl.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn simulated(text: &str) -> Vec<Value> {
    let mut out = Vec::new();
    simulate(text, &Options { rules: Rules::Karmada, output: Output::Json }, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What differs, but for the message, which upstream does not fix.
fn differences(expect: &Value, got: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let fields = [
        "scheduled",
        "skip",
        "clusters",
        "affinityName",
        "lastScheduledTimeSet",
        "lastScheduledTimeUpdated",
        "observedGeneration",
        "appliedPlacement",
        "requeue",
    ];
    for field in fields {
        if expect[field] != got[field] {
            differences.push(format!("{field}: expected {} got {}", expect[field], got[field]));
        }
    }
    for field in ["status", "reason"] {
        let (expected, got) = (&expect["condition"][field], &got["condition"][field]);
        if expected != got {
            differences.push(format!("condition.{field}: expected {expected} got {got}"));
        }
    }
    differences
}

#[test]
fn decisions_are_those_recorded() {
    let mut all = Vec::new();
    let mut names: Vec<String> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/karmada"))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl.gz")?.to_owned()))
        .collect();
    names.sort();
    for name in names {
        let text = group(&name);
        for (line, got) in text.lines().zip(simulated(&text)) {
            let case: Value = serde_json::from_str(line).unwrap();
            let mut found = differences(&case["expect"], &got);
            if !found.is_empty() && case.get("stableSort").is_some() {
                found = differences(&case["stableSort"], &got);
            }
            if DIFFERENT.contains(&case["id"].as_str().unwrap()) {
                continue;
            }
            if !found.is_empty() {
                all.push(format!("{}: {} {}", case["id"], got["condition"]["message"], found.join("; ")));
            }
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
