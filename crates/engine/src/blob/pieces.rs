//! Small values that jobs have just written, kept in the block cache.
//!
//! A value of some hundred bytes takes no longer to copy than a fifth of the call that reads it. In adaptive mode what a job
//! writes to a blob file is therefore cut into *pieces*, of [`PIECE`] bytes at multiples of it in the file, and each goes to
//! the room that the block cache has to spare ([`BlockCache::insert_spare`]): no block leaves for it. That costs one copy
//! while the bytes are at hand. Nothing that is read comes in, as a piece costs more than the read of a value that it may save.
//! Parts of a file whose records have more than [`RECORD_MAX`] bytes on the average are left out.
//!
//! A piece has the bytes that were given to the file system, so that no checksum is compared for a reader, as with blocks
//! in the cache; jobs, which write values anew, compare it. Size and key of the record are always compared: a reference that
//! leads elsewhere gets the error that a read of the file gives. Pieces are found by an id that the family has for as long
//! as it is open, and the number of the file, which is not given out twice; those of a file that is deleted, or that damage was
//! found in, are dropped. Threads: any.

use super::format::RECORD_HEADER_LEN;
use super::index::BlobPointer;
use super::reader::{check_record, check_record_head};
use spanlith_base::sync::Mutex;
use spanlith_base::{CompressionType, FileNumber, Pinned};
use spanlith_cache::CacheKey;
use spanlith_table::format::decompress;
use spanlith_table::{Block, BlockCache, CacheRole};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;
/// Bytes of a piece; the last one of a file has fewer.
const PIECE: usize = 8 << 10;
/// Bytes of a stored value that is looked for.
const VALUE_MAX: usize = 2 << 10;
/// Bytes of a record up to which a part of a file is kept, on the average: such a value, with a key, and the file's header.
const RECORD_MAX: usize = VALUE_MAX + 512;
/// Bits of a key that hold the number of the piece; the others hold the number of the file.
const PIECE_BITS: u32 = 24;

/// The pieces of one family's blob files.
pub(crate) struct Pieces {
    cache: BlockCache,
    /// This family's part of the keys, which no other user of the cache has.
    id: u64,
    /// There was a piece. Relaxed: a hint.
    is_used: AtomicBool,
    /// How many pieces each file has at most.
    counts: Mutex<HashMap<FileNumber, u64>>,
}

impl Pieces {
    /// None yet, in `cache`.
    pub(crate) fn new(cache: BlockCache) -> Self {
        let id = cache.new_id();
        Self {
            cache,
            id,
            is_used: AtomicBool::new(false),
            counts: Mutex::new(RANK, HashMap::new()),
        }
    }

    fn key(&self, file: FileNumber, piece: u64) -> Option<CacheKey> {
        let fits = piece >> PIECE_BITS == 0 && file >> (64 - PIECE_BITS) == 0;
        fits.then_some(CacheKey {
            file: self.id,
            block: file << PIECE_BITS | piece,
        })
    }

    pub(super) fn load(&self, file: FileNumber, piece: u64) -> Option<Arc<Block>> {
        self.cache.lookup(&self.key(file, piece)?)
    }

    fn keep(&self, file: FileNumber, piece: u64, bytes: &[u8]) {
        let Some(key) = self.key(file, piece) else {
            return;
        };
        let block = Arc::new(Block::raw_copy(CacheRole::BlobValue, bytes));
        let charge = block.memory_usage();
        self.cache.insert_spare(key, block, charge);
    }

    /// Notes that a file has as many pieces.
    fn count(&self, file: FileNumber, pieces: u64) {
        self.is_used.store(true, Ordering::Relaxed);
        let mut counts = self.counts.lock();
        let count = counts.entry(file).or_default();
        *count = pieces.max(*count);
    }

    /// Drops the pieces of a file.
    pub(super) fn forget(&self, file: FileNumber) {
        let count = self.counts.lock().remove(&file).unwrap_or(0);
        for piece in 0..count {
            if let Some(key) = self.key(file, piece) {
                self.cache.erase(&key);
            }
        }
    }

    /// The pieces that hold the record of `user_key` at `pointer`, and the place in the first of them.
    #[inline]
    fn find(&self, user_key: &[u8], pointer: &BlobPointer) -> Option<Found> {
        if !self.is_used.load(Ordering::Relaxed) || pointer.size > VALUE_MAX as u64 {
            return None;
        }
        let head = RECORD_HEADER_LEN + user_key.len();
        let start = pointer.offset.checked_sub(head as u64)?;
        // Less than two pieces, unless the key is a very long one.
        let len = head + pointer.size as usize;
        let (piece, at) = (start / PIECE as u64, (start % PIECE as u64) as usize);
        if at + len > 2 * PIECE {
            return None;
        }
        let first = self.load(pointer.file, piece)?;
        let second = match at + len > PIECE {
            true => Some(self.load(pointer.file, piece + 1)?),
            false => None,
        };
        Some(Found {
            first,
            second,
            at,
            len,
        })
    }

