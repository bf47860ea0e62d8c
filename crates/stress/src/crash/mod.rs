//! Power loss at every change of the file system, for canonical workloads.
//!
//! Before each write, sync, creation, rename and deletion several images are taken of what a power
//! loss may leave. Each is opened and must show a prefix of the commits with everything that was
//! promised (D1, D3 to D5); an image of the opened database must show the same (D8, O1), and so must
//! images taken while it was being recovered.

pub mod workloads;

use crate::model::check::read_all;
use crate::model::crashing::{Camera, Choice, Image};
use crate::model::history::{Contents, History};
use crate::model::player::{Failure, Player};
use crate::model::program::{Op, Program};
use crate::model::world::{FaultPlan, World};
use crate::watchdog::watched;
use spanlith_env::MemFs;
use spanlith_testkit::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use workloads::{WORKLOADS, workload};

/// Describes what to run.
#[derive(Clone)]
pub struct CrashPlan {
    /// Seed of the run.
    pub seed: u64,
    /// States in all; the workload that reaches them is finished.
    pub states: u64,
    /// Images per change: the strict one, the complete one, and random ones.
    pub images: usize,
    /// One in so many images is crashed again while it is being recovered.
    pub double_one_in: u64,
    /// Faults under every open.
    pub faults: Option<FaultPlan>,
    /// Only this workload.
    pub only: Option<String>,
    /// Options that RocksDB does not have, of every workload; empty for the defaults.
    pub own: &'static str,
}

impl CrashPlan {
    /// `states` states from `seed`.
    pub fn new(seed: u64, states: u64) -> Self {
        Self {
            seed,
            states,
            images: 6,
            double_one_in: 10,
            faults: None,
            only: None,
            own: "",
        }
    }
}

/// A state that broke a promise.
#[derive(Clone, Debug)]
pub struct CrashFailure {
    /// Workload.
    pub workload: &'static str,
    /// Its seed.
    pub seed: u64,
    /// Which state, and what is wrong with it.
    pub text: String,
    /// A program that shows the same, if the crash did not hit an open.
    pub program: Option<Program>,
}

/// Describes what was seen.
#[derive(Clone, Debug, Default)]
pub struct CrashReport {
    /// Runs of workloads.
    pub workloads: u64,
    /// Changes before which images were taken.
    pub points: u64,
    /// Images taken before an obsolete log gets the name of a new one, to be written again.
    pub reused_logs: u64,
    /// Images opened.
    pub states: u64,
    /// Images of a recovery, opened.
    pub double_states: u64,
    /// Images not opened, because an equal one of the same change was.
    pub equal: u64,
    /// States without something that had been promised.
    pub lost: u64,
    /// States that the database was never in.
    pub holes: u64,
    /// States that could not be opened or read.
    pub unopenable: u64,
    /// States that showed something else when opened again.
    pub unstable: u64,
    /// Workloads that failed without a crash.
    pub broken: u64,
    /// The first few.
    pub failures: Vec<CrashFailure>,
}

impl CrashReport {
    /// Returns whether no promise was broken.
    pub fn is_clean(&self) -> bool {
        self.lost + self.holes + self.unopenable + self.unstable + self.broken == 0
    }
}

enum Broken {
    Unopenable(String),
    Lost(String),
    Hole(String),
    Unstable(String),
}

fn open_and_read(
    program: &Program,
    fs: &MemFs,
    faults: Option<&FaultPlan>,
    history: &History,
) -> Result<(Contents, u64), String> {
    let mut world = World::on(&program.setup, fs.clone(), faults.cloned());
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let db = world
            .open(&program.tuning)
            .map_err(|e| format!("open: {e}"))?;
        let contents = read_all(&db, history)?;
        Ok((contents, db.latest_sequence_number()))
    }));
    opened.unwrap_or_else(|_| Err("panic".to_string()))
}

/// Opens one image and checks every promise. Returns the number of further states opened.
fn check_image(
    plan: &CrashPlan,
    program: &Program,
    history: &History,
    image: &Image,
    rng: &mut Rng,
) -> Result<u64, Broken> {
    let faults = plan.faults.as_ref();
    let fs = &image.fs;
    let camera = Camera::new(fs);
    let double = plan.double_one_in > 0 && rng.one_in(plan.double_one_in);
    if double {
        camera.arm_always(vec![
            Choice::Strict,
            Choice::All,
            Choice::of(rng.next_u64() | 2),
        ]);
    }
    let mut world = World::on(&program.setup, fs.clone(), faults.cloned());
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let db = world
            .open(&program.tuning)
            .map_err(|e| format!("open: {e}"))?;
        // This is what a power loss leaves of the opened database.
        let (after, _) = Choice::of(rng.next_u64() % 4).image(fs);
        let during = camera.images();
        let contents = read_all(&db, history)?;
        Ok((contents, db.latest_sequence_number(), after, during))
    }));
    let opened = opened.unwrap_or_else(|_| Err("panic".to_string()));
    let (found, seqno, after, during) = opened.map_err(Broken::Unopenable)?;
    drop(camera);
    if let Err(text) = history.explain(&found, image.bounds) {
        return Err(if text.contains("LOST") {
            Broken::Lost(text)
        } else {
            Broken::Hole(text)
        });
    }
    let same = |what: String, fs: &MemFs, with_seqno: bool| {
        let again = open_and_read(program, fs, faults, history)
            .map_err(|e| Broken::Unopenable(format!("{what}: {e}")))?;
        if again.0 != found {
            let text = crate::model::history::difference(&found, &again.0);
            return Err(Broken::Unstable(format!(
                "{what} shows something else:{text}"
            )));
        }
        if with_seqno && again.1 != seqno {
            return Err(Broken::Unstable(format!(
                "{what} is at sequence number {}, was {seqno}",
                again.1
            )));
        }
        Ok(())
    };
    same("a second crash after the open".to_string(), &after, true)?;
    let more = during.len() as u64;
    for image in during {
        let what = format!(
            "a second crash in the recovery, before {}, {:?} {:?}",
            image.before, image.choice, image.answers
        );
        same(what, &image.fs, false)?;
    }
    Ok(more + 1)
}

