//! Describes what each level of each family holds and what was written to it, as metrics, and where tombstones are dense, as a
//! property.
//!
//! Files and bytes are of the current version; bytes written are counted since the open. Entries are known of tables
//! that were opened.

use crate::core::{Engine, Family};
use crate::version::Version;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// One level of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelMetric {
    /// Name of the family.
    pub family: String,
    /// The level.
    pub level: u32,
    /// Tables in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries in those tables that were opened, tombstones included.
    pub entries: u64,
    /// Of these, tombstones of keys and of ranges.
    pub tombstones: u64,
    /// Bytes that flushes and compactions wrote to it.
    pub written_bytes: u64,
    /// Bytes that compactions read from above it, to write to it.
    pub read_from_above_bytes: u64,
    /// Bytes that compactions read from it, to write them to it again.
    pub rewritten_bytes: u64,
    /// Bytes of tables that came to it as they were.
    pub moved_bytes: u64,
    /// Flushes and compactions that wrote to it.
    pub jobs: u64,
}

/// The levels of all families that hold anything or were written to, in order.
pub(super) fn of_all(engine: &Engine) -> Vec<LevelMetric> {
    let set = engine.families.load_full();
    set.iter().flat_map(of_family).collect()
}

fn of_family(family: &Arc<Family>) -> Vec<LevelMetric> {
    let version = family.superversion.load_full().version.clone();
    let numbers = family.counters.numbers();
    let mut all: Vec<LevelMetric> = (0..version.num_levels().max(numbers.levels.len()))
        .map(|level| LevelMetric {
            family: family.name.clone(),
            level: u32::try_from(level).unwrap_or(u32::MAX),
            ..LevelMetric::default()
        })
        .collect();
    for (level, file) in version.file_iter() {
        let Some(m) = all.get_mut(level) else {
            continue;
        };
        m.files += 1;
        m.bytes += file.size;
        if let Some(stats) = file.stats.get() {
            m.entries += stats.num_entries;
            m.tombstones += stats.num_deletions;
        }
    }
    for (m, jobs) in all.iter_mut().zip(&numbers.levels) {
        m.written_bytes = jobs.written_bytes;
        m.read_from_above_bytes = jobs.read_upper_bytes;
        m.rewritten_bytes = jobs.read_output_bytes;
        m.moved_bytes = jobs.moved_bytes;
        m.jobs = jobs.jobs;
    }
    all.retain(|m| m.files + m.jobs + m.moved_bytes > 0);
    all
}

/// Writes the levels in Prometheus' text format; a label's value is escaped by `label`.
pub(super) fn write_prometheus(
    levels: &[LevelMetric],
    out: &mut dyn fmt::Write,
    label: fn(&str) -> String,
) -> fmt::Result {
    type Number = fn(&LevelMetric) -> u64;
    const GAUGES: [(&str, Number); 4] = [
        ("files", |m| m.files),
        ("bytes", |m| m.bytes),
        ("entries", |m| m.entries),
        ("tombstones", |m| m.tombstones),
    ];
    const COUNTERS: [(&str, Number); 5] = [
        ("written_bytes_total", |m| m.written_bytes),
        ("read_from_above_bytes_total", |m| m.read_from_above_bytes),
        ("rewritten_bytes_total", |m| m.rewritten_bytes),
        ("moved_bytes_total", |m| m.moved_bytes),
        ("jobs_total", |m| m.jobs),
    ];
    for (kind, rows) in [("gauge", &GAUGES[..]), ("counter", &COUNTERS[..])] {
        for (name, number) in rows {
            writeln!(out, "# TYPE spanlith_level_{name} {kind}")?;
            for m in levels {
                let (family, level, n) = (label(&m.family), m.level, number(m));
                writeln!(
                    out,
                    "spanlith_level_{name}{{cf=\"{family}\",level=\"{level}\"}} {n}"
                )?;
            }
        }
    }
    Ok(())
}

/// The property `spanlith.tombstones`: by level what share of its entries are tombstones, and the densest table.
/// Tables that were not opened are counted apart.
pub(super) fn tombstones_text(version: &Version) -> String {
    let mut text = String::new();
    for level in 0..version.num_levels() {
        let files = version.file_iter().filter(|(at, _)| *at == level);
        let (mut files, mut unknown, mut entries, mut tombstones, mut ranges) = (files, 0, 0, 0, 0);
        let mut densest: Option<(u64, u64, u64)> = None;
        let mut count = 0;
        for (_, file) in &mut files {
            count += 1;
            let Some(s) = file.stats.get() else {
                unknown += 1;
                continue;
            };
            entries += s.num_entries;
            tombstones += s.num_deletions;
            ranges += s.num_range_deletions;
            let is_denser = |(_, t, e): (u64, u64, u64)| {
                u128::from(s.num_deletions) * u128::from(e)
                    > u128::from(t) * u128::from(s.num_entries)
            };
            if s.num_deletions > 0 && densest.is_none_or(is_denser) {
                densest = Some((file.number, s.num_deletions, s.num_entries));
            }
        }
        if count == 0 {
            continue;
        }
        let share = |t: u64, e: u64| 100.0 * t as f64 / e.max(1) as f64;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "L{level}: {tombstones} of {entries} entries ({:.1} %), {ranges} of ranges",
            share(tombstones, entries)
        );
        if let Some((number, t, e)) = densest {
            let _ = write!(
                text,
                "; densest {number:06}.sst: {t} of {e} ({:.1} %)",
                share(t, e)
            );
        }
        if unknown > 0 {
            let _ = write!(text, "; {unknown} not opened");
        }
        text.push('\n');
    }
    text
}
