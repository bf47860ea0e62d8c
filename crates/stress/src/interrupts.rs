//! Interrupted and short system calls: nobody notices them.
//!
//! A random program of [`crate::diff`] runs over the C functions on real files, then again while calls below its
//! directory end with `EINTR` or do a part of a read or write: the n-th call of a class, or any call of a storm. All
//! results, and the contents in the end, are those of the first run (reliability, section 7.3). An interrupted close
//! has closed; an interrupted change of names may have been made, as network file systems do it.

use crate::diff::process::{Library, build_runner};
use crate::diff::{essence, lines_of, work_dir};
use crate::pool::{Sum, run_numbered};
use spanlith_testkit::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Classes of calls as `runner/faults.c` counts them, and the fates that they may meet.
const CLASSES: [(&str, &[i32]); 17] = [
    ("append", &[EINTR, SHORT]),
    ("sync", &[EINTR]),
    ("directory sync", &[EINTR]),
    ("create", &[EINTR]),
    ("open", &[EINTR]),
    ("read", &[EINTR, SHORT]),
    ("rename", &[EINTR, LATE]),
    ("delete", &[EINTR, LATE]),
    ("link", &[EINTR, LATE]),
    ("directory", &[EINTR, LATE]),
    ("truncate", &[EINTR]),
    ("close", &[EINTR]),
    ("list", &[EINTR]),
    ("stat", &[EINTR]),
    ("lock", &[EINTR]),
    ("range", &[EINTR]),
    ("ring", &[EINTR]),
];
const EINTR: i32 = 4;
const SHORT: i32 = -1;
const LATE: i32 = -2;

/// Runs under a fault for each run without one.
const FAULTS_EACH: u64 = 4;

/// Describes what to run.
#[derive(Clone, Debug)]
pub struct InterruptsPlan {
    /// The library.
    pub library: PathBuf,
    /// Seed of the run.
    pub seed: u64,
    /// Runs in all, each under a fault.
    pub runs: u64,
    /// Processes at once.
    pub jobs: usize,
    /// Only the runs of this program.
    pub only: Option<u64>,
    /// Nothing new is begun after so many broken promises.
    pub stop: u64,
}

/// Describes what was seen.
#[derive(Clone, Debug, Default)]
pub struct InterruptsReport {
    /// Runs under a fault.
    pub runs: u64,
    /// Results compared.
    pub lines: u64,
    /// Calls that were interrupted or short, by the kind of the fault.
    pub fired: BTreeMap<String, u64>,
    /// Programs that give two results without a fault, too.
    pub wavering: u64,
    /// Broken promises.
    pub broken: u64,
    /// The first few.
    pub failures: Vec<String>,
}

impl Sum for InterruptsReport {
    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.lines += other.lines;
        self.wavering += other.wavering;
        self.broken += other.broken;
        for (key, n) in other.fired {
            *self.fired.entry(key).or_default() += n;
        }
        self.failures.extend(other.failures);
        self.failures.truncate(20);
    }
}

/// One fault: a line for the runner, at the start of each process's part.
struct Fault {
    line: String,
    name: String,
}

/// Draws one for a program that makes so many calls of each class.
fn draw(rng: &mut Rng, calls: &[u64]) -> Fault {
    let made: Vec<usize> = (0..CLASSES.len())
        .filter(|class| calls.get(*class).is_some_and(|n| *n > 0))
        .collect();
    if made.is_empty() || rng.one_in(3) {
        let one_in = *rng.pick(&[2, 3, 10, 50]);
        return Fault {
            line: format!("storm {} {one_in}", rng.below(1 << 30)),
            name: format!("storm, one call in {one_in}"),
        };
    }
    let class = *rng.pick(&made);
    let (name, fates) = CLASSES[class];
    let fate = *rng.pick(fates);
    let nth = rng.between(1, calls[class]);
    let times = *rng.pick(&[1, 1, 3, 40]);
    let how = match fate {
        SHORT => "short",
        LATE => "interrupted when it was made",
        _ => "interrupted",
    };
    Fault {
        line: format!("fault {class} {nth} {fate} {times}"),
        name: format!("{name}, {how}"),
    }
}

