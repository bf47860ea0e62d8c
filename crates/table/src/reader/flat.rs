//! Opens tables without blocks and leads lookups to them: [`crate::flat`].
//!
//! To the rest of the reader such a table has an index of two levels, of which the upper one is empty: lookups then
//! take the ways of two levels, which ask here before they give up.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use super::adapt::Adaptation;
use super::index::IndexShape;
use crate::block::{Block, entry, parts};
use crate::flat::{FORM, FlatFile, FlatFooter, FlatKind, FlatTable, empty_index};
use crate::format::BlockHandle;
use crate::index::IndexType;
use crate::options::{ReadParams, ReaderOptions};
use crate::properties::TableProperties;
use spanlith_base::keys::seek_tag;
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_env::RandomAccessFile;
use std::ops::ControlFlow;
use std::sync::Arc;

impl TableReader {
    /// Opens the table without blocks that the footer describes.
    pub(super) fn open_flat(
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
        found: &FlatFooter,
        mut options: ReaderOptions,
    ) -> Result<Arc<Self>> {
        if found.kind == FlatKind::Cuckoo && !options.allows_mapping {
            return Err(Error::invalid_argument("File is not mmaped").with_path(file.path()));
        }
        // Blocks that are made of entries are not worth a place in the cache, and have no identity there.
        options.cache = None;
        options.block_protection_bytes = 0;
        let mut reader = Self::unloaded(file.clone(), file_size, found.footer, options);
        let loaded = reader.load_flat(&file, found.kind);
        loaded.map_err(|e| e.with_path(file.path()))?;
        reader.opening = None;
        Ok(Arc::new(reader))
    }

    fn load_flat(&mut self, file: &Arc<dyn RandomAccessFile>, kind: FlatKind) -> Result<()> {
        let handle = self.footer.metaindex;
        let meta = FlatFile::new(file.clone(), self.footer.offset);
        let read = |handle: BlockHandle| {
            let len = usize::try_from(handle.size).unwrap_or(usize::MAX);
            meta.read(handle.offset, len)
        };
        let block = read(handle)?;
        let mut found = Vec::new();
        let entries = parts(&block).map_err(|e| self.at(e, handle))?.entries_end;
        let listed = entry::for_each(block.get(..entries).unwrap_or_default(), |name, value| {
            let (handle, _) = BlockHandle::decode(value)
                .ok_or_else(|| Error::corruption("bad block handle in the metaindex"))?;
            found.push((String::from_utf8_lossy(name).into_owned(), handle));
            Ok(())
        });
        listed.map_err(|e| self.at(e, handle))?;
        self.metaindex = found;
        let handle = self
            .meta(super::open::PROPERTIES)
            .ok_or_else(|| Error::corruption("table has no properties block"))?;
        self.properties =
            TableProperties::decode(&read(handle)?).map_err(|e| self.at(e, handle))?;
        let offset = &mut self.properties.external_sst_file_global_seqno_offset;
        if *offset > 0 {
            *offset += handle.offset;
        }
        if self.options.comparator.timestamp_size() > 0 {
            return Err(Error::not_supported(
                "user-defined timestamps in tables that are not block-based",
            ));
        }
        self.check_comparator()?;
        self.check_identity()?;
        self.adaptation = Adaptation::of(&self.properties, self.options.largest_seqno, 0)?;
        let data = FlatFile::new(file.clone(), self.properties.data_size.min(handle.offset));
        let (p, cmp) = (&self.properties, &self.options.comparator);
        let table = FlatTable::open(kind, data, p, cmp).map_err(|e| self.at(e, handle))?;
        self.flat = Some(Box::new(table));
        self.index = Some(empty_index());
        self.index_shape = IndexShape {
            kind: IndexType::TwoLevelIndexSearch,
            form: FORM,
        };
        Ok(())
    }

    /// The table without blocks, if it is one.
    #[inline]
    pub(crate) fn flat(&self) -> Option<&FlatTable> {
        self.flat.as_deref()
    }

    /// Returns what kind of table it is, in RocksDB's words.
    pub fn format_name(&self) -> &'static str {
        match self.flat() {
            None => "block-based",
            Some(FlatTable::Cuckoo(_)) => "cuckoo table",
            Some(FlatTable::Plain(_)) => "plain table",
        }
    }

    /// Returns whether the table has no blocks and no checksums: a cuckoo or plain table.
    pub fn is_flat(&self) -> bool {
        self.flat.is_some()
    }

    /// The lookup in a table without blocks; nothing in others.
    #[cold]
    pub(super) fn get_flat<F>(
        &self,
        (user_key, tag): (&[u8], u64),
        params: &ReadParams,
        sink: &mut F,
    ) -> Result<()>
    where
        F: FnMut(u64, &[u8], &Arc<Block>) -> ControlFlow<()>,
    {
        let Some(flat) = self.flat() else {
            return Ok(());
        };
        if let Some(table) = flat.by_hash().filter(|_| !self.is_adapted()) {
            return table.get(user_key, tag, sink);
        }
        let block = flat.index()?;
        let Some(index) = block.index() else {
            return Ok(());
        };
        let mut fetch = |handle| self.load_data_block(handle, params);
        let found = self.get_through(index, (user_key, tag), &mut fetch, sink);
        found.map(drop)
    }

    /// Compares a lookup of an entry with what a walk gave.
    pub(super) fn check_flat_lookup(
        &self,
        user_key: &[u8],
        seqno: SequenceNumber,
        (tag, value): (u64, &[u8]),
    ) -> Result<bool> {
        let mut same = false;
        let key = (user_key, seek_tag(seqno));
        self.get_flat(key, &ReadParams::default(), &mut |found, own, _| {
            same = found == tag && own == value;
            ControlFlow::Break(())
        })?;
        Ok(same)
    }
}
