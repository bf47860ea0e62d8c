//! Describes what a reader of a log finds.

use spanlith_base::Error;
use std::fmt;

/// Describes what is wrong; `Display` is RocksDB's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CorruptionKind {
    /// The file ends inside a header.
    TruncatedHeader,
    /// The file ends inside a payload, or a length is too large in the last block.
    TruncatedBody,
    /// A length runs past its block.
    BadLength,
    /// The checksum differs.
    ChecksumMismatch,
    /// Fragments were open at the end of the file.
    OpenAtEnd,
    /// Fragments were open where the bytes of an older log begin.
    OpenAtOldRecord,
    /// Fragments were open where something unusable came.
    ErrorInMiddle,
    /// A whole record came while fragments were open.
    PartialBeforeFull,
    /// A first fragment came while fragments were open.
    PartialBeforeFirst,
    /// An inner fragment without a first one.
    MiddleWithoutFirst,
    /// A last fragment without a first one.
    LastWithoutFirst,
    /// A type that this reader neither knows nor may ignore.
    UnknownType(u8),
    /// A compression record after data.
    CompressionNotFirst,
    /// A second compression record.
    CompressionTwice,
    /// A compression record that does not decode.
    BadCompressionRecord,
    /// Compressed data that does not decode.
    BadCompressedData,
    /// A timestamp-size record between fragments.
    TimestampSizesInside,
    /// A timestamp-size record that does not decode.
    BadTimestampSizes,
    /// A timestamp size of zero.
    ZeroTimestampSize,
    /// A second timestamp size for one column family.
    RepeatedTimestampSize,
    /// A predecessor record that does not decode.
    BadPredecessor,
    /// A record that is longer than any writer makes, in logs 4 GiB less one byte, in a MANIFEST 1 GiB.
    TooLarge,
}

impl CorruptionKind {
    /// Returns whether RocksDB takes this for the end of the log, if the file is recycled and the mode is
    /// to tolerate a corrupted tail.
    pub fn ends_recycled(self) -> bool {
        matches!(self, Self::BadLength | Self::ChecksumMismatch)
    }
}

impl fmt::Display for CorruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TruncatedHeader => "truncated header",
            Self::TruncatedBody => "truncated record body",
            Self::BadLength => "bad record length",
            Self::ChecksumMismatch => "checksum mismatch",
            Self::OpenAtEnd => "error reading trailing data due to encountering EOF",
            Self::OpenAtOldRecord => "error reading trailing data due to encountering old record",
            Self::ErrorInMiddle => "error in middle of record",
            Self::PartialBeforeFull => "partial record without end(1)",
            Self::PartialBeforeFirst => "partial record without end(2)",
            Self::MiddleWithoutFirst => "missing start of fragmented record(1)",
            Self::LastWithoutFirst => "missing start of fragmented record(2)",
            Self::UnknownType(n) => return write!(f, "unknown record type {n}"),
            Self::CompressionNotFirst => "SetCompressionType not the first record",
            Self::CompressionTwice => "read multiple SetCompressionType records",
            Self::BadCompressedData => "could not decompress record",
            Self::BadCompressionRecord => "could not decode SetCompressionType record",
            Self::TimestampSizesInside => {
                "user-defined timestamp size record interspersed partial record"
            }
            Self::BadTimestampSizes => "could not decode user-defined timestamp size record",
            Self::ZeroTimestampSize => {
                "User-defined timestamp size record contains zero timestamp size."
            }
            Self::RepeatedTimestampSize => {
                "User-defined timestamp size record contains update to recorded column family."
            }
            Self::BadPredecessor => "could not decode PredecessorWALInfoType record",
            Self::TooLarge => "record is too large",
        })
    }
}

/// Describes what [`LogReader::next_event`](super::LogReader::next_event) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// A logical record; its bytes are in [`LogReader::record`](super::LogReader::record).
    Record {
        /// File offset of its first header.
        offset: u64,
        /// File offset after its last byte.
        end: u64,
    },
    /// Something is wrong. Reading may go on, with what is believed to follow.
    Corruption {
        /// File offset of what was dropped.
        offset: u64,
        /// Bytes dropped.
        dropped: u64,
        /// Says what is wrong.
        kind: CorruptionKind,
        /// Says whether only `kAbsoluteConsistency` and `kPointInTimeRecovery` report it; the end of the
        /// log follows.
        tail: bool,
    },
    /// The file goes on with a whole record of an older log number; the end of the log follows.
    /// Normal in a recycled file. RocksDB 11.8 stops replay here in `kPointInTimeRecovery`, so that
    /// a later log is only replayed if it continues the sequence.
    OldRecord {
        /// File offset of the foreign record.
        offset: u64,
    },
    /// Sizes of user-defined timestamps in the keys that follow, by column family.
    TimestampSizes(Vec<(u32, u16)>),
    /// Says what the writer recorded of the log before this one.
    Predecessor {
        /// Its number.
        log_number: u64,
        /// Its size in bytes.
        size: u64,
        /// Its last sequence number; 0 if it had no data.
        last_sequence: u64,
    },
    /// End of the log; every later call returns it again.
    Eof,
}

impl ReadEvent {
    /// The error for a corruption event that the caller does not tolerate.
    pub fn into_error(self) -> Option<Error> {
        match self {
            Self::Corruption {
                offset,
                dropped,
                kind,
                ..
            } => Some(
                Error::corruption(kind.to_string())
                    .with_offset(offset)
                    .with("dropped", dropped),
            ),
            _ => None,
        }
    }
}
