//! The entries of `fuzz/` on the toolchain that builds everything else: every input that is kept in `tests/corpus`, and
//! some made up at random. libFuzzer searches further (see `fuzz/Cargo.toml`); what it finds is kept in the corpus.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

#[path = "../../fuzz/src/lib.rs"]
#[allow(unreachable_pub)]
mod entries;

use entries::{ENTRIES, Entry};

/// Inputs made up for each entry, the same in every run.
const RANDOM_INPUTS: u32 = 600;
/// Enough for a fleet and a binding with all their parts.
const INPUT_BYTES_MAX: usize = 600;

fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn kept_inputs_do_no_harm() {
    for (target, run) in ENTRIES {
        let files = corpus(target);
        assert!(!files.is_empty(), "{target} has no corpus");
        for file in files {
            run(&fs::read(&file).unwrap());
        }
    }
}

#[test]
fn inputs_made_up_at_random_do_no_harm() {
    for (_, run) in ENTRIES {
        harmless(*run);
    }
}

fn harmless(run: Entry) {
    let config = Config { cases: RANDOM_INPUTS, failure_persistence: None, ..Config::default() };
    let chance = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, chance);
    let inputs = prop::collection::vec(any::<u8>(), 0..INPUT_BYTES_MAX);
    let done = runner.run(&inputs, |input| {
        run(&input);
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = done {
        panic!("{failure}");
    }
}
