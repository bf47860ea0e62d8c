//! Walks the bytes of a write batch.
//!
//! ```text
//! batch  := sequence (fixed64) | count (fixed32) | entry*
//! entry  := tag | [column family (varint32)] | fields, each varint32 length and bytes
//! ```
//!
//! Every tag is decoded; what cannot be executed is refused by whoever executes. The walk borrows
//! from the bytes and allocates only for errors. Batches reach it from logs, so the bytes are not
//! trusted (B3). On the write path the leader walks each batch once: puts and deletes of the default
//! family with lengths below 128 take the straight path.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation
)]

use crate::batch::BATCH_HEADER_SIZE;
use spanlith_base::coding::{get_fixed32, get_fixed64, get_varint32};
use spanlith_base::{Error, Result};

/// Tag bytes of entries; those of the default column family come without a family field.
pub(crate) mod tag {
    pub const DELETION: u8 = 0x00;
    pub const VALUE: u8 = 0x01;
    pub const MERGE: u8 = 0x02;
    pub const LOG_DATA: u8 = 0x03;
    pub const CF_DELETION: u8 = 0x04;
    pub const CF_VALUE: u8 = 0x05;
    pub const CF_MERGE: u8 = 0x06;
    pub const SINGLE_DELETION: u8 = 0x07;
    pub const CF_SINGLE_DELETION: u8 = 0x08;
    pub const BEGIN_PREPARE: u8 = 0x09;
    pub const END_PREPARE: u8 = 0x0a;
    pub const COMMIT: u8 = 0x0b;
    pub const ROLLBACK: u8 = 0x0c;
    pub const NOOP: u8 = 0x0d;
    pub const CF_RANGE_DELETION: u8 = 0x0e;
    pub const RANGE_DELETION: u8 = 0x0f;
    pub const CF_BLOB_INDEX: u8 = 0x10;
    pub const BLOB_INDEX: u8 = 0x11;
    pub const BEGIN_PERSISTED_PREPARE: u8 = 0x12;
    pub const BEGIN_UNPREPARE: u8 = 0x13;
    pub const COMMIT_WITH_TIMESTAMP: u8 = 0x15;
    pub const WIDE_COLUMN_ENTITY: u8 = 0x16;
    pub const CF_WIDE_COLUMN_ENTITY: u8 = 0x17;
    pub const VALUE_PREFERRED_SEQNO: u8 = 0x18;
    pub const CF_VALUE_PREFERRED_SEQNO: u8 = 0x19;
}

/// Policy of the transaction that starts a prepared section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareKind {
    /// Write-committed.
    Committed,
    /// Write-prepared.
    Prepared,
    /// Write-unprepared.
    Unprepared,
}

/// One entry of a batch.
// The tag is as wide as `cf` next to it: with a byte and padding, moving an entry reads across
// stores that are still in flight, which costs more than the decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum BatchOp<'a> {
    Put {
        cf: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    Delete {
        cf: u32,
        key: &'a [u8],
    },
    SingleDelete {
        cf: u32,
        key: &'a [u8],
    },
    /// `value` is the operand.
    Merge {
        cf: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Keys from `begin` up to, not including, `end`.
    DeleteRange {
        cf: u32,
        begin: &'a [u8],
        end: &'a [u8],
    },
    /// A note for readers of the log; never stored.
    LogData {
        blob: &'a [u8],
    },
    BlobIndex {
        cf: u32,
        key: &'a [u8],
        index: &'a [u8],
    },
    WideColumnEntity {
        cf: u32,
        key: &'a [u8],
        entity: &'a [u8],
    },
    /// `value` is the user's value followed by a write time (fixed64, seconds).
    ValuePreferredSeqno {
        cf: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    BeginPrepare(PrepareKind),
    EndPrepare {
        xid: &'a [u8],
    },
    Commit {
        xid: &'a [u8],
    },
    CommitWithTimestamp {
        ts: &'a [u8],
        xid: &'a [u8],
    },
    Rollback {
        xid: &'a [u8],
    },
    Noop,
}

impl<'a> BatchOp<'a> {
    /// Returns whether the entry counts in the header and takes a sequence number.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.cf().is_some()
    }

    /// The column family it writes to; `None` for markers and notes.
    #[inline]
    pub fn cf(&self) -> Option<u32> {
        match *self {
            Self::Put { cf, .. }
            | Self::Delete { cf, .. }
            | Self::SingleDelete { cf, .. }
            | Self::Merge { cf, .. }
            | Self::DeleteRange { cf, .. }
            | Self::BlobIndex { cf, .. }
            | Self::WideColumnEntity { cf, .. }
            | Self::ValuePreferredSeqno { cf, .. } => Some(cf),
            Self::LogData { .. }
            | Self::BeginPrepare(_)
            | Self::EndPrepare { .. }
            | Self::Commit { .. }
            | Self::CommitWithTimestamp { .. }
            | Self::Rollback { .. }
            | Self::Noop => None,
        }
    }

    /// The key it writes to, the first one of a range; `None` for markers and notes.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Put { key, .. }
            | Self::Delete { key, .. }
            | Self::SingleDelete { key, .. }
            | Self::Merge { key, .. }
            | Self::DeleteRange { begin: key, .. }
            | Self::BlobIndex { key, .. }
            | Self::WideColumnEntity { key, .. }
            | Self::ValuePreferredSeqno { key, .. } => Some(key),
            Self::LogData { .. }
            | Self::BeginPrepare(_)
            | Self::EndPrepare { .. }
            | Self::Commit { .. }
            | Self::CommitWithTimestamp { .. }
            | Self::Rollback { .. }
            | Self::Noop => None,
        }
    }
}

