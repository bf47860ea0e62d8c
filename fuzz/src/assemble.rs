//! Tables put together from parts that need not be valid, with right checksums everywhere.

use spanlith_base::Result;
use spanlith_base::checksum::ChecksumKind;
use spanlith_base::coding::{put_varint32, put_varint64};
use spanlith_env::RandomAccessFile;
use std::path::Path;

/// Length of the footer of format versions 1 and later.
const FOOTER: usize = 53;
/// Number that ends a block-based table.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Base of the context checksums of versions 6 and later.
const BASE: u32 = 0x1234_5678;

/// A finished file in memory.
pub struct MemoryFile(pub Vec<u8>);

impl RandomAccessFile for MemoryFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn path(&self) -> &Path {
        Path::new("fuzz/000007.sst")
    }
}

/// Offset and size of a block in the file, without its trailer.
pub type Handle = (u64, u64);

/// A table that is being put together.
pub struct Assembler {
    version: u32,
    file: Vec<u8>,
    meta: Vec<(String, Handle)>,
}

/// Returns what is added to the checksum of a block at `offset`.
fn modifier(version: u32, offset: u64) -> u32 {
    if version < 6 {
        return 0;
    }
    BASE ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}

/// Checksum kind 4 over `bytes` and `last`.
fn checksum(bytes: &[u8], last: u8) -> u32 {
    ChecksumKind::Xxh3.compute(bytes, last)
}

impl Assembler {
    /// An empty file of format version `version`, which is 1 to 7.
    pub fn new(version: u32) -> Self {
        Self {
            version,
            file: Vec::new(),
            meta: Vec::new(),
        }
    }

    /// Appends a block with its trailer.
    pub fn block(&mut self, contents: &[u8], compression: u8) -> Handle {
        let offset = self.file.len() as u64;
        self.file.extend_from_slice(contents);
        self.file.push(compression);
        let sum = checksum(contents, compression).wrapping_add(modifier(self.version, offset));
        self.file.extend_from_slice(&sum.to_le_bytes());
        (offset, contents.len() as u64)
    }

    /// Appends a block that the metaindex names.
    pub fn meta(&mut self, name: &str, contents: &[u8], compression: u8) {
        let handle = self.block(contents, compression);
        self.meta.push((name.to_string(), handle));
    }

    /// Appends index, metaindex and footer. `index` is the contents of the index block.
    pub fn finish(mut self, index: &[u8]) -> Vec<u8> {
        let index = self.block(index, 0);
        if self.version >= 6 {
            self.meta.push(("rocksdb.index".to_string(), index));
        }
        self.meta.sort();
        let entries: Vec<_> = self
            .meta
            .iter()
            .map(|(name, handle)| (name.as_bytes().to_vec(), handle_bytes(*handle)))
            .collect();
        let metaindex = self.block(&plain_block(&entries), 0);
        let offset = self.file.len() as u64;
        let mut footer = vec![4];
        if self.version >= 6 {
            footer.extend_from_slice(&[0x3e, 0, 0x7a, 0, 0, 0, 0, 0]);
            footer.extend_from_slice(&BASE.to_le_bytes());
            footer.extend_from_slice(&(metaindex.1 as u32).to_le_bytes());
        } else {
            footer.extend_from_slice(&handle_bytes(metaindex));
            footer.extend_from_slice(&handle_bytes(index));
        }
        footer.resize(FOOTER - 12, 0);
        footer.extend_from_slice(&self.version.to_le_bytes());
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        self.file.extend_from_slice(&footer);
        mend_footer(&mut self.file, offset);
        self.file
    }
}

/// Gives the footer at `offset` its checksum, if it is of version 6 or later with kind 4.
pub fn mend_footer(file: &mut [u8], offset: u64) {
    let Some(footer) = file.get_mut(offset as usize..) else {
        return;
    };
    if footer.len() != FOOTER || footer[0] != 4 || footer[41] < 6 {
        return;
    }
    let base = u32::from_le_bytes([footer[9], footer[10], footer[11], footer[12]]);
    footer[5..9].fill(0);
    let (last, rest) = footer.split_last().map_or((0, &[][..]), |(l, r)| (*l, r));
    let context = base ^ (offset as u32).wrapping_add((offset >> 32) as u32);
    let sum = checksum(rest, last).wrapping_add(context);
    footer[5..9].copy_from_slice(&sum.to_le_bytes());
}

/// A handle as two varints.
pub fn handle_bytes((offset, size): Handle) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint64(&mut out, offset);
    put_varint64(&mut out, size);
    out
}

/// A block of whole keys, each a restart point.
pub fn plain_block(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut restarts = Vec::new();
    for (key, value) in entries {
        restarts.push(out.len() as u32);
        put_varint32(&mut out, 0);
        put_varint32(&mut out, key.len() as u32);
        put_varint32(&mut out, value.len() as u32);
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    for restart in &restarts {
        out.extend_from_slice(&restart.to_le_bytes());
    }
    out.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    out
}
