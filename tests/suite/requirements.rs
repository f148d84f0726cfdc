//! Every requirement of the seed documents 000 to 002, and of the Fleet scheduler's, has a test
//! that carries its number: `r87_an_edit_…`. Numbers may stand anywhere among the words of a name.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// RescheduleTask, WorkloadRebalancer, scheduling groups, the Fleet scheduler.
const ROWS: [RangeInclusive<u32>; 4] = [1..=37, 40..=95, 100..=128, 160..=183];

/// Rows that nothing can be done about: what the documents say of themselves.
const PROSE: &[(u32, &str)] = &[(126, "who asked for it")];

#[test]
fn every_requirement_is_carried_by_a_test() {
    let mut carried = BTreeSet::new();
    for folder in ["tests/suite", "src"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut carried);
    }
    let rows = ROWS.into_iter().flatten();
    let bare: Vec<u32> =
        rows.filter(|row| !carried.contains(row) && PROSE.iter().all(|(prose, _)| prose != row)).collect();
    assert!(bare.is_empty(), "requirements without a test: {bare:?}");
    let both: Vec<u32> = PROSE.iter().map(|(row, _)| *row).filter(|row| carried.contains(row)).collect();
    assert!(both.is_empty(), "tested, so no prose: {both:?}");
}

/// The numbers in the names of all tests below `folder`.
fn collect(folder: &Path, carried: &mut BTreeSet<u32>) {
    for entry in fs::read_dir(folder).expect("sources are readable") {
        let path = entry.expect("sources are readable").path();
        if path.is_dir() {
            collect(&path, carried);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for pair in
                lines.windows(2).filter(|pair| pair[0].starts_with("#[test]") || pair[0].starts_with("#[tokio::test"))
            {
                let signature = pair[1].trim_start_matches("async ").trim_start_matches("fn ");
                let name = signature.split('(').next().unwrap_or_default();
                carried.extend(name.split('_').filter_map(|word| word.strip_prefix('r')?.parse::<u32>().ok()));
            }
        }
    }
}
