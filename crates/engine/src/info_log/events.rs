//! The events of the info log in RocksDB's names and order, for programs that read them from there.
//!
//! Each struct is one event; [`InfoLog`] writes it as a line `EVENT_LOG_v1 {…}`. Fields that RocksDB
//! derives (averages, texts of a status) are derived here.
//!
//! Threads: any.

use super::{EventValue, InfoLog};
use spanlith_base::{Result, SequenceNumber};
use spanlith_table::TableProperties;

/// "OK" or the text of the error.
fn status(result: &Result<()>) -> String {
    match result {
        Ok(()) => "OK".to_string(),
        Err(e) => e.to_string(),
    }
}

/// Opening begins to replay logs.
#[derive(Debug)]
pub struct RecoveryStarted<'a> {
    /// Number of the job.
    pub job: u64,
    /// Numbers of the logs, oldest first.
    pub wal_files: &'a [u64],
}

/// A flush is about to write its table.
#[derive(Debug)]
pub struct FlushStarted<'a> {
    /// Number of the job.
    pub job: u64,
    /// Memtables that are written together.
    pub num_memtables: u64,
    /// Their entries, deletions included.
    pub total_num_input_entries: u64,
    /// Their deletions.
    pub num_deletes: u64,
    /// Bytes of their keys and values.
    pub total_data_size: u64,
    /// Bytes of memory they hold.
    pub memory_usage: u64,
    /// Their range deletions.
    pub num_range_deletes: u64,
    /// Why, in RocksDB's words, such as `Write Buffer Full`.
    pub flush_reason: &'a str,
}

/// A flush has been installed.
#[derive(Debug)]
pub struct FlushFinished<'a> {
    /// Number of the job.
    pub job: u64,
    /// Codec of the table, such as `LZ4`.
    pub output_compression: &'a str,
    /// Files per level now.
    pub lsm_state: &'a [u64],
    /// Sealed memtables that are left.
    pub immutable_memtables: u64,
}

/// A blob file was written.
#[derive(Debug)]
pub struct BlobFileCreation<'a> {
    /// Number of the job.
    pub job: u64,
    /// Its family.
    pub cf_name: &'a str,
    /// Number of the file.
    pub file_number: u64,
    /// Values in it.
    pub blobs: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Checksum of the whole file; empty for none.
    pub checksum: &'a [u8],
    /// Name of the function that made it; empty for none.
    pub checksum_function: &'a [u8],
}

/// A table was written, or was not.
#[derive(Debug)]
pub struct TableFileCreation<'a> {
    /// Number of the job.
    pub job: u64,
    /// Family it belongs to.
    pub cf_name: &'a str,
    /// Number of the file.
    pub file_number: u64,
    /// Bytes; 0 if nothing was written.
    pub file_size: u64,
    /// Checksum of the whole file in hexadecimal digits; empty without.
    pub file_checksum: &'a str,
    /// Name of the checksum's function; `Unknown` without.
    pub file_checksum_func_name: &'a str,
    /// Smallest and largest sequence number in it.
    pub seqnos: (SequenceNumber, SequenceNumber),
    /// Its properties.
    pub properties: &'a TableProperties,
    /// How it went.
    pub result: &'a Result<()>,
}

/// A file was deleted, or was not.
#[derive(Debug)]
pub struct TableFileDeletion<'a> {
    /// Number of the job.
    pub job: u64,
    /// Number of the file.
    pub file_number: u64,
    /// How it went.
    pub result: &'a Result<()>,
}

/// A compaction is about to run.
#[derive(Debug)]
pub struct CompactionStarted<'a> {
    /// Number of the job.
    pub job: u64,
    /// Family.
    pub cf_name: &'a str,
    /// Why, in RocksDB's words, such as `LevelL0FilesNum`.
    pub compaction_reason: &'a str,
    /// Levels with the numbers of their files.
    pub inputs: &'a [(usize, Vec<u64>)],
    /// Score of the level that asked for it; -1 if a user did.
    pub score: f64,
    /// Bytes of the inputs.
    pub input_data_size: u64,
    /// Oldest snapshot in use.
    pub oldest_snapshot_seqno: Option<SequenceNumber>,
    /// The second output, of a compaction that has two.
    pub proximal: Option<ProximalBounds>,
}

/// Describes what a compaction into the last level writes to the level above.
#[derive(Clone, Copy, Debug)]
pub struct ProximalBounds {
    /// Entries after this number.
    pub after_seqno: SequenceNumber,
    /// Entries after this number keep it.
    pub preserve_seqno_after: SequenceNumber,
    /// The level.
    pub level: u64,
}

