//! Describes what a compaction says of itself: events, listeners, statistics.

use super::job::CompactionJob;
use super::work::{Rewritten, Work};
use crate::core::{JobNumbers, JobTimes, NewTable, Reporter};
use crate::info_log::events;
use crate::listener::{BlobFileRecords, CompactionFile, CompactionInfo, CompactionStats};
use crate::picker::CompactionReason;
use crate::version::NewFile;
use crate::version::blob_bytes;
use crate::version::edit::{BlobFileAddition, BlobFileGarbage};
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_base::{MAX_SEQUENCE, Result, keys};
use spanlith_env::thread_number;
use std::path::PathBuf;
use std::sync::Arc;

/// RocksDB's number of a reason, by its name; 0 for one it does not know.
fn reason_number(name: &str) -> u32 {
    const NAMES: [&str; 21] = [
        "Unknown",
        "LevelL0FilesNum",
        "LevelMaxLevelSize",
        "UniversalSizeAmplification",
        "UniversalSizeRatio",
        "UniversalSortedRunNum",
        "FIFOMaxSize",
        "FIFOReduceNumFiles",
        "FIFOTtl",
        "ManualCompaction",
        "FilesMarkedForCompaction",
        "BottommostFiles",
        "Ttl",
        "Flush",
        "ExternalSstIngestion",
        "PeriodicCompaction",
        "ChangeTemperature",
        "ForcedBlobGC",
        "RoundRobinTtl",
        "RefitLevel",
        "ReadTriggered",
    ];
    let at = NAMES.iter().position(|n| *n == name);
    at.unwrap_or(0) as u32
}

/// Describes what became of one part of a compaction.
pub(super) struct PartDone<'a> {
    pub part: u64,
    pub result: Result<()>,
    pub files: &'a [NewFile],
    /// Blob files written.
    pub blobs: &'a [BlobFileAddition],
    pub work: &'a Work,
    pub elapsed_micros: u64,
}

/// Bytes of a key that listeners are told of the ends of what was written, as in RocksDB.
const PREFIX_LEN: usize = 8;

/// How many of a job's inputs lie in its output level.
fn files_at_output_level(job: &CompactionJob) -> usize {
    let at_output = (job.plan.inputs.iter()).filter(|i| i.0 == job.plan.output_level);
    at_output.map(|i| i.1.len()).sum()
}

/// Numbers of a job that rewrites tables, with what is known of its inputs.
fn stats_of_inputs(job: &CompactionJob, stats: CompactionStats) -> CompactionStats {
    let plan = &job.plan;
    CompactionStats {
        input_files: plan.input_files().count(),
        input_files_at_output_level: files_at_output_level(job),
        input_bytes: plan.input_bytes(),
        is_full: plan.is_full,
        is_manual: plan.reason.is_manual(),
        ..stats
    }
}

/// Numbers of a job that moves tables. As in RocksDB there are no others, whoever asked for it.
fn stats_of_move(job: &CompactionJob) -> CompactionStats {
    let files = job.plan.input_files().count();
    CompactionStats {
        input_files: files,
        moved_files: files,
        ..CompactionStats::default()
    }
}

/// Returns what listeners are told of the garbage that a compaction made.
fn garbage_left(job: &CompactionJob, garbage: &[BlobFileGarbage]) -> Vec<BlobFileRecords> {
    let told = garbage.iter().map(|g| BlobFileRecords {
        path: job.family.cache.paths.blob(g.number),
        number: g.number,
        count: g.count,
        bytes: g.bytes,
    });
    told.collect()
}

/// The first bytes of the smallest and the largest user key that was written.
fn ends_of(job: &CompactionJob, tables: &[NewTable]) -> (Vec<u8>, Vec<u8>) {
    let c = &job.family.comparator;
    let compare = |a: &&[u8], b: &&[u8]| c.compare(a, b);
    let smallest = tables.iter().map(|t| keys::user_key(&t.file.smallest));
    let largest = tables.iter().map(|t| keys::user_key(&t.file.largest));
    let prefix = |key: &[u8]| key[..key.len().min(PREFIX_LEN)].to_vec();
    (
        smallest.min_by(compare).map_or_else(Vec::new, prefix),
        largest.max_by(compare).map_or_else(Vec::new, prefix),
    )
}

