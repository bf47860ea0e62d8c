//! The numbers that people plot first, as one value.
//!
//! Each is what a property says, summed up over the families; they are read one after the other, so
//! that they belong together only as far as the database is at rest.

use super::level_metrics::{self, LevelMetric};
use super::properties::Properties;
use super::{Db, WrittenBytes};
use crate::core::{Family, FamilySet, Part, Throttle, WaitCause, WriteTimeNumbers};
use spanlith_pace::Stage;
use spanlith_wal::LogPlace;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Describes who holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryOwner {
    /// Memtables, sealed ones included.
    Memtables,
    /// Block caches; one that families share counts once.
    BlockCache,
    /// Indexes and filters that stay with open tables.
    TableReaders,
}

impl MemoryOwner {
    /// Its name, as in exported metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memtables => "memtables",
            Self::BlockCache => "block_cache",
            Self::TableReaders => "table_readers",
        }
    }
}

/// How often writes to a family were held up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallMetric {
    /// Name of the family.
    pub family: String,
    /// Why: `memtable-limit`, `l0-file-count-limit` or `pending-compaction-bytes`.
    pub cause: &'static str,
    /// Times that writes were slowed down.
    pub delays: u64,
    /// Times that writes were stopped.
    pub stops: u64,
}

/// How writes to a family are paced, by a stage that they may have to wait for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PaceMetric {
    /// Name of the family.
    pub family: String,
    /// `memory`, `level0`, `debt` or `space`.
    pub stage: &'static str,
    /// From 0 to 1, at the last look; the stage's buffer is half full at one half.
    pub pressure: f64,
    /// Measured bytes per second of the stage; `None` if it was not measured.
    pub capacity: Option<f64>,
    /// Time that writers waited for it.
    pub waited: Duration,
}

/// Where the time of writes went, and what held them up. Times of parts are those of writes that are measured: all of
/// them if the database has statistics that want times, else none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteMetric {
    /// Writes that were measured.
    pub timed: u64,
    /// Time of these by part: `throttle`, `queue`, `log`, `memtable`, `publish`.
    pub parts: Vec<(&'static str, Duration)>,
    /// The usual time of a write, as a moving median; `None` if none was measured.
    pub usual: Option<Duration>,
    /// Time that writers waited, measured or not, by cause. On purpose: `pace` (under the policy `smooth`), a cause of
    /// [`StallMetric`], or `other`. On their way: `queue`, asleep while others lead, which holds what those wait for; `log-sync`,
    /// once for a group; `memtable-switch`, to seal a full memtable and begin a log. Times of several writers add up.
    pub waited: Vec<(&'static str, Duration)>,
    /// The longest single wait on purpose.
    pub longest_wait: Duration,
    /// Writes that took at least a millisecond and twenty times what is usual. `LOG` has a line for one in ten seconds.
    pub slow: u64,
    /// Windows of 100 ms in which somebody waited, at most the last 600.
    pub windows: usize,
    /// Of these: their standard deviation by their mean, how many brought less than half and than a tenth of the median, and
    /// how many in a row brought nothing.
    pub variation: f64,
    /// See [`Self::variation`].
    pub below_half: usize,
    /// See [`Self::variation`].
    pub below_tenth: usize,
    /// See [`Self::variation`].
    pub longest_gap: usize,
}

impl WriteMetric {
    fn of(n: &WriteTimeNumbers) -> Self {
        let parts = Part::ALL.iter().map(|p| p.name()).zip(n.parts);
        let waited = WaitCause::ALL.iter().map(|c| c.name()).zip(n.waited);
        let time = |(name, nanos)| (name, Duration::from_nanos(nanos));
        Self {
            timed: n.timed,
            parts: parts.map(time).collect(),
            usual: (n.usual_nanos > 0).then(|| Duration::from_nanos(n.usual_nanos)),
            waited: waited.map(time).collect(),
            longest_wait: Duration::from_nanos(n.longest_nanos),
            slow: n.slow,
            windows: n.even.windows,
            variation: n.even.variation,
            below_half: n.even.below_half,
            below_tenth: n.even.below_tenth,
            longest_gap: n.even.longest_gap,
        }
    }

    fn write_prometheus(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for (name, label, times) in [
            ("part", "part", &self.parts),
            ("wait", "cause", &self.waited),
        ] {
            writeln!(out, "# TYPE spanlith_write_{name}_seconds_total counter")?;
            for (of, time) in times {
                let seconds = time.as_secs_f64();
                writeln!(
                    out,
                    "spanlith_write_{name}_seconds_total{{{label}=\"{of}\"}} {seconds}"
                )?;
            }
        }
        for (name, kind, value) in [
            ("timed_total", "counter", self.timed as f64),
            ("slow_total", "counter", self.slow as f64),
            (
                "longest_wait_seconds",
                "gauge",
                self.longest_wait.as_secs_f64(),
            ),
            ("windows", "gauge", self.windows as f64),
            ("windows_below_half", "gauge", self.below_half as f64),
            ("windows_below_tenth", "gauge", self.below_tenth as f64),
            ("windows_longest_gap", "gauge", self.longest_gap as f64),
            ("windows_variation", "gauge", self.variation),
        ] {
            writeln!(
                out,
                "# TYPE spanlith_write_{name} {kind}\nspanlith_write_{name} {value}"
            )?;
        }
        Ok(())
    }
}

/// A copy of the numbers of now; see [`Db::metrics`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// By family and cause.
    pub stall: Vec<StallMetric>,
    /// By family and stage, under the policy `smooth`; empty under the others.
    pub pace: Vec<PaceMetric>,
    /// Where the time of writes went.
    pub writes: WriteMetric,
    /// Bytes per second that may be written now to the family that is slowed down most; `None` if none is.
    pub write_pace_bytes_per_sec: Option<u64>,
    /// By family and level; levels that hold nothing and were never written to are left out.
    pub levels: Vec<LevelMetric>,
    /// Bytes by who holds them.
    pub memory: Vec<(MemoryOwner, u64)>,
    /// Bytes of tables and blob files in use.
    pub live_bytes: u64,
    /// Bytes of blob files that no table refers to any more.
    pub garbage_bytes: u64,
    /// Bytes written since the open, by what wrote them.
    pub written: WrittenBytes,
    /// Bytes that compactions have to rewrite, by estimate.
    pub pending_compaction_bytes: u64,
    /// Bytes of logs that are still needed.
    pub wal_bytes: u64,
    /// Age of the oldest snapshot; `None` without any.
    pub oldest_snapshot_age: Option<Duration>,
    /// Open tables.
    pub open_files: u32,
}

