//! libFuzzer program of the target `coding`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("coding", data));