fn paths_of(job: &CompactionJob, files: &[NewFile]) -> Vec<PathBuf> {
    let path = |f: &NewFile| job.family.table_path(f.number, f.path_id);
    files.iter().map(path).collect()
}

fn described(file: &NewFile) -> CompactionFile {
    CompactionFile {
        level: file.level as usize,
        number: file.number,
        oldest_blob_file: file.oldest_blob_file_number,
    }
}

impl Reporter {
    /// A compaction was picked.
    pub(super) fn count_picked(&self, job: &CompactionJob) {
        if let Some(s) = self.statistics()
            && !job.plan.reason.is_manual()
        {
            let files = job.plan.inputs.first().map_or(0, |(_, files)| files.len());
            s.record(Histogram::NumfilesInSinglecompaction, files as u64);
        }
    }

    /// A compaction is about to run; `oldest` is the sequence number of the oldest snapshot.
    pub(super) fn note_compaction_begin(
        &self,
        job: &CompactionJob,
        times: Option<&JobTimes>,
        oldest: Option<u64>,
    ) {
        let plan = &job.plan;
        let inputs: Vec<(usize, Vec<u64>)> = plan
            .inputs
            .iter()
            .map(|(level, files)| (*level, files.iter().map(|f| f.number).collect()))
            .collect();
        self.log().compaction_started(&events::CompactionStarted {
            job: job.id,
            cf_name: &job.family.name,
            compaction_reason: plan.reason.name(),
            inputs: &inputs,
            score: plan.score,
            input_data_size: plan.input_bytes(),
            oldest_snapshot_seqno: oldest,
            proximal: (plan.proximal.as_ref().zip(times)).map(|(p, times)| {
                events::ProximalBounds {
                    after_seqno: times.proximal_after,
                    preserve_seqno_after: (times.keep_from - 1).min(oldest.unwrap_or(MAX_SEQUENCE)),
                    level: p.level as u64,
                }
            }),
        });
        self.listeners().on_compaction_begin(|| {
            let known = CompactionStats {
                // As in RocksDB counted only when the job is done.
                input_files_at_output_level: 0,
                ..stats_of_inputs(job, CompactionStats::default())
            };
            whole_info(job, &[], Ok(()), known)
        });
    }

    /// A part of a compaction is about to run, on this thread.
    pub(super) fn note_part_begin(&self, job: &CompactionJob, part: u64) {
        self.listeners().on_subcompaction_begin(|| CompactionInfo {
            subcompaction: part,
            ..compaction_info(job, &[], Ok(()), CompactionStats::default())
        });
    }

    /// A part of a compaction has run, on this thread.
    pub(super) fn note_part_end(&self, job: &CompactionJob, done: &PartDone<'_>) {
        self.listeners()
            .on_subcompaction_completed(|| CompactionInfo {
                subcompaction: done.part,
                ..compaction_info(
                    job,
                    done.files,
                    done.result.clone(),
                    CompactionStats {
                        elapsed_micros: done.elapsed_micros,
                        output_files: done.files.len(),
                        output_bytes: done.files.iter().map(|f| f.size).sum(),
                        output_blob_files: done.blobs.len(),
                        output_blob_bytes: blob_bytes(done.blobs),
                        ..done.work.stats(&job.plan)
                    },
                )
            });
    }

    /// Tables are about to change their level as they are. Listeners hear of it as of a compaction without
    /// parts.
    pub(super) fn note_move_begin(&self, job: &CompactionJob) {
        let info = || whole_info(job, &[], Ok(()), stats_of_move(job));
        self.listeners().on_compaction_begin(info);
    }

    /// Tables changed their level, or did not.
    pub(super) fn note_move_end(&self, job: &CompactionJob, moved: &[NewFile], result: Result<()>) {
        let plan = &job.plan;
        if result.is_ok() {
            let bytes = plan.input_bytes();
            job.family.counters.add_move(plan.output_level, bytes);
            self.log().trivial_move(&events::TrivialMove {
                job: job.id,
                destination_level: plan.output_level as u64,
                files: plan.input_files().count() as u64,
                total_files_size: bytes,
            });
        }
        self.listeners().on_compaction_completed(|| CompactionInfo {
            output_files: paths_of(job, moved),
            output_file_infos: moved.iter().map(described).collect(),
            ..whole_info(job, &[], result.clone(), stats_of_move(job))
        });
    }

