//! The table of docs/invariants.md: each promise is checked where it is established and where it is relied on, and a
//! test names it.
//!
//! A place is a file below `crates/` that has the identifier, in a comment or a string outside its tests, within
//! [`NEAR`] lines of an assertion or an error. Where there can be none, the cell says `none:` and why.

use super::Finding;
use super::source::{Source, find_words};
use super::tree::Tree;

const PAGE: &str = "docs/invariants.md";
const RULE: &str = "invariant";
/// Its columns.
const HEAD: [&str; 6] = [
    "id",
    "crate or module",
    "promise",
    "established",
    "relied on",
    "held by",
];
/// Lines between an identifier and what checks it, at most.
const NEAR: usize = 6;
/// Parts of code that assert, or make an error.
const CHECKS: [&str; 7] = [
    "assert",
    "Err(",
    "Error::",
    "Corruption",
    "damage(",
    ".expect(",
    "panic!",
];
/// Shortest reason for a cell without a place, in bytes.
const REASON_MIN: usize = 12;

/// Rule `invariant`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(PAGE) else {
        return Vec::new();
    };
    let mut lines = (1..).zip(text.lines());
    let mut lines = lines.by_ref().filter(|(_, line)| line.starts_with('|'));
    let head = lines.next();
    if head.is_none_or(|(_, line)| cells(line) != HEAD) {
        let what = format!("the columns of its table are: {}", HEAD.join(", "));
        return vec![Finding::new(PAGE, 1, RULE, what)];
    }
    // The line under the head.
    lines
        .skip(1)
        .flat_map(|(line, row)| {
            let whats = check_row(tree, &cells(row));
            whats
                .into_iter()
                .map(move |what| Finding::new(PAGE, line, RULE, what))
        })
        .collect()
}

/// The cells of a row.
fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

fn check_row(tree: &Tree, cells: &[&str]) -> Vec<String> {
    let [id, _, _, established, relied, held] = cells else {
        return vec![format!("a row has {} cells", HEAD.len())];
    };
    let mut whats = Vec::new();
    for (name, cell) in [(HEAD[3], established), (HEAD[4], relied)] {
        let missing = check_place(tree, id, cell);
        whats.extend(missing.map(|what| format!("{id}, {name}: {what}")));
    }
    let both = (place_of(established), place_of(relied));
    if let (Some(a), Some(b)) = both
        && a == b
    {
        whats.push(format!(
            "{id}: it is established and relied on in one file, {a}"
        ));
    }
    let tests = codes(held).filter_map(|code| code.split_once(": "));
    for (file, function) in tests {
        if !names_itself(tree, file, function, id) {
            whats.push(format!(
                "{file}: {function} does not name {id}: say so in a comment in it or above it"
            ));
        }
    }
    whats
}

