//! Describes what damage puts at stake, found out by reading around it: updates after damage of a log, and entries
//! whose values a blob file holds.

use super::cases::key;
use crate::inventory::{Family, Inventory};
use crate::places::Places;
use crate::tables;
use spanlith::blob::{BlobIndex, read_range};
use spanlith::version::filenames;
use spanlith_base::keys::{ValueType, split_internal, tag_type};
use spanlith_wal::record::{HEADER_SIZE, RECYCLABLE_FULL, RECYCLABLE_LAST};
use spanlith_wal::{BatchIter, LogReader, ReadEvent, Search, search_records};
use std::collections::BTreeMap;
use std::path::Path;

/// Keys after damage of a log that are named.
const KEYS_NAMED: usize = 3;
/// Bytes in front of the key in a record of a blob file.
const BLOB_HEADER: u64 = 32;

/// Describes what can still be read after damage of a log, later logs included.
#[derive(Debug, Default)]
pub struct Behind {
    /// Batches.
    pub batches: u64,
    /// Their updates.
    pub updates: u64,
    /// Sequence number of the first of them.
    pub first: u64,
    /// Highest sequence number.
    pub last: u64,
    /// The first keys.
    pub keys: Vec<String>,
}

impl Behind {
    /// Reads log `number` from after `offset`, and all later ones.
    pub fn read(i: &Inventory, number: u64, offset: Option<u64>) -> Self {
        let mut out = Self::default();
        for (&n, _) in i.logs.range(number..) {
            let path = i.wal_dir.join(filenames::log_file_name(n));
            match offset {
                Some(offset) if n == number => out.search_log(&path, n, offset),
                _ => out.add_log(&path, n),
            }
        }
        out
    }

    /// Adds what lies after damage, where the framing is lost.
    fn search_log(&mut self, path: &Path, number: u64, damaged: u64) {
        let Ok(file) = crate::reading::env().fs.open_random(path) else {
            return;
        };
        let mut head = [0u8; HEADER_SIZE];
        let recycled = file.read_at(0, &mut head).is_ok_and(|n| {
            n == HEADER_SIZE && (RECYCLABLE_FULL..=RECYCLABLE_LAST).contains(&head[HEADER_SIZE - 1])
        });
        let search = Search {
            from: damaged + 1,
            until: u64::MAX,
            log_number: number,
            recycled,
            mark: None,
        };
        let mut visit = |_: u64, record: &[u8]| self.add_record(record);
        // Contents that cannot be read are not there to be counted.
        let _ = search_records(&*file, &search, &mut visit);
    }

    fn add_log(&mut self, path: &Path, number: u64) {
        let Ok(file) = crate::reading::env().fs.open_sequential(path) else {
            return;
        };
        let mut reader = LogReader::new(file, number);
        while let Ok(event) = reader.next_event() {
            match event {
                ReadEvent::Eof => return,
                ReadEvent::Record { .. } => self.add_record(reader.record()),
                _ => {}
            }
        }
    }

    fn add_record(&mut self, record: &[u8]) {
        let Ok(batch) = BatchIter::new(record) else {
            return;
        };
        let updates = u64::from(batch.header_count());
        if updates == 0 {
            return;
        }
        let sequence = batch.sequence();
        if self.batches == 0 {
            self.first = sequence;
        }
        self.batches += 1;
        self.updates = self.updates.saturating_add(updates);
        self.last = self.last.max(sequence.saturating_add(updates - 1));
        let named = batch
            .map_while(Result::ok)
            .filter_map(|op| op.key().map(key));
        let room = KEYS_NAMED.saturating_sub(self.keys.len());
        self.keys.extend(named.take(room));
    }
}

/// Blob files of a family that hold other keys than the tables refer to, as after an exchange of two files of one length.
/// One value of each file is looked at.
pub fn exchanged(i: &Inventory, places: &Places, family: &Family) -> Vec<u64> {
    let mut looked_at = BTreeMap::new();
    for f in family.files.values() {
        if f.oldest_blob_file_number == 0 {
            continue;
        }
        let Ok(reader) = tables::open(i, places, family, f) else {
            continue;
        };
        let mut entries = reader.iter(tables::walk());
        entries.seek_to_first();
        while entries.valid() {
            if let Some((user, number, begin)) = referred(entries.key(), entries.value()) {
                looked_at
                    .entry(number)
                    .or_insert_with(|| (begin, user.to_vec()));
            }
            entries.next();
        }
    }
    let dir = places.dir(&family.name, 0).unwrap_or(&i.dir);
    let is_other = |number: u64, begin: u64, user: &[u8]| {
        let path = dir.join(filenames::blob_file_name(number));
        let file = crate::reading::env().fs.open_random(&path).ok()?;
        let stored = read_range(&file, begin + BLOB_HEADER, user.len() as u64).ok()?;
        Some(stored != user)
    };
    let all = looked_at.into_iter();
    all.filter(|(number, (begin, user))| is_other(*number, *begin, user) == Some(true))
        .map(|(number, _)| number)
        .collect()
}

/// The user key of an entry whose value a blob file holds, the number of the file, and where the record begins.
fn referred<'a>(internal: &'a [u8], value: &[u8]) -> Option<(&'a [u8], u64, u64)> {
    let (user, tag) = split_internal(internal)?;
    if tag_type(tag) != ValueType::BlobIndex as u8 {
        return None;
    }
    let (BlobIndex::Blob(pointer) | BlobIndex::BlobTtl(pointer, _)) =
        BlobIndex::decode(value).ok()?
    else {
        return None;
    };
    let head = BLOB_HEADER + user.len() as u64;
    Some((user, pointer.file, pointer.offset.saturating_sub(head)))
}

/// Entries of tables whose values a blob file holds.
#[derive(Debug, Default)]
pub struct Referring {
    /// Number of entries.
    pub values: u64,
    /// The first of their keys in the order of bytes.
    pub first: Vec<u8>,
    /// The last.
    pub last: Vec<u8>,
    /// The key of the value whose record begins at the offset asked for.
    pub at: Option<Vec<u8>>,
}

impl Referring {
    /// Looks through the tables of the family.
    pub fn find(
        i: &Inventory,
        places: &Places,
        family: &Family,
        number: u64,
        record: Option<u64>,
    ) -> Self {
        let mut out = Self::default();
        let files = family.files.values();
        let may_refer = |oldest: u64| oldest != 0 && oldest <= number;
        for f in files.filter(|f| may_refer(f.oldest_blob_file_number)) {
            let Ok(reader) = tables::open(i, places, family, f) else {
                continue;
            };
            let mut entries = reader.iter(tables::walk());
            entries.seek_to_first();
            while entries.valid() {
                out.add(entries.key(), entries.value(), number, record);
                entries.next();
            }
        }
        out
    }

    fn add(&mut self, internal: &[u8], value: &[u8], number: u64, record: Option<u64>) {
        let Some((user, file, begin)) = referred(internal, value) else {
            return;
        };
        if file != number {
            return;
        }
        if self.values == 0 || user < self.first.as_slice() {
            self.first = user.to_vec();
        }
        if user > self.last.as_slice() {
            self.last = user.to_vec();
        }
        self.values += 1;
        if record == Some(begin) {
            self.at = Some(user.to_vec());
        }
    }
}
