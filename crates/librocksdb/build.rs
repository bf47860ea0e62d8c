//! Names the shared library in its own header, so that programs linked against it find it, and lays out what is
//! sensitive to where it lies.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SPANLITH_SONAME");
    let var = |name: &str| env::var(name).unwrap_or_default();
    let soname = match var("SPANLITH_SONAME") {
        name if name.is_empty() => "librocksdb.so".to_string(),
        name => name,
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // Scripts that add to the linker's own are known to GNU's and LLVM's, which are what is there unless asked
    // otherwise.
    let flags = var("CARGO_ENCODED_RUSTFLAGS");
    let has_other_linker = flags.contains("mold") || flags.contains("gold");
    if var("CARGO_CFG_TARGET_OS") == "linux" && var("PROFILE") == "release" && !has_other_linker {
        println!("cargo::rerun-if-changed=lz4.ld");
        let script = format!("{}/lz4.ld", var("CARGO_MANIFEST_DIR"));
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{script}");
    }
}