    /// A FIFO compaction is installed.
    fn count_fifo(&self, reason: CompactionReason) {
        match reason {
            CompactionReason::FifoMaxSize => self.tick(Ticker::FifoMaxSizeCompactions),
            CompactionReason::FifoTtl => self.tick(Ticker::FifoTtlCompactions),
            CompactionReason::ChangeTemperature => {
                self.tick(Ticker::FifoChangeTemperatureCompactions);
            }
            _ => {}
        }
    }

    /// Tables were deleted whole, or were not.
    pub(super) fn note_deletion_end(&self, job: &CompactionJob, result: Result<()>) {
        if result.is_ok() {
            let plan = &job.plan;
            self.count_fifo(plan.reason);
            self.log()
                .info(format_args!("[{}] {plan}", job.family.name));
        }
        self.listeners().on_compaction_completed(|| {
            whole_info(
                job,
                &[],
                result.clone(),
                stats_of_inputs(job, CompactionStats::default()),
            )
        });
    }

    /// A compaction failed: nothing is installed.
    pub(super) fn note_compaction_failed(
        &self,
        job: &CompactionJob,
        done: &Rewritten,
        micros: u64,
    ) {
        self.tell_compacted(job, || {
            let stats = CompactionStats {
                elapsed_micros: micros,
                input_records: done.entries_in(),
                output_records: 0,
                ..done.work.stats(&job.plan)
            };
            let stats = stats_of_inputs(job, stats);
            whole_info(job, &[], done.result.clone(), stats)
        });
    }

    /// Tells the caller that waits for a job, and listeners, how it ended.
    fn tell_compacted(&self, job: &CompactionJob, info: impl Fn() -> CompactionInfo) {
        if let Some(told) = &job.told {
            // A job ends once.
            let _ = told.set(info());
        }
        self.listeners().on_compaction_completed(info);
    }

    /// A compaction is installed.
    pub(super) fn note_compaction_end(&self, job: &CompactionJob, done: &Rewritten, micros: u64) {
        let (family, plan, work) = (&job.family, &job.plan, &done.work);
        let entries_in = done.entries_in();
        let mut n = JobNumbers {
            micros,
            jobs: 1,
            entries_read: entries_in,
            entries_dropped: entries_in.saturating_sub(work.entries_out),
            ..JobNumbers::default()
        };
        for (level, files) in &plan.inputs {
            for file in files {
                if *level == plan.output_level {
                    n.read_output_bytes += file.size;
                } else {
                    n.read_upper_bytes += file.size;
                }
            }
        }
        let mut above = JobNumbers::default();
        for table in &done.tables {
            let NewTable { file, properties } = table;
            let numbers = match file.level as usize == plan.output_level {
                true => &mut n,
                false => &mut above,
            };
            numbers.files_written += 1;
            numbers.written_bytes += file.size;
            numbers.uncompressed_bytes += properties.raw_key_size + properties.raw_value_size;
            self.note_table(family, job.id, table);
        }
        n.blob_written_bytes = blob_bytes(&done.blobs);
        n.blob_read_bytes = work.counts.blob_bytes;
        n.collected_bytes = work.relocated.min(n.blob_written_bytes);
        family.counters.add_compaction(plan.output_level, &n);
        if let Some(proximal) = &plan.proximal {
            family.counters.add_compaction(proximal.level, &above);
        }
        self.note_blob_files(family, job.id, &done.blobs);
        job.note_hidden(&done.garbage, work.relocated);
        let written_bytes = n.written_bytes + above.written_bytes;
        if let Some(s) = self.statistics() {
            s.add(Ticker::CompactReadBytes, n.read_bytes() + n.blob_read_bytes);
            s.add(
                Ticker::CompactWriteBytes,
                written_bytes + n.blob_written_bytes,
            );
            s.add(Ticker::CompactionKeyDropNew, work.dropped.replaced());
            s.add(Ticker::CompactionKeyDropObsolete, work.expired(plan));
            s.add(Ticker::CompactionRangeDelDropObsolete, work.dropped_ranges);
            s.add(Ticker::CompactionKeyDropRangeDel, work.dropped.covered);
            s.add(Ticker::CompactionKeyDropUser, work.dropped.filtered);
            s.record_time(Histogram::CompactionTimesMicros, micros);
            if s.wants_times() {
                s.record_time(Histogram::CompactionTimesCpuMicros, work.cpu_micros);
                s.add(Ticker::CompactionTotalTimeCpuMicros, work.cpu_micros);
            }
            if done.parts > 1 {
                s.record(Histogram::NumSubcompactionsScheduled, done.parts);
            }
        }
        self.count_fifo(plan.reason);
        let version = family.superversion.load().version.clone();
        let levels = 0..version.num_levels();
        let lsm_state: Vec<u64> = levels.map(|l| version.num_files(l) as u64).collect();
        self.log().compaction_finished(&events::CompactionFinished {
            job: job.id,
            compaction_time_micros: micros,
            compaction_time_cpu_micros: n.cpu_micros,
            output_level: plan.output_level as u64,
            num_output_files: n.files_written,
            total_output_size: n.written_bytes,
            num_input_records: n.entries_read,
            num_output_records: work.entries_out - done.entries_above,
            num_subcompactions: done.parts,
            output_compression: plan.compression.word(),
            single_deletes: (0, 0),
            lsm_state: &lsm_state,
            proximal: plan.proximal.as_ref().map(|_| events::ProximalNumbers {
                num_output_files: above.files_written,
                bytes_written: above.written_bytes,
                num_output_records: done.entries_above,
            }),
        });
        self.tell_compacted(job, || {
            let (smallest, largest) = ends_of(job, &done.tables);
            let stats = CompactionStats {
                elapsed_micros: micros,
                input_records: entries_in,
                output_files: done.tables.len(),
                output_bytes: written_bytes,
                output_blob_files: done.blobs.len(),
                output_blob_bytes: n.blob_written_bytes,
                smallest_output_prefix: smallest,
                largest_output_prefix: largest,
                ..work.stats(plan)
            };
            let stats = stats_of_inputs(job, stats);
            CompactionInfo {
                blob_files: family.blob_records(&done.blobs),
                blob_garbage: garbage_left(job, &done.garbage),
                ..whole_info(job, &done.tables, Ok(()), stats)
            }
        });
    }
}

