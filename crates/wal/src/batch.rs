//! A write batch: updates collected in the bytes that go to the log.
//!
//! The encoding is described in [`crate::batch_iter`]. A batch is always well formed if it was built
//! by its methods; [`WriteBatch::from_rep`] takes bytes as they are. Entries of column family 0 are
//! written without a family field, as RocksDB does.
//!
//! A save point remembers length, count and flags; rolling back truncates. Threads: plain data.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation
)]

mod markers;
mod protection;
mod timestamps;

pub use protection::{entry_checksums, verify_checksums};
pub use timestamps::reconcile_timestamps;

use crate::batch_iter::{BatchIter, BatchOp, PrepareKind, tag};
use spanlith_base::coding::{get_fixed32, get_fixed64, put_varint32, put_varint64};
use spanlith_base::{Error, ErrorKind, Result, SubCode};

/// Bytes of the batch header: sequence number and count.
pub const BATCH_HEADER_SIZE: usize = 12;

/// Longest key: an internal key must fit 32 bits.
const KEY_SIZE_MAX: u64 = (u32::MAX - 8) as u64;
/// Longest value, operand, note or transaction id.
const VALUE_SIZE_MAX: u64 = u32::MAX as u64;

/// Which kinds of entries a batch holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentFlags(u16);

impl ContentFlags {
    const PUT: u16 = 1;
    const DELETE: u16 = 1 << 1;
    const SINGLE_DELETE: u16 = 1 << 2;
    const MERGE: u16 = 1 << 3;
    const DELETE_RANGE: u16 = 1 << 4;
    const LOG_DATA: u16 = 1 << 5;
    const BLOB_INDEX: u16 = 1 << 6;
    const ENTITY: u16 = 1 << 7;
    const TIMED_PUT: u16 = 1 << 8;
    const BEGIN_PREPARE: u16 = 1 << 9;
    const END_PREPARE: u16 = 1 << 10;
    const COMMIT: u16 = 1 << 11;
    const ROLLBACK: u16 = 1 << 12;
    const BEGIN_UNPREPARE: u16 = 1 << 13;
    const TWO_PHASE: u16 = Self::BEGIN_PREPARE
        | Self::END_PREPARE
        | Self::COMMIT
        | Self::ROLLBACK
        | Self::BEGIN_UNPREPARE;

    fn of(op: &BatchOp<'_>) -> u16 {
        match op {
            BatchOp::Put { .. } => Self::PUT,
            BatchOp::Delete { .. } => Self::DELETE,
            BatchOp::SingleDelete { .. } => Self::SINGLE_DELETE,
            BatchOp::Merge { .. } => Self::MERGE,
            BatchOp::DeleteRange { .. } => Self::DELETE_RANGE,
            BatchOp::LogData { .. } => Self::LOG_DATA,
            BatchOp::BlobIndex { .. } => Self::BLOB_INDEX,
            BatchOp::WideColumnEntity { .. } => Self::ENTITY,
            BatchOp::ValuePreferredSeqno { .. } => Self::TIMED_PUT,
            BatchOp::BeginPrepare(PrepareKind::Unprepared) => Self::BEGIN_UNPREPARE,
            BatchOp::BeginPrepare(_) => Self::BEGIN_PREPARE,
            BatchOp::EndPrepare { .. } => Self::END_PREPARE,
            BatchOp::Commit { .. } | BatchOp::CommitWithTimestamp { .. } => Self::COMMIT,
            BatchOp::Rollback { .. } => Self::ROLLBACK,
            BatchOp::Noop => 0,
        }
    }

    /// Returns whether every entry is a put, delete or single delete (or a note): inserting needs no merge
    /// operator and no range tombstones.
    pub fn is_plain(self) -> bool {
        self.0 & !(Self::PUT | Self::DELETE | Self::SINGLE_DELETE | Self::LOG_DATA) == 0
    }
}

