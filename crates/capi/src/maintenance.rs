//! Flushes, log syncs, compactions, waiting.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, optional_bytes, report};
use crate::job_options::{
    rocksdb_compactoptions_t, rocksdb_flushoptions_t, rocksdb_flushwaloptions_t,
    rocksdb_wait_for_compact_options_t,
};
use crate::read_options::rocksdb_readoptions_t;
use libc::c_char;
use spanlith::{Cf, Db, FlushOptions};
use spanlith_base::{Error, Result};
use std::time::Duration;

fn writable(db: &Db) -> Result<()> {
    if db.is_read_only() {
        return Err(Error::not_supported(
            "Not supported operation in read only mode.",
        ));
    }
    Ok(())
}

/// Hands held-back log records to the operating system, and makes them durable if `sync`.
fn flush_wal(db: &Db, sync: bool) -> Result<()> {
    writable(db)?;
    db.flush_wal(sync)
}

/// Compacts; RocksDB's functions report nothing either, also when it fails.
fn compact(cf: &Cf, start: Option<&[u8]>, limit: Option<&[u8]>) {
    let _ = cf.compact_range(start, limit);
}

/// As [`compact`], with options.
fn compact_opt(
    cf: &Cf,
    options: &rocksdb_compactoptions_t,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) {
    if let Ok(options) = options.checked() {
        let _ = cf.compact_range_opt(start, limit, &options);
    }
}

/// Waits until no background work runs or is due.
fn wait_for_compact(db: &Db, options: &rocksdb_wait_for_compact_options_t) -> Result<()> {
    if options.flush {
        db.flush(true)?;
    }
    let limit = (options.timeout > 0).then(|| Duration::from_micros(options.timeout));
    if options.abort_on_pause {
        db.wait_idle_unless_paused(limit)?;
    } else {
        db.wait_idle(limit)?;
    }
    if options.close_db {
        db.clone().close()
    } else {
        Ok(())
    }
}

