//! Values by blob index, over all blob files of a family.
//!
//! Open files are kept, the least recently used go first when there are too many. A read that finds
//! damage opens the file anew and tries once more, as RocksDB does: what was read may have come from
//! a handle gone bad. Shared freely by threads.

use super::cache::BlobCache;
use super::index::{BlobIndex, BlobPointer};
use super::pieces::Pieces;
use super::reader::{BlobFileReader, ExpectedFamily};
use super::reads::BlobReads;
use crate::version::{Version, filenames};
use spanlith_base::stats::Statistics;
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, ErrorKind, FileNumber, Pinned, Result};
use spanlith_env::FileSystem;
use spanlith_table::BlockCache;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;

/// How a blob is read.
#[derive(Clone, Copy, Debug)]
pub struct BlobRead {
    /// Says whether the record around the value is read and checked.
    pub verify_checksums: bool,
    /// Says whether the file system may be asked.
    pub may_read: bool,
    /// Says whether what is read goes into the blob cache, if there is one.
    pub fill_cache: bool,
}

impl BlobRead {
    /// How flushes and compactions read: they check everything and leave the cache alone.
    pub fn of_job() -> Self {
        Self {
            fill_cache: false,
            ..Self::default()
        }
    }
}

impl Default for BlobRead {
    fn default() -> Self {
        Self {
            verify_checksums: true,
            may_read: true,
            fill_cache: true,
        }
    }
}

/// The blob files of a family.
pub struct BlobSource {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    family: ExpectedFamily,
    open_max: usize,
    open: Mutex<OpenFiles>,
    cache: Option<BlobCache>,
    pieces: Option<Arc<Pieces>>,
    reads: Option<BlobReads>,
    statistics: Option<Arc<Statistics>>,
}

/// Readers by file number, with the time of their last use.
#[derive(Default)]
struct OpenFiles {
    readers: HashMap<FileNumber, (Arc<BlobFileReader>, u64)>,
    uses: u64,
}

