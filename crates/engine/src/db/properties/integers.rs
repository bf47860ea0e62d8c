//! Properties that are numbers: a table of name → function.

use super::Properties;
use crate::core::{DbState, Family, FamilyState, Immutable};
use crate::options::KvsepMode;
use crate::version::{FileMeta, LevelTargets, Version};
use spanlith_base::Comparator;
use spanlith_memtable::MemTable;
use spanlith_table::BlockCache;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Describes what a property looks at.
pub(super) struct At<'a> {
    pub(super) e: &'a Properties<'a>,
    pub(super) s: &'a DbState,
    pub(super) f: &'a FamilyState,
}

type IntProperty = fn(&At<'_>) -> u64;

/// Integer properties, without the prefix `rocksdb.`.
const INTEGERS: &[(&str, IntProperty)] = &[
    ("num-immutable-mem-table", |p| sealed(p).len() as u64),
    ("num-immutable-mem-table-flushed", |_| 0),
    ("mem-table-flush-pending", |p| {
        u64::from(p.f.flush.is_queued() && !p.f.flush.is_running())
    }),
    // A job that has nothing left to write is as good as over: whoever waited for it does not meet it.
    ("num-running-flushes", |p| {
        u64::from(p.f.flush.is_running() && !p.f.imm.is_empty())
    }),
    ("compaction-pending", |p| {
        // Queued but not started, and due but not yet queued.
        let due = p.f.compaction.is_due()
            && !p.s.trouble.refuses()
            && p.s.jobs.compactions_running() == 0;
        // Where none begins by itself, what the tree asks for stays pending.
        let by_hand = p.f.settings.options.disable_auto_compactions
            && p.f.wants_compaction(p.e.times, &p.e.options);
        u64::from(p.s.jobs.compactions_queued() > 0 || due || by_hand)
    }),
    ("num-running-compactions", |p| {
        p.s.jobs.compactions_running() as u64
    }),
    ("background-errors", |p| p.s.trouble.error_count),
    ("cur-size-active-mem-table", |p| {
        p.f.mem.memory_usage() as u64
    }),
    ("cur-size-all-mem-tables", |p| all_memtables(p.f)),
    ("size-all-mem-tables", |p| all_memtables(p.f)),
    ("num-entries-active-mem-table", |p| active(p, entries)),
    ("num-entries-imm-mem-tables", |p| {
        sealed(p).iter().map(|i| entries(&i.mem)).sum()
    }),
    ("num-deletes-active-mem-table", |p| {
        active(p, MemTable::deletes)
    }),
    ("num-deletes-imm-mem-tables", |p| {
        sealed(p).iter().map(|i| i.mem.deletes()).sum()
    }),
    ("estimate-num-keys", estimate_num_keys),
    ("estimate-table-readers-mem", |p| {
        let open = p.f.version.file_iter().filter_map(|(_, f)| f.reader.get());
        open.map(|r| r.memory_usage() as u64).sum()
    }),
    ("is-file-deletions-enabled", |p| {
        u64::from(!p.e.components.purge.is_disabled())
    }),
    // Ours.
    ("recovery-dropped-bytes", |p| p.e.logs.dropped().bytes),
    ("recovery-dropped-records", |p| p.e.logs.dropped().records),
    ("num-snapshots", |p| p.e.components.snapshots.len() as u64),
    ("oldest-snapshot-time", |p| {
        p.e.components.snapshots.oldest_counted().map_or(0, |o| o.1)
    }),
    ("oldest-snapshot-sequence", |p| {
        p.e.components.snapshots.oldest_counted().map_or(0, |o| o.0)
    }),
    ("current-super-version-number", |p| p.f.superversion_number),
    ("min-log-number-to-keep", |p| p.s.min_log_number()),
    // No file waits for a job that writes it: numbers of outputs are known before they are files.
    ("min-obsolete-sst-number-to-keep", |_| u64::MAX),
    ("total-sst-files-size", total_sst_files_size),
    ("obsolete-sst-files-size", |p| {
        p.e.components.purge.queued_bytes()
    }),
    ("num-live-versions", |p| live_versions(p).len() as u64),
    ("estimate-live-data-size", |p| {
        estimate_live_data_size(&p.f.version, &p.f.family.comparator)
    }),
    ("num-running-compaction-sorted-runs", running_sorted_runs),
    ("compaction-abort-count", |_| 0),
    ("live-sst-files-size", |p| p.f.version.total_size()),
    ("base-level", |p| {
        LevelTargets::compute(&p.f.version, &p.f.settings.levels).base_level as u64
    }),
    ("estimate-pending-compaction-bytes", |p| {
        p.f.compaction.pending_bytes()
    }),
    ("actual-delayed-write-rate", |p| {
        let delayed = p.e.gate.has(crate::core::gate::DELAY);
        match delayed || p.e.throttle.is_smooth() {
            true => p.e.throttle.pace(&p.e.families.load()),
            false => 0,
        }
    }),
    ("is-write-stopped", |p| {
        use crate::core::gate::{FULL, STOP};
        u64::from(p.e.gate.has(STOP | FULL))
    }),
    ("block-cache-capacity", |p| {
        cache(p.f, |c| c.capacity() as u64)
    }),
    ("block-cache-usage", |p| cache(p.f, |c| c.usage() as u64)),
    ("block-cache-pinned-usage", |p| {
        cache(p.f, |c| c.pinned_usage() as u64)
    }),
    ("num-blob-files", |p| p.f.version.blob_files.len() as u64),
    ("total-blob-file-size", total_blob_file_size),
    ("live-blob-file-size", |p| {
        blob_file_sizes(&p.f.version).map(|b| b.1).sum()
    }),
    ("live-blob-file-garbage-size", |p| {
        p.f.version
            .blob_files
            .values()
            .map(|b| b.garbage_bytes)
            .sum()
    }),
];

/// From which size on values are separated: the whole name, which is not RocksDB's.
const SEPARATION_THRESHOLD: &str = "spanlith.separation-threshold";

/// Bytes from which on values are separated now; the largest number if they are not.
fn separation_threshold(f: &FamilyState) -> u64 {
    let o = &f.settings.options;
    match o.own.kvsep_mode {
        _ if !o.enable_blob_files => u64::MAX,
        KvsepMode::Adaptive => f.family.adaptive.threshold(),
        _ => o.min_blob_size,
    }
}

/// A property of a cache: its name, and what it is.
type OfCache = (&'static str, fn(&BlockCache) -> usize);

/// As [`INTEGERS`], of the cache of values in blob files; unknown without one.
const OF_BLOB_CACHE: &[OfCache] = &[
    ("blob-cache-capacity", BlockCache::capacity),
    ("blob-cache-usage", BlockCache::usage),
    ("blob-cache-pinned-usage", BlockCache::pinned_usage),
];

/// Sealed memtables. A database that is open for reading has none: what it read from logs counts as active, as in
/// RocksDB.
fn sealed<'a>(p: &At<'a>) -> &'a [Immutable] {
    if p.e.components.read_only {
        &[]
    } else {
        &p.f.imm
    }
}

