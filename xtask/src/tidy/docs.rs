//! Documents: that they exist, that their links lead somewhere, and that the tests they name are there.

use super::Finding;
use super::tree::Tree;
use crate::capi;

/// Rule `readme`.
pub fn readmes(tree: &Tree) -> Vec<Finding> {
    let missing = tree
        .crates()
        .into_iter()
        .map(|name| format!("crates/{name}/README.md"));
    let missing = missing.filter(|file| !tree.has(file));
    let what =
        "write ten lines: what the crate is, what it is not, where to start, how to run its tests";
    missing
        .map(|file| Finding::new(&file, 1, "readme", what))
        .collect()
}

/// Rule `link`.
pub fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, bytes) in tree.files() {
        if !file.ends_with(".md") || file.starts_with("fixtures/golden/") {
            continue;
        }
        let text = String::from_utf8_lossy(bytes);
        for (line, target) in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = resolve(file, path);
            let path = path.unwrap_or_else(|| "outside of the repository".to_string());
            if !tree.has(&path) {
                let what = format!("the link to {target} leads nowhere: there is no {path}");
                findings.push(Finding::new(file, line, "link", what));
            } else if !anchor.is_empty() && path.ends_with(".md") {
                let known = tree
                    .text(&path)
                    .is_some_and(|text| anchors(&text).contains(&anchor.to_string()));
                if !known {
                    let what = format!("{path} has no heading with the anchor #{anchor}");
                    findings.push(Finding::new(file, line, "link", what));
                }
            }
        }
    }
    findings
}

/// The pages whose tables name tests: of the capabilities, and of the invariants.
const NAME_TESTS: [&str; 2] = [COVERAGE, INVARIANTS];

/// Names modules beside tests.
const COVERAGE: &str = "docs/coverage.md";

/// Each row of its table names a test.
const INVARIANTS: &str = "docs/invariants.md";

/// Rule `capi`.
pub fn c_interface(tree: &Tree) -> Vec<Finding> {
    let (Some(spec), Some(exports)) = (tree.text(capi::SPEC), tree.text(capi::EXPORTS)) else {
        return Vec::new();
    };
    let files = match capi::generate(&spec, &exports) {
        Ok(files) => files,
        Err(what) => return vec![Finding::new(capi::SPEC, 1, "capi", what)],
    };
    files
        .into_iter()
        .filter(|(name, text)| tree.text(name).as_ref() != Some(text))
        .map(|(name, _)| Finding::new(name, 1, "capi", "stale: run `cargo xtask capi`"))
        .collect()
}

/// Rule `tests`: in a table of a page of [`NAME_TESTS`] a test is `` `file.rs: function` ``, where the file is the
/// end of a path. Some file of that name must have that function. A row of [`INVARIANTS`] has at least one, and a module
/// that a row of [`COVERAGE`] names, `` `crate::module` ``, has a file or a folder.
pub fn tests(tree: &Tree) -> Vec<Finding> {
    let pages = NAME_TESTS
        .iter()
        .filter_map(|&page| Some((page, tree.text(page)?)));
    pages
        .flat_map(|(page, text)| tests_of(tree, page, &text))
        .collect()
}

fn tests_of(tree: &Tree, page: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows = prose(text).filter(|(_, line)| line.starts_with('|'));
    for (at, (line, row)) in rows.enumerate() {
        let codes = row.split('`').skip(1).step_by(2);
        if page == COVERAGE {
            let gone = codes.clone().filter(|code| !has_module(tree, code));
            let what = |code| format!("there is no module {code}");
            findings.extend(gone.map(|code| Finding::new(page, line, "tests", what(code))));
        }
        let named: Vec<_> = codes.filter_map(|code| code.split_once(".rs: ")).collect();
        // The first two rows are the head of the only table of that page.
        if page == INVARIANTS && at >= 2 && named.is_empty() {
            findings.push(Finding::new(
                page,
                line,
                "tests",
                "an invariant without a test",
            ));
        }
        for (file, function) in named {
            if let Some(what) = missing_test(tree, file, function) {
                findings.push(Finding::new(page, line, "tests", what));
            }
        }
    }
    findings
}

/// Returns whether the module `code` exists, if it is the name of one: words between `::`, first that of a crate.
fn has_module(tree: &Tree, code: &str) -> bool {
    let Some((first, rest)) = code.split_once("::") else {
        return true;
    };
    let root = format!("crates/{first}/src/");
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    if !rest.split("::").all(is_word) || !tree.files().any(|(path, _)| path.starts_with(&root)) {
        return true;
    }
    let module = format!("{root}{}", rest.replace("::", "/"));
    let (file, folder) = (format!("{module}.rs"), format!("{module}/"));
    tree.files()
        .any(|(path, _)| path == file || path.starts_with(&folder))
}

