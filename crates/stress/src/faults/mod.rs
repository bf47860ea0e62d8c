//! One failing call, at every place: the error says so, readers are served, nothing acknowledged is
//! lost, nothing hangs, and when the cause has ended writes go on, in place and after reopening
//! (reliability, sections 2.6, 3 and 7.3).

mod plan;

pub use plan::{Fault, Faults, draw};

use crate::crash::workloads::{WORKLOADS, workload};
use crate::model::check::read_all;
use crate::model::crashing::Choice;
use crate::model::history::{Bounds, History};
use crate::model::player::Player;
use crate::model::program::Program;
use crate::model::world::World;
use crate::pool::{Sum, run_numbered};
use crate::watchdog::watched;
use spanlith::Db;
use spanlith_env::MemFs;
use spanlith_testkit::Rng;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Describes what to run.
#[derive(Clone)]
pub struct FaultsPlan {
    /// Seed of the run.
    pub seed: u64,
    /// Runs in all.
    pub runs: u64,
    /// Runs at a time.
    pub jobs: usize,
    /// Only this run.
    pub only: Option<u64>,
    /// Nothing new is begun after so many broken promises.
    pub stop: u64,
}

/// A run takes no longer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Describes what was seen.
#[derive(Clone, Debug, Default)]
pub struct FaultsReport {
    /// Runs.
    pub runs: u64,
    /// Runs in which the fault took effect, by class and effect.
    pub fired: BTreeMap<String, u64>,
    /// Runs in which an operation failed.
    pub surfaced: u64,
    /// Runs in which writes went on in place after the cause had ended.
    pub resumed: u64,
    /// Runs in which reopening was needed although the cause had ended, by message.
    pub reopened: BTreeMap<String, u64>,
    /// Broken promises.
    pub broken: u64,
    /// The first few.
    pub failures: Vec<String>,
}

impl Sum for FaultsReport {
    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.surfaced += other.surfaced;
        self.resumed += other.resumed;
        self.broken += other.broken;
        for (key, n) in other.fired {
            *self.fired.entry(key).or_default() += n;
        }
        for (key, n) in other.reopened {
            *self.reopened.entry(key).or_default() += n;
        }
        self.failures.extend(other.failures);
        self.failures.truncate(20);
    }
}

/// Opens a copy and explains it by the history.
fn explain(
    program: &Program,
    fs: MemFs,
    history: &History,
    bounds: Bounds,
    what: &str,
) -> Result<(), String> {
    let mut world = World::on(&program.setup, fs, None);
    let db = world
        .open(&program.tuning)
        .map_err(|e| format!("{what}: open: {e}"))?;
    let found = read_all(&db, history).map_err(|e| format!("{what}: {e}"))?;
    history
        .explain(&found, bounds)
        .map(|_| ())
        .map_err(|e| format!("{what}: {e}"))
}

/// Every commit but the last is there, and the last whole or not at all. Returns whether it is.
fn live(db: &Db, history: &History) -> Result<bool, String> {
    let found = read_all(db, history).map_err(|e| format!("readers are not served: {e}"))?;
    if found == history.contents(history.seqno()) {
        return Ok(true);
    }
    let before = history.contents(history.seqno_before_last());
    if found == before {
        return Ok(false);
    }
    let text = crate::model::history::difference(&before, &found);
    Err(format!("live contents after the failure:{text}"))
}

/// Writes go on.
fn goes_on(db: &Db) -> Result<(), String> {
    let cf = db.default_cf();
    let done = cf
        .put("and it", "goes on")
        .and_then(|()| db.flush(true))
        .and_then(|()| cf.delete("and it"))
        .and_then(|()| db.flush(true));
    done.map_err(|e| e.to_string())
}

/// The message without what differs from run to run.
fn shape(text: &str) -> String {
    let digits = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let mut out: String = text.chars().map(digits).take(120).collect();
    while out.contains("00") {
        out = out.replace("00", "0");
    }
    out
}

