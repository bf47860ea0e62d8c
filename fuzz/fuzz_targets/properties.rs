//! libFuzzer program of the target `properties`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("properties", data));
