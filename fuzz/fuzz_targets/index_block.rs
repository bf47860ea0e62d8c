//! libFuzzer program of the target `index_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("index_block", data));
