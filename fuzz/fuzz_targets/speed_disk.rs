//! libFuzzer program of the target `speed_disk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("speed_disk", data));
