//! The statistics of a family's flushes and compactions: `rocksdb.cfstats` and its parts.
//!
//! Monitoring programs compare the header of the table byte for byte and read its rows by column.

use super::Properties;
use super::human::{self, GIB, MIB, number};
use crate::core::{
    Family, FamilyNumbers, FamilyReport, FamilyState, JobNumbers, StallCounts, StateMutex,
};
use crate::version::{LevelTargets, TableCache, Version};
use spanlith_base::histogram::Distribution;
use spanlith_table::{BlockCache, CacheRole};
use std::fmt::Write;
use std::sync::Arc;

/// Names of the columns after the first.
const COLUMNS: &str = "    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) \
                       Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) \
                       Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)\n";

/// One row of the table.
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) files: usize,
    pub(super) busy_files: usize,
    pub(super) bytes: u64,
    pub(super) score: f64,
    pub(super) amplification: f64,
    pub(super) jobs: &'a JobNumbers,
}

impl Row<'_> {
    /// Values by RocksDB's names, in the order of the columns.
    pub(super) fn values(&self) -> [(&'static str, f64); 22] {
        let j = self.jobs;
        let gb = |bytes: u64| bytes as f64 / GIB;
        let read = j.read_bytes() + j.blob_read_bytes;
        let written = j.written_bytes + j.blob_written_bytes;
        let seconds = (j.micros + 1) as f64 / 1e6;
        let average = match j.jobs {
            0 => 0.0,
            jobs => j.micros as f64 / 1e6 / jobs as f64,
        };
        [
            ("NumFiles", self.files as f64),
            ("CompactedFiles", self.busy_files as f64),
            ("SizeBytes", self.bytes as f64),
            ("Score", self.score),
            ("ReadGB", gb(read)),
            ("RnGB", gb(j.read_upper_bytes)),
            ("Rnp1GB", gb(j.read_output_bytes)),
            ("WriteGB", gb(j.written_bytes)),
            ("WritePreCompGB", gb(j.uncompressed_bytes)),
            (
                "WnewGB",
                (j.written_bytes as f64 - j.read_output_bytes as f64) / GIB,
            ),
            ("MovedGB", gb(j.moved_bytes)),
            ("WriteAmp", self.amplification),
            ("ReadMBps", read as f64 / MIB / seconds),
            ("WriteMBps", written as f64 / MIB / seconds),
            ("CompSec", j.micros as f64 / 1e6),
            ("CompMergeCPU", j.cpu_micros as f64 / 1e6),
            ("CompCount", j.jobs as f64),
            ("AvgSec", average),
            ("KeyIn", j.entries_read as f64),
            ("KeyDrop", j.entries_dropped as f64),
            ("RblobGB", gb(j.blob_read_bytes)),
            ("WblobGB", gb(j.blob_written_bytes)),
        ]
    }

    pub(super) fn write(&self, out: &mut String) {
        let v = self.values().map(|v| v.1);
        let _ = writeln!(
            out,
            "{:>4} {:>6}/{:<3} {:>10} {:>5.1} {:>8.1} {:>7.1} {:>8.1} {:>9.1} {:>9.1} {:>8.1} \
             {:>9.1} {:>5.1} {:>8.1} {:>8.1} {:>9.2} {:>17.2} {:>9} {:>8.3} {:>7} {:>6} {:>9.1} \
             {:>9.1}",
            self.name,
            self.files,
            self.busy_files,
            human::bytes(self.bytes),
            v[3],
            v[4],
            v[5],
            v[6],
            v[7],
            v[8],
            v[9],
            v[10],
            v[11],
            v[12],
            v[13],
            v[14],
            v[15],
            self.jobs.jobs,
            v[17],
            number(self.jobs.entries_read),
            number(self.jobs.entries_dropped),
            v[20],
            v[21],
        );
    }
}

/// Facts of a family at one moment.
pub(super) struct Facts {
    pub(super) version: std::sync::Arc<Version>,
    scores: Vec<f64>,
    pub(super) numbers: FamilyNumbers,
    /// All levels.
    pub(super) sum: JobNumbers,
    pending_compaction_bytes: u64,
}

fn amplification(written: u64, ingested: u64) -> f64 {
    match ingested {
        0 => 0.0,
        bytes => written as f64 / bytes as f64,
    }
}

