//! Chores of the repository: `cargo xtask <chore>`.
//!
//! Depends on nothing, so that it builds in a second and can run before everything else.
#![forbid(unsafe_code)]

mod capi;
mod install;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

chores:
  capi    writes include/rocksdb/c.h and crates/librocksdb-sys/src/bindings.rs from
          crates/capi/spec/c-api.tsv and the list of exported functions in docs/compat.md.
  install --prefix DIR
          builds and installs libraries, header, rocksdb.pc and command line; install --help.
  tidy    checks what the compiler cannot: layering, module order, banned calls, unsafe list,
          file sizes, links, named tests. Prints `file:line: rule: what to do`; exit code 1 if there
          is anything.
          tidy --rules lists the rules.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Of the tree that cargo runs it in: a copied target folder may have been built in another one.
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_string());
    let root = Path::new(&here).parent();
    let root = root.expect("xtask lies in the root of the repository");
    match arguments[..] {
        ["capi"] => capi::run(root),
        ["install", ref rest @ ..] => install::run(root, rest),
        ["tidy"] => tidy::run(root),
        ["tidy", "--rules"] => {
            print!("{}", tidy::describe());
            ExitCode::SUCCESS
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
