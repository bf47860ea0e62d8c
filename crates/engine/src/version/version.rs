//! The table files of one column family at one moment: immutable, shared, searchable.
//!
//! Level 0 holds whole memtables, newest first; its files may overlap. The files of every deeper
//! level are sorted by key and disjoint (V1).
//!
//! **Search.** Beside the files lie flat arrays with one word per bound: the first eight bytes of
//! the user key after the prefix that all keys of the level share ([`Comparator::prefix`]). A binary
//! search over words finds the candidate; whole keys are compared only where words are equal. With
//! a user-defined order all words are 0 and every step compares keys.
//!
//! **Range sentinels.** A file whose last entry is a range tombstone has an *exclusive* largest key
//! (sequence number 2^56-1, type range deletion). [`sstable_key_compare`] orders it before other
//! internal keys of the same user key, so that two files that only touch there do not overlap.
//!
//! Threads: immutable but for a lazily computed cache; share freely.

use super::blob_file::BlobFileMeta;
use super::edit::{BlobFileGarbage, VersionEdit};
use super::file_meta::{FileMeta, is_range_sentinel};
use super::value_sizes::ValueSizes;
use spanlith_base::Comparator;
use spanlith_base::keys::{behind_prefix, user_key};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The files of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Level 0: newest first. Others: by smallest key.
    pub files: Vec<Arc<FileMeta>>,
    comparator: Comparator,
    /// Numbers of `files`, in their order.
    numbers: Vec<u64>,
    /// Bytes that all bounds share; empty with a user-defined order.
    common: Vec<u8>,
    /// Word of each file's smallest user key, after `common`.
    smallest_words: Vec<u64>,
    /// Word of each file's largest user key, after `common`.
    largest_words: Vec<u64>,
    size_bytes: u64,
}

/// Where a user key lies relative to the keys that begin with the common bytes of a level.
enum Probe {
    Before,
    After,
    Word(u64),
}

