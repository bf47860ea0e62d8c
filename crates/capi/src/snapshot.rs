//! `rocksdb_snapshot_t`.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, unbox};
use spanlith::Snapshot;

/// A point in time; a counted reference, which read options share.
pub struct rocksdb_snapshot_t(pub(crate) Snapshot);

c_api! {
    /// The state of now.
    fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t {
        boxed(rocksdb_snapshot_t((*db).cf.db().snapshot()))
    }

    /// Gives a snapshot up, also for read options it is still set in; NULL is ignored.
    fn rocksdb_release_snapshot(_db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t) {
        if let Some(snapshot) = unbox(snapshot.cast_mut()) {
            snapshot.0.release();
        }
    }

    /// Sequence number of the newest write it sees.
    fn rocksdb_snapshot_get_sequence_number(snapshot: *const rocksdb_snapshot_t) -> u64 {
        (*snapshot).0.seqno()
    }
}
