//! Rule `callers`: every public function of a library crate has a user outside its file, or a reason.

use super::Finding;
use super::source::find_words;
use super::tables::{LIBRARIES, UNCALLED};
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Rule `callers`. A name counts as used where another file has it as a word, in code or in a page of the
/// documents: exact enough to find what is left over, and blind to a leftover with a common name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let words = words_of(tree);
    let mut findings = Vec::new();
    let mut excused = BTreeSet::new();
    for (file, source) in tree.sources().filter(|(file, _)| is_library(tree, file)) {
        for at in find_words(source.code(), "fn") {
            let code = source.code();
            let line = code[..at].rsplit('\n').next().unwrap_or_default();
            let name: String = code[at + 2..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let is_public = line.trim_start().starts_with("pub ");
            if !is_public || source.in_test(at) {
                continue;
            }
            let used = words
                .get(name.as_str())
                .is_some_and(|files| files.iter().any(|f| *f != file));
            let excuse = UNCALLED
                .iter()
                .find(|(f, n, _)| file.ends_with(f) && *n == name);
            match (used, excuse) {
                (false, None) => {
                    let what = format!(
                        "{name} is used by no other file: make it private, remove it, or give the reason in UNCALLED"
                    );
                    findings.push(Finding::new(file, source.line(at), "callers", what));
                }
                (false, Some((_, name, _))) => {
                    excused.insert(*name);
                }
                (true, _) => {}
            }
        }
    }
    let idle = UNCALLED.iter().filter(|(file, name, _)| {
        tree.files().any(|(f, _)| f.ends_with(file)) && !excused.contains(name)
    });
    for (file, name, _) in idle {
        let what = format!("UNCALLED excuses {name} of {file}, which needs no excuse");
        findings.push(Finding::new("xtask/src/tidy/tables.rs", 1, "callers", what).advice());
    }
    findings
}

fn is_library(tree: &Tree, file: &str) -> bool {
    let of = |name: &&str| file.starts_with(&format!("crates/{name}/src/"));
    LIBRARIES.iter().any(of) && !tree.is_test(file)
}

/// The files in which each word stands: code without comments of Rust files, and pages.
fn words_of(tree: &Tree) -> BTreeMap<&str, Vec<&str>> {
    let mut words: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let pages = tree.files().filter(|(name, _)| name.ends_with(".md"));
    let pages = pages.filter_map(|(name, bytes)| Some((name, std::str::from_utf8(bytes).ok()?)));
    for (file, text) in tree.sources().map(|(f, s)| (f, s.code())).chain(pages) {
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let files = words.entry(word).or_default();
            if files.last() != Some(&file) {
                files.push(file);
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_function_without_a_user_is_found_and_others_are_not() {
        let tree = Tree::of(&[
            (
                "crates/wal/src/a.rs",
                "pub fn used() {}\npub fn left() {}\npub(crate) fn inner() {}\nfn own() { left(); }\n\
                 #[cfg(test)]\nmod tests { pub fn of_tests() {} }\n",
            ),
            ("crates/cli/src/b.rs", "pub fn f() { used(); /* left */ }"),
            ("docs/x.md", "Call `documented`."),
            ("crates/base/src/c.rs", "pub fn documented() {}"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|f| (f.file, f.line)).collect();
        assert_eq!(found, [("crates/wal/src/a.rs".to_string(), 2)]);
    }
}
