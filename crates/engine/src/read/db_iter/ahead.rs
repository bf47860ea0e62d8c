//! Values of a scan whose references lead here and there in blob files: they are read ahead, many at once.
//!
//! Windows ([`ScanWindows`]) serve a scan whose values lie in the order of its keys. After updates they do not: then each
//! value would be a read of its own, one after the other. Once two values in a row had to be fetched like that, a *scout*,
//! a second iterator over the same state that fetches no values, goes ahead of the first, collects the references of
//! some entries, and all of them are read together, by file and offset (`BlobSource::resolve_many`). The next time it
//! collects twice as many, up to [`ENTRIES_MAX`] entries and [`BYTES_MAX`] bytes. A move to a place or a turn begins anew.
//! Compressed values may turn out to be many times as large as what was read: no more of them are kept than that, and
//! the next collections are half as long. The scout gives up where it has to pass over many deleted entries
//! ([`SKIPPED_MAX`]): the scan may end in front of them.
//!
//! Where reads are answered from memory ([`BlobReads::are_quick`]) nobody goes ahead: each value is read when it is shown,
//! which takes less time than the scout does.
//!
//! Values are kept by the place they lie at and with their key: what the scout saw wrongly is not asked for, what it did
//! not see is read alone, and so is what another entry refers to, so that it gets the error that a wrong reference has.
//! So is what could not be read, which gives the error at its own entry. One thread uses it, with its iterator.

use super::{At, DbIter, DbIterParts, DeadKeys};
use crate::blob::{BlobIndex, BlobPointer, BlobReads, ScanWindows};
use crate::iter::RangeWatch;
use crate::read::stored::{Blobs, Stored};
use spanlith_base::{Pinned, Result};
use std::collections::HashMap;

/// Entries of the first collection.
const ENTRIES_MIN: usize = 8;
/// Most entries of one.
const ENTRIES_MAX: usize = 256;
/// Most bytes of one, as they are stored and as they are shown. A value that is larger is read alone.
const BYTES_MAX: u64 = 8 << 20;
/// Internal keys that one move of the scout may pass over.
const SKIPPED_MAX: u64 = 1000;
/// Steps of the scout for each entry that it is to collect: others have their values in tables.
const STEPS_EACH: usize = 4;

/// The way of values from blob files to one iterator.
#[derive(Default)]
pub(super) struct ScanValues {
    windows: ScanWindows,
    ahead: Ahead,
}

/// Values that were read ahead.
struct Ahead {
    /// Made when it is needed first.
    scout: Option<Box<DbIter>>,
    values: HashMap<(u64, u64), Kept>,
    /// Entries of the next collection.
    entries: usize,
    /// Most entries of those to come.
    entries_max: usize,
    /// Something was collected since the last move to a place.
    is_under_way: bool,
    is_backward: bool,
}

/// A value that was read ahead, and the key whose it is.
struct Kept {
    key: Vec<u8>,
    value: Pinned,
}

/// A reference that the scout found.
struct Found {
    pointer: BlobPointer,
    key: Vec<u8>,
    index: Pinned,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            scout: None,
            values: HashMap::new(),
            entries: ENTRIES_MIN,
            entries_max: ENTRIES_MAX,
            is_under_way: false,
            is_backward: false,
        }
    }
}

impl Ahead {
    fn begin_anew(&mut self) {
        self.values.clear();
        self.entries_max = ENTRIES_MAX;
        self.stop();
    }

    /// The next collection, if there is one, is short again.
    fn stop(&mut self) {
        self.entries = ENTRIES_MIN.min(self.entries_max);
        self.is_under_way = false;
    }
}

impl ScanValues {
    /// The iterator goes to a place.
    pub(super) fn begin_anew(&mut self) {
        self.windows.begin_anew();
        self.ahead.begin_anew();
    }

    /// Forgets what was read ahead: the iterator shows another state.
    pub(super) fn forget_scout(&mut self) {
        self.ahead.scout = None;
    }

