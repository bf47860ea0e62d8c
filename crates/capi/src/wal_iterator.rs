//! `rocksdb_wal_iterator_t`: what was written, read back from the logs.
//!
//! An iterator reads the logs there were when it was made, with what is appended to them: at their end one
//! more step finds what was written since, and `TryAgain` says that it is in another log.

use crate::batch::rocksdb_writebatch_t;
use crate::db::rocksdb_t;
use crate::ffi::{boxed, report};
use libc::c_char;
use spanlith::{Change, Changes};
use spanlith_base::{Error, ErrorKind};
use spanlith_wal::WriteBatch;
use std::ptr;

/// Walks over batches in the order of their sequence numbers.
pub struct rocksdb_wal_iterator_t {
    changes: Changes,
    /// The batch it stands on.
    current: Option<Change>,
    /// Why it stands nowhere, if an error is the reason.
    error: Option<Error>,
}

impl rocksdb_wal_iterator_t {
    fn step(&mut self) {
        (self.current, self.error) = match self.changes.next() {
            Some(Ok(change)) => (Some(change), None),
            Some(Err(e)) => (None, Some(e)),
            None => (None, None),
        };
    }
}

/// Options of walks over logs.
pub struct rocksdb_wal_readoptions_t {
    /// Records are verified in any case: a log that is not cannot be told from a damaged one.
    verify_checksums: bool,
}

c_api! {
    /// Batches from the one on that holds `seq_number`. NULL options are the defaults.
    fn rocksdb_get_updates_since(
        db: *mut rocksdb_t,
        seq_number: u64,
        _options: *const rocksdb_wal_readoptions_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_wal_iterator_t {
        report(errptr, ptr::null_mut(), || {
            let changes = (*db).cf.db().changes(seq_number)?.within_logs()?;
            let mut iterator = rocksdb_wal_iterator_t { changes, current: None, error: None };
            iterator.step();
            if iterator.error.as_ref().is_some_and(|e| e.kind() == ErrorKind::NotFound) {
                // Records before the logs are gone: it begins with those that are there.
                iterator.step();
            }
            Ok(boxed(iterator))
        })
    }

    /// Moves to the next batch.
    fn rocksdb_wal_iter_next(iter: *mut rocksdb_wal_iterator_t) {
        let iter = &mut *iter;
        // An error stays, as in RocksDB.
        if iter.error.is_none() {
            iter.step();
        }
    }

    /// Returns whether it stands on a batch.
    fn rocksdb_wal_iter_valid(iter: *const rocksdb_wal_iterator_t) -> u8 {
        (*iter).current.is_some().into()
    }

    /// Why it stands nowhere, if an error is the reason.
    fn rocksdb_wal_iter_status(iter: *const rocksdb_wal_iterator_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*iter).error.clone().map_or(Ok(()), Err));
    }

    /// The batch it stands on, to be destroyed by the caller, and the sequence number of its first
    /// update (NULL: not wanted). An empty batch if it stands nowhere.
    fn rocksdb_wal_iter_get_batch(
        iter: *const rocksdb_wal_iterator_t,
        seq: *mut u64,
    ) -> *mut rocksdb_writebatch_t {
        let (sequence, batch) = match &(*iter).current {
            Some(change) => (change.sequence, WriteBatch::from_rep(change.batch.as_bytes())),
            None => (0, WriteBatch::new()),
        };
        if let Some(seq) = seq.as_mut() {
            *seq = sequence;
        }
        boxed(rocksdb_writebatch_t::from(batch))
    }

    /// Destroys an iterator; NULL is ignored.
    fn rocksdb_wal_iter_destroy(iter: *const rocksdb_wal_iterator_t) {
        // The header says const and means a handle like every other.
        drop(crate::ffi::unbox(iter.cast_mut()));
    }

    /// RocksDB's defaults.
    fn rocksdb_wal_readoptions_create() -> *mut rocksdb_wal_readoptions_t {
        boxed(rocksdb_wal_readoptions_t { verify_checksums: true })
    }

    /// Says whether checksums of records are verified; they always are.
    fn rocksdb_wal_readoptions_set_verify_checksums(
        options: *mut rocksdb_wal_readoptions_t,
        verify_checksums: u8,
    ) {
        (*options).verify_checksums = verify_checksums != 0;
    }

    /// Returns whether checksums of records are verified, as it was set.
    fn rocksdb_wal_readoptions_get_verify_checksums(
        options: *mut rocksdb_wal_readoptions_t,
    ) -> u8 {
        (*options).verify_checksums.into()
    }
}

destroyers! {
    rocksdb_wal_readoptions_destroy(rocksdb_wal_readoptions_t);
}