impl Level {
    /// Prepares `files`, already in the order of their level, for searches.
    pub fn new(comparator: Comparator, files: Vec<Arc<FileMeta>>) -> Self {
        let common = common_bytes(&comparator, &files);
        let skip = common.len();
        let word = |key: &[u8]| comparator.prefix(&key[skip..]);
        Self {
            numbers: files.iter().map(|f| f.number).collect(),
            smallest_words: files.iter().map(|f| word(f.smallest_user_key())).collect(),
            largest_words: files.iter().map(|f| word(f.largest_user_key())).collect(),
            size_bytes: files.iter().map(|f| f.size).sum(),
            common,
            comparator,
            files,
        }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether the level has no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Bytes of all files.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Index of the file with that number.
    pub fn index_of(&self, number: u64) -> Option<usize> {
        self.numbers.iter().position(|&n| n == number)
    }

    #[inline(always)]
    fn probe(&self, key: &[u8]) -> Probe {
        match behind_prefix(key, &self.common) {
            Some(rest) => Probe::Word(self.comparator.prefix(rest)),
            None => self.probe_outside(key),
        }
    }

    #[inline(never)]
    fn probe_outside(&self, key: &[u8]) -> Probe {
        match self.comparator.compare(key, &self.common) {
            Ordering::Less => Probe::Before,
            _ => Probe::After,
        }
    }

    /// First index whose largest word is not below the key's and whose file `is_below` denies.
    fn first_not_below(&self, key: &[u8], is_below: impl Fn(&FileMeta) -> bool) -> Option<usize> {
        match self.probe(key) {
            Probe::Before => self.first_not_below_word(0, is_below),
            Probe::After => None,
            Probe::Word(word) => self.first_not_below_word(word, is_below),
        }
    }

    #[inline]
    fn first_not_below_word(
        &self,
        word: u64,
        is_below: impl Fn(&FileMeta) -> bool,
    ) -> Option<usize> {
        let low = self.largest_words.partition_point(|&w| w < word);
        if self.largest_words.get(low) != Some(&word) || !is_below(&self.files[low]) {
            return (low < self.files.len()).then_some(low);
        }
        let run = self.largest_words[low..].partition_point(|&w| w == word);
        let at = low + self.files[low..low + run].partition_point(|f| is_below(f));
        (at < self.files.len()).then_some(at)
    }

    /// The first file whose largest key is not smaller than `internal_key`.
    ///
    /// Requires: not level 0.
    pub fn find_file(&self, internal_key: &[u8]) -> Option<usize> {
        self.first_not_below(user_key(internal_key), |f| {
            self.comparator.compare_internal(&f.largest, internal_key) == Ordering::Less
        })
    }

    /// The first file that may hold `key` or something after it.
    ///
    /// Requires: not level 0.
    pub fn find_file_for_user_key(&self, key: &[u8]) -> Option<usize> {
        self.first_not_below(key, |f| file_is_before(&self.comparator, f, key))
    }

    /// Files whose range contains the user key: several if versions of it span adjacent files.
    ///
    /// Requires: not level 0.
    #[inline]
    pub fn find_covering(&self, key: &[u8]) -> Range<usize> {
        let Probe::Word(word) = self.probe(key) else {
            return 0..0;
        };
        let low = self.largest_words.partition_point(|&w| w < word);
        let (Some(&first), Some(&last)) =
            (self.smallest_words.get(low), self.largest_words.get(low))
        else {
            return 0..0;
        };
        if word < first {
            return 0..0;
        }
        if first < word && word < last {
            return low..low + 1;
        }
        self.find_covering_by_key(word, key)
    }

    /// As [`Self::find_covering`], where words do not tell.
    #[inline(never)]
    fn find_covering_by_key(&self, word: u64, key: &[u8]) -> Range<usize> {
        let is_below = |f: &FileMeta| file_is_before(&self.comparator, f, key);
        let Some(first) = self.first_not_below_word(word, is_below) else {
            return 0..0;
        };
        let mut end = first;
        while self.covers(end, word, key) {
            end += 1;
        }
        first..end
    }

    /// Returns whether the range of file `index` contains the user key with that word.
    fn covers(&self, index: usize, word: u64, key: &[u8]) -> bool {
        let (Some(&low), Some(&high)) = (
            self.smallest_words.get(index),
            self.largest_words.get(index),
        ) else {
            return false;
        };
        if word < low || word > high {
            return false;
        }
        let file = &self.files[index];
        (word > low || order(&self.comparator, file.smallest_user_key(), key) != Ordering::Greater)
            && (word < high || !file_is_before(&self.comparator, file, key))
    }

    /// Returns whether file `index` begins after the user key.
    #[inline]
    pub fn begins_behind(&self, index: usize, key: &[u8]) -> bool {
        self.comparator
            .compare(self.files[index].smallest_user_key(), key)
            .is_gt()
    }

    /// Returns whether file `index` ends before the user key.
    #[inline]
    pub fn ends_before(&self, index: usize, key: &[u8]) -> bool {
        file_is_before(&self.comparator, &self.files[index], key)
    }

    /// Files whose range contains the user key, in the order of the level. The way through level 0.
    pub fn files_covering<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<FileMeta>> + 'a {
        let word = match self.probe(key) {
            Probe::Word(word) => Some(word),
            Probe::Before | Probe::After => None,
        };
        self.files
            .iter()
            .enumerate()
            .filter_map(move |(index, file)| {
                word.is_some_and(|word| self.covers(index, word, key))
                    .then_some(file)
            })
    }

    /// Files of a sorted level that overlap a range of internal keys by user key; `None` is open.
    ///
    /// Requires: not level 0.
    pub fn overlapping_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Range<usize> {
        let c = &self.comparator;
        let low = begin.map_or(0, |b| {
            let below = |f: &FileMeta| sstable_key_compare(c, &f.largest, b) == Ordering::Less;
            self.first_not_below(user_key(b), below)
                .unwrap_or(self.files.len())
        });
        let rest = &self.files[low..];
        let count = end.map_or(rest.len(), |e| {
            rest.partition_point(|f| sstable_key_compare(c, &f.smallest, e) != Ordering::Greater)
        });
        low..low + count
    }

