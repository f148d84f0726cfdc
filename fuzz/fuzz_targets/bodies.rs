//! `ballast_fuzz::bodies` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ballast_fuzz::bodies::run(input));
