//! Compacts files that a caller names, and drops the files of key ranges, or one that the caller names.
//!
//! A table that the caller names (RocksDB's former `DeleteFile`) leaves the version in an edit of its own, so that the call
//! either has no effect or a durable one. Only a table whose loss uncovers nothing older may go: one of the last level
//! that has tables, or the oldest of level 0 where no deeper level has any.

use super::compactor::Compactor;
use super::job::CompactionJob;
use crate::core::{DbState, Family, Lsm, settle_move};
use crate::listener::CompactionInfo;
use crate::options::{CompressionType, Temperature};
use crate::picker::{NamedFiles, files_within, pick_files};
use crate::version::{FileKind, FileMeta, VersionEdit, parse_file_name};
use spanlith_base::{Error, FileNumber, Result, keys};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How named files are compacted.
#[derive(Clone, Debug)]
pub struct CompactFilesOptions {
    /// Bytes at which outputs are cut; `u64::MAX` for any.
    pub output_file_size_limit: u64,
    /// Index of the directory the outputs go to; must be given if the family has several.
    pub output_path_id: Option<u32>,
    /// Codec of the new tables; `None` is what the level has.
    pub compression: Option<CompressionType>,
    /// Temperature of the new tables; `Unknown` means as the options say.
    pub output_temperature: Temperature,
    /// Ranges the work may be split into; 0 means as the database says.
    pub max_subcompactions: u32,
    /// Set to give up.
    pub canceled: Option<Arc<AtomicBool>>,
    /// Filled with what the compaction did once it ran, whether it succeeded or not.
    pub info: Option<Arc<OnceLock<CompactionInfo>>>,
}

impl Default for CompactFilesOptions {
    fn default() -> Self {
        Self {
            output_file_size_limit: u64::MAX,
            output_path_id: None,
            compression: None,
            output_temperature: Temperature::Unknown,
            max_subcompactions: 0,
            canceled: None,
            info: None,
        }
    }
}

/// A range of user keys; `None` is an open end.
pub type KeyRange<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl Compactor<'_> {
    /// Compacts the named tables, and what must go with them, into `output_level`; returns the
    /// numbers of the new tables.
    pub(crate) fn compact_files(
        &self,
        family: &Arc<Family>,
        numbers: &[u64],
        output_level: usize,
        options: &CompactFilesOptions,
    ) -> Result<Vec<u64>> {
        let lsm = self.lsm;
        lsm.writable()?;
        if lsm.state.lock().ends() {
            return Err(Error::shutdown(""));
        }
        // As in RocksDB before anything is looked at.
        if lsm.switches.manual_is_off(options.canceled.as_deref()) {
            return Err(super::job::manual_paused());
        }
        let output_path = match (options.output_path_id, family.cache.paths.count()) {
            (None, 1) => 0,
            (None, _) => {
                return Err(Error::not_supported(
                    "Automatic output path selection is not yet supported in CompactFiles()",
                ));
            }
            (Some(id), paths) if id as usize >= paths => {
                return Err(Error::not_supported("output_path_id"));
            }
            (Some(id), _) => id,
        };
        let codec = options
            .compression
            .map(CompressionType::for_writing)
            .transpose()?;
        let job = {
            let mut state = lsm.state.lock();
            if state.ends() {
                return Err(Error::shutdown(""));
            }
            if lsm.switches.all_are_off() {
                return Err(super::job::compaction_aborted());
            }
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            if state.jobs.are_paused() {
                return Err(super::job::manual_paused());
            }
            let f = state.alive(family.id)?;
            let named = NamedFiles {
                numbers,
                output_level,
                output_path,
                output_file_size_limit: options.output_file_size_limit,
                family: &family.name,
            };
            let mut plan = pick_files(&f.picker_input(&lsm.times, &lsm.options()), &named)?;
            if let Some(codec) = codec {
                plan.compression = codec;
            }
            settle_move(&f.version, &family.cache.paths, &mut plan);
            let job = self.start(&mut state, family.id, plan);
            state.jobs.begin_manual(false);
            job
        };
        let result = match job {
            None => Ok(Vec::new()),
            Some(job) => {
                let job = CompactionJob {
                    output_temperature: options.output_temperature,
                    max_subcompactions: options.max_subcompactions,
                    canceled: options.canceled.clone(),
                    told: options.info.clone(),
                    ..job
                };
                let result = self.run_for_caller(&job);
                self.end(&job);
                result
            }
        };
        lsm.state.lock().jobs.end_manual(false);
        lsm.state.notify_all();
        lsm.purge_for_caller();
        result
    }
}

/// Drops whole tables in edits of their own.
pub(crate) struct TableRemoval<'a> {
    lsm: &'a Lsm,
}

