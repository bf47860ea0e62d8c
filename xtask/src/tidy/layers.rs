//! Which crate may use which, and that outside crates have a reason.

use super::Finding;
use super::tables::{LAYERS, MODULE_ORDER, TESTKIT_IN_TESTS, package};
use super::tree::Tree;

const DOCUMENT: &str = "docs/architecture.md";
const REASONS: &str = "docs/dependencies.md";

/// One dependency in a manifest.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    /// Name of the package.
    name: String,
    line: usize,
    /// Says whether it is for tests only.
    dev: bool,
}

/// Rule `layering`.
pub fn crates(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in tree.crates() {
        let file = format!("crates/{folder}/Cargo.toml");
        let Some(manifest) = tree.text(&file) else {
            continue;
        };
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == folder) else {
            let what = "this crate has no tier: add a row to LAYERS in xtask/src/tidy/tables.rs \
                        and to docs/architecture.md";
            findings.push(Finding::new(&file, 1, "layering", what));
            continue;
        };
        for dependency in dependencies_of(&manifest) {
            let ours = LAYERS.iter().map(|(name, _)| *name);
            let Some(used) = ours
                .into_iter()
                .find(|name| package(name) == dependency.name)
            else {
                continue;
            };
            let in_tests = used == "testkit" && TESTKIT_IN_TESTS.contains(&folder.as_str());
            let permitted = allowed.contains(&used) || dependency.dev && in_tests;
            if !permitted {
                let allowed = if allowed.is_empty() {
                    "no crate of ours".into()
                } else {
                    allowed.join(", ")
                };
                let what = format!(
                    "{folder} may not depend on {used}, only on: {allowed}. Move the code to a \
                     crate that may, or pass in what is needed"
                );
                findings.push(Finding::new(&file, dependency.line, "layering", what));
            }
        }
    }
    findings
}

/// Rule `dependencies`.
pub fn dependencies(tree: &Tree) -> Vec<Finding> {
    let reasons = tree.text(REASONS).unwrap_or_default();
    let mut findings = Vec::new();
    for (file, bytes) in tree
        .files()
        .filter(|(name, _)| name.ends_with("Cargo.toml"))
    {
        for dependency in dependencies_of(&String::from_utf8_lossy(bytes)) {
            let ours = LAYERS
                .iter()
                .any(|(name, _)| package(name) == dependency.name);
            if !ours && !reasons.contains(&format!("| `{}` |", dependency.name)) {
                let what = format!(
                    "add the row \"| `{}` | who uses it | why |\" to {REASONS}, or do without it",
                    dependency.name
                );
                findings.push(Finding::new(file, dependency.line, "dependencies", what));
            }
        }
    }
    findings
}

/// Rule `layering-doc`.
pub fn document(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(DOCUMENT).unwrap_or_default();
    let mut findings = Vec::new();
    for expected in LAYERS.iter().map(layer_row) {
        if !text.lines().any(|line| line == expected) {
            let what = format!("the table of crates lacks this row: {expected}");
            findings.push(Finding::new(DOCUMENT, 1, "layering-doc", what));
        }
    }
    let order = MODULE_ORDER.join(" > ");
    let flat = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    if !flat.contains(&order) {
        let what = format!("the order of the modules of engine must read: {order}");
        findings.push(Finding::new(DOCUMENT, 1, "layering-doc", what));
    }
    findings
}

fn layer_row((name, allowed): &(&str, &[&str])) -> String {
    let allowed = if allowed.is_empty() {
        "nothing of ours".into()
    } else {
        allowed.join(", ")
    };
    format!("| `{name}` | {allowed} |")
}

/// The dependencies in a manifest. Reads the forms that Cargo accepts: `name = …`,
/// `name.workspace = true`, `[dependencies.name]`, `package = "other-name"` in a table on the line.
fn dependencies_of(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    // Some(dev) while inside a table of dependencies.
    let mut table = None;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            let keys = split_keys(header);
            let is_table = |key: &String| {
                matches!(
                    key.as_str(),
                    "dependencies" | "dev-dependencies" | "build-dependencies"
                )
            };
            table = None;
            if let Some(at) = keys.iter().position(is_table) {
                let dev = keys[at] == "dev-dependencies";
                match keys.get(at + 1) {
                    Some(name) => found.push(Dependency {
                        name: name.clone(),
                        line: index + 1,
                        dev,
                    }),
                    None => table = Some(dev),
                }
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        if let Some(dev) = table {
            let name = match value.split_once("package") {
                Some((_, renamed)) => renamed.split('"').nth(1).unwrap_or_default().to_string(),
                None => split_keys(key.trim()).swap_remove(0),
            };
            found.push(Dependency {
                name,
                line: index + 1,
                dev,
            });
        }
    }
    found
}

