//! Version edits: the records of a MANIFEST.
//!
//! An edit is a sequence of tagged fields without length or terminator; an empty record is a valid,
//! empty edit. Replaying all edits in order gives the column families, the files of each level, the
//! blob files, the logs and the counters.
//!
//! ```text
//! edit  := { varint32 tag, body }*
//! body  := depends on the tag; a tag with bit 8192 carries a length-prefixed body and is skipped
//!          when unknown (tags 8194 to 8197 are known and break that rule)
//! NewFile4 := varint32 level, varint64 number, varint64 size, str smallest, str largest,
//!          varint64 smallest seqno, varint64 largest seqno, { varint32 custom tag, str value }*,
//!          varint32 1
//! ```
//!
//! Fields are written in the order RocksDB 11.8 writes them and read in any order. Inside one edit
//! deletions happen before additions, whatever the order of the fields. Files are written as
//! NewFile4 only; the three older forms are read.
//!
//! Invariants: B3 (decoding any bytes ends in an edit or `Corruption`). The meaning of an edit is
//! the business of [`super::builder`] and of recovery.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation
)]

mod new_file;

pub use new_file::{MAX_PATH_ID, NewFile, UNKNOWN_CHECKSUM_FUNCTION};

use new_file::{put_new_file, take_new_file4, take_old_file};
use spanlith_base::coding::{Decoder, put_length_prefixed, put_varint32, put_varint64};
use spanlith_base::keys::{MAX_SEQUENCE, TAG_LEN, pack_tag};
use spanlith_base::timestamp::{pad_internal, strip_internal};
use spanlith_base::{Error, Result, ValueType};

/// Tags of an edit's fields.
mod tag {
    pub const COMPARATOR: u32 = 1;
    pub const LOG_NUMBER: u32 = 2;
    pub const NEXT_FILE_NUMBER: u32 = 3;
    pub const LAST_SEQUENCE: u32 = 4;
    pub const COMPACT_CURSOR: u32 = 5;
    pub const DELETED_FILE: u32 = 6;
    pub const NEW_FILE: u32 = 7;
    pub const PREV_LOG_NUMBER: u32 = 9;
    pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
    pub const NEW_FILE2: u32 = 100;
    pub const NEW_FILE3: u32 = 102;
    pub const NEW_FILE4: u32 = 103;
    pub const COLUMN_FAMILY: u32 = 200;
    pub const COLUMN_FAMILY_ADD: u32 = 201;
    pub const COLUMN_FAMILY_DROP: u32 = 202;
    pub const MAX_COLUMN_FAMILY: u32 = 203;
    pub const IN_ATOMIC_GROUP: u32 = 300;
    /// Ours: the durable bytes of the MANIFEST. Skipped by RocksDB.
    pub const MANIFEST_MARK: u32 = 0x5350_6C01;
    /// Ours: where the valid part of a log ends. Skipped by RocksDB.
    pub const LOG_CUT: u32 = 0x5350_6C02;
    /// Ours: where a log ends that does not grow any more. Skipped by RocksDB.
    pub const LOG_END: u32 = 0x5350_6C03;
    /// Ours: the oldest log that recovery needs. Skipped by RocksDB.
    pub const OLDEST_LOG: u32 = 0x5350_6C04;
    pub const BLOB_FILE_ADDITION: u32 = 400;
    pub const BLOB_FILE_GARBAGE: u32 = 401;
    /// Unknown tags with this bit are skipped.
    pub const SAFE_IGNORE_MASK: u32 = 1 << 13;
    pub const DB_ID: u32 = 8193;
    pub const OLD_BLOB_FILE_ADDITION: u32 = 8194;
    pub const OLD_BLOB_FILE_GARBAGE: u32 = 8195;
    pub const OLD_WAL_ADDITION: u32 = 8196;
    pub const OLD_WAL_DELETION: u32 = 8197;
    pub const FULL_HISTORY_TS_LOW: u32 = 8198;
    pub const WAL_ADDITION: u32 = 8199;
    pub const WAL_DELETION: u32 = 8200;
    pub const PERSIST_TIMESTAMPS: u32 = 8201;
    pub const SUBCOMPACTION_PROGRESS: u32 = 8202;
    pub const LAST_COMPACTED_MANIFEST_FILE_SIZE: u32 = 8203;
}