/// How writes are paced; nothing if every leader waits for its group.
pub(super) fn pace_metrics(throttle: &Throttle, families: &FamilySet) -> Vec<PaceMetric> {
    if !throttle.is_smooth() {
        return Vec::new();
    }
    let of_family = |f: &Arc<Family>| {
        let (decision, capacities) = f.pacer.decision();
        Stage::ALL.map(|stage| PaceMetric {
            family: f.name.clone(),
            stage: stage.name(),
            pressure: decision.pressure.get(stage),
            capacity: capacities[stage as usize],
            waited: Duration::from_nanos(f.pacer.waited_nanos(stage)),
        })
    };
    families.iter().flat_map(of_family).collect()
}

impl Db {
    /// The numbers of now.
    pub fn metrics(&self) -> Metrics {
        let engine = self.engine();
        let properties = Properties::of(engine);
        let families = engine.families.load_full();
        let sum = |name: &str| {
            let name = format!("rocksdb.{name}");
            properties.aggregated_integer(&name).unwrap_or(0)
        };
        let mut stall = Vec::new();
        let mut open_files = 0;
        let pace = pace_metrics(&engine.throttle, &families);
        for family in families.iter() {
            let s = family.counters.numbers().stalls;
            for (cause, delays, stops) in [
                ("memtable-limit", s.memtable_delays, s.memtable_stops),
                ("l0-file-count-limit", s.l0_delays, s.l0_stops),
                ("pending-compaction-bytes", s.debt_delays, s.debt_stops),
            ] {
                stall.push(StallMetric {
                    family: family.name.clone(),
                    cause,
                    delays,
                    stops,
                });
            }
            let version = family.superversion.load_full().version.clone();
            let held = |f: &crate::version::FileMeta| f.reader.get().is_some();
            open_files += version.file_iter().filter(|(_, f)| held(f)).count();
        }
        open_files += engine.c.io.open_count();
        // Of the database: families do not add up.
        let rate = engine.throttle.pace(&families);
        let (newest_log, older_logs) = {
            let state = engine.state.lock();
            (state.logs.newest(), state.logs.closed_bytes(0))
        };
        // A log that went meanwhile is needed no more.
        let newest_size = newest_log
            .and_then(|number| engine.logs.store().size(number, LogPlace::Live).ok())
            .unwrap_or(0);
        let oldest = engine.c.snapshots.oldest_counted();
        let now = engine.c.env.clock.now_seconds();
        Metrics {
            stall,
            pace,
            levels: level_metrics::of_all(engine),
            writes: WriteMetric::of(&engine.throttle.times().numbers()),
            write_pace_bytes_per_sec: (rate != 0).then_some(rate),
            memory: vec![
                (MemoryOwner::Memtables, sum("size-all-mem-tables")),
                (MemoryOwner::BlockCache, sum("block-cache-usage")),
                (MemoryOwner::TableReaders, sum("estimate-table-readers-mem")),
            ],
            live_bytes: sum("live-sst-files-size") + sum("live-blob-file-size"),
            garbage_bytes: sum("live-blob-file-garbage-size"),
            written: properties.written_bytes(),
            pending_compaction_bytes: sum("estimate-pending-compaction-bytes"),
            wal_bytes: older_logs + newest_size,
            oldest_snapshot_age: oldest.map(|o| Duration::from_secs(now.saturating_sub(o.1))),
            open_files: u32::try_from(open_files).unwrap_or(u32::MAX),
        }
    }
}

