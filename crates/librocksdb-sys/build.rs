//! Nothing is built. The script is there because Cargo asks for one where `links` is set.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
