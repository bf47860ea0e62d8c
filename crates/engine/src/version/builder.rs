//! A version plus edits gives the next version.
//!
//! The builder collects what edits delete and add and checks every step against the files known so
//! far; [`VersionBuilder::build`] merges the result with the base, sorts the levels and checks their
//! shape. Files of the base keep their `Arc`, so that readers, flags and statistics survive.
//!
//! Inside one edit deletions come before additions: a trivial move deletes a file in one level and
//! adds it in another.
//!
//! **Epochs.** Files of level 0 are ordered by epoch number. A MANIFEST of an older release has none:
//! then level 0 is ordered by sequence numbers and all epochs are assigned anew, from the deepest
//! level up, one number per level, then one per file of level 0 from the oldest on.
//!
//! Invariants: V1 (checked by `build`). Errors are `Corruption` with RocksDB's texts; after one the
//! builder is of no further use.

use super::blob_file::BlobFileMeta;
use super::edit::{BlobFileGarbage, NewFile, VersionEdit};
use super::file_meta::{FileMeta, PurgeSink, debug_internal_key};
use super::version::{Level, Version, newest_first_by_epoch, newest_first_by_seqno};
use spanlith_base::{Comparator, Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Describes what edits change in one level.
#[derive(Default)]
struct LevelDelta {
    deleted: HashSet<u64>,
    added: HashMap<u64, Arc<FileMeta>>,
}

/// Applies edits to a base version.
pub struct VersionBuilder {
    base: Arc<Version>,
    sink: Option<Weak<dyn PurgeSink>>,
    force_consistency_checks: bool,
    first_epoch: u64,
    deltas: Vec<LevelDelta>,
    /// Where files touched by edits are now; overrides the base.
    locations: HashMap<u64, Option<u32>>,
    /// Files deleted by an edit; a later addition of the same number is a move.
    deleted: HashMap<u64, Arc<FileMeta>>,
    /// Files in levels the family does not have. They may disappear again before `build`.
    beyond_last_level: HashSet<u64>,
    blob_files: BTreeMap<u64, Arc<BlobFileMeta>>,
    compact_cursors: BTreeMap<u32, Vec<u8>>,
    history_low: Vec<u8>,
}

impl VersionBuilder {
    /// Starts from `base`.
    pub fn new(base: &Arc<Version>) -> Self {
        Self {
            base: Arc::clone(base),
            sink: None,
            force_consistency_checks: true,
            first_epoch: 1,
            deltas: base.levels.iter().map(|_| LevelDelta::default()).collect(),
            locations: HashMap::new(),
            deleted: HashMap::new(),
            beyond_last_level: HashSet::new(),
            blob_files: base.blob_files.clone(),
            compact_cursors: base.compact_cursors.clone(),
            history_low: base.history_low.clone(),
        }
    }

    /// Where files added from now on report that they may be deleted.
    #[must_use]
    pub fn with_purge_sink(mut self, sink: Weak<dyn PurgeSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Turns the checks of the levels' shape in `build` on or off; on is the default.
    #[must_use]
    pub fn with_consistency_checks(mut self, on: bool) -> Self {
        self.force_consistency_checks = on;
        self
    }

    /// First epoch number to infer: 2 in a family that reserves 1 for ingestion behind, else 1.
    #[must_use]
    pub fn with_first_epoch(mut self, epoch: u64) -> Self {
        self.first_epoch = epoch;
        self
    }

    /// Applies the file changes of one edit.
    ///
    /// # Errors
    /// `Corruption` if it adds what is there, deletes what is not, or contradicts known blob files.
    pub fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        for blob in &edit.blob_file_additions {
            if self.blob_files.contains_key(&blob.number) {
                return Err(corrupt(format!("Blob file #{} already added", blob.number)));
            }
            let meta = BlobFileMeta::new(blob.clone(), self.sink.clone());
            self.blob_files.insert(blob.number, Arc::new(meta));
        }
        for garbage in &edit.blob_file_garbages {
            self.add_garbage(garbage)?;
        }
        for &(level, number) in &edit.deleted_files {
            self.delete(level, number)?;
        }
        for file in &edit.new_files {
            self.add(file)?;
        }
        for (level, key) in &edit.compact_cursors {
            self.compact_cursors.insert(*level, key.clone());
        }
        if let Some(low) = &edit.full_history_ts_low {
            let c = &self.base.comparator;
            // Of another size if timestamps were switched off since.
            let fits = !low.is_empty() && low.len() == c.timestamp_size();
            let rises = |to| {
                self.history_low.is_empty() || c.compare_timestamp(to, &self.history_low).is_gt()
            };
            if fits && rises(low) {
                self.history_low.clone_from(low);
            }
        }
        Ok(())
    }

    fn level_of(&self, number: u64) -> Option<u32> {
        match self.locations.get(&number) {
            Some(level) => *level,
            None => self
                .base
                .locate(number)
                .and_then(|(level, _)| u32::try_from(level).ok()),
        }
    }

    fn delete(&mut self, level: u32, number: u64) -> Result<()> {
        let current = self.level_of(number);
        if current != Some(level) {
            let place = match current {
                None => "not in the LSM tree".to_string(),
                Some(other) => format!("on level {other}"),
            };
            // C3: the inputs of an edit are in the version that it changes.
            return Err(corrupt(format!(
                "Cannot delete table file #{number} from level {level} since it is {place}"
            )));
        }
        self.locations.insert(number, None);
        let Some(delta) = self.deltas.get_mut(level as usize) else {
            self.beyond_last_level.remove(&number);
            return Ok(());
        };
        let file = match delta.added.remove(&number) {
            Some(file) => Some(file),
            None => {
                delta.deleted.insert(number);
                let base = &self.base.levels[level as usize];
                base.index_of(number).map(|i| Arc::clone(&base.files[i]))
            }
        };
        if let Some(file) = file {
            self.deleted.insert(number, file);
        }
        Ok(())
    }

    fn add(&mut self, file: &NewFile) -> Result<()> {
        let (level, number) = (file.level, file.number);
        if let Some(current) = self.level_of(number) {
            return Err(corrupt(format!(
                "Cannot add table file #{number} to level {level} since it is already in the LSM \
                 tree on level {current}"
            )));
        }
        self.locations.insert(number, Some(level));
        let Some(delta) = self.deltas.get_mut(level as usize) else {
            self.beyond_last_level.insert(number);
            return Ok(());
        };
        let meta = match self.deleted.remove(&number) {
            Some(old) if old.is_described_by(file) => {
                // Relaxed: a hint on its own.
                old.last_level.store(level, Ordering::Relaxed);
                if file.marked_for_compaction {
                    old.suggest();
                }
                old
            }
            Some(old) => Arc::new(old.redescribe(file)),
            None => Arc::new(FileMeta::from_new_file(file, self.sink.clone())),
        };
        delta.added.insert(number, meta);
        Ok(())
    }

    fn add_garbage(&mut self, garbage: &BlobFileGarbage) -> Result<()> {
        let number = garbage.number;
        let Some(blob) = self.blob_files.get_mut(&number) else {
            return Err(corrupt(format!("Blob file #{number} not found")));
        };
        let count = blob.garbage_count.checked_add(garbage.count);
        let bytes = blob.garbage_bytes.checked_add(garbage.bytes);
        match (count, bytes) {
            (Some(count), Some(bytes))
                if count <= blob.file.total_count && bytes <= blob.file.total_bytes =>
            {
                *blob = Arc::new(blob.with_garbage(count, bytes));
                Ok(())
            }
            _ => Err(corrupt(format!("Garbage overflow for blob file #{number}"))),
        }
    }

    /// Files of the base that the next version does not hold. Once the edits are durable their
    /// owner marks them obsolete.
    pub fn removed_files(&self) -> Vec<Arc<FileMeta>> {
        let gone = |f: &&Arc<FileMeta>| self.locations.get(&f.number) == Some(&None);
        self.base
            .file_iter()
            .map(|(_, f)| f)
            .filter(gone)
            .cloned()
            .collect()
    }

    /// Blob files of the base, or of the edits, that `next`, built by this builder, does not hold.
    /// Once the edits are durable their owner marks them obsolete.
    pub fn removed_blob_files(&self, next: &Version) -> Vec<Arc<BlobFileMeta>> {
        let gone = self.blob_files.iter();
        let gone = gone.filter(|(number, _)| !next.blob_files.contains_key(number));
        gone.map(|(_, file)| Arc::clone(file)).collect()
    }

    /// The next version.
    ///
    /// # Errors
    /// `InvalidArgument` if a file lies deeper than the last level; `Corruption` if levels are out
    /// of order or a table refers to a blob file that does not exist.
    pub fn build(&self) -> Result<Version> {
        if !self.beyond_last_level.is_empty() {
            return Err(Error::invalid_argument(
                "db has more levels than options.num_levels",
            ));
        }
        let mut levels: Vec<Option<Vec<Arc<FileMeta>>>> = self
            .deltas
            .iter()
            .enumerate()
            .map(|(i, d)| self.merged(i, d))
            .collect();

        let files_of = |level: usize, changed: &Option<Vec<Arc<FileMeta>>>| match changed {
            Some(files) => files.clone(),
            None => self.base.levels[level].files.clone(),
        };
        let lacks_epoch = levels.iter().enumerate().any(|(level, changed)| {
            let files = changed.as_ref().unwrap_or(&self.base.levels[level].files);
            files.iter().any(|f| f.epoch_number == 0)
        });
        if lacks_epoch {
            let mut all: Vec<_> = levels
                .iter()
                .enumerate()
                .map(|(i, changed)| files_of(i, changed))
                .collect();
            if let Some(level0) = all.first_mut() {
                level0.sort_by(|a, b| newest_first_by_seqno(a, b));
                if self.force_consistency_checks {
                    check_level0_by_seqno(level0)?;
                }
            }
            infer_epochs(&mut all, self.first_epoch);
            levels = all.into_iter().map(Some).collect();
        }

        let comparator = &self.base.comparator;
        let mut built = Vec::with_capacity(levels.len());
        for (level, changed) in levels.into_iter().enumerate() {
            let Some(mut files) = changed else {
                built.push(Arc::clone(&self.base.levels[level]));
                continue;
            };
            sort_level(comparator, level, &mut files);
            if self.force_consistency_checks {
                check_level(comparator, level, &files)?;
            }
            built.push(Arc::new(Level::new(comparator.clone(), files)));
        }
        let mut version = Version::new(comparator.clone(), built);
        version.blob_files = self.live_blob_files(&version)?;
        version.compact_cursors = self.compact_cursors.clone();
        version.history_low = self.history_low.clone();
        Ok(version)
    }

    /// Files of a level after the edits, unsorted; `None` if nothing changed.
    fn merged(&self, level: usize, delta: &LevelDelta) -> Option<Vec<Arc<FileMeta>>> {
        if delta.added.is_empty() && delta.deleted.is_empty() {
            return None;
        }
        let base = &self.base.levels[level].files;
        let kept = base.iter().filter(|f| !delta.deleted.contains(&f.number));
        Some(kept.chain(delta.added.values()).cloned().collect())
    }

    /// Blob files at or after the oldest one that a table is linked to, without those that are
    /// garbage only and linked to no table.
    fn live_blob_files(&self, version: &Version) -> Result<BTreeMap<u64, Arc<BlobFileMeta>>> {
        let mut linked = HashSet::new();
        for (_, file) in version.file_iter() {
            let number = file.oldest_blob_file_number;
            if number == 0 {
                continue;
            }
            // G1, for the oldest file that the table refers to.
            if !self.blob_files.contains_key(&number) {
                return Err(Error::corruption(format!(
                    "force_consistency_checks(VersionBuilder): Blob file #{number} is not part of \
                     this version"
                ))
                .with("table", file.number));
            }
            linked.insert(number);
        }
        let Some(&oldest) = linked.iter().min() else {
            return Ok(BTreeMap::new());
        };
        let is_live = |number: &u64, blob: &BlobFileMeta| {
            linked.contains(number) || blob.garbage_count < blob.file.total_count
        };
        let candidates = self.blob_files.range(oldest..);
        Ok(candidates
            .filter(|(number, blob)| is_live(number, blob))
            .map(|(number, blob)| (*number, Arc::clone(blob)))
            .collect())
    }
}

#[cold]
fn corrupt(text: String) -> Error {
    Error::corruption(format!("VersionBuilder: {text}"))
}

#[cold]
fn inconsistent(text: String) -> Error {
    Error::corruption(format!("force_consistency_checks(VersionBuilder): {text}"))
}

fn sort_level(comparator: &Comparator, level: usize, files: &mut [Arc<FileMeta>]) {
    if level == 0 {
        files.sort_by(|a, b| newest_first_by_epoch(a, b));
    } else {
        files.sort_by(|a, b| {
            let by_key = comparator.compare_internal(&a.smallest, &b.smallest);
            by_key.then_with(|| a.number.cmp(&b.number))
        });
    }
}

/// Assigns all epochs anew. `levels[0]` is newest first.
fn infer_epochs(levels: &mut [Vec<Arc<FileMeta>>], first: u64) {
    let mut next = first;
    let Some((level0, deeper)) = levels.split_first_mut() else {
        return;
    };
    for files in deeper.iter_mut().rev().filter(|files| !files.is_empty()) {
        for file in files {
            set_epoch(file, next);
        }
        next += 1;
    }
    for file in level0.iter_mut().rev() {
        set_epoch(file, next);
        next += 1;
    }
}

fn set_epoch(file: &mut Arc<FileMeta>, epoch: u64) {
    if file.epoch_number == epoch {
        return;
    }
    let mut described = file.to_new_file(0);
    described.epoch_number = epoch;
    *file = Arc::new(file.redescribe(&described));
}

/// V1, for a level in its order.
fn check_level(c: &Comparator, level: usize, files: &[Arc<FileMeta>]) -> Result<()> {
    for pair in files.windows(2) {
        let [a, b] = pair else { continue };
        if level == 0 {
            let apart = c.compare_internal(&a.largest, &b.smallest).is_lt()
                || c.compare_internal(&b.largest, &a.smallest).is_lt();
            if a.epoch_number == b.epoch_number && !apart {
                let side = |f: &FileMeta| {
                    format!(
                        "#{} , smallest key: {} , largest key: {} , epoch number: {}",
                        f.number,
                        debug_internal_key(&f.smallest),
                        debug_internal_key(&f.largest),
                        f.epoch_number
                    )
                };
                return Err(inconsistent(format!(
                    "L0 files of same epoch number but overlapping range {} vs. file {}",
                    side(a),
                    side(b)
                )));
            }
        } else if c.compare_internal(&a.largest, &b.smallest).is_ge() {
            // V1, below level 0.
            return Err(inconsistent(format!(
                "L{level} has overlapping ranges: file #{} largest key: {} vs. file #{} smallest \
                 key: {}",
                a.number,
                debug_internal_key(&a.largest),
                b.number,
                debug_internal_key(&b.smallest)
            )));
        }
    }
    for f in files {
        // A table of one entry needs no order; a user's comparator is not asked for nothing.
        if f.smallest != f.largest && c.compare_internal(&f.smallest, &f.largest).is_gt() {
            return Err(inconsistent(format!(
                "L{level} file #{} has smallest key {} behind largest key {}",
                f.number,
                debug_internal_key(&f.smallest),
                debug_internal_key(&f.largest)
            )));
        }
    }
    Ok(())
}

/// The order of level 0 by age while only sequence numbers tell it.
fn check_level0_by_seqno(files: &[Arc<FileMeta>]) -> Result<()> {
    for pair in files.windows(2) {
        let [newer, older] = pair else { continue };
        let one_seqno = older.smallest_seqno == older.largest_seqno;
        // A file of one sequence number may have been ingested; it must not be newer.
        let ok = if one_seqno {
            older.smallest_seqno == 0 || older.smallest_seqno < newer.largest_seqno
        } else {
            newer.smallest_seqno > older.smallest_seqno
        };
        // V2, among the files of level 0: an older file holds no newer entry.
        if !ok {
            return Err(inconsistent(format!(
                "L0 files seqno {} {} #{} vs. {} {} #{}",
                newer.smallest_seqno,
                newer.largest_seqno,
                newer.number,
                older.smallest_seqno,
                older.largest_seqno,
                older.number
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