/// A count of the active memtable.
fn active(p: &At<'_>, count: impl Fn(&MemTable) -> u64) -> u64 {
    let logged = if p.e.components.read_only {
        &p.f.imm[..]
    } else {
        &[]
    };
    count(&p.f.mem) + logged.iter().map(|i| count(&i.mem)).sum::<u64>()
}

fn entries(mem: &MemTable) -> u64 {
    mem.len() + mem.range_deletes()
}

fn cache(f: &FamilyState, of: impl Fn(&BlockCache) -> u64) -> u64 {
    f.family.cache.readers.cache.as_ref().map_or(0, of)
}

fn all_memtables(f: &FamilyState) -> u64 {
    let sealed = f.imm.iter().map(|i| i.mem.memory_usage() as u64);
    f.mem.memory_usage() as u64 + sealed.sum::<u64>()
}

/// Entries minus twice the deletions: of opened tables, extended to the others by their number, and
/// of memtables, where ranges count as entries.
fn estimate_num_keys(p: &At<'_>) -> u64 {
    let s = p.f;
    let (mut kept, mut deleted, mut opened, mut files) = (0u64, 0u64, 0u64, 0u64);
    for (_, f) in s.version.file_iter() {
        files += 1;
        if let Some(st) = f.stats.get() {
            opened += 1;
            kept += st.num_entries.saturating_sub(st.num_deletions);
            deleted += st.num_deletions;
        }
    }
    let mut entries = kept.saturating_sub(deleted);
    if opened > 0 && opened < files {
        entries = (entries as f64 * files as f64 / opened as f64) as u64;
    }
    let mut deletes = 0;
    for mem in s.imm.iter().map(|i| &i.mem).chain([&s.mem]) {
        entries += mem.len() + mem.range_deletes();
        deletes += mem.deletes();
    }
    entries.saturating_sub(2 * deletes)
}