/// A compaction has been installed, or has failed.
#[derive(Debug)]
pub struct CompactionFinished<'a> {
    /// Number of the job.
    pub job: u64,
    /// Microseconds it took.
    pub compaction_time_micros: u64,
    /// Microseconds of processor time.
    pub compaction_time_cpu_micros: u64,
    /// Level of the outputs.
    pub output_level: u64,
    /// Number of outputs.
    pub num_output_files: u64,
    /// Bytes of the outputs.
    pub total_output_size: u64,
    /// Entries read.
    pub num_input_records: u64,
    /// Entries written.
    pub num_output_records: u64,
    /// Parts in which it ran.
    pub num_subcompactions: u64,
    /// Codec of the outputs, such as `LZ4`.
    pub output_compression: &'a str,
    /// Single deletes that met no put, and those that reached the last level.
    pub single_deletes: (u64, u64),
    /// Files per level now.
    pub lsm_state: &'a [u64],
    /// The outputs to the level above, of a compaction that has two.
    pub proximal: Option<ProximalNumbers>,
}

/// Describes what a compaction into the last level wrote to the level above.
#[derive(Clone, Copy, Debug)]
pub struct ProximalNumbers {
    /// Number of outputs.
    pub num_output_files: u64,
    /// Bytes of the outputs.
    pub bytes_written: u64,
    /// Entries written.
    pub num_output_records: u64,
}

/// A table changed its level without being rewritten.
#[derive(Debug)]
pub struct TrivialMove {
    /// Number of the job.
    pub job: u64,
    /// Level it went to.
    pub destination_level: u64,
    /// Tables that moved.
    pub files: u64,
    /// Their bytes.
    pub total_files_size: u64,
}

impl InfoLog {
    /// Opening begins to replay logs.
    pub fn recovery_started(&self, e: &RecoveryStarted<'_>) {
        let fields = [("wal_files", EventValue::List(e.wal_files))];
        self.event(Some(e.job), "recovery_started", &fields);
    }

    /// Opening has replayed the logs.
    pub fn recovery_finished(&self, job: u64, result: &Result<()>) {
        let status = status(result);
        let fields = [("status", EventValue::Str(&status))];
        self.event(Some(job), "recovery_finished", &fields);
    }

    /// A flush is about to write its table.
    pub fn flush_started(&self, e: &FlushStarted<'_>) {
        let n = EventValue::U64;
        let fields = [
            ("num_memtables", n(e.num_memtables)),
            ("total_num_input_entries", n(e.total_num_input_entries)),
            ("num_deletes", n(e.num_deletes)),
            ("total_data_size", n(e.total_data_size)),
            ("memory_usage", n(e.memory_usage)),
            ("num_range_deletes", n(e.num_range_deletes)),
            ("flush_reason", EventValue::Str(e.flush_reason)),
        ];
        self.event(Some(e.job), "flush_started", &fields);
    }

    /// A flush has been installed.
    pub fn flush_finished(&self, e: &FlushFinished<'_>) {
        let fields = [
            ("output_compression", EventValue::Str(e.output_compression)),
            ("lsm_state", EventValue::List(e.lsm_state)),
            (
                "immutable_memtables",
                EventValue::U64(e.immutable_memtables),
            ),
        ];
        self.event(Some(e.job), "flush_finished", &fields);
    }

    /// A table was written, or was not.
    pub fn table_file_creation(&self, e: &TableFileCreation<'_>) {
        if !self.is_enabled(crate::options::InfoLogLevel::Info) {
            return;
        }
        let status = status(e.result);
        let properties = table_properties(e.properties);
        let fields = [
            ("file_number", EventValue::U64(e.file_number)),
            ("file_size", EventValue::U64(e.file_size)),
            ("file_checksum", EventValue::Str(e.file_checksum)),
            (
                "file_checksum_func_name",
                EventValue::Str(e.file_checksum_func_name),
            ),
            ("smallest_seqno", EventValue::U64(e.seqnos.0)),
            ("largest_seqno", EventValue::U64(e.seqnos.1)),
            ("table_properties", EventValue::Object(&properties)),
            ("status", EventValue::Str(&status)),
        ];
        let lead = [("cf_name", EventValue::Str(e.cf_name))];
        self.event_after(&lead, Some(e.job), "table_file_creation", &fields);
    }