/// A blob file that an edit adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileAddition {
    /// File number.
    pub number: u64,
    /// Blobs in the file.
    pub total_count: u64,
    /// Bytes of all blob records, without header and footer of the file.
    pub total_bytes: u64,
    /// Name of the checksum function; empty for none.
    pub checksum_method: Vec<u8>,
    /// Whole-file checksum; empty for none.
    pub checksum_value: Vec<u8>,
}

impl BlobFileAddition {
    /// Bytes of the file: the records, a header of 30 and a footer of 32.
    pub fn file_size(&self) -> u64 {
        self.total_bytes.saturating_add(62)
    }
}

/// Blobs of a file that became garbage; added to what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobFileGarbage {
    /// File number.
    pub number: u64,
    /// Blobs that became garbage.
    pub count: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// A log that is tracked in the MANIFEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalAddition {
    /// Log number.
    pub number: u64,
    /// Bytes that are known to be synced; `None` if only the creation is recorded.
    pub synced_size: Option<u64>,
}

/// One record of a MANIFEST. Absent fields change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Id of the database.
    pub db_id: Option<Vec<u8>>,
    /// Name of the family's comparator.
    pub comparator: Option<Vec<u8>>,
    /// Logs of a smaller number hold nothing the family has not flushed.
    pub log_number: Option<u64>,
    /// A relic, always 0 when written.
    pub prev_log_number: Option<u64>,
    /// Next unused file number.
    pub next_file_number: Option<u64>,
    /// Highest family id ever used.
    pub max_column_family: Option<u32>,
    /// Logs of a smaller number are needed by nobody.
    pub min_log_number_to_keep: Option<u64>,
    /// Highest sequence number that has reached table files.
    pub last_sequence: Option<u64>,
    /// Round-robin compaction positions: level and internal key.
    pub compact_cursors: Vec<(u32, Vec<u8>)>,
    /// Level and number of removed files; written in order and once each.
    pub deleted_files: Vec<(u32, u64)>,
    /// Added files.
    pub new_files: Vec<NewFile>,
    /// Added blob files.
    pub blob_file_additions: Vec<BlobFileAddition>,
    /// New garbage in blob files.
    pub blob_file_garbages: Vec<BlobFileGarbage>,
    /// Tracked logs.
    pub wal_additions: Vec<WalAddition>,
    /// All logs with a smaller number are deleted.
    pub wal_deletion: Option<u64>,
    /// The family the edit is about.
    pub column_family: u32,
    /// Name of the family the edit creates.
    pub column_family_add: Option<Vec<u8>>,
    /// The edit drops its family.
    pub column_family_drop: bool,
    /// Number of edits of the same atomic group that follow.
    pub remaining_in_atomic_group: Option<u32>,
    /// Lower bound of the timestamps whose history is kept.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Says whether the family stores user-defined timestamps.
    pub persist_user_defined_timestamps: Option<bool>,
    /// State of an interrupted compaction, undecoded.
    pub subcompaction_progress: Option<Vec<u8>>,
    /// Size of the snapshot the MANIFEST began with.
    pub last_compacted_manifest_file_size: Option<u64>,
    /// Bytes of the MANIFEST that were durable before this record; in the first record of a file, the
    /// bytes with which it became current. Ours.
    pub manifest_mark: Option<u64>,
    /// Log and offset at which a recovery cut it: what comes after is not replayed again. Ours.
    pub log_cuts: Vec<(u64, u64)>,
    /// Log that does not grow any more, and its synced bytes. Ours, where RocksDB's additions of logs
    /// are not asked for: 11.8 dies of them in opens for reading.
    pub log_ends: Vec<(u64, u64)>,
    /// The oldest log that recovery needs from this edit on: it is there, and its name is durable. Ours.
    pub oldest_log: Option<u64>,
}

