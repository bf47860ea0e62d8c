//! `rocksdb_iterator_t`.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, lend, report, rocksdb_slice_t};
use crate::read_options::rocksdb_readoptions_t;
use crate::shared::SharedBatch;
use libc::c_char;
use spanlith::{Cf, Cursor, IndexedBatch, Overlay, OverlayParts};
use spanlith_base::{Comparator, Error, Result};

/// Describes what an iterator walks over.
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
    shown: Shown,
    source: Source,
}

// The allocator's fast path (glibc's per-thread cache) ends at blocks of this size, and programs make iterators by
// the million.
const _: () = assert!(size_of::<rocksdb_iterator_t>() <= 1032);

/// Describes what an iterator stands on, found out once after each move: callers ask for validity, key and
/// value one after the other. The bytes are the source's, which keeps them where they are until it is
/// moved; before that they are forgotten here.
#[derive(Clone, Copy)]
struct Shown {
    is_valid: bool,
    key: *const [u8],
    value: *const [u8],
}

impl Shown {
    /// No entry.
    const NOTHING: Self = Self {
        is_valid: false,
        key: &[],
        value: &[],
    };
}

impl Source {
    /// Key and value of the entry, if it stands on one.
    #[inline(always)]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Family(cursor) => cursor.entry(),
            Self::Over(overlay, _) => overlay.valid().then(|| (overlay.key(), overlay.value())),
            Self::Refused(_) => None,
        }
    }
}

impl rocksdb_iterator_t {
    fn over(source: Source) -> Self {
        Self {
            shown: Shown::NOTHING,
            source,
        }
    }

    /// # Safety
    /// The bounds of the options are still valid.
    pub(crate) unsafe fn new(cf: &Cf, options: &rocksdb_readoptions_t) -> Self {
        // SAFETY: The caller says so.
        let options = unsafe { options.for_scan() };
        Self::over(Source::Family(cf.cursor(options)))
    }

    /// Puts the updates of a batch over what it walks over.
    pub(crate) fn overlay(
        &mut self,
        batch: SharedBatch,
        cf: Option<Cf>,
        order: Comparator,
        [lower, upper]: [Option<Vec<u8>>; 2],
    ) {
        self.shown = Shown::NOTHING;
        let none = Source::Refused(Error::not_supported(
            "an iterator over iterators with a base",
        ));
        let source = match std::mem::replace(&mut self.source, none) {
            Source::Family(base) => {
                let parts = OverlayParts {
                    base,
                    cf,
                    order,
                    lower,
                    upper,
                };
                Source::Over(Box::new(Overlay::new(parts)), batch)
            }
            Source::Refused(e) => Source::Refused(e),
            Source::Over(..) => return,
        };
        self.source = source;
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        // SAFETY: Empty, or bytes of the source, which was not moved since.
        unsafe { &*self.shown.key }
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        // SAFETY: As in `key`.
        unsafe { &*self.shown.value }
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
        step: impl FnOnce(&mut Cursor),
        step_over: impl FnOnce(&mut Overlay, &IndexedBatch),
    ) {
        self.shown = Shown::NOTHING;
        match &mut self.source {
            Source::Family(cursor) => step(cursor),
            // SAFETY: The caller says so.
            Source::Over(overlay, batch) => step_over(overlay, unsafe { batch.get() }),
            Source::Refused(_) => {}
        }
        if let Some((key, value)) = self.source.entry() {
            self.shown = Shown {
                is_valid: true,
                key,
                value,
            };
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

c_api! {
    /// An iterator over the default family. Bounds are copied.
    fn rocksdb_create_iterator(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        boxed(rocksdb_iterator_t::new(&(*db).cf, &*options))
    }

    /// An iterator over a family. Bounds are copied.
    fn rocksdb_create_iterator_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        boxed(rocksdb_iterator_t::new(&(*column_family).cf, &*options))
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
            (*options).check_activity("NewIterators", (5, "kDBIterator"))?;
            let families = array(column_families, size);
            let families: Vec<&Cf> = families.iter().map(|f| &*(**f).cf).collect();
            let cursors = (*db).cf.db().cursors(&families, (*options).for_scan());
            cursors.iter().try_for_each(Cursor::check_options)?;
            for (at, cursor) in cursors.into_iter().enumerate() {
                let i = rocksdb_iterator_t::over(Source::Family(cursor));
                iterators.add(at).write(boxed(i));
            }
            Ok(())
        });
    }

    /// Returns whether it stands on an entry.
    fn rocksdb_iter_valid(iter: *const rocksdb_iterator_t) -> u8 {
        (*iter).shown.is_valid.into()
    }

    /// Moves to the first entry.
    fn rocksdb_iter_seek_to_first(iter: *mut rocksdb_iterator_t) {
        (*iter).step(|c| drop(c.seek_to_first()), |o, b| o.seek_to_first(b));
    }

    /// Moves to the last entry.
    fn rocksdb_iter_seek_to_last(iter: *mut rocksdb_iterator_t) {
        (*iter).step(|c| drop(c.seek_to_last()), |o, b| o.seek_to_last(b));
    }

    /// Moves to the first entry at or after a key.
    fn rocksdb_iter_seek(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        (*iter).step(|c| drop(c.seek(bytes(k, klen))), |o, b| o.seek(b, bytes(k, klen)));
    }

    /// Moves to the last entry at or before a key.
    fn rocksdb_iter_seek_for_prev(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        (*iter).step(|c| drop(c.seek_for_prev(bytes(k, klen))), |o, b| {
            o.seek_for_prev(b, bytes(k, klen));
        });
    }

    /// Moves to the next entry; stays nowhere if it stands nowhere.
    fn rocksdb_iter_next(iter: *mut rocksdb_iterator_t) {
        (*iter).step(|c| drop(c.next()), |o, b| o.next(b));
    }

    /// Moves to the entry before; stays nowhere if it stands nowhere.
    fn rocksdb_iter_prev(iter: *mut rocksdb_iterator_t) {
        (*iter).step(|c| drop(c.prev()), |o, b| o.prev(b));
    }

    /// Key, lent until the next move; length 0 if it stands nowhere.
    fn rocksdb_iter_key(iter: *const rocksdb_iterator_t, klen: *mut usize) -> *const c_char {
        lend((*iter).key(), klen)
    }

    /// Value, lent until the next move; length 0 if it stands nowhere.
    fn rocksdb_iter_value(iter: *const rocksdb_iterator_t, vlen: *mut usize) -> *const c_char {
        lend((*iter).value(), vlen)
    }

    /// Timestamp of the key, lent until the next move; length 0 without timestamps.
    fn rocksdb_iter_timestamp(
        iter: *const rocksdb_iterator_t,
        tslen: *mut usize,
    ) -> *const c_char {
        lend((*iter).timestamp(), tslen)
    }

    /// Key, lent until the next move.
    fn rocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        rocksdb_slice_t::of((*iter).key())
    }

    /// Value, lent until the next move.
    fn rocksdb_iter_value_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        rocksdb_slice_t::of((*iter).value())
    }

    /// Timestamp of the key, lent until the next move; empty without timestamps.
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
                // One that is refused stays where it is.
                Source::Family(cursor) => {
                    cursor.check_refresh()?;
                    iter.shown = Shown::NOTHING;
                    cursor.refresh(None)
                }
                Source::Over(..) => Err(Error::not_supported("Refresh() is not supported")),
                Source::Refused(e) => Err(e.clone()),
            }
        });
    }
}

destroyers! {
    rocksdb_iter_destroy(rocksdb_iterator_t);
}
