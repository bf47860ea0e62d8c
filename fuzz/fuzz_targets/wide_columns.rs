//! libFuzzer program of the target `wide_columns`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("wide_columns", data));
