//! Figures that may only fall: how much of the engine is still one class cut into pages.
//!
//! Each figure has a ceiling in [`CEILINGS`]. A figure above its ceiling is a finding that names what counts; one well
//! below it is advice to lower the ceiling. Whoever lowers a figure lowers its ceiling in the same commit.
//!
//! | figure | counts |
//! |---|---|
//! | `impl Engine` | files of the engine with methods of `Engine` |
//! | `impl Lsm` | files of the engine with methods of `Lsm`, which `Engine` holds |
//! | shared fields | fields of the structs that all those methods reach |
//! | long functions | functions of more than 70 lines in libraries |
//! | calls upwards | calls of methods of `Engine`, `Lsm` and `LeaderState` from a module to one before it in the order of modules |
//! | bare comments | comments in code that begin with What, Who or Whether instead of a subject |
//! | behind | comments with that word, which many have for *after*; a thread that falls behind may stay |
//!
//! Comments may cite only pages that exist: that rule has no ceiling.

use super::Finding;
use super::rust_rules::begins_bare;
use super::source::Source;
use super::tables::MODULE_ORDER;
use super::tree::Tree;
use std::collections::BTreeMap;

const RULE: &str = "ratchet";
const SRC: &str = "crates/engine/src/";
/// Figures and their ceilings: 71, 134, 54 and 15 when the rule was made, and room for work that was under way.
const CEILINGS: [(&str, usize); 7] = [
    ("impl Engine", 6),
    ("impl Lsm", 9),
    ("shared fields", 70),
    ("long functions", 58),
    ("calls upwards", 0),
    ("bare comments", 0),
    ("behind", 72),
];
/// Lines of a function that is long.
const LONG: usize = 70;
/// Structs whose fields all methods of `Engine` reach, and their files.
const SHARED: [(&str, &str); 6] = [
    ("Engine", "core/engine.rs"),
    ("Lsm", "core/lsm.rs"),
    ("Components", "core/lsm.rs"),
    ("DbState", "core/state.rs"),
    ("FamilyState", "core/state.rs"),
    ("LeaderState", "core/state.rs"),
];

/// Something that counts: its file, line and name.
type Counted = Vec<(String, usize, String)>;

/// Rule `ratchet`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let all = [
        files_with(tree, "impl Engine"),
        files_with(tree, "impl Lsm"),
        shared_fields(tree),
        long_functions(tree),
        calls_upwards(tree),
        bare_comments(tree),
        comments_with(tree, "behind"),
    ];
    let figures = CEILINGS.iter().zip(all);
    figures
        .filter_map(|((name, ceiling), counted)| judge(name, *ceiling, &counted))
        .collect()
}

/// The figures, for `--rules`.
pub fn figures(tree: &Tree) -> Vec<(&'static str, usize, usize)> {
    let all = [
        files_with(tree, "impl Engine").len(),
        files_with(tree, "impl Lsm").len(),
        shared_fields(tree).len(),
        long_functions(tree).len(),
        calls_upwards(tree).len(),
        bare_comments(tree).len(),
        comments_with(tree, "behind").len(),
    ];
    let figures = CEILINGS.iter().zip(all);
    figures.map(|((name, max), n)| (*name, n, *max)).collect()
}

fn judge(name: &str, ceiling: usize, counted: &Counted) -> Option<Finding> {
    let n = counted.len();
    let (file, line, last) = counted.last()?;
    if n > ceiling {
        let what = format!(
            "{name}: {n}, at most {ceiling} (the last one counted is {last}); see the head of \
             xtask/src/tidy/ratchet.rs"
        );
        return Some(Finding::new(file, *line, RULE, what));
    }
    let what = format!("{name}: {n}; lower its ceiling from {ceiling}");
    (n + 10 < ceiling).then(|| Finding::new(file, *line, RULE, what).advice())
}

/// Files of the engine, without tests.
fn engine_sources(tree: &Tree) -> impl Iterator<Item = (&str, &Source)> {
    tree.sources()
        .filter(|(file, _)| file.starts_with(SRC) && !tree.is_test(file))
}

fn files_with(tree: &Tree, head: &str) -> Counted {
    let mut found = Vec::new();
    for (file, source) in engine_sources(tree) {
        let mut first = source.find(head).into_iter();
        if let Some(at) = first.find(|at| !source.in_test(*at)) {
            found.push((file.to_string(), source.line(at), file.to_string()));
        }
    }
    found
}

