//! libFuzzer program of the target `unique_id`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("unique_id", data));
