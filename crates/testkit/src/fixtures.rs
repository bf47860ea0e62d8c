//! The databases below `fixtures/golden` and what a reader must see in them.
//!
//! Formats: `fixtures/README.md`.

use crate::hex::unhex;
use crate::temp::copy_dir;
use std::path::{Path, PathBuf};

/// Folders that RocksDB left empty and Git therefore does not keep, relative to a case.
const EMPTY_FOLDERS: [(&str, &str, &str); 2] = [
    ("golden-11.8", "db-paths", "p1"),
    ("golden-11.8", "options-variety", "db/archive"),
];

/// The folder `fixtures` of the repository.
pub fn fixtures_dir() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates/testkit lies in a repository")
        .join("fixtures")
}

/// One row of `golden-index.tsv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldenCase {
    /// Name of the case, unique within its release.
    pub name: String,
    /// `golden-11.8` or `golden-7.8`.
    pub directory: String,
    /// The release that wrote it.
    pub written_by: String,
    /// Says what it exercises.
    pub exercises: String,
    /// How it must be opened; `plain` if default options and all families suffice.
    pub open: String,
    /// Says what happens without that; `-` if nothing is needed.
    pub without_that: String,
    /// The milestone from which it must be readable.
    pub milestone: u32,
    /// Number of visible entries.
    pub entries: u64,
    /// Which file holds the expected contents, in words.
    pub expected: String,
}

impl GoldenCase {
    /// The folder of the case inside the fixtures. Never open it: open a copy.
    pub fn source(&self) -> PathBuf {
        fixtures_dir()
            .join("golden")
            .join(&self.directory)
            .join(&self.name)
    }

    /// Copies the whole case to `to`, with the empty folders that Git dropped, and returns the
    /// folder of the database in the copy.
    ///
    /// # Panics
    /// If anything cannot be read or written.
    pub fn copy_to(&self, to: impl AsRef<Path>) -> PathBuf {
        let to = to.as_ref();
        copy_dir(self.source(), to);
        for (directory, name, folder) in EMPTY_FOLDERS {
            if self.directory == directory && self.name == name {
                let folder = to.join(folder);
                std::fs::create_dir_all(&folder)
                    .unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
            }
        }
        to.join("db")
    }

    /// The contents of `expected.tsv`: those of the folder `db`.
    pub fn expected_families(&self) -> Vec<ExpectedFamily> {
        read_expected_tsv(self.source().join("expected.tsv"))
    }
}

/// All rows of `golden-index.tsv`, in its order.
///
/// # Panics
/// If the index cannot be read.
pub fn golden_cases() -> Vec<GoldenCase> {
    let path = fixtures_dir().join("golden/golden-index.tsv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows = text.lines().enumerate().skip(1);
    rows.map(|(index, line)| {
        let at = || format!("{}:{}", path.display(), index + 1);
        let fields: Vec<&str> = line.split('\t').collect();
        let [
            name,
            directory,
            written_by,
            exercises,
            open,
            without,
            milestone,
            entries,
            expected,
        ] = fields[..]
        else {
            panic!("{}: {} fields instead of 9", at(), fields.len());
        };
        GoldenCase {
            name: name.to_string(),
            directory: directory.to_string(),
            written_by: written_by.to_string(),
            exercises: exercises.to_string(),
            open: open.to_string(),
            without_that: without.to_string(),
            milestone: milestone
                .parse()
                .unwrap_or_else(|e| panic!("{}: milestone: {e}", at())),
            entries: entries
                .parse()
                .unwrap_or_else(|e| panic!("{}: entries: {e}", at())),
            expected: expected.to_string(),
        }
    })
    .collect()
}

/// The case `name` of `directory` (`golden-11.8` or `golden-7.8`).
///
/// # Panics
/// If there is none.
pub fn golden_case(directory: &str, name: &str) -> GoldenCase {
    let found = golden_cases()
        .into_iter()
        .find(|c| c.directory == directory && c.name == name);
    found.unwrap_or_else(|| panic!("golden-index.tsv has no case {directory}/{name}"))
}

/// One column family of an `expected.tsv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedFamily {
    /// Id of the family.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Key and value of every visible entry, in the order of the family's comparator.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// For each entry the third column (wide columns, or timestamp), where the file has one.
    pub extra: Vec<Option<String>>,
}

