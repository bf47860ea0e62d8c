//! Runs one benchmark: threads, the line each second, points over time.

use super::kind::Kind;
use super::report::Outcome;
use super::sampler::{Point, Series, Shapes, Tree};
use super::settings::{Arrivals, Settings};
use super::workload;
use crate::term;
use spanlith::{Cf, Db};
use spanlith_workload::measure::Rate;
use spanlith_workload::measure::{Board, Tally};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Runs one benchmark.
///
/// # Errors
/// The first of the database.
pub fn run_one(name: &str, kind: Kind, cf: &Cf, s: &Settings) -> spanlith::Result<Outcome> {
    if kind.is_single_call() {
        return single_call(name, kind, cf);
    }
    let threads = match kind {
        Kind::ReadSeq | Kind::ReadReverse => 1,
        _ => s.threads,
    };
    let operations = kind.operations(s);
    let board = Board::new(
        usize::try_from(threads).unwrap_or(1),
        operations.unwrap_or(u64::MAX),
    );
    let before = Tree::look(cf);
    let stop_writer = AtomicBool::new(false);
    let (tell, done) = std::sync::mpsc::channel();
    let start = Instant::now();
    let rate = s.rate.map(|per_second| match s.arrivals {
        Arrivals::Regular => Rate::regular(per_second, start),
        Arrivals::Poisson => Rate::poisson(per_second, start, s.stream(u64::MAX)),
    });
    let board = board.at_rate(rate);
    let (results, seconds, beside, series) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (board, tell) = (&board, tell.clone());
                scope.spawn(move || {
                    let mut meter = board.meter(usize::try_from(n).unwrap_or(0));
                    let result = workload::run(kind, cf, s, n, &mut meter);
                    drop(meter);
                    if result.is_err() {
                        board.stop();
                    }
                    // The receiver lives as long as this scope.
                    let _ = tell.send(());
                    result
                })
            })
            .collect();
        let stop_writer = &stop_writer;
        let writer = workload::beside(kind)
            .map(|what| scope.spawn(move || workload::write_beside(what, cf, s, stop_writer)));
        let mut watch = Watch::new(name, kind, cf, &board, s, start);
        watch.until_done(threads, &done);
        let results: Vec<_> = workers.into_iter().map(join).collect();
        let seconds = (watch.ended - start).as_secs_f64();
        stop_writer.store(true, Ordering::Relaxed);
        (results, seconds, writer.map(join), watch.series)
    });
    results.into_iter().collect::<spanlith::Result<Vec<()>>>()?;
    let written = beside.transpose()?;
    let tally = board.total();
    let text = written.map(|w| {
        format!(
            "{:24} beside: {} writes/s",
            "",
            term::count((w as f64 / seconds.max(1e-9)) as u64)
        )
    });
    Ok(Outcome {
        name: name.to_string(),
        what: kind.what(),
        is_text: kind.is_text(),
        tally,
        seconds,
        text,
        threads,
        rate: s.rate,
        series: series.unwrap_or_else(|| Series::new(Duration::from_secs(1))),
        shapes: Shapes {
            before,
            after: Tree::look(cf),
        },
    })
}

/// A thread's result; its panic goes on here.
fn join<T>(handle: std::thread::ScopedJoinHandle<'_, T>) -> T {
    handle
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Watches the threads of one benchmark.
struct Watch<'a> {
    name: &'a str,
    cf: &'a Cf,
    board: &'a Board,
    /// Operations after which it is over, if that is known.
    goal: Option<u64>,
    start: Instant,
    end: Option<Instant>,
    line: indicatif::ProgressBar,
    /// Since the last line.
    second: Tally,
    line_at: Instant,
    point_at: Instant,
    /// When the last thread was done; looks at the tree after it do not count.
    ended: Instant,
    series: Option<Series>,
}

impl<'a> Watch<'a> {
    fn new(
        name: &'a str,
        kind: Kind,
        cf: &'a Cf,
        board: &'a Board,
        s: &Settings,
        start: Instant,
    ) -> Self {
        let interval = s.report_interval_ms.map(Duration::from_millis);
        Self {
            name,
            cf,
            board,
            goal: kind.keys_to_walk(s).or_else(|| kind.operations(s)),
            start,
            end: (s.duration > 0).then(|| start + Duration::from_secs(s.duration)),
            line: term::live_line(),
            second: Tally::default(),
            line_at: start,
            point_at: start,
            ended: start,
            series: interval.map(match s.keep_points {
                true => Series::whole,
                false => Series::new,
            }),
        }
    }

