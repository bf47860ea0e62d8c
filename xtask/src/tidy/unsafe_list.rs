//! Where unsafe code may stand, and that `docs/unsafe.md` says where it does.

use super::Finding;
use super::tables::{UNSAFE_ALLOWED, UNSAFE_DENIED, UNSAFE_FORBIDDEN};
use super::tree::Tree;
use std::collections::BTreeMap;

const LIST: &str = "docs/unsafe.md";

/// Rule `unsafe-lint`.
pub fn lints(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        let Some((folder, inside)) = crate_of(file) else {
            continue;
        };
        let root = matches!(inside, "src/lib.rs" | "src/main.rs")
            || inside.starts_with("src/bin/") && inside.matches('/').count() == 2;
        if !root {
            continue;
        }
        let wanted = if UNSAFE_FORBIDDEN.contains(&folder) || folder == "xtask" {
            "#![forbid(unsafe_code)]"
        } else if UNSAFE_DENIED.iter().any(|(name, _)| *name == folder) {
            "#![deny(unsafe_code)]"
        } else {
            continue;
        };
        let stricter = source.code().contains("#![forbid(unsafe_code)]");
        if !stricter && !source.code().contains(wanted) {
            let what = format!("add {wanted} behind the header");
            findings.push(Finding::new(file, 1, "unsafe-lint", what));
        }
    }
    findings
}

/// Rule `unsafe-list`.
pub fn list(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(LIST).unwrap_or_default();
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(path) = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split('`').next())
        {
            listed.insert(path, index + 1);
        }
    }
    let mut findings = Vec::new();
    let mut used = Vec::new();
    for (file, source) in tree.sources() {
        let Some((folder, inside)) = crate_of(file) else {
            continue;
        };
        let first = source
            .find("unsafe")
            .into_iter()
            .find(|at| !source.in_test(*at));
        let Some(first) = first.filter(|_| !tree.is_test(file)) else {
            continue;
        };
        let mut report = |what: String| {
            findings.push(Finding::new(file, source.line(first), "unsafe-list", what));
        };
        if !is_permitted(folder, inside) {
            report(
                "unsafe code is not permitted here: move it into a module that may have it \
                    (docs/architecture.md), or do without"
                    .to_string(),
            );
        }
        let row = listed
            .keys()
            .find(|path| **path == file || path.ends_with('/') && file.starts_with(**path));
        match row {
            Some(path) => used.push(*path),
            None => report(format!("add the row \"| `{file}` | why |\" to {LIST}")),
        }
    }
    for (path, line) in listed {
        if !used.contains(&path) {
            let what = format!("{path} has no unsafe code: remove the row");
            findings.push(Finding::new(LIST, line, "unsafe-list", what));
        }
    }
    findings
}

fn is_permitted(folder: &str, inside: &str) -> bool {
    if UNSAFE_ALLOWED.contains(&folder) {
        return true;
    }
    let Some((_, modules)) = UNSAFE_DENIED.iter().find(|(name, _)| *name == folder) else {
        return false;
    };
    let inside = inside.trim_start_matches("src/").trim_end_matches(".rs");
    modules.iter().any(|module| {
        inside
            .strip_prefix(module)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Folder and inner path of a file of a crate.
fn crate_of(file: &str) -> Option<(&str, &str)> {
    match file.strip_prefix("crates/") {
        Some(rest) => rest.split_once('/'),
        None => file.strip_prefix("xtask/").map(|inside| ("xtask", inside)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_root_states_its_rule() {
        let tree = Tree::of(&[
            ("crates/wal/src/lib.rs", "//! x\n#![forbid(unsafe_code)]\n"),
            ("crates/stress/src/bin/run.rs", "//! x\n"),
            (
                "crates/base/src/lib.rs",
                "//! x\n// #![deny(unsafe_code)]\n",
            ),
            ("crates/base/src/keys.rs", "//! x\n"),
            (
                "crates/cache/src/lib.rs",
                "//! x\n#![forbid(unsafe_code)]\n",
            ),
            ("crates/capi/src/lib.rs", "//! x\n"),
        ]);
        let files: Vec<String> = lints(&tree)
            .into_iter()
            .map(|finding| finding.file)
            .collect();
        assert_eq!(
            files,
            ["crates/base/src/lib.rs", "crates/stress/src/bin/run.rs"]
        );
    }

    #[test]
    fn list_and_code_are_compared_both_ways() {
        let tree = Tree::of(&[
            (
                LIST,
                "| file | why |\n| `crates/base/src/sync/cell.rs` | x |\n| `crates/capi/src/` | x |\n| `crates/env/src/sys.rs` | x |\n",
            ),
            ("crates/base/src/sync/cell.rs", "unsafe { x }"),
            ("crates/capi/src/db.rs", "unsafe fn f() {}"),
            (
                "crates/env/src/sys.rs",
                "// unsafe\nlet unsafe_code = \"unsafe\";",
            ),
            ("crates/memtable/src/arena.rs", "unsafe impl Send for A {}"),
            ("crates/wal/src/reader.rs", "fn f() {}\nunsafe {}"),
            ("crates/wal/tests/it/main.rs", "unsafe {}"),
        ]);
        let findings = list(&tree);
        let seen: Vec<(&str, usize)> = findings.iter().map(|f| (f.file.as_str(), f.line)).collect();
        let wal = ("crates/wal/src/reader.rs", 2);
        assert_eq!(
            seen,
            [("crates/memtable/src/arena.rs", 1), wal, wal, (LIST, 4)]
        );
    }

    #[test]
    fn a_permitted_module_may_be_a_file_or_a_folder() {
        assert!(
            is_permitted("base", "src/sync/mutex.rs") && is_permitted("table", "src/block/seek.rs")
        );
        assert!(
            !is_permitted("base", "src/synchro.rs") && !is_permitted("table", "src/block/mod.rs")
        );
    }
}