    /// An entry was passed whose value nobody wanted: the scan is one of keys.
    pub(super) fn skip(&mut self) {
        self.windows.begin_anew();
        self.ahead.stop();
    }
}

impl DbIter {
    /// Puts the value of the entry with that stored key, to which `index` refers, into `out` in place of what it held.
    pub(super) fn scanned_value(&mut self, index: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut values = self.values.take().unwrap_or_default();
        let read = self.value_through(&mut values, index, out);
        self.values = Some(values);
        read
    }

    fn value_through(
        &self,
        values: &mut ScanValues,
        index: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let pointer = BlobIndex::decode(index)?.pointer()?;
        let blobs = self.blobs();
        let is_backward = matches!(self.at, At::Saved | At::Shared);
        if values.ahead.is_backward != is_backward {
            values.ahead.is_backward = is_backward;
            values.begin_anew();
        }
        if let Some(value) = values.ahead.take(&pointer, self.stored_key()) {
            *out = value.into_vec();
            return Ok(());
        }
        let is_due = values.ahead.is_under_way || values.windows.is_scattered();
        if is_due
            && blobs.how.may_read
            && self.parts.view.is_plain()
            && !blobs.source.reads().is_some_and(BlobReads::are_quick)
        {
            values.windows.begin_anew();
            values.ahead.collect(self, blobs);
            if let Some(value) = values.ahead.take(&pointer, self.stored_key()) {
                *out = value.into_vec();
                return Ok(());
            }
        }
        let entry = (self.stored_key(), &pointer);
        (values.windows).fetch(blobs.source, blobs.version, entry, blobs.how, out)
    }

    /// An iterator over the same state that fetches no values; it stands nowhere.
    fn scout(&self) -> Result<Self> {
        let parts = &self.parts;
        let view = parts.view.without_values();
        let ranges = RangeWatch::new(true);
        let pin = &parts.pin;
        let mut inner = pin.merged(&parts.comparator, &parts.cache, view.params, &ranges, None)?;
        if let Some(upper) = &parts.upper {
            inner.bound(upper);
        }
        let mut blob_read = parts.blob_read;
        // A value that must be made of several is made by the iterator that shows it.
        blob_read.may_read = false;
        Ok(Self::new(DbIterParts {
            inner,
            pin: pin.clone(),
            cache: parts.cache.clone(),
            ranges,
            snapshot: parts.snapshot,
            comparator: parts.comparator.clone(),
            merge_operator: None,
            lower: parts.lower.clone(),
            upper: parts.upper.clone(),
            max_skipped: match parts.max_skipped {
                0 => SKIPPED_MAX,
                most => most.min(SKIPPED_MAX),
            },
            counting: parts.counting,
            blobs: parts.blobs.clone(),
            blob_read,
            view,
            may_mark: false,
            dead: DeadKeys::default(),
        }))
    }

    /// The reference under an iterator that fetches no values.
    fn reference(&self) -> Option<&Pinned> {
        match self.unprepared() {
            // Under the merged stream lies the value itself: what was left unread belongs to an entry before.
            Some(Stored::Blob(index)) if !matches!(self.at, At::None | At::Inner) => Some(index),
            _ => None,
        }
    }
}

impl Ahead {
    fn take(&mut self, pointer: &BlobPointer, key: &[u8]) -> Option<Pinned> {
        let place = (pointer.file, pointer.offset);
        if self.values.get(&place)?.key != key {
            return None;
        }
        self.values.remove(&place).map(|kept| kept.value)
    }

