//! One write call on its way through the pipeline.

use crate::commit::{self, Entries};
use spanlith_base::coding::varint_len;
use spanlith_base::{SequenceNumber, ValueType};

/// Describes what is written.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// One entry, without a batch around it.
    One {
        cf: u32,
        kind: ValueType,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// The entries of a batch, without its header; decodable, checked before it got here.
    Batch {
        body: &'a [u8],
        count: u32,
        /// Some entry belongs to another family than the default one.
        families: bool,
        /// Entries of families that do not exist are left out.
        ignore_missing: bool,
        /// Checksums of the entries; empty if the batch is not protected.
        checksums: &'a [u64],
        /// Calls that were joined to this batch, for what is counted; 1 for a batch of the user's.
        calls: u32,
    },
    /// Says what a transaction writes where it is no plain batch.
    Transaction(&'a TransactionWrite<'a>),
}

/// A step of a transaction of which not the same is logged as applied, or that depends on what others wrote.
pub(crate) struct TransactionWrite<'a> {
    /// For the log, without a header.
    pub log: &'a [u8],
    /// The count that the header has: of all updates in `log`, whether they take numbers now or not.
    pub log_count: u32,
    /// For the memtables, in order.
    pub applied: [&'a [u8]; 2],
    /// Sequence numbers that these take.
    pub count: u32,
    /// Updates of families that do not exist are left out.
    pub ignore_missing: bool,
    /// Fails if one of these was written meanwhile.
    pub read: &'a [TrackedKey<'a>],
    /// Says what it is to others once it is logged.
    pub mark: Mark<'a>,
}

/// A key that nobody may have written since.
#[derive(Clone, Copy)]
pub(crate) struct TrackedKey<'a> {
    pub cf: u32,
    pub key: &'a [u8],
    /// The newest write that was seen.
    pub seen: SequenceNumber,
}

/// Steps of two-phase commit.
#[derive(Clone, Copy)]
pub(crate) enum Mark<'a> {
    /// None.
    None,
    /// The transaction of that name is prepared with these entries.
    Prepared(&'a [u8], &'a [u8]),
    /// It is committed.
    Committed(&'a [u8]),
    /// It is rolled back.
    RolledBack(&'a [u8]),
}

impl Entries for Payload<'_> {
    fn count(&self) -> u32 {
        match self {
            Self::One { .. } => 1,
            Self::Batch { count, .. } => *count,
            Self::Transaction(t) => t.count,
        }
    }

    #[inline]
    fn log_count(&self) -> u32 {
        match self {
            Self::Transaction(t) => t.log_count,
            plain => plain.count(),
        }
    }

    #[inline]
    fn calls(&self) -> u32 {
        match self {
            Self::Batch { calls, .. } => *calls,
            Self::One { .. } | Self::Transaction(_) => 1,
        }
    }

    #[inline]
    fn is_checked(&self) -> bool {
        matches!(self, Self::Transaction(t) if !t.read.is_empty())
    }

    #[inline]
    fn bytes(&self) -> usize {
        match self {
            Self::One {
                cf,
                kind,
                key,
                value,
            } => {
                let has_value = !kind.is_point_deletion();
                let usual = *cf == 0 && has_value && (key.len() | value.len()) < 128;
                // Header, type, and a byte for each length, which is what most entries take.
                let lengths = if usual {
                    15
                } else {
                    lengths(*cf, key, has_value.then_some(*value))
                };
                key.len() + value.len() + lengths
            }
            Self::Batch { body, .. } => body.len() + 12,
            Self::Transaction(t) => t.log.len() + 12,
        }
    }
}

/// Bytes that a batch of one entry has besides key and value.
fn lengths(cf: u32, key: &[u8], value: Option<&[u8]>) -> usize {
    let family = if cf == 0 { 0 } else { varint_len(cf.into()) };
    let value = value.map_or(0, |v| varint_len(v.len() as u64));
    13 + family + varint_len(key.len() as u64) + value
}

/// A write and its outcome.
pub(crate) type Request<'a> = commit::Request<Payload<'a>>;
