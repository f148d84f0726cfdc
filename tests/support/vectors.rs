//! The recorded decisions of Karmada's scheduler (tests/vectors/karmada).

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

/// Cases that are decided differently on purpose, with the reasons.
pub const DIFFERENT: &[(&str, &str)] = &[
    ("quirks-001", "upstream sums free room in 32 bits, which wraps around to too little"),
    ("quirks-020", "as quirks-001"),
    ("quirks-002", "upstream cuts a number of pods to 32 bits, which leaves none of 2^32"),
    ("quirks-021", "as quirks-002"),
    ("quirks-010", "upstream loses the replicas of one of two entries of the same cluster; here they add up"),
    ("quirks-029", "as quirks-010"),
    ("gated-multi-template-004", "upstream compares 200M in thousandths with 32Gi in units, so that nothing fits"),
    ("gated-multi-template-013", "as gated-multi-template-004"),
];

/// The lines of a group of recordings.
pub fn group(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/karmada/{name}.jsonl.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Every line of a compressed recording.
pub fn lines_of(file: &Path) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of the groups of recordings.
pub fn groups() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/karmada"))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl.gz")?.to_owned()))
        .collect();
    names.sort();
    names
}
