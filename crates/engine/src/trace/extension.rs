//! The file beside a trace of queries (`TRACE.ext`): what RocksDB's records have no room for.
//!
//! ```text
//! "spanlith-trace-x" | fixed32 version (1) | fixed64 timestamp of the trace's header
//! then records: u8 length of the rest | varint64 ordinal | u8 kind | varint32 family | varint64 nanoseconds
//!               | varint64 found | varint64 bytes | varint64 steps forward | varint64 steps backward
//! ```
//!
//! A record belongs to the record of the trace with that ordinal, counted from 0 after the header. They come in the
//! order in which requests ended, so ordinals rise on the whole, but not strictly: that of an iterator ends with its next
//! positioning, or with the iterator. Bytes after the last known field of a record are skipped. A torn record is the
//! end, as in the trace itself.

use super::reader::RawBytes;
use spanlith_base::coding::{Decoder, put_fixed32, put_fixed64, put_varint32, put_varint64};
use spanlith_base::{Error, Result};
use spanlith_env::SequentialFile;

const MAGIC: &[u8] = b"spanlith-trace-x";
const VERSION: u32 = 1;
const HEADER: usize = 16 + 4 + 8;

/// Describes what became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// Which record of the trace it belongs to: its place after the header, from 0 on.
    pub ordinal: u64,
    /// Kind of that record, one of [`super::kinds`].
    pub kind: u8,
    /// Id of the column family; 0 of requests with several.
    pub cf: u32,
    /// How long the request took. Of seeks, the positioning alone.
    pub nanos: u64,
    /// Keys that were found: 0 or 1 but for multi-gets. Of seeks: whether an entry was there.
    pub found: u64,
    /// Bytes of the values that were found; of writes, of the batch.
    pub bytes: u64,
    /// Steps forward that followed a seek, up to the iterator's next positioning or its end.
    pub next: u64,
    /// Steps backward.
    pub prev: u64,
}

impl Extension {
    /// Writes what the file begins with; `timestamp` is that of the trace's header.
    pub fn put_header(to: &mut Vec<u8>, timestamp: u64) {
        to.extend_from_slice(MAGIC);
        put_fixed32(to, VERSION);
        put_fixed64(to, timestamp);
    }

    /// Appends it with its length in front.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let at = to.len();
        to.push(0);
        put_varint64(to, self.ordinal);
        to.push(self.kind);
        put_varint32(to, self.cf);
        for n in [self.nanos, self.found, self.bytes, self.next, self.prev] {
            put_varint64(to, n);
        }
        // At most 10 + 1 + 5 + 50 bytes.
        let len = (to.len() - at - 1) as u8;
        if let Some(first) = to.get_mut(at) {
            *first = len;
        }
    }

    /// One that was encoded, with its length in front.
    pub(super) fn of_buffer(encoded: &[u8]) -> Option<Self> {
        Self::decode(encoded.get(1..)?).ok()
    }

    fn decode(body: &[u8]) -> Result<Self> {
        let mut rest = Decoder::new(body, "trace extension");
        Ok(Self {
            ordinal: rest.varint64("ordinal")?,
            kind: rest.u8("kind")?,
            cf: rest.varint32("family")?,
            nanos: rest.varint64("nanoseconds")?,
            found: rest.varint64("found")?,
            bytes: rest.varint64("bytes")?,
            next: rest.varint64("steps forward")?,
            prev: rest.varint64("steps backward")?,
        })
    }
}

/// Reads the file beside a trace.
pub struct ExtensionReader {
    file: RawBytes,
    timestamp: u64,
}

impl ExtensionReader {
    /// Reads from the beginning of a file.
    ///
    /// # Errors
    /// `Corruption` if it does not begin as such a file; `NotSupported` for a later version; of reading.
    pub fn new(file: Box<dyn SequentialFile>) -> Result<Self> {
        let mut file = RawBytes::new(file);
        let header = file.take(HEADER)?.unwrap_or_default();
        let mut fields = Decoder::new(header, "trace extension");
        if fields.bytes(MAGIC.len(), "magic").ok() != Some(MAGIC) {
            return Err(Error::corruption("trace extension: incorrect magic"));
        }
        let version = fields.fixed32("version")?;
        if version != VERSION {
            return Err(Error::not_supported("trace extension").with("version", version));
        }
        let timestamp = fields.fixed64("timestamp")?;
        Ok(Self { file, timestamp })
    }

    /// Timestamp of the header of the trace it belongs to.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The next record; `None` at the end, or where the file ends inside a record.
    ///
    /// # Errors
    /// `Corruption` with the place of a record that is too short; of reading.
    pub fn next_record(&mut self) -> Result<Option<Extension>> {
        let offset = self.file.offset();
        let Some(&[len]) = self.file.peek(1)? else {
            return Ok(None);
        };
        let Some(record) = self.file.take(1 + usize::from(len))? else {
            return Ok(None);
        };
        let decoded = Extension::decode(record.get(1..).unwrap_or_default());
        decoded.map(Some).map_err(|e| e.with("offset", offset))
    }
}