/// A directory and a library to play programs with.
struct Stage {
    library: Library,
    place: tempfile::TempDir,
}

impl Stage {
    fn new(runner: &Path, library: &Path) -> Result<Self, String> {
        Ok(Self {
            library: Library::new(runner, library),
            place: work_dir()?,
        })
    }

    /// Plays a program, in the end with all contents, and those of a checkpoint. Returns the results, the most calls of each class that one of
    /// its processes made, and the number of calls that the fault hit.
    fn play(
        &mut self,
        lines: &[String],
        fault: Option<&Fault>,
    ) -> Result<(Vec<String>, Vec<u64>, u64), String> {
        let dir = self.place.path().join("db");
        let copy = self.place.path().join("db-copy");
        for dir in [&dir, &copy] {
            let _ = std::fs::remove_dir_all(dir);
        }
        self.library = self.library.again();
        let (mut results, mut calls, mut fired) = (Vec::new(), vec![0; CLASSES.len()], 0);
        let mut setup = "setup 0 0".to_string();
        let look = "open all create_if_missing=false;stats_dump_period_sec=0;allow_fallocate=false";
        let ends = |l: &String| l == "swap" || l == "abandon";
        let mut parts: Vec<Vec<String>> = lines
            .split_inclusive(ends)
            .map(|part| {
                let mut part = part.to_vec();
                match part.last().map(String::as_str) {
                    Some("abandon") => {}
                    Some("swap") => *part.last_mut().expect("it has a last") = "close".into(),
                    _ => part.push("close".into()),
                }
                part
            })
            .collect();
        parts.push(
            [look, "dumpall", "checkpoint", "close"]
                .map(String::from)
                .to_vec(),
        );
        parts.push([look, "dumpall", "close"].map(String::from).to_vec());
        let last = parts.len() - 1;
        for (n, part) in parts.into_iter().enumerate() {
            if n + 1 >= last {
                // Without a compaction filter: it would remove what a compaction happens to meet.
                setup = setup.split(' ').take(3).collect::<Vec<_>>().join(" ");
            }
            let fault = fault.map_or("faultoff", |f| &f.line);
            let dir = if n == last { &copy } else { &dir };
            let dir = format!("dir {}", dir.display());
            let mut all: Vec<String> = vec![dir, setup.clone(), "calls".into(), fault.into()];
            let head = all.len();
            if let Some(line) = part.iter().rev().find(|l| l.starts_with("setup ")) {
                setup.clone_from(line);
            }
            let goes_on = part.last().is_some_and(|l| l != "abandon");
            all.extend(part);
            if goes_on {
                all.extend(["calls", "faultoff"].map(String::from));
            }
            let mut got = self.library.run(&all)?;
            let ended = |l: &String| l.starts_with("CRASH") || l.starts_with("HANG");
            if got.iter().any(ended) {
                results.append(&mut got);
                break;
            }
            let mut rest = got.split_off(head.min(got.len()));
            if goes_on && rest.len() >= 2 {
                fired += rest.pop().and_then(|n| n.parse().ok()).unwrap_or(0);
                let numbers = |l: &String| -> Vec<u64> {
                    l.split(' ').filter_map(|n| n.parse().ok()).collect()
                };
                let after = rest.pop().as_ref().map(numbers).unwrap_or_default();
                let before = got.get(2).map(numbers).unwrap_or_default();
                for (most, (b, a)) in calls.iter_mut().zip(before.iter().zip(&after)) {
                    *most = (*most).max(a - b);
                }
            }
            results.append(&mut rest);
        }
        Ok((results, calls, fired))
    }
}

