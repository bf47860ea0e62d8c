//! libFuzzer program of the target `blob_refs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("blob_refs", data));