    /// A file was deleted, or was not.
    pub fn table_file_deletion(&self, e: &TableFileDeletion<'_>) {
        let status = status(e.result);
        let fields = [
            ("file_number", EventValue::U64(e.file_number)),
            ("status", EventValue::Str(&status)),
        ];
        self.event(Some(e.job), "table_file_deletion", &fields);
    }

    /// A blob file was written and installed.
    pub fn blob_file_creation(&self, e: &BlobFileCreation<'_>) {
        let sum: String = (e.checksum.iter())
            .map(|byte| format!("{byte:02X}"))
            .collect();
        let function = String::from_utf8_lossy(e.checksum_function);
        let function = if function.is_empty() {
            "Unknown"
        } else {
            &function
        };
        let fields = [
            ("file_number", EventValue::U64(e.file_number)),
            ("total_blob_count", EventValue::U64(e.blobs)),
            ("total_blob_bytes", EventValue::U64(e.bytes)),
            ("file_checksum", EventValue::Str(&sum)),
            ("file_checksum_func_name", EventValue::Str(function)),
            ("status", EventValue::Str("OK")),
        ];
        let lead = [("cf_name", EventValue::Str(e.cf_name))];
        self.event_after(&lead, Some(e.job), "blob_file_creation", &fields);
    }

    /// A blob file was deleted.
    pub fn blob_file_deletion(&self, job: u64, file_number: u64) {
        let fields = [
            ("file_number", EventValue::U64(file_number)),
            ("status", EventValue::Str("OK")),
        ];
        self.event(Some(job), "blob_file_deletion", &fields);
    }

    /// A compaction is about to run.
    pub fn compaction_started(&self, e: &CompactionStarted<'_>) {
        let names: Vec<String> = e
            .inputs
            .iter()
            .map(|(l, _)| format!("files_L{l}"))
            .collect();
        let mut fields = vec![
            ("cf_name", EventValue::Str(e.cf_name)),
            ("compaction_reason", EventValue::Str(e.compaction_reason)),
        ];
        for (name, (_, files)) in names.iter().zip(e.inputs) {
            fields.push((name, EventValue::List(files)));
        }
        fields.extend([
            ("score", EventValue::F64(e.score)),
            ("input_data_size", EventValue::U64(e.input_data_size)),
            (
                "oldest_snapshot_seqno",
                e.oldest_snapshot_seqno
                    .map_or(EventValue::I64(-1), EventValue::U64),
            ),
        ]);
        if let Some(p) = &e.proximal {
            fields.extend([
                ("proximal_after_seqno", EventValue::U64(p.after_seqno)),
                (
                    "preserve_seqno_after",
                    EventValue::U64(p.preserve_seqno_after),
                ),
                ("proximal_output_level", EventValue::U64(p.level)),
                // In leveled trees it is what the inputs from above the last level span.
                ("proximal_output_range", EventValue::Str("NonLastRange")),
            ]);
        }
        self.event(Some(e.job), "compaction_started", &fields);
    }

    /// A compaction has been installed, or has failed.
    pub fn compaction_finished(&self, e: &CompactionFinished<'_>) {
        let n = EventValue::U64;
        let mut fields = vec![
            ("compaction_time_micros", n(e.compaction_time_micros)),
            (
                "compaction_time_cpu_micros",
                n(e.compaction_time_cpu_micros),
            ),
            ("output_level", n(e.output_level)),
            ("num_output_files", n(e.num_output_files)),
            ("total_output_size", n(e.total_output_size)),
            ("num_input_records", n(e.num_input_records)),
            ("num_output_records", n(e.num_output_records)),
            ("num_subcompactions", n(e.num_subcompactions)),
            ("output_compression", EventValue::Str(e.output_compression)),
            ("num_single_delete_mismatches", n(e.single_deletes.0)),
            ("num_single_delete_fallthrough", n(e.single_deletes.1)),
            ("lsm_state", EventValue::List(e.lsm_state)),
        ];
        if let Some(p) = &e.proximal {
            fields.extend([
                ("proximal_level_num_output_files", n(p.num_output_files)),
                ("proximal_level_bytes_written", n(p.bytes_written)),
                ("proximal_level_num_output_records", n(p.num_output_records)),
                ("proximal_level_num_output_files_blob", n(0)),
                ("proximal_level_bytes_written_blob", n(0)),
            ]);
        }
        self.event(Some(e.job), "compaction_finished", &fields);
    }

