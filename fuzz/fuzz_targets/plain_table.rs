//! libFuzzer program of the target `plain_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("plain_table", data));
