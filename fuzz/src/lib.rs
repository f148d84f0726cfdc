//! The fuzz targets: one function for each, which takes bytes and panics if a promise is broken.
//!
//! The library does not depend on a fuzzer. libFuzzer calls it through `fuzz_targets/`.
//! `tests/suite/fuzz.rs` includes this file and runs every target with the stable toolchain.
//!
//! A new target needs a module with `run`, a line in [`ENTRIES`], a file in `fuzz_targets/`, a
//! `[[bin]]` and a folder in `tests/corpus/`.

pub mod apply;
pub mod bodies;
pub mod pipeline;
pub mod requests;
pub mod selectors;
pub mod tape;

/// A target. It panics if the code under test breaks a promise.
pub type Entry = fn(&[u8]);

/// All targets by name. The corpus of a target has the same name.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("apply", apply::run),
    ("bodies", bodies::run),
    ("pipeline", pipeline::run),
    ("requests", requests::run),
    ("selectors", selectors::run),
];