impl VersionEdit {
    /// An edit that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes file `number` from `level`.
    pub fn delete_file(&mut self, level: u32, number: u64) {
        self.deleted_files.push((level, number));
    }

    /// Adds a file.
    pub fn add_file(&mut self, file: NewFile) {
        self.new_files.push(file);
    }

    /// Largest sequence number of the added files, 0 if there are none.
    pub fn largest_seqno_of_new_files(&self) -> u64 {
        self.new_files
            .iter()
            .map(|f| f.largest_seqno)
            .max()
            .unwrap_or(0)
    }

    /// Takes the timestamps, of `size` bytes, out of the bounds of files whose keys have none: so they
    /// are recorded.
    pub fn strip_timestamps(&mut self, size: usize) {
        for file in self.stripped_files(size) {
            for bound in [&mut file.smallest, &mut file.largest] {
                *bound = strip_internal(bound, size);
            }
        }
    }

    /// Puts timestamps of `size` bytes into the bounds of files whose keys have none: the smallest,
    /// but at the end of a range tombstone the largest.
    pub fn pad_timestamps(&mut self, size: usize) {
        for file in self.stripped_files(size) {
            file.smallest = pad_internal(&file.smallest, size, 0);
            let largest_tag = pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
            let sentinel = file.largest.ends_with(&largest_tag.to_le_bytes());
            let fill = if sentinel { 0xff } else { 0 };
            file.largest = pad_internal(&file.largest, size, fill);
        }
    }

    fn stripped_files(&mut self, size: usize) -> impl Iterator<Item = &mut NewFile> {
        let files = self.new_files.iter_mut();
        files.filter(move |f| size > 0 && !f.user_defined_timestamps_persisted)
    }

    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    /// Appends the record to `out`.
    fn encode_to(&self, out: &mut Vec<u8>) {
        put_opt_bytes(out, tag::DB_ID, self.db_id.as_deref());
        put_opt_bytes(out, tag::COMPARATOR, self.comparator.as_deref());
        put_opt_u64(out, tag::LOG_NUMBER, self.log_number);
        put_opt_u64(out, tag::PREV_LOG_NUMBER, self.prev_log_number);
        put_opt_u64(out, tag::NEXT_FILE_NUMBER, self.next_file_number);
        put_opt_u64(
            out,
            tag::MAX_COLUMN_FAMILY,
            self.max_column_family.map(u64::from),
        );
        put_opt_u64(
            out,
            tag::MIN_LOG_NUMBER_TO_KEEP,
            self.min_log_number_to_keep,
        );
        put_opt_u64(out, tag::LAST_SEQUENCE, self.last_sequence);
        for (level, key) in &self.compact_cursors {
            put_varint32(out, tag::COMPACT_CURSOR);
            put_varint32(out, *level);
            put_length_prefixed(out, key);
        }
        let mut deleted = self.deleted_files.clone();
        deleted.sort_unstable();
        deleted.dedup();
        for (level, number) in deleted {
            put_varint32(out, tag::DELETED_FILE);
            put_varint32(out, level);
            put_varint64(out, number);
        }
        let mut min_log = self.min_log_number_to_keep;
        for file in &self.new_files {
            put_new_file(out, file, min_log.take());
        }
        for blob in &self.blob_file_additions {
            put_varint32(out, tag::BLOB_FILE_ADDITION);
            put_varint64(out, blob.number);
            put_varint64(out, blob.total_count);
            put_varint64(out, blob.total_bytes);
            put_length_prefixed(out, &blob.checksum_method);
            put_length_prefixed(out, &blob.checksum_value);
            put_varint32(out, 0);
        }
        for garbage in &self.blob_file_garbages {
            put_varint32(out, tag::BLOB_FILE_GARBAGE);
            put_varint64(out, garbage.number);
            put_varint64(out, garbage.count);
            put_varint64(out, garbage.bytes);
            put_varint32(out, 0);
        }
        self.encode_logs_and_family(out);
    }

