//! `rocksdb_checkpoint_t`.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, path, report};
use libc::c_char;
use spanlith::{Db, WeakDb};
use spanlith_base::{Error, Result};
use std::ptr;

/// Makes checkpoints of a database; does not keep it open.
pub struct rocksdb_checkpoint_t(WeakDb);

impl rocksdb_checkpoint_t {
    /// The database, if it is still open.
    pub(crate) fn database(&self) -> Result<Db> {
        self.0.upgrade().ok_or_else(|| Error::shutdown(""))
    }
}

c_api! {
    /// Something that makes checkpoints of the database as long as it is open.
    fn rocksdb_checkpoint_object_create(
        db: *mut rocksdb_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_checkpoint_t {
        report(errptr, ptr::null_mut(), || {
            Ok(boxed(rocksdb_checkpoint_t((*db).cf.db().downgrade())))
        })
    }

    /// Makes a directory that opens as the database is now. Memtables are flushed if the logs have
    /// `log_size_for_flush` bytes; 0 is always.
    fn rocksdb_checkpoint_create(
        checkpoint: *mut rocksdb_checkpoint_t,
        checkpoint_dir: *const c_char,
        log_size_for_flush: u64,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let db = (*checkpoint).database()?;
            db.checkpoint_opt(path(checkpoint_dir), log_size_for_flush)
        });
    }
}

destroyers! {
    rocksdb_checkpoint_object_destroy(rocksdb_checkpoint_t);
}
