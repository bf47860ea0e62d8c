//! Describes what the tables of a database are, how much of them lies in a range, and whether they are intact.
//!
//! All of it looks at one superversion, without a lock of the database.

use super::{Cf, Db};
use crate::core::{CoveredBytes, SuperVersion};
use crate::options::Temperature;
use crate::version::edit::UNKNOWN_CHECKSUM_FUNCTION;
use crate::version::{FileChecksum, FileMeta, Version};
use spanlith_base::coding::varint_len;
use spanlith_base::keys::internal_key;
use spanlith_base::stats::Ticker;
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_table::ReadActivity;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table of a column family at one moment. Its file may be gone any time later.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LiveFile {
    /// Name of the family.
    pub cf_name: String,
    /// Number of the file.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// Its level.
    pub level: usize,
    /// Bytes.
    pub size: u64,
    /// Smallest user key, with its timestamp.
    pub smallest: Vec<u8>,
    /// Largest user key, with its timestamp.
    pub largest: Vec<u8>,
    /// Smallest sequence number.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number.
    pub largest_seqno: SequenceNumber,
    /// Entries, deletions included; 0 as long as the table was not opened.
    pub entries: u64,
    /// Deletions; 0 as long as the table was not opened.
    pub deletions: u64,
    /// Its temperature as the MANIFEST has it.
    pub temperature: Temperature,
    /// Says whether a compaction works on it.
    pub being_compacted: bool,
    /// Its age among the files of level 0; a larger number is newer.
    pub epoch_number: u64,
}

/// Describes what counts for the size of a range.
#[derive(Clone, Copy, Debug)]
pub struct SizeOf {
    /// Tables, by the bytes of their files.
    pub files: bool,
    /// Memtables, by the bytes of keys and values. Costs a walk over the range.
    pub memtables: bool,
    /// Tables at the ends of the range count half, without a look into them, if they are together less than this
    /// part of those that lie within; 0 or less: they are always looked into (`files_size_error_margin`).
    pub margin: f64,
}

impl Default for SizeOf {
    /// Tables only.
    fn default() -> Self {
        Self {
            files: true,
            memtables: false,
            margin: -1.0,
        }
    }
}

impl Db {
    /// The tables of all families: by family, by level, newest first in level 0, else by key.
    pub fn live_files(&self) -> Vec<LiveFile> {
        self.cfs().iter().flat_map(Cf::live_files).collect()
    }

    /// Opens every table anew, reads every block and verifies its checksum.
    ///
    /// # Errors
    /// The first mismatch or failure to read.
    pub fn verify_checksums(&self) -> Result<()> {
        self.cfs().iter().try_for_each(Cf::verify_checksums)
    }

    /// Reads every table and blob file and compares it with the checksum of the whole file that was
    /// recorded when it was written. Files written without one are skipped.
    ///
    /// # Errors
    /// `InvalidArgument` without `file_checksum_gen_factory`; the first mismatch or failure to read.
    pub fn verify_file_checksums(&self) -> Result<()> {
        if FileChecksum::of(&self.engine().c.options) == FileChecksum::None {
            return Err(Error::invalid_argument(
                "Cannot verify file checksum if options.file_checksum_gen_factory is null",
            ));
        }
        let cfs = self.cfs();
        cfs.iter().try_for_each(Cf::verify_file_checksums)
    }

    /// Names of the column families of a database that need not be open, in the order of their
    /// creation.
    ///
    /// # Errors
    /// `Io` and `Corruption` of CURRENT and the MANIFEST.
    pub fn list_families(path: impl AsRef<Path>, env: &spanlith_env::Env) -> Result<Vec<String>> {
        crate::recovery::list_families(env, path.as_ref())
    }
}

impl Cf {
    /// Number of levels.
    pub fn num_levels(&self) -> usize {
        self.family.superversion.load().version.num_levels()
    }

    /// Its tables: by level, newest first in level 0, else by key.
    pub fn live_files(&self) -> Vec<LiveFile> {
        self.version_and_files().1
    }

    /// As [`Self::live_files`], with the version that they are of.
    pub(crate) fn version_and_files(&self) -> (Arc<Version>, Vec<LiveFile>) {
        let version = self.family.superversion.load().version.clone();
        let file = |(level, f): (usize, &Arc<FileMeta>)| {
            let stats = f.stats.get().copied().unwrap_or_default();
            LiveFile {
                cf_name: self.family.name.clone(),
                number: f.number,
                path: self.family.table_path(f.number, f.path_id),
                level,
                size: f.size,
                smallest: f.smallest_user_key().to_vec(),
                largest: f.largest_user_key().to_vec(),
                smallest_seqno: f.smallest_seqno,
                largest_seqno: f.largest_seqno,
                entries: stats.num_entries,
                deletions: stats.num_deletions,
                temperature: Temperature::from_number(f.temperature.into())
                    .unwrap_or(Temperature::Unknown),
                being_compacted: f.is_being_compacted(),
                epoch_number: f.epoch_number,
            }
        };
        let files = version.file_iter().map(file).collect();
        (version, files)
    }

