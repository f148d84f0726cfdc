//! Runs the fuzz targets of `fuzz/` with the stable toolchain: on every input of `tests/corpus`, on
//! small changes of these inputs, and on random bytes.
//!
//! `FUZZ_SECONDS=60 cargo test --test api fuzz` changes inputs for a minute instead of a fixed
//! number of times. `FUZZ_SEED=7` makes other changes. libFuzzer, where it is installed, searches
//! further (`fuzz/Cargo.toml`). An input that fails here or there is added to the corpus.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

#[path = "../../fuzz/src/lib.rs"]
#[allow(unreachable_pub)]
mod entries;

use entries::{ENTRIES, Entry};

/// Random inputs for each target. They are the same in every run.
const RANDOM_INPUTS: u32 = 600;
/// Changed inputs for each target, unless FUZZ_SECONDS gives a time.
const CHANGED_INPUTS: u32 = 600;
/// The seed of the changes, unless FUZZ_SEED gives another. It is fixed, so that a failing run is
/// the fault of the commit.
const SEED: u64 = 1;
/// Long enough for a set of clusters and a binding with all their parts.
const INPUT_BYTES_MAX: usize = 600;
/// The most changes that are made to one input.
const CHANGES_MAX: usize = 6;
/// Bytes that often break a parser, inserted in addition to random bytes.
const DAMAGE: [&[u8]; 16] = [
    b"\0",
    b"\xff",
    b"%",
    b"\"",
    b"\\",
    b"{",
    b"[",
    b",",
    b";q=",
    b"9223372036854775808",
    b"-1",
    b"1e999",
    b"\n",
    b": ",
    b"..",
    b"=",
];

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

#[test]
fn kept_inputs_changed_a_little_do_no_harm() {
    let seconds = number("FUZZ_SECONDS");
    let seed = number("FUZZ_SEED").unwrap_or(SEED);
    for (target, run) in ENTRIES {
        let kept: Vec<Vec<u8>> = corpus(target).iter().map(|file| fs::read(file).unwrap()).collect();
        let mut chance = Chance(seed);
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds) / ENTRIES.len() as u32);
        let mut done = 0_u32;
        while until.map_or(done < CHANGED_INPUTS, |until| Instant::now() < until) {
            let input = chance.changed(&kept);
            if catch_unwind(AssertUnwindSafe(|| run(&input))).is_err() {
                let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{target}-{seed}-{done}"));
                fs::write(&found, &input).unwrap();
                panic!("{target} fails on {}; once it is mended, keep that in tests/corpus/{target}", found.display());
            }
            done += 1;
        }
        eprintln!("{target}: {done} inputs, FUZZ_SEED={seed}");
    }
}

/// The number in an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

/// A generator of pseudo-random numbers (splitmix64). The same seed gives the same numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// One of the inputs of the corpus with a few changes.
    fn changed(&mut self, kept: &[Vec<u8>]) -> Vec<u8> {
        let mut input = kept[self.below(kept.len())].clone();
        for _ in 0..=self.below(CHANGES_MAX) {
            let (at, other) = (self.below(input.len() + 1), self.below(input.len() + 1));
            let (from, to) = (at.min(other), at.max(other));
            match self.below(6) {
                0 if at < input.len() => input[at] = self.below(256) as u8,
                1 if at < input.len() => input[at] ^= 1 << self.below(8),
                2 => drop(input.drain(from..to)),
                3 if input.len() < INPUT_BYTES_MAX => {
                    let again = input[from..to].to_vec();
                    input.splice(at..at, again);
                }
                4 => {
                    // The head of this input and the tail of another one.
                    let tail = &kept[self.below(kept.len())];
                    input.truncate(at);
                    input.extend_from_slice(&tail[tail.len().min(at)..]);
                }
                _ => drop(input.splice(at..at, DAMAGE[self.below(DAMAGE.len())].iter().copied())),
            }
        }
        input
    }
}
