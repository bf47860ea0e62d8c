//! The same lines against two libraries through the C functions: results equal, directories readable
//! by the other.
//!
//! Each library runs in a process of its own. Programs are cut into segments at `swap` (both close,
//! then each goes on with the other's directory) and `abandon` (the processes end without closing). At
//! the end each opens its own directory and the other's; all four contents must be equal. Of an error
//! only the text before the first colon counts.

pub mod generate;
pub mod process;

use crate::model::reduce::reduce;
use generate::{Lines, draw_lines};
use process::{Library, build_runner};
use spanlith_testkit::Rng;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;

/// Describes what to run.
#[derive(Clone, Debug)]
pub struct DiffPlan {
    /// Our library.
    pub ours: PathBuf,
    /// The reference.
    pub peer: PathBuf,
    /// Programs in all.
    pub programs: u64,
    /// Seed of the run.
    pub seed: u64,
    /// First program.
    pub first: u64,
    /// Pairs of processes at once.
    pub jobs: usize,
    /// Calls a reduction may make.
    pub reduce_budget: usize,
}

/// Describes what was done.
#[derive(Debug, Default)]
pub struct DiffReport {
    /// Programs finished.
    pub programs: AtomicU64,
    /// Lines whose results were compared.
    pub lines: AtomicU64,
    /// Results that were errors, in both libraries.
    pub errors: AtomicU64,
    /// Times a library opened the other's directory.
    pub swaps: AtomicU64,
    /// Programs given up because the reference did not answer.
    pub peer_hangs: AtomicU64,
    /// Differences that came of the reference alone, which answers the same program in two ways.
    pub peer_wavers: AtomicU64,
}

/// Where two libraries differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line, and its number in the program.
    pub at: usize,
    /// In words.
    pub text: String,
}

/// A program on which they differ.
#[derive(Clone, Debug)]
pub struct DiffFailure {
    /// Number of the program.
    pub number: u64,
    /// The reduced program.
    pub lines: Lines,
    /// Says what differs there.
    pub difference: Difference,
}

impl fmt::Display for DiffFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# program {}: line {}: {}",
            self.number,
            self.difference.at,
            self.difference.text.replace('\n', "\n# ")
        )?;
        self.lines.iter().try_for_each(|l| writeln!(f, "{l}"))
    }
}

/// Two libraries and a directory for each.
pub struct Pair {
    ours: Library,
    peer: Library,
    place: TempDir,
    /// Our results of the last program, as far as it went.
    results: Vec<String>,
}

/// Runs in which the reference may show that it answers in two ways.
const SECOND_LOOKS: usize = 12;

/// A temporary directory, in memory if there is such a place and `TMPDIR` does not say otherwise.
pub(crate) fn work_dir() -> Result<TempDir, String> {
    let memory = Path::new("/dev/shm");
    let make = tempfile::Builder::new()
        .prefix("spanlith-stress-")
        .to_owned();
    let made = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
        make.tempdir_in(memory)
    } else {
        make.tempdir()
    };
    made.map_err(|e| format!("no temporary directory: {e}"))
}

/// The result as far as it counts.
pub(crate) fn essence(result: &str) -> String {
    let Some(at) = result.find("E ") else {
        return result.to_string();
    };
    // Several errors may stand in one line (multi-get): each counts up to its colon.
    if at > 0 && !result[..at].ends_with(' ') {
        return result.to_string();
    }
    let (head, rest) = result.split_at(at);
    let kind = rest.split(':').next().unwrap_or(rest);
    format!("{head}{kind}")
}

impl Pair {
    /// Starts nothing yet.
    ///
    /// # Errors
    /// If there is no temporary directory.
    pub fn new(runner: &Path, ours: &Path, peer: &Path) -> Result<Self, String> {
        Ok(Self {
            ours: Library::new(runner, ours),
            peer: Library::new(runner, peer),
            place: work_dir()?,
            results: Vec::new(),
        })
    }

    fn dirs(&self, swapped: bool) -> (PathBuf, PathBuf) {
        let (a, b) = (self.place.path().join("a"), self.place.path().join("b"));
        if swapped { (b, a) } else { (a, b) }
    }

    /// Sends one segment to both.
    fn segment(
        &mut self,
        setup: &str,
        lines: &[String],
        swapped: bool,
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let (a, b) = self.dirs(swapped);
        let with = |dir: &Path| {
            let mut all = vec![format!("dir {}", dir.display()), setup.to_string()];
            all.extend_from_slice(lines);
            all
        };
        // Both work at the same time.
        let (to_ours, to_peer) = (with(&a), with(&b));
        let (ours, peer) = (&mut self.ours, &mut self.peer);
        let (x, y) = std::thread::scope(|s| {
            let other = s.spawn(|| peer.run(&to_peer));
            let mine = ours.run(&to_ours);
            let other = other
                .join()
                .unwrap_or_else(|_| Err("the peer's thread panicked".to_string()));
            (mine, other)
        });
        let cut = |mut v: Vec<String>| {
            v.drain(..v.len().min(2));
            v
        };
        Ok((cut(x?), cut(y?)))
    }

