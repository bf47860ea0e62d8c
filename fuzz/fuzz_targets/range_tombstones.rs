//! libFuzzer program of the target `range_tombstones`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("range_tombstones", data));
