//! A file that is to be taken in: opened, read and found fit.
//!
//! It comes from outside, and nothing in it is believed: the entries are counted, their order, types and sequence
//! numbers looked at, and bounds taken from them.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::options::IngestOptions;
use crate::core::{Components, Family};
use crate::version::NewFile;
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::keys::{self, MAX_SEQUENCE, ValueType, pack_tag, split_internal};
use spanlith_base::{Comparator, Error, Result, SequenceNumber};
use spanlith_table::properties::{EXTERNAL_VERSION, GLOBAL_SEQNO};
use spanlith_table::{
    CacheCharges, ReadActivity, ReadParams, ReaderOptions, TableProperties, TableReader,
};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once, unless the options say otherwise.
const READAHEAD: usize = 1 << 20;
/// Most that options may ask for.
const READAHEAD_MAX: usize = 64 << 20;

/// A file that was found fit.
#[derive(Clone, Debug)]
pub(super) struct External {
    /// Where it is.
    pub path: PathBuf,
    pub size: u64,
    /// Smallest internal key, range tombstones included; its sequence number is 0, unless a database wrote the file.
    pub smallest: Vec<u8>,
    /// Largest internal key; of a range tombstone an exclusive one.
    pub largest: Vec<u8>,
    /// Smallest and largest sequence number, if a database wrote the file.
    pub own_seqnos: Option<(SequenceNumber, SequenceNumber)>,
    pub properties: Arc<TableProperties>,
    /// Where in the file a sequence number stands that an earlier database wrote into it, as old releases of RocksDB
    /// do: that place is 0 in a copy.
    pub patched_at: Option<u64>,
}

impl External {
    /// First user key that it concerns.
    pub(super) fn first(&self) -> &[u8] {
        keys::user_key(&self.smallest)
    }

    /// Last user key that it concerns, which may be exclusive.
    pub(super) fn last(&self) -> &[u8] {
        keys::user_key(&self.largest)
    }

    /// Returns whether the keys of two files overlap.
    pub(super) fn overlaps(&self, other: &Self, comparator: &Comparator) -> bool {
        let ends_before = |a: &Self, b: &Self| {
            let order = comparator.compare_without_timestamp(a.last(), true, b.first(), true);
            order.is_lt() || order.is_eq() && crate::version::is_range_sentinel(&a.largest)
        };
        !ends_before(self, other) && !ends_before(other, self)
    }

    /// The entry for a version edit, without what is decided later.
    pub(super) fn describe(&self, seqno: SequenceNumber, now: u64) -> NewFile {
        let with_seqno = |key: &[u8]| match split_internal(key) {
            Some((user, tag)) if keys::tag_sequence(tag) == 0 => {
                keys::internal_key(user, pack_tag(seqno, keys::tag_type(tag)))
            }
            _ => key.to_vec(),
        };
        let seqnos = self.own_seqnos.unwrap_or((seqno, seqno));
        let p = &self.properties;
        NewFile {
            size: self.size,
            smallest: with_seqno(&self.smallest),
            largest: with_seqno(&self.largest),
            smallest_seqno: seqnos.0,
            largest_seqno: seqnos.1,
            oldest_ancester_time: now,
            file_creation_time: now,
            unique_id: p.unique_id(),
            tail_size: match p.tail_start_offset {
                0 => 0,
                start => self.size.saturating_sub(start),
            },
            user_defined_timestamps_persisted: p.user_defined_timestamps_persisted != Some(0),
            ..NewFile::default()
        }
    }
}

