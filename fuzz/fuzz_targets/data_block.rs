//! libFuzzer program of the target `data_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("data_block", data));