    /// Reads the values of the entry under `iter` and of those that follow it. What goes wrong is left to whoever comes to
    /// the entry.
    fn collect(&mut self, iter: &DbIter, blobs: Blobs<'_>) {
        if self.entries_max < 2 {
            // One value takes all the room.
            return self.stop();
        }
        let is_used_up = self.values.is_empty();
        if self.is_under_way && is_used_up {
            self.entries = (self.entries * 2).min(self.entries_max);
        }
        // Values that were passed over will not be asked for.
        self.values.clear();
        self.is_under_way = true;
        let mut scout = match self.scout.take() {
            Some(scout) => scout,
            None => match iter.scout() {
                Ok(scout) => Box::new(scout),
                Err(_) => return,
            },
        };
        let key = iter.stored_key();
        if !scout.valid() || scout.stored_key() != key {
            match self.is_backward {
                true => scout.seek_for_prev(key),
                false => scout.seek(key),
            }
        }
        // If it gives up it stands nowhere, and the next collection seeks.
        let found = self.references(&mut scout);
        self.scout = Some(scout);
        if found.len() < 2 {
            // It does not get on: values are made of several, or there are no more.
            self.is_under_way = false;
            return;
        }
        let entries: Vec<(&[u8], &[u8])> =
            found.iter().map(|f| (&f.key[..], &f.index[..])).collect();
        let read = blobs
            .source
            .resolve_many(blobs.version, &entries, blobs.how);
        self.keep(found, read);
    }

    /// Keeps what was read, in the order in which it will be asked for, as far as there is room.
    fn keep(&mut self, found: Vec<Found>, read: Vec<Result<Pinned>>) {
        let mut bytes = 0;
        for (Found { pointer, key, .. }, value) in found.into_iter().zip(read) {
            let Ok(value) = value else { continue };
            bytes += value.len() as u64;
            if bytes > BYTES_MAX {
                self.entries_max = self.entries / 2;
                self.entries = self.entries_max;
                break;
            }
            let place = (pointer.file, pointer.offset);
            self.values.insert(place, Kept { key, value });
        }
    }

    /// The references from where the scout stands on. Leaves it on the first that is left out.
    fn references(&self, scout: &mut DbIter) -> Vec<Found> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        for _ in 0..self.entries * STEPS_EACH {
            if !scout.valid() || found.len() >= self.entries {
                break;
            }
            if let Some(index) = scout.reference() {
                let pointer = BlobIndex::decode(index).and_then(|index| index.pointer());
                if let Ok(pointer) = pointer {
                    bytes += pointer.size;
                    if bytes > BYTES_MAX {
                        break;
                    }
                    found.push(Found {
                        pointer,
                        key: scout.stored_key().to_vec(),
                        index: index.clone(),
                    });
                }
            }
            match self.is_backward {
                true => scout.prev(),
                false => scout.next(),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(offset: u64) -> Found {
        let pointer = BlobPointer {
            file: 7,
            offset,
            size: 100,
            compression: 0,
        };
        Found {
            pointer,
            key: offset.to_be_bytes().to_vec(),
            index: Pinned::default(),
        }
    }

    #[test]
    fn no_more_is_kept_than_allowed_however_well_values_were_compressed() {
        let mut ahead = Ahead {
            entries: 32,
            ..Ahead::default()
        };
        let values = || (0..32).map(|_| Ok(Pinned::from_vec(vec![1; 1 << 20])));
        ahead.keep((0..32).map(found).collect(), values().collect());
        assert_eq!(ahead.values.len(), 8);
        // The first ones: they are asked for next.
        assert!(ahead.take(&found(7).pointer, &found(7).key).is_some());
        assert!(ahead.take(&found(8).pointer, &found(8).key).is_none());
        assert_eq!((ahead.entries, ahead.entries_max), (16, 16));
        ahead.begin_anew();
        assert_eq!(ahead.entries_max, ENTRIES_MAX);
    }

    #[test]
    fn a_value_is_given_to_the_key_that_it_was_read_for() {
        let mut ahead = Ahead::default();
        ahead.keep(vec![found(1)], vec![Ok(Pinned::default())]);
        assert!(ahead.take(&found(1).pointer, b"another").is_none());
        assert!(ahead.take(&found(1).pointer, &found(1).key).is_some());
    }
}