macro_rules! flag_getters {
    ($($(#[$doc:meta])* $name:ident => $flag:ident;)*) => {
        impl WriteBatch {
            $($(#[$doc])* #[inline] pub fn $name(&self) -> bool {
                self.flags.0 & ContentFlags::$flag != 0
            })*
        }
    };
}

flag_getters! {
    /// Says whether it holds a put.
    has_put => PUT;
    /// Says whether it holds a delete.
    has_delete => DELETE;
    /// Says whether it holds a single delete.
    has_single_delete => SINGLE_DELETE;
    /// Says whether it holds a merge.
    has_merge => MERGE;
    /// Says whether it holds a range deletion.
    has_delete_range => DELETE_RANGE;
    /// Says whether it holds a note.
    has_log_data => LOG_DATA;
    /// Says whether it holds a blob reference.
    has_blob_index => BLOB_INDEX;
    /// Says whether it holds a wide-column entity.
    has_wide_column_entity => ENTITY;
    /// Says whether it holds a put with a write time.
    has_value_preferred_seqno => TIMED_PUT;
    /// Says whether it holds a marker of two-phase commit.
    has_two_phase => TWO_PHASE;
    /// Says whether it begins a prepared section.
    has_begin_prepare => BEGIN_PREPARE;
    /// Says whether it begins a section of a transaction that is not prepared yet.
    has_begin_unprepare => BEGIN_UNPREPARE;
    /// Says whether it ends a prepared section.
    has_end_prepare => END_PREPARE;
    /// Says whether it commits a transaction.
    has_commit => COMMIT;
    /// Says whether it rolls a transaction back.
    has_rollback => ROLLBACK;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SavePoint {
    len: usize,
    count: u32,
    flags: ContentFlags,
}

/// Updates that are applied as a whole.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// Header and entries, at least [`BATCH_HEADER_SIZE`] bytes.
    rep: Vec<u8>,
    flags: ContentFlags,
    save_points: Vec<SavePoint>,
    /// Largest `rep.len()` allowed; 0 means any.
    size_max: usize,
    /// Up to where the batch goes to the log; all of it if `None`.
    log_end: Option<SavePoint>,
    /// Of each counted entry, if the batch is protected.
    checksums: Option<Vec<u64>>,
    /// Some keys have the place of a timestamp, and none in it yet.
    lacks_timestamps: bool,
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for WriteBatch {
    /// Equal bytes; save points and limits do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.rep == other.rep
    }
}

impl Eq for WriteBatch {}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::with_limits(0, 0)
    }

    /// An empty batch with room for `reserved_bytes`, refusing to grow over `size_max` bytes
    /// (0: no limit).
    pub fn with_limits(reserved_bytes: usize, size_max: usize) -> Self {
        let mut rep = Vec::with_capacity(reserved_bytes.max(BATCH_HEADER_SIZE));
        rep.resize(BATCH_HEADER_SIZE, 0);
        Self {
            rep,
            flags: ContentFlags::default(),
            save_points: Vec::new(),
            size_max,
            log_end: None,
            checksums: None,
            lacks_timestamps: false,
        }
    }

    /// Takes encoded bytes after checking every entry and the count.
    ///
    /// # Errors
    /// `Corruption`.
    pub fn from_bytes(rep: impl Into<Vec<u8>>) -> Result<Self> {
        let rep = rep.into();
        let mut flags = 0;
        for op in BatchIter::new(&rep)? {
            flags |= ContentFlags::of(&op?);
        }
        let flags = ContentFlags(flags);
        Ok(Self {
            rep,
            flags,
            save_points: Vec::new(),
            size_max: 0,
            log_end: None,
            checksums: None,
            lacks_timestamps: false,
        })
    }

    /// Takes encoded bytes as they are; damage shows when the batch is written. Fewer bytes than a
    /// header are filled up with zeros, flags cover the entries that decode.
    pub fn from_rep(rep: impl Into<Vec<u8>>) -> Self {
        let mut rep = rep.into();
        if rep.len() < BATCH_HEADER_SIZE {
            rep.resize(BATCH_HEADER_SIZE, 0);
        }
        let flags = BatchIter::new(&rep)
            .into_iter()
            .flatten()
            .flatten()
            .fold(0, |flags, op| flags | ContentFlags::of(&op));
        let flags = ContentFlags(flags);
        Self {
            rep,
            flags,
            save_points: Vec::new(),
            size_max: 0,
            log_end: None,
            checksums: None,
            lacks_timestamps: false,
        }
    }

    /// Sets `key` to `value` in the default column family.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_cf(0, key, value)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` if key or value is too long for 32-bit lengths, `Aborted` with the subcode
    /// for memory if the batch would outgrow its limit. The batch is unchanged then.
    #[inline]
    pub fn put_cf(&mut self, cf: u32, key: &[u8], value: &[u8]) -> Result<()> {
        self.pair(cf, tag::VALUE, tag::CF_VALUE, ContentFlags::PUT, key, value)
    }

    /// Adds a merge operand in the default column family.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_cf(0, key, operand)
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn merge_cf(&mut self, cf: u32, key: &[u8], operand: &[u8]) -> Result<()> {
        self.pair(
            cf,
            tag::MERGE,
            tag::CF_MERGE,
            ContentFlags::MERGE,
            key,
            operand,
        )
    }

    /// Deletes `key` in the default column family.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.delete_cf(0, key)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    #[inline]
    pub fn delete_cf(&mut self, cf: u32, key: &[u8]) -> Result<()> {
        self.single(
            cf,
            tag::DELETION,
            tag::CF_DELETION,
            ContentFlags::DELETE,
            key,
        )
    }

    /// Deletes `key`, which was put once, in the default column family.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn single_delete(&mut self, key: &[u8]) -> Result<()> {
        self.single_delete_cf(0, key)
    }

    /// Deletes `key`, which was put once.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn single_delete_cf(&mut self, cf: u32, key: &[u8]) -> Result<()> {
        let flag = ContentFlags::SINGLE_DELETE;
        self.single(cf, tag::SINGLE_DELETION, tag::CF_SINGLE_DELETION, flag, key)
    }

    /// Deletes the keys from `begin` up to, not including, `end` in the default column family.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.delete_range_cf(0, begin, end)
    }

    /// Deletes the keys from `begin` up to, not including, `end`. Their order is the business of
    /// whoever knows the comparator.
    ///
    /// # Errors
    /// As [`Self::put_cf`]; both are keys.
    pub fn delete_range_cf(&mut self, cf: u32, begin: &[u8], end: &[u8]) -> Result<()> {
        if end.len() as u64 > KEY_SIZE_MAX {
            return Err(too_long("key is too large"));
        }
        let flag = ContentFlags::DELETE_RANGE;
        self.pair(
            cf,
            tag::RANGE_DELETION,
            tag::CF_RANGE_DELETION,
            flag,
            begin,
            end,
        )
    }

    /// Sets `key` to the wide columns that `entity` encodes.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn put_entity_cf(&mut self, cf: u32, key: &[u8], entity: &[u8]) -> Result<()> {
        let (plain, with_cf) = (tag::WIDE_COLUMN_ENTITY, tag::CF_WIDE_COLUMN_ENTITY);
        self.pair(cf, plain, with_cf, ContentFlags::ENTITY, key, entity)
    }

    /// Sets `key` to the value that the blob reference `index` names.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn put_blob_index_cf(&mut self, cf: u32, key: &[u8], index: &[u8]) -> Result<()> {
        let (plain, with_cf) = (tag::BLOB_INDEX, tag::CF_BLOB_INDEX);
        self.pair(cf, plain, with_cf, ContentFlags::BLOB_INDEX, key, index)
    }

    /// Sets `key` to `value`, which was written at `write_unix_time` (seconds): placement treats the
    /// entry as that old.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn timed_put_cf(
        &mut self,
        cf: u32,
        key: &[u8],
        value: &[u8],
        write_unix_time: u64,
    ) -> Result<()> {
        let mut packed = Vec::with_capacity(value.len() + 8);
        packed.extend_from_slice(value);
        packed.extend_from_slice(&write_unix_time.to_le_bytes());
        self.packed_timed_put_cf(cf, key, &packed)
    }

    fn packed_timed_put_cf(&mut self, cf: u32, key: &[u8], packed: &[u8]) -> Result<()> {
        let (plain, with_cf) = (tag::VALUE_PREFERRED_SEQNO, tag::CF_VALUE_PREFERRED_SEQNO);
        self.pair(cf, plain, with_cf, ContentFlags::TIMED_PUT, key, packed)
    }

    /// Adds a note that goes to the log only and is not counted.
    ///
    /// # Errors
    /// As [`Self::put_cf`].
    pub fn put_log_data(&mut self, blob: &[u8]) -> Result<()> {
        if blob.len() as u64 > VALUE_SIZE_MAX {
            return Err(too_long("value is too large"));
        }
        let before = self.rep.len();
        self.rep.push(tag::LOG_DATA);
        put_varint64(&mut self.rep, blob.len() as u64);
        self.rep.extend_from_slice(blob);
        self.check_limit(before)?;
        self.flags.0 |= ContentFlags::LOG_DATA;
        Ok(())
    }

    #[inline]
    fn pair(
        &mut self,
        cf: u32,
        tag_default: u8,
        tag_cf: u8,
        flag: u16,
        first: &[u8],
        second: &[u8],
    ) -> Result<()> {
        if first.len() as u64 > KEY_SIZE_MAX {
            return Err(too_long("key is too large"));
        }
        if second.len() as u64 > VALUE_SIZE_MAX {
            return Err(too_long("value is too large"));
        }
        let before = self.rep.len();
        // Tag, family and two lengths are at most 16 bytes.
        self.rep.reserve(16 + first.len() + second.len());
        self.push_tag(cf, tag_default, tag_cf);
        put_varint64(&mut self.rep, first.len() as u64);
        self.rep.extend_from_slice(first);
        put_varint64(&mut self.rep, second.len() as u64);
        self.rep.extend_from_slice(second);
        self.finish_counted(before, flag)?;
        if let Some(sums) = &mut self.checksums {
            sums.push(protection::checksum(tag_default, cf, first, second));
        }
        Ok(())
    }

    #[inline]
    fn single(
        &mut self,
        cf: u32,
        tag_default: u8,
        tag_cf: u8,
        flag: u16,
        key: &[u8],
    ) -> Result<()> {
        if key.len() as u64 > KEY_SIZE_MAX {
            return Err(too_long("key is too large"));
        }
        let before = self.rep.len();
        self.rep.reserve(11 + key.len());
        self.push_tag(cf, tag_default, tag_cf);
        put_varint64(&mut self.rep, key.len() as u64);
        self.rep.extend_from_slice(key);
        self.finish_counted(before, flag)?;
        if let Some(sums) = &mut self.checksums {
            sums.push(protection::checksum(tag_default, cf, key, &[]));
        }
        Ok(())
    }

    #[inline]
    fn push_tag(&mut self, cf: u32, tag_default: u8, tag_cf: u8) {
        if cf == 0 {
            self.rep.push(tag_default);
        } else {
            self.rep.push(tag_cf);
            put_varint32(&mut self.rep, cf);
        }
    }

    #[inline]
    fn finish_counted(&mut self, before: usize, flag: u16) -> Result<()> {
        self.check_limit(before)?;
        let Some(count) = self.count().checked_add(1) else {
            self.rep.truncate(before);
            return Err(Error::invalid_argument(
                "write batch holds too many entries",
            ));
        };
        self.set_count(count);
        self.flags.0 |= flag;
        Ok(())
    }

    /// Takes the last entry back if it is over the limit.
    #[inline]
    fn check_limit(&mut self, before: usize) -> Result<()> {
        if self.size_max != 0 && self.rep.len() > self.size_max {
            self.rep.truncate(before);
            return Err(Error::new(ErrorKind::Aborted, "").with_subcode(SubCode::MemoryLimit));
        }
        Ok(())
    }

    /// Appends the entries of `other`. Its sequence number and save points do not count.
    ///
    /// # Errors
    /// `Aborted` at this batch's limit, `InvalidArgument` if the counts do not fit; unchanged then.
    pub fn append(&mut self, other: &WriteBatch) -> Result<()> {
        self.append_entries(other.body(), other.count(), other.flags, other.checksums())?;
        self.lacks_timestamps |= other.lacks_timestamps;
        Ok(())
    }

    /// `sums` are the checksums of the entries; without any, they are computed if they are needed.
    fn append_entries(
        &mut self,
        body: &[u8],
        added: u32,
        flags: ContentFlags,
        sums: &[u64],
    ) -> Result<()> {
        let before = self.rep.len();
        let Some(count) = self.count().checked_add(added) else {
            return Err(Error::invalid_argument(
                "write batch holds too many entries",
            ));
        };
        self.rep.extend_from_slice(body);
        self.check_limit(before)?;
        if let Err(e) = self.protect_appended(body, sums) {
            self.rep.truncate(before);
            return Err(e);
        }
        self.set_count(count);
        self.flags.0 |= flags.0;
        Ok(())
    }

    /// Forgets all entries and save points; keeps the memory.
    pub fn clear(&mut self) {
        self.rep.clear();
        self.rep.resize(BATCH_HEADER_SIZE, 0);
        self.flags = ContentFlags::default();
        self.save_points.clear();
        self.log_end = None;
        self.lacks_timestamps = false;
        if let Some(sums) = &mut self.checksums {
            sums.clear();
        }
    }

    /// Remembers the present contents.
    pub fn set_save_point(&mut self) {
        let (len, count, flags) = (self.rep.len(), self.count(), self.flags);
        self.save_points.push(SavePoint { len, count, flags });
    }

    /// Returns to the latest save point and removes it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.save_points.pop().ok_or_else(|| Error::not_found(""))?;
        self.rep.truncate(point.len);
        self.set_count(point.count);
        self.flags = point.flags;
        if let Some(sums) = &mut self.checksums {
            sums.truncate(point.count as usize);
        }
        Ok(())
    }

    /// Removes the latest save point and keeps the contents.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.save_points
            .pop()
            .map(|_| ())
            .ok_or_else(|| Error::not_found(""))
    }

    /// Number of counted entries, from the header.
    #[inline]
    pub fn count(&self) -> u32 {
        get_fixed32(&self.rep, 8).unwrap_or(0)
    }

    #[inline]
    fn set_count(&mut self, count: u32) {
        if let Some(bytes) = self.rep.get_mut(8..12) {
            bytes.copy_from_slice(&count.to_le_bytes());
        }
    }

    /// Returns whether it has no counted entry.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Sequence number of the first entry, from the header.
    #[inline]
    pub fn sequence(&self) -> u64 {
        get_fixed64(&self.rep, 0).unwrap_or(0)
    }

    /// Sets the sequence number of the first entry.
    #[inline]
    pub fn set_sequence(&mut self, sequence: u64) {
        if let Some(bytes) = self.rep.get_mut(..8) {
            bytes.copy_from_slice(&sequence.to_le_bytes());
        }
    }

    /// Size in bytes, header included.
    #[inline]
    pub fn data_size(&self) -> usize {
        self.rep.len()
    }

    /// Makes room for `bytes` more.
    pub fn reserve(&mut self, bytes: usize) {
        self.rep.reserve(bytes);
    }

    /// Sets the limit of [`Self::data_size`]; 0 means none.
    pub fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
    }

    /// The encoded bytes, header included.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.rep
    }

    /// The entries without the header.
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.rep.get(BATCH_HEADER_SIZE..).unwrap_or_default()
    }

    /// The encoded bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.rep
    }

    /// Which kinds of entries it holds.
    #[inline]
    pub fn flags(&self) -> ContentFlags {
        self.flags
    }

    /// Walks the entries.
    ///
    /// # Errors
    /// Never for a batch that was not built by [`Self::from_rep`].
    #[inline]
    pub fn iter(&self) -> Result<BatchIter<'_>> {
        BatchIter::new(&self.rep)
    }
}

#[cold]
fn too_long(what: &'static str) -> Error {
    Error::invalid_argument(what)
}
