//! `rocksdb_snapshot_t`.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, malloc_array, unbox};
use spanlith::Snapshot;

/// A point in time; a counted reference, which read options share. A block from `malloc` that holds a pointer only: that
/// of a transaction is freed with `rocksdb_free`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct rocksdb_snapshot_t(*mut Point);

/// Describes what a handle points to.
struct Point {
    snapshot: Snapshot,
    /// It belongs to a transaction, which outlives the handle.
    is_lent: bool,
}

impl rocksdb_snapshot_t {
    /// A handle that owns a snapshot.
    pub(crate) fn of(snapshot: Snapshot) -> *mut Self {
        let point = Point {
            snapshot,
            is_lent: false,
        };
        malloc_array(&[Self(boxed(point))])
    }

    /// The snapshot; none in the handle of a transaction that has none.
    ///
    /// # Safety
    /// It was not released since, and its transaction not destroyed.
    pub(crate) unsafe fn get(&self) -> Option<&Snapshot> {
        // SAFETY: The caller says so.
        unsafe { self.0.as_ref() }.map(|point| &point.snapshot)
    }
}

/// Snapshots that a transaction lends.
#[derive(Default)]
pub(crate) struct LentSnapshots(Vec<*mut Point>);

impl LentSnapshots {
    /// A handle for a snapshot, or for none, which is good as long as this.
    pub(crate) fn lend(&mut self, snapshot: Option<&Snapshot>) -> *mut rocksdb_snapshot_t {
        let point = snapshot.map_or(std::ptr::null_mut(), |snapshot| self.point(snapshot));
        malloc_array(&[rocksdb_snapshot_t(point)])
    }

    fn point(&mut self, snapshot: &Snapshot) -> *mut Point {
        let is_it = |&&point: &&*mut Point| {
            // SAFETY: They are freed when `self` is dropped.
            unsafe { (*point).snapshot.seqno() == snapshot.seqno() }
        };
        if let Some(known) = self.0.iter().find(is_it) {
            return *known;
        }
        let new = boxed(Point {
            snapshot: snapshot.clone(),
            is_lent: true,
        });
        self.0.push(new);
        new
    }
}

impl Drop for LentSnapshots {
    fn drop(&mut self) {
        for point in self.0.drain(..) {
            // SAFETY: Made by `boxed`, and freed here only.
            drop(unsafe { unbox(point) });
        }
    }
}

c_api! {
    /// The state of now.
    fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t {
        rocksdb_snapshot_t::of((*db).cf.db().snapshot())
    }

    /// Gives a snapshot up, also for read options it is still set in; NULL is ignored.
    fn rocksdb_release_snapshot(_db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t) {
        let Some(&rocksdb_snapshot_t(point)) = snapshot.as_ref() else {
            return;
        };
        if point.as_ref().is_some_and(|point| !point.is_lent)
            && let Some(point) = unbox(point)
        {
            point.snapshot.release();
        }
        libc::free(snapshot.cast_mut().cast());
    }

    /// Sequence number of the newest write it sees; 0 without a snapshot.
    fn rocksdb_snapshot_get_sequence_number(snapshot: *const rocksdb_snapshot_t) -> u64 {
        (*snapshot).get().map_or(0, Snapshot::seqno)
    }
}
