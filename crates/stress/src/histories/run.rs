//! Runs rounds: opens databases, lets clients loose, and judges what they recorded.

use super::client::{Mix, Round};
use super::history::{Action, Event, History};
use super::search::{Verdict, check};
use crate::model::setup::{MergeKind, Setup, Tuning};
use crate::model::world::{MEM_DIR, open_with};
use crate::watchdog::watched;
use spanlith::Db;
use spanlith_env::{Env, MemFs};
use spanlith_testkit::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::Barrier;

/// Rounds on one database.
const ROUNDS_PER_DATABASE: u64 = 40;
/// Choices of a search before it is given up.
const STEPS_MAX: u64 = 2_000_000;

/// Describes what to run.
#[derive(Clone, Debug)]
pub struct HistoriesPlan {
    /// Seed of operations and options.
    pub seed: u64,
    /// Histories to record and to judge.
    pub rounds: u64,
}

/// Describes what was done.
#[derive(Debug, Default)]
pub struct HistoriesReport {
    /// Histories judged.
    pub rounds: u64,
    /// Databases opened.
    pub databases: u64,
    /// Operations by what they were called through.
    pub operations: BTreeMap<&'static str, u64>,
    /// Pairs of a write and another operation that overlapped, neighbours in time only: how much
    /// there was to decide.
    pub overlaps: u64,
    /// Histories whose search was given up.
    pub undecided: u64,
    /// Highest file numbers of live tables, summed over the databases: about how many files flushes,
    /// compactions and new logs made.
    pub files: u64,
}

fn setup(seed: u64, rng: &mut Rng) -> Setup {
    Setup {
        reverse: false,
        merge: MergeKind::Add,
        levels: 7,
        families: 1 + rng.below(2),
        logs_apart: false,
        real: false,
        world_seed: seed,
        own: "",
    }
}

fn tuning(rng: &mut Rng) -> Tuning {
    let mut tuning = Tuning::draw(rng);
    // Compression only takes time away from the threads; stalls only make them wait in turn.
    (tuning.codec, tuning.bottom, tuning.dict, tuning.zlog) = (0, 255, 0, 0);
    (tuning.stop, tuning.buffers) = (36, tuning.buffers.max(3));
    tuning
}

/// Records one history.
fn record(db: &Db, setup: &Setup, round: u64, rng: &mut Rng) -> Result<History, String> {
    let mut cfs = vec![db.default_cf()];
    for family in 1..setup.families {
        cfs.extend(db.cf(&Setup::family_name(family)));
    }
    let keys = 4 + rng.index(13);
    let round = Round::new(db, cfs, round, keys);
    let threads = 4 + rng.below(5);
    let operations = 50 + rng.below(151);
    let filler_max = *rng.pick(&[0, 200, 4000]);
    let start = Barrier::new(threads as usize);
    let mut history = History {
        keys,
        events: Vec::new(),
    };
    let results: Vec<Result<Vec<Event>, String>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads as usize)
            .map(|thread| {
                let client = round.client(thread, rng.fork(), filler_max, Mix::ALL);
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    client.run(operations / threads)
                })
            })
            .collect();
        let join = |h: std::thread::ScopedJoinHandle<'_, _>| {
            h.join()
                .unwrap_or_else(|_| Err("a thread panicked".to_string()))
        };
        handles.into_iter().map(join).collect()
    });
    for events in results {
        history.events.extend(events?);
    }
    Ok(history)
}

fn count(history: &History, report: &mut HistoriesReport) {
    let mut events: Vec<&Event> = history.events.iter().collect();
    events.sort_by_key(|e| e.invoked);
    for pair in events.windows(2) {
        let writes = pair.iter().any(|e| matches!(e.action, Action::Write(_)));
        report.overlaps += u64::from(writes && pair[1].invoked < pair[0].returned);
    }
    for event in events {
        *report.operations.entry(event.verb).or_default() += 1;
    }
}

/// Records and judges histories until one is broken.
///
/// # Errors
/// What no order explains, or what an operation answered, with the options of the database.
pub fn run_histories(
    plan: &HistoriesPlan,
    mut progress: impl FnMut(&HistoriesReport),
) -> Result<HistoriesReport, String> {
    let mut report = HistoriesReport::default();
    let mut rng = Rng::new(plan.seed);
    while report.rounds < plan.rounds {
        let setup = setup(plan.seed ^ report.databases, &mut rng);
        let tuning = tuning(&mut rng);
        let context = |what: &str, e: String| {
            format!("{what} [{setup} | {tuning}] of seed {}: {e}", plan.seed)
        };
        let mut env = Env::system();
        env.fs = Arc::new(MemFs::new());
        let db = open_with(&setup, &tuning, env, Path::new(MEM_DIR), false)
            .map_err(|e| context("open", e.to_string()))?;
        report.databases += 1;
        for _ in 0..ROUNDS_PER_DATABASE.min(plan.rounds - report.rounds) {
            let name = format!("history {}", report.rounds);
            let what = context(&name, String::new());
            let _watched = watched(move || what.clone());
            let history =
                record(&db, &setup, report.rounds, &mut rng).map_err(|e| context(&name, e))?;
            count(&history, &mut report);
            match check(&history, STEPS_MAX) {
                Verdict::Linearizable => {}
                Verdict::Undecided => report.undecided += 1,
                Verdict::Broken(text) => return Err(context(&name, text)),
            }
            report.rounds += 1;
            progress(&report);
        }
        let last = db.live_files().iter().map(|f| f.number).max();
        report.files += last.unwrap_or(0);
        db.close().map_err(|e| context("close", e.to_string()))?;
    }
    Ok(report)
}