    /// Files of level 0 that overlap a range of user keys, widened by each file found until nothing
    /// is added, in the order of the level.
    fn overlapping_level0(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Vec<usize> {
        let c = &self.comparator;
        let mut range = (begin, end);
        let mut taken = vec![false; self.files.len()];
        loop {
            let mut grew = false;
            for (file, taken) in self.files.iter().zip(&mut taken) {
                let (low, high) = (file.smallest_user_key(), file.largest_user_key());
                if *taken
                    || range.0.is_some_and(|b| order(c, high, b) == Ordering::Less)
                    || range
                        .1
                        .is_some_and(|e| order(c, low, e) == Ordering::Greater)
                {
                    continue;
                }
                *taken = true;
                grew = true;
                range.0 = range
                    .0
                    .map(|b| if c.compare(low, b).is_lt() { low } else { b });
                range.1 = range
                    .1
                    .map(|e| if c.compare(high, e).is_gt() { high } else { e });
            }
            if !grew {
                break;
            }
        }
        (0..taken.len()).filter(|&i| taken[i]).collect()
    }
}

/// Order of two user keys as bounds: timestamps, which both have where the family does, do not count,
/// so that all versions of a key go together.
#[inline]
fn order(c: &Comparator, a: &[u8], b: &[u8]) -> Ordering {
    c.compare_without_timestamp(a, true, b, true)
}

/// Returns whether all of `file` lies before the user key.
fn file_is_before(c: &Comparator, file: &FileMeta, key: &[u8]) -> bool {
    match order(c, file.largest_user_key(), key) {
        Ordering::Less => true,
        Ordering::Equal => file.largest_is_sentinel(),
        Ordering::Greater => false,
    }
}

/// Leading bytes shared by all keys between the smallest and the largest bound.
fn common_bytes(c: &Comparator, files: &[Arc<FileMeta>]) -> Vec<u8> {
    if matches!(c, Comparator::User(_)) {
        return Vec::new();
    }
    let Some((first, rest)) = files.split_first() else {
        return Vec::new();
    };
    let model = first.smallest_user_key();
    let mut len = shared(model, first.largest_user_key());
    for file in rest {
        len = len.min(shared(model, file.smallest_user_key()));
        len = len.min(shared(model, file.largest_user_key()));
    }
    model[..len].to_vec()
}

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Order of two internal keys as bounds of files: by user key, and for equal ones an exclusive range
/// sentinel lies before everything else.
pub fn sstable_key_compare(c: &Comparator, a: &[u8], b: &[u8]) -> Ordering {
    order(c, user_key(a), user_key(b)).then_with(|| is_range_sentinel(b).cmp(&is_range_sentinel(a)))
}

/// Order of level 0: by epoch, then as [`newest_first_by_seqno`].
pub fn newest_first_by_epoch(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.epoch_number
        .cmp(&a.epoch_number)
        .then_with(|| newest_first_by_seqno(a, b))
}

/// Order of level 0 while epochs are unknown: largest, then smallest sequence number, then file
/// number, all descending.
pub fn newest_first_by_seqno(a: &FileMeta, b: &FileMeta) -> Ordering {
    let rank = |f: &FileMeta| (f.largest_seqno, f.smallest_seqno, f.number);
    rank(b).cmp(&rank(a))
}

/// All files of a column family at one moment.
#[derive(Debug, Default)]
pub struct Version {
    /// One entry per level, empty ones included. Untouched levels are shared between versions.
    pub levels: Vec<Arc<Level>>,
    /// Order of user keys.
    pub comparator: Comparator,
    /// Blob files by number.
    pub blob_files: BTreeMap<u64, Arc<BlobFileMeta>>,
    /// Round-robin compaction positions by level.
    pub compact_cursors: BTreeMap<u32, Vec<u8>>,
    /// `full_history_ts_low`: versions of keys with earlier timestamps may have been collapsed. Empty
    /// if history is whole.
    pub history_low: Vec<u8>,
    /// The levels that hold files, and their numbers.
    occupied: Vec<(usize, Arc<Level>)>,
    /// Per level: bytes of the next level that each file overlaps. Computed on first use.
    overlap: Vec<OnceLock<Vec<u64>>>,
    /// Level and index of the bottommost files. Computed on first use.
    bottommost: OnceLock<Vec<(usize, usize)>>,
    /// Sums that go on from version to version, set when the version is installed.
    pub value_sizes: OnceLock<ValueSizes>,
}

impl Version {
    /// A version of these levels.
    pub fn new(comparator: Comparator, levels: Vec<Arc<Level>>) -> Self {
        let overlap = levels.iter().map(|_| OnceLock::new()).collect();
        let numbered = levels.iter().cloned().enumerate();
        Self {
            occupied: numbered.filter(|(_, l)| !l.is_empty()).collect(),
            levels,
            comparator,
            blob_files: BTreeMap::new(),
            compact_cursors: BTreeMap::new(),
            history_low: Vec::new(),
            overlap,
            bottommost: OnceLock::new(),
            value_sizes: OnceLock::new(),
        }
    }

    /// A version without files.
    pub fn empty(comparator: Comparator, num_levels: usize) -> Self {
        let level = Arc::new(Level::new(comparator.clone(), Vec::new()));
        Self::new(comparator, vec![level; num_levels])
    }

