//! Reads plain tables: the first question walks over all records and makes an index over stretches of them.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::record::{Decoder, NoRecord};
use super::{ENCODING, PlainEncoding};
use crate::block::Block;
use crate::flat::ONE_BLOCK;
use crate::flat::blocks::{BlockWriter, VirtualIndex};
use crate::flat::file::FlatFile;
use crate::format::BlockHandle;
use crate::properties::TableProperties;
use spanlith_base::coding::get_fixed32;
use spanlith_base::keys::internal_key;
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

/// Bytes that are read at once while the index is made.
const READ_STEP: usize = 1 << 20;

/// An open plain table.
pub(crate) struct PlainTable {
    file: FlatFile,
    comparator: Comparator,
    encoding: PlainEncoding,
    user_key_len: u32,
    num_entries: u64,
    index: OnceLock<Arc<Block>>,
}

/// A record that the walk has come to: where it is, and its internal key.
struct Found {
    offset: u64,
    end: u64,
    tag: u64,
    is_whole: bool,
}

impl PlainTable {
    /// Takes the shape of the table from its properties.
    ///
    /// # Errors
    /// `Corruption` for properties that contradict each other; `NotSupported` for an encoding that this build does not
    /// know.
    pub(crate) fn open(
        file: FlatFile,
        properties: &TableProperties,
        comparator: &Comparator,
    ) -> Result<Self> {
        let encoding = properties.user_collected.get(ENCODING);
        let encoding = match encoding.map(|v| get_fixed32(v, 0)) {
            // Tables that are older than the property.
            None | Some(Some(0)) => PlainEncoding::Plain,
            Some(Some(1)) => PlainEncoding::Prefix,
            Some(other) => {
                let e = Error::not_supported("encoding of a plain table");
                return Err(e.with("encoding", format!("{other:?}")));
            }
        };
        let user_key_len = u32::try_from(properties.fixed_key_length);
        if properties.data_size > file.data_end() {
            return Err(Error::corruption(
                "plain table: records reach beyond their place",
            ));
        }
        Ok(Self {
            comparator: comparator.clone(),
            encoding,
            user_key_len: user_key_len
                .map_err(|_| Error::corruption("plain table: length of keys"))?,
            num_entries: properties.num_entries,
            file,
            index: OnceLock::new(),
        })
    }

    /// The index over stretches of about [`ONE_BLOCK`] bytes; handles are what they are in the file.
    ///
    /// # Errors
    /// Of reading the file; `Corruption` for records that do not decode, or are not in order.
    pub(crate) fn index(&self) -> Result<Arc<Block>> {
        if let Some(index) = self.index.get() {
            return Ok(index.clone());
        }
        let index = self.make_index()?;
        // Another thread may have been faster, with the same index.
        Ok(self.index.get_or_init(|| index).clone())
    }

    fn make_index(&self) -> Result<Arc<Block>> {
        let mut index = VirtualIndex::default();
        let mut count = 0;
        let mut begin = 0;
        // User key and tag of the record before, and where it ends.
        let mut last: Option<(Vec<u8>, u64, u64)> = None;
        self.walk(|found, user_key| {
            if let Some((key, tag, end)) = &last {
                let (before, now) = (internal_key(key, *tag), internal_key(user_key, found.tag));
                if self.comparator.compare_internal(&before, &now) != Ordering::Less {
                    let what = "plain table: keys do not increase";
                    return Err(self.file.bad(what, found.offset));
                }
                if found.is_whole && end - begin >= ONE_BLOCK as u64 {
                    let handle = BlockHandle {
                        offset: begin,
                        size: end - begin,
                    };
                    index.add(key, *tag, handle);
                    begin = *end;
                }
            } else if !found.is_whole {
                return Err(self
                    .file
                    .bad("Key for a prefix is not seekable", found.offset));
            }
            match &mut last {
                Some((key, tag, end)) => {
                    key.clear();
                    key.extend_from_slice(user_key);
                    (*tag, *end) = (found.tag, found.end);
                }
                None => last = Some((user_key.to_vec(), found.tag, found.end)),
            }
            count += 1;
            Ok(())
        })?;
        if count != self.num_entries {
            let e = self
                .file
                .bad("plain table: number of entries contradicts the records", 0);
            return Err(e.with("expected", self.num_entries).with("found", count));
        }
        if let Some((key, tag, end)) = last {
            let handle = BlockHandle {
                offset: begin,
                size: end - begin,
            };
            index.add(&key, tag, handle);
        }
        index.finish(&self.comparator)
    }

    /// Decodes all records in order.
    fn walk(&self, mut each: impl FnMut(&Found, &[u8]) -> Result<()>) -> Result<()> {
        let end = self.file.data_end();
        let mut decoder = Decoder::new(self.encoding, self.user_key_len);
        // Bytes from `start` on, of which those before `at` are done with.
        let (mut bytes, mut start, mut at) = (Vec::new(), 0, 0);
        while start + (at as u64) < end {
            match decoder.next(&bytes, at) {
                Ok(record) => {
                    let found = Found {
                        offset: start + at as u64,
                        end: start + record.end as u64,
                        tag: record.tag,
                        is_whole: record.is_whole,
                    };
                    each(&found, decoder.user_key())?;
                    at = record.end;
                }
                Err(NoRecord::Bad(what)) => return Err(self.file.bad(what, start + at as u64)),
                Err(NoRecord::Cut) => {
                    let read_to = start + bytes.len() as u64;
                    // A large record is read in steps that grow with it.
                    let step = (bytes.len() - at).max(READ_STEP) as u64;
                    let len = step.min(end - read_to) as usize;
                    if len == 0 {
                        let what = "plain table: record that is cut";
                        return Err(self.file.bad(what, start + at as u64));
                    }
                    bytes.drain(..at);
                    (start, at) = (start + at as u64, 0);
                    bytes.extend_from_slice(&self.file.read(read_to, len)?);
                }
            }
        }
        Ok(())
    }

    /// The entries of a stretch.
    ///
    /// # Errors
    /// Of reading the file; `Corruption` for records that do not decode.
    pub(crate) fn block(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let len = usize::try_from(handle.size).unwrap_or(usize::MAX);
        let bytes = self.file.read(handle.offset, len)?;
        let mut decoder = Decoder::new(self.encoding, self.user_key_len);
        let mut out = BlockWriter::default();
        let mut at = 0;
        while at < bytes.len() {
            let record = decoder.next(&bytes, at).map_err(|e| {
                let what = match e {
                    NoRecord::Bad(what) => what,
                    NoRecord::Cut => "plain table: record that is cut",
                };
                self.file.bad(what, handle.offset + at as u64)
            })?;
            let value = bytes.get(record.value).unwrap_or_default();
            out.add(decoder.user_key(), record.tag, value);
            at = record.end;
        }
        Ok(out.finish())
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn memory_usage(&self) -> usize {
        self.index.get().map_or(0, |index| index.memory_usage())
    }
}
