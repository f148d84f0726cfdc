//! `ballast_fuzz::requests` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ballast_fuzz::requests::run(input));