impl Facts {
    /// Of a family, dropped or not.
    pub(super) fn gather(state: &StateMutex, family: &Arc<Family>) -> Self {
        let (version, levels, pending) = {
            let state = state.lock();
            let dropped;
            let f = match state.family(family.id) {
                Some(f) => f,
                None => {
                    dropped = FamilyState::of_dropped(family);
                    &dropped
                }
            };
            let settings = f.settings.clone();
            (f.version.clone(), settings, f.compaction.pending_bytes())
        };
        let targets = LevelTargets::compute(&version, &levels.levels);
        let mut scores = vec![0.0; version.num_levels()];
        for (level, score) in targets.scores {
            if let Some(s) = scores.get_mut(level) {
                *s = score;
            }
        }
        let numbers = family.counters.numbers();
        let mut sum = JobNumbers::default();
        for level in &numbers.levels {
            sum.add(level);
        }
        Self {
            version,
            scores,
            numbers,
            sum,
            pending_compaction_bytes: pending,
        }
    }

    /// A row per level that has, or had, something to do.
    pub(super) fn rows(&self, mut each: impl FnMut(usize, &Row<'_>)) {
        for (level, jobs) in self.numbers.levels.iter().enumerate() {
            let files = self.version.files(level);
            if files.is_empty() && jobs.micros == 0 {
                continue;
            }
            let ingested = match level {
                0 => self.numbers.taken_in_bytes(),
                _ => jobs.read_upper_bytes + jobs.blob_read_bytes,
            };
            let written = jobs.written_bytes + jobs.blob_written_bytes;
            let row = Row {
                name: &format!("L{level}"),
                files: files.len(),
                busy_files: files.iter().filter(|f| f.is_being_compacted()).count(),
                bytes: self.version.level_bytes(level),
                score: self.scores.get(level).copied().unwrap_or(0.0),
                amplification: amplification(written, ingested),
                jobs,
            };
            each(level, &row);
        }
    }

    /// The row of all levels.
    pub(super) fn sum_row(&self) -> Row<'_> {
        let files = || self.version.file_iter();
        let written = self.sum.written_bytes + self.sum.blob_written_bytes;
        Row {
            name: "Sum",
            files: files().count(),
            busy_files: files().filter(|(_, f)| f.is_being_compacted()).count(),
            bytes: self.version.total_size(),
            score: 0.0,
            amplification: amplification(written, self.numbers.taken_in_bytes().max(1)),
            jobs: &self.sum,
        }
    }
}

/// The line of a family's stalls.
pub(super) fn stall_text(s: &StallCounts) -> String {
    format!(
        "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: {}, \
         cf-l0-file-count-limit-stops-with-ongoing-compaction: {}, l0-file-count-limit-delays: {}, \
         l0-file-count-limit-stops: {}, memtable-limit-delays: {}, memtable-limit-stops: {}, \
         pending-compaction-bytes-delays: {}, pending-compaction-bytes-stops: {}, total-delays: {}, \
         total-stops: {}\n",
        s.l0_delays_with_compaction,
        s.l0_stops_with_compaction,
        s.l0_delays,
        s.l0_stops,
        s.memtable_delays,
        s.memtable_stops,
        s.debt_delays,
        s.debt_stops,
        s.delays(),
        s.stops(),
    )
}

/// Number and charges of the entries of a block cache, by role.
pub(super) fn cache_entries(cache: &BlockCache) -> [(usize, usize); CacheRole::ALL.len()] {
    cache.tally(|block| block.role() as usize)
}

/// The lines about a family's block cache; empty without one.
pub(super) fn cache_text(cache: &TableCache) -> String {
    let Some(block_cache) = &cache.readers.cache else {
        return String::new();
    };
    let (entries, usage) = (block_cache.len(), block_cache.usage() as u64);
    let capacity = block_cache.capacity() as u64;
    let mut out = format!(
        "Block cache SpanlithCache@{:#x} capacity: {} usage: {} table_size: {entries} occupancy: {entries} \
         collections: 1 last_copies: 0 last_secs: 0 secs_since: 0\n",
        block_cache.identity(),
        human::bytes(capacity),
        human::bytes(usage),
    );
    let _ = write!(out, "Block cache entry stats(count,size,portion):");
    for (role, (count, bytes)) in CacheRole::ALL.into_iter().zip(cache_entries(block_cache)) {
        if count > 0 {
            let size = human::bytes(bytes as u64);
            let portion = 100.0 * bytes as f64 / capacity.max(1) as f64;
            let _ = write!(out, " {}({count},{size},{portion:.6}%)", role.name());
        }
    }
    out.push('\n');
    out
}

fn table_head(out: &mut String, name: &str, first: &str, dashes: usize) {
    let _ = write!(out, "\n** Compaction Stats [{name}] **\n{first}{COLUMNS}");
    out.extend(std::iter::repeat_n('-', dashes));
    out.push('\n');
}

