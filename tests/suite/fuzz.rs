//! The entries of `fuzz/` on the toolchain that builds everything else: every input that is kept in
//! `tests/corpus`, kept inputs changed a little, and some made up at random. `FUZZ_SECONDS=60 cargo
//! test --test suite fuzz` goes on for so long, and with `FUZZ_SEED=7` beside it on other inputs.
//! libFuzzer, where it is installed, searches further (see `fuzz/Cargo.toml`). What either finds is
//! kept in the corpus.

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

/// Inputs made up for each entry, the same in every run.
const RANDOM_INPUTS: u32 = 600;
/// Kept inputs changed for each entry where no time is given.
const CHANGED_INPUTS: u32 = 600;
/// How they are changed where no seed is given: the same in every run, so that a red run is the
/// fault of the change.
const SEED: u64 = 1;
/// Enough for a fleet and a binding with all their parts.
const INPUT_BYTES_MAX: usize = 600;
/// How often one input is changed at most.
const CHANGES_MAX: usize = 6;
/// What texts are damaged with, beside bytes at random.
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

/// What the environment says, if it says anything.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

/// Numbers that look random, the same for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// One of the kept inputs with a few changes.
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
                    // The head of one input, the tail of another.
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
