//! Chooses the declarations by the version of the package. Nothing is built.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    println!("cargo::rustc-check-cfg=cfg(force_of_deletions, short_plain_table)");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_one_of = |versions: &[&str]| versions.iter().any(|v| version.starts_with(v));
    if is_one_of(&["0.11.", "0.16."]) {
        println!("cargo::rustc-cfg=force_of_deletions");
    }
    if is_one_of(&["0.11."]) {
        println!("cargo::rustc-cfg=short_plain_table");
    }
}