/// Splits a dotted key; quoted parts stay whole.
fn split_keys(key: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut quote = None;
    for c in key.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            ('.', None) => keys.push(String::new()),
            (c, _) => keys.last_mut().expect("starts with one").push(c),
        }
    }
    keys.iter().map(|key| key.trim().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(crate_name: &str, text: &str) -> Vec<Finding> {
        crates(&Tree::of(&[(
            &format!("crates/{crate_name}/Cargo.toml"),
            text,
        )]))
    }

    #[test]
    fn a_dependency_on_a_higher_crate_is_found_with_its_line() {
        let text = "[package]\nname = \"spanlith-wal\"\n[dependencies]\nspanlith-base.workspace = true\nspanlith = { path = \"../engine\" }\n";
        let findings = manifest("wal", text);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 5);
        assert!(
            findings[0]
                .what
                .starts_with("wal may not depend on engine, only on: base, env")
        );
    }

    #[test]
    fn every_form_of_a_dependency_is_read() {
        let text = "[target.'cfg(unix)'.dependencies]\na = \"1\"\n[dev-dependencies]\n\"b\" = \"1\" # why\n\
                    [build-dependencies.c]\nversion = \"1\"\n[features]\nd = []\n[dependencies]\n\
                    e = { package = \"f\", version = \"1\" }\n[workspace.dependencies]\ng.version = \"1\"\n";
        let found = dependencies_of(text);
        let names: Vec<(&str, bool)> = found.iter().map(|d| (d.name.as_str(), d.dev)).collect();
        assert_eq!(
            names,
            [
                ("a", false),
                ("b", true),
                ("c", false),
                ("f", false),
                ("g", false)
            ]
        );
    }

    #[test]
    fn testkit_is_for_tests_only() {
        assert!(
            manifest(
                "wal",
                "[dev-dependencies]\nspanlith-testkit.workspace = true\n"
            )
            .is_empty()
        );
        assert_eq!(
            manifest("wal", "[dependencies]\nspanlith-testkit.workspace = true\n").len(),
            1
        );
        assert_eq!(
            manifest(
                "base",
                "[dev-dependencies]\nspanlith-testkit.workspace = true\n"
            )
            .len(),
            1
        );
        assert!(
            manifest(
                "stress",
                "[dependencies]\nspanlith-testkit.workspace = true\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_crate_without_a_tier_is_found() {
        assert!(
            manifest("novelty", "[package]\n")[0]
                .what
                .contains("has no tier")
        );
    }

    #[test]
    fn the_tiers_have_no_cycle() {
        for (index, (name, allowed)) in LAYERS.iter().enumerate() {
            for used in *allowed {
                let at = LAYERS.iter().position(|(other, _)| other == used);
                assert!(at.is_some_and(|at| at < index), "{name} uses {used}");
            }
        }
    }

    #[test]
    fn an_outside_crate_needs_its_row() {
        let file = (
            "crates/wal/Cargo.toml",
            "[dependencies]\nspanlith-base = \"1\"\nodd = \"1\"\n",
        );
        assert_eq!(dependencies(&Tree::of(&[file])).len(), 1);
        let row = (
            REASONS,
            "| crate | user | why |\n| `odd` | wal | because |\n",
        );
        assert!(dependencies(&Tree::of(&[file, row])).is_empty());
    }

    #[test]
    fn the_document_must_repeat_the_tables() {
        let mut text: String = LAYERS.iter().map(|layer| layer_row(layer) + "\n").collect();
        text.push_str(&MODULE_ORDER.join(" > ").replace(" > write", "\n  > write"));
        assert!(document(&Tree::of(&[(DOCUMENT, &text)])).is_empty());
        let older = text
            .replace("> placement > core", "> core > placement")
            .replace("| base, env |", "| base |");
        assert_eq!(document(&Tree::of(&[(DOCUMENT, &older)])).len(), 3);
    }
}
