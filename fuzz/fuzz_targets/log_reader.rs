//! libFuzzer program of the target `log_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("log_reader", data));