    /// The fields after the files.
    fn encode_logs_and_family(&self, out: &mut Vec<u8>) {
        for wal in &self.wal_additions {
            let mut body = Vec::new();
            put_varint64(&mut body, wal.number);
            if let Some(size) = wal.synced_size {
                put_varint32(&mut body, WAL_SYNCED_SIZE);
                put_varint64(&mut body, size);
            }
            put_varint32(&mut body, WAL_TERMINATE);
            put_opt_bytes(out, tag::WAL_ADDITION, Some(&body));
        }
        put_opt_nested_u64(out, tag::WAL_DELETION, self.wal_deletion);
        if self.column_family != 0 {
            put_opt_u64(out, tag::COLUMN_FAMILY, Some(u64::from(self.column_family)));
        }
        put_opt_bytes(
            out,
            tag::COLUMN_FAMILY_ADD,
            self.column_family_add.as_deref(),
        );
        if self.column_family_drop {
            put_varint32(out, tag::COLUMN_FAMILY_DROP);
        }
        let remaining = self.remaining_in_atomic_group.map(u64::from);
        put_opt_u64(out, tag::IN_ATOMIC_GROUP, remaining);
        put_opt_bytes(
            out,
            tag::FULL_HISTORY_TS_LOW,
            self.full_history_ts_low.as_deref(),
        );
        if let Some(persist) = self.persist_user_defined_timestamps {
            put_opt_bytes(out, tag::PERSIST_TIMESTAMPS, Some(&[u8::from(persist)]));
        }
        put_opt_bytes(
            out,
            tag::SUBCOMPACTION_PROGRESS,
            self.subcompaction_progress.as_deref(),
        );
        put_opt_nested_u64(
            out,
            tag::LAST_COMPACTED_MANIFEST_FILE_SIZE,
            self.last_compacted_manifest_file_size,
        );
        for (tag, list) in [
            (tag::LOG_CUT, &self.log_cuts),
            (tag::LOG_END, &self.log_ends),
        ] {
            for &(number, end) in list {
                let mut body = Vec::new();
                put_varint64(&mut body, number);
                put_varint64(&mut body, end);
                put_opt_bytes(out, tag, Some(&body));
            }
        }
        put_opt_nested_u64(out, tag::OLDEST_LOG, self.oldest_log);
        put_opt_nested_u64(out, tag::MANIFEST_MARK, self.manifest_mark);
    }

    /// Reads one record.
    ///
    /// # Errors
    /// `Corruption` for a field that does not decode or an unknown one that may not be skipped.
    pub fn decode(record: &[u8]) -> Result<Self> {
        let mut edit = Self::default();
        let mut d = Decoder::new(record, "VersionEdit");
        while !d.is_empty() {
            let tag = d.varint32("invalid tag")?;
            edit.decode_field(tag, &mut d)?;
        }
        Ok(edit)
    }