impl Properties<'_> {
    /// The text of `cfstats-no-file-histogram`.
    pub(super) fn family_stats_text(&self, family: &Arc<Family>) -> String {
        let facts = Facts::gather(self.state, family);
        let now = self.now();
        let last = family.counters.last_report();
        text(self.counters.opened_nanos, family, &facts, &last, now)
    }

    /// The text as the info log has it: it begins another interval.
    pub(in crate::db) fn family_report(&self, family: &Arc<Family>) -> String {
        let facts = Facts::gather(self.state, family);
        let now = self.now();
        let last = family.counters.next_interval(FamilyReport {
            at_nanos: now,
            sum: facts.sum,
            flushed_bytes: facts.numbers.flushed_bytes,
            ingested: facts.numbers.ingested,
        });
        text(self.counters.opened_nanos, family, &facts, &last, now)
    }

    /// How long reads of the family's tables took, by level. Nothing is measured without statistics.
    pub(super) fn read_histogram_text(family: &Family) -> String {
        let mut out = format!(
            "\n** File Read Latency Histogram By Level [{}] **\n",
            family.name
        );
        let version = family.superversion.load().version.clone();
        for level in 0..version.num_levels() {
            let all = Distribution::default();
            let open = version.files(level).iter().filter_map(|f| f.reader.get());
            for micros in open.filter_map(|r| r.read_micros()) {
                all.add(micros);
            }
            if all.summary().count > 0 {
                let _ = writeln!(
                    out,
                    "** Level {level} read latency histogram (micros):\n{}",
                    all.text()
                );
            }
        }
        out
    }
}

fn text(opened: u64, family: &Family, facts: &Facts, last: &FamilyReport, now: u64) -> String {
    let mut out = String::new();
    table_head(&mut out, &family.name, "Level", 205);
    facts.rows(|_, row| row.write(&mut out));
    facts.sum_row().write(&mut out);
    let interval = facts.sum.since(&last.sum);
    let flushed = facts.numbers.flushed_bytes - last.flushed_bytes;
    let (ingested, before) = (facts.numbers.ingested, last.ingested);
    let taken_in = flushed + ingested.bytes - before.bytes;
    let priority = |name, jobs, amplification| Row {
        name,
        files: 0,
        busy_files: 0,
        bytes: 0,
        score: 0.0,
        amplification,
        jobs,
    };
    let written = interval.written_bytes + interval.blob_written_bytes;
    priority("Int", &interval, amplification(written, taken_in + 1)).write(&mut out);
    table_head(&mut out, &family.name, "Priority", 208);
    for (name, jobs) in [("Low", &facts.numbers.low), ("High", &facts.numbers.high)] {
        if jobs.jobs > 0 {
            priority(name, jobs, 0.0).write(&mut out);
        }
    }
    let (mut blob, mut garbage) = (0, 0);
    for file in facts.version.blob_files.values() {
        blob += file.size();
        garbage += file.garbage_bytes;
    }
    let _ = write!(
        out,
        "\nBlob file count: {}, total size: {:.1} GB, garbage size: {:.1} GB, space amp: {:.1}\n\n",
        facts.version.blob_files.len(),
        blob as f64 / GIB,
        garbage as f64 / GIB,
        amplification(blob, blob - garbage.min(blob)),
    );
    let up = now.saturating_sub(opened) as f64 / 1e9;
    let since = now.saturating_sub(last.at_nanos.max(opened)) as f64 / 1e9;
    let _ = writeln!(out, "Uptime(secs): {up:.1} total, {since:.1} interval");
    let _ = writeln!(
        out,
        "Flush(GB): cumulative {:.3}, interval {:.3}",
        facts.numbers.flushed_bytes as f64 / GIB,
        flushed as f64 / GIB
    );
    let _ = writeln!(
        out,
        "AddFile(GB): cumulative {:.3}, interval {:.3}",
        ingested.bytes as f64 / GIB,
        (ingested.bytes - before.bytes) as f64 / GIB
    );
    for (what, now, before) in [
        ("Total Files", ingested.files, before.files),
        ("L0 Files", ingested.level0_files, before.level0_files),
        ("Keys", ingested.keys, before.keys),
    ] {
        let since = now - before;
        let _ = writeln!(out, "AddFile({what}): cumulative {now}, interval {since}");
    }
    for (name, jobs, seconds) in [
        ("Cumulative", &facts.sum, up),
        ("Interval", &interval, since),
    ] {
        let seconds = seconds.max(0.001);
        let written = (jobs.written_bytes + jobs.blob_written_bytes) as f64;
        let read = (jobs.read_bytes() + jobs.blob_read_bytes) as f64;
        let _ = writeln!(
            out,
            "{name} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s read, \
             {:.1} seconds",
            written / GIB,
            written / MIB / seconds,
            read / GIB,
            read / MIB / seconds,
            jobs.micros as f64 / 1e6,
        );
    }
    let _ = writeln!(
        out,
        "Estimated pending compaction bytes: {}",
        facts.pending_compaction_bytes
    );
    out.push_str(&stall_text(&facts.numbers.stalls));
    out.push_str(&cache_text(&family.cache));
    out
}
