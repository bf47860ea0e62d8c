//! The tables of one level ≥ 1 as a single stream: disjoint and sorted (V1), so one is open at a
//! time.

use super::{RangeWatch, TableFilter};
use crate::version::{FileMeta, TableCache, Version};
use spanlith_base::{Comparator, Error, Pinned, Result};
use spanlith_table::{PrefixSeek, ReadParams, TableIter};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// Where the files come from.
enum Files {
    /// A level of a version, which the iterator keeps alive.
    Level(Arc<Version>, usize),
    /// A list, for compaction inputs.
    List(Vec<Arc<FileMeta>>),
}

/// Stream over the tables of one level.
pub struct LevelIter {
    files: Files,
    comparator: Comparator,
    cache: Arc<TableCache>,
    params: ReadParams,
    /// Index of the open table; meaningful while `current` is some.
    index: usize,
    current: Option<TableIter>,
    error: Option<Error>,
    /// Told when a table with range tombstones is opened.
    ranges: Option<RangeWatch>,
    /// Decides which tables are read.
    filter: Option<TableFilter>,
    /// The open table is passed over: it is never positioned.
    passes_over: bool,
    /// A user key after which nobody wants entries.
    upper: Option<Arc<[u8]>>,
}

impl LevelIter {
    /// Over `level` of `version`.
    pub fn new(
        version: Arc<Version>,
        level: usize,
        comparator: Comparator,
        cache: Arc<TableCache>,
        params: ReadParams,
    ) -> Self {
        Self {
            files: Files::Level(version, level),
            comparator,
            cache,
            params,
            index: 0,
            current: None,
            error: None,
            ranges: None,
            filter: None,
            passes_over: false,
            upper: None,
        }
    }

    /// Over a sorted, disjoint list of files.
    pub fn over(
        files: Vec<Arc<FileMeta>>,
        comparator: Comparator,
        cache: Arc<TableCache>,
        params: ReadParams,
    ) -> Self {
        Self {
            files: Files::List(files),
            comparator,
            cache,
            params,
            index: 0,
            current: None,
            error: None,
            ranges: None,
            filter: None,
            passes_over: false,
            upper: None,
        }
    }

    /// Tells `ranges` when the stream comes to a table with range tombstones.
    #[must_use]
    pub fn watched(mut self, ranges: RangeWatch) -> Self {
        self.ranges = Some(ranges);
        self
    }

    /// Passes over the entries of tables that `filter` does not take.
    #[must_use]
    pub fn filtered(mut self, filter: Option<TableFilter>) -> Self {
        self.filter = filter;
        self
    }

    /// As [`TableIter::bound`]; before the first table is opened.
    pub fn bound(&mut self, upper: Arc<[u8]>) {
        self.upper = Some(upper);
    }

    /// As [`TableIter::is_within`].
    #[inline]
    pub fn is_within(&self) -> bool {
        self.current.as_ref().is_some_and(TableIter::is_within)
    }

    /// The file of the table it stands in.
    pub fn current_file(&self) -> Option<&FileMeta> {
        self.current.as_ref()?;
        self.files().get(self.index).map(|file| &**file)
    }

    fn files(&self) -> &[Arc<FileMeta>] {
        match &self.files {
            Files::Level(v, level) => &v.levels[*level].files,
            Files::List(l) => l,
        }
    }

    /// Opens table `index`; false (and an error or plain end) if there is none.
    fn open(&mut self, index: usize) -> bool {
        if self.current.is_some() && self.index == index {
            return true;
        }
        self.current = None;
        let Some(file) = self.files().get(index).cloned() else {
            return false;
        };
        match self.cache.reader(&file) {
            Ok(reader) => {
                if let Some(ranges) = &self.ranges
                    && file.tombstones.get().is_some()
                {
                    ranges.note();
                }
                if let Some(filter) = &self.filter {
                    self.passes_over = !filter.takes(&reader);
                }
                let mut table = reader.iter(self.params);
                if let Some(upper) = &self.upper {
                    table.bound(upper.clone());
                }
                self.current = Some(table);
                self.index = index;
                true
            }
            Err(e) => {
                self.error = Some(e);
                false
            }
        }
    }

    /// Positions the open table, unless it is passed over.
    #[inline]
    fn position(&mut self, go: impl FnOnce(&mut TableIter)) {
        if !self.passes_over
            && let Some(t) = &mut self.current
        {
            go(t);
        }
    }

    /// Index of the first file whose largest key is at or after `key`.
    fn find(&self, key: &[u8]) -> usize {
        if let Files::Level(v, level) = &self.files {
            return v
                .find_file(*level, key)
                .unwrap_or(v.levels[*level].files.len());
        }
        self.files().partition_point(|f| {
            self.comparator.compare_internal(&f.largest, key) == Ordering::Less
        })
    }

