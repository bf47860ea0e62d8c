//! One table while a flush, a compaction or a recovery writes it.
//!
//! The builder encodes the entries, the bounds collect what a version edit says of the table. Order of
//! calls: entries ascending, [`TableOutput::settle`], range tombstones, [`TableOutput::finish`].

use crate::core::{
    Components, CoveredBytes, Family, FamilySettings, FileBounds, Lsm, NewTable, Recheck, Reporter,
    SeqnoTimes, codec_choice, compression_options,
};
use crate::filter::TableCreation;
use crate::version::{BLOB_REFS, FileChecksum, FileSum, IoTimes, NewFile};
use spanlith_base::CompressionType;
use spanlith_base::range_del::OutputTombstone;
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::IoActivity;
use spanlith_table::{BuilderOptions, TableBuilder, TableFormat};
use std::path::Path;
use std::sync::Arc;

/// Where a table goes.
pub(crate) struct TableTarget<'a> {
    pub path: &'a Path,
    /// For whom it is written; decides its priority with the rate limiter.
    pub activity: IoActivity,
    /// Measures the calls of the file, if somebody wants to know.
    pub io_times: Option<&'a Arc<IoTimes>>,
}

/// Describes what the writer of a table knows at its end.
pub(crate) struct TableEnd<'a> {
    pub family: &'a Family,
    pub level: usize,
    /// When the oldest entry was written, in seconds.
    pub ancester_time: u64,
    /// When the table was made, in seconds.
    pub created: u64,
    /// When sequence numbers were assigned, if the family keeps that.
    pub times: Option<&'a SeqnoTimes>,
    /// Says what is read back.
    pub checks: Recheck,
    /// Says in which directory the table is.
    pub path_id: u32,
}

/// A table that is being written.
pub(crate) struct TableOutput {
    builder: TableBuilder,
    bounds: FileBounds,
    number: u64,
    sum: Option<FileSum>,
}

impl TableOutput {
    /// Creates the file `options.file_number`.
    ///
    /// # Errors
    /// Of the file system.
    pub(crate) fn create(
        lsm: &Lsm,
        target: &TableTarget<'_>,
        options: BuilderOptions,
    ) -> Result<Self> {
        let io = &lsm.c.io;
        if matches!(options.table.format, TableFormat::Cuckoo(_)) && !io.allows_mapping() {
            // Nobody could read it: as in RocksDB, which opens what it has written.
            return Err(Error::invalid_argument("File is not mmaped").with_path(target.path));
        }
        let is_urgent = lsm.is_held_up();
        let file = io.create_table(target.path, target.activity, is_urgent, target.io_times)?;
        let (file, sum) = FileChecksum::of(&lsm.c.options).watch(file);
        let number = options.file_number;
        let builder = TableBuilder::new(options, file);
        let bounds = FileBounds::new(&builder);
        Ok(Self {
            builder,
            bounds,
            number,
            sum,
        })
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// Of the file; of an entry that is out of order.
    #[inline(always)]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.builder.add(internal_key, value)?;
        self.bounds.add(internal_key, value);
        Ok(())
    }

    /// Records in a property what the table refers to in blob files (`spanlith.blob.refs`). Before the
    /// first entry.
    pub(crate) fn record_blob_refs(&mut self) {
        self.bounds.record_blob_refs();
    }

    /// Number of the file.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes written so far.
    #[inline]
    pub(crate) fn file_size(&self) -> u64 {
        self.builder.file_size()
    }

    /// Bytes that the end of the file will take, by estimate.
    pub(crate) fn rest_size_estimate(&self) -> u64 {
        self.builder.rest_size_estimate()
    }

    /// Smallest internal key of the entries; empty without any.
    pub(crate) fn smallest(&self) -> &[u8] {
        &self.bounds.smallest
    }

    /// Largest internal key of the entries, after [`Self::settle`]; empty without any.
    pub(crate) fn largest(&self) -> &[u8] {
        &self.bounds.largest
    }