/// Reads an `expected.tsv`.
///
/// # Panics
/// If the file cannot be read or does not have the form.
pub fn read_expected_tsv(path: impl AsRef<Path>) -> Vec<ExpectedFamily> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut families: Vec<ExpectedFamily> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fail = |what: &str| -> ! { panic!("{}:{}: {what}", path.display(), index + 1) };
        if let Some(head) = line.strip_prefix("# cf ") {
            let Some((id, name)) = head.split_once(' ') else {
                fail("family without a name")
            };
            families.push(ExpectedFamily {
                id: id
                    .parse()
                    .unwrap_or_else(|_| fail("family id is not a number")),
                name: name.to_string(),
                entries: Vec::new(),
                extra: Vec::new(),
            });
            continue;
        }
        let Some(family) = families.last_mut() else {
            fail("entry before the first family")
        };
        let mut columns = line.split('\t');
        let mut bytes = || columns.next().and_then(unhex);
        let (Some(key), Some(value)) = (bytes(), bytes()) else {
            fail("two hexadecimal columns expected")
        };
        family.entries.push((key, value));
        family.extra.push(columns.next().map(str::to_string));
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    fn files(dir: &Path, suffix: &str) -> usize {
        let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        entries
            .map(|path| match path.is_dir() {
                true => files(&path, suffix),
                false => usize::from(path.to_str().unwrap().ends_with(suffix)),
            })
            .sum()
    }

    #[test]
    fn no_log_of_the_golden_databases_fell_to_an_ignore_list() {
        assert_eq!(files(&fixtures_dir().join("golden"), ".log"), 203);
    }

    #[test]
    fn every_row_of_the_index_has_its_folder_and_its_number_of_entries() {
        let cases = golden_cases();
        assert_eq!(cases.len(), 166);
        for case in &cases {
            let path = case.source();
            assert!(path.join("about.md").is_file(), "{}", path.display());
            let families = case.expected_families();
            assert!(!families.is_empty(), "{}", case.name);
            let entries: usize = families.iter().map(|f| f.entries.len()).sum();
            assert_eq!(
                entries as u64, case.entries,
                "{}/{}",
                case.directory, case.name
            );
        }
        assert_eq!(cases.iter().filter(|c| c.milestone == 1).count(), 28);
    }

    #[test]
    fn expected_contents_keep_names_empty_values_and_third_columns() {
        let wide = golden_case("golden-7.8", "wide-columns").expected_families();
        assert_eq!((wide[0].id, wide[0].name.as_str()), (0, "default"));
        assert_eq!(wide[0].entries[0], (b"e1".to_vec(), b"def".to_vec()));
        assert_eq!(wide[0].extra[0].as_deref(), Some("=646566,61=7661,62=7662"));
        assert_eq!(wide[0].entries[1], (b"e2".to_vec(), vec![]));
        let names: Vec<String> = golden_cases()
            .iter()
            .flat_map(GoldenCase::expected_families)
            .map(|family| family.name)
            .collect();
        assert!(names.iter().any(|n| n == "données [#1] \\ \"q\""));
    }

    #[test]
    fn a_copy_has_the_empty_folders_that_git_dropped() {
        for (directory, name, folder) in EMPTY_FOLDERS {
            let dir = TempDir::new("golden-copy");
            let db = golden_case(directory, name).copy_to(dir.path());
            assert!(db.join("CURRENT").is_file());
            assert!(dir.join(folder).is_dir(), "{name}/{folder}");
        }
    }
}