/// Comments on items have a rule of their own, without a ceiling.
fn bare_comments(tree: &Tree) -> Counted {
    let mut found = Vec::new();
    for (file, source) in tree.sources() {
        let mut goes_on = false;
        for (n, line) in source.text().lines().enumerate() {
            let text = line.trim_start().strip_prefix("// ");
            if !goes_on && text.is_some_and(begins_bare) {
                found.push((file.to_string(), n + 1, line.trim().to_string()));
            }
            goes_on = text.is_some();
        }
    }
    found
}

fn comments_with(tree: &Tree, word: &str) -> Counted {
    let mut found = Vec::new();
    for (file, source) in tree.sources() {
        for (n, line) in source.text().lines().enumerate() {
            let text = line.trim_start().strip_prefix("//").unwrap_or_default();
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|w| w == word) {
                found.push((file.to_string(), n + 1, line.trim().to_string()));
            }
        }
    }
    found
}

fn shared_fields(tree: &Tree) -> Counted {
    let mut found = Vec::new();
    for (name, file) in SHARED {
        let file = format!("{SRC}{file}");
        let Some((_, source)) = tree.sources().find(|(f, _)| *f == file) else {
            continue;
        };
        let Some(at) = source.find(&format!("struct {name}")).first().copied() else {
            continue;
        };
        let Some((open, close)) = body(source.code(), at) else {
            continue;
        };
        let first = source.line(open);
        for (n, line) in source.code()[open..close].lines().enumerate() {
            let field = line
                .trim()
                .trim_start_matches("pub ")
                .trim_start_matches("pub(crate) ");
            if let Some((field, _)) = field.split_once(": ")
                && field
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_')
            {
                found.push((file.clone(), first + n, format!("{name}::{field}")));
            }
        }
    }
    found
}

/// The braces of the first body after `at`.
fn body(code: &str, at: usize) -> Option<(usize, usize)> {
    let open = at + code[at..].find(['{', ';'])?;
    if code[open..].starts_with(';') {
        return None;
    }
    let mut depth = 0;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((open, open + offset));
        }
    }
    None
}

/// The word at `at`.
fn word(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    &rest[..end.unwrap_or(rest.len())]
}

/// Functions with a body: position, name, and the end of the body.
fn functions(source: &Source) -> Vec<(usize, &str, usize)> {
    let code = source.code();
    let mut found = Vec::new();
    for at in source.find("fn ") {
        let name = word(code, at + 3);
        if name.is_empty() || source.in_test(at) {
            continue;
        }
        if let Some((_, close)) = body(code, at) {
            found.push((at, name, close));
        }
    }
    found
}

fn long_functions(tree: &Tree) -> Counted {
    let mut found = Vec::new();
    for (file, source) in tree.sources() {
        let is_library = file.starts_with("crates/") && file.contains("/src/");
        let is_tool = ["cli", "stress", "testkit"].iter();
        let mut is_tool = is_tool.map(|name| format!("crates/{name}/"));
        if !is_library || tree.is_test(file) || is_tool.any(|dir| file.starts_with(&dir)) {
            continue;
        }
        for (at, name, close) in functions(source) {
            if source.line(close) - source.line(at) >= LONG {
                found.push((file.to_string(), source.line(at), name.to_string()));
            }
        }
    }
    found
}

/// The module of a file of the engine, by its place in the order.
fn rank(file: &str) -> Option<usize> {
    let module = file.strip_prefix(SRC)?.split('/').next()?;
    let module = module.trim_end_matches(".rs");
    MODULE_ORDER.iter().position(|name| *name == module)
}

/// Returns whether code ends with a name that an engine, or a part of it, goes by. Calls may begin on the next line.
fn is_of_engine(code: &str) -> bool {
    let code = code.trim_end();
    ["self", "engine", "engine()", "e", "lsm", "leader"]
        .iter()
        .any(|name| {
            let before = code.strip_suffix(name).map(|rest| rest.chars().next_back());
            before.is_some_and(|c| c.is_none_or(|c| !c.is_alphanumeric() && c != '_'))
        })
}

