//! `rocksdb_iterator_t`.

use crate::batch_with_index::SharedBatch;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, report, rocksdb_slice_t};
use crate::read_options::rocksdb_readoptions_t;
use libc::c_char;
use spanlith::options::objects;
use spanlith::{Cf, Cursor, IndexedBatch, Overlay, OverlayParts, ReadOptions};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_base::{Comparator, Error, Result};
use std::sync::Arc;

/// What an iterator walks over.
#[allow(
    clippy::large_enum_variant,
    reason = "the large variant is the usual one, and on the hot path"
)]
enum Source {
    /// A family.
    Family(Cursor),
    /// A family as if a batch were written.
    Over(Box<Overlay>, SharedBatch),
    /// Nothing: its options were refused.
    Refused(Error),
}

/// An iterator. It pins what it reads, also after the database was closed.
pub struct rocksdb_iterator_t {
    source: Source,
    statistics: Option<Arc<Statistics>>,
}

/// Options of an iterator over a family. To end with a prefix is refused where there are prefixes.
///
/// # Safety
/// The bounds of the options are still valid.
unsafe fn scan_options(cf: &Cf, options: &rocksdb_readoptions_t) -> Result<ReadOptions> {
    if options.ends_with_prefix() && !objects::is_null(&cf.options().prefix_extractor) {
        return Err(Error::not_supported("prefix_same_as_start"));
    }
    // SAFETY: The caller says so.
    unsafe { options.for_scan() }
}

impl rocksdb_iterator_t {
    /// # Safety
    /// The bounds of the options are still valid.
    unsafe fn new(db: &rocksdb_t, cf: &Cf, options: &rocksdb_readoptions_t) -> Self {
        // SAFETY: The caller says so.
        Self::with(db, cf, unsafe { scan_options(cf, options) })
    }

    fn with(db: &rocksdb_t, cf: &Cf, options: Result<ReadOptions>) -> Self {
        let statistics = db.statistics.clone();
        if let Some(s) = &statistics {
            s.add(Ticker::NumIteratorCreated, 1);
        }
        Self {
            source: match options {
                Ok(options) => Source::Family(cf.cursor(options)),
                Err(e) => Source::Refused(e),
            },
            statistics,
        }
    }

    /// Puts the updates of a batch over what it walks over.
    pub(crate) fn overlay(
        &mut self,
        batch: SharedBatch,
        cf: Option<Cf>,
        order: Comparator,
        bounds: Result<[Option<Vec<u8>>; 2]>,
    ) {
        let none = Source::Refused(Error::not_supported(
            "an iterator over iterators with a base",
        ));
        let source = match (std::mem::replace(&mut self.source, none), bounds) {
            (Source::Family(base), Ok([lower, upper])) => {
                let parts = OverlayParts {
                    base,
                    cf,
                    order,
                    lower,
                    upper,
                };
                Source::Over(Box::new(Overlay::new(parts)), batch)
            }
            (Source::Refused(e), _) | (_, Err(e)) => Source::Refused(e),
            (Source::Over(..), Ok(_)) => return,
        };
        self.source = source;
    }

    #[inline(always)]
    fn valid(&self) -> bool {
        match &self.source {
            Source::Family(cursor) => cursor.valid(),
            Source::Over(overlay, _) => overlay.valid(),
            Source::Refused(_) => false,
        }
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        match &self.source {
            Source::Family(cursor) => cursor.key(),
            Source::Over(overlay, _) => overlay.key(),
            Source::Refused(_) => &[],
        }
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        match &self.source {
            Source::Family(cursor) => cursor.value(),
            Source::Over(overlay, _) => overlay.value(),
            Source::Refused(_) => &[],
        }
    }

    fn timestamp(&self) -> &[u8] {
        match &self.source {
            Source::Family(cursor) => cursor.timestamp(),
            Source::Over(..) | Source::Refused(_) => &[],
        }
    }

    /// Moves; the C program asks for validity and errors itself.
    ///
    /// # Safety
    /// No other thread uses the batch that lies over the family, if one does.
    #[inline(always)]
    unsafe fn step(
        &mut self,
        tickers: [Ticker; 2],
        step: impl FnOnce(&mut Cursor),
        step_over: impl FnOnce(&mut Overlay, &IndexedBatch),
    ) {
        match &mut self.source {
            Source::Family(cursor) => step(cursor),
            // SAFETY: The caller says so.
            Source::Over(overlay, batch) => step_over(overlay, unsafe { batch.get() }),
            Source::Refused(_) => {}
        }
        if self.statistics.is_some() {
            self.count(tickers);
        }
    }

    #[cold]
    #[inline(never)]
    fn count(&self, [moved, found]: [Ticker; 2]) {
        let Some(statistics) = &self.statistics else {
            return;
        };
        statistics.add(moved, 1);
        if self.valid() {
            statistics.add(found, 1);
            let bytes = self.key().len() + self.value().len();
            statistics.add(Ticker::DbIterBytesRead, bytes as u64);
        }
    }

    fn status(&self) -> Result<()> {
        match &self.source {
            Source::Family(cursor) => cursor.status(),
            Source::Over(overlay, _) => overlay.status(),
            Source::Refused(e) => Err(e.clone()),
        }
    }
}

