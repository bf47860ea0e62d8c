//! Damage at rest: whatever happens to a file, the database is as it was, or an error says which file,
//! or, where the format proves nothing, it is as it was earlier. Never anything else, never a panic,
//! never long (reliability, sections 2.5 and 7.5).

pub mod cases;
pub mod image;

use crate::model::check::{CONTRADICTION, read_all};
use crate::model::history::{Contents, difference};
use crate::model::world::World;
use crate::pool::{Sum, run_numbered};
use crate::watchdog::watched;
use cases::{Damage, apply, count, nth};
use image::{File, Image, Wanted, draw, kind, path};
use spanlith::{Error, ErrorKind};
use spanlith_env::FileSystem;
use spanlith_testkit::Rng;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Describes what to run.
#[derive(Clone)]
pub struct DamagePlan {
    /// Seed of the run; images are numbered from it.
    pub seed: u64,
    /// Cases in all; images begun are finished.
    pub cases: u64,
    /// Cases per image; an image with fewer is swept whole.
    pub per_image: usize,
    /// Images at a time.
    pub jobs: usize,
    /// Says what images to draw.
    pub wanted: Wanted,
    /// Only this image.
    pub only: Option<u64>,
    /// Nothing new is begun after so many broken promises.
    pub stop: u64,
}

/// Opening and reading a damaged image takes no longer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Everything is as it was.
    Same,
    /// The open was refused.
    Refused,
    /// The open succeeded, a read failed.
    ReadFailed,
    /// The end of what was written is missing, without an error.
    Shorter,
    /// Something else is there, without an error.
    Wrong,
    /// It panicked.
    Panic,
    /// An error of an unfitting kind, or one that names no file.
    Vague,
    /// It took longer than [`PATIENCE`].
    Slow,
}

impl Outcome {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Refused => "refused",
            Self::ReadFailed => "read failed",
            Self::Shorter => "shorter",
            Self::Wrong => "wrong",
            Self::Panic => "panic",
            Self::Vague => "vague",
            Self::Slow => "slow",
        }
    }
}

