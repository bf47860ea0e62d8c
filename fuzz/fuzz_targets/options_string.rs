//! libFuzzer program of the target `options_string`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("options_string", data));
