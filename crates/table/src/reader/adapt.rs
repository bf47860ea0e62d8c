//! Tables whose entries do not mean what their blocks say.
//!
//! * Files made for ingestion hold sequence number 0 everywhere; their entries count as written at
//!   a number that the MANIFEST, or a patched property, knows.
//! * Files of families that do not persist timestamps hold keys without them; readers see the
//!   smallest timestamp, which is all zeros.
//! * Files with embedded blobs hold references to values elsewhere in the same file; readers see
//!   the values.
//!
//! Data blocks of such tables are rewritten when they are loaded, so that nothing after knows of
//! all this. Index keys stay as they are: a user key occurs once in a file made for ingestion, so
//! that the sequence numbers of separators decide nothing.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use crate::block::{entry, parts, rewrite};
use crate::format::{BlockHandle, BlockKind, TRAILER_LEN, decompress};
use crate::properties::{self, TableProperties};
use spanlith_base::coding::{get_fixed32, get_fixed64, get_varint32, get_varint64, put_varint32};
use spanlith_base::keys::{self, TAG_LEN, pack_tag, split_internal};
use spanlith_base::{CompressionType, Error, Result, SequenceNumber, ValueType};
use std::borrow::Cow;

const RANGE_DELETIONS: &str = "rocksdb.range_del";

/// A range tombstone: first user key, user key after the last, sequence number.
pub type RangeTombstone = (Vec<u8>, Vec<u8>, SequenceNumber);

/// Describes what happens to the entries of a table before they are used.
pub(super) struct Adaptation {
    /// Sequence number of all entries.
    seqno: Option<SequenceNumber>,
    /// Values may be references into the same file.
    blobs: bool,
    /// Bytes of the timestamps that keys were written without; they become zeros.
    padding: usize,
}

impl Adaptation {
    /// Returns what the properties ask for; `None` for ordinary tables. `largest` is the largest sequence
    /// number of the file according to the MANIFEST, 0 if unknown, `padding` the bytes of the
    /// timestamps that keys were written without.
    pub(super) fn of(
        p: &TableProperties,
        largest: SequenceNumber,
        padding: usize,
    ) -> Result<Option<Box<Self>>> {
        let seqno = global_seqno(p, largest)?;
        let blobs = p.user_collected.contains_key(properties::EMBEDDED_BLOBS);
        if seqno.is_none() && !blobs && padding == 0 {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            seqno,
            blobs,
            padding,
        })))
    }

    /// Changes an internal key.
    fn key(&self, key: &mut Vec<u8>) -> Result<()> {
        let Some((user, tag)) = split_internal(key) else {
            return Err(entry::bad_entry());
        };
        if self.padding > 0 {
            let len = user.len() + self.padding;
            key.truncate(user.len());
            key.resize(len, 0);
            key.extend_from_slice(&tag.to_le_bytes());
        }
        if let Some(seqno) = self.seqno {
            set_tag(key, pack_tag(seqno, keys::tag_type(tag)));
        }
        Ok(())
    }
}

/// Replaces the tag of an internal key.
fn set_tag(key: &mut Vec<u8>, tag: u64) {
    key.truncate(key.len().saturating_sub(TAG_LEN));
    key.extend_from_slice(&tag.to_le_bytes());
}

/// The sequence number of all entries, if the table was made for ingestion.
fn global_seqno(p: &TableProperties, largest: SequenceNumber) -> Result<Option<SequenceNumber>> {
    let stored = p.user_collected.get(properties::GLOBAL_SEQNO);
    let stored = stored.and_then(|v| get_fixed64(v, 0));
    let version = p.user_collected.get(properties::EXTERNAL_VERSION);
    let bad = |what: &str| Error::corruption(what).with("global_seqno", format!("{stored:?}"));
    match version.map(|v| get_fixed32(v, 0)) {
        None if stored.is_none() => Ok(None),
        None => Err(bad(
            "a table that was not made for ingestion has a global sequence number",
        )),
        Some(Some(1)) => Ok(None),
        Some(Some(2)) => match stored {
            None => Err(bad("external table without a global sequence number")),
            Some(0) => Ok(Some(largest).filter(|&n| n != 0)),
            Some(n) if n > keys::MAX_SEQUENCE => Err(bad("bad global sequence number")),
            Some(n) if largest == 0 || largest == n => Ok(Some(n)),
            Some(_) => Err(
                bad("global sequence number differs from the one in the MANIFEST")
                    .with("manifest", largest),
            ),
        },
        Some(version) => Err(Error::not_supported("version of an external table file")
            .with("version", format!("{version:?}"))),
    }
}

/// A reference to a value in the same file.
struct Embedded {
    handle: BlockHandle,
    compression: u8,
}

