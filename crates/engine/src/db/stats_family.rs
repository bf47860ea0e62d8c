//! Counters kept in a hidden family of the database (`persist_stats_to_disk`), as RocksDB keeps them.
//!
//! ```text
//!   __persistent_stats_format_version__       1
//!   __persistent_stats_compatible_version__   1
//!   TTTTTTTTTT#rocksdb.NAME                   increase of the counter over the period that ended at
//!                                             T, in Unix seconds; ten digits at least; decimal
//! ```
//!
//! The first period after an open is not written: its counters are what the next one counts from.

use super::FamilyOptions;
use super::{Cf, Db};
use crate::core::{Engine, StatsSlice};
use crate::options::{CfOptions, DbOptions, STATS_FAMILY};
use crate::read::ReadOptions;
use crate::write::WriteOptions;
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, Result};
use spanlith_wal::WriteBatch;
use std::collections::BTreeMap;

const FORMAT_KEY: &str = "__persistent_stats_format_version__";
const COMPATIBLE_KEY: &str = "__persistent_stats_compatible_version__";

/// The version of the layout that is written, and the oldest that reads it.
const VERSION: u64 = 1;

impl Db {
    /// Makes the family of persistent statistics if the options ask for it, and anew if what it holds
    /// cannot be read.
    pub(super) fn prepare_stats_family(&self, options: &DbOptions) -> Result<()> {
        if !options.persist_stats_to_disk || self.is_read_only() {
            return Ok(());
        }
        match self.cf(STATS_FAMILY) {
            Some(family) if is_readable(&family) => return Ok(()),
            Some(family) => self.drop_cf(&family)?,
            None => {}
        }
        let usual = CfOptions::of_persistent_stats();
        let family = self.create_cf(FamilyOptions::new(STATS_FAMILY).options(usual))?;
        let mut batch = WriteBatch::new();
        for key in [FORMAT_KEY, COMPATIBLE_KEY] {
            batch.put_cf(family.id(), key.as_bytes(), VERSION.to_string().as_bytes())?;
        }
        self.engine().write_batch(&batch, &not_waiting()).map(drop)
    }

    /// The slices in the family of persistent statistics that ended in `[from, until)`.
    pub(super) fn persisted_stats(&self, from: u64, until: u64) -> Vec<StatsSlice> {
        let Some(family) = self.cf(STATS_FAMILY) else {
            return Vec::new();
        };
        let mut slices: Vec<StatsSlice> = Vec::new();
        let range = ReadOptions::new().lower(stats_key(from / 1_000_000, ""));
        for entry in family.iter_opt(range) {
            // A history is of use as far as it can be read.
            let Ok((key, value)) = entry else { break };
            let Some((seconds, name, increase)) = parse(&key, &value) else {
                continue;
            };
            let at_micros = seconds.saturating_mul(1_000_000);
            if at_micros < from {
                continue;
            }
            if at_micros >= until {
                break;
            }
            if slices.last().is_none_or(|s| s.at_micros != at_micros) {
                slices.push(StatsSlice {
                    at_micros,
                    increases: BTreeMap::new(),
                });
            }
            if let Some(slice) = slices.last_mut() {
                slice.increases.insert(name.to_string(), increase);
            }
        }
        slices
    }
}

/// Writes what the counters rose by since the last call; the first call writes nothing.
pub(super) fn persist_stats(engine: &Engine, now: Vec<u64>) {
    let families = engine.families.load_full();
    let Some(family) = families.by_name(STATS_FAMILY) else {
        return;
    };
    let before = engine.reporter.history().exchange(now.clone());
    let Some(before) = before else { return };
    let seconds = engine.c.env.clock.now_seconds();
    let mut batch = WriteBatch::new();
    let mut fill = || -> Result<()> {
        for ((ticker, now), before) in Ticker::ALL.iter().zip(&now).zip(&before) {
            let key = stats_key(seconds, ticker.name());
            let increase = now.saturating_sub(*before).to_string();
            batch.put_cf(family.id, key.as_bytes(), increase.as_bytes())?;
        }
        engine.write_batch(&batch, &not_waiting()).map(drop)
    };
    if let Err(e) = fill() {
        engine
            .reporter
            .log()
            .warn(format_args!("Writing to persistent stats CF failed -- {e}"));
    }
}

/// Statistics are given up rather than waited for.
fn not_waiting() -> WriteOptions {
    WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    }
}

/// The key of a counter; with an empty name the place before all of that time.
fn stats_key(seconds: u64, name: &str) -> String {
    match name {
        "" => format!("{seconds:010}#"),
        _ => format!("{seconds:010}#rocksdb.{name}"),
    }
}

fn parse<'a>(key: &'a [u8], value: &[u8]) -> Option<(u64, &'a str, u64)> {
    let (seconds, name) = std::str::from_utf8(key).ok()?.split_once('#')?;
    let increase = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some((seconds.parse().ok()?, name, increase))
}

