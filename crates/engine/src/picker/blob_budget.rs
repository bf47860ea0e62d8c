//! Collection of blob files by a target of space (`kvsep_gc=budget`).
//!
//! RocksDB collects from the oldest files on, whatever they hold. Here the files that give back most for
//! each byte that has to be written go first:
//!
//! ```text
//!   exposed = garbage of all blob files / bytes of all blob files
//!   value of a file = garbage / (live bytes + bytes of the tables that refer to it)
//! ```
//!
//! While `exposed` is above the target, the best files become *victims*, as many as bring it down to
//! four fifths of the target, and the tables that refer to one of them are rewritten at their level, one at
//! a time, which relocates those references only. Which tables these are, the property
//! `spanlith.blob.refs` says exactly; of a table without it (RocksDB wrote it) the oldest file is known, and
//! it may refer to all younger ones.
//!
//! Garbage that no compaction has met yet is *hidden*: the old reference lies in a lower level. Upper levels
//! are therefore due, too, when the bytes that they refer to exceed the target's share of all.

use super::inputs::Picking;
use crate::version::{BlobBudget, BlobFileMeta, FileMeta, Version};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Share of the target that collection comes down to, so that it does not begin again at once.
const DOWN_TO: f64 = 0.8;
/// Share of all bytes that the live bytes of the files emptied by one compaction may have, so that what is written
/// before their files go does not itself exceed the target; one file is always allowed.
const LIVE_MAX: f64 = 0.05;
/// Share of garbage from which on any compaction relocates what it meets of a file.
const PASSIVE_FROM: f64 = 0.5;

/// Numbers of blob files.
pub(crate) type BlobFileSet = BTreeSet<u64>;

/// Describes what the bytes of all blob files are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlobSpace {
    /// Bytes of all records.
    total: u64,
    /// Those that no table refers to.
    garbage: u64,
    /// Those that tables above the deepest level refer to, as far as is known: each may hide an older value.
    upper: u64,
}

impl BlobSpace {
    /// Adds up the files of a version.
    pub(crate) fn of(version: &Version) -> Self {
        let files = version.blob_files.values();
        let (total, garbage) = files.fold((0, 0), |(total, garbage), f| {
            (total + f.file.total_bytes, garbage + f.garbage_bytes)
        });
        let deepest = version.num_non_empty_levels().saturating_sub(1);
        let upper = (0..deepest).flat_map(|level| version.files(level));
        let upper = upper.filter_map(|f| f.blob_refs()).map(|r| r.bytes()).sum();
        Self {
            total,
            garbage,
            upper,
        }
    }

    /// Returns whether the garbage is more than that share of all bytes.
    fn exceeds(&self, share: f64) -> bool {
        self.garbage as f64 > share * self.total as f64
    }

    /// The share of all bytes that is garbage, or will be once compactions meet it, if all that upper levels refer to hides as
    /// much, and so do so many bytes of memtables.
    pub(crate) fn wasted(&self, memtables: u64) -> f64 {
        (self.garbage + self.upper + memtables) as f64 / self.total.max(1) as f64
    }
}

/// Bytes of the tables that refer to each blob file.
fn table_bytes(version: &Version) -> HashMap<u64, u64> {
    let mut sums = HashMap::new();
    for (_, table) in version.file_iter() {
        if let Some(refs) = table.blob_refs() {
            for r in refs.iter() {
                *sums.entry(r.file).or_insert(0) += table.size;
            }
        }
    }
    sums
}

/// Bytes given back for each byte written.
fn worth(file: &BlobFileMeta, tables: u64) -> f64 {
    let live = file.file.total_bytes - file.garbage_bytes;
    file.garbage_bytes as f64 / (live + tables).max(1) as f64
}

/// Chooses the files to be emptied, those first that give back most: as many as bring garbage, together with `coming`
/// bytes that are about to be some, down below the target if it is above, and those of which such a share is garbage.
fn choose(version: &Version, budget: BlobBudget, coming: u64, from: f64) -> BlobFileSet {
    let mut space = BlobSpace::of(version);
    space.garbage += coming;
    let is_due = space.exceeds(budget.target);
    let is_bad = |f: &BlobFileMeta| f.garbage_bytes as f64 >= from * f.file.total_bytes as f64;
    let mut files: Vec<_> = version.blob_files.values().collect();
    files.retain(|f| f.garbage_bytes > 0 && (is_due || is_bad(f)));
    if files.is_empty() {
        return BlobFileSet::new();
    }
    let tables = table_bytes(version);
    let of = |f: &BlobFileMeta| tables.get(&f.file.number).copied().unwrap_or(0);
    files.sort_by(|a, b| {
        let order = worth(b, of(b)).partial_cmp(&worth(a, of(a)));
        order.unwrap_or(Ordering::Equal)
    });
    let mut chosen = BlobFileSet::new();
    let live_max = (LIVE_MAX * space.total as f64) as u64;
    let mut live = 0;
    for file in files {
        let is_wanted = is_due && space.exceeds(DOWN_TO * budget.target);
        if !is_wanted && !is_bad(file) {
            continue;
        }
        live += file.file.total_bytes - file.garbage_bytes;
        if live > live_max && !chosen.is_empty() {
            break;
        }
        // Its live bytes are written again, its garbage goes.
        space.total -= file.garbage_bytes;
        space.garbage = space.garbage.saturating_sub(file.garbage_bytes);
        chosen.insert(file.file.number);
    }
    chosen
}

/// The files to be emptied by rewriting tables; none if the garbage is within the target.
pub(super) fn victims(version: &Version, budget: BlobBudget) -> BlobFileSet {
    match BlobSpace::of(version).exceeds(budget.target) {
        true => choose(version, budget, 0, f64::INFINITY),
        false => BlobFileSet::new(),
    }
}

/// The files whose references any compaction relocates when it meets them; one that makes `coming` bytes of garbage
/// empties as many as that takes.
pub(crate) fn passive(version: &Version, budget: BlobBudget, coming: u64) -> BlobFileSet {
    choose(version, budget, coming, PASSIVE_FROM)
}

/// Returns whether a table refers to one of the files, as far as is known.
fn refers(table: &FileMeta, files: &BlobFileSet) -> bool {
    match table.blob_refs() {
        Some(refs) => refs.iter().any(|r| files.contains(&r.file)),
        None => {
            let oldest = table.oldest_blob_file_number;
            oldest != 0 && files.range(oldest..).next().is_some()
        }
    }
}

impl Picking<'_> {
    /// Returns whether so much of the blob files is garbage that collection goes before other compactions.
    pub(super) fn blob_space_is_urgent(&self) -> bool {
        let budget = self.input.options.blob_budget;
        budget.is_some_and(|budget| BlobSpace::of(self.version()).exceeds(budget.max))
    }

    /// Tables that refer to victims, with their levels.
    pub(super) fn with_victims(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let budget = self.input.options.blob_budget;
        let victims = budget.map_or_else(BlobFileSet::new, |b| victims(self.version(), b));
        let levels = match victims.is_empty() {
            true => 0,
            false => self.version().num_levels(),
        };
        self.version()
            .file_iter()
            .take_while(move |(level, _)| *level < levels)
            .filter(move |(_, f)| !f.is_being_compacted() && refers(f, &victims))
    }
}