/// A label's value in Prometheus' text format.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl Metrics {
    /// Writes the numbers in Prometheus' text format.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_prometheus(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for (kind, count) in [
            ("delays", (|s| s.delays) as fn(&StallMetric) -> u64),
            ("stops", |s| s.stops),
        ] {
            writeln!(out, "# TYPE spanlith_write_{kind}_total counter")?;
            for s in &self.stall {
                writeln!(
                    out,
                    "spanlith_write_{kind}_total{{cf=\"{}\",cause=\"{}\"}} {}",
                    Label(&s.family),
                    s.cause,
                    count(s)
                )?;
            }
        }
        if !self.pace.is_empty() {
            type Number = fn(&PaceMetric) -> f64;
            for (name, kind, number) in [
                ("pressure", "gauge", (|p| p.pressure) as Number),
                ("capacity_bytes_per_second", "gauge", |p| {
                    p.capacity.unwrap_or(0.0)
                }),
                ("stall_seconds_total", "counter", |p| p.waited.as_secs_f64()),
            ] {
                writeln!(out, "# TYPE spanlith_write_{name} {kind}")?;
                for p in &self.pace {
                    writeln!(
                        out,
                        "spanlith_write_{name}{{cf=\"{}\",stage=\"{}\"}} {}",
                        Label(&p.family),
                        p.stage,
                        number(p)
                    )?;
                }
            }
        }
        level_metrics::write_prometheus(&self.levels, out, |text| Label(text).to_string())?;
        self.writes.write_prometheus(out)?;
        writeln!(out, "# TYPE spanlith_memory_bytes gauge")?;
        for (owner, bytes) in &self.memory {
            let owner = owner.name();
            writeln!(out, "spanlith_memory_bytes{{owner=\"{owner}\"}} {bytes}")?;
        }
        let w = &self.written;
        writeln!(out, "# TYPE spanlith_user_bytes_total counter")?;
        writeln!(out, "spanlith_user_bytes_total {}", w.user)?;
        writeln!(out, "# TYPE spanlith_written_bytes_total counter")?;
        for (by, bytes) in w.parts() {
            writeln!(out, "spanlith_written_bytes_total{{by=\"{by}\"}} {bytes}")?;
        }
        let age = self.oldest_snapshot_age.map_or(0, |age| age.as_secs());
        for (name, value) in [
            (
                "write_pace_bytes_per_second",
                self.write_pace_bytes_per_sec.unwrap_or(0),
            ),
            ("live_bytes", self.live_bytes),
            ("garbage_bytes", self.garbage_bytes),
            ("pending_compaction_bytes", self.pending_compaction_bytes),
            ("wal_bytes", self.wal_bytes),
            ("oldest_snapshot_age_seconds", age),
            ("open_files", self.open_files.into()),
        ] {
            writeln!(out, "# TYPE spanlith_{name} gauge\nspanlith_{name} {value}")?;
        }
        Ok(())
    }
}
