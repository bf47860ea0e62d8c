//! libFuzzer program of the target `write_batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("write_batch", data));