/// As [`compaction_info`], of a whole job: with the properties of all its tables.
fn whole_info(
    job: &CompactionJob,
    outputs: &[NewTable],
    result: Result<()>,
    stats: CompactionStats,
) -> CompactionInfo {
    let family = &job.family;
    let path = |file: &NewFile| family.table_path(file.number, file.path_id);
    let written = outputs
        .iter()
        .map(|t| (path(&t.file), t.properties.clone()));
    let mut table_properties: Vec<_> = written.collect();
    for f in job.plan.input_files() {
        // A table that cannot be opened has no properties to tell.
        if let Ok(reader) = family.cache.reader(f) {
            let properties = Arc::new(reader.properties().clone());
            table_properties.push((family.table_path(f.number, f.path_id), properties));
        }
    }
    let files: Vec<NewFile> = outputs.iter().map(|t| t.file.clone()).collect();
    CompactionInfo {
        table_properties,
        ..compaction_info(job, &files, result, stats)
    }
}

fn compaction_info(
    job: &CompactionJob,
    outputs: &[NewFile],
    result: Result<()>,
    stats: CompactionStats,
) -> CompactionInfo {
    let (family, plan) = (&job.family, &job.plan);
    let inputs = plan.inputs.iter().flat_map(|(level, files)| {
        files.iter().map(|f| CompactionFile {
            level: *level,
            number: f.number,
            oldest_blob_file: f.oldest_blob_file_number,
        })
    });
    CompactionInfo {
        cf_id: family.id,
        cf_name: family.name.clone(),
        result,
        job: job.id,
        thread_id: thread_number(),
        subcompaction: 0,
        base_input_level: plan.inputs.first().map_or(0, |i| i.0),
        output_level: plan.output_level,
        input_files: plan
            .input_files()
            .map(|f| family.table_path(f.number, f.path_id))
            .collect(),
        input_file_infos: inputs.collect(),
        input_files_at_output_level: files_at_output_level(job),
        output_files: paths_of(job, outputs),
        output_file_infos: outputs.iter().map(described).collect(),
        table_properties: Vec::new(),
        level0_files: family.superversion.load().version.num_files(0),
        compression: plan.compression.as_byte(),
        blob_compression: job.settings.options.blob_compression_type.as_byte(),
        blob_files: Vec::new(),
        blob_garbage: Vec::new(),
        reason: (plan.reason.name(), reason_number(plan.reason.name())),
        stats,
    }
}