/// The first line whose results differ.
fn difference(lines: &[String], sound: &[String], got: &[String]) -> Option<String> {
    let at = (0..sound.len().max(got.len())).find(|n| {
        sound.get(*n).map(|l| essence(l)) != got.get(*n).map(|l| essence(l))
            || got.get(*n).is_some_and(|l| l.starts_with("CRASH"))
    })?;
    let side = |all: &[String]| all.get(at).or(all.last()).cloned().unwrap_or_default();
    let line = lines.get(at).map_or("at the end", String::as_str);
    Some(format!(
        "line {at}: {line}\n  alone: {}\n  disturbed: {}",
        side(sound),
        side(got)
    ))
}

/// One program, alone and under faults.
fn run_program(
    plan: &InterruptsPlan,
    runner: &Path,
    number: u64,
) -> Result<InterruptsReport, String> {
    let mut report = InterruptsReport::default();
    let lines = lines_of(plan.seed, number);
    let mut rng = Rng::new(plan.seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    let mut stage = Stage::new(runner, &plan.library)?;
    let (sound, calls, _) = stage.play(&lines, None)?;
    for _ in 0..FAULTS_EACH {
        report.runs += 1;
        let fault = draw(&mut rng, &calls);
        let (got, _, fired) = stage.play(&lines, Some(&fault))?;
        *report.fired.entry(fault.name.clone()).or_default() += fired;
        report.lines += got.len() as u64;
        let Some(text) = difference(&lines, &sound, &got) else {
            continue;
        };
        // Only what the program says alone counts.
        let again = (0..3).map(|_| stage.play(&lines, None));
        let again: Result<Vec<_>, String> = again.collect();
        if again?
            .iter()
            .any(|(other, ..)| difference(&lines, &sound, other).is_some())
        {
            report.wavering += 1;
            continue;
        }
        report.broken += 1;
        report.failures.push(format!(
            "--seed {} --run {number} ({}; {}): {text}",
            plan.seed, fault.name, fault.line
        ));
    }
    Ok(report)
}

/// Runs all; `progress` is told after each program.
///
/// # Errors
/// A text: no compiler, no directory.
pub fn run_interrupts(
    plan: &InterruptsPlan,
    progress: impl Fn(&InterruptsReport) + Sync,
) -> Result<InterruptsReport, String> {
    let bin = work_dir()?;
    let runner = build_runner(bin.path())?;
    let one = |number| {
        run_program(plan, &runner, number).unwrap_or_else(|text| InterruptsReport {
            broken: 1,
            failures: vec![text],
            ..InterruptsReport::default()
        })
    };
    if let Some(only) = plan.only {
        return Ok(one(only));
    }
    let enough = |number: u64, sum: &InterruptsReport| {
        number * FAULTS_EACH >= plan.runs || sum.broken >= plan.stop
    };
    Ok(run_numbered(plan.jobs, enough, one, progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|l| (*l).to_string()).collect()
    }

    #[test]
    fn a_result_that_is_missing_or_another_is_a_difference() {
        let lines = texts(&["put 00 s1.1 0", "get 0 now 00"]);
        let sound = texts(&["ok", "01"]);
        assert_eq!(difference(&lines, &sound, &sound), None);
        for got in [
            &["ok", "02"][..],
            &["ok"],
            &["E IO error: x", "01"],
            &["ok", "01", "CRASH 9"],
        ] {
            assert!(difference(&lines, &sound, &texts(got)).is_some(), "{got:?}");
        }
    }

    #[test]
    fn faults_are_drawn_for_calls_that_are_made() {
        let mut rng = Rng::new(5);
        let mut calls = vec![0; CLASSES.len()];
        calls[6] = 2;
        for _ in 0..200 {
            let line = draw(&mut rng, &calls).line;
            let words: Vec<&str> = line.split(' ').collect();
            assert!(words[0] == "storm" || words[1] == "6", "{line}");
            assert!(
                words[0] == "storm" || matches!(words[2], "1" | "2"),
                "{line}"
            );
        }
    }
}