impl External {
    /// Opens a file and looks whether the family can take it in.
    ///
    /// # Errors
    /// `Io`; `Corruption` if it is damaged or no table made for that; `InvalidArgument` if its keys have another
    /// order or it has none; `NotSupported` for what this build does not read.
    pub(super) fn examine(
        c: &Components,
        family: &Family,
        path: &Path,
        options: &IngestOptions,
    ) -> Result<Self> {
        if family.times.is_some() {
            // Its values would be shown without their last bytes.
            return Err(Error::not_supported(
                "taking files into a database with times to live",
            ));
        }
        let size = c.env.fs.size(path)?;
        let handle = c.io.open_table(path)?;
        let reader = TableReader::open(
            handle,
            size,
            ReaderOptions {
                cache: None,
                charges: CacheCharges::default(),
                verify_checksums: true,
                ..family.cache.reader_options()
            },
        )
        .map_err(|e| in_words_of_comparators(e, &family.comparator))?;
        let p = reader.properties();
        let stored = check_version(p, options)?;
        let has_timestamps = p.user_defined_timestamps_persisted != Some(0);
        let wants = family.settings().options.persist_user_defined_timestamps;
        if family.comparator.timestamp_size() > 0 && has_timestamps != wants {
            return Err(Error::invalid_argument(
                "the file and the family differ in whether timestamps are persisted",
            )
            .with_path(path));
        }
        if options.verify_checksums {
            reader.verify_checksums()?;
        }
        if p.num_entries == 0 && p.num_range_deletions == 0 {
            return Err(Error::invalid_argument("File contain no entries").with_path(path));
        }
        let mut bounds = Bounds::new(&family.comparator, path, stored);
        read_entries(&reader, options, &mut bounds)?;
        for (start, end, seqno) in reader.range_tombstones()? {
            bounds.add_tombstone(&start, &end, seqno)?;
        }
        if options.verify_entries && bounds.counted != p.num_entries {
            return Err(bounds
                .broken("properties contradict the contents")
                .with("recorded", p.num_entries)
                .with("counted", bounds.counted));
        }
        if bounds.smallest.is_empty() {
            return Err(bounds.broken("no entry that means anything"));
        }
        Ok(Self {
            path: path.to_path_buf(),
            size,
            own_seqnos: stored.is_none().then_some(bounds.seqnos),
            smallest: bounds.smallest,
            largest: bounds.largest,
            properties: Arc::new(p.clone()),
            patched_at: stored
                .filter(|&n| n != 0)
                .map(|_| p.external_sst_file_global_seqno_offset),
        })
    }
}

/// The sequence number that stands in the file; `None` if a database wrote it.
fn check_version(p: &TableProperties, options: &IngestOptions) -> Result<Option<SequenceNumber>> {
    let Some(version) = p.user_collected.get(EXTERNAL_VERSION) else {
        return match options.allow_db_generated_files {
            true => Ok(None),
            false => Err(Error::corruption("External file version not found")),
        };
    };
    match get_fixed32(version, 0) {
        Some(2) => {}
        Some(1) => {
            return Err(Error::not_supported(
                "External table file of version 1, which has no sequence number",
            ));
        }
        _ => {
            return Err(Error::invalid_argument(
                "External file version is not supported",
            ));
        }
    }
    let stored = p.user_collected.get(GLOBAL_SEQNO);
    let stored = stored.and_then(|v| get_fixed64(v, 0));
    match stored {
        Some(_) if p.external_sst_file_global_seqno_offset == 0 => Err(Error::corruption(
            "Was not able to find file global seqno field",
        )),
        Some(n) => Ok(Some(n)),
        None => Err(Error::corruption(
            "External file global sequence number not found",
        )),
    }
}

/// Returns what RocksDB says of a table whose keys have another order.
fn in_words_of_comparators(e: Error, ours: &Comparator) -> Error {
    match e.fact("table") {
        Some(theirs) if e.fact("opened_with").is_some() => Error::invalid_argument(format!(
            "{}: does not match existing comparator {theirs}",
            ours.name()
        )),
        _ => e,
    }
}

/// Looks at all entries, or at the first and the last.
fn read_entries(
    reader: &Arc<TableReader>,
    options: &IngestOptions,
    bounds: &mut Bounds<'_>,
) -> Result<()> {
    let mut iter = reader.iter(ReadParams {
        bypass_cache: true,
        readahead: match options.readahead {
            0 => READAHEAD,
            bytes => usize::try_from(bytes)
                .unwrap_or(READAHEAD)
                .min(READAHEAD_MAX),
        },
        activity: ReadActivity::Unknown,
        ..ReadParams::default()
    });
    iter.seek_to_first();
    if options.verify_entries {
        while iter.valid() {
            bounds.add(iter.key())?;
            iter.next();
        }
        return iter.status();
    }
    if iter.valid() {
        bounds.add(iter.key())?;
        iter.seek_to_last();
        iter.status()?;
        if iter.valid() && iter.key() != bounds.largest {
            bounds.add(iter.key())?;
        }
    }
    iter.status()
}