impl BlobSource {
    /// Blob files in `dir`, of which at most `open_max` (at least one) are kept open.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        family: ExpectedFamily,
        open_max: usize,
    ) -> Self {
        Self {
            fs,
            dir,
            family,
            open_max: open_max.max(1),
            open: Mutex::new(RANK, OpenFiles::default()),
            cache: None,
            pieces: None,
            reads: None,
            statistics: None,
        }
    }

    /// Counts what is read in the database's statistics.
    #[must_use]
    pub(crate) fn with_statistics(mut self, statistics: Option<Arc<Statistics>>) -> Self {
        self.statistics = statistics;
        self
    }

    /// With a cache of values.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<BlobCache>) -> Self {
        self.cache = cache;
        self
    }

    /// With a block cache that may keep small values, if there is no cache of values.
    #[must_use]
    pub(crate) fn with_pieces(mut self, cache: Option<&BlockCache>) -> Self {
        let cache = cache.filter(|_| self.cache.is_none());
        self.pieces = cache.map(|cache| Arc::new(Pieces::new(cache.clone())));
        self
    }

    /// Counts reads that go to files.
    #[must_use]
    pub(crate) fn counting(mut self, reads: BlobReads) -> Self {
        self.reads = Some(reads);
        self
    }

    /// Counts of reads, if they are counted.
    pub(crate) fn reads(&self) -> Option<&BlobReads> {
        self.reads.as_ref()
    }

    /// The cache of values.
    pub fn cache(&self) -> Option<&BlobCache> {
        self.cache.as_ref()
    }

    /// The value of `user_key` at `pointer`, if it is in memory.
    pub(crate) fn cached(
        &self,
        user_key: &[u8],
        pointer: &BlobPointer,
        how: BlobRead,
    ) -> Option<Pinned> {
        if let Some(cache) = &self.cache {
            return cache.find(pointer);
        }
        // Jobs write it anew.
        let verify = !how.fill_cache;
        let pieces = self.pieces.as_ref()?;
        pieces.value(user_key, pointer, verify)
    }

    /// Small values in the block cache.
    pub(crate) fn pieces(&self) -> Option<&Arc<Pieces>> {
        self.pieces.as_ref()
    }

    /// Puts a value that was just written into the cache, if there is one.
    pub fn keep(&self, pointer: &BlobPointer, value: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.keep(pointer, value);
        }
    }

    /// The value that a table's entry for `user_key` (with its timestamp) refers to by the blob
    /// index in `index`.
    ///
    /// # Errors
    /// `Corruption` if the index is damaged or names a file that `version` does not hold; as
    /// [`Self::get`].
    pub fn resolve(
        &self,
        version: &Version,
        user_key: &[u8],
        index: &[u8],
        how: BlobRead,
    ) -> Result<Pinned> {
        let pointer = BlobIndex::decode(index)?.pointer()?;
        self.fetch(version, user_key, &pointer, how)
    }

    /// As [`Self::resolve`], by a blob index that was decoded.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn fetch(
        &self,
        version: &Version,
        user_key: &[u8],
        pointer: &BlobPointer,
        how: BlobRead,
    ) -> Result<Pinned> {
        if !version.blob_files.contains_key(&pointer.file) {
            return Err(
                Error::corruption("Invalid blob file number").with("blob_file", pointer.file)
            );
        }
        self.get(user_key, pointer, how)
    }

    /// The value of `user_key` (with its timestamp) at `pointer`, uncompressed.
    ///
    /// # Errors
    /// `Incomplete` if the file system must not be asked; of the file; `Corruption` if the pointer
    /// leads elsewhere or the record is damaged.
    pub fn get(&self, user_key: &[u8], pointer: &BlobPointer, how: BlobRead) -> Result<Pinned> {
        if let Some(value) = self.cached(user_key, pointer, how) {
            return Ok(value);
        }
        // Those of flushes and compactions cost readers nothing.
        let value = match self.reads.as_ref().filter(|_| how.fill_cache) {
            Some(reads) => reads.count(pointer.size, || self.read(user_key, pointer, how))?,
            None => self.read(user_key, pointer, how)?,
        };
        if let Some(cache) = self.cache.as_ref().filter(|_| how.fill_cache) {
            cache.keep(pointer, &value);
        }
        Ok(value)
    }

    /// As [`Self::get`], past the cache.
    fn read(&self, user_key: &[u8], pointer: &BlobPointer, how: BlobRead) -> Result<Pinned> {
        if !how.may_read {
            return Err(Error::incomplete(
                "Cannot read blob(s): no disk I/O allowed",
            ));
        }
        let reader = self.reader(pointer.file)?;
        match reader.get(user_key, pointer, how.verify_checksums) {
            Err(e) if e.kind() == ErrorKind::Corruption => {
                self.forget(pointer.file);
                let again = self.reader(pointer.file)?;
                again.get(user_key, pointer, how.verify_checksums)
            }
            result => result,
        }
    }

    /// The reader of a file, opened at first use.
    ///
    /// # Errors
    /// As [`BlobFileReader::open`].
    pub fn reader(&self, number: FileNumber) -> Result<Arc<BlobFileReader>> {
        {
            let mut open = self.open.lock();
            open.uses += 1;
            let now = open.uses;
            if let Some((reader, used)) = open.readers.get_mut(&number) {
                *used = now;
                return Ok(Arc::clone(reader));
            }
        }
        // Without the lock; of two threads that open the same file the first one's reader stays.
        let path = self.dir.join(filenames::blob_file_name(number));
        let opened = BlobFileReader::open(self.fs.open_random(&path)?, self.family)?;
        let opened = Arc::new(opened.counting(self.statistics.clone()));
        let mut closed = None;
        let mut open = self.open.lock();
        if open.readers.len() >= self.open_max && !open.readers.contains_key(&number) {
            let oldest = open.readers.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(&number, _)| number);
            closed = oldest.and_then(|n| open.readers.remove(&n));
        }
        let now = open.uses;
        let (reader, _) = open.readers.entry(number).or_insert((opened, now));
        let reader = Arc::clone(reader);
        drop(open);
        // Closing is work for the system, hence after the lock is released.
        drop(closed);
        Ok(reader)
    }

    /// Closes a file, because it is deleted or may be damaged.
    pub fn forget(&self, number: FileNumber) {
        let closed = self.open.lock().readers.remove(&number);
        drop(closed);
        if let Some(pieces) = &self.pieces {
            pieces.forget(number);
        }
    }

    /// Number of files open.
    pub fn open_files(&self) -> usize {
        self.open.lock().readers.len()
    }
}
