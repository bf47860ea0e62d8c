//! Reads what a table says of itself: the family it is of, how that orders its keys, its bounds and sequence numbers.
//!
//! Bounds and numbers come from the entries, all of which are read with their checksums; so a table that is described
//! can be read wherever a user will look.

use crate::blob::each_reference;
use crate::version::NewFile;
use spanlith_base::keys::{
    MAX_SEQUENCE, internal_key, pack_tag, split_internal, tag_sequence, tag_type,
};
use spanlith_base::timestamp::strip_internal;
use spanlith_base::{Comparator, Error, ErrorKind, Result, UserComparator, ValueType};
use spanlith_env::{Env, RandomAccessFile};
use spanlith_table::{ReadParams, ReaderOptions, TableIter, TableReader, properties};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// Bytes read at once.
const READAHEAD: usize = 1 << 20;

/// The id that tables name whose family is not known.
const UNKNOWN_FAMILY: u64 = i32::MAX as u64;

/// Names of the orders with timestamps that this build knows.
const TIMESTAMP_ORDERS: [&str; 2] = [
    "leveldb.BytewiseComparator.u64ts",
    "rocksdb.ReverseBytewiseComparator.u64ts",
];

/// Says what becomes of a table of which a data block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holes {
    /// It is refused.
    Refused,
    /// It is described by the entries in front of the first hole and after the last.
    Tolerated,
}

/// A table as it describes itself.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// Id of its family; 0 if it does not say.
    pub family: u32,
    /// Name of its family; empty if it does not say.
    pub name: String,
    pub comparator: String,
    /// In level 0, without epoch and path.
    pub file: NewFile,
    /// It was made outside and taken in, and does not say when: all its entries have a number that only the MANIFEST says.
    pub is_unnumbered: bool,
}

/// Reads a table. `None` if nothing is in it.
///
/// # Errors
/// Those of opening and reading the table.
pub(super) fn describe(
    env: &Env,
    path: &Path,
    number: u64,
    holes: Holes,
) -> Result<Option<Described>> {
    let (reader, order) = open(env, path)?;
    let p = reader.properties();
    let id = u32::try_from(p.column_family_id).ok();
    let has_family = p.column_family_id != UNKNOWN_FAMILY && !p.column_family_name.is_empty();
    let family = id.filter(|_| has_family).unwrap_or(0);
    let mut seen = Seen::default();
    seen.walk(reader.iter(walk()), holes)?;
    for (begin, end, sequence) in reader.range_tombstones()? {
        seen.number(sequence);
        let tag = |sequence| pack_tag(sequence, ValueType::RangeDeletion as u8);
        let begin = internal_key(&begin, tag(sequence));
        seen.widen(&order, begin, internal_key(&end, tag(MAX_SEQUENCE)));
    }
    let (Some(smallest), Some(largest)) = (&seen.first, &seen.last) else {
        return Ok(None);
    };
    let is_persisted = p.user_defined_timestamps_persisted != Some(0);
    // A reader of an order with timestamps puts them in; in the MANIFEST they are left out.
    let bound = |key: &[u8]| match order.timestamp_size() {
        size if size > 0 && !is_persisted => strip_internal(key, size),
        _ => key.to_vec(),
    };
    let most = seen.most.max(p.key_largest_seqno.unwrap_or(0));
    let collected = |name| p.user_collected.get(name).cloned().unwrap_or_default();
    let file = NewFile {
        number,
        size: reader.file_size(),
        smallest: bound(smallest),
        largest: bound(largest),
        smallest_seqno: seen.least.min(most),
        largest_seqno: most,
        oldest_blob_file_number: seen.oldest_blob.unwrap_or(0),
        unique_id: p.unique_id(),
        oldest_ancester_time: p.creation_time,
        file_creation_time: p.file_creation_time,
        user_defined_timestamps_persisted: is_persisted,
        min_timestamp: collected(properties::TIMESTAMP_MIN),
        max_timestamp: collected(properties::TIMESTAMP_MAX),
        ..NewFile::default()
    };
    Ok(Some(Described {
        family,
        name: p.column_family_name.clone(),
        comparator: p.comparator_name.clone(),
        is_unnumbered: most == 0 && !collected(properties::GLOBAL_SEQNO).is_empty(),
        file,
    }))
}

impl Described {
    /// Gives all entries of a table that does not say its number this one.
    pub(super) fn renumber(&mut self, sequence: u64) {
        let file = &mut self.file;
        (file.smallest_seqno, file.largest_seqno) = (sequence, sequence);
        for bound in [&mut file.smallest, &mut file.largest] {
            if let Some((user, tag)) = split_internal(bound)
                && tag_sequence(tag) != MAX_SEQUENCE
            {
                *bound = internal_key(user, pack_tag(sequence, tag_type(tag)));
            }
        }
    }
}

