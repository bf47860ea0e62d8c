//! Describes what a run looks like over time: throughput, latencies and the shape of the tree, point by point.
//!
//! A long run must not fill memory or the page: when there are too many points, neighbours become one
//! and the interval doubles.

use serde_json::{Value, json};
use spanlith::Cf;
use spanlith_workload::measure::Tally;
use std::collections::BTreeMap;
use std::time::Duration;

/// Points at most.
const POINTS_MAX: usize = 160;

/// The tree and what was done to it, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Files and bytes by level.
    pub levels: Vec<(u64, u64)>,
    /// Bytes of all memtables.
    pub memtables: u64,
    /// Bytes that compactions still have to rewrite.
    pub pending: u64,
    /// Bytes of values that an empty copy of the database would have, estimated.
    pub live: u64,
    /// Bytes of blob files.
    pub blobs: u64,
    /// Says what was done since the database was opened.
    pub done: Work,
}

fn gigabytes(map: &BTreeMap<String, String>, name: &str) -> u64 {
    let value = map.get(name).and_then(|v| v.parse::<f64>().ok());
    (value.unwrap_or(0.0) * f64::from(1 << 30)) as u64
}

impl Tree {
    /// Of the family, now.
    pub fn look(cf: &Cf) -> Self {
        let family = cf.map_property("rocksdb.cfstats").unwrap_or_default();
        let all = cf.map_property("rocksdb.dbstats").unwrap_or_default();
        let number = |map: &BTreeMap<String, String>, name: &str| {
            let value = map.get(name).and_then(|v| v.parse::<f64>().ok());
            value.unwrap_or(0.0) as u64
        };
        let property = |name: &str| cf.int_property(name).unwrap_or(0);
        let level = |n: usize| {
            let files = number(&family, &format!("compaction.L{n}.NumFiles"));
            let bytes = number(&family, &format!("compaction.L{n}.SizeBytes"));
            (files, bytes)
        };
        let (device_read, device_written) = device();
        Self {
            levels: (0..cf.num_levels()).map(level).collect(),
            memtables: property("rocksdb.cur-size-all-mem-tables"),
            pending: property("rocksdb.estimate-pending-compaction-bytes"),
            live: property("rocksdb.estimate-live-data-size"),
            blobs: property("rocksdb.total-blob-file-size"),
            done: Work {
                user: number(&all, "db.user_bytes_written"),
                log: number(&all, "db.wal_bytes_written"),
                written: gigabytes(&family, "compaction.Sum.WriteGB"),
                read: gigabytes(&family, "compaction.Sum.ReadGB"),
                stalled_micros: number(&all, "db.user_write_stall_micros"),
                device_read,
                device_written,
            },
        }
    }

    /// Bytes of all tables.
    pub fn tables(&self) -> u64 {
        self.levels.iter().map(|l| l.1).sum()
    }

    /// Bytes on disk for each byte that a fresh copy would take; `None` for an empty tree.
    pub fn space_amplification(&self) -> Option<f64> {
        (self.live > 0).then(|| (self.tables() + self.blobs) as f64 / self.live as f64)
    }

    fn json(&self) -> Value {
        let levels: Vec<_> = self
            .levels
            .iter()
            .map(|(files, bytes)| json!({ "files": files, "bytes": bytes }))
            .collect();
        json!({
            "levels": levels, "memtable_bytes": self.memtables, "pending_bytes": self.pending,
            "live_bytes": self.live, "blob_bytes": self.blobs,
            "space_amplification": self.space_amplification(),
        })
    }
}

/// Bytes moved between two moments.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Bytes of batches that callers wrote.
    pub user: u64,
    /// Bytes written to logs.
    pub log: u64,
    /// Bytes that flushes and compactions wrote.
    pub written: u64,
    /// Bytes that compactions read.
    pub read: u64,
    /// Microseconds that writers were held up.
    pub stalled_micros: u64,
    /// Bytes that the kernel read from storage for this process; `None` if it does not say.
    pub device_read: Option<u64>,
    /// Bytes that the kernel wrote or will write to storage for this process.
    pub device_written: Option<u64>,
}

impl Work {
    /// Returns what happened since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let device = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            user: self.user.saturating_sub(before.user),
            log: self.log.saturating_sub(before.log),
            written: self.written.saturating_sub(before.written),
            read: self.read.saturating_sub(before.read),
            stalled_micros: self.stalled_micros.saturating_sub(before.stalled_micros),
            device_read: device(self.device_read, before.device_read),
            device_written: device(self.device_written, before.device_written),
        }
    }

    /// Bytes that logs, flushes and compactions wrote for each byte that callers wrote.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.user > 0).then(|| (self.log + self.written) as f64 / self.user as f64)
    }

    fn json(&self) -> Value {
        json!({
            "user_bytes": self.user, "log_bytes": self.log, "table_bytes_written": self.written,
            "compaction_bytes_read": self.read, "stalled_micros": self.stalled_micros,
            "device_bytes_read": self.device_read, "device_bytes_written": self.device_written,
            "write_amplification": self.write_amplification(),
        })
    }
}

