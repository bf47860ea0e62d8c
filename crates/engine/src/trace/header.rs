//! The first record of a trace, and what it says of the others.

use super::access::{BlockAccess, FileCall};
use super::encode::MAGIC;
use super::query::Query;
use super::{RawRecord, TraceRecord, kinds};
use spanlith_base::coding::Decoder;
use spanlith_base::{Error, Result};

/// Describes what a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// Says what callers asked; the version of its records: major, minor.
    Queries {
        /// 0.1 or 0.2.
        version: (u32, u32),
    },
    /// Looked-up blocks or calls of the file system: the header does not say which, records do.
    Accesses,
}

/// The header of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHeader {
    /// When it was begun, in microseconds since 1970.
    pub timestamp: u64,
    /// The release of RocksDB that wrote it: major, minor.
    pub rocksdb: (u32, u32),
    /// Says what it holds.
    pub form: TraceForm,
}

impl TraceHeader {
    /// Takes the first record of a trace for its header.
    ///
    /// # Errors
    /// `Corruption` with RocksDB's texts if it is none.
    pub fn from_record(record: &RawRecord<'_>) -> Result<Self> {
        let wrong = |what: &str| {
            Error::corruption(format!("Corrupted trace file. Incorrect {what}."))
                .with("offset", record.offset)
        };
        if record.kind != kinds::BEGIN {
            return Err(wrong("header"));
        }
        let timestamp = record.timestamp;
        if let Some(text) = record.payload.strip_prefix(MAGIC) {
            let of = |name| version_behind(text, name).ok_or_else(|| wrong("header"));
            return Ok(Self {
                timestamp,
                rocksdb: of("RocksDB Version: ")?,
                form: TraceForm::Queries {
                    version: of("Trace Version: ")?,
                },
            });
        }
        let mut fields = Decoder::new(record.payload, "trace header");
        match fields.length_prefixed("magic") {
            Ok(magic) if magic == MAGIC => Ok(Self {
                timestamp,
                rocksdb: (
                    fields.fixed32("major version")?,
                    fields.fixed32("minor version")?,
                ),
                form: TraceForm::Accesses,
            }),
            _ => Err(wrong("magic")),
        }
    }

    /// Takes a record after the header apart.
    ///
    /// # Errors
    /// `Corruption` that names the field if its bytes are no such record.
    pub fn decode<'a>(&self, record: &RawRecord<'a>) -> Result<TraceRecord<'a>> {
        let decoded = match (self.form, record.kind) {
            (_, kinds::END) => Ok(TraceRecord::End),
            (
                TraceForm::Queries { version },
                kinds::WRITE..=kinds::SEEK_FOR_PREV | kinds::MULTI_GET,
            ) => Query::decode(record, version).map(TraceRecord::Query),
            (TraceForm::Accesses, kinds::BLOCK_FIRST..=kinds::BLOCK_LAST) => {
                BlockAccess::decode(record).map(TraceRecord::Block)
            }
            (TraceForm::Accesses, kinds::FILE_CALL) => {
                FileCall::decode(record).map(TraceRecord::Call)
            }
            (_, kind) => Ok(TraceRecord::Unknown(kind)),
        };
        decoded.map_err(|e| e.with("offset", record.offset))
    }
}

/// `major.minor` after a name, in one of the fields that tabs separate.
fn version_behind(text: &[u8], name: &str) -> Option<(u32, u32)> {
    let mut fields = text.split(|&b| b == b'\t' || b == b'\n');
    let version = fields.find_map(|field| field.strip_prefix(name.as_bytes()))?;
    let (major, minor) = std::str::from_utf8(version).ok()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
