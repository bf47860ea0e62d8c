//! Writes a table outside of any database, to be taken in by one later ([`crate::Cf::ingest`]).
//!
//! Entries have no sequence number yet: the database that takes the table in gives all of them one. A user key
//! therefore stands in it once, and with timestamps once per timestamp. Range tombstones are older than what stands
//! beside them in the same table: they delete what was there before.
//!
//! Threads: one at a time. Nothing is durable, and the file no table, before [`SstWriter::finish`] returned.

use crate::core::{
    FamilySettings, bottommost_compression_options, compression_options, host_name, new_session_id,
};
use crate::db::FamilyOptions;
use crate::options::{CompressionType, DbOptions};
use crate::version::{FilePaths, TableIo, TableIoOptions};
use spanlith_base::keys::{TAG_LEN, ValueType, pack_tag};
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::{Env, IoActivity, RateLimiter};
use spanlith_table::{BuilderOptions, CompressionOptions, TableBuilder};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Says what tables that no database wrote record in the place of its identity.
const DB_ID: &str = "SST Writer";

/// A table that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub size: u64,
    /// Entries, range tombstones among them.
    pub entries: u64,
    /// Range tombstones.
    pub range_deletions: u64,
    /// First key that is no range tombstone's; empty without any.
    pub smallest: Vec<u8>,
    /// Last such key.
    pub largest: Vec<u8>,
}

/// Writes tables that a database can take in, one after the other.
///
/// ```no_run
/// use spanlith::{Db, FamilyOptions, IngestOptions, SstWriter};
/// # fn main() -> spanlith::Result<()> {
/// let mut table = SstWriter::create("bulk.sst", FamilyOptions::new("default"))?;
/// for i in 0..1_000_000u32 {
///     table.put(i.to_be_bytes(), b"v")?;
/// }
/// table.finish()?;
/// let db = Db::open("data")?;
/// db.default_cf().ingest(["bulk.sst"], &IngestOptions::new().move_files(true))?;
/// # Ok(())
/// # }
/// ```
pub struct SstWriter {
    io: Arc<TableIo>,
    /// Says what all its tables have in common.
    options: BuilderOptions,
    /// Number of the next table: tables need numbers for their unique ids.
    next_number: u64,
    open: Option<OpenTable>,
    /// Bytes of the last table that was finished.
    finished_size: u64,
}

/// The table that is being written.
struct OpenTable {
    builder: TableBuilder,
    info: SstFile,
    /// Says whether an entry was added, which may have an empty key.
    has_keys: bool,
    /// The internal key of the next entry.
    key: Vec<u8>,
}

impl std::fmt::Debug for SstWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.open.as_ref().map(|o| &o.info);
        f.debug_struct("SstWriter")
            .field("open", &open)
            .finish_non_exhaustive()
    }
}

impl SstWriter {
    /// Writes tables for families with these options; of the database's options, those count that say how tables are
    /// written. `limiter` slows it down.
    ///
    /// # Errors
    /// As those of opening a database with these options.
    pub fn new(
        family: FamilyOptions,
        db: &DbOptions,
        env: &Env,
        limiter: Option<Arc<RateLimiter>>,
    ) -> Result<Self> {
        let request = family.for_tables(db)?;
        // Nothing lies there.
        let paths = FilePaths::one(Path::new("."));
        let settings = FamilySettings::new(request.options, request.table_options, &paths)
            .with_prefix_extractor(request.prefix_extractor);
        let (compression, compression_options) = codec_of(&settings);
        let options = BuilderOptions {
            table: settings.table.clone(),
            comparator: request.comparator,
            compression: compression.for_writing()?,
            compression_options,
            sample_for_compression: settings.options.sample_for_compression,
            db_id: DB_ID.to_string(),
            db_session_id: new_session_id(env),
            db_host_id: host_name(env, &db.db_host_id),
            target_file_size: settings.options.target_file_size_base,
            merge_operator_name: (request.merge_operator.as_ref())
                .map_or_else(String::new, |m| m.name().to_string()),
            collectors: request.collectors,
            prefix_extractor: settings.prefix_extractor.clone(),
            persist_timestamps: settings.options.persist_user_defined_timestamps,
            is_external: true,
            ..BuilderOptions::default()
        };
        let io = TableIo::new(
            env.fs.clone(),
            TableIoOptions {
                direct_writes: db.use_direct_io_for_flush_and_compaction,
                bytes_per_sync: db.bytes_per_sync,
                strict_bytes_per_sync: db.strict_bytes_per_sync,
                rate_limiter: limiter,
                ..TableIoOptions::default()
            },
        );
        Ok(Self {
            io,
            options,
            next_number: 1,
            open: None,
            finished_size: 0,
        })
    }

    /// Begins a table at `path` for families with these options. What is there is replaced.
    ///
    /// # Errors
    /// As [`Self::new`] and [`Self::open`].
    pub fn create(path: impl AsRef<Path>, family: FamilyOptions) -> Result<Self> {
        let mut writer = Self::new(family, &DbOptions::default(), &Env::system(), None)?;
        writer.open(path)?;
        Ok(writer)
    }

