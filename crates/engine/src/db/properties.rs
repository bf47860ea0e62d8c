//! Properties: a table of name → function, with RocksDB's names and forms.

use super::Db;
use crate::core::{DbState, Engine};
use std::fmt::Write;
use std::sync::atomic::Ordering;

type IntProperty = fn(&Engine, &DbState) -> u64;

/// Integer properties, without the prefix `rocksdb.`.
const INTEGERS: &[(&str, IntProperty)] = &[
    ("num-immutable-mem-table", |_, s| s.imm.len() as u64),
    ("num-immutable-mem-table-flushed", |_, _| 0),
    ("mem-table-flush-pending", |_, s| {
        u64::from(s.flush_scheduled && !s.flush_running)
    }),
    ("num-running-flushes", |_, s| u64::from(s.flush_running)),
    ("compaction-pending", |_, s| {
        // Queued but not started, and due but not yet queued.
        let due = s.compaction_due && s.error.is_none() && s.compactions_running == 0;
        u64::from(s.compactions_queued > 0 || due)
    }),
    ("num-running-compactions", |_, s| {
        s.compactions_running as u64
    }),
    ("background-errors", |_, s| s.error_count),
    ("cur-size-active-mem-table", |e, _| {
        e.superversion.load().mem.memory_usage() as u64
    }),
    ("cur-size-all-mem-tables", |e, s| all_memtables(e, s)),
    ("size-all-mem-tables", |e, s| all_memtables(e, s)),
    ("num-entries-active-mem-table", |e, _| {
        e.superversion.load().mem.len()
    }),
    ("num-entries-imm-mem-tables", |_, s| {
        s.imm.iter().map(|i| i.mem.len()).sum()
    }),
    ("num-deletes-active-mem-table", |e, _| {
        e.superversion.load().mem.deletes()
    }),
    ("num-deletes-imm-mem-tables", |_, s| {
        s.imm.iter().map(|i| i.mem.deletes()).sum()
    }),
    ("estimate-num-keys", estimate_num_keys),
    ("estimate-table-readers-mem", |_, s| {
        let open = s.version.file_iter().filter_map(|(_, f)| f.reader.get());
        open.map(|r| r.memory_usage() as u64).sum()
    }),
    ("is-file-deletions-enabled", |_, _| 1),
    ("num-snapshots", |e, _| e.c.snapshots.len() as u64),
    ("oldest-snapshot-time", |e, _| {
        e.c.snapshots.oldest().map_or(0, |o| o.1)
    }),
    ("oldest-snapshot-sequence", |e, _| {
        e.c.snapshots.oldest().map_or(0, |o| o.0)
    }),
    ("current-super-version-number", |_, s| s.superversion_number),
    ("min-log-number-to-keep", |_, s| s.log_number),
    ("total-sst-files-size", |_, s| s.version.total_size()),
    ("live-sst-files-size", |_, s| s.version.total_size()),
    ("base-level", |e, s| e.targets(&s.version).base_level as u64),
    ("estimate-pending-compaction-bytes", |_, s| {
        s.pending_compaction_bytes
    }),
    ("actual-delayed-write-rate", |e, _| {
        let delayed = e.write_gate.load(Ordering::Relaxed) & crate::core::gate::DELAY != 0;
        if delayed { e.throttle.rate() } else { 0 }
    }),
    ("is-write-stopped", |e, _| {
        u64::from(e.write_gate.load(Ordering::Relaxed) & crate::core::gate::STOP != 0)
    }),
    ("block-cache-capacity", |e, _| {
        cache(e, |c| c.capacity() as u64)
    }),
    ("block-cache-usage", |e, _| cache(e, |c| c.usage() as u64)),
    ("block-cache-pinned-usage", |e, _| {
        cache(e, |c| c.pinned_usage() as u64)
    }),
    ("num-blob-files", |_, _| 0),
    ("total-blob-file-size", |_, _| 0),
    ("live-blob-file-size", |_, _| 0),
    ("live-blob-file-garbage-size", |_, _| 0),
];

