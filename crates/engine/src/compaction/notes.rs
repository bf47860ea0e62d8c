//! What a compaction says of itself: events, listeners, statistics.

use super::job::{CompactionJob, Rewritten};
use crate::core::{Engine, JobNumbers, JobTimes};
use crate::info_log::events;
use crate::listener::{CompactionFile, CompactionInfo, CompactionStats};
use crate::version::NewFile;
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_base::{MAX_SEQUENCE, Result};

/// RocksDB's number of a reason, by its name; 0 for one it does not know.
fn reason_number(name: &str) -> u32 {
    const NAMES: [&str; 20] = [
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
    ];
    let at = NAMES.iter().position(|n| *n == name);
    at.unwrap_or(0) as u32
}

/// What became of one part of a compaction.
pub(super) struct PartDone<'a> {
    pub part: u64,
    pub result: Result<()>,
    pub files: &'a [NewFile],
    pub stats: CompactionStats,
}

impl Engine {
    /// A compaction was picked.
    pub(super) fn count_picked(&self, job: &CompactionJob) {
        if let Some(s) = &self.c.statistics
            && !job.plan.reason.is_manual()
        {
            let files = job.plan.inputs.first().map_or(0, |(_, files)| files.len());
            s.record(Histogram::NumfilesInSinglecompaction, files as u64);
        }
    }