/// Iterates over the entries of a batch; ends after the first error.
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    rest: &'a [u8],
    sequence: u64,
    /// Count in the header, [`ANY_COUNT`] if it is not to be compared (any more).
    count: u64,
    found: u64,
}

/// No count to compare with.
const ANY_COUNT: u64 = u64::MAX;

impl<'a> BatchIter<'a> {
    /// Walks `rep`, header included, and compares the count at the end.
    ///
    /// # Errors
    /// `Corruption` if there is no whole header.
    #[inline]
    pub fn new(rep: &'a [u8]) -> Result<Self> {
        match (
            get_fixed64(rep, 0),
            get_fixed32(rep, 8),
            rep.get(BATCH_HEADER_SIZE..),
        ) {
            (Some(sequence), Some(count), Some(rest)) => Ok(Self {
                rest,
                sequence,
                count: u64::from(count),
                found: 0,
            }),
            _ => Err(Error::corruption("malformed WriteBatch (too small)")),
        }
    }

    /// Walks entries without a header, such as a part of a batch; no count is compared.
    #[inline]
    pub fn entries(body: &'a [u8]) -> Self {
        Self {
            rest: body,
            sequence: 0,
            count: ANY_COUNT,
            found: 0,
        }
    }

    /// Sequence number in the header; 0 without one.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Count in the header; 0 without one.
    #[inline]
    pub fn header_count(&self) -> u32 {
        u32::try_from(self.count).unwrap_or(0)
    }

    /// Counted entries yielded so far.
    #[inline]
    pub fn found(&self) -> u64 {
        self.found
    }