impl Embedded {
    /// `None` for references into other files.
    fn decode(value: &[u8]) -> Result<Option<Self>> {
        let decoded = (|| {
            let (&kind, rest) = value.split_first()?;
            let (file, rest) = get_varint64(rest)?;
            let (offset, rest) = get_varint64(rest)?;
            let (size, rest) = get_varint64(rest)?;
            match (kind, rest) {
                (1, &[compression]) => Some((file, BlockHandle { offset, size }, compression)),
                _ => None,
            }
        })();
        match decoded {
            Some((0, handle, compression)) => Ok(Some(Self {
                handle,
                compression,
            })),
            Some(_) => Ok(None),
            None => Err(Error::corruption("bad blob reference in a table")),
        }
    }
}

impl TableReader {
    /// Brings a data block into the form in which it is used.
    #[inline]
    pub(crate) fn adapt(&self, block: &mut Vec<u8>, verify: bool) -> Result<()> {
        match &self.adaptation {
            None => Ok(()),
            Some(adaptation) => self.rewrite_block(adaptation, block, verify),
        }
    }

    #[inline(never)]
    fn rewrite_block(
        &self,
        adaptation: &Adaptation,
        block: &mut Vec<u8>,
        verify: bool,
    ) -> Result<()> {
        *block = rewrite(block, |key, value| {
            let mut value = Cow::Borrowed(value);
            if adaptation.blobs {
                self.resolve(key, &mut value, verify)?;
            }
            adaptation.key(key)?;
            Ok(value)
        })?;
        Ok(())
    }