/// Bounds of a file, from its entries.
struct Bounds<'a> {
    comparator: &'a Comparator,
    path: &'a Path,
    /// The sequence number that all entries show; `None` if a database wrote the file.
    shown: Option<SequenceNumber>,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// Smallest and largest sequence number.
    seqnos: (SequenceNumber, SequenceNumber),
    counted: u64,
}

impl<'a> Bounds<'a> {
    fn new(comparator: &'a Comparator, path: &'a Path, shown: Option<SequenceNumber>) -> Self {
        Self {
            comparator,
            path,
            shown,
            smallest: Vec::new(),
            largest: Vec::new(),
            seqnos: (MAX_SEQUENCE, 0),
            counted: 0,
        }
    }

    fn broken(&self, what: &str) -> Error {
        Error::corruption(format!("T1: {what}")).with_path(self.path)
    }

    /// Takes in the next entry, in order.
    fn add(&mut self, key: &[u8]) -> Result<()> {
        let corrupted = || Error::corruption("External file have corrupted keys");
        let (user, tag) = split_internal(key).ok_or_else(corrupted)?;
        if user.len() < self.comparator.timestamp_size() {
            return Err(corrupted());
        }
        let kind = ValueType::from_byte(keys::tag_type(tag)).ok_or_else(corrupted)?;
        match kind {
            ValueType::Deletion
            | ValueType::Value
            | ValueType::Merge
            | ValueType::SingleDeletion
            | ValueType::DeletionWithTimestamp
            | ValueType::WideColumnEntity => {}
            ValueType::BlobIndex => {
                return Err(Error::not_supported("External file with blob references"));
            }
            ValueType::ValuePreferredSeqno => {
                return Err(Error::not_supported("External file with times of writes"));
            }
            ValueType::RangeDeletion => return Err(corrupted()),
        }
        let last = &self.largest;
        let follows = match self.shown {
            _ if last.is_empty() => true,
            // One entry for each key.
            Some(_) => self.comparator.compare(keys::user_key(last), user) == Ordering::Less,
            None => self.comparator.compare_internal(last, key) == Ordering::Less,
        };
        if !follows {
            return Err(self
                .broken("keys do not increase")
                .with("key", key.escape_ascii()));
        }
        let key = self.plain(user, tag)?;
        if self.smallest.is_empty() {
            self.smallest.clone_from(&key);
        }
        self.largest = key;
        self.counted += 1;
        Ok(())
    }

    /// The internal key without the sequence number that an earlier database gave the file.
    fn plain(&mut self, user: &[u8], tag: u64) -> Result<Vec<u8>> {
        let seqno = keys::tag_sequence(tag);
        match self.shown {
            Some(shown) if shown != seqno => Err(Error::corruption(
                "External file has non zero sequence number",
            )),
            Some(_) => Ok(keys::internal_key(user, pack_tag(0, keys::tag_type(tag)))),
            None if seqno > MAX_SEQUENCE - 1 => {
                Err(Error::corruption("External file have corrupted keys"))
            }
            None => {
                self.seqnos = (self.seqnos.0.min(seqno), self.seqnos.1.max(seqno));
                Ok(keys::internal_key(user, tag))
            }
        }
    }

    /// Takes in a range tombstone, after all entries.
    fn add_tombstone(&mut self, start: &[u8], end: &[u8], seqno: SequenceNumber) -> Result<()> {
        self.counted += 1;
        let size = self.comparator.timestamp_size();
        if start.len() < size || end.len() < size {
            return Err(Error::corruption("External file have corrupted keys"));
        }
        let order = self
            .comparator
            .compare_without_timestamp(start, true, end, true);
        if order.is_gt() {
            return Err(self.broken("a range tombstone ends before it begins"));
        }
        let kind = ValueType::RangeDeletion as u8;
        let smallest = self.plain(start, pack_tag(seqno, kind))?;
        if order.is_eq() {
            // It deletes nothing.
            return Ok(());
        }
        let largest = keys::internal_key(end, pack_tag(MAX_SEQUENCE, kind));
        let less = |a: &[u8], b: &[u8]| self.comparator.compare_internal(a, b).is_lt();
        if self.smallest.is_empty() || less(&smallest, &self.smallest) {
            self.smallest = smallest;
        }
        if self.largest.is_empty() || less(&self.largest, &largest) {
            self.largest = largest;
        }
        Ok(())
    }
}