    /// A compaction is about to run.
    pub(super) fn note_compaction_begin(&self, job: &CompactionJob, times: Option<&JobTimes>) {
        let plan = &job.plan;
        let inputs: Vec<(usize, Vec<u64>)> = plan
            .inputs
            .iter()
            .map(|(level, files)| (*level, files.iter().map(|f| f.number).collect()))
            .collect();
        let oldest = self.c.snapshots.oldest().map(|o| o.0);
        self.c.log.compaction_started(&events::CompactionStarted {
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
        let known = CompactionStats {
            input_bytes: plan.input_bytes(),
            ..CompactionStats::default()
        };
        let info = || self.compaction_info(job, &[], Ok(()), known);
        self.c.listeners.on_compaction_begin(info);
    }

    /// A part of a compaction is about to run, on this thread.
    pub(super) fn note_part_begin(&self, job: &CompactionJob, part: u64) {
        self.c.listeners.on_subcompaction_begin(|| CompactionInfo {
            subcompaction: part,
            ..self.compaction_info(job, &[], Ok(()), CompactionStats::default())
        });
    }

    /// A part of a compaction has run, on this thread.
    pub(super) fn note_part_end(&self, job: &CompactionJob, done: &PartDone<'_>) {
        self.c
            .listeners
            .on_subcompaction_completed(|| CompactionInfo {
                subcompaction: done.part,
                ..self.compaction_info(job, done.files, done.result.clone(), done.stats)
            });
    }

    /// Tables are about to change their level as they are. Listeners hear of it as of a compaction without
    /// parts.
    pub(super) fn note_move_begin(&self, job: &CompactionJob) {
        let none = CompactionStats::default();
        let info = || self.compaction_info(job, &[], Ok(()), none);
        self.c.listeners.on_compaction_begin(info);
    }

    /// Tables changed their level, or did not.
    pub(super) fn note_move_end(&self, job: &CompactionJob, moved: &[NewFile], result: Result<()>) {
        let plan = &job.plan;
        if result.is_ok() {
            let bytes = plan.input_bytes();
            job.family.counters.add_move(plan.output_level, bytes);
            self.c.log.trivial_move(&events::TrivialMove {
                job: job.id,
                destination_level: plan.output_level as u64,
                files: plan.input_files().count() as u64,
                total_files_size: bytes,
            });
        }
        let none = CompactionStats::default();
        let info = || self.compaction_info(job, moved, result.clone(), none);
        self.c.listeners.on_compaction_completed(info);
    }

    /// A compaction failed: nothing is installed.
    pub(super) fn note_compaction_failed(&self, job: &CompactionJob, error: &spanlith_base::Error) {
        let info =
            || self.compaction_info(job, &[], Err(error.clone()), CompactionStats::default());
        if let Some(told) = &job.told {
            // A job ends once.
            let _ = told.set(info());
        }
        self.c.listeners.on_compaction_completed(info);
    }

    /// A compaction is installed.
    pub(super) fn note_compaction_end(&self, job: &CompactionJob, done: &Rewritten, micros: u64) {
        let (family, plan, outputs) = (&job.family, &job.plan, &done.files);
        let mut n = JobNumbers {
            micros,
            jobs: 1,
            entries_read: done.entries_in,
            entries_dropped: done.entries_in.saturating_sub(done.entries_out),
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
        for file in outputs {
            let properties = self.table_properties(family, file.number);
            let numbers = match file.level as usize == plan.output_level {
                true => &mut n,
                false => &mut above,
            };
            numbers.files_written += 1;
            numbers.written_bytes += file.size;
            numbers.uncompressed_bytes += properties.raw_key_size + properties.raw_value_size;
            self.note_table(family, job.id, file, &properties);
        }
        family.counters.add_compaction(plan.output_level, &n);
        if let Some(proximal) = &plan.proximal {
            family.counters.add_compaction(proximal.level, &above);
        }
        let written_bytes = n.written_bytes + above.written_bytes;
        if let Some(s) = &self.c.statistics {
            s.add(Ticker::CompactReadBytes, n.read_bytes());
            s.add(Ticker::CompactWriteBytes, written_bytes);
            // As in RocksDB: what ranges delete is hidden too, a pair of put and single delete is one of
            // either, what a filter removes becomes a deletion, and range tombstones are deletions.
            let d = &done.dropped;
            let pairs = d.pairs;
            let removed = if plan.bottommost { d.filtered } else { 0 };
            let obsolete = d.obsolete + pairs + removed + done.dropped_ranges;
            s.add(Ticker::CompactionKeyDropNew, d.hidden + d.covered + pairs);
            s.add(Ticker::CompactionKeyDropObsolete, obsolete);
            s.add(Ticker::CompactionRangeDelDropObsolete, done.dropped_ranges);
            s.add(Ticker::CompactionKeyDropRangeDel, done.dropped.covered);
            s.add(Ticker::CompactionKeyDropUser, done.dropped.filtered);
            s.record_time(Histogram::CompactionTimesMicros, micros);
            if s.wants_times() {
                s.record_time(Histogram::CompactionTimesCpuMicros, done.cpu_micros);
                s.add(Ticker::CompactionTotalTimeCpuMicros, done.cpu_micros);
            }
            if done.parts > 1 {
                s.record(Histogram::NumSubcompactionsScheduled, done.parts);
            }
        }
        let version = family.superversion.load().version.clone();
        let levels = 0..version.num_levels();
        let lsm_state: Vec<u64> = levels.map(|l| version.num_files(l) as u64).collect();
        self.c.log.compaction_finished(&events::CompactionFinished {
            job: job.id,
            compaction_time_micros: micros,
            compaction_time_cpu_micros: n.cpu_micros,
            output_level: plan.output_level as u64,
            num_output_files: n.files_written,
            total_output_size: n.written_bytes,
            num_input_records: n.entries_read,
            num_output_records: done.entries_out - done.entries_above,
            num_subcompactions: done.parts,
            output_compression: plan.compression.name(),
            single_deletes: (0, 0),
            lsm_state: &lsm_state,
            proximal: plan.proximal.as_ref().map(|_| events::ProximalNumbers {
                num_output_files: above.files_written,
                bytes_written: above.written_bytes,
                num_output_records: done.entries_above,
            }),
        });
        let stats = CompactionStats {
            elapsed_micros: micros,
            corrupt_keys: 0,
            input_records: n.entries_read,
            output_records: done.entries_out,
            input_bytes: n.read_bytes(),
            output_bytes: written_bytes,
        };
        let info = || self.compaction_info(job, outputs, Ok(()), stats);
        if let Some(told) = &job.told {
            // A job ends once.
            let _ = told.set(info());
        }
        self.c.listeners.on_compaction_completed(info);
    }

    fn compaction_info(
        &self,
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
        let at_output = plan.inputs.iter().filter(|i| i.0 == plan.output_level);
        CompactionInfo {
            cf_id: family.id,
            cf_name: family.name.clone(),
            result,
            job: job.id,
            subcompaction: 0,
            base_input_level: plan.inputs.first().map_or(0, |i| i.0),
            output_level: plan.output_level,
            input_files: plan
                .input_files()
                .map(|f| family.table_path(f.number, f.path_id))
                .collect(),
            input_file_infos: inputs.collect(),
            input_files_at_output_level: at_output.map(|i| i.1.len()).sum(),
            output_files: outputs
                .iter()
                .map(|f| family.table_path(f.number, f.path_id))
                .collect(),
            output_file_infos: outputs
                .iter()
                .map(|f| CompactionFile {
                    level: f.level as usize,
                    number: f.number,
                    oldest_blob_file: f.oldest_blob_file_number,
                })
                .collect(),
            level0_files: family.superversion.load().version.num_files(0),
            compression: plan.compression as u8,
            reason: (plan.reason.name(), reason_number(plan.reason.name())),
            stats,
        }
    }
}