/// Returns whether both versions are there, and one of them is not newer than ours.
fn is_readable(family: &Cf) -> bool {
    let version = |key: &str| -> Result<u64> {
        let value = family.get(key)?.ok_or_else(|| Error::not_found(""))?;
        let text = std::str::from_utf8(&value).ok();
        text.and_then(|t| t.parse().ok())
            .ok_or_else(|| Error::corruption("a version of persistent statistics"))
    };
    match (version(FORMAT_KEY), version(COMPATIBLE_KEY)) {
        (Ok(format), Ok(compatible)) => format <= VERSION || compatible <= VERSION,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::reports::Reports;
    use spanlith_env::{Env, MemFs, VirtualClock};
    use std::sync::Arc;
    use std::time::Duration;

    fn open(fs: &MemFs, clock: &Arc<VirtualClock>, persist: bool) -> Db {
        let mut env = Env::system();
        env.fs = Arc::new(fs.clone());
        env.clock = clock.clone();
        let options = DbOptions::new()
            .create_if_missing(true)
            .stats_persist_period_sec(0u32)
            .persist_stats_to_disk(persist);
        let builder = Db::builder("/db").env(env).no_info_log();
        let builder = builder.options(options).statistics(Arc::default());
        builder.open().unwrap()
    }

    fn names(db: &Db) -> Vec<String> {
        db.cfs().iter().map(|cf| cf.name().to_string()).collect()
    }

    #[test]
    fn counters_are_kept_in_the_hidden_family_over_sittings() {
        let (fs, clock) = (
            MemFs::new(),
            Arc::new(VirtualClock::at(1_000_000_000_000_000)),
        );
        let db = open(&fs, &clock, true);
        assert_eq!(names(&db), ["default", STATS_FAMILY]);
        let family = db.cf(STATS_FAMILY).unwrap();
        assert_eq!(family.options().write_buffer_size, 2 << 20);
        assert_eq!(family.iter().count(), 2);
        assert_eq!(family.get(FORMAT_KEY).unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(
            family.get(COMPATIBLE_KEY).unwrap().as_deref(),
            Some(&b"1"[..])
        );
        // The second tick begins at the counts of the first.
        Reports::of(db.engine()).keep();
        assert_eq!(family.iter().count(), 2);
        for n in 0..5 {
            db.default_cf().put(format!("{n}"), "v").unwrap();
        }
        clock.advance(Duration::from_secs(10));
        Reports::of(db.engine()).keep();
        let key = "1000000010#rocksdb.number.keys.written";
        assert_eq!(family.get(key).unwrap().as_deref(), Some(&b"5"[..]));
        drop(family);
        db.close().unwrap();

        let db = open(&fs, &clock, true);
        Reports::of(db.engine()).keep();
        clock.advance(Duration::from_secs(10));
        Reports::of(db.engine()).keep();
        let ends = |from: u64, until: u64| -> Vec<u64> {
            let slices = db.stats_history(from, until);
            slices.iter().map(|s| s.at_micros / 1_000_000).collect()
        };
        assert_eq!(ends(0, u64::MAX), [1_000_000_010, 1_000_000_020]);
        assert_eq!(ends(1_000_000_010_000_001, u64::MAX), [1_000_000_020]);
        assert_eq!(ends(0, 1_000_000_020_000_000), [1_000_000_010]);
        let first = &db.stats_history(0, u64::MAX)[0];
        assert_eq!(first.increases["rocksdb.number.keys.written"], 5);
        db.close().unwrap();

        // It is opened for callers that do not ask for it, too.
        let db = open(&fs, &clock, false);
        assert_eq!(names(&db), ["default", STATS_FAMILY]);
        Reports::of(db.engine()).keep();
        assert_eq!(db.stats_history(0, u64::MAX).len(), 1);
    }

    #[test]
    fn a_history_of_a_newer_layout_is_begun_anew() {
        for (format, compatible, is_kept) in [
            ("1", "1", true),
            ("2", "1", true),
            ("2", "2", false),
            ("x", "1", false),
        ] {
            let (fs, clock) = (MemFs::new(), Arc::new(VirtualClock::at(1_000_000)));
            let db = open(&fs, &clock, true);
            let family = db.cf(STATS_FAMILY).unwrap();
            family.put(FORMAT_KEY, format).unwrap();
            family.put(COMPATIBLE_KEY, compatible).unwrap();
            family.put(stats_key(1, "x"), "1").unwrap();
            drop(family);
            db.close().unwrap();
            let db = open(&fs, &clock, true);
            let family = db.cf(STATS_FAMILY).unwrap();
            assert_eq!(family.iter().count(), if is_kept { 3 } else { 2 });
            let version = family.get(FORMAT_KEY).unwrap();
            let want = if is_kept { format } else { "1" };
            assert_eq!(version.as_deref(), Some(want.as_bytes()));
        }
    }

    #[test]
    fn keys_sort_by_time_and_are_read_back() {
        let key = stats_key(1_795_355_814, "block.cache.miss");
        assert_eq!(key, "1795355814#rocksdb.block.cache.miss");
        assert_eq!(stats_key(7, "x"), "0000000007#rocksdb.x");
        let want = Some((1_795_355_814, "rocksdb.block.cache.miss", 12));
        assert_eq!(parse(key.as_bytes(), b"12"), want);
        assert_eq!(parse(FORMAT_KEY.as_bytes(), b"1"), None);
        assert_eq!(parse(key.as_bytes(), b"x"), None);
    }
}