fn after_failure(
    player: &mut Player,
    program: &Program,
    faults: &Faults,
    report: &mut FaultsReport,
) -> Result<(), String> {
    let history = &player.history;
    let mut bounds = history.bounds();
    let fs = player.world.mem().ok_or("no memory")?.clone();
    // The operating system lives: everything acknowledged and logged is there.
    let killed = Bounds {
        durable: bounds.issued.saturating_sub(1).max(bounds.durable),
        ..bounds
    };
    if history.is_all_logged() {
        let copy = fs.process_crash_clone();
        explain(program, copy, history, killed, "killed at the failure")?;
    }
    let (lost, _) = Choice::Strict.image(&fs);
    explain(program, lost, history, bounds, "power lost at the failure")?;
    faults.clear();
    if let Some(db) = player.database() {
        let has_last = live(db, history)?;
        let resumed = db.resume();
        player.world.work(1000);
        match resumed
            .map_err(|e| e.to_string())
            .and_then(|()| goes_on(db))
        {
            Ok(()) => {
                report.resumed += 1;
                // Acknowledged writes are in tables now; those that had failed are as they were.
                if live(db, history)? != has_last {
                    return Err("resuming changed what is seen".to_string());
                }
                let (lost, _) = Choice::Strict.image(&fs);
                let all = bounds.issued - usize::from(!has_last);
                bounds.durable = bounds.durable.max(all);
                let mut done = player.history.clone();
                if !has_last {
                    done.retract();
                    bounds.issued -= 1;
                }
                if done.is_all_logged() {
                    explain(program, lost, &done, bounds, "power lost after resuming")?;
                }
            }
            Err(text) => *report.reopened.entry(shape(&text)).or_default() += 1,
        }
    }
    // Closing after an error still closes.
    let _ = player.close();
    let mut world = World::on(&program.setup, fs, None);
    let db = world
        .open(&program.tuning)
        .map_err(|e| format!("reopened in place: {e}"))?;
    let found = read_all(&db, &player.history).map_err(|e| format!("reopened: {e}"))?;
    let history = &player.history;
    let whole = Bounds {
        durable: bounds.issued.saturating_sub(1).max(bounds.durable),
        ..bounds
    };
    if history.is_all_logged() {
        history
            .explain(&found, whole)
            .map_err(|e| format!("reopened in place: {e}"))?;
    }
    goes_on(&db).map_err(|e| format!("reopened in place, writing: {e}"))?;
    db.close()
        .map_err(|e| format!("reopened in place, closing: {e}"))
}

/// One run: a workload under one fault.
fn run_one(plan: &FaultsPlan, number: u64) -> FaultsReport {
    let mut report = FaultsReport {
        runs: 1,
        ..FaultsReport::default()
    };
    let mut rng = Rng::new(plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let name = WORKLOADS[(number % WORKLOADS.len() as u64) as usize];
    // Workloads are few, so that their calls are counted once for many faults.
    let program = workload(name, plan.seed + number / 500);
    let begin = Instant::now();
    let seed = plan.seed;
    let _watched = watched(move || format!("--seed {seed} --run {number} ({name})"));
    let mut fault = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let counted = Faults::none();
        let (done, _) = play(&program, &counted);
        done.map_err(|e| format!("without a fault: {e}"))?;
        let unchecked = program.has_unchecked(0..program.setup.families);
        let drawn = loop {
            let drawn = draw(&mut rng, &counted);
            // A changed bit of a table without checksums is one that nothing promises to notice.
            if !(unchecked && drawn.flips()) {
                break drawn;
            }
        };
        fault = Some(drawn.clone());
        let faults = Faults::of(drawn.clone());
        let (done, mut player) = play(&program, &faults);
        if faults.fired() == 0 {
            // Another order of jobs: the call was not made.
            return done;
        }
        *report.fired.entry(drawn.name()).or_default() += 1;
        match done {
            Ok(()) => {}
            Err(text) if drawn.explains(&text) => report.surfaced += 1,
            Err(text) => return Err(text),
        }
        after_failure(&mut player, &program, &faults, &mut report)
    }));
    let ended = ended.unwrap_or_else(|_| Err("panic".to_string()));
    let ended = ended.and_then(|()| {
        if begin.elapsed() > PATIENCE {
            return Err(format!("took {:?}", begin.elapsed()));
        }
        Ok(())
    });
    if let Err(text) = ended {
        report.broken += 1;
        report.failures.push(format!(
            "--seed {} --run {number} ({name}, {fault:?}): {text}",
            plan.seed
        ));
    }
    report
}

/// Plays a program until it ends or fails.
fn play(program: &Program, faults: &Faults) -> (Result<(), String>, Player) {
    let mut player = Player::new(program, Some(faults.plan()));
    player.keep_history = true;
    let mut done = player.start();
    for op in &program.ops {
        if done.is_err() {
            break;
        }
        done = player.step(op);
    }
    (done, player)
}

/// Runs all; `progress` is told after each.
pub fn run_faults(plan: &FaultsPlan, progress: impl Fn(&FaultsReport) + Sync) -> FaultsReport {
    if let Some(only) = plan.only {
        return run_one(plan, only);
    }
    let enough = |number, sum: &FaultsReport| number >= plan.runs || sum.broken >= plan.stop;
    run_numbered(plan.jobs, enough, |n| run_one(plan, n), progress)
}