    /// Replaces references into this file by what they refer to.
    fn resolve(&self, key: &mut Vec<u8>, value: &mut Cow<'_, [u8]>, verify: bool) -> Result<()> {
        let Some((_, tag)) = split_internal(key) else {
            return Err(entry::bad_entry());
        };
        match ValueType::from_byte(keys::tag_type(tag)) {
            Some(ValueType::BlobIndex) => {
                if let Some(blob) = Embedded::decode(value)? {
                    *value = Cow::Owned(self.embedded(&blob, verify)?);
                    let seqno = keys::tag_sequence(tag);
                    set_tag(key, pack_tag(seqno, ValueType::Value as u8));
                }
            }
            Some(ValueType::WideColumnEntity) if value.first() == Some(&2) => {
                if let Some(entity) = self.resolve_entity(value, verify)? {
                    *value = Cow::Owned(entity);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of a reference.
    fn embedded(&self, blob: &Embedded, verify: bool) -> Result<Vec<u8>> {
        let handle = blob.handle;
        let mut stored = self.stored(handle)?;
        let context = self.footer.checksum;
        let (contents, codec) =
            context.open(&stored, handle, verify, BlockKind::Blob, self.file.path())?;
        if codec.as_byte() != blob.compression {
            return Err(self.at(
                Error::corruption("blob has another codec than its reference"),
                handle,
            ));
        }
        if codec.codec()? == CompressionType::None {
            stored.truncate(stored.len().saturating_sub(TRAILER_LEN));
            return Ok(stored);
        }
        let mut out = Vec::new();
        decompress(codec.codec()?, contents, &mut out).map_err(|e| self.at(e, handle))?;
        Ok(out)
    }

    /// The first form of a wide-column entity of the second form; `None` if no column is in this
    /// file.
    ///
    /// ```text
    /// varint32 2, varint32 n, varint32 bytes of name sizes, of value sizes, of names,
    /// n x u8 type, n x varint32 name size, n x varint32 value size, names, values
    /// ```
    fn resolve_entity(&self, entity: &[u8], verify: bool) -> Result<Option<Vec<u8>>> {
        let bad = || Error::corruption("bad wide-column entity in a table");
        let mut head = entity;
        let mut number = || {
            let (n, rest) = get_varint32(head)?;
            head = rest;
            Some(n as usize)
        };
        let _version = number().ok_or_else(bad)?;
        let n = number().ok_or_else(bad)?;
        let name_sizes = number().ok_or_else(bad)?;
        let value_sizes = number().ok_or_else(bad)?;
        let names = number().ok_or_else(bad)?;
        let (types, rest) = head.split_at_checked(n).ok_or_else(bad)?;
        let (mut name_sizes, rest) = rest.split_at_checked(name_sizes).ok_or_else(bad)?;
        let (mut value_sizes, rest) = rest.split_at_checked(value_sizes).ok_or_else(bad)?;
        let (mut names, mut values) = rest.split_at_checked(names).ok_or_else(bad)?;
        let mut out = Vec::new();
        put_varint32(&mut out, 1);
        put_varint32(&mut out, n as u32);
        let mut payload = Vec::new();
        for &kind in types {
            let (name_len, more) = get_varint32(name_sizes).ok_or_else(bad)?;
            name_sizes = more;
            let (value_len, more) = get_varint32(value_sizes).ok_or_else(bad)?;
            value_sizes = more;
            let (name, more) = names.split_at_checked(name_len as usize).ok_or_else(bad)?;
            names = more;
            let (value, more) = values
                .split_at_checked(value_len as usize)
                .ok_or_else(bad)?;
            values = more;
            let column = match ValueType::from_byte(kind) {
                Some(ValueType::Value) => Cow::Borrowed(value),
                Some(ValueType::BlobIndex) => match Embedded::decode(value)? {
                    Some(blob) => Cow::Owned(self.embedded(&blob, verify)?),
                    // A column in another file: the entity stays as it is.
                    None => return Ok(None),
                },
                _ => return Err(bad()),
            };
            put_varint32(&mut out, name_len);
            out.extend_from_slice(name);
            put_varint32(&mut out, u32::try_from(column.len()).map_err(|_| bad())?);
            payload.extend_from_slice(&column);
        }
        if ![name_sizes, value_sizes, names, values]
            .iter()
            .all(|left| left.is_empty())
        {
            return Err(bad());
        }
        out.extend_from_slice(&payload);
        Ok(Some(out))
    }

    /// Returns whether the table holds range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.meta(RANGE_DELETIONS).is_some()
    }

    /// The range tombstones of the table in file order, which need be neither sorted nor disjoint.
    /// Read from the file every time: callers keep what they make of it.
    ///
    /// # Errors
    /// `Corruption` for a damaged block, errors of the file.
    pub fn range_tombstones(&self) -> Result<Vec<RangeTombstone>> {
        let Some(handle) = self.meta(RANGE_DELETIONS) else {
            return Ok(Vec::new());
        };
        let block = self.read_meta(
            handle,
            BlockKind::RangeDeletion,
            &self.late_opening_params(),
        )?;
        self.parse_tombstones(&block)
            .map_err(|e| self.at(e, handle))
    }

    fn parse_tombstones(&self, block: &[u8]) -> Result<Vec<RangeTombstone>> {
        let entries = block.get(..parts(block)?.entries_end).unwrap_or_default();
        let adaptation = self.adaptation.as_deref();
        let mut out = Vec::new();
        entry::for_each(entries, |key, end| {
            let (start, tag) = split_internal(key).ok_or_else(entry::bad_entry)?;
            if keys::tag_type(tag) != ValueType::RangeDeletion as u8 {
                return Err(
                    Error::corruption("range-deletion block with another entry type")
                        .with("type", keys::tag_type(tag)),
                );
            }
            let own = keys::tag_sequence(tag);
            let seqno = adaptation.and_then(|a| a.seqno).unwrap_or(own);
            let padding = adaptation.map_or(0, |a| a.padding);
            let pad = |key: &[u8]| {
                let mut key = key.to_vec();
                key.resize(key.len() + padding, 0);
                key
            };
            out.push((pad(start), pad(end), seqno));
            Ok(())
        })?;
        Ok(out)
    }

    /// Returns whether data blocks are rewritten when they are loaded.
    pub(super) fn is_adapted(&self) -> bool {
        self.adaptation.is_some()
    }

    /// Reads the properties block. RocksDB 7.8 patches the sequence number of an ingested file into
    /// it and leaves its checksum as it was: the block then verifies with zeros in that place.
    pub(super) fn read_properties(&self, handle: BlockHandle, verify: bool) -> Result<Vec<u8>> {
        let failed = match self.read(handle, BlockKind::Properties, verify) {
            Ok(block) => return Ok(block),
            Err(e) => e,
        };
        let block = self.read(handle, BlockKind::Properties, false)?;
        let Some(at) = find_global_seqno(&block) else {
            return Err(failed);
        };
        let mut original = self.stored(handle)?;
        match original.get_mut(at..at.saturating_add(8)) {
            Some(number) => number.fill(0),
            None => return Err(failed),
        }
        let path = self.file.path();
        let context = self.footer.checksum;
        match context.open(&original, handle, true, BlockKind::Properties, path) {
            Ok(_) => Ok(block),
            Err(_) => Err(failed),
        }
    }
}

/// Offset of the global sequence number in a properties block.
fn find_global_seqno(block: &[u8]) -> Option<usize> {
    let entries = block.get(..parts(block).ok()?.entries_end)?;
    let mut found = None;
    let walked = entry::for_each(entries, |name, value| {
        if name == properties::GLOBAL_SEQNO.as_bytes() && value.len() == 8 {
            found = Some(value.as_ptr() as usize - block.as_ptr() as usize);
        }
        Ok(())
    });
    walked.ok().and(found)
}
