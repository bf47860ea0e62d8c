//! The C interface from one specification.
//!
//! `crates/capi/spec/c-api.tsv` lists handles, callbacks, constants and functions with their C
//! declarations. These are generated from it: `include/rocksdb/c.h`, which declares the
//! functions that the library exports (the list in `docs/compat.md`, which is taken from the built
//! library), and the modules of `crates/librocksdb-sys/src/bindings.rs`, which declare all of RocksDB's.
//! `cargo xtask capi` writes them; `cargo xtask tidy` compares them with what would be written.

mod bindings;
mod ctype;
mod header;
mod spec;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The specification.
pub const SPEC: &str = "crates/capi/spec/c-api.tsv";
/// The page with the list of exported functions.
pub const EXPORTS: &str = "docs/compat.md";
/// The C header.
pub const HEADER: &str = "include/rocksdb/c.h";

/// The generated files with their contents, from the specification and the page with the exports.
pub fn generate(spec: &str, exports: &str) -> Result<Vec<(&'static str, String)>, String> {
    let spec = spec::Spec::parse(spec)?;
    let exported = exported(exports);
    if let Some(unknown) = exported.iter().find(|name| !spec.knows(name)) {
        return Err(format!(
            "{SPEC}: lacks {unknown}, which {EXPORTS} lists as exported"
        ));
    }
    let mut files = vec![(HEADER, header::write(&spec, &exported))];
    files.extend(bindings::write(&spec));
    Ok(files)
}

/// The functions that the page lists.
fn exported(page: &str) -> BTreeSet<&str> {
    page.lines()
        .skip_while(|line| *line != "## C functions")
        .filter(|line| line.starts_with("rocksdb_") || line.starts_with("spanlith_"))
        .collect()
}

/// Writes the generated files.
pub fn run(root: &Path) -> ExitCode {
    let written = fs::read_to_string(root.join(SPEC))
        .and_then(|spec| Ok((spec, fs::read_to_string(root.join(EXPORTS))?)))
        .map_err(|error| error.to_string())
        .and_then(|(spec, exports)| generate(&spec, &exports))
        .and_then(|files| {
            for (name, text) in files {
                let folder = Path::new(name).parent().unwrap_or(Path::new(""));
                fs::create_dir_all(root.join(folder))
                    .map_err(|error| format!("{name}: {error}"))?;
                fs::write(root.join(name), text).map_err(|error| format!("{name}: {error}"))?;
                println!("{name}");
            }
            Ok(())
        });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask capi: {error}");
            ExitCode::FAILURE
        }
    }
}