/// The current version and those that iterators and jobs still hold.
fn live_versions(p: &At<'_>) -> Vec<Arc<Version>> {
    p.f.family.counters.live_versions()
}

/// Bytes of the tables of all live versions, each counted once.
fn total_sst_files_size(p: &At<'_>) -> u64 {
    let mut sizes = BTreeMap::new();
    for version in live_versions(p) {
        sizes.extend(version.file_iter().map(|(_, f)| (f.number, f.size)));
    }
    sizes.values().sum()
}

/// Numbers and bytes of a version's blob files.
fn blob_file_sizes(version: &Version) -> impl Iterator<Item = (u64, u64)> {
    version
        .blob_files
        .values()
        .map(|b| (b.file.number, b.size()))
}

fn total_blob_file_size(p: &At<'_>) -> u64 {
    let mut sizes = BTreeMap::new();
    for version in live_versions(p) {
        sizes.extend(blob_file_sizes(&version));
    }
    sizes.values().sum()
}

/// Files of level 0 and levels below it that running compactions read.
fn running_sorted_runs(p: &At<'_>) -> u64 {
    let l0 = p.f.version.files(0).iter();
    let files = l0.filter(|f| f.is_being_compacted()).count();
    let levels =
        p.f.compaction
            .running()
            .iter()
            .flat_map(|r| &r.input_levels);
    (files + levels.filter(|&&l| l > 0).count()) as u64
}

/// Bytes of data that are not shadowed, by estimate: from the deepest level up, a table counts if its
/// range meets none that was counted before. Of blob files the records count that are not garbage.
fn estimate_live_data_size(version: &Version, c: &Comparator) -> u64 {
    // Counted tables by their largest key; their ranges are disjoint.
    let mut counted: Vec<&FileMeta> = Vec::new();
    let mut bytes = 0;
    for level in (0..version.num_levels()).rev() {
        for file in version.files(level) {
            let at =
                counted.partition_point(|f| c.compare_internal(&f.largest, &file.smallest).is_lt());
            let free = counted
                .get(at)
                .is_none_or(|f| c.compare_internal(&file.largest, &f.smallest).is_lt());
            if free {
                counted.insert(at, file);
                bytes += file.size;
            }
        }
    }
    let blobs = version.blob_files.values();
    bytes
        + blobs
            .map(|b| b.file.total_bytes.saturating_sub(b.garbage_bytes))
            .sum::<u64>()
}

/// Numbers of block caches: a cache that several families share counts once.
pub(super) const OF_CACHES: &[&str] = &[
    "block-cache-capacity",
    "block-cache-usage",
    "block-cache-pinned-usage",
];

/// Value of an integer property without the prefix `rocksdb.`.
pub(super) fn value(name: &str, at: &At<'_>) -> Option<u64> {
    if OF_CACHES.contains(&name) {
        // Without a cache there is no such number, as in RocksDB.
        at.f.family.cache.readers.cache.as_ref()?;
    }
    if let Some(property) = INTEGERS.iter().find(|p| p.0 == name) {
        return Some(property.1(at));
    }
    if name == SEPARATION_THRESHOLD {
        return Some(separation_threshold(at.f));
    }
    let property = OF_BLOB_CACHE.iter().find(|p| p.0 == name)?.1;
    let cache = at.f.family.blobs.cache()?;
    Some(property(cache.cache()) as u64)
}

/// Names of all integer properties, without the prefix.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    INTEGERS.iter().map(|p| p.0)
}

impl Properties<'_> {
    /// An integer property of a family by its full name; `None` if it is unknown. A family that was dropped has
    /// them as long as there are handles of it.
    pub(in crate::db) fn integer(&self, family: &Arc<Family>, name: &str) -> Option<u64> {
        let name = match name {
            SEPARATION_THRESHOLD => name,
            _ => name.strip_prefix("rocksdb.")?,
        };
        let dropped;
        let state = self.state.lock();
        let f = match state.family(family.id) {
            Some(f) => f,
            None => {
                dropped = FamilyState::of_dropped(family);
                &dropped
            }
        };
        let (e, s) = (self, &*state);
        value(name, &At { e, s, f })
    }
}
