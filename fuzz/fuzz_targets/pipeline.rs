//! `ballast_fuzz::pipeline` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ballast_fuzz::pipeline::run(input));