    /// Runs a program.
    ///
    /// # Errors
    /// The first difference, in the outer result; the inner error is a runner that does not start.
    pub fn run(
        &mut self,
        lines: &[String],
        report: &DiffReport,
    ) -> Result<Result<(), Difference>, String> {
        let (a, b) = self.dirs(false);
        for dir in [&a, &b] {
            let _ = std::fs::remove_dir_all(dir);
        }
        self.results.clear();
        let mut setup = "setup 0 0".to_string();
        let mut swapped = false;
        let mut at = 0;
        while at < lines.len() {
            let end = lines[at..]
                .iter()
                .position(|l| l == "swap" || l == "abandon")
                .map_or(lines.len(), |n| at + n);
            let mut part = lines[at..end].to_vec();
            let stop = lines.get(end).map(String::as_str);
            part.push(
                if stop == Some("abandon") {
                    "abandon"
                } else {
                    "close"
                }
                .to_string(),
            );
            let (x, y) = self.segment(&setup, &part, swapped)?;
            let hung = |results: &[String]| results.iter().any(|r| r.starts_with("HANG"));
            if hung(&y) && !hung(&x) {
                report.peer_hangs.fetch_add(1, Ordering::Relaxed);
                self.restart();
                return Ok(Ok(()));
            }
            self.results.resize(at, String::new());
            self.results.extend_from_slice(&x);
            if let Some(found) = compare(&part, at, &x, &y, report) {
                // A process may hold files of a database it did not close.
                self.restart();
                return Ok(Err(found));
            }
            if let Some(last) = part.iter().rev().find(|l| l.starts_with("setup ")) {
                setup.clone_from(last);
            }
            if stop == Some("swap") {
                swapped = !swapped;
                report.swaps.fetch_add(2, Ordering::Relaxed);
            }
            at = end + 1;
        }
        let done = self.finish(&setup, lines.len(), swapped)?;
        report.programs.fetch_add(1, Ordering::Relaxed);
        report.swaps.fetch_add(2, Ordering::Relaxed);
        if done.is_err() {
            self.restart();
        }
        Ok(done)
    }

