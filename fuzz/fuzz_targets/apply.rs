//! `ballast_fuzz::apply` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ballast_fuzz::apply::run(input));