fn calls_upwards(tree: &Tree) -> Counted {
    // Methods of these types that stand in one module only.
    let mut methods: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, source) in engine_sources(tree) {
        let heads = ["Engine", "Lsm", "LeaderState"].map(|of| source.find(&format!("impl {of}")));
        let blocks: Vec<(usize, usize)> = heads
            .into_iter()
            .flatten()
            .filter_map(|at| body(source.code(), at))
            .collect();
        for (at, name, _) in functions(source) {
            let is_engines = blocks.iter().any(|b| (b.0..b.1).contains(&at));
            match (is_engines, rank(file)) {
                (true, Some(rank)) => methods.entry(name).or_default().push(rank),
                _ => *others.entry(name).or_default() += 1,
            }
        }
    }
    let mut found = Vec::new();
    for (file, source) in engine_sources(tree) {
        let Some(here) = rank(file) else { continue };
        let code = source.code();
        for (name, of) in &methods {
            let [of] = of.as_slice() else { continue };
            if *of >= here || others.contains_key(name) {
                continue;
            }
            for at in source.find(&format!(".{name}(")) {
                if is_of_engine(&code[..at]) && !source.in_test(at) {
                    found.push((
                        file.to_string(),
                        source.line(at),
                        format!("{name} ({})", MODULE_ORDER[*of]),
                    ));
                }
            }
        }
    }
    found
}

/// Rule `cited-page`: pages of `docs/` that Rust files cite exist.
pub fn pages(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources() {
        if file.starts_with("xtask/") {
            continue;
        }
        for (n, line) in source.text().lines().enumerate() {
            for (at, _) in line.match_indices("docs/") {
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || "/_-.".contains(c));
                let rest = &line[at..];
                let page = &rest[..rest.find(is_end).unwrap_or(rest.len())];
                let page = page.trim_end_matches('.');
                if page.ends_with(".md") && !tree.has(page) {
                    let what = format!("there is no page {page}");
                    findings.push(Finding::new(file, n + 1, "cited-page", what));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let named: Vec<(String, &str)> = files
            .iter()
            .map(|(name, text)| (format!("{SRC}{name}"), *text))
            .collect();
        let named: Vec<(&str, &str)> = named.iter().map(|(n, t)| (n.as_str(), *t)).collect();
        Tree::of(&named)
    }

    #[test]
    fn files_fields_functions_and_calls_are_counted() {
        let long = format!("fn long() {{\n{}}}\nfn short() {{}}\n", "x();\n".repeat(70));
        let tree = tree(&[
            (
                "core/engine.rs",
                "pub struct Engine {\n    pub c: u8,\n    // d: no\n    e: u8,\n}\nimpl Engine {\n    fn low(&self) { self.high(); self.same() }\n    fn same(&self) {}\n}\n",
            ),
            (
                "write/room.rs",
                "impl Engine {\n    fn high(&self) { self.low() }\n}\n",
            ),
            ("read/get.rs", &long),
            (
                "read/more.rs",
                "fn f(e: &Engine) { e.high() }\n#[cfg(test)]\nmod tests { fn g(e: &Engine) { e.high() } }\n",
            ),
        ]);
        let names = |c: Counted| c.into_iter().map(|c| c.2).collect::<Vec<_>>();
        assert_eq!(files_with(&tree, "impl Engine").len(), 2);
        assert_eq!(names(shared_fields(&tree)), ["Engine::c", "Engine::e"]);
        assert_eq!(names(long_functions(&tree)), ["long"]);
        assert_eq!(
            names(calls_upwards(&tree)),
            ["high (write)", "high (write)"]
        );
    }

    #[test]
    fn a_word_is_counted_in_comments_alone_and_whole() {
        let text = "//! What is behind.\nfn behind() {}\n/// `ingest_behind`\n    // Behind it, not behind\n";
        let tree = tree(&[("read/get.rs", text)]);
        let lines = comments_with(&tree, "behind").into_iter().map(|c| c.1);
        assert_eq!(lines.collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_figure_above_its_ceiling_is_a_finding_and_one_far_below_is_advice() {
        let counted: Counted = (0..3)
            .map(|n| ("f".to_string(), n, "x".to_string()))
            .collect();
        assert!(!judge("n", 2, &counted).unwrap().advice);
        assert!(judge("n", 3, &counted).is_none() && judge("n", 13, &counted).is_none());
        assert!(judge("n", 14, &counted).unwrap().advice);
    }

    #[test]
    fn pages_that_are_not_there_may_not_be_cited() {
        let text = "//! See docs/a.md, `docs/b.md`.\n// docs/gone.md says more\n";
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", text),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
        ]);
        let found = pages(&tree);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