    /// Shows a line each second and takes the points until all threads are done; ends them when their
    /// time is up.
    fn until_done(&mut self, threads: u64, done: &std::sync::mpsc::Receiver<()>) {
        const SECOND: Duration = Duration::from_secs(1);
        let mut running = threads;
        while running > 0 {
            let now = Instant::now();
            let point = self.series.as_ref().map(|s| self.point_at + s.interval());
            let end = self.end.filter(|e| *e > now);
            let next = [point, end]
                .into_iter()
                .flatten()
                .fold(self.line_at + SECOND, Instant::min);
            match done.recv_timeout(next.saturating_duration_since(now)) {
                Ok(()) => running -= 1,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if self.end.is_some_and(|e| now >= e) {
                self.board.stop();
            }
            if point.is_some_and(|p| now >= p) {
                self.point(now);
            }
            if now >= self.line_at + SECOND {
                self.show(now);
            }
        }
        self.ended = Instant::now();
        self.point(self.ended);
        self.line.finish_and_clear();
    }

    /// Takes a point. The rest of a run that is shorter than half an interval joins the point before:
    /// a rate over so little time says nothing.
    fn point(&mut self, now: Instant) {
        let recent = self.board.recent();
        self.second.merge(&recent);
        let Some(series) = &mut self.series else {
            return;
        };
        let span = now - self.point_at;
        let at = (now - self.start).as_secs_f64();
        self.point_at = now;
        let tree = Tree::look(self.cf);
        if span < series.interval() / 2 && series.extend(&recent, at, &tree) {
            return;
        }
        series.push(Point {
            at,
            span: span.as_secs_f64(),
            tally: recent,
            tree,
        });
    }

    fn show(&mut self, now: Instant) {
        if self.series.is_none() {
            self.second.merge(&self.board.recent());
        }
        let took = (now - self.line_at).as_secs_f64();
        self.line_at = now;
        let elapsed = (now - self.start).as_secs_f64();
        let done = match (self.goal, self.end) {
            (_, Some(end)) => Some(elapsed / (end - self.start).as_secs_f64()),
            (Some(goal), None) => Some(self.board.done() as f64 / goal.max(1) as f64),
            (None, None) => None,
        };
        let progress = done.map_or_else(String::new, |share| {
            let left = elapsed / share.max(1e-9) - elapsed;
            format!("{:.0} %, {left:.0} s left  ", 100.0 * share.min(1.0))
        });
        let latency = &self.second.latency;
        self.line.set_message(format!(
            "{} {elapsed:.0} s  {progress}{} ops/s  p50 {}  p99 {}  {}",
            self.name,
            term::count((self.second.ops as f64 / took.max(1e-9)) as u64),
            term::nanos(latency.percentile(50.0)),
            term::nanos(latency.percentile(99.0)),
            levels(self.cf),
        ));
        self.line.tick();
        self.second = Tally::default();
    }
}

/// Files by level: `L0 2 L1 4`, and whether writers are held up.
fn levels(cf: &Cf) -> String {
    let files = (0..cf.num_levels()).filter_map(|n| {
        let files = cf.property(&format!("rocksdb.num-files-at-level{n}"))?;
        (files != "0").then(|| format!("L{n} {files}"))
    });
    let mut text = files.collect::<Vec<_>>().join(" ");
    if cf.int_property("rocksdb.is-write-stopped") == Some(1) {
        text.push_str("  writes stopped");
    } else if cf.int_property("rocksdb.actual-delayed-write-rate") > Some(0) {
        text.push_str("  writes slowed");
    }
    text
}

fn single_call(name: &str, kind: Kind, cf: &Cf) -> spanlith::Result<Outcome> {
    let db = cf.db();
    let before = Tree::look(cf);
    let start = Instant::now();
    let mut text = None;
    match kind {
        Kind::Compact => cf.compact_range(None, None)?,
        Kind::Flush => db.flush(true)?,
        Kind::WaitForCompaction => wait_idle(db),
        Kind::LevelStats => text = db.property("rocksdb.levelstats"),
        Kind::SsTables => text = db.property("rocksdb.sstables"),
        _ => text = db.property("rocksdb.stats"),
    }
    let took = start.elapsed();
    let mut tally = Tally {
        ops: 1,
        busy: took,
        ..Tally::default()
    };
    tally
        .latency
        .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    Ok(Outcome {
        name: name.to_string(),
        tally,
        seconds: took.as_secs_f64(),
        text,
        what: kind.what(),
        is_text: kind.is_text(),
        threads: 1,
        rate: None,
        series: Series::new(Duration::from_secs(1)),
        shapes: Shapes {
            before,
            after: Tree::look(cf),
        },
    })
}

/// Waits until no flush or compaction runs or is due, or background work has failed.
pub fn wait_idle(db: &Db) {
    const BUSY: [&str; 5] = [
        "rocksdb.mem-table-flush-pending",
        "rocksdb.num-running-flushes",
        "rocksdb.num-immutable-mem-table",
        "rocksdb.compaction-pending",
        "rocksdb.num-running-compactions",
    ];
    let value = |name| db.int_property(name).unwrap_or(0);
    while value("rocksdb.background-errors") == 0 && BUSY.iter().any(|name| value(name) > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
}
