//! The opening record: what a log says about the log before it.
//!
//! Logs that were not synced survive a power loss independently of each other. If the bytes of an
//! older log are gone and those of a newer one are not, replaying the newer one would leave a hole
//! (D3), and nothing in RocksDB's format tells. So every log that follows another begins with a batch
//! of no updates whose only content is a note, which RocksDB skips:
//!
//! ```text
//!   mark     8 bytes  "spanlith"
//!   checksum fixed32  CRC-32C of the database id and of what follows
//!   kind     1 byte   1
//!   number   fixed64  of the log before
//!   size     fixed64  its bytes, all appended when this log began
//!   sequence fixed64  last sequence number given out by then
//! ```
//!
//! The checksum keeps notes of users, and logs copied from elsewhere, from being mistaken for ours.
//! No extra I/O is waited for: the record is the first append to a log.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use spanlith_base::checksum::{crc32c, crc32c_append};
use spanlith_base::coding::{get_fixed32, get_fixed64, put_fixed32, put_fixed64};
use spanlith_base::{Result, SequenceNumber};

const MARK: &[u8; 8] = b"spanlith";
const KIND: u8 = 1;
const BODY_AT: usize = 12;
const LEN: usize = BODY_AT + 1 + 24;

/// What a log knows of its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Number of the log before.
    pub number: u64,
    /// Its bytes.
    pub size: u64,
    /// Last sequence number given out.
    pub sequence: SequenceNumber,
}

impl Opening {
    /// A batch of no updates that carries the record.
    pub(crate) fn to_batch(self, db_id: &str) -> Result<spanlith_wal::WriteBatch> {
        let mut body = vec![KIND];
        put_fixed64(&mut body, self.number);
        put_fixed64(&mut body, self.size);
        put_fixed64(&mut body, self.sequence);
        let mut blob = MARK.to_vec();
        put_fixed32(&mut blob, crc32c_append(crc32c(db_id.as_bytes()), &body));
        blob.extend_from_slice(&body);
        let mut batch = spanlith_wal::WriteBatch::new();
        batch.put_log_data(&blob)?;
        batch.set_sequence(self.sequence + 1);
        Ok(batch)
    }

    /// The record in a note, if it is one of this database.
    pub(crate) fn parse(blob: &[u8], db_id: &str) -> Option<Self> {
        let rest = blob.strip_prefix(MARK)?;
        let body = blob.get(BODY_AT..LEN)?;
        let sum = crc32c_append(crc32c(db_id.as_bytes()), body);
        let whole = blob.len() == LEN && body.first() == Some(&KIND);
        if !whole || get_fixed32(rest, 0)? != sum {
            return None;
        }
        Some(Self {
            number: get_fixed64(body, 1)?,
            size: get_fixed64(body, 9)?,
            sequence: get_fixed64(body, 17)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_wal::{BatchIter, BatchOp};

    #[test]
    fn only_a_whole_record_of_this_database_is_recognised() {
        let opening = Opening {
            number: 7,
            size: 1 << 40,
            sequence: 99,
        };
        let batch = opening.to_batch("id").unwrap();
        let mut iter = BatchIter::new(batch.as_bytes()).unwrap();
        assert_eq!((iter.sequence(), batch.count()), (100, 0));
        let Some(Ok(BatchOp::LogData { blob })) = iter.next() else {
            panic!("the batch holds a note");
        };
        assert_eq!(Opening::parse(blob, "id"), Some(opening));
        assert_eq!(Opening::parse(blob, "other"), None);
        for cut in 0..blob.len() {
            assert_eq!(Opening::parse(&blob[..cut], "id"), None);
        }
        for at in 0..blob.len() {
            let mut changed = blob.to_vec();
            changed[at] ^= 1;
            assert_eq!(Opening::parse(&changed, "id"), None, "byte {at}");
        }
        assert_eq!(Opening::parse(b"a user's note", "id"), None);
    }
}