/// A program in which the image's power loss happens by itself.
fn as_program(program: &Program, at: usize, image: &Image) -> Option<Program> {
    let op = program.ops.get(at)?;
    if matches!(op, Op::Reopen(_)) {
        return None;
    }
    let mut ops = program.ops[..at].to_vec();
    ops.push(Op::PowerLoss {
        after: image.change,
        choice: image.choice.number(),
        tuning: program.tuning,
    });
    ops.push(op.clone());
    Some(Program {
        ops,
        ..program.clone()
    })
}

/// Runs one workload; every change is a crash point.
pub fn run_workload(plan: &CrashPlan, name: &'static str, seed: u64, report: &mut CrashReport) {
    let mut program = workload(name, seed);
    program.setup = program.setup.with_own(plan.own);
    let mut rng = Rng::new(seed ^ 0x0063_7261_7368);
    let mut player = Player::new(&program, plan.faults.clone());
    player.keep_history = true;
    report.workloads += 1;
    let fail = |report: &mut CrashReport, text: String, program: Option<Program>| {
        if report.failures.len() < 10 {
            report.failures.push(CrashFailure {
                workload: name,
                seed,
                text,
                program,
            });
        }
    };
    // The open is the step before the first operation.
    for at in 0..=program.ops.len() {
        if let Some(camera) = player.camera() {
            let mut choices = vec![Choice::Strict, Choice::All];
            choices.extend((2..plan.images).map(|_| Choice::of(rng.next_u64() | 2)));
            camera.arm_always(choices);
        }
        let stepping = watched(move || format!("{name} --seed {seed}: step {at}"));
        let step = catch_unwind(AssertUnwindSafe(|| match at {
            0 => player.start(),
            _ => player.step(&program.ops[at - 1]),
        }));
        let step = step.unwrap_or_else(|_| Err("panic".to_string()));
        drop(stepping);
        let images = player.camera().map(Camera::images).unwrap_or_default();
        for image in images {
            report.states += 1;
            report.reused_logs += u64::from(is_reuse_of_log(&image.before));
            let where_ = format!(
                "step {at}, before {}, {:?} {:?}",
                image.before, image.choice, image.answers
            );
            let what = format!("{name} --seed {seed}: {where_}");
            let _watched = watched(move || what.clone());
            let (count, text): (&mut u64, String) =
                match check_image(plan, &program, &player.history, &image, &mut rng) {
                    Ok(more) => {
                        report.double_states += more;
                        continue;
                    }
                    Err(Broken::Unopenable(t)) => (&mut report.unopenable, t),
                    Err(Broken::Lost(t)) => (&mut report.lost, t),
                    Err(Broken::Hole(t)) => (&mut report.holes, t),
                    Err(Broken::Unstable(t)) => (&mut report.unstable, t),
                };
            *count += 1;
            let short = at
                .checked_sub(1)
                .and_then(|at| as_program(&program, at, &image));
            fail(report, format!("{where_}: {text}"), short);
        }
        if let Err(text) = step {
            report.broken += 1;
            fail(report, format!("step {at}: {text}"), None);
            break;
        }
    }
    if let Some(camera) = player.camera() {
        let (points, equal) = camera.counts();
        report.points += points;
        report.equal += equal;
    }
}

/// Returns whether a change, as the file system tells it, gives a log the name of another.
fn is_reuse_of_log(change: &str) -> bool {
    change.starts_with("Rename") && change.matches(".log").count() == 2
}

/// Runs workloads in turn until enough states were opened.
pub fn run_crash(plan: &CrashPlan, mut progress: impl FnMut(&CrashReport)) -> CrashReport {
    let mut report = CrashReport::default();
    let mut round = 0;
    while report.states < plan.states && report.failures.len() < 10 {
        for name in WORKLOADS {
            if plan.only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            run_workload(plan, name, plan.seed.wrapping_add(round), &mut report);
            progress(&report);
            if report.states >= plan.states {
                break;
            }
        }
        round += 1;
    }
    report
}

/// Returns what a failing model program says, for the message.
pub fn describe(failure: &Failure) -> String {
    format!("operation {}: {}", failure.op, failure.text)
}