    /// The bytes not yet walked.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The events that are no entry for [`Self::fast`]: the end, another entry, or damage. Out of line, so
    /// that the fast path hands its entry over in registers.
    #[inline(never)]
    fn next_slow(&mut self) -> Option<Result<BatchOp<'a>>> {
        if self.rest.is_empty() {
            if self.found == self.count || self.count == ANY_COUNT {
                return None;
            }
            let count = std::mem::replace(&mut self.count, ANY_COUNT);
            // B3: whoever walks a batch relies on its count no further than on its bytes.
            return Some(Err(Error::corruption("WriteBatch has wrong count")
                .with("count", count)
                .with("entries", self.found)));
        }
        match self.slow() {
            Ok(op) => {
                self.found += u64::from(op.is_counted());
                Some(Ok(op))
            }
            Err(error) => {
                self.rest = &[];
                self.count = ANY_COUNT;
                Some(Err(error))
            }
        }
    }

    /// Key of a put or deletion in the default family, and the value if it is a put: the usual
    /// entries, without what it takes to tell all kinds apart. `None`, with nothing passed, if the
    /// next entry is of another kind, unusually long, damaged or not there.
    #[inline(always)]
    pub fn next_plain(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let plain = self.plain()?;
        self.found += 1;
        Some(plain)
    }

    /// A put or delete in the default family with one-byte lengths; a value may have two.
    #[inline(always)]
    fn fast(&mut self) -> Option<BatchOp<'a>> {
        Some(match self.plain()? {
            (key, Some(value)) => BatchOp::Put { cf: 0, key, value },
            (key, None) => BatchOp::Delete { cf: 0, key },
        })
    }

    #[inline(always)]
    fn plain(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let [
            entry_tag @ (tag::VALUE | tag::DELETION),
            key_len @ 0..0x80,
            rest @ ..,
        ] = self.rest
        else {
            return None;
        };
        let (key, rest) = rest.split_at_checked(usize::from(*key_len))?;
        if *entry_tag == tag::DELETION {
            self.rest = rest;
            return Some((key, None));
        }
        let (value_len, rest) = match rest {
            [len @ 0..0x80, rest @ ..] => (usize::from(*len), rest),
            [low, high @ 0..0x80, rest @ ..] => {
                (usize::from(low & 0x7f) | usize::from(*high) << 7, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(value_len)?;
        self.rest = rest;
        Some((key, Some(value)))
    }

    /// Any entry. `Err` names what did not decode.
    fn slow(&mut self) -> Result<BatchOp<'a>> {
        let Some((&entry_tag, rest)) = self.rest.split_first() else {
            return Err(Error::corruption("malformed WriteBatch (too small)"));
        };
        let mut c = Fields { rest, entry_tag };
        let op = match entry_tag {
            tag::VALUE | tag::CF_VALUE => {
                let what = "bad WriteBatch Put";
                BatchOp::Put {
                    cf: c.cf(tag::VALUE, what)?,
                    key: c.str(what)?,
                    value: c.str(what)?,
                }
            }
            tag::DELETION | tag::CF_DELETION => {
                let what = "bad WriteBatch Delete";
                BatchOp::Delete {
                    cf: c.cf(tag::DELETION, what)?,
                    key: c.str(what)?,
                }
            }
            tag::SINGLE_DELETION | tag::CF_SINGLE_DELETION => {
                let what = "bad WriteBatch SingleDelete";
                BatchOp::SingleDelete {
                    cf: c.cf(tag::SINGLE_DELETION, what)?,
                    key: c.str(what)?,
                }
            }
            tag::MERGE | tag::CF_MERGE => {
                let what = "bad WriteBatch Merge";
                let cf = c.cf(tag::MERGE, what)?;
                BatchOp::Merge {
                    cf,
                    key: c.str(what)?,
                    value: c.str(what)?,
                }
            }
            tag::RANGE_DELETION | tag::CF_RANGE_DELETION => {
                let what = "bad WriteBatch DeleteRange";
                let cf = c.cf(tag::RANGE_DELETION, what)?;
                BatchOp::DeleteRange {
                    cf,
                    begin: c.str(what)?,
                    end: c.str(what)?,
                }
            }
            tag::LOG_DATA => BatchOp::LogData {
                blob: c.str("bad WriteBatch Blob")?,
            },
            tag::BLOB_INDEX | tag::CF_BLOB_INDEX => {
                let what = "bad WriteBatch BlobIndex";
                let cf = c.cf(tag::BLOB_INDEX, what)?;
                BatchOp::BlobIndex {
                    cf,
                    key: c.str(what)?,
                    index: c.str(what)?,
                }
            }
            tag::WIDE_COLUMN_ENTITY | tag::CF_WIDE_COLUMN_ENTITY => {
                let what = "bad WriteBatch PutEntity";
                let cf = c.cf(tag::WIDE_COLUMN_ENTITY, what)?;
                BatchOp::WideColumnEntity {
                    cf,
                    key: c.str(what)?,
                    entity: c.str(what)?,
                }
            }
            tag::VALUE_PREFERRED_SEQNO | tag::CF_VALUE_PREFERRED_SEQNO => {
                let what = "bad WriteBatch TimedPut";
                let cf = c.cf(tag::VALUE_PREFERRED_SEQNO, what)?;
                BatchOp::ValuePreferredSeqno {
                    cf,
                    key: c.str(what)?,
                    value: c.str(what)?,
                }
            }
            tag::BEGIN_PREPARE => BatchOp::BeginPrepare(PrepareKind::Committed),
            tag::BEGIN_PERSISTED_PREPARE => BatchOp::BeginPrepare(PrepareKind::Prepared),
            tag::BEGIN_UNPREPARE => BatchOp::BeginPrepare(PrepareKind::Unprepared),
            tag::END_PREPARE => BatchOp::EndPrepare {
                xid: c.str("bad EndPrepare XID")?,
            },
            tag::COMMIT => BatchOp::Commit {
                xid: c.str("bad Commit XID")?,
            },
            tag::COMMIT_WITH_TIMESTAMP => BatchOp::CommitWithTimestamp {
                ts: c.str("bad commit timestamp")?,
                xid: c.str("bad Commit XID")?,
            },
            tag::ROLLBACK => BatchOp::Rollback {
                xid: c.str("bad Rollback XID")?,
            },
            tag::NOOP => BatchOp::Noop,
            unknown => {
                // RocksDB prints a signed character as an unsigned number of 32 bits.
                let printed = i32::from(unknown.cast_signed()).cast_unsigned();
                return Err(Error::corruption(format!(
                    "unknown WriteBatch tag: {printed}"
                )));
            }
        };
        self.rest = c.rest;
        Ok(op)
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchOp<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(op) = self.fast() {
            self.found += 1;
            return Some(Ok(op));
        }
        self.next_slow()
    }
}

impl std::iter::FusedIterator for BatchIter<'_> {}

/// The fields after a tag.
struct Fields<'a> {
    rest: &'a [u8],
    entry_tag: u8,
}

impl<'a> Fields<'a> {
    /// The column family; 0 if the tag is the one without it.
    fn cf(&mut self, default_tag: u8, what: &'static str) -> Result<u32> {
        if self.entry_tag == default_tag {
            return Ok(0);
        }
        let (cf, rest) = get_varint32(self.rest).ok_or_else(|| Error::corruption(what))?;
        self.rest = rest;
        Ok(cf)
    }

    fn str(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let (bytes, rest) = get_varint32(self.rest)
            .and_then(|(len, rest)| rest.split_at_checked(usize::try_from(len).ok()?))
            .ok_or_else(|| Error::corruption(what))?;
        self.rest = rest;
        Ok(bytes)
    }
}
