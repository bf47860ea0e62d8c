//! libFuzzer program of the target `trace_extension`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("trace_extension", data));
