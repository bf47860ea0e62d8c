//! libFuzzer program of the target `file_name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("file_name", data));