    /// The levels that hold files, with their numbers, in order.
    #[inline]
    pub fn occupied(&self) -> &[(usize, Arc<Level>)] {
        &self.occupied
    }

    /// Number of levels, empty ones included.
    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// Files of a level; none beyond the last one.
    pub fn files(&self, level: usize) -> &[Arc<FileMeta>] {
        self.levels.get(level).map_or(&[], |l| &l.files)
    }

    /// Number of files in a level.
    pub fn num_files(&self, level: usize) -> usize {
        self.files(level).len()
    }

    /// Bytes of the files of a level.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.levels.get(level).map_or(0, |l| l.size_bytes())
    }

    /// Bytes of all table files.
    pub fn total_size(&self) -> u64 {
        self.levels.iter().map(|l| l.size_bytes()).sum()
    }

    /// Bytes of all blob files.
    pub fn blob_bytes(&self) -> u64 {
        self.blob_files.values().map(|b| b.size()).sum()
    }

    /// Number of all table files.
    pub fn total_files(&self) -> usize {
        self.levels.iter().map(|l| l.len()).sum()
    }

    /// Returns whether files of a level that ask for compaction are taken down: those above the deepest level
    /// with data, and those of level 0 in any case.
    pub fn may_go_down(&self, level: usize) -> bool {
        level + 1 < self.num_non_empty_levels() || level == 0
    }

    /// One more than the deepest level that holds a file.
    pub fn num_non_empty_levels(&self) -> usize {
        self.levels
            .iter()
            .rposition(|l| !l.is_empty())
            .map_or(0, |deepest| deepest + 1)
    }

    /// Returns whether no level below holds a file.
    pub fn is_deepest(&self, level: usize) -> bool {
        level + 1 == self.num_non_empty_levels()
    }

    /// Says whether what a read that comes to the file of a level looks for can be nowhere else: the level is
    /// the deepest, and in level 0, where files overlap, the file is the oldest.
    pub fn is_last_place(&self, level: usize, file: &FileMeta) -> bool {
        let last = || {
            self.files(0)
                .last()
                .is_some_and(|f| f.number == file.number)
        };
        self.is_deepest(level) && (level > 0 || last())
    }