    /// Reads the body of a field into `self`.
    fn decode_field(&mut self, field: u32, d: &mut Decoder<'_>) -> Result<()> {
        match field {
            tag::DB_ID => self.db_id = Some(d.length_prefixed("db id")?.to_vec()),
            tag::COMPARATOR => {
                self.comparator = Some(d.length_prefixed("comparator name")?.to_vec());
            }
            tag::LOG_NUMBER => self.log_number = Some(d.varint64("log number")?),
            tag::PREV_LOG_NUMBER => self.prev_log_number = Some(d.varint64("previous log number")?),
            tag::NEXT_FILE_NUMBER => self.next_file_number = Some(d.varint64("next file number")?),
            tag::MAX_COLUMN_FAMILY => {
                self.max_column_family = Some(d.varint32("max column family")?);
            }
            tag::MIN_LOG_NUMBER_TO_KEEP => {
                self.min_log_number_to_keep = Some(d.varint64("min log number to keep")?);
            }
            tag::LAST_SEQUENCE => self.last_sequence = Some(d.varint64("last sequence number")?),
            tag::COMPACT_CURSOR => {
                let level = take_level(d, "compaction cursor")?;
                let key = take_internal_key(d, "compaction cursor")?;
                self.compact_cursors.push((level, key));
            }
            tag::DELETED_FILE => {
                let level = take_level(d, "deleted file")?;
                self.deleted_files
                    .push((level, d.varint64("deleted file")?));
            }
            tag::NEW_FILE => self
                .new_files
                .push(take_old_file(d, field, "new-file entry")?),
            tag::NEW_FILE2 => self
                .new_files
                .push(take_old_file(d, field, "new-file2 entry")?),
            tag::NEW_FILE3 => self
                .new_files
                .push(take_old_file(d, field, "new-file3 entry")?),
            tag::NEW_FILE4 => {
                let (file, min_log) = take_new_file4(d)?;
                self.new_files.push(file);
                if min_log.is_some() {
                    self.min_log_number_to_keep = min_log;
                }
            }
            tag::BLOB_FILE_ADDITION | tag::OLD_BLOB_FILE_ADDITION => {
                self.blob_file_additions.push(take_blob_addition(d)?);
            }
            tag::BLOB_FILE_GARBAGE | tag::OLD_BLOB_FILE_GARBAGE => {
                self.blob_file_garbages.push(take_blob_garbage(d)?);
            }
            tag::OLD_WAL_ADDITION => self.wal_additions.push(take_wal_addition(d)?),
            tag::OLD_WAL_DELETION => self.wal_deletion = Some(d.varint64("wal deletion")?),
            tag::WAL_ADDITION => {
                let mut body = Decoder::new(d.length_prefixed("wal addition")?, "VersionEdit");
                self.wal_additions.push(take_wal_addition(&mut body)?);
            }
            tag::WAL_DELETION => {
                let mut body = Decoder::new(d.length_prefixed("wal deletion")?, "VersionEdit");
                self.wal_deletion = Some(body.varint64("wal deletion")?);
            }
            _ => return self.decode_family_field(field, d),
        }
        Ok(())
    }

    /// The fields about the family and the record itself, and unknown ones.
    fn decode_family_field(&mut self, field: u32, d: &mut Decoder<'_>) -> Result<()> {
        match field {
            tag::COLUMN_FAMILY => self.column_family = d.varint32("set column family id")?,
            tag::COLUMN_FAMILY_ADD => {
                self.column_family_add = Some(d.length_prefixed("column family add")?.to_vec());
            }
            tag::COLUMN_FAMILY_DROP => self.column_family_drop = true,
            tag::IN_ATOMIC_GROUP => {
                self.remaining_in_atomic_group = Some(d.varint32("remaining entries")?);
            }
            tag::FULL_HISTORY_TS_LOW => {
                let low = d.length_prefixed("full_history_ts_low")?;
                self.full_history_ts_low = Some(low.to_vec());
            }
            tag::PERSIST_TIMESTAMPS => {
                let what = "persist_user_defined_timestamps";
                match d.length_prefixed(what)? {
                    [byte] => self.persist_user_defined_timestamps = Some(*byte == 1),
                    _ => return Err(bad("persist_user_defined_timestamps field wrong size")),
                }
            }
            tag::SUBCOMPACTION_PROGRESS => {
                let progress = d.length_prefixed("subcompaction progress")?;
                self.subcompaction_progress = Some(progress.to_vec());
            }
            tag::LAST_COMPACTED_MANIFEST_FILE_SIZE => {
                let what = "last compacted manifest file size";
                let mut body = Decoder::new(d.length_prefixed(what)?, "VersionEdit");
                self.last_compacted_manifest_file_size = Some(body.varint64(what)?);
            }
            tag::MANIFEST_MARK => {
                let what = "manifest mark";
                let mut body = Decoder::new(d.length_prefixed(what)?, "VersionEdit");
                self.manifest_mark = Some(body.varint64(what)?);
            }
            tag::OLDEST_LOG => {
                let what = "oldest log";
                let mut body = Decoder::new(d.length_prefixed(what)?, "VersionEdit");
                self.oldest_log = Some(body.varint64(what)?);
            }
            which @ (tag::LOG_CUT | tag::LOG_END) => {
                let what = "log cut or end";
                let mut body = Decoder::new(d.length_prefixed(what)?, "VersionEdit");
                let pair = (body.varint64(what)?, body.varint64(what)?);
                match which {
                    tag::LOG_CUT => self.log_cuts.push(pair),
                    _ => self.log_ends.push(pair),
                }
            }
            unknown if unknown & tag::SAFE_IGNORE_MASK != 0 => {
                d.length_prefixed("safely ignorable tag length error")?;
            }
            unknown => return Err(bad("unknown tag").with("tag", unknown)),
        }
        Ok(())
    }
}

