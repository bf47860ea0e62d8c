//! libFuzzer program of the target `cuckoo_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("cuckoo_table", data));
