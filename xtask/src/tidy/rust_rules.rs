//! Rules about single Rust files.

use super::Finding;
use super::tables::{BANNED_IN_ENGINE, LINES_ADVISED_MAX, LINES_MAX};
use super::tree::Tree;

/// Rule `length`.
pub fn length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        if tree.is_test(file) || is_generated(source.text()) {
            continue;
        }
        let (all, without_tests) = (source.lines(), source.lines_without_tests());
        if all > LINES_MAX {
            let what = format!("{all} lines, at most {LINES_MAX} with tests: split it by noun");
            findings.push(Finding::new(file, 1, "length", what));
        } else if without_tests > LINES_ADVISED_MAX {
            let what = format!(
                "{without_tests} lines without tests, {LINES_ADVISED_MAX} should do: split it by noun"
            );
            findings.push(Finding::new(file, 1, "length", what).advice());
        }
    }
    findings
}

fn is_generated(text: &str) -> bool {
    text.lines()
        .next()
        .is_some_and(|line| line.to_lowercase().contains("generated"))
}

/// Rule `header`. A file `tests.rs` needs none: the file beside it says what is tested.
pub fn header(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree
        .sources()
        .filter(|(file, _)| !file.ends_with("/tests.rs"))
    {
        let mut lines = source.text().lines().filter(|line| !line.trim().is_empty());
        let first = lines.find(|line| !line.starts_with("#!") && !is_generated(line));
        match first.and_then(|line| line.strip_prefix("//!")) {
            None => {
                let what = "begin the file with //! and say what it is for";
                findings.push(Finding::new(file, 1, "header", what));
            }
            Some(text) if text.trim().to_lowercase().starts_with("placeholder") => {
                let what = "the header is a placeholder: say what the file is for";
                findings.push(Finding::new(file, 1, "header", what));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Returns whether a text begins with a word that leaves it without a subject.
pub fn begins_bare(text: &str) -> bool {
    const WORDS: [&str; 5] = ["What", "Who", "Whoever", "Whatever", "Whether"];
    let word = text.trim_start().split(|c: char| !c.is_alphabetic()).next();
    word.is_some_and(|word| WORDS.contains(&word))
}

/// Rule `doc-sentence`.
pub fn doc_sentences(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        let mut goes_on = false;
        for (n, line) in source.text().lines().enumerate() {
            let line = line.trim_start();
            let doc = line
                .strip_prefix("///")
                .or_else(|| line.strip_prefix("//!"));
            let text = doc.map_or("", str::trim);
            if !goes_on && begins_bare(text) {
                let what = "write a sentence with a verb of its own: Returns whether, Holds, The, Says what";
                findings.push(Finding::new(file, n + 1, "doc-sentence", what));
            }
            // The next line of a paragraph may begin with any word.
            goes_on = !text.is_empty();
        }
    }
    findings
}

/// Rule `unfinished`.
pub fn unfinished(tree: &Tree) -> Vec<Finding> {
    const IN_CODE: [(&str, &str); 5] = [
        ("dbg!(", "remove it"),
        (
            "todo!(",
            "write the code, or return Error::not_supported with the name of the feature",
        ),
        (
            "unimplemented!(",
            "return Error::not_supported with the name of the feature",
        ),
        (
            "#[ignore",
            "a test runs or it goes; assert the known behaviour as it is",
        ),
        (
            "#[should_panic",
            "call it inside catch_unwind and check the message",
        ),
    ];
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        for (mark, instead) in IN_CODE {
            for at in source.find(mark) {
                let mark = mark.trim_end_matches('(');
                let what = format!("{mark} does not reach main: {instead}");
                findings.push(Finding::new(file, source.line(at), "unfinished", what));
            }
        }
        for (index, line) in source.text().lines().enumerate() {
            if line.contains(concat!("FIX", "ME")) {
                let what = "repair it, or open an issue and name it in a comment";
                findings.push(Finding::new(file, index + 1, "unfinished", what));
            }
            let mark = concat!("TO", "DO");
            if let Some((before, after)) = line.split_once(mark) {
                let numbered = after.trim_start_matches(['(', ' ']).starts_with('#');
                if before.contains("//") && !numbered {
                    let what = format!("name the issue: {mark}(#12)");
                    findings.push(Finding::new(file, index + 1, "unfinished", what));
                }
            }
        }
    }
    findings
}

/// Rule `banned-call`.
pub fn banned_calls(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        if !file.starts_with("crates/engine/src/") || tree.is_test(file) {
            continue;
        }
        let mut lines = Vec::new();
        for (call, instead) in BANNED_IN_ENGINE {
            for at in source.find(call) {
                let line = source.line(at);
                if !source.in_test(at) && !lines.contains(&line) {
                    lines.push(line);
                    let what = format!("{call} is not for engine: {instead}");
                    findings.push(Finding::new(file, line, "banned-call", what));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_advised_then_refused_and_tests_are_not_counted() {
        let lines = |code: usize, tests: usize| {
            let text = format!(
                "//! x\n{}#[cfg(test)]\nmod tests {{\n{}}}\n",
                "fn f() {}\n".repeat(code - 2),
                "// x\n".repeat(tests)
            );
            length(&Tree::of(&[("crates/a/src/b.rs", &text)]))
        };
        assert!(lines(700, 250).is_empty());
        assert!(lines(820, 100)[0].advice);
        assert!(!lines(700, 400)[0].advice);
        let generated = format!("// Generated.\n{}", "\n".repeat(2000));
        assert!(length(&Tree::of(&[("a.rs", &generated)])).is_empty());
        assert!(length(&Tree::of(&[("a/tests/b.rs", &"\n".repeat(2000))])).is_empty());
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        let found = |text: &str| header(&Tree::of(&[("crates/a/src/b.rs", text)])).len();
        assert_eq!(found("//! Purpose.\n"), 0);
        assert_eq!(found("#![deny(unsafe_code)]\n//! Purpose.\n"), 0);
        assert_eq!(found("use a;\n//! Late.\n"), 1);
        assert_eq!(found("//! placeholder\n"), 1);
        assert_eq!(found(""), 1);
        assert!(header(&Tree::of(&[("crates/a/src/b/tests.rs", "use a;")])).is_empty());
    }

    #[test]
    fn comments_that_begin_with_a_bare_question_word_are_found() {
        let text = "//! Whether it is.\n//!\n//! What it does.\n\n/// Says what\n/// What goes on.\nfn f() {}\n/// Whatever.\n\
                    fn g() {}\n    /// Who is it?\n    x: u8,\n// What is this?\n";
        let findings = doc_sentences(&Tree::of(&[("a.rs", text)]));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 3, 8, 10]);
    }

    #[test]
    fn unfinished_code_is_found_where_it_is_code() {
        let text =
            "//! x\nfn f() { todo!() }\n// todo!()\nlet s = \"dbg!(1)\";\n#[ignore]\nfn g() {}\n";
        let findings = unfinished(&Tree::of(&[("a.rs", text)]));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 5]);
        let comments = format!(
            "// {m}: x\n// {m}(#12): x\n// {f}\n",
            m = concat!("TO", "DO"),
            f = concat!("FIX", "ME")
        );
        assert_eq!(unfinished(&Tree::of(&[("a.rs", &comments)])).len(), 2);
    }

    #[test]
    fn engine_does_not_reach_around_env() {
        let text = "//! x\nuse std::fs::File;\nlet t = Instant::now();\nlet o = operand::x();\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let findings = banned_calls(&Tree::of(&[("crates/engine/src/db/db.rs", text)]));
        assert_eq!(findings.iter().map(|f| f.line).collect::<Vec<_>>(), [2, 3]);
        assert!(banned_calls(&Tree::of(&[("crates/env/src/posix.rs", text)])).is_empty());
    }
}
