//! Describes what a flush says of itself: events, listeners, statistics.

use super::job::Built;
use crate::core::{Family, FamilySettings, JobNumbers, NewTable, Reporter, SizeTally, TreeFacts};
use crate::info_log::events::{BlobFileCreation, FlushFinished, FlushStarted, TableFileCreation};
use crate::listener::{BlobFileInfo, FlushInfo, FlushReason, TableFileInfo};
use crate::version::edit::BlobFileAddition;
use crate::version::{NewFile, blob_bytes};
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_env::thread_number;
use spanlith_memtable::MemTable;
use spanlith_table::TableProperties;
use std::sync::Arc;

/// A flush of one family.
pub(super) struct FlushNote<'a> {
    pub family: &'a Arc<Family>,
    pub settings: &'a FamilySettings,
    pub job: u64,
    pub number: u64,
    pub reason: FlushReason,
    /// Files in level 0, those of the flush included once it is installed: a compaction may take them
    /// before listeners hear of it.
    pub level0_files: usize,
    /// Entries, and bytes of keys and values, in its memtables.
    pub entries: u64,
    pub payload_bytes: u64,
    /// Of these, bytes of entries that were read as part of others.
    pub joined_bytes: u64,
}

/// Bytes of the lengths that RocksDB's memtables hold in front of keys and values, about.
fn length_bytes(payload: u64, entries: u64) -> u64 {
    let of_value = match payload.checked_div(entries).unwrap_or(0) {
        ..128 => 1,
        128..16384 => 2,
        _ => 3,
    };
    entries * (1 + of_value)
}

impl Reporter {
    /// A flush is about to write its table.
    pub(super) fn note_flush_begin(&self, n: &FlushNote<'_>, mems: &[Arc<MemTable>]) {
        let sum = |of: fn(&MemTable) -> u64| mems.iter().map(|m| of(m)).sum();
        self.log().flush_started(&FlushStarted {
            job: n.job,
            num_memtables: mems.len() as u64,
            total_num_input_entries: n.entries,
            num_deletes: sum(MemTable::deletes),
            total_data_size: n.payload_bytes + length_bytes(n.payload_bytes, n.entries),
            memory_usage: sum(|m| m.memory_usage() as u64),
            num_range_deletes: sum(MemTable::range_deletes),
            flush_reason: n.reason.name(),
        });
        if let Some(s) = self.statistics() {
            let memory = sum(|m| m.memory_usage() as u64);
            s.record(Histogram::FlushMemtableMemoryBytes, memory);
            if n.reason == FlushReason::WriteBufferFull {
                s.record(Histogram::FlushWriteBufferFullMemtableMemoryBytes, memory);
            }
            let entries = n.entries + sum(MemTable::range_deletes);
            let bytes = n.payload_bytes + length_bytes(n.payload_bytes, entries);
            s.record(Histogram::FlushMemtableTotalDataSizeBytes, bytes);
        }
        self.listeners().on_flush_begin(|| {
            let none = Arc::new(TableProperties::default());
            flush_info(n, None, none)
        });
    }

    /// A flush that took `micros` is installed; `now` are monotonic nanoseconds.
    pub(super) fn note_flush_end(&self, n: &FlushNote<'_>, built: &Built, micros: u64, now: u64) {
        let table = built.table.as_ref();
        let version = n.family.superversion.load().version.clone();
        let file = table.map(|t| &t.file);
        let properties = table.map(|t| t.properties.clone()).unwrap_or_default();
        let mut job = JobNumbers {
            micros,
            entries_read: n.entries,
            jobs: 1,
            ..JobNumbers::default()
        };
        if let Some(table) = table {
            job.written_bytes = table.file.size;
            job.files_written = 1;
            job.uncompressed_bytes = properties.raw_key_size + properties.raw_value_size;
            job.entries_dropped = n.entries.saturating_sub(properties.num_entries);
            self.note_table(n.family, n.job, table);
        }
        job.blob_written_bytes = blob_bytes(&built.blobs);
        self.note_blob_files(n.family, n.job, &built.blobs);
        n.family.counters.add_flush(&job);
        if let Some(tally) = &built.tally {
            self.adapt(n.family, n.settings, tally, now);
        }
        if let Some(s) = self.statistics() {
            s.add(
                Ticker::FlushWriteBytes,
                job.written_bytes + job.blob_written_bytes,
            );
            // As in RocksDB nothing is said of a table that holds more, in fragments of ranges.
            let payload = n.payload_bytes.saturating_sub(n.joined_bytes);
            if let Some(garbage) = payload.checked_sub(job.uncompressed_bytes) {
                s.add(Ticker::MemtablePayloadBytesAtFlush, payload);
                s.add(Ticker::MemtableGarbageBytesAtFlush, garbage);
            }
            if n.reason == FlushReason::WriteBufferFull {
                s.add(Ticker::FlushReasonWriteBufferFull, 1);
            }
            s.record_time(Histogram::DbFlushMicros, micros);
        }
        let compression = n.settings.levels.compression_for(0);
        let levels = 0..version.num_levels();
        let lsm_state: Vec<u64> = levels.map(|l| version.num_files(l) as u64).collect();
        let sealed = n.family.superversion.load().imm.len() as u64;
        self.log().flush_finished(&FlushFinished {
            job: n.job,
            output_compression: compression.word(),
            lsm_state: &lsm_state,
            immutable_memtables: sealed,
        });
        self.listeners().on_flush_completed(|| FlushInfo {
            blob_compression: n.settings.options.blob_compression_type.as_byte(),
            blob_files: n.family.blob_records(&built.blobs),
            ..flush_info(n, file, properties)
        });
    }