    /// All files with their level, from level 0 down, each in the order of its level.
    pub fn file_iter(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, l)| l.files.iter().map(move |f| (level, f)))
    }

    /// Level and index of a file.
    pub fn locate(&self, number: u64) -> Option<(usize, usize)> {
        let mut levels = self.levels.iter().enumerate();
        levels.find_map(|(level, l)| l.index_of(number).map(|index| (level, index)))
    }

    /// Largest epoch number of all files, 0 if there is none.
    pub fn max_epoch_number(&self) -> u64 {
        self.file_iter()
            .map(|(_, f)| f.epoch_number)
            .max()
            .unwrap_or(0)
    }

    /// Largest sequence number of all files, 0 if there is none.
    pub fn max_seqno(&self) -> u64 {
        self.file_iter()
            .map(|(_, f)| f.largest_seqno)
            .max()
            .unwrap_or(0)
    }

    /// The first file of a sorted level whose largest key is not smaller than `internal_key`.
    ///
    /// Requires: `level` is at least 1.
    #[inline]
    pub fn find_file(&self, level: usize, internal_key: &[u8]) -> Option<usize> {
        debug_assert!(level > 0, "V1: level 0 is not sorted by key");
        self.levels.get(level)?.find_file(internal_key)
    }

    /// Files of a level that overlap a closed range of user keys; `None` is open.
    ///
    /// In level 0 the range grows by every file found, so that the answer is closed under overlap,
    /// and the order is that of the level.
    pub fn overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        use spanlith_base::keys::{MAX_SEQUENCE, internal_key, seek_tag};
        let begin = begin.map(|b| internal_key(b, seek_tag(MAX_SEQUENCE)));
        let end = end.map(|e| internal_key(e, 0));
        self.overlapping_internal(level, begin.as_deref(), end.as_deref())
    }

    /// As [`Self::overlapping`] with internal keys, usually bounds of files, as the range.
    pub fn overlapping_internal(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        let Some(l) = self.levels.get(level) else {
            return Vec::new();
        };
        if level == 0 {
            let indices = l.overlapping_level0(begin.map(user_key), end.map(user_key));
            return indices
                .into_iter()
                .map(|i| Arc::clone(&l.files[i]))
                .collect();
        }
        l.files[l.overlapping_range(begin, end)].to_vec()
    }

    /// Returns whether any file of a level overlaps a closed range of user keys. One that ends before its largest
    /// user key, at the end of a range tombstone, overlaps that key too, as in RocksDB.
    pub fn overlaps(&self, level: usize, begin: &[u8], end: &[u8]) -> bool {
        let Some(l) = self.levels.get(level) else {
            return false;
        };
        let c = &self.comparator;
        let starts_in_range = |f: &FileMeta| order(c, f.smallest_user_key(), end).is_le();
        let ends_before = |f: &FileMeta| order(c, f.largest_user_key(), begin).is_lt();
        if level == 0 {
            return (l.files.iter()).any(|f| starts_in_range(f) && !ends_before(f));
        }
        let first = l.files.partition_point(|f| ends_before(f));
        l.files.get(first).is_some_and(|f| starts_in_range(f))
    }

    /// Returns whether something older than what lies in `level` may hold keys of the range: any overlapping
    /// file in a deeper level. For level 0, whose files are not told apart here, any file below and
    /// any but the last file of level 0 count, as in RocksDB; `level0_index` is the file's position.
    pub fn range_might_exist_below(
        &self,
        smallest: &[u8],
        largest: &[u8],
        level: usize,
        level0_index: Option<usize>,
    ) -> bool {
        if level == 0 && level0_index.is_none_or(|i| i + 1 != self.num_files(0)) {
            return true;
        }
        (level + 1..self.num_levels()).any(|deeper| {
            self.num_files(deeper) > 0 && (level == 0 || self.overlaps(deeper, smallest, largest))
        })
    }

    /// Level and index of the files with nothing older below them, from level 0 down.
    pub fn bottommost_files(&self) -> &[(usize, usize)] {
        self.bottommost.get_or_init(|| {
            let mut found = Vec::new();
            for (level, l) in self.levels.iter().enumerate() {
                for (index, f) in l.files.iter().enumerate() {
                    let (low, high) = (f.smallest_user_key(), f.largest_user_key());
                    let level0_index = (level == 0).then_some(index);
                    if !self.range_might_exist_below(low, high, level, level0_index) {
                        found.push((level, index));
                    }
                }
            }
            found
        })
    }

    /// For each file of `level` the bytes of the files of `level + 1` that it overlaps.
    pub fn overlap_bytes(&self, level: usize) -> &[u64] {
        match self.overlap.get(level) {
            Some(cell) => cell.get_or_init(|| self.compute_overlap_bytes(level)),
            None => &[],
        }
    }

    /// One merge-like pass over two sorted levels, as RocksDB does it (for level 0 too, where the
    /// files are not in key order and the result is an estimate).
    fn compute_overlap_bytes(&self, level: usize) -> Vec<u64> {
        let c = &self.comparator;
        let next = self.files(level + 1);
        let mut at = 0;
        let overlap_of = |file: &Arc<FileMeta>| {
            while next
                .get(at)
                .is_some_and(|n| c.compare_internal(&n.largest, &file.smallest).is_lt())
            {
                at += 1;
            }
            let mut bytes = 0;
            while let Some(n) = next.get(at)
                && c.compare_internal(&n.smallest, &file.largest).is_lt()
            {
                bytes += n.size;
                if c.compare_internal(&n.largest, &file.largest).is_gt() {
                    break;
                }
                at += 1;
            }
            bytes
        };
        self.files(level).iter().map(overlap_of).collect()
    }

    /// An edit that recreates the files, blob files and cursors of this version from nothing, in the
    /// order a new MANIFEST lists them. The caller adds counters and the family.
    pub fn to_edit(&self) -> VersionEdit {
        let mut edit = VersionEdit::new();
        for (level, file) in self.file_iter() {
            edit.add_file(file.to_new_file(u32::try_from(level).unwrap_or(u32::MAX)));
        }
        for (level, key) in &self.compact_cursors {
            edit.compact_cursors.push((*level, key.clone()));
        }
        if !self.history_low.is_empty() {
            edit.full_history_ts_low = Some(self.history_low.clone());
        }
        for blob in self.blob_files.values() {
            edit.blob_file_additions.push(blob.file.clone());
            if blob.garbage_count > 0 {
                edit.blob_file_garbages.push(BlobFileGarbage {
                    number: blob.file.number,
                    count: blob.garbage_count,
                    bytes: blob.garbage_bytes,
                });
            }
        }
        edit
    }
}

#[cfg(test)]
mod tests;