fn cache(e: &Engine, f: impl Fn(&spanlith_table::BlockCache) -> u64) -> u64 {
    e.c.cache.block_cache.as_ref().map_or(0, f)
}

fn all_memtables(e: &Engine, s: &DbState) -> u64 {
    let active = e.superversion.load().mem.memory_usage() as u64;
    active
        + s.imm
            .iter()
            .map(|i| i.mem.memory_usage() as u64)
            .sum::<u64>()
}

/// Entries minus twice the deletions, in memtables and opened tables, extended to the others by
/// size.
fn estimate_num_keys(e: &Engine, s: &DbState) -> u64 {
    let sv = e.superversion.load();
    let mut entries = sv.mem.len() + s.imm.iter().map(|i| i.mem.len()).sum::<u64>();
    let mut deletes = sv.mem.deletes() + s.imm.iter().map(|i| i.mem.deletes()).sum::<u64>();
    let (mut known, mut known_bytes, mut bytes) = (0u64, 0u64, 0u64);
    for (_, f) in s.version.file_iter() {
        bytes += f.size;
        if let Some(st) = f.stats.get() {
            known += st.num_entries;
            known_bytes += f.size;
            deletes += st.num_deletions;
        }
    }
    if known_bytes > 0 {
        entries += (known as u128 * bytes as u128 / known_bytes as u128) as u64;
    }
    entries.saturating_sub(2 * deletes)
}

impl Engine {
    /// An integer property by its full name.
    pub(crate) fn int_property(&self, name: &str) -> Option<u64> {
        let name = name.strip_prefix("rocksdb.")?;
        let f = INTEGERS.iter().find(|p| p.0 == name)?.1;
        Some(f(self, &self.state.lock()))
    }

    /// Any property by its full name, as text.
    pub(crate) fn property(&self, name: &str) -> Option<String> {
        if let Some(v) = self.int_property(name) {
            return Some(v.to_string());
        }
        let version = self.state.lock().version.clone();
        let name = name.strip_prefix("rocksdb.")?;
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let level: usize = level.parse().ok()?;
            return (level < version.num_levels()).then(|| version.num_files(level).to_string());
        }
        match name {
            "levelstats" => Some(levelstats(&version)),
            "sstables" => Some(sstables(&version)),
            "stats" => Some(self.stats_text()),
            _ => None,
        }
    }

    fn stats_text(&self) -> String {
        let state = self.state.lock();
        let version = state.version.clone();
        drop(state);
        let mut out = String::from("\n** Compaction Stats [default] **\n");
        out.push_str(&levelstats(&version));
        out
    }
}

fn levelstats(version: &crate::version::Version) -> String {
    let mut out = String::from("Level Files Size(MB)\n--------------------\n");
    for level in 0..version.num_levels() {
        let mb = version.level_bytes(level) >> 20;
        let _ = writeln!(out, "{level:3} {:8} {mb:8}", version.num_files(level));
    }
    out
}

fn sstables(version: &crate::version::Version) -> String {
    use spanlith_base::keys;
    let mut out = String::new();
    let bound = |k: &[u8]| {
        let hex: String = keys::user_key(k)
            .iter()
            .map(|b| format!("{b:02X}"))
            .collect();
        let t = keys::tag(k);
        format!(
            "'{hex}' seq:{}, type:{}",
            keys::tag_sequence(t),
            keys::tag_type(t)
        )
    };
    for level in 0..version.num_levels() {
        let _ = writeln!(out, "--- level {level} --- version# 1 ---");
        for f in version.files(level) {
            let _ = writeln!(
                out,
                " {}:{}[{} .. {}][{} .. {}]({})",
                f.number,
                f.size,
                f.smallest_seqno,
                f.largest_seqno,
                bound(&f.smallest),
                bound(&f.largest),
                u8::from(f.is_being_compacted()),
            );
        }
    }
    out
}

impl Db {
    /// An integer property by RocksDB's name (`rocksdb.…`).
    pub fn int_property(&self, name: &str) -> Option<u64> {
        self.engine().int_property(name)
    }

    /// A property by RocksDB's name, as text.
    pub fn property(&self, name: &str) -> Option<String> {
        self.engine().property(name)
    }
}