    /// A table changed its level without being rewritten.
    pub fn trivial_move(&self, e: &TrivialMove) {
        let fields = [
            ("destination_level", EventValue::U64(e.destination_level)),
            ("files", EventValue::U64(e.files)),
            ("total_files_size", EventValue::U64(e.total_files_size)),
        ];
        self.event(Some(e.job), "trivial_move", &fields);
    }
}

/// The properties of a table as RocksDB's events show them.
fn table_properties(p: &TableProperties) -> Vec<(&'static str, EventValue<'_>)> {
    let (n, s) = (EventValue::U64, EventValue::Str);
    let average = |total: u64| n(total.checked_div(p.num_entries).unwrap_or(0));
    vec![
        ("data_size", n(p.data_size)),
        ("index_size", n(p.index_size)),
        ("index_partitions", n(p.index_partitions)),
        ("top_level_index_size", n(p.top_level_index_size)),
        (
            "index_key_is_user_key",
            n(u64::from(p.index_key_is_user_key)),
        ),
        (
            "index_value_is_delta_encoded",
            n(u64::from(p.index_value_is_delta_encoded)),
        ),
        ("filter_size", n(p.filter_size)),
        ("raw_key_size", n(p.raw_key_size)),
        ("raw_average_key_size", average(p.raw_key_size)),
        ("raw_value_size", n(p.raw_value_size)),
        ("raw_average_value_size", average(p.raw_value_size)),
        ("num_data_blocks", n(p.num_data_blocks)),
        ("num_entries", n(p.num_entries)),
        ("num_filter_entries", n(p.num_filter_entries)),
        ("num_deletions", n(p.num_deletions)),
        ("num_merge_operands", n(p.num_merge_operands)),
        ("num_range_deletions", n(p.num_range_deletions)),
        ("format_version", n(p.format_version)),
        ("fixed_key_len", n(p.fixed_key_length)),
        ("filter_policy", s(&p.filter_policy_name)),
        ("column_family_name", s(&p.column_family_name)),
        ("column_family_id", n(p.column_family_id)),
        ("comparator", s(&p.comparator_name)),
        (
            "user_defined_timestamps_persisted",
            n(p.user_defined_timestamps_persisted.unwrap_or(1)),
        ),
        ("key_largest_seqno", n(p.key_largest_seqno.unwrap_or(0))),
        ("key_smallest_seqno", n(p.key_smallest_seqno.unwrap_or(0))),
        ("merge_operator", s(&p.merge_operator_name)),
        ("prefix_extractor_name", s(&p.prefix_extractor_name)),
        ("property_collectors", s(&p.property_collectors_names)),
        ("compression", s(&p.compression_name)),
        ("compression_options", s(&p.compression_options)),
        ("creation_time", n(p.creation_time)),
        ("oldest_key_time", n(p.oldest_key_time)),
        ("newest_key_time", n(p.newest_key_time)),
        ("file_creation_time", n(p.file_creation_time)),
        (
            "slow_compression_estimated_data_size",
            n(p.slow_compression_estimated_data_size),
        ),
        (
            "fast_compression_estimated_data_size",
            n(p.fast_compression_estimated_data_size),
        ),
        ("db_id", s(&p.db_id)),
        ("db_session_id", s(&p.db_session_id)),
        ("orig_file_number", n(p.orig_file_number)),
        (
            "seqno_to_time_mapping",
            s(if p.seqno_to_time_mapping.is_empty() {
                "N/A"
            } else {
                "present"
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::rig;
    use super::*;
    use crate::options::DbOptions;

    const TIME: u64 = 1_795_305_599_123_456;

    /// Lines as RocksDB 11.8.1 wrote them, with the times put in.
    #[test]
    fn events_read_as_rocksdbs() {
        let rig = rig();
        let log = rig.open(&DbOptions::default());
        log.recovery_started(&RecoveryStarted {
            job: 1,
            wal_files: &[19],
        });
        log.recovery_finished(1, &Ok(()));
        log.flush_started(&FlushStarted {
            job: 2,
            num_memtables: 1,
            total_num_input_entries: 443,
            num_deletes: 0,
            total_data_size: 185_174,
            memory_usage: 196_080,
            num_range_deletes: 0,
            flush_reason: "Write Buffer Full",
        });
        log.flush_finished(&FlushFinished {
            job: 2,
            output_compression: "LZ4",
            lsm_state: &[1, 0, 0, 0, 0, 0, 0],
            immutable_memtables: 1,
        });
        log.trivial_move(&TrivialMove {
            job: 4,
            destination_level: 6,
            files: 1,
            total_files_size: 28_101,
        });
        log.compaction_started(&CompactionStarted {
            job: 8,
            cf_name: "default",
            compaction_reason: "LevelL0FilesNum",
            inputs: &[(0, vec![17, 14]), (6, vec![9, 11])],
            score: 1.0,
            input_data_size: 164_445,
            oldest_snapshot_seqno: None,
            proximal: None,
        });
        log.compaction_finished(&CompactionFinished {
            job: 8,
            compaction_time_micros: 19_821,
            compaction_time_cpu_micros: 4662,
            output_level: 6,
            num_output_files: 1,
            total_output_size: 151_671,
            num_input_records: 2659,
            num_output_records: 2659,
            num_subcompactions: 1,
            output_compression: "LZ4",
            single_deletes: (0, 0),
            lsm_state: &[0, 0, 0, 0, 0, 0, 1],
            proximal: None,
        });
        log.table_file_deletion(&TableFileDeletion {
            job: 8,
            file_number: 9,
            result: &Ok(()),
        });
        let text = rig.read("LOG");
        let got: Vec<&str> = text
            .lines()
            .map(|l| l.split_once("EVENT_LOG_v1 ").unwrap().1)
            .collect();
        let want = [
            r#""job": 1, "event": "recovery_started", "wal_files": [19]}"#,
            r#""job": 1, "event": "recovery_finished", "status": "OK"}"#,
            r#""job": 2, "event": "flush_started", "num_memtables": 1, "total_num_input_entries": 443, "num_deletes": 0, "total_data_size": 185174, "memory_usage": 196080, "num_range_deletes": 0, "flush_reason": "Write Buffer Full"}"#,
            r#""job": 2, "event": "flush_finished", "output_compression": "LZ4", "lsm_state": [1, 0, 0, 0, 0, 0, 0], "immutable_memtables": 1}"#,
            r#""job": 4, "event": "trivial_move", "destination_level": 6, "files": 1, "total_files_size": 28101}"#,
            r#""job": 8, "event": "compaction_started", "cf_name": "default", "compaction_reason": "LevelL0FilesNum", "files_L0": [17, 14], "files_L6": [9, 11], "score": 1, "input_data_size": 164445, "oldest_snapshot_seqno": -1}"#,
            r#""job": 8, "event": "compaction_finished", "compaction_time_micros": 19821, "compaction_time_cpu_micros": 4662, "output_level": 6, "num_output_files": 1, "total_output_size": 151671, "num_input_records": 2659, "num_output_records": 2659, "num_subcompactions": 1, "output_compression": "LZ4", "num_single_delete_mismatches": 0, "num_single_delete_fallthrough": 0, "lsm_state": [0, 0, 0, 0, 0, 0, 1]}"#,
            r#""job": 8, "event": "table_file_deletion", "file_number": 9, "status": "OK"}"#,
        ];
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert_eq!(*got, format!("{{\"time_micros\": {TIME}, {want}"));
        }
    }

    #[test]
    fn a_created_table_is_told_with_its_properties_in_rocksdbs_order() {
        let rig = rig();
        let log = rig.open(&DbOptions::default());
        let properties = TableProperties {
            data_size: 26,
            raw_key_size: 18,
            num_entries: 2,
            comparator_name: "leveldb.BytewiseComparator".to_string(),
            ..TableProperties::default()
        };
        log.table_file_creation(&TableFileCreation {
            job: 1,
            cf_name: "default",
            file_number: 24,
            file_size: 1260,
            file_checksum: "",
            file_checksum_func_name: "Unknown",
            seqnos: (3001, 3002),
            properties: &properties,
            result: &Err(spanlith_base::Error::corruption("bad")),
        });
        let text = rig.read("LOG");
        let json = text.split_once("EVENT_LOG_v1 ").unwrap().1;
        assert!(
            json.starts_with(&format!(
                "{{\"time_micros\": {TIME}, \"cf_name\": \"default\", \"job\": 1, \"event\": \
             \"table_file_creation\", \"file_number\": 24, \"file_size\": 1260, \
             \"file_checksum\": \"\", \"file_checksum_func_name\": \"Unknown\", \
             \"smallest_seqno\": 3001, \"largest_seqno\": 3002, \"table_properties\": \
             {{\"data_size\": 26, \"index_size\": 0, "
            )),
            "{json}"
        );
        assert!(json.contains("\"raw_key_size\": 18, \"raw_average_key_size\": 9, "));
        assert!(
            json.ends_with(
                "\"seqno_to_time_mapping\": \"N/A\"}, \"status\": \"Corruption: bad\"}\n"
            )
        );
    }
}
