//! libFuzzer program of the target `compression`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("compression", data));
