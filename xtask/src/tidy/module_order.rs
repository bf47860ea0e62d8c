//! The order of the modules inside `crates/engine`.
//!
//! A path that begins with `crate::`, or with enough `super::` to reach the root, names a module of
//! the engine. It may name its own or one further down the list. The crate root itself (`lib.rs`) is
//! the module `api`, so an item that is re-exported there must be taken from the module that owns it.
//! Tests are free.

use super::Finding;
use super::source::Source;
use super::tables::MODULE_ORDER;
use super::tree::Tree;

const SRC: &str = "crates/engine/src/";
const API: &str = MODULE_ORDER[0];

/// Rule `module-order`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        let Some(inside) = file.strip_prefix(SRC) else {
            continue;
        };
        if tree.is_test(file) {
            continue;
        }
        let path = module_path(inside);
        let here = path.first().copied().unwrap_or(API);
        let Some(rank) = rank(here) else {
            let what = format!(
                "module {here} has no place: add it to MODULE_ORDER in xtask/src/tidy/tables.rs \
                 and to docs/architecture.md, or move the file into a module that has one"
            );
            findings.push(Finding::new(file, 1, "module-order", what));
            continue;
        };
        for (position, name) in names_at_root(source, path.len()) {
            if source.in_test(position) {
                continue;
            }
            let target = if self::rank(&name).is_some() {
                name.as_str()
            } else {
                API
            };
            if self::rank(target).is_some_and(|other| other < rank) {
                let what = if target == API && name != API {
                    format!(
                        "{here} may not use crate::{name}: the crate root belongs to {API}, take \
                         it from the module that owns it"
                    )
                } else {
                    format!(
                        "{here} may not use {target}, which comes before it: move what both need down, or pass it in"
                    )
                };
                findings.push(Finding::new(
                    file,
                    source.line(position),
                    "module-order",
                    what,
                ));
            }
        }
    }
    findings
}

fn rank(module: &str) -> Option<usize> {
    MODULE_ORDER.iter().position(|name| *name == module)
}

/// The module that a file below `src/` holds: `write/queue.rs` is `write`, `queue`.
fn module_path(inside: &str) -> Vec<&str> {
    let mut path: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if matches!(path.last(), Some(&"lib" | &"main" | &"mod")) {
        path.pop();
    }
    path
}

/// Every name that is looked up in the crate root, with its position; `depth` is the number of
/// modules around the file.
fn names_at_root(source: &Source, depth: usize) -> Vec<(usize, String)> {
    let code = source.code();
    let mut found = Vec::new();
    for at in source.find("crate") {
        // pub(in crate::x) restricts, it uses nothing.
        if !code[..at].ends_with("(in ") {
            found.extend(names_behind(code, at + "crate".len()));
        }
    }
    for at in source.find("super") {
        if code[..at].trim_end().ends_with("::") {
            continue;
        }
        let (mut end, mut count) = (at + "super".len(), 1);
        while let Some(next) = skip(code, end, "::").and_then(|n| skip(code, n, "super")) {
            (end, count) = (next, count + 1);
        }
        if count >= depth {
            found.extend(names_behind(code, end));
        }
    }
    found.sort();
    found
}

/// The first names after `::` at `at`: one, or all of a braced group. Macros are left out.
fn names_behind(code: &str, at: usize) -> Vec<(usize, String)> {
    let Some(at) = skip(code, at, "::") else {
        return Vec::new();
    };
    let start = at + (code[at..].len() - code[at..].trim_start().len());
    if !code[start..].starts_with('{') {
        return word(code, start).into_iter().collect();
    }
    let (mut depth, mut expect, mut names) = (0, true, Vec::new());
    for (offset, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => expect = true,
            c if depth == 1 && expect && !c.is_whitespace() => {
                names.extend(word(code, start + offset));
                expect = false;
            }
            _ => {}
        }
    }
    names
}

fn word(code: &str, at: usize) -> Option<(usize, String)> {
    let name: String = code[at..]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let next = code[at + name.len()..].chars().next();
    (!name.is_empty() && name != "self" && next != Some('!')).then_some((at, name))
}

/// The position after `token`, if it stands at `at` after white space.
fn skip(code: &str, at: usize, token: &str) -> Option<usize> {
    let rest = &code[at..];
    let trimmed = rest.trim_start();
    trimmed
        .starts_with(token)
        .then(|| at + rest.len() - trimmed.len() + token.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(file: &str, text: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[(&format!("{SRC}{file}"), text)]);
        check(&tree)
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    #[test]
    fn a_module_may_use_what_comes_after_it_and_itself() {
        let text = "use crate::version::{Edit, set};\nuse crate::{iter, write::Queue};\nuse super::queue::Q;\n";
        assert_eq!(engine("write/pipeline.rs", text), []);
        assert_eq!(
            engine("lib.rs", "pub use db::Db; use crate::db; mod write;"),
            []
        );
    }

    #[test]
    fn a_use_that_points_up_is_found() {
        let text = "use crate::merge::Resolver;\nfn f() { crate::db::open() }\n";
        let findings = engine("version/set.rs", text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].0, 2);
        assert!(
            findings[0]
                .1
                .starts_with("version may not use db, which comes before it")
        );
    }

    #[test]
    fn groups_and_super_paths_do_not_hide_it() {
        let text = "use crate::{\n    trace,\n    write::{read, db},\n    merge,\n};\n";
        let lines: Vec<usize> = engine("jobs/queue.rs", text).iter().map(|f| f.0).collect();
        assert_eq!(lines, [3]);
        assert_eq!(
            engine("jobs/queue.rs", "use super::super::db::Db;").len(),
            1
        );
        assert_eq!(engine("jobs/queue.rs", "use super::db::Db;").len(), 0);
        assert_eq!(engine("jobs.rs", "use super::{db, trace};").len(), 1);
        assert_eq!(engine("jobs/mod.rs", "use super::db;").len(), 1);
    }

    #[test]
    fn the_crate_root_belongs_to_the_api() {
        let findings = engine(
            "options/db.rs",
            "use crate::Db;\nuse crate::{Error, options};\ncrate::invariant!(true);\npub(in crate::db) fn f() {}\n",
        );
        assert_eq!(findings.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 2]);
        assert!(findings[0].1.contains("the crate root belongs to api"));
    }

    #[test]
    fn tests_and_comments_are_free() {
        let text = "// crate::db\n#[cfg(test)]\nmod tests {\n use crate::db::Db;\n}\n";
        assert_eq!(engine("options/db.rs", text), []);
        assert_eq!(engine("options/tests.rs", "use crate::db::Db;"), []);
    }

    #[test]
    fn a_module_without_a_place_is_found() {
        assert!(
            engine("novelty/mod.rs", "")[0]
                .1
                .starts_with("module novelty has no place")
        );
    }
}