    /// [`Self::seek`], unless filters say that nothing at or after `key` has the prefix sought: then
    /// false, and it stands where it stood.
    pub fn seek_prefix(&mut self, key: &[u8], prefix: PrefixSeek<'_>) -> bool {
        let from = self.find(key);
        let mut index = from;
        while let Some(file) = self.files().get(index) {
            // The seek meets an error again.
            let may_hold = match self.cache.reader(file) {
                Ok(reader) => reader.prefix_may_match(prefix, &self.params),
                Err(_) => true,
            };
            if may_hold {
                // A table passed by may hold entries after the prefix, and this one nothing with it.
                self.seek_from(from, key);
                return true;
            }
            // Its tombstones act on older places, whether it is read or not.
            if let Some(ranges) = &self.ranges
                && file.tombstones.get().is_some()
            {
                ranges.note();
            }
            // An entry at the end of a table lies after the prefix; the end of a tombstone may lie
            // within, and entries with the prefix in the next table.
            if !file.largest_is_sentinel() {
                return false;
            }
            index += 1;
        }
        false
    }

    /// Tells the open table that somebody wants its entry.
    pub fn note_wanted(&mut self, prefix: Option<PrefixSeek<'_>>) {
        if let Some(table) = &mut self.current {
            table.note_wanted(prefix);
        }
    }

    /// The file of the open table.
    pub fn path(&self) -> Option<&Path> {
        self.current.as_ref().map(|t| t.reader().path())
    }

    fn failed(&mut self) -> bool {
        if let Some(t) = &self.current
            && let Err(e) = t.status()
        {
            self.error = Some(e);
            self.current = None;
            return true;
        }
        self.error.is_some()
    }

    fn skip_forward(&mut self) {
        while let Some(t) = &self.current {
            if t.valid() || self.failed() {
                return;
            }
            let next = self.index + 1;
            if self.open(next) {
                self.position(TableIter::seek_to_first);
            }
        }
    }

    fn skip_backward(&mut self) {
        while let Some(t) = &self.current {
            if t.valid() || self.failed() {
                return;
            }
            let Some(before) = self.index.checked_sub(1) else {
                self.current = None;
                return;
            };
            if self.open(before) {
                self.position(TableIter::seek_to_last);
            }
        }
    }

    /// Returns whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(TableIter::valid)
    }

    /// Internal key. Requires: `valid`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.current.as_ref().expect("valid").key()
    }

    /// Value. Requires: `valid`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.current.as_ref().expect("valid").value()
    }

    /// Value that keeps its block.
    pub fn value_pinned(&self) -> Pinned {
        self.current.as_ref().expect("valid").value_pinned()
    }

    /// Key and value. Requires: `valid`.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.current.as_ref().expect("valid").entry()
    }

    /// Next entry; whether there is one. Requires: `valid`.
    #[allow(clippy::should_implement_trait, reason = "a move, not an iteration")]
    #[inline(always)]
    pub fn next(&mut self) -> bool {
        self.current.as_mut().expect("valid").next() || self.next_table()
    }

    #[inline(never)]
    fn next_table(&mut self) -> bool {
        self.skip_forward();
        self.valid()
    }

    /// Entry before. Requires: `valid`.
    #[inline]
    pub fn prev(&mut self) {
        let t = self.current.as_mut().expect("valid");
        t.prev();
        if !t.valid() {
            self.skip_backward();
        }
    }

    /// First entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.seek_from(self.find(key), key);
    }

    fn seek_from(&mut self, index: usize, key: &[u8]) {
        self.error = None;
        if self.open(index) {
            self.position(|t| t.seek(key));
            self.skip_forward();
        }
    }

    /// Last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        self.error = None;
        let n = self.files().len();
        if n == 0 {
            self.current = None;
            return;
        }
        let index = self.find(key).min(n - 1);
        if self.open(index) {
            self.position(|t| t.seek_for_prev(key));
            self.skip_backward();
        }
    }

    /// First entry.
    pub fn seek_to_first(&mut self) {
        self.error = None;
        if self.open(0) {
            self.position(|t| t.seek_to_first());
            self.skip_forward();
        }
    }

    /// Last entry.
    pub fn seek_to_last(&mut self) {
        self.error = None;
        let n = self.files().len();
        if n == 0 {
            self.current = None;
            return;
        }
        if self.open(n - 1) {
            self.position(|t| t.seek_to_last());
            self.skip_backward();
        }
    }

    /// The error that made it invalid.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(e) => Err(e.clone()),
            None => self.current.as_ref().map_or(Ok(()), TableIter::status),
        }
    }
}