    /// Looks at the threshold of separation, and says why it changes.
    fn adapt(&self, family: &Family, settings: &FamilySettings, tally: &SizeTally, now: u64) {
        let Some(reads) = family.blobs.reads() else {
            return;
        };
        let version = family.superversion.load().version.clone();
        let numbers = family.counters.numbers();
        let of_jobs = |of: fn(&JobNumbers) -> u64| of(&numbers.low) + of(&numbers.high);
        let blobs = || version.blob_files.values();
        let facts = TreeFacts {
            total_bytes: version.total_size() + blobs().map(|f| f.size()).sum::<u64>(),
            memtable_bytes: settings.options.write_buffer_size,
            base_bytes: settings.options.max_bytes_for_level_base,
            growth: settings.options.max_bytes_for_level_multiplier,
            written_bytes: of_jobs(|j| j.written_bytes),
            flushed_bytes: numbers.high.written_bytes,
            job_micros: of_jobs(|j| j.micros),
            job_bytes: of_jobs(|j| j.written_bytes + j.blob_written_bytes),
            garbage_bytes: blobs().map(|f| f.garbage_bytes).sum(),
            blob_bytes: blobs().map(|f| f.file.total_bytes).sum(),
        };
        let decision = family.adaptive.flushed(tally, reads.numbers(), now, &facts);
        if let Some(d) = decision {
            self.log().info(format_args!(
                "[{}] values are separated from {} bytes on, from {} before: of those of {} bytes and more \
                 separation saves {:.0} us of writing and costs {:.0} us of reading",
                family.name,
                d.threshold,
                d.before,
                d.class,
                d.gain / 1000.0,
                d.loss / 1000.0
            ));
        }
    }

    /// Blob files were written and installed.
    pub(crate) fn note_blob_files(&self, family: &Family, job: u64, files: &[BlobFileAddition]) {
        for file in files {
            self.log().blob_file_creation(&BlobFileCreation {
                job,
                cf_name: &family.name,
                file_number: file.number,
                blobs: file.total_count,
                bytes: file.total_bytes,
                checksum: &file.checksum_value,
                checksum_function: &file.checksum_method,
            });
            self.listeners().on_blob_file_created(|| BlobFileInfo {
                cf_name: family.name.clone(),
                path: family.cache.paths.blob(file.number),
                job,
                number: file.number,
                count: file.total_count,
                bytes: file.total_bytes,
            });
        }
    }

    /// A table was written and installed.
    pub(crate) fn note_table(&self, family: &Family, job: u64, table: &NewTable) {
        let NewTable { file, properties } = table;
        let checksum: String = file
            .file_checksum
            .iter()
            .map(|b| format!("{b:02X}"))
            .collect();
        let checksum_function = String::from_utf8_lossy(&file.file_checksum_func_name);
        self.log().table_file_creation(&TableFileCreation {
            job,
            cf_name: &family.name,
            file_number: file.number,
            file_size: file.size,
            file_checksum: &checksum,
            file_checksum_func_name: &checksum_function,
            seqnos: (file.smallest_seqno, file.largest_seqno),
            properties,
            result: &Ok(()),
        });
        self.listeners().on_table_file_created(|| TableFileInfo {
            cf_name: family.name.clone(),
            path: family.table_path(file.number, file.path_id),
            job,
            bytes: file.size,
            properties: properties.clone(),
            result: Ok(()),
        });
    }
}

fn flush_info(
    n: &FlushNote<'_>,
    file: Option<&NewFile>,
    properties: Arc<TableProperties>,
) -> FlushInfo {
    let l0 = i32::try_from(n.level0_files).unwrap_or(i32::MAX);
    let o = &n.settings.options;
    FlushInfo {
        cf_id: n.family.id,
        cf_name: n.family.name.clone(),
        job: n.job,
        thread_id: thread_number(),
        file_path: (n.family).table_path(n.number, file.map_or(0, |f| f.path_id)),
        file_number: n.number,
        triggered_writes_slowdown: l0 >= o.level0_slowdown_writes_trigger,
        triggered_writes_stop: l0 >= o.level0_stop_writes_trigger,
        oldest_blob_file: file.map_or(0, |f| f.oldest_blob_file_number),
        smallest_seqno: file.map_or(0, |f| f.smallest_seqno),
        largest_seqno: file.map_or(0, |f| f.largest_seqno),
        properties,
        reason: n.reason,
        blob_compression: 0,
        blob_files: Vec::new(),
    }
}
