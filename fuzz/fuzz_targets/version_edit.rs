//! libFuzzer program of the target `version_edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("version_edit", data));