/// How walks over whole tables read.
fn walk() -> ReadParams {
    ReadParams {
        bypass_cache: true,
        verify_checksums: true,
        readahead: READAHEAD,
        ..ReadParams::default()
    }
}

/// Opens a table in whatever order its keys are, and says in which.
fn open(env: &Env, path: &Path) -> Result<(Arc<TableReader>, Comparator)> {
    let file = env.fs.open_random(path)?;
    match open_with(&file, Comparator::Bytewise) {
        Err(e) if e.kind() == ErrorKind::InvalidArgument => {
            let name = e.fact("table").map(str::to_string);
            open_with(&file, order_of(&name.ok_or(e)?))
        }
        Err(e) if e.kind() == ErrorKind::NotSupported => {
            // Keys with timestamps: only their own order opens such a table.
            let orders = TIMESTAMP_ORDERS.iter();
            let orders = orders.filter_map(|name| Comparator::from_name(name));
            let mut opened = orders.filter_map(|order| open_with(&file, order).ok());
            opened.next().ok_or(e)
        }
        opened => opened,
    }
}

fn open_with(
    file: &Arc<dyn RandomAccessFile>,
    comparator: Comparator,
) -> Result<(Arc<TableReader>, Comparator)> {
    let options = ReaderOptions {
        comparator: comparator.clone(),
        verify_checksums: true,
        ..ReaderOptions::default()
    };
    let reader = TableReader::open(file.clone(), file.size(), options)?;
    Ok((reader, comparator))
}

/// An order of which only the name matters: entries are read in the order in which they stand.
struct NameOnly(String);

impl UserComparator for NameOnly {
    fn name(&self) -> &str {
        &self.0
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// The order of that name, or a stand-in for all that needs no order.
fn order_of(name: &str) -> Comparator {
    match Comparator::from_name(name) {
        Some(order) => order,
        None if name.is_empty() => Comparator::Bytewise,
        None => Comparator::User(Arc::new(NameOnly(name.to_string()))),
    }
}

/// Describes what the entries of a table say.
struct Seen {
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    least: u64,
    most: u64,
    oldest_blob: Option<u64>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            first: None,
            last: None,
            least: u64::MAX,
            most: 0,
            oldest_blob: None,
        }
    }
}

impl Seen {
    /// Walks from the first entry on, and from the last one back if a block in between cannot be read and may be
    /// passed over.
    fn walk(&mut self, mut entries: TableIter, holes: Holes) -> Result<()> {
        entries.seek_to_first();
        if entries.valid() {
            self.first = Some(entries.key().to_vec());
        }
        while entries.valid() {
            self.take(&entries)?;
            self.last = Some(entries.key().to_vec());
            entries.next();
        }
        let Err(damage) = entries.status() else {
            return Ok(());
        };
        if holes == Holes::Refused {
            return Err(damage);
        }
        entries.seek_to_last();
        // Without both ends nobody can tell where the table belongs.
        if self.first.is_none() || !entries.valid() {
            return Err(damage);
        }
        self.last = Some(entries.key().to_vec());
        while entries.valid() {
            self.take(&entries)?;
            entries.prev();
        }
        Ok(())
    }

    fn take(&mut self, entries: &TableIter) -> Result<()> {
        let bad = || Error::corruption("a key without sequence number and type");
        let (_, tag) = split_internal(entries.key()).ok_or_else(bad)?;
        self.number(tag_sequence(tag));
        if tag_type(tag) >= ValueType::BlobIndex as u8 {
            each_reference(entries.key(), entries.value(), |file, _| {
                let oldest = self.oldest_blob.unwrap_or(u64::MAX);
                self.oldest_blob = Some(oldest.min(file));
            });
        }
        Ok(())
    }

    fn number(&mut self, sequence: u64) {
        (self.least, self.most) = (self.least.min(sequence), self.most.max(sequence));
    }

    /// Widens the bounds by those of a range tombstone.
    fn widen(&mut self, order: &Comparator, begin: Vec<u8>, end: Vec<u8>) {
        let is_less = |a: &[u8], b: &[u8]| order.compare_internal(a, b).is_lt();
        if self.first.as_ref().is_none_or(|f| is_less(&begin, f)) {
            self.first = Some(begin);
        }
        if self.last.as_ref().is_none_or(|l| is_less(l, &end)) {
            self.last = Some(end);
        }
    }
}
