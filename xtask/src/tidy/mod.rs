//! `cargo xtask tidy`: the rules of the house that a machine can check.
//!
//! A rule is a function from the [`Tree`] (all files of the repository, in memory) to findings. The
//! tables it works from are in [`tables`]; what is written for readers in `docs/` repeats them and
//! is compared. Rules look at Rust source with comments and literals blanked out ([`source`]), not
//! at a syntax tree: exact enough for words and paths, and free of dependencies.

mod callers;
mod docs;
mod hygiene;
mod invariants;
mod layers;
mod module_order;
mod ratchet;
mod rust_rules;
mod source;
mod tables;
mod tree;
mod unsafe_list;

use std::path::Path;
use std::process::ExitCode;
use tree::Tree;

/// One thing that must change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    file: String,
    /// From 1.
    line: usize,
    rule: &'static str,
    /// Says what is wrong and what to do about it.
    what: String,
    /// Says whether it only asks for attention.
    advice: bool,
}

impl Finding {
    fn new(file: &str, line: usize, rule: &'static str, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_string(),
            line,
            rule,
            what: what.into(),
            advice: false,
        }
    }

    fn advice(self) -> Finding {
        Finding {
            advice: true,
            ..self
        }
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: [(&str, &str, Rule); 20] = [
    (
        "layering",
        "a crate depends only on the crates that its row allows",
        layers::crates,
    ),
    (
        "layering-doc",
        "docs/architecture.md repeats the tables of xtask",
        layers::document,
    ),
    (
        "dependencies",
        "every crate from outside has its reason",
        layers::dependencies,
    ),
    (
        "module-order",
        "a module of engine uses only modules to its right",
        module_order::check,
    ),
    (
        "length",
        "a file stays below 800 lines, 1000 with tests",
        rust_rules::length,
    ),
    ("header", "a Rust file begins with //!", rust_rules::header),
    (
        "doc-sentence",
        "no comment on a file or an item begins with a bare What, Who, Whoever or Whether",
        rust_rules::doc_sentences,
    ),
    (
        "unfinished",
        "no unfinished or skipped code",
        rust_rules::unfinished,
    ),
    (
        "banned-call",
        "engine reaches the outside world through env",
        rust_rules::banned_calls,
    ),
    (
        "unsafe-lint",
        "each crate root states its rule on unsafe",
        unsafe_list::lints,
    ),
    (
        "unsafe-list",
        "docs/unsafe.md lists the files with unsafe",
        unsafe_list::list,
    ),
    (
        "machine",
        "no path or host of one machine",
        hygiene::machine,
    ),
    (
        "capi",
        "the C header and the bindings are what `cargo xtask capi` writes",
        docs::c_interface,
    ),
    ("readme", "every crate has a README", docs::readmes),
    ("link", "links between documents resolve", docs::links),
    (
        "tests",
        "the tests and modules that docs/coverage.md and docs/invariants.md name exist",
        docs::tests,
    ),
    (
        "invariant",
        "each row of docs/invariants.md is checked where it is established and relied on, and its test names it",
        invariants::check,
    ),
    (
        "ratchet",
        "figures of the engine's open floor plan only fall",
        ratchet::check,
    ),
    (
        "callers",
        "a public function of a library crate is used outside its file",
        callers::check,
    ),
    (
        "cited-page",
        "Rust files cite only pages that exist",
        ratchet::pages,
    ),
];

/// Checks the repository at `root` and prints what must change.
pub fn run(root: &Path) -> ExitCode {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(2);
        }
    };
    let findings = check(&tree);
    let (advice, errors): (Vec<&Finding>, Vec<&Finding>) = findings.iter().partition(|f| f.advice);
    for finding in &errors {
        println!(
            "{}:{}: {}: {}",
            finding.file, finding.line, finding.rule, finding.what
        );
    }
    for finding in &advice {
        println!(
            "{}:{}: advice: {}",
            finding.file, finding.line, finding.what
        );
    }
    let figures = ratchet::figures(&tree).into_iter();
    let figures = figures.map(|(name, n, max)| format!("{name} {n} of {max}"));
    println!("ratchets: {}", figures.collect::<Vec<_>>().join(", "));
    println!(
        "tidy: {} files, {} rules, {} findings, {} pieces of advice",
        tree.len(),
        RULES.len(),
        errors.len(),
        advice.len()
    );
    if errors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|(_, _, rule)| rule(tree)).collect();
    findings.sort();
    findings
}

/// The rules, one line each.
pub fn describe() -> String {
    RULES
        .iter()
        .map(|(name, what, _)| format!("{name:14} {what}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_carry_the_name_of_a_rule_that_is_listed() {
        let tree = Tree::of(&[
            (
                "crates/engine/src/lib.rs",
                "fn f() { dbg!(std::fs::read(\"x\")); unsafe {} }",
            ),
            (
                "crates/engine/Cargo.toml",
                "[dependencies]\nspanlith-capi = \"1\"\nodd = \"1\"\n",
            ),
            ("README.md", "[a](missing.md)"),
        ]);
        let findings = check(&tree);
        assert!(findings.len() >= 8, "{findings:#?}");
        for finding in findings {
            assert!(
                RULES.iter().any(|(name, _, _)| *name == finding.rule),
                "{finding:?}"
            );
        }
    }
}