impl<'a> TableRemoval<'a> {
    /// That of these trees.
    pub(crate) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Drops the tables below level 0 that lie wholly in one of the ranges of user keys, whatever
    /// snapshots see in them. `None` is an open end. A dropped family refuses if there is such a table.
    pub(crate) fn delete_files_in_ranges(
        &self,
        family: &Arc<Family>,
        ranges: &[KeyRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        self.lsm.writable()?;
        let mut taken = Vec::new();
        let mut edit = VersionEdit::default();
        {
            let state = self.lsm.state.lock();
            let alive = state.alive(family.id);
            let version = match &alive {
                Ok(alive) => alive.version.clone(),
                Err(_) => family.superversion.load().version.clone(),
            };
            let mut seen = BTreeSet::new();
            for &(begin, end) in ranges {
                let key = |user: Cow<'_, [u8]>| keys::internal_key(&user, keys::seek_tag(0));
                let low = family.pad(begin, 0xff).map(key);
                let high = family.pad(end, if include_end { 0 } else { 0xff }).map(key);
                for level in 1..version.num_levels() {
                    for file in files_within(&version, level, low.as_deref(), high.as_deref()) {
                        let at_end = end.is_some_and(|end| {
                            let (largest, _) =
                                family.comparator.split_timestamp(file.largest_user_key());
                            family
                                .comparator
                                .compare_without_timestamp(largest, false, end, false)
                                .is_eq()
                        });
                        if file.is_being_compacted()
                            || (at_end && !include_end)
                            || !seen.insert(file.number)
                        {
                            continue;
                        }
                        edit.deleted_files.push((level as u32, file.number));
                        taken.push(file);
                    }
                }
            }
            if taken.is_empty() {
                return Ok(());
            }
            alive?;
            for file in &taken {
                file.being_compacted.store(true, Ordering::Relaxed);
            }
        }
        let done = self.lsm.log_and_apply(family, edit, |_| {});
        {
            let _state = self.lsm.state.lock();
            for file in &taken {
                file.being_compacted.store(false, Ordering::Relaxed);
            }
        }
        // A refit may wait for that.
        self.lsm.state.notify_all();
        drop(taken);
        self.lsm.purge_for_caller();
        Ok(done?)
    }

    /// Deletes the table called `name` (`/000012.sst` or `000012.sst`), whatever snapshots see in it.
    ///
    /// # Errors
    /// `InvalidArgument` if no family has the table, if it is being compacted, or if its place is not
    /// one from which a table may go; errors of the MANIFEST.
    pub(crate) fn delete_table_file(&self, name: &str) -> Result<()> {
        self.lsm.writable()?;
        let Some(FileKind::Table(number)) = parse_file_name(name) else {
            return Err(Error::invalid_argument(format!(
                "Invalid file name: {name}"
            )));
        };
        let (family, level, file) = self.lsm.state.lock().claim_last_table(name, number)?;
        let mut edit = VersionEdit::default();
        edit.deleted_files.push((level as u32, number));
        let done = self.lsm.log_and_apply(&family, edit, |_| {});
        {
            let _state = self.lsm.state.lock();
            file.being_compacted.store(false, Ordering::Relaxed);
        }
        self.lsm.state.notify_all();
        drop(file);
        self.lsm.purge_for_caller();
        Ok(done?)
    }
}

impl DbState {
    /// Marks table `number`, which callers know as `name`, as about to go, if its loss uncovers nothing older. Returns its
    /// family and its level.
    ///
    /// # Errors
    /// `InvalidArgument` if no family has the table, if it is being compacted, or if its place is not
    /// one from which a table may go.
    fn claim_last_table(
        &self,
        name: &str,
        number: FileNumber,
    ) -> Result<(Arc<Family>, usize, Arc<FileMeta>)> {
        let refused = |why: &str| Err(Error::invalid_argument(format!("{why}: {name}")));
        let found = self.families.values().find_map(|family| {
            let mut files = family.version.file_iter();
            let (level, file) = files.find(|(_, f)| f.number == number)?;
            Some((family, level, file.clone()))
        });
        let Some((family, level, file)) = found else {
            return refused("File not found");
        };
        let version = &family.version;
        if file.is_being_compacted() {
            return refused("File is being compacted");
        }
        let mut deeper = level + 1..version.num_levels();
        if deeper.any(|deeper| !version.files(deeper).is_empty()) {
            return refused("File not in last level");
        }
        let oldest = version.files(0).last();
        if level == 0 && oldest.is_some_and(|oldest| oldest.number != number) {
            return refused("File in level 0, but not oldest");
        }
        file.being_compacted.store(true, Ordering::Relaxed);
        Ok((family.family.clone(), level, file))
    }
}
