//! libFuzzer program of the target `filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("filter", data));
