//! Recorded decisions of Karmada's scheduler (tests/vectors/karmada): as they are, with the inputs in another order,
//! and fed back.

use std::fs;
use std::io::Read;
use std::path::Path;

use ballast::cli::simulate::{Options, Output, simulate};
use ballast::engine::karmada::Rules;
use serde_json::Value;

/// Where we differ on purpose, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("quirks-001", "upstream sums free room in 32 bits, which wraps around to too little"),
    ("quirks-020", "as quirks-001"),
    ("quirks-002", "upstream cuts a number of pods to 32 bits, which leaves none of 2^32"),
    ("quirks-021", "as quirks-002"),
    ("quirks-010", "upstream loses the replicas of one of two entries of the same cluster; here they add up"),
    ("quirks-029", "as quirks-010"),
    ("gated-multi-template-004", "upstream compares 200M in thousandths with 32Gi in units, so that nothing fits"),
    ("gated-multi-template-013", "as gated-multi-template-004"),
];

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
            if DIFFERENT.iter().any(|(id, _)| case["id"] == *id) {
                continue;
            }
            if !found.is_empty() {
                all.push(format!("{}: {} {}", case["id"], got["condition"]["message"], found.join("; ")));
            }
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
