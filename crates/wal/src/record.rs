//! Physical records: the constants and headers shared by writer and reader.
//!
//! ```text
//! file    := block*              32768 bytes each, the last one may be shorter
//! block   := record* trailer?    trailer: zero bytes, too few for a header
//! record  := masked crc32c (4) | payload length (2) | type (1) | [log number (4)] | payload
//! ```
//!
//! The checksum covers everything from the type byte on. Types 5 to 8, 11 and 131 carry the low
//! 32 bits of the log number, so that bytes of an earlier life of a recycled file are recognised.

/// Bytes of a block.
pub const BLOCK_SIZE: usize = 32768;
/// Bytes of the header without log number.
pub const HEADER_SIZE: usize = 7;
/// Bytes of the header with log number.
pub const RECYCLABLE_HEADER_SIZE: usize = 11;
/// Offset of the type byte; the checksum starts here.
pub const TYPE_OFFSET: usize = 6;
/// Bit of a type that a reader may skip without knowing it.
pub const SAFE_TO_IGNORE: u8 = 0x80;

/// Zero bytes; not a record.
pub const ZERO: u8 = 0;
/// A whole logical record.
pub const FULL: u8 = 1;
/// First fragment.
pub const FIRST: u8 = 2;
/// Inner fragment.
pub const MIDDLE: u8 = 3;
/// Last fragment.
pub const LAST: u8 = 4;
/// As [`FULL`], with log number.
pub const RECYCLABLE_FULL: u8 = 5;
/// As [`FIRST`], with log number.
pub const RECYCLABLE_FIRST: u8 = 6;
/// As [`MIDDLE`], with log number.
pub const RECYCLABLE_MIDDLE: u8 = 7;
/// As [`LAST`], with log number.
pub const RECYCLABLE_LAST: u8 = 8;
/// Payload: compression type of the data records that follow (fixed32).
pub const SET_COMPRESSION_TYPE: u8 = 9;
/// Payload: (column family id fixed32, timestamp size fixed16) repeated.
pub const TIMESTAMP_SIZE: u8 = 10;
/// As [`TIMESTAMP_SIZE`], with log number.
pub const RECYCLABLE_TIMESTAMP_SIZE: u8 = 11;
/// Payload: number, size and last sequence number of the log before this one (3 x fixed64).
pub const PREDECESSOR_WAL_INFO: u8 = 130;
/// As [`PREDECESSOR_WAL_INFO`], with log number.
pub const RECYCLABLE_PREDECESSOR_WAL_INFO: u8 = 131;

/// Returns whether a record of this type carries a log number.
#[inline]
pub fn is_recyclable(record_type: u8) -> bool {
    matches!(
        record_type,
        RECYCLABLE_FULL
            ..=RECYCLABLE_LAST | RECYCLABLE_TIMESTAMP_SIZE | RECYCLABLE_PREDECESSOR_WAL_INFO
    )
}

/// The type of a record with log number that is otherwise as `record_type`.
#[inline]
pub fn recyclable_type(record_type: u8) -> u8 {
    match record_type {
        FULL..=LAST => record_type + (RECYCLABLE_FULL - FULL),
        TIMESTAMP_SIZE => RECYCLABLE_TIMESTAMP_SIZE,
        PREDECESSOR_WAL_INFO => RECYCLABLE_PREDECESSOR_WAL_INFO,
        other => other,
    }
}

/// Where a log or MANIFEST of the legacy form ends that consists of records of these payload sizes.
pub fn framed_len(payloads: impl IntoIterator<Item = usize>) -> u64 {
    let mut end = 0u64;
    for mut left in payloads {
        loop {
            let mut room = BLOCK_SIZE - (end % BLOCK_SIZE as u64) as usize;
            if room < HEADER_SIZE {
                end += room as u64;
                room = BLOCK_SIZE;
            }
            let fragment = left.min(room - HEADER_SIZE);
            end += (HEADER_SIZE + fragment) as u64;
            left -= fragment;
            if left == 0 {
                break;
            }
        }
    }
    end
}
