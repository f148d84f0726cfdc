//! What fuzzing runs: one function per target, from bytes to a panic or nothing.
//!
//! The library knows no fuzzer. libFuzzer calls it through `fuzz_targets/`, and
//! `tests/suite/fuzz.rs` includes this file to run every entry on kept inputs and on some made up
//! at random, with the toolchain that builds everything else.
//!
//! To add a target: a module with `run`, a line in [`ENTRIES`], a file in `fuzz_targets/`, a
//! `[[bin]]`, a folder in `tests/corpus/`.

pub mod apply;
pub mod bodies;
pub mod pipeline;
pub mod requests;
pub mod selectors;
pub mod tape;

/// Panics if the program under test does anything it promises not to do.
pub type Entry = fn(&[u8]);

/// By the name of the target, which is that of its corpus.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("apply", apply::run),
    ("bodies", bodies::run),
    ("pipeline", pipeline::run),
    ("requests", requests::run),
    ("selectors", selectors::run),
];