impl Drop for rocksdb_iterator_t {
    fn drop(&mut self) {
        if let Some(statistics) = &self.statistics {
            statistics.add(Ticker::NumIteratorDeleted, 1);
        }
    }
}

const SEEK: [Ticker; 2] = [Ticker::NumberDbSeek, Ticker::NumberDbSeekFound];
const NEXT: [Ticker; 2] = [Ticker::NumberDbNext, Ticker::NumberDbNextFound];
const PREV: [Ticker; 2] = [Ticker::NumberDbPrev, Ticker::NumberDbPrevFound];

c_api! {
    /// An iterator over the default family. Bounds are copied.
    fn rocksdb_create_iterator(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        let db = &*db;
        boxed(rocksdb_iterator_t::new(db, &db.cf, &*options))
    }

    /// An iterator over a family. Bounds are copied.
    fn rocksdb_create_iterator_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        boxed(rocksdb_iterator_t::new(&*db, &(*column_family).cf, &*options))
    }

    /// Iterators over several families, all at one point in time.
    fn rocksdb_create_iterators(
        db: *mut rocksdb_t,
        options: *mut rocksdb_readoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        iterators: *mut *mut rocksdb_iterator_t,
        size: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let db = &*db;
            let read = &*options;
            let families = array(column_families, size);
            for family in families {
                scan_options(&(**family).cf, read)?;
            }
            let mut options = read.for_scan()?;
            if size > 1 {
                options.snapshot.get_or_insert_with(|| db.cf.db().snapshot());
            }
            for (at, family) in families.iter().enumerate() {
                let i = rocksdb_iterator_t::with(db, &(**family).cf, Ok(options.clone()));
                iterators.add(at).write(boxed(i));
            }
            Ok(())
        });
    }

    /// Whether it stands on an entry.
    fn rocksdb_iter_valid(iter: *const rocksdb_iterator_t) -> u8 {
        (*iter).valid().into()
    }

    /// Moves to the first entry.
    fn rocksdb_iter_seek_to_first(iter: *mut rocksdb_iterator_t) {
        (*iter).step(SEEK, |c| drop(c.seek_to_first()), |o, b| o.seek_to_first(b));
    }

    /// Moves to the last entry.
    fn rocksdb_iter_seek_to_last(iter: *mut rocksdb_iterator_t) {
        (*iter).step(SEEK, |c| drop(c.seek_to_last()), |o, b| o.seek_to_last(b));
    }

    /// Moves to the first entry at or after a key.
    fn rocksdb_iter_seek(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        (*iter).step(SEEK, |c| drop(c.seek(bytes(k, klen))), |o, b| o.seek(b, bytes(k, klen)));
    }

    /// Moves to the last entry at or before a key.
    fn rocksdb_iter_seek_for_prev(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        (*iter).step(SEEK, |c| drop(c.seek_for_prev(bytes(k, klen))), |o, b| {
            o.seek_for_prev(b, bytes(k, klen));
        });
    }

    /// Moves to the next entry; stays nowhere if it stands nowhere.
    fn rocksdb_iter_next(iter: *mut rocksdb_iterator_t) {
        (*iter).step(NEXT, |c| drop(c.next()), |o, b| o.next(b));
    }

    /// Moves to the entry before; stays nowhere if it stands nowhere.
    fn rocksdb_iter_prev(iter: *mut rocksdb_iterator_t) {
        (*iter).step(PREV, |c| drop(c.prev()), |o, b| o.prev(b));
    }

    /// Key, lent until the next move; length 0 if it stands nowhere.
    fn rocksdb_iter_key(iter: *const rocksdb_iterator_t, klen: *mut usize) -> *const c_char {
        let key = (*iter).key();
        *klen = key.len();
        key.as_ptr().cast()
    }

    /// Value, lent until the next move; length 0 if it stands nowhere.
    fn rocksdb_iter_value(iter: *const rocksdb_iterator_t, vlen: *mut usize) -> *const c_char {
        let value = (*iter).value();
        *vlen = value.len();
        value.as_ptr().cast()
    }

    /// Timestamp of the key: always empty, no family has timestamps.
    fn rocksdb_iter_timestamp(
        iter: *const rocksdb_iterator_t,
        tslen: *mut usize,
    ) -> *const c_char {
        let timestamp = (*iter).timestamp();
        *tslen = timestamp.len();
        timestamp.as_ptr().cast()
    }

    /// Key, lent until the next move.
    fn rocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        rocksdb_slice_t::of((*iter).key())
    }

    /// Value, lent until the next move.
    fn rocksdb_iter_value_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        rocksdb_slice_t::of((*iter).value())
    }

    /// Timestamp of the key: always empty.
    fn rocksdb_iter_timestamp_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        rocksdb_slice_t::of((*iter).timestamp())
    }

    /// Why it stands nowhere, if an error is the reason.
    fn rocksdb_iter_get_error(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*iter).status());
    }

    /// Moves the view to now; the position is lost.
    fn rocksdb_iter_refresh(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            // The header says const and means that the handle stays the same.
            let iter = &mut *iter.cast_mut();
            match &mut iter.source {
                Source::Family(cursor) => cursor.refresh(None),
                Source::Over(..) => Err(Error::not_supported("Refresh() is not supported")),
                Source::Refused(e) => Err(e.clone()),
            }
        });
    }
}

destroyers! {
    rocksdb_iter_destroy(rocksdb_iterator_t);
}
