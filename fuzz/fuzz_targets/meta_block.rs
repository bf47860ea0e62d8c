//! libFuzzer program of the target `meta_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("meta_block", data));