/// Sub-tags of a log addition.
const WAL_TERMINATE: u32 = 1;
const WAL_SYNCED_SIZE: u32 = 2;

#[cold]
fn bad(what: &str) -> Error {
    Error::corruption(format!("VersionEdit: {what}"))
}

fn put_opt_u64(out: &mut Vec<u8>, tag: u32, value: Option<u64>) {
    if let Some(value) = value {
        put_varint32(out, tag);
        put_varint64(out, value);
    }
}

fn put_opt_bytes(out: &mut Vec<u8>, tag: u32, value: Option<&[u8]>) {
    if let Some(value) = value {
        put_varint32(out, tag);
        put_length_prefixed(out, value);
    }
}

/// A varint64 inside a length-prefixed body.
fn put_opt_nested_u64(out: &mut Vec<u8>, tag: u32, value: Option<u64>) {
    if let Some(value) = value {
        let mut body = Vec::new();
        put_varint64(&mut body, value);
        put_opt_bytes(out, tag, Some(&body));
    }
}

fn take_level(d: &mut Decoder<'_>, what: &'static str) -> Result<u32> {
    let level = d.varint32(what)?;
    if i32::try_from(level).is_err() {
        return Err(bad(what).with("level", level));
    }
    Ok(level)
}

fn take_internal_key(d: &mut Decoder<'_>, what: &'static str) -> Result<Vec<u8>> {
    let key = d.length_prefixed(what)?;
    if key.len() < TAG_LEN {
        return Err(bad(what).with("key_len", key.len()));
    }
    Ok(key.to_vec())
}

/// Custom fields of blob records: none is defined, skippable ones are dropped.
fn skip_blob_custom_fields(d: &mut Decoder<'_>, what: &'static str) -> Result<()> {
    loop {
        let tag = d.varint32(what)?;
        if tag == 0 {
            return Ok(());
        }
        if tag & new_file::NOT_SKIPPABLE != 0 {
            return Err(bad(what).with("forward incompatible custom field", tag));
        }
        d.length_prefixed(what)?;
    }
}

fn take_blob_addition(d: &mut Decoder<'_>) -> Result<BlobFileAddition> {
    let what = "blob file addition";
    let addition = BlobFileAddition {
        number: d.varint64(what)?,
        total_count: d.varint64(what)?,
        total_bytes: d.varint64(what)?,
        checksum_method: d.length_prefixed(what)?.to_vec(),
        checksum_value: d.length_prefixed(what)?.to_vec(),
    };
    skip_blob_custom_fields(d, what)?;
    Ok(addition)
}

fn take_blob_garbage(d: &mut Decoder<'_>) -> Result<BlobFileGarbage> {
    let what = "blob file garbage";
    let garbage = BlobFileGarbage {
        number: d.varint64(what)?,
        count: d.varint64(what)?,
        bytes: d.varint64(what)?,
    };
    skip_blob_custom_fields(d, what)?;
    Ok(garbage)
}

fn take_wal_addition(d: &mut Decoder<'_>) -> Result<WalAddition> {
    let what = "wal addition";
    let mut wal = WalAddition {
        number: d.varint64(what)?,
        synced_size: None,
    };
    loop {
        match d.varint32(what)? {
            WAL_TERMINATE => return Ok(wal),
            WAL_SYNCED_SIZE => wal.synced_size = Some(d.varint64(what)?),
            unknown => return Err(bad(what).with("tag", unknown)),
        }
    }
}

#[cfg(test)]
mod tests;