/// Bytes that the kernel moved from and to storage for this process.
fn device() -> (Option<u64>, Option<u64>) {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    (value("read_bytes:"), value("write_bytes:"))
}

/// An interval of a run.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its end, in seconds since the run began.
    pub at: f64,
    /// Its length in seconds.
    pub span: f64,
    /// Says what was done in it.
    pub tally: Tally,
    /// The tree at its end.
    pub tree: Tree,
}

impl Point {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.tally.ops as f64 / self.span.max(1e-9)
    }
}

/// The points of a run, in order.
#[derive(Clone, Debug)]
pub struct Series {
    interval: Duration,
    points_max: usize,
    points: Vec<Point>,
}

impl Series {
    /// With a point each `interval` to begin with.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            points_max: POINTS_MAX,
            points: Vec::new(),
        }
    }

    /// The same, with as many points as there are intervals.
    pub fn whole(interval: Duration) -> Self {
        Self {
            points_max: usize::MAX,
            ..Self::new(interval)
        }
    }

    /// Time between points as it is now.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Adds to the last point, if there is one.
    pub fn extend(&mut self, tally: &Tally, at: f64, tree: &Tree) -> bool {
        let Some(last) = self.points.last_mut() else {
            return false;
        };
        last.tally.merge(tally);
        last.span += at - last.at;
        last.at = at;
        last.tree = tree.clone();
        true
    }

    /// Adds the next point.
    pub fn push(&mut self, point: Point) {
        self.points.push(point);
        if self.points.len() > self.points_max {
            self.interval *= 2;
            let mut halved = Vec::with_capacity(POINTS_MAX);
            for pair in self.points.chunks(2) {
                let mut one = pair[0].clone();
                if let Some(other) = pair.get(1) {
                    one.tally.merge(&other.tally);
                    one.span += other.span;
                    one.at = other.at;
                    one.tree = other.tree.clone();
                }
                halved.push(one);
            }
            self.points = halved;
        }
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let point = |p: &Point| {
            let l = &p.tally.latency;
            json!({
                "seconds": p.at, "ops_per_sec": p.rate(),
                "p50_ns": l.percentile(50.0), "p99_ns": l.percentile(99.0),
                "p99_9_ns": l.percentile(99.9), "max_ns": l.max(), "tree": p.tree.json(),
            })
        };
        self.points.iter().map(point).collect()
    }
}

/// The tree before and after a benchmark.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// When it began.
    pub before: Tree,
    /// When it ended.
    pub after: Tree,
}

impl Shapes {
    /// Returns what happened in between.
    pub fn work(&self) -> Work {
        self.after.done.since(&self.before.done)
    }

    /// For machines.
    pub fn json(&self) -> Value {
        json!({ "tree": self.after.json(), "work": self.work().json() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(n: u64) -> Point {
        let mut tally = Tally {
            ops: n,
            ..Tally::default()
        };
        tally.latency.add(n);
        Point {
            at: n as f64,
            span: 1.0,
            tally,
            tree: Tree::default(),
        }
    }

    #[test]
    fn many_points_become_fewer_and_lose_nothing() {
        let mut series = Series::new(Duration::from_millis(100));
        (1..=1000).for_each(|n| series.push(point(n)));
        let points = series.points();
        assert!(points.len() <= POINTS_MAX && points.len() > POINTS_MAX / 4);
        assert_eq!(points.iter().map(|p| p.tally.ops).sum::<u64>(), 500_500);
        assert_eq!(points.iter().map(|p| p.span).sum::<f64>(), 1000.0);
        assert_eq!(points.last().map(|p| p.at), Some(1000.0));
        assert!(points.windows(2).all(|w| w[0].at < w[1].at));
        assert!(series.interval() >= Duration::from_millis(800));
    }

    #[test]
    fn amplification_is_what_was_written_over_what_was_asked_for() {
        let done = |user, log, written| Work {
            user,
            log,
            written,
            ..Work::default()
        };
        let (before, after) = (done(100, 110, 50), done(200, 220, 340));
        assert_eq!(after.since(&before).write_amplification(), Some(4.0));
        let after = Tree {
            live: 10,
            levels: vec![(1, 5), (2, 15)],
            ..Tree::default()
        };
        assert_eq!(after.space_amplification(), Some(2.0));
        assert_eq!(Tree::default().space_amplification(), None);
        assert_eq!(Work::default().write_amplification(), None);
    }
}