    /// The value of `user_key` at `pointer`, if it is here; its checksum is compared if `verify`. It keeps its piece in
    /// memory, if it lies in one.
    pub(super) fn value(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        verify: bool,
    ) -> Option<Pinned> {
        let found = self.find(user_key, pointer)?;
        if let Some(record) = found.whole()
            && pointer.compression == CompressionType::None.as_byte()
        {
            check(record, user_key, pointer, verify)?;
            return Some(
                found
                    .first
                    .pin(record.get(record.len() - pointer.size as usize..)?),
            );
        }
        let mut out = Vec::new();
        found.copy(user_key, pointer, verify, &mut out)?;
        Some(Pinned::from_vec(out))
    }

    /// As [`Self::value`], into `out` in place of what it held; false if it is not here, `out` then holds anything.
    pub(super) fn copy(&self, user_key: &[u8], pointer: &BlobPointer, out: &mut Vec<u8>) -> bool {
        let found = self.find(user_key, pointer);
        found.is_some_and(|f| f.copy(user_key, pointer, false, out).is_some())
    }
}

/// A record in one or two pieces.
struct Found {
    first: Arc<Block>,
    second: Option<Arc<Block>>,
    at: usize,
    len: usize,
}

impl Found {
    /// The record, if it lies in one piece.
    fn whole(&self) -> Option<&[u8]> {
        match self.second {
            None => self.first.bytes().get(self.at..self.at + self.len),
            Some(_) => None,
        }
    }

    fn copy(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        verify: bool,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let joined;
        let record = match &self.second {
            None => self.whole()?,
            Some(second) => {
                let head = self.first.bytes().get(self.at..)?;
                let rest = second.bytes().get(..self.len.checked_sub(head.len())?)?;
                joined = [head, rest].concat();
                &joined
            }
        };
        check(record, user_key, pointer, verify)?;
        let stored = record.get(record.len() - pointer.size as usize..)?;
        super::reader::give_back(out, stored.len());
        out.clear();
        match CompressionType::from_stored_byte(pointer.compression)? {
            CompressionType::None => out.extend_from_slice(stored),
            codec => decompress(codec.codec().ok()?, stored, out).ok()?,
        }
        Some(())
    }
}

/// `None` if the record is not the one that is looked for.
fn check(record: &[u8], user_key: &[u8], pointer: &BlobPointer, verify: bool) -> Option<()> {
    match verify {
        true => check_record(record, user_key, pointer).ok(),
        false => check_record_head(record, user_key, pointer).map(drop).ok(),
    }
}

/// Cuts what is written to one file into pieces.
pub(crate) struct PieceFeed {
    pieces: Arc<Pieces>,
    file: FileNumber,
    /// The bytes of the piece that is not full yet. Whole from its beginning on, or empty.
    begun: Vec<u8>,
    /// Where the next byte has to be to continue it.
    next: u64,
}

impl PieceFeed {
    /// Of a file that is empty yet.
    pub(crate) fn new(pieces: Arc<Pieces>, file: FileNumber) -> Self {
        Self {
            pieces,
            file,
            begun: Vec::new(),
            next: 0,
        }
    }

    /// Takes in `bytes`, written at `offset` and made of as many records.
    pub(super) fn written(&mut self, offset: u64, mut bytes: &[u8], records: u64) {
        let end = offset + bytes.len() as u64;
        let continues = std::mem::replace(&mut self.next, end) == offset;
        if bytes.len() as u64 > RECORD_MAX as u64 * records.max(1) {
            self.begun.clear();
            return;
        }
        let into = (offset % PIECE as u64) as usize;
        if into != self.begun.len() || !continues {
            self.begun.clear();
            // The piece has bytes that were left out.
            let skipped = bytes.len().min((PIECE - into) % PIECE);
            bytes = &bytes[skipped..];
        }
        self.pieces.count(self.file, end.div_ceil(PIECE as u64));
        let mut piece = (end - bytes.len() as u64) / PIECE as u64;
        if !self.begun.is_empty() {
            let (rest, more) = bytes.split_at(bytes.len().min(PIECE - into));
            self.begun.extend_from_slice(rest);
            bytes = more;
            if self.begun.len() < PIECE {
                return;
            }
            self.pieces.keep(self.file, piece, &self.begun);
            self.begun.clear();
            piece += 1;
        }
        let whole = bytes.chunks_exact(PIECE);
        self.begun.extend_from_slice(whole.remainder());
        for part in whole {
            self.pieces.keep(self.file, piece, part);
            piece += 1;
        }
    }

    /// The file ends here.
    pub(super) fn finish(self) {
        if !self.begun.is_empty() {
            self.pieces
                .keep(self.file, (self.next - 1) / PIECE as u64, &self.begun);
        }
    }
}
