//! Properties: a table of name → function, with RocksDB's names and forms.

use super::{Cf, Db};
use crate::core::{DbState, Engine, Family, FamilyState};
use crate::version::LevelTargets;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// What a property looks at.
struct At<'a> {
    e: &'a Engine,
    s: &'a DbState,
    f: &'a FamilyState,
}

type IntProperty = fn(&At<'_>) -> u64;

/// Integer properties, without the prefix `rocksdb.`.
const INTEGERS: &[(&str, IntProperty)] = &[
    ("num-immutable-mem-table", |p| p.f.imm.len() as u64),
    ("num-immutable-mem-table-flushed", |_| 0),
    ("mem-table-flush-pending", |p| {
        u64::from(p.f.flush_scheduled && !p.f.flush_running)
    }),
    ("num-running-flushes", |p| u64::from(p.f.flush_running)),
    ("compaction-pending", |p| {
        // Queued but not started, and due but not yet queued.
        let due = p.f.compaction_due && p.s.error.is_none() && p.s.compactions_running == 0;
        u64::from(p.s.compactions_queued > 0 || due)
    }),
    ("num-running-compactions", |p| {
        p.s.compactions_running as u64
    }),
    ("background-errors", |p| p.s.error_count),
    ("cur-size-active-mem-table", |p| {
        p.f.mem.memory_usage() as u64
    }),
    ("cur-size-all-mem-tables", |p| all_memtables(p.f)),
    ("size-all-mem-tables", |p| all_memtables(p.f)),
    ("num-entries-active-mem-table", |p| p.f.mem.len()),
    ("num-entries-imm-mem-tables", |p| {
        p.f.imm.iter().map(|i| i.mem.len()).sum()
    }),
    ("num-deletes-active-mem-table", |p| p.f.mem.deletes()),
    ("num-deletes-imm-mem-tables", |p| {
        p.f.imm.iter().map(|i| i.mem.deletes()).sum()
    }),
    ("estimate-num-keys", estimate_num_keys),
    ("estimate-table-readers-mem", |p| {
        let open = p.f.version.file_iter().filter_map(|(_, f)| f.reader.get());
        open.map(|r| r.memory_usage() as u64).sum()
    }),
    ("is-file-deletions-enabled", |p| {
        u64::from(!p.e.c.purge.is_disabled())
    }),
    ("num-snapshots", |p| p.e.c.snapshots.len() as u64),
    ("oldest-snapshot-time", |p| {
        p.e.c.snapshots.oldest().map_or(0, |o| o.1)
    }),
    ("oldest-snapshot-sequence", |p| {
        p.e.c.snapshots.oldest().map_or(0, |o| o.0)
    }),
    ("current-super-version-number", |p| p.f.superversion_number),
    ("min-log-number-to-keep", |p| p.f.log_number),
    ("total-sst-files-size", |p| p.f.version.total_size()),
    ("live-sst-files-size", |p| p.f.version.total_size()),
    ("base-level", |p| {
        LevelTargets::compute(&p.f.version, &p.f.settings.levels).base_level as u64
    }),
    ("estimate-pending-compaction-bytes", |p| {
        p.f.pending_compaction_bytes
    }),
    ("actual-delayed-write-rate", |p| {
        let delayed = p.e.write_gate.load(Ordering::Relaxed) & crate::core::gate::DELAY != 0;
        if delayed { p.e.throttle.rate() } else { 0 }
    }),
    ("is-write-stopped", |p| {
        u64::from(p.e.write_gate.load(Ordering::Relaxed) & crate::core::gate::STOP != 0)
    }),
    ("block-cache-capacity", |p| {
        cache(p.f, |c| c.capacity() as u64)
    }),
    ("block-cache-usage", |p| cache(p.f, |c| c.usage() as u64)),
    ("block-cache-pinned-usage", |p| {
        cache(p.f, |c| c.pinned_usage() as u64)
    }),
    ("num-blob-files", |_| 0),
    ("total-blob-file-size", |_| 0),
    ("live-blob-file-size", |_| 0),
    ("live-blob-file-garbage-size", |_| 0),
];

fn cache(f: &FamilyState, of: impl Fn(&spanlith_table::BlockCache) -> u64) -> u64 {
    f.family.cache.readers.cache.as_ref().map_or(0, of)
}

fn all_memtables(f: &FamilyState) -> u64 {
    let sealed = f.imm.iter().map(|i| i.mem.memory_usage() as u64);
    f.mem.memory_usage() as u64 + sealed.sum::<u64>()
}

/// Entries minus twice the deletions, in memtables and opened tables, extended to the others by
/// size.
fn estimate_num_keys(p: &At<'_>) -> u64 {
    let s = p.f;
    let mut entries = s.mem.len() + s.imm.iter().map(|i| i.mem.len()).sum::<u64>();
    let mut deletes = s.mem.deletes() + s.imm.iter().map(|i| i.mem.deletes()).sum::<u64>();
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
    /// An integer property of a family by its full name; `None` if it is unknown, or the family was
    /// dropped.
    pub(crate) fn int_property(&self, family: &Family, name: &str) -> Option<u64> {
        let name = name.strip_prefix("rocksdb.")?;
        let f = INTEGERS.iter().find(|p| p.0 == name)?.1;
        let state = self.state.lock();
        Some(f(&At {
            e: self,
            s: &state,
            f: state.family(family.id)?,
        }))
    }

    /// Any property by its full name, as text.
    pub(crate) fn property(&self, family: &Family, name: &str) -> Option<String> {
        if let Some(v) = self.int_property(family, name) {
            return Some(v.to_string());
        }
        let version = family.superversion.load().version.clone();
        let name = name.strip_prefix("rocksdb.")?;
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let level: usize = level.parse().ok()?;
            return (level < version.num_levels()).then(|| version.num_files(level).to_string());
        }
        match name {
            "levelstats" => Some(levelstats(&version)),
            "sstables" => Some(sstables(&version)),
            "stats" => Some(stats_text(family, &version)),
            _ => None,
        }
    }
}

fn stats_text(family: &Family, version: &crate::version::Version) -> String {
    let mut out = format!("\n** Compaction Stats [{}] **\n", family.name);
    out.push_str(&levelstats(version));
    out
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
    /// An integer property of the default family by RocksDB's name (`rocksdb.…`).
    pub fn int_property(&self, name: &str) -> Option<u64> {
        self.default_cf().int_property(name)
    }

    /// A property of the default family by RocksDB's name, as text.
    pub fn property(&self, name: &str) -> Option<String> {
        self.default_cf().property(name)
    }
}

impl Cf {
    /// An integer property by RocksDB's name (`rocksdb.…`).
    pub fn int_property(&self, name: &str) -> Option<u64> {
        self.db.engine().int_property(&self.family, name)
    }

    /// A property by RocksDB's name, as text.
    pub fn property(&self, name: &str) -> Option<String> {
        self.db.engine().property(&self.family, name)
    }
}
