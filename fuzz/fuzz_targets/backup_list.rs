//! libFuzzer program of the target `backup_list`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spanlith_fuzz::run("backup_list", data));
