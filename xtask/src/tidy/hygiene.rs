//! Nothing in the repository names one machine: no path of a workshop, no host of a package source.
//!
//! The words are put together from pieces, so that this file does not contain them.

use super::Finding;
use super::tree::Tree;

const PATHS: [&str; 3] = [
    concat!("/", "work"),
    concat!("/", "farm"),
    concat!("/tmp/", "bash_jobs"),
];

const HOSTS: [&str; 9] = [
    concat!("crates", ".io"),
    concat!("repo1.maven", ".org"),
    concat!("repo.maven.apache", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("files.pythonhosted", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
];

/// The only source of packages that a lock file may name; Cargo writes it whatever mirror is used.
const LOCK_SOURCE: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

/// Rule `machine`.
pub fn machine(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, bytes) in tree.files() {
        let lock = file.ends_with(".lock");
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let mut report = |what: String| {
                findings.push(Finding::new(file, index + 1, "machine", what));
            };
            if let Some(path) = PATHS.iter().find(|path| names_path(&line, path)) {
                report(format!(
                    "{path} exists on one machine only: use a relative path"
                ));
            }
            if lock {
                if line.contains("registry+") && !line.contains(LOCK_SOURCE) {
                    report("only the usual registry may stand in a lock file".to_string());
                }
            } else if let Some(host) = HOSTS.iter().find(|host| line.contains(**host)) {
                report(format!(
                    "{host} is a package source: leave the choice to the user's tools"
                ));
            }
        }
    }
    findings
}

/// Returns whether `line` contains `path` as a whole folder name: at the start of a path for prose, anywhere
/// if something follows below it.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let begins = before.is_none_or(|c| !(c.is_alphanumeric() || "._-~/}>".contains(c)));
        let ends = after.is_none_or(|c| !(c.is_alphanumeric() || "._-".contains(c)));
        after == Some('/') || begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> usize {
        machine(&Tree::of(&[(file, text)])).len()
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        for text in ["cd {}/main", "x={}", "a{}/b", "({})", "{}"] {
            assert_eq!(found("a.sh", &text.replace("{}", PATHS[0])), 1, "{text}");
        }
        for text in ["{}er", "net{}", "a/b{}", "{}-load", "~{}", "$dir{}"] {
            assert_eq!(found("a.sh", &text.replace("{}", PATHS[0])), 0, "{text}");
        }
        assert_eq!(found("a.md", PATHS[2]), 1);
    }

    #[test]
    fn package_sources_are_found_but_not_in_a_lock_file() {
        assert_eq!(
            found("a.toml", &format!("registry = \"https://{}\"", HOSTS[0])),
            1
        );
        assert_eq!(
            found("Cargo.lock", &format!("source = \"{LOCK_SOURCE}\"")),
            0
        );
        assert_eq!(
            found("Cargo.lock", "source = \"registry+https://mirror.example\""),
            1
        );
    }
}