    /// About how many bytes the entries with `begin ≤ key < end` take; 0 if `end` is not after
    /// `begin`. A table at an end of the range that cannot be read counts half.
    ///
    /// # Errors
    /// None at present.
    pub fn approximate_size(&self, begin: &[u8], end: &[u8], of: SizeOf) -> Result<u64> {
        let c = self.comparator();
        if c.compare_without_timestamp(begin, false, end, false) != Ordering::Less {
            return Ok(0);
        }
        // All versions of a key count with it.
        let (begin, end) = (
            self.family.padded(begin, 0xff),
            self.family.padded(end, 0xff),
        );
        let (begin, end) = (&*begin, &*end);
        let superversion = self.family.superversion.load_full();
        let mut bytes = 0;
        if of.files {
            let files = CoveredBytes::new(&self.family, &superversion.version, 0);
            let before = |key| internal_key(key, u64::MAX);
            bytes += files.size(&before(begin), &before(end), of.margin);
        }
        if of.memtables {
            bytes += size_of_memtables(&superversion, begin, end);
        }
        Ok(bytes)
    }

    /// Opens every table anew, reads every block and verifies its checksum.
    ///
    /// # Errors
    /// The first mismatch or failure to read.
    pub fn verify_checksums(&self) -> Result<()> {
        let superversion = self.family.superversion.load_full();
        let _activity = ReadActivity::VerifyDbChecksum.enter();
        for (_, file) in superversion.version.file_iter() {
            self.family.cache.verify_checksums(file)?;
            if let Some(s) = self.engine().reporter.statistics() {
                s.add(Ticker::VerifyChecksumReadBytes, file.size);
            }
        }
        Ok(())
    }
}

impl Cf {
    fn verify_file_checksums(&self) -> Result<()> {
        let version = self.family.superversion.load().version.clone();
        let (family, engine) = (&self.family, self.db.engine());
        let fs = &*engine.c.env.fs;
        let verify = |path: &Path, function: &[u8], expected: &[u8]| {
            if function.is_empty() || function == UNKNOWN_CHECKSUM_FUNCTION {
                return Ok(());
            }
            FileChecksum::of(&engine.c.options).verify(fs, path, function, expected)
        };
        for (_, f) in version.file_iter() {
            let path = family.table_path(f.number, f.path_id);
            verify(&path, &f.file_checksum_func_name, &f.file_checksum)?;
        }
        for blob in version.blob_files.values() {
            let path = family.cache.paths.blob(blob.file.number);
            verify(&path, &blob.file.checksum_method, &blob.file.checksum_value)?;
        }
        Ok(())
    }
}

/// As RocksDB estimates: of each memtable the entries in the range, with range deletions that begin in it, times what an
/// entry of the memtable takes on average, with lengths and checksum. Entries are counted here, RocksDB
/// extrapolates from a sample when there are more than a few. What lengths take is known only of the
/// entries in the range.
fn size_of_memtables(sv: &SuperVersion, begin: &[u8], end: &[u8]) -> u64 {
    let mut bytes = 0;
    let from = internal_key(begin, u64::MAX);
    for mem in std::iter::once(&sv.mem).chain(&sv.imm) {
        let comparator = mem.comparator().clone();
        let all = mem.len() + mem.range_deletes();
        if all == 0 {
            continue;
        }
        let ranges = mem.range_deletes_within(begin, end);
        let (mut within, mut lengths) = (ranges, 2 * ranges);
        let mut entries = mem.iter();
        entries.seek(&from);
        while entries.valid() {
            let key = spanlith_base::keys::user_key(entries.key());
            if comparator.compare(key, end) != Ordering::Less {
                break;
            }
            within += 1;
            let (key, value) = (entries.key().len() as u64, entries.value().len() as u64);
            lengths += (varint_len(key) + varint_len(value)) as u64;
            entries.next();
        }
        let Some(lengths) = (all * lengths).checked_div(within) else {
            continue;
        };
        let sums = all * u64::from(mem.checksum_bytes());
        let each = (mem.data_bytes() + lengths + sums) / all;
        bytes += within.min(all) * each;
    }
    bytes
}
