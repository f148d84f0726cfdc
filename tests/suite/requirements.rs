//! Holds the ids in comments, tests and documents to docs/dev/requirements.md and
//! docs/differences.md.
//!
//! Every id that is cited is listed, every id that is listed is cited, and every requirement of the
//! five documents that have tests has one that carries its number: `r87_an_edit_…`. Numbers may
//! stand anywhere among the words of a name. The checklist's rows are held by `rows`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// RescheduleTask, WorkloadRebalancer, scheduling groups, the Fleet scheduler.
const ROWS: [RangeInclusive<u32>; 4] = [1..=37, 40..=95, 100..=128, 160..=183];

/// Requirements that no program can fulfil, with what they are about.
const PROSE: &[(u32, &str)] = &[(126, "who asked for it")];

const LIST: &str = "docs/dev/requirements.md";
const DIFFERENCES: &str = "docs/differences.md";

/// Where ids are cited.
const PLACES: [&str; 10] = [
    "src",
    "crates",
    "tests",
    "benches",
    "fuzz/src",
    "fuzz/fuzz_targets",
    "docs",
    "deploy",
    "README.md",
    "UPGRADING.md",
];
/// Data without citations.
const DATA: [&str; 4] = ["tests/vectors", "tests/corpus", "tests/data", "tests/oracle/requests"];
const TEXTS: [&str; 5] = ["rs", "md", "py", "yaml", "txt"];

#[test]
fn every_requirement_is_carried_by_a_test() {
    let mut carried = BTreeSet::new();
    for (path, text) in files() {
        if path.extension().is_some_and(|extension| extension == "rs") {
            carried.extend(test_names(&text).flat_map(|name| name.split('_').filter_map(number).collect::<Vec<_>>()));
        }
    }
    let rows = ROWS.into_iter().flatten();
    let bare: Vec<u32> =
        rows.filter(|row| !carried.contains(row) && PROSE.iter().all(|(prose, _)| prose != row)).collect();
    assert!(bare.is_empty(), "requirements without a test: {bare:?}");
    let both: Vec<u32> = PROSE.iter().map(|(row, _)| *row).filter(|row| carried.contains(row)).collect();
    assert!(both.is_empty(), "tested, so no prose: {both:?}");
}

#[test]
fn every_id_that_is_cited_is_listed_and_every_listed_one_is_cited() {
    let listed = listed(LIST);
    let families: BTreeSet<&str> = listed.iter().map(|id| letters(id)).collect();
    assert!(families.contains("R") && families.contains("WA") && listed.len() > 400, "the list is there");
    let mut cited: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, text) in files() {
        if path.ends_with(LIST) {
            continue;
        }
        let names = test_names(&text).flat_map(|name| name.split('_')).map(str::to_uppercase);
        let words = words(&text).map(str::to_owned).chain(names);
        for id in words.filter(|word| is_id(word) && families.contains(letters(word))) {
            cited.entry(id).or_insert_with(|| path.clone());
        }
    }
    let mut faults: Vec<String> = Vec::new();
    for (id, path) in cited.iter().filter(|(id, _)| !listed.contains(*id)) {
        faults.push(format!("{id} is cited in {} and not listed in {LIST}", path.display()));
    }
    for id in listed.iter().filter(|id| !cited.contains_key(*id)) {
        faults.push(format!("{id} is listed in {LIST} and cited nowhere"));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_difference_from_upstream_has_its_entry() {
    let listed = listed(DIFFERENCES);
    assert!(listed.len() > 20, "the list is there");
    let document = fs::read_to_string(root().join(DIFFERENCES)).unwrap();
    let mut faults: Vec<String> = Vec::new();
    for (path, text) in files() {
        for (at, _) in text
            .match_indices("Differs from ")
            .filter(|_| ["src", "crates"].iter().any(|top| path.starts_with(root().join(top))))
        {
            // `Differs from Karmada (D7): …`
            let said = text[at..].split_once('(').filter(|(before, _)| before.split(' ').count() == 4);
            let id = said.and_then(|(_, after)| after.split_once(')')).map(|(id, _)| id);
            if !id.is_some_and(|id| id.split(", ").all(|id| listed.contains(id))) {
                let line = text[..at].matches('\n').count() + 1;
                faults.push(format!("{}:{line} names no entry of {DIFFERENCES}", path.display()));
            }
        }
    }
    // Each entry ends with the code locations of the difference.
    for entry in document.split("\n## ").skip(1) {
        let places = entry.split_once("\n- Code: ").map(|(_, places)| places).unwrap_or_default();
        let title = entry.lines().next().unwrap_or_default();
        let mut named = places.split('`').skip(1).step_by(2).peekable();
        if named.peek().is_none() {
            faults.push(format!("{title}: no line `- Code:` with a place"));
        }
        faults.extend(named.filter(|it| !root().join(it).exists()).map(|it| format!("{title}: {it} does not exist")));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The ids of a document: `- **R1** …` in a list, `## D1 …` as a heading.
fn listed(document: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let entries = text.lines().filter_map(|line| {
        let after = line.strip_prefix("- **").and_then(|line| line.split_once("** "));
        let heading = line.strip_prefix("## ").and_then(|line| line.split_once(' '));
        after.or(heading).map(|(id, _)| id.to_owned())
    });
    entries.filter(|id| is_id(id)).collect()
}

/// One or two capital letters and a number.
fn is_id(word: &str) -> bool {
    let number = &word[letters(word).len()..];
    (1..=2).contains(&letters(word).len())
        && (1..=3).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn letters(word: &str) -> &str {
    &word[..word.bytes().take_while(u8::is_ascii_uppercase).count()]
}

fn number(word: &str) -> Option<u32> {
    word.strip_prefix('r')?.parse().ok()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

/// The names of all test functions, as far as their signature begins on the line below `#[test]`.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().map(str::trim);
    std::iter::from_fn(move || {
        lines.find(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))?;
        let signature = lines.next()?.trim_start_matches("async ").trim_start_matches("fn ");
        signature.split('(').next()
    })
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files that cite ids or name documents, with their texts.
pub fn files() -> Vec<(PathBuf, String)> {
    let (mut found, mut waiting): (Vec<_>, Vec<PathBuf>) = (Vec::new(), PLACES.map(|it| root().join(it)).into());
    while let Some(place) = waiting.pop() {
        if place.is_dir() && DATA.iter().all(|data| !place.ends_with(data)) {
            waiting.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if is_text(&place) {
            let text = fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
            found.push((place, text));
        }
    }
    found.sort();
    found
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| TEXTS.iter().any(|text| extension == *text))
}