c_api! {
    /// Writes the memtables of the default family out.
    fn rocksdb_flush(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*db).cf.flush_opt((*options).options));
    }

    /// Writes the memtables of a family out.
    fn rocksdb_flush_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_flushoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*column_family).cf.flush_opt((*options).options));
    }

    /// Writes the memtables of several families out.
    fn rocksdb_flush_cfs(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: i32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let count = usize::try_from(num_column_families).unwrap_or(0);
            let families: Vec<&Cf> =
                array(column_families, count).iter().map(|f| &*(**f).cf).collect();
            let how = FlushOptions { atomic: (*options).force_atomic_flush, ..(*options).options };
            (*db).cf.db().flush_cfs_opt(&families, how)
        });
    }

    /// Hands the log to the operating system, and with `sync` to the disk.
    fn rocksdb_flush_wal(db: *mut rocksdb_t, sync: u8, errptr: *mut *mut c_char) {
        report(errptr, (), || flush_wal((*db).cf.db(), sync != 0));
    }

    /// Hands the log to the operating system, or to the disk. NULL options are the defaults.
    fn rocksdb_flush_wal_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushwaloptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            flush_wal((*db).cf.db(), options.as_ref().is_some_and(|o| o.sync))
        });
    }

    /// Compacts a range of keys; NULL is an open end.
    fn rocksdb_compact_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let start = optional_bytes(start_key, start_key_len);
        compact(&(*db).cf, start, optional_bytes(limit_key, limit_key_len));
    }

    /// Compacts a range of keys of a family; NULL is an open end.
    fn rocksdb_compact_range_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let start = optional_bytes(start_key, start_key_len);
        compact(&(*column_family).cf, start, optional_bytes(limit_key, limit_key_len));
    }

    /// Compacts a range of keys, with options.
    fn rocksdb_compact_range_opt(
        db: *mut rocksdb_t,
        options: *mut rocksdb_compactoptions_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let start = optional_bytes(start_key, start_key_len);
        let limit = optional_bytes(limit_key, limit_key_len);
        compact_opt(&(*db).cf, &*options, start, limit);
    }

    /// Compacts a range of keys of a family, with options.
    fn rocksdb_compact_range_cf_opt(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *mut rocksdb_compactoptions_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let start = optional_bytes(start_key, start_key_len);
        let limit = optional_bytes(limit_key, limit_key_len);
        compact_opt(&(*column_family).cf, &*options, start, limit);
    }

    /// Waits until no flush or compaction runs or is due.
    fn rocksdb_wait_for_compact(
        db: *mut rocksdb_t,
        options: *mut rocksdb_wait_for_compact_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || wait_for_compact((*db).cf.db(), &*options));
    }

    /// Reads every block of every table and verifies its checksum.
    fn rocksdb_verify_checksum(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().verify_checksums());
    }

    /// Reads every block of every table and verifies its checksum, whatever the options say.
    fn rocksdb_verify_checksum_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*options).check_activity("VerifyChecksum", (6, "kVerifyDBChecksum"))?;
            (*db).cf.db().verify_checksums()
        });
    }

    /// Starts no flush or compaction any more and waits for those that run; counts.
    fn rocksdb_pause_background_work(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().pause_background_work());
    }

    /// Takes back `rocksdb_pause_background_work`.
    fn rocksdb_continue_background_work(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || (*db).cf.db().continue_background_work());
    }

    /// Starts no flush or compaction any more, ever, and abandons those that run; waits for their end
    /// if `wait`. Reads and writes go on until memtables are full.
    fn rocksdb_cancel_all_background_work(db: *mut rocksdb_t, wait: u8) {
        // Nobody can be told of a failed last flush; the info log says it.
        let _ = (*db).cf.db().cancel_background_work(wait != 0);
    }

    /// Calls off manual compactions and refuses new ones; counts.
    fn rocksdb_disable_manual_compaction(db: *mut rocksdb_t) {
        (*db).cf.db().disable_manual_compaction();
    }

    /// Takes back `rocksdb_disable_manual_compaction`.
    fn rocksdb_enable_manual_compaction(db: *mut rocksdb_t) {
        (*db).cf.db().enable_manual_compaction();
    }

    /// Gives up all compactions, waits for their end, and lets none begin; counts.
    fn rocksdb_abort_all_compactions(db: *mut rocksdb_t) {
        (*db).cf.db().abort_compactions();
    }

    /// Takes back one `rocksdb_abort_all_compactions`.
    fn rocksdb_resume_all_compactions(db: *mut rocksdb_t) {
        (*db).cf.db().resume_compactions();
    }

    /// Keeps files that nothing needs any more; counts.
    fn rocksdb_disable_file_deletions(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            writable((*db).cf.db())?;
            (*db).cf.db().disable_file_deletions();
            Ok(())
        });
    }

    /// Takes back `rocksdb_disable_file_deletions`; with `force` all calls of it.
    #[cfg(feature = "generation-8-10")]
    fn rocksdb_enable_file_deletions(db: *mut rocksdb_t, force: u8, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            let db = (*db).cf.db();
            writable(db)?;
            db.enable_file_deletions();
            let is_disabled = || db.int_property("rocksdb.is-file-deletions-enabled").is_some_and(|n| n == 0);
            while force != 0 && is_disabled() {
                db.enable_file_deletions();
            }
            Ok(())
        });
    }

    /// Takes back `rocksdb_disable_file_deletions`.
    #[cfg(not(feature = "generation-8-10"))]
    fn rocksdb_enable_file_deletions(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            writable((*db).cf.db())?;
            (*db).cf.db().enable_file_deletions();
            Ok(())
        });
    }

    /// Asks background compactions to take the tables of a range down. NULL is an open end.
    fn rocksdb_suggest_compact_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let start = optional_bytes(start_key, start_key_len);
            let limit = optional_bytes(limit_key, limit_key_len);
            (*db).cf.suggest_compact_range(start, limit)
        });
    }

    /// Asks background compactions to take the tables of a range down. In a family.
    fn rocksdb_suggest_compact_range_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let start = optional_bytes(start_key, start_key_len);
            let limit = optional_bytes(limit_key, limit_key_len);
            (*column_family).cf.suggest_compact_range(start, limit)
        });
    }

    /// Drops tables that lie wholly in a range, its end included. NULL is an open end.
    fn rocksdb_delete_file_in_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let start = optional_bytes(start_key, start_key_len);
            let limit = optional_bytes(limit_key, limit_key_len);
            (*db).cf.delete_files_in_ranges(&[(start, limit)], true)
        });
    }

    /// Drops tables that lie wholly in a range, its end included. In a family.
    fn rocksdb_delete_file_in_range_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let start = optional_bytes(start_key, start_key_len);
            let limit = optional_bytes(limit_key, limit_key_len);
            (*column_family).cf.delete_files_in_ranges(&[(start, limit)], true)
        });
    }
}
