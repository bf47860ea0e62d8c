//! Names the shared library in its own header, so that programs linked against it find it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librocksdb.so");
}