    /// Begins a table at `path`, replacing what is there. A table that was not finished is given up; its file stays.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.give_up();
        self.finished_size = 0;
        let file = self.io.create_table(path, IoActivity::Other, false, None)?;
        let mut options = self.options.clone();
        options.file_number = self.next_number;
        self.next_number += 1;
        self.open = Some(OpenTable {
            builder: TableBuilder::new(options, file),
            info: SstFile {
                path: path.to_path_buf(),
                ..SstFile::default()
            },
            has_keys: false,
            key: Vec::new(),
        });
        Ok(())
    }

    /// Adds a key with its value.
    ///
    /// # Errors
    /// `InvalidArgument` if no table was begun, if the key does not stand after the last one, or if keys have
    /// timestamps; of the file, which is then useless.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Value, key.as_ref(), value.as_ref())
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Merge, key.as_ref(), operand.as_ref())
    }

    /// Adds the deletion of a key.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Deletion, key.as_ref(), b"")
    }

    /// As [`Self::put`], as of a timestamp. Of one key the newest comes first.
    ///
    /// # Errors
    /// As there; `InvalidArgument` if timestamps of the family have another size.
    pub fn put_at(
        &mut self,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add_at(ValueType::Value, key.as_ref(), timestamp, value.as_ref())
    }

    /// As [`Self::delete`], as of a timestamp.
    ///
    /// # Errors
    /// As [`Self::put_at`].
    pub fn delete_at(&mut self, key: impl AsRef<[u8]>, timestamp: &[u8]) -> Result<()> {
        let kind = ValueType::DeletionWithTimestamp;
        self.add_at(kind, key.as_ref(), timestamp, b"")
    }

    /// Adds the deletion of all keys from `begin` on and before `end`. In any order.
    ///
    /// # Errors
    /// `InvalidArgument` if no table was begun, the end lies before the beginning, or keys have timestamps; of the
    /// file.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.add_range(begin.as_ref(), end.as_ref(), None)
    }

    /// As [`Self::delete_range`], as of a timestamp.
    ///
    /// # Errors
    /// As there; `InvalidArgument` if timestamps of the family have another size.
    pub fn delete_range_at(
        &mut self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        timestamp: &[u8],
    ) -> Result<()> {
        self.add_range(begin.as_ref(), end.as_ref(), Some(timestamp))
    }

    /// Ends the table: it is whole, synced and closed when this returns. The next one may be begun.
    ///
    /// # Errors
    /// `InvalidArgument` if no table was begun, or if it has no entry: it can still get some; what an earlier call
    /// failed with; of the file, which is then useless.
    pub fn finish(&mut self) -> Result<SstFile> {
        if self.open_table()?.builder.num_entries() == 0 {
            return Err(Error::invalid_argument(
                "Cannot create sst file with no entries",
            ));
        }
        let Some(OpenTable {
            builder, mut info, ..
        }) = self.open.take()
        else {
            return Err(not_open());
        };
        let summary = builder.finish()?;
        info.size = summary.file_size;
        info.entries = summary.properties.num_entries;
        info.range_deletions = summary.properties.num_range_deletions;
        self.finished_size = info.size;
        Ok(info)
    }

    /// Bytes of the table so far, without the block that is being filled; of the whole table once it is finished.
    pub fn file_size(&self) -> u64 {
        match &self.open {
            Some(open) => open.builder.file_size(),
            None => self.finished_size,
        }
    }

    fn comparator(&self) -> &Comparator {
        &self.options.comparator
    }

    fn open_table(&mut self) -> Result<&mut OpenTable> {
        self.open.as_mut().ok_or_else(not_open)
    }

    fn add(&mut self, kind: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_at(kind, key, b"", value)
    }

    fn add_at(
        &mut self,
        kind: ValueType,
        key: &[u8],
        timestamp: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if timestamp.len() != self.comparator().timestamp_size() {
            return Err(wrong_timestamp());
        }
        let comparator = &self.options.comparator;
        let open = self.open.as_mut().ok_or_else(not_open)?;
        open.key.clear();
        open.key.extend_from_slice(key);
        open.key.extend_from_slice(timestamp);
        let last = &open.info.largest;
        if open.has_keys && comparator.compare(&open.key, last).is_le() {
            return Err(Error::invalid_argument(
                "Keys must be added in strict ascending order.",
            ));
        }
        let tag = pack_tag(0, kind as u8);
        open.key.extend_from_slice(&tag.to_le_bytes());
        open.builder.add(&open.key, value)?;
        let user_key = &open.key[..open.key.len() - TAG_LEN];
        if !open.has_keys {
            open.has_keys = true;
            open.info.smallest = user_key.to_vec();
        }
        open.info.largest.clear();
        open.info.largest.extend_from_slice(user_key);
        Ok(())
    }

    fn add_range(&mut self, begin: &[u8], end: &[u8], timestamp: Option<&[u8]>) -> Result<()> {
        let timestamp = timestamp.unwrap_or_default();
        if timestamp.len() != self.comparator().timestamp_size() {
            return Err(wrong_timestamp());
        }
        let comparator = &self.options.comparator;
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let order = comparator.compare_without_timestamp(begin, false, end, false);
        if order.is_gt() {
            return Err(Error::invalid_argument("end key comes before start key"));
        }
        if order.is_eq() {
            return Ok(());
        }
        let tag = pack_tag(0, ValueType::RangeDeletion as u8).to_le_bytes();
        let start = [begin, timestamp, &tag].concat();
        let end = [end, timestamp].concat();
        open.builder.add_range_tombstone(&start, &end)
    }

    /// Gives up a table that was not finished.
    fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            open.builder.abandon();
        }
    }
}

impl Drop for SstWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The codec of the last level, where most of what is taken in is going to lie.
fn codec_of(settings: &FamilySettings) -> (CompressionType, CompressionOptions) {
    let o = &settings.options;
    match (o.bottommost_compression, o.compression_per_level.last()) {
        (CompressionType::Disable, None) => (o.compression, compression_options(o)),
        (CompressionType::Disable, Some(&last)) => (last, compression_options(o)),
        (bottommost, _) => (bottommost, bottommost_compression_options(o)),
    }
}

fn not_open() -> Error {
    Error::invalid_argument("File is not opened")
}

fn wrong_timestamp() -> Error {
    Error::invalid_argument("Timestamp size mismatch")
}
