//! libFuzzer program of the target `options_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("options_file", data));
