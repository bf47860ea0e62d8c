//! The files of the repository, in memory.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// All files that Git tracks or would track, by path relative to the root, with `/`.
pub struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    /// Rust files, read as source.
    sources: BTreeMap<String, Source>,
    /// Rust files that are compiled for tests only.
    tests: BTreeSet<String>,
}

impl Tree {
    /// Reads the repository at `root`. Untracked files count unless they are ignored, so that a
    /// mistake is found before it is committed.
    pub fn load(root: &Path) -> Result<Tree, String> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git ls-files: {error}"))?;
        if !listed.status.success() {
            return Err(format!(
                "git ls-files: {}",
                String::from_utf8_lossy(&listed.stderr)
            ));
        }
        let mut files = BTreeMap::new();
        for name in listed
            .stdout
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let name = String::from_utf8_lossy(name).into_owned();
            // A file that was deleted but is still in the index has no contents to check.
            if let Ok(bytes) = std::fs::read(root.join(&name)) {
                files.insert(name, bytes);
            }
        }
        Ok(Tree::new(files))
    }

    /// A tree of the given files, for tests of the rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let owned = files
            .iter()
            .map(|(name, text)| (name.to_string(), text.as_bytes().to_vec()));
        Tree::new(owned.collect())
    }

    fn new(files: BTreeMap<String, Vec<u8>>) -> Tree {
        let mut sources = BTreeMap::new();
        for (name, bytes) in &files {
            if name.ends_with(".rs") && !name.starts_with("fixtures/") {
                sources.insert(name.clone(), Source::parse(&String::from_utf8_lossy(bytes)));
            }
        }
        let mut tests = BTreeSet::new();
        for (name, source) in &sources {
            let parts: Vec<&str> = name.split('/').collect();
            if parts
                .iter()
                .any(|part| matches!(*part, "tests" | "benches" | "tests.rs"))
            {
                tests.insert(name.clone());
            }
            let folder = module_folder(name);
            for module in source.test_module_files() {
                tests.insert(format!("{folder}/{module}.rs"));
                tests.insert(format!("{folder}/{module}/mod.rs"));
            }
        }
        Tree {
            files,
            sources,
            tests,
        }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether there is a file, or a folder with files, of this name.
    pub fn has(&self, name: &str) -> bool {
        let folder = format!("{name}/");
        name.is_empty()
            || self.files.contains_key(name)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(n, _)| n.starts_with(&folder))
    }

    /// Contents of a file as text; `None` if it is missing.
    pub fn text(&self, name: &str) -> Option<String> {
        self.files
            .get(name)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// All Rust files.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources
            .iter()
            .map(|(name, source)| (name.as_str(), source))
    }

    /// Returns whether the Rust file `name` is compiled for tests only.
    pub fn is_test(&self, name: &str) -> bool {
        self.tests.contains(name)
    }

    /// The folders in `crates/`.
    pub fn crates(&self) -> BTreeSet<String> {
        let inside = self
            .files
            .keys()
            .filter_map(|name| name.strip_prefix("crates/"));
        inside
            .filter_map(|rest| rest.split_once('/'))
            .map(|(name, _)| name.to_string())
            .collect()
    }
}

/// The folder in which the modules that the file `name` declares have their files.
fn module_folder(name: &str) -> String {
    let (folder, file) = name.rsplit_once('/').unwrap_or((".", name));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_string(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_test_modules_are_known() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "#[cfg(test)]\nmod checks;\nmod real;\n",
            ),
            ("crates/a/src/checks.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)]\nmod more;"),
            ("crates/a/src/real/more.rs", ""),
            ("crates/a/tests/it/main.rs", ""),
        ]);
        let is_test = |name: &str| tree.is_test(&format!("crates/a/{name}"));
        assert!(is_test("src/checks.rs") && is_test("src/real/more.rs"));
        assert!(is_test("tests/it/main.rs"));
        assert!(!is_test("src/real.rs") && !is_test("src/lib.rs"));
    }

    #[test]
    fn folders_exist_when_something_is_in_them() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old", "")]);
        assert!(tree.has("docs") && tree.has("docs/a.md") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/b.md"));
    }
}
