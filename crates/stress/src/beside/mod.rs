//! The same damage and the same failing calls under two libraries, counted beside each other.
//!
//! Nothing is judged here: the table says what users of each get.

pub mod damaged;
pub mod failing;

use crate::diff::process::{Library, build_runner};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A segment that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Names of the two columns.
pub const SIDES: [&str; 2] = ["ours", "peer"];

/// Counts: row, outcome, per side.
#[derive(Clone, Debug, Default)]
pub struct Table(pub BTreeMap<(String, String), [u64; 2]>);

impl Table {
    fn add(&mut self, row: &str, outcome: &str, side: usize) {
        let key = (row.to_string(), outcome.to_string());
        self.0.entry(key).or_default()[side] += 1;
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "| case | outcome | {} | {} |\n|---|---|---|---|\n",
            SIDES[0], SIDES[1]
        );
        for ((row, outcome), [a, b]) in &self.0 {
            out.push_str(&format!("| {row} | {outcome} | {a} | {b} |\n"));
        }
        out
    }
}

/// Two libraries, a place for their directories, and the example of each outcome.
pub struct Pair {
    sides: [Library; 2],
    place: tempfile::TempDir,
    _built: tempfile::TempDir,
    /// First case of each row and outcome that differ between the sides.
    pub examples: BTreeMap<String, String>,
}

impl Pair {
    /// Builds the runner.
    ///
    /// # Errors
    /// A text: no compiler, no directory.
    pub fn new(ours: &Path, peer: &Path) -> Result<Self, String> {
        let built = tempfile::tempdir().map_err(|e| e.to_string())?;
        let runner = build_runner(built.path())?;
        let place = crate::diff::work_dir()?;
        Ok(Self {
            sides: [ours, peer].map(|path| Library::new(&runner, path).patient(PATIENCE)),
            place,
            _built: built,
            examples: BTreeMap::new(),
        })
    }

    fn dir(&self, side: usize) -> PathBuf {
        self.place.path().join(SIDES[side])
    }

    /// An empty directory for a side.
    fn cleared(&self, side: usize) -> Result<PathBuf, String> {
        let dir = self.dir(side);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(dir)
    }

    /// Lines on a side's directory; the results of the lines alone.
    fn run(&mut self, side: usize, lines: &[&str]) -> Result<Vec<String>, String> {
        let mut all = vec![format!("dir {}", self.dir(side).display())];
        all.extend(lines.iter().map(|l| (*l).to_string()));
        let library = &mut self.sides[side];
        let mut results = library.run(&all)?;
        let ended = |l: &String| l.starts_with("CRASH") || l.starts_with("HANG");
        if results.iter().any(ended) {
            self.sides[side] = self.sides[side].again();
        } else {
            results.remove(0);
        }
        Ok(results)
    }
}
