//! Step 3: gets, puts, new entries and short scans at once, with a line each second.
//!
//! Two threads. Each writes only the entries it owns, so that the model knows the last value of
//! every key; both read everything and check that what they read was once written.

use super::model::{Model, is_genuine, key, put_value};
use super::show::Show;
use super::{builder, shape};
use crate::bench::wait_idle;
use crate::fail::At;
use crate::term::{count, nanos};
use serde_json::json;
use spanlith::{Cf, ReadOptions, Result};
use spanlith_workload::generate::Rng;
use spanlith_workload::measure::{Board, Meter};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 2;
/// Out of 100 operations: gets, puts of existing entries, short scans; the rest are new entries.
const GETS: u64 = 50;
const PUTS: u64 = 40;
const SCANS: u64 = 5;
/// Entries of a short scan.
const SCAN_LEN: usize = 20;

/// Counts and latencies of one kind of operation each.
struct Boards {
    gets: Board,
    writes: Board,
    scans: Board,
}

impl Boards {
    fn each(&self) -> [(&'static str, &Board); 3] {
        [
            ("gets", &self.gets),
            ("writes", &self.writes),
            ("scans", &self.scans),
        ]
    }
}

/// Works for `seconds`; the model then knows what is there.
pub fn run(data: &Path, seconds: u64, model: &mut Model, show: &mut Show) -> anyhow::Result<()> {
    let db = builder(data).open().at(data)?;
    let board = || Board::new(THREADS, u64::MAX);
    let boards = Boards {
        gets: board(),
        writes: board(),
        scans: board(),
    };
    let dealt = model.deal(THREADS);
    let existing = model.len();
    let strange = AtomicU64::new(0);
    let cf = db.default_cf();
    let start = Instant::now();
    let results: Vec<Result<Vec<u32>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = dealt
            .into_iter()
            .enumerate()
            .map(|(t, mine)| {
                let (cf, boards, strange) = (&cf, &boards, &strange);
                scope.spawn(move || {
                    let result = work(cf, t, existing, mine, boards, strange);
                    if result.is_err() {
                        stop(boards);
                    }
                    result
                })
            })
            .collect();
        watch(&cf, &boards, seconds, start, show);
        stop(&boards);
        let join = |w: std::thread::ScopedJoinHandle<'_, _>| {
            w.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    let took = start.elapsed().as_secs_f64();
    let mut dealt = results.into_iter().collect::<Result<Vec<_>>>().at(data)?;
    fill_gaps(&cf, &mut dealt).at(data)?;
    model.collect(&dealt);
    let added = count(model.len() - existing);
    let mut summary = serde_json::Map::new();
    for (name, board) in boards.each() {
        let t = board.total();
        show.say(&format!(
            "{name:7}{:>8}/s  p50 {:>8}  p99 {:>8}  p99.9 {:>8}  max {:>9}",
            count((t.ops as f64 / took) as u64),
            nanos(t.latency.percentile(50.0)),
            nanos(t.latency.percentile(99.0)),
            nanos(t.latency.percentile(99.9)),
            nanos(t.latency.max())
        ));
        summary.insert(
            name.to_string(),
            json!({
                "ops": t.ops, "ops_per_sec": t.ops as f64 / took,
                "p50_ns": t.latency.percentile(50.0), "p99_ns": t.latency.percentile(99.0),
                "p99_9_ns": t.latency.percentile(99.9), "max_ns": t.latency.max(),
            }),
        );
    }
    wait_idle(&db);
    show.dim(&format!(
        "files per level: {}; {added} entries added",
        shape(&db)
    ));
    db.close().at(data)?;
    let strange = strange.into_inner();
    show.verdict(strange == 0, "every value read was one that was written");
    summary.insert("strange_values".to_string(), json!(strange));
    summary.insert("seconds".to_string(), json!(took));
    show.record("mixed", serde_json::Value::Object(summary));
    Ok(())
}

fn stop(boards: &Boards) {
    boards.each().iter().for_each(|(_, b)| b.stop());
}

/// A line each second.
fn watch(cf: &Cf, boards: &Boards, seconds: u64, start: Instant, show: &Show) {
    let title = format!(
        "{:>3} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9}  {}",
        "sec",
        "gets/s",
        "writes/s",
        "scans/s",
        "get p50",
        "get p99",
        "write p99",
        "files per level"
    );
    show.say(&show.paint().bold(title));
    for second in 1..=seconds {
        let next = start + Duration::from_secs(second);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let (gets, writes, scans) = (
            boards.gets.recent(),
            boards.writes.recent(),
            boards.scans.recent(),
        );
        show.say(&format!(
            "{second:>3} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9}  {}",
            count(gets.ops),
            count(writes.ops),
            count(scans.ops),
            nanos(gets.latency.percentile(50.0)),
            nanos(gets.latency.percentile(99.0)),
            nanos(writes.latency.percentile(99.0)),
            shape(cf.db()).replace(" · ", ", ")
        ));
    }
}

/// One thread: owns the numbers `n` with `n % THREADS == t`; returns their revisions.
fn work(
    cf: &Cf,
    t: usize,
    existing: u64,
    mut mine: Vec<u32>,
    boards: &Boards,
    strange: &AtomicU64,
) -> Result<Vec<u32>> {
    let mut rng = Rng::new(0x5eed + t as u64);
    let (mut value, mut scratch) = (Vec::new(), Vec::new());
    let (mut gets, mut writes, mut scans) = (
        boards.gets.meter(t),
        boards.writes.meter(t),
        boards.scans.meter(t),
    );
    let number = |slot: usize| (slot * THREADS + t) as u64;
    while gets.go_on(1) {
        let dice = rng.below(100);
        if dice < GETS {
            let n = rng.below(existing);
            let key = key(n);
            gets.restart();
            let found = cf.get(&key)?;
            gets.looked_up(1, u64::from(found.is_some()), 0);
            if !found.is_some_and(|v| is_genuine(n, &v, &mut scratch)) {
                strange.fetch_add(1, Ordering::Relaxed);
            }
        } else if dice < GETS + SCANS {
            let from = key(rng.below(existing));
            scans.restart();
            let seen = scan(cf, &from, &mut scans)?;
            // Inside the loaded part every number has an entry.
            if seen == 0 {
                strange.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            let slot = if dice < GETS + SCANS + PUTS && !mine.is_empty() {
                let slot = usize::try_from(rng.below(mine.len() as u64)).unwrap_or(0);
                mine[slot] += 1;
                slot
            } else {
                mine.push(0);
                mine.len() - 1
            };
            let n = number(slot);
            put_value(&mut value, n, mine[slot]);
            let key = key(n);
            writes.restart();
            cf.put(&key, &value)?;
            writes.done(1, (key.len() + value.len()) as u64);
        }
    }
    Ok(mine)
}

/// A short scan; the entries seen.
fn scan(cf: &Cf, from: &[u8], meter: &mut Meter<'_>) -> Result<usize> {
    let mut cursor = cf.cursor(ReadOptions::new());
    let mut on = cursor.seek(from)?;
    let mut seen = 0;
    while on && seen < SCAN_LEN {
        seen += 1;
        on = cursor.next()?;
    }
    drop(cursor);
    meter.done(1, 0);
    Ok(seen)
}

/// The threads added different numbers of entries: adds those in between, so that the numbers have no
/// gaps.
fn fill_gaps(cf: &Cf, dealt: &mut [Vec<u32>]) -> Result<()> {
    let threads = dealt.len();
    let longest = dealt.iter().map(Vec::len).max().unwrap_or(0);
    let mut value = Vec::new();
    for (t, mine) in dealt.iter_mut().enumerate() {
        while mine.len() < longest {
            let n = (mine.len() * threads + t) as u64;
            put_value(&mut value, n, 0);
            cf.put(key(n), &value)?;
            mine.push(0);
        }
    }
    Ok(())
}