fn missing_test(tree: &Tree, file: &str, function: &str) -> Option<String> {
    let file = format!("{file}.rs");
    let below = format!("/{file}");
    let files = tree.files().filter(|(path, _)| path.ends_with(&below));
    let files: Vec<&str> = files.map(|(path, _)| path).collect();
    match &files[..] {
        [] => Some(format!("there is no file {file}")),
        files if files.iter().any(|path| has_function(tree, path, function)) => None,
        _ => Some(format!(
            "{file} has no function {function}; name the test as it is called now"
        )),
    }
}

fn has_function(tree: &Tree, path: &str, function: &str) -> bool {
    let begins = |rest: &str| rest.starts_with('(') || rest.starts_with('<');
    let declaration = format!("fn {function}");
    tree.text(path).is_some_and(|text| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.strip_prefix(&declaration).is_some_and(begins))
    })
}

/// `target` seen from `file`, without `.` and `..`; `None` if it leaves the repository.
fn resolve(file: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(file.to_string());
    }
    let mut path: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => file.split('/').collect(),
    };
    path.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            part => path.push(part),
        }
    }
    Some(path.join("/"))
}

/// The lines of a Markdown text outside fenced blocks, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let mark = line.trim_start();
        if mark.starts_with("```") || mark.starts_with("~~~") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// The targets of all links, with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Code between backticks is no link.
        let shown: String = line.split('`').step_by(2).collect::<Vec<&str>>().join("``");
        for (at, _) in shown.match_indices("](") {
            let rest = &shown[at + 2..];
            if let Some(end) = rest.find([')', ' ']) {
                found.push((number, rest[..end].trim_matches(['<', '>']).to_string()));
            }
        }
        // Reference definitions: [name]: target
        if let Some((_, target)) = shown
            .trim_start()
            .strip_prefix('[')
            .and_then(|r| r.split_once("]: "))
        {
            found.push((
                number,
                target
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_string(),
            ));
        }
    }
    found
}

/// The anchors of the headings, as the usual renderers make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text)
        .map(|(_, line)| line)
        .filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_readme_is_found() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", ""), ("crates/b/README.md", "x")]);
        let files: Vec<String> = readmes(&tree)
            .into_iter()
            .map(|finding| finding.file)
            .collect();
        assert_eq!(files, ["crates/a/README.md"]);
    }

    #[test]
    fn links_resolve_relative_to_their_file() {
        let text = "[a](b.md) [c](../README.md#one-two) [d](sub/) [e](https://example.org/x)\n\
                    `[no](link.md)`\n```\n[no](link.md)\n```\n[top](#here)\n# Here\n[x](<b.md> \"title\")\n";
        let files = [
            ("docs/a.md", text),
            ("docs/b.md", ""),
            ("docs/sub/x", ""),
            ("README.md", "# One, two!\n"),
        ];
        assert_eq!(links(&Tree::of(&files)), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        let text = "x\n[a](b.md)\n[b](#gone) [c](../../out.md) [d](a.md#gone)\n[r]: c.md\n";
        let findings = links(&Tree::of(&[("docs/a.md", text)]));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3, 3, 3, 4]);
    }

    #[test]
    fn an_invariant_must_name_a_test() {
        let page = "| id | held by |\n|---|---|\n| B1 | `x.rs: one` |\n| B2 | `x.rs` |\n";
        let files = [
            ("docs/invariants.md", page),
            ("crates/a/x.rs", "fn one() {}\n"),
        ];
        let findings = tests(&Tree::of(&files));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4]);
    }

    #[test]
    fn tests_that_a_capability_names_must_exist_where_it_says() {
        let page = "| a | `a::x` `a::it` `b::x` | `x.rs: one` `it/x.rs: two` | `db/` |\n\
                    | b | `a::y` | `x.rs: ones` `y.rs: one` `other/x.rs: one` `scripts/z.py` |\n\
                    `x.rs: prose`\n";
        let files = [
            ("docs/coverage.md", page),
            (
                "crates/a/src/x.rs",
                "#[test]\nfn one() {}\n// fn onesided\n",
            ),
            ("crates/a/tests/it/x.rs", "    fn two() {}\n"),
            ("crates/a/src/it/w.rs", "\n"),
        ];
        let findings = tests(&Tree::of(&files));
        let whats: Vec<(usize, &str)> = findings
            .iter()
            .map(|finding| (finding.line, finding.what.as_str()))
            .collect();
        let gone = "x.rs has no function ones; name the test as it is called now";
        let want = [
            (2, "there is no module a::y"),
            (2, gone),
            (2, "there is no file y.rs"),
            (2, "there is no file other/x.rs"),
        ];
        assert_eq!(whats, want);
    }
}
