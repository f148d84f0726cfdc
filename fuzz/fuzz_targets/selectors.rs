//! `ballast_fuzz::selectors` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ballast_fuzz::selectors::run(input));