    /// To be called after all entries, before range tombstones.
    pub(crate) fn settle(&mut self) {
        self.bounds.settle(&self.builder);
    }

    /// Adds a range tombstone, and to `covered` what it covers.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn add_tombstone(
        &mut self,
        comparator: &Comparator,
        tombstone: &OutputTombstone,
        covered: Option<&mut CoveredBytes<'_>>,
    ) -> Result<()> {
        self.builder
            .add_range_tombstone(&tombstone.key(), &tombstone.end)?;
        self.bounds.add_tombstone(comparator, tombstone);
        if let Some(covered) = covered {
            covered.add(tombstone);
            self.bounds.covered_bytes = covered.total;
        }
        Ok(())
    }

    /// Returns whether it holds neither entries nor range tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.builder.num_entries() == 0
    }

    /// Gives the file up; the caller deletes it.
    pub(crate) fn abandon(self) {
        self.builder.abandon();
    }

    /// Writes the rest of the file, syncs it and reads it back as far as `end.checks` says. `describe`
    /// completes what the version edit says of the table.
    ///
    /// # Errors
    /// Of the file; `Corruption` if what is read back differs.
    pub(crate) fn finish(
        mut self,
        lsm: &Lsm,
        end: &TableEnd<'_>,
        describe: impl FnOnce(&mut NewFile),
    ) -> Result<NewTable> {
        debug_assert!(!self.is_empty(), "an empty table is abandoned");
        if let Some(times) = end.times {
            self.builder
                .set_seqno_times(self.bounds.encode_times(times));
        }
        if let Some(refs) = self.bounds.blob_refs() {
            self.builder.set_property(BLOB_REFS, refs.encode());
        }
        let summary = self.builder.finish()?;
        let level = end.level as u32;
        let (ancester, created) = (end.ancester_time, end.created);
        let mut file = (self.bounds).into_new_file(level, self.number, &summary, ancester, created);
        if let Some(sum) = self.sum {
            sum.describe(&mut file);
        }
        file.path_id = end.path_id;
        describe(&mut file);
        let how = (&lsm.c.env.fs, &lsm.c.options);
        end.checks.verify(how, end.family, &file, &summary)?;
        let properties = Arc::new(summary.properties);
        Ok(NewTable { file, properties })
    }
}

/// Options of a table of `family` that becomes file `number`. Filters are those of a flush.
pub(crate) fn builder_options(
    c: &Components,
    reporter: &Reporter,
    family: &Family,
    settings: &FamilySettings,
    number: u64,
    compression: CompressionType,
    ancester_time: u64,
) -> BuilderOptions {
    BuilderOptions {
        table: settings.table.clone(),
        comparator: family.comparator.clone(),
        compression,
        compression_options: compression_options(&settings.options),
        codec_choice: codec_choice(&settings.options, false),
        sample_for_compression: settings.options.sample_for_compression,
        target_file_size: settings.options.target_file_size_base,
        column_family_id: family.id,
        column_family_name: family.name.clone(),
        file_number: number,
        db_id: c.db_id.clone(),
        db_session_id: c.session_id.clone(),
        db_host_id: c.host_id.clone(),
        merge_operator_name: family
            .merge_operator
            .as_ref()
            .map_or_else(|| "nullptr".to_string(), |m| m.name().to_string()),
        creation_time: ancester_time,
        file_creation_time: c.env.clock.now_seconds(),
        filter_level: -1,
        collectors: family.collectors.clone(),
        prefix_extractor: settings.prefix_extractor.clone(),
        persist_timestamps: settings.options.persist_user_defined_timestamps,
        hash_contents: settings.options.paranoid_file_checks,
        charges: family.cache.readers.charges.clone(),
        counters: reporter.write_counters(TableCreation::Flush),
        ..BuilderOptions::default()
    }
}