/// Describes what was seen.
#[derive(Clone, Debug, Default)]
pub struct DamageReport {
    /// Images.
    pub images: u64,
    /// Damaged copies opened.
    pub cases: u64,
    /// How they ended, by kind of file, class of damage and outcome.
    pub outcomes: BTreeMap<(String, &'static str, Outcome), u64>,
    /// Broken promises, the first few.
    pub failures: Vec<String>,
    /// Broken promises.
    pub broken: u64,
    /// Ends missing without an error, some examples of each kind and class.
    pub shorter: BTreeMap<(String, &'static str), String>,
}

impl Sum for DamageReport {
    fn merge(&mut self, other: Self) {
        self.images += other.images;
        self.cases += other.cases;
        self.broken += other.broken;
        for (key, n) in other.outcomes {
            *self.outcomes.entry(key).or_default() += n;
        }
        self.shorter.extend(other.shorter);
        self.failures.extend(other.failures);
        self.failures.truncate(20);
    }
}

impl DamageReport {
    /// Cases of a kind of file that ended so.
    pub fn of(&self, file: &str, outcome: Outcome) -> u64 {
        let these = self.outcomes.iter();
        these
            .filter(|((f, _, o), _)| f == file && *o == outcome)
            .map(|(_, n)| n)
            .sum()
    }
}

/// Kinds of files whose damage may go unnoticed and take the end of what was written with it: see the
/// table in `docs/testing.md`.
pub const MAY_SHORTEN: [&str; 3] = [".log", "MANIFEST", "CURRENT"];

/// The MANIFEST of another database names components, families and levels that the caller did not give:
/// RocksDB's texts name these, not the file.
fn text_of_objects(e: &Error, damage: &Damage) -> bool {
    let text = e.to_string();
    text.contains("does not match existing comparator")
        || matches!(damage, Damage::Foreign)
            && (text.contains("Column families not opened: ")
                || text.contains("db has more levels than options.num_levels"))
}

fn vague(e: &Error, damage: &Damage) -> bool {
    if text_of_objects(e, damage) {
        return false;
    }
    let fair = matches!(
        e.kind(),
        ErrorKind::Corruption
            | ErrorKind::NotSupported
            | ErrorKind::InvalidArgument
            | ErrorKind::Io
    );
    let text = e.to_string();
    let names = [".sst", ".log", "MANIFEST", "CURRENT", "IDENTITY", ".blob"];
    // RocksDB's texts name a log by its number.
    let named = text.contains("log number") || names.iter().any(|n| text.contains(n));
    !fair || !named && e.path().is_none()
}

/// Opens a damaged copy and reads everything.
fn outcome(image: &Image, file: &File, damage: &Damage) -> (Outcome, String) {
    let fs = image.fs.process_crash_clone();
    let at = path(&file.name);
    let written = match apply(&file.bytes, damage, &file.others) {
        Some(bytes) => fs.write_file(&at, &bytes),
        None => fs.delete(&at),
    };
    if let Err(e) = written {
        return (Outcome::Vague, format!("the damage itself failed: {e}"));
    }
    let begin = Instant::now();
    let mut world = World::on(&image.program.setup, fs, None);
    let opened = catch_unwind(AssertUnwindSafe(|| {
        match world.open(&image.program.tuning) {
            Err(e) if vague(&e, damage) => (Outcome::Vague, e.to_string()),
            Err(e) => (Outcome::Refused, e.to_string()),
            Ok(db) => match read_all(&db, &image.history) {
                Ok(found) => judge(image, &found),
                // A difference between a scan and a get is no error of a file.
                Err(text) if text.contains(CONTRADICTION) => (Outcome::Wrong, text),
                Err(text) => (Outcome::ReadFailed, text),
            },
        }
    }));
    let (outcome, text) = opened.unwrap_or((Outcome::Panic, "panic".to_string()));
    if begin.elapsed() > PATIENCE {
        return (Outcome::Slow, format!("{:?}: {text}", begin.elapsed()));
    }
    (outcome, text)
}

fn judge(image: &Image, found: &Contents) -> (Outcome, String) {
    if *found == image.contents {
        return (Outcome::Same, String::new());
    }
    let text = difference(&image.contents, found);
    if image.is_prefix(found) {
        (Outcome::Shorter, text)
    } else {
        (Outcome::Wrong, text)
    }
}

/// Damages one image in many ways.
fn run_image(plan: &DamagePlan, number: u64) -> DamageReport {
    let mut report = DamageReport {
        images: 1,
        ..DamageReport::default()
    };
    let mut rng = Rng::new(plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let drawn =
        draw(&mut rng, None, plan.wanted).and_then(|f| draw(&mut rng, Some(&f), plan.wanted));
    let image = match drawn {
        Ok(i) => i,
        Err(text) => {
            report.broken += 1;
            report.failures.push(format!("image {number}: {text}"));
            return report;
        }
    };
    let counts = image.files.iter().map(|f| count(f.bytes.len(), &f.others));
    let counts: Vec<usize> = counts.collect();
    let total: usize = counts.iter().sum();
    let picks: Vec<(usize, usize)> = if total <= plan.per_image {
        let all = counts.iter().enumerate();
        all.flat_map(|(f, n)| (0..*n).map(move |c| (f, c)))
            .collect()
    } else {
        // Every file as often as any other, so that small ones are not lost among tables.
        let draw = |_| {
            let f = rng.index(counts.len());
            (f, rng.index(counts[f]))
        };
        (0..plan.per_image).map(draw).collect()
    };
    for (f, case) in picks {
        let file = &image.files[f];
        let damage = nth(file.bytes.len(), &file.others, case);
        let what = format!(
            "--seed {} --image {number} ({damage:?} of {})",
            plan.seed, file.name
        );
        let _watched = watched(move || what.clone());
        let (outcome, text) = outcome(&image, file, &damage);
        report.cases += 1;
        let what = kind(&file.name).to_string();
        let may = MAY_SHORTEN.contains(&what.as_str());
        let broken = match outcome {
            Outcome::Same | Outcome::Refused | Outcome::ReadFailed => false,
            // A closed database says in its log and its MANIFEST where both end.
            Outcome::Shorter => image.closed || !may,
            Outcome::Wrong | Outcome::Panic | Outcome::Vague | Outcome::Slow => true,
        };
        let line = || {
            format!(
                "--seed {} --image {number}: {} {damage:?} ({}): {}: {text}",
                plan.seed,
                file.name,
                if image.closed { "closed" } else { "killed" },
                outcome.name()
            )
        };
        if outcome == Outcome::Shorter {
            let key = (what.clone(), damage.class());
            report.shorter.entry(key).or_insert_with(line);
        }
        if broken {
            report.broken += 1;
            if report.failures.len() < 5 {
                report.failures.push(line());
            }
        }
        *report
            .outcomes
            .entry((what, damage.class(), outcome))
            .or_default() += 1;
    }
    report
}

/// Runs images until enough cases were tried; `progress` is told after each image.
pub fn run_damage(plan: &DamagePlan, progress: impl Fn(&DamageReport) + Sync) -> DamageReport {
    if let Some(only) = plan.only {
        return run_image(plan, only);
    }
    let enough = |_, sum: &DamageReport| sum.cases >= plan.cases || sum.broken >= plan.stop;
    run_numbered(plan.jobs, enough, |n| run_image(plan, n), progress)
}
