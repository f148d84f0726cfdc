//! Tests the engine against the scheduling rules (docs/dev/requirements.md, S1 to S7): its
//! decisions are sound, complete and stable, with as few moves and clusters as possible.
//!
//! `truth` tries every assignment for a small set of clusters, and shares no code with the engine.
//! `fleets` generates random cases, and `cases.jsonl` contains past failures, one per line. To run
//! more cases: `BALLAST_ORACLE_CASES=1000000 cargo test -p ballast-engine --test oracle`. A failing
//! case is shrunk before it is printed; add its line to `cases.jsonl`.

mod bounded;
mod case;
#[path = "../support/dice.rs"]
#[allow(dead_code)]
mod dice;
mod fleets;
mod judge;
mod truth;

use std::collections::BTreeMap;

use case::Case;

/// Number of cases in a plain `cargo test`, which takes some seconds in a debug build.
const CASES: u64 = 10_000;
/// Number of cases in `.ci/run`, which sets `BALLAST_LONG`.
const CASES_LONG: u64 = 100_000;
/// Maximum number of failing cases that are shrunk and printed.
const SHOWN: usize = 12;

fn cases() -> u64 {
    let asked = std::env::var("BALLAST_ORACLE_CASES").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(if std::env::var_os("BALLAST_LONG").is_some() { CASES_LONG } else { CASES })
}

/// Returns the seed of the first case.
fn first_seed() -> u64 {
    std::env::var("BALLAST_ORACLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

#[test]
fn random_small_fleets_are_decided_as_brute_force_says() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut shown = Vec::new();
    for seed in first_seed()..first_seed() + cases() {
        let case = fleets::case(seed);
        for fault in judge::faults(&case) {
            let kind = kind_of(&fault);
            let count = counts.entry(kind.clone()).or_default();
            *count += 1;
            if *count <= 3 && shown.len() < SHOWN {
                let small = smaller(&case, &kind);
                let faults = judge::faults(&small).join("; ");
                shown.push(format!("seed {seed}: {faults}\n{}", small.line()));
            }
        }
    }
    assert!(counts.is_empty(), "{counts:#?}\n{}", shown.join("\n"));
}

#[test]
fn cases_that_ever_failed_are_decided_rightly() {
    let mut faults = Vec::new();
    for line in include_str!("cases.jsonl").lines() {
        let case = Case::read(line);
        faults.extend(judge::faults(&case).into_iter().map(|fault| format!("{}: {fault}\n{line}", case.note)));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Returns the kind of a fault and its rule.
fn kind_of(fault: &str) -> String {
    let rule = |word: &&str| word.len() == 3 && word.starts_with('S') && word.ends_with(':');
    fault.split(' ').enumerate().take_while(|(at, word)| *at == 0 || rule(word)).map(|(_, word)| word).collect()
}

/// Removes everything from the case that a fault of this kind does not need.
fn smaller(case: &Case, kind: &str) -> Case {
    let mut small = case.clone();
    while let Some(next) = simpler(&small).into_iter().find(|simple| fails(simple, kind)) {
        small = next;
    }
    small
}

fn fails(case: &Case, kind: &str) -> bool {
    judge::faults(case).iter().any(|fault| kind_of(fault) == kind)
}

/// Returns all cases that are simpler in one respect.
fn simpler(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut try_one = |change: &dyn Fn(&mut Case)| {
        let mut simple = case.clone();
        change(&mut simple);
        if simple != *case {
            all.push(simple);
        }
    };
    for at in 0..case.clusters.len() {
        try_one(&|case| {
            case.clusters.remove(at);
        });
        try_one(&|case| case.clusters[at].free = (case.clusters[at].free - 1).max(0));
        try_one(&|case| case.clusters[at].tainted = false);
        try_one(&|case| case.clusters[at].deleting = false);
        try_one(&|case| case.clusters[at].lacks_api = false);
        try_one(&|case| case.clusters[at].region.clear());
        try_one(&|case| case.clusters[at].zone.clear());
        try_one(&|case| case.clusters[at].provider.clear());
        try_one(&|case| case.clusters[at].tier.clear());
    }
    for at in 0..case.spread.len() {
        try_one(&|case| {
            case.spread.remove(at);
        });
        try_one(&|case| case.spread[at].anyway = false);
    }
    for at in 0..case.bounds.len() {
        try_one(&|case| {
            case.bounds.remove(at);
        });
        try_one(&|case| case.bounds[at].min = 0);
        try_one(&|case| case.bounds[at].max = 0);
    }
    for at in 0..case.groups.len() {
        try_one(&|case| {
            case.groups.remove(at);
            case.observed = case.observed.filter(|seen| *seen != at).map(|seen| seen - usize::from(seen > at));
        });
        for tier in 0..case.groups[at].overflow.len() {
            try_one(&|case| {
                case.groups[at].overflow.remove(tier);
            });
        }
    }
    let least = if case.kind == case::Kind::Set { 2 } else { 0 };
    for at in 0..case.targets.len() {
        try_one(&|case| {
            case.targets.remove(at);
        });
        try_one(&|case| case.targets[at].1 = (case.targets[at].1 - 1).max(least));
    }
    try_one(&|case| case.replicas = (case.replicas - 1).max(least));
    try_one(&|case| case.what_fits = false);
    try_one(&|case| case.evicting.clear());
    try_one(&|case| case.tolerates = false);
    try_one(&|case| case.edited = false);
    try_one(&|case| case.fresh = false);
    try_one(&|case| case.observed = None);
    all
}
