//! Walking over a write batch with callbacks.
//!
//! As in RocksDB, a walk ends silently at the first entry that its callbacks have no function for:
//! range deletions, markers of transactions, entries of other families where only the default one
//! is walked. Single deletes of the default family are stepped over, as are its merges where
//! there is no function for them.

use crate::batch::rocksdb_writebatch_t;
use libc::{c_char, c_void};
use spanlith_wal::{BatchIter, BatchOp};

/// State, key, value.
pub type BatchPutFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
/// State, key.
pub type BatchDeleteFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);
/// State, family, key, value or operand.
pub type BatchPutCfFn =
    unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize);
/// State, family, key.
pub type BatchDeleteCfFn = unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize);
/// State, note.
pub type BatchLogDataFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Describes what becomes of the walk.
#[derive(PartialEq)]
enum Go {
    On,
    Stop,
}

/// Walks over the entries that are intact.
fn walk(rep: &[u8], mut entry: impl FnMut(BatchOp<'_>) -> Go) {
    let Ok(entries) = BatchIter::new(rep) else {
        return;
    };
    for op in entries {
        // Damage ends the walk; there is no way to report it.
        let Ok(op) = op else { return };
        if entry(op) == Go::Stop {
            return;
        }
    }
}

fn split(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Calls back for entries of the default family.
///
/// # Safety
/// The callbacks may be called with `state`.
pub(crate) unsafe fn iterate(
    rep: &[u8],
    state: *mut c_void,
    put: BatchPutFn,
    deleted: BatchDeleteFn,
    log_data: Option<BatchLogDataFn>,
) {
    walk(rep, |op| {
        match op {
            BatchOp::Put { cf: 0, key, value } => {
                let ((k, klen), (v, vlen)) = (split(key), split(value));
                // SAFETY: The caller says so; the bytes are the batch's.
                unsafe { put(state, k, klen, v, vlen) };
            }
            BatchOp::Delete { cf: 0, key } => {
                let (k, klen) = split(key);
                // SAFETY: As above.
                unsafe { deleted(state, k, klen) };
            }
            BatchOp::LogData { blob } => {
                if let Some(log_data) = log_data {
                    let (b, len) = split(blob);
                    // SAFETY: As above.
                    unsafe { log_data(state, b, len) };
                }
            }
            BatchOp::SingleDelete { cf: 0, .. } | BatchOp::Merge { cf: 0, .. } => {}
            _ => return Go::Stop,
        }
        Go::On
    });
}

/// # Safety
/// The callbacks may be called with `state`.
unsafe fn iterate_cf(
    rep: &[u8],
    state: *mut c_void,
    (put, deleted, merge): (BatchPutCfFn, BatchDeleteCfFn, BatchPutCfFn),
    log_data: Option<BatchLogDataFn>,
) {
    walk(rep, |op| {
        match op {
            BatchOp::Put { cf, key, value } => {
                let ((k, klen), (v, vlen)) = (split(key), split(value));
                // SAFETY: The caller says so; the bytes are the batch's.
                unsafe { put(state, cf, k, klen, v, vlen) };
            }
            BatchOp::Merge { cf, key, value } => {
                let ((k, klen), (v, vlen)) = (split(key), split(value));
                // SAFETY: As above.
                unsafe { merge(state, cf, k, klen, v, vlen) };
            }
            BatchOp::Delete { cf, key } => {
                let (k, klen) = split(key);
                // SAFETY: As above.
                unsafe { deleted(state, cf, k, klen) };
            }
            BatchOp::LogData { blob } => {
                if let Some(log_data) = log_data {
                    let (b, len) = split(blob);
                    // SAFETY: As above.
                    unsafe { log_data(state, b, len) };
                }
            }
            BatchOp::SingleDelete { cf: 0, .. } => {}
            _ => return Go::Stop,
        }
        Go::On
    });
}

c_api! {
    /// Calls back for puts and deletes of the default family.
    fn rocksdb_writebatch_iterate(
        batch: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put: BatchPutFn,
        deleted: BatchDeleteFn,
    ) {
        iterate((*batch).rep(), state, put, deleted, None);
    }

    /// Calls back for puts and deletes of the default family, and for notes.
    fn rocksdb_writebatch_iterate_ld(
        batch: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put: BatchPutFn,
        deleted: BatchDeleteFn,
        log_data: Option<BatchLogDataFn>,
    ) {
        iterate((*batch).rep(), state, put, deleted, log_data);
    }

    /// Calls back for puts, deletes and merges of all families.
    fn rocksdb_writebatch_iterate_cf(
        batch: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put_cf: BatchPutCfFn,
        deleted_cf: BatchDeleteCfFn,
        merge_cf: BatchPutCfFn,
    ) {
        iterate_cf((*batch).rep(), state, (put_cf, deleted_cf, merge_cf), None);
    }

    /// Calls back for puts, deletes and merges of all families, and for notes.
    fn rocksdb_writebatch_iterate_cf_ld(
        batch: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put_cf: BatchPutCfFn,
        deleted_cf: BatchDeleteCfFn,
        merge_cf: BatchPutCfFn,
        log_data: Option<BatchLogDataFn>,
    ) {
        iterate_cf((*batch).rep(), state, (put_cf, deleted_cf, merge_cf), log_data);
    }
}