/// The parts of a cell between backticks.
fn codes(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The file that a cell names; `None` if it says that there is none.
fn place_of(cell: &str) -> Option<&str> {
    match cell.starts_with("none:") {
        true => None,
        false => codes(cell).next(),
    }
}

/// Returns what is wrong with the place where `id` is established or relied on.
fn check_place(tree: &Tree, id: &str, cell: &str) -> Option<String> {
    if let Some(reason) = cell.strip_prefix("none:") {
        let has_reason = reason.trim().len() >= REASON_MIN;
        return (!has_reason).then(|| "say why there is no place".to_string());
    }
    let Some(place) = place_of(cell) else {
        return Some("name a file, or say `none:` and why".to_string());
    };
    let path = format!("crates/{place}");
    match tree.text(&path) {
        None => Some(format!("there is no file {path}")),
        Some(text) if is_checked(&text, id) => None,
        Some(_) => Some(format!(
            "{place} has no {id} within {NEAR} lines of an assertion or an error"
        )),
    }
}

/// Returns whether `text` has the identifier near a check, outside its tests.
fn is_checked(text: &str, id: &str) -> bool {
    let source = Source::parse(text);
    let code: Vec<&str> = source.code().lines().collect();
    find_words(text, id).into_iter().any(|at| {
        // Blanked in the code: in a comment or a string.
        let is_said = source.code().get(at..at + id.len()) != Some(id);
        let line = source.line(at) - 1;
        let near = line.saturating_sub(NEAR)..(line + NEAR + 1).min(code.len());
        is_said && !source.in_test(at) && code[near].iter().any(|line| is_check(line))
    })
}

fn is_check(line: &str) -> bool {
    CHECKS.iter().any(|check| line.contains(check))
}

/// Returns whether a test of that name, in some file that ends so, has the identifier in the comment above it or in its body.
fn names_itself(tree: &Tree, file: &str, function: &str, id: &str) -> bool {
    let below = format!("/{file}");
    let declaration = format!("fn {function}(");
    let files = tree.files().filter(|(path, _)| path.ends_with(&below));
    let texts = files.filter_map(|(path, _)| tree.text(path));
    let found: Vec<String> = texts.filter_map(|text| item(&text, &declaration)).collect();
    // A test that is not there is a finding of another rule.
    found.is_empty() || found.iter().any(|item| !find_words(item, id).is_empty())
}

/// The function that `declaration` begins, with the comments and attributes above it.
fn item(text: &str, declaration: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str| line.trim_start().starts_with(declaration);
    let at = lines.iter().position(begins)?;
    let is_above = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("//") || line.starts_with("#[")
    };
    let above = lines[..at].iter().rev().take_while(is_above).count();
    let indent = lines[at].len() - lines[at].trim_start().len();
    let end = format!("{}}}", " ".repeat(indent));
    let len = lines[at..].iter().position(|line| *line == end);
    let end = at + len.unwrap_or(0);
    Some(lines[at - above..=end].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKED: &str = "fn f() {\n    debug_assert!(ok(), \"X1: it holds\");\n}\n";
    const NAMED: &str = "/// Of X1.\n#[test]\nfn one() {\n    x();\n}\n";

    /// The findings of one row, where both files are checked and the test names the row.
    fn findings(row: &str) -> Vec<String> {
        findings_of(row, &[])
    }

    fn findings_of(row: &str, others: &[(&str, &str)]) -> Vec<String> {
        let page = format!(
            "| id | crate or module | promise | established | relied on | held by |\n\
             |---|---|---|---|---|---|\n{row}\n"
        );
        let mut files = vec![
            (PAGE, page.as_str()),
            ("crates/a/src/x.rs", CHECKED),
            ("crates/b/src/y.rs", CHECKED),
            ("crates/a/tests/t.rs", NAMED),
        ];
        files.extend(others);
        let found = check(&Tree::of(&files)).into_iter();
        found.map(|finding| finding.what).collect()
    }

    #[test]
    fn a_row_with_two_places_and_a_test_that_names_it_is_right() {
        let row = "| X1 | a | it | `a/src/x.rs` | `b/src/y.rs` | `t.rs: one` |";
        assert_eq!(findings(row), Vec::<String>::new());
        let row =
            "| X1 | a | it | none: the type has no other value | `b/src/y.rs` | `t.rs: one` |";
        assert_eq!(findings(row), Vec::<String>::new());
    }

    #[test]
    fn a_table_with_other_columns_is_refused() {
        let page = "| id | promise | checked by |\n|---|---|---|\n";
        assert_eq!(check(&Tree::of(&[(PAGE, page)])).len(), 1);
        assert_eq!(findings("| X1 | a | `a/src/x.rs` |").len(), 1);
    }

    #[test]
    fn a_place_must_be_there_or_have_a_reason() {
        let row = "| X1 | a | it | `a/src/gone.rs` | none: | `t.rs: one` |";
        let want = [
            "X1, established: there is no file crates/a/src/gone.rs",
            "X1, relied on: say why there is no place",
        ];
        assert_eq!(findings(row), want);
        let row = "| X1 | a | it | the types | `b/src/y.rs` | `t.rs: one` |";
        let want = ["X1, established: name a file, or say `none:` and why"];
        assert_eq!(findings(row), want);
    }

    #[test]
    fn both_places_in_one_file_are_one_place() {
        let row = "| X1 | a | it | `a/src/x.rs` | `a/src/x.rs` | `t.rs: one` |";
        let want = ["X1: it is established and relied on in one file, a/src/x.rs"];
        assert_eq!(findings(row), want);
    }

    #[test]
    fn an_identifier_without_a_check_near_it_is_found() {
        let row = "| X1 | a | it | `a/src/z.rs` | `b/src/y.rs` | `t.rs: one` |";
        let want =
            ["X1, established: a/src/z.rs has no X1 within 6 lines of an assertion or an error"];
        let far = format!("// X1\n{}assert!(ok());\n", "\n".repeat(NEAR));
        let unchecked = [
            "// X1: it holds\nfn f() {}\n",
            "// X11: assert\nfn f() { assert!(ok()); }\n",
            "struct X1;\nfn f() { assert!(ok()); }\n",
            "#[cfg(test)]\nmod tests {\n    fn f() { assert!(ok(), \"X1\"); }\n}\n",
            far.as_str(),
        ];
        for text in unchecked {
            assert_eq!(
                findings_of(row, &[("crates/a/src/z.rs", text)]),
                want,
                "{text}"
            );
        }
        for text in [
            "// X1\nreturn Err(e);\n",
            "// X1\nError::corruption(\"x\")\n",
        ] {
            assert!(
                findings_of(row, &[("crates/a/src/z.rs", text)]).is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_test_that_does_not_name_its_invariant_is_found() {
        let row = "| X1 | a | it | `a/src/x.rs` | `b/src/y.rs` | `u.rs: two` |";
        let unnamed = "/// Of X1.\nfn other() {}\n\n#[test]\nfn two() {\n    x();\n}\n// X1\n";
        let inside = "mod u {\n    fn two() {\n        // X1: why\n    }\n}\n";
        let want = ["u.rs: two does not name X1: say so in a comment in it or above it"];
        assert_eq!(findings_of(row, &[("crates/a/tests/u.rs", unnamed)]), want);
        assert!(findings_of(row, &[("crates/a/tests/u.rs", inside)]).is_empty());
    }
}