    /// Returns whether a difference comes of the reference alone: in another run of the program we answer the
    /// same, and it answers that, too. RocksDB does so where jobs in the background decide which files
    /// a read meets, for one when a multi-get meets range tombstones.
    fn peer_wavers(&mut self, lines: &[String], found: &Difference) -> Result<bool, String> {
        let scratch = DiffReport::default();
        let Some(ours) = self.results.get(found.at).cloned() else {
            return Ok(false);
        };
        for _ in 0..SECOND_LOOKS {
            let again = self.run(lines, &scratch)?;
            if self.results.get(found.at) != Some(&ours) {
                return Ok(false);
            }
            if again.is_ok_and(|()| scratch.peer_hangs.load(Ordering::Relaxed) == 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self) {
        let (ours, peer) = (&self.ours, &self.peer);
        let (a, b) = (ours.again(), peer.again());
        (self.ours, self.peer) = (a, b);
    }

    /// Each opens its own directory, then the other's.
    fn finish(
        &mut self,
        setup: &str,
        at: usize,
        swapped: bool,
    ) -> Result<Result<(), Difference>, String> {
        // Without a compaction filter: it would remove what a compaction happens to meet.
        let setup: Vec<&str> = setup.split(' ').take(3).collect();
        let setup = &setup.join(" ");
        let open = "open all create_if_missing=false;stats_dump_period_sec=0;max_open_files=-1;allow_fallocate=false";
        let exists = self.dirs(swapped).0.join("CURRENT").exists();
        if !exists {
            return Ok(Ok(()));
        }
        let look: Vec<String> = [open, "dumpall", "close"].map(String::from).to_vec();
        let mut seen = Vec::new();
        for swapped in [swapped, !swapped] {
            let (x, y) = self.segment(setup, &look, swapped)?;
            seen.push(("ours", swapped, x));
            seen.push(("peer", swapped, y));
        }
        let first = seen[0].2.clone();
        if seen.iter().all(|s| s.2 == first) && first.first().is_some_and(|l| l == "ok") {
            return Ok(Ok(()));
        }
        let mut text = "at the end:".to_string();
        for (who, swapped_now, results) in seen {
            let whose = if swapped_now == swapped {
                "its own"
            } else {
                "the other's"
            };
            text.push_str(&format!(
                "\n  {who} on {whose} directory: {}",
                results.join(" / ")
            ));
        }
        Ok(Err(Difference { at, text }))
    }
}

fn compare(
    lines: &[String],
    at: usize,
    ours: &[String],
    peer: &[String],
    report: &DiffReport,
) -> Option<Difference> {
    for (n, line) in lines.iter().enumerate() {
        let (x, y) = (ours.get(n), peer.get(n));
        let same = match (x, y) {
            (Some(x), Some(y)) => essence(x) == essence(y) && !x.starts_with("CRASH"),
            _ => false,
        };
        if !same {
            let side = |v: Option<&String>, all: &[String]| {
                v.or(all.last())
                    .cloned()
                    .unwrap_or_else(|| "nothing".into())
            };
            return Some(Difference {
                at: at + n,
                text: format!(
                    "{line}\n  ours: {}\n  peer: {}",
                    side(x, ours),
                    side(y, peer)
                ),
            });
        }
        report.lines.fetch_add(1, Ordering::Relaxed);
        if x.is_some_and(|x| x.starts_with("E ")) {
            report.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
    None
}

/// Program `number` of a run.
pub fn lines_of(seed: u64, number: u64) -> Lines {
    let mut rng = Rng::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    draw_lines(&mut rng)
}

/// Shortens a program that fails with `original`; the verb on which the libraries differ stays.
fn reduce_lines(
    pair: &mut Pair,
    lines: &[String],
    original: &Difference,
    budget: usize,
) -> (Lines, Option<Difference>) {
    let verb = |d: &Difference| d.text.split_whitespace().next().map(str::to_string);
    let scratch = DiffReport::default();
    let setup = lines[..1].to_vec();
    let mut last = None;
    let body = reduce(&lines[1..], budget, |body| {
        let mut all = setup.clone();
        all.extend_from_slice(body);
        match pair.run(&all, &scratch) {
            Ok(Err(d)) if verb(&d) == verb(original) => {
                last = Some(d);
                true
            }
            _ => false,
        }
    });
    let mut all = setup;
    all.extend(body);
    (all, last)
}

/// Runs programs; `progress` is told now and then.
///
/// # Errors
/// A text if the runner cannot be built or started, or the first program on which the libraries
/// differ, reduced.
pub fn run_diff(
    plan: &DiffPlan,
    progress: impl Fn(&DiffReport) + Sync,
) -> Result<DiffReport, (String, Option<DiffFailure>)> {
    let bin = work_dir().map_err(|e| (e, None))?;
    let runner = build_runner(bin.path()).map_err(|e| (e, None))?;
    let report = DiffReport::default();
    let next = AtomicU64::new(plan.first);
    let end = plan.first + plan.programs;
    let stop = AtomicBool::new(false);
    let failed: Mutex<Option<(String, Option<DiffFailure>)>> = Mutex::new(None);
    let fail = |text: String, failure: Option<DiffFailure>| {
        stop.store(true, Ordering::Relaxed);
        let mut slot = failed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.get_or_insert((text, failure));
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                let mut pair = match Pair::new(&runner, &plan.ours, &plan.peer) {
                    Ok(pair) => pair,
                    Err(text) => return fail(text, None),
                };
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    // A program that the reference could not finish is made up for.
                    let end = end + report.peer_hangs.load(Ordering::Relaxed);
                    if number >= end || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let lines = lines_of(plan.seed, number);
                    match pair.run(&lines, &report) {
                        Ok(Ok(())) => progress(&report),
                        Err(text) => return fail(text, None),
                        Ok(Err(original)) => {
                            match pair.peer_wavers(&lines, &original) {
                                Err(text) => return fail(text, None),
                                Ok(true) => {
                                    report.peer_wavers.fetch_add(1, Ordering::Relaxed);
                                    report.programs.fetch_add(1, Ordering::Relaxed);
                                    eprintln!(
                                        "diff: program {number}: the reference answers in two \
                                         ways: {}",
                                        original.text
                                    );
                                    continue;
                                }
                                Ok(false) => {}
                            }
                            stop.store(true, Ordering::Relaxed);
                            let (short, last) =
                                reduce_lines(&mut pair, &lines, &original, plan.reduce_budget);
                            let text = original.text.clone();
                            let failure = DiffFailure {
                                number,
                                lines: short,
                                difference: last.unwrap_or(original),
                            };
                            return fail(text, Some(failure));
                        }
                    }
                }
            });
        }
    });
    let failed = failed
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match failed {
        Some(f) => Err(f),
        None => Ok(report),
    }
}

/// Runs one program given as text.
///
/// # Errors
/// A text if the runner cannot be built or started.
pub fn replay_diff(ours: &Path, peer: &Path, text: &str) -> Result<Result<(), Difference>, String> {
    let bin = work_dir()?;
    let runner = build_runner(bin.path())?;
    let lines: Lines = text
        .lines()
        .filter(|l| !l.trim().is_empty() && !l.starts_with('#'))
        .map(str::to_string)
        .collect();
    Pair::new(&runner, ours, peer)?.run(&lines, &DiffReport::default())
}

#[cfg(test)]
mod tests {
    use super::essence;

    #[test]
    fn of_an_error_only_the_kind_counts() {
        assert_eq!(
            essence("E Invalid argument: /x: exists"),
            "E Invalid argument"
        );
        assert_eq!(essence("put E NotFound: "), "put E NotFound");
        assert_eq!(essence("6162=E: 5"), "6162=E: 5");
        assert_eq!(essence("ok"), "ok");
    }
}
