//! `rocksdb_backup_engine_t`: backups of databases, and what brings them back.

use crate::backup_options::{
    rocksdb_backup_engine_options_t, rocksdb_create_backup_options_t, rocksdb_restore_options_t,
};
use crate::convert::first_complaint;
use crate::db::rocksdb_t;
use crate::env::rocksdb_env_t;
use crate::ffi::{boxed, bytes, lend_if, path, report, unbox};
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith::{BackupEngine, BackupInfo, BackupOptions, CreateBackupOptions};
use spanlith_base::Result;
use std::ptr;

/// A directory of backups.
pub struct rocksdb_backup_engine_t(BackupEngine);

/// Describes what there is to know of the backups of a directory; independent of it.
pub struct rocksdb_backup_engine_info_t(Vec<BackupInfo>);

fn open(
    mut options: BackupOptions,
    own: Option<&rocksdb_env_t>,
    env: &rocksdb_env_t,
) -> Result<*mut rocksdb_backup_engine_t> {
    own.unwrap_or(env).prepare(&options.dir)?;
    options.env = own.map(|own| own.env.clone());
    let engine = BackupEngine::open(options, &env.env)?;
    Ok(boxed(rocksdb_backup_engine_t(engine)))
}

c_api! {
    /// Opens a directory of backups in the environment of the options; makes it if it is missing.
    fn rocksdb_backup_engine_open(
        options: *const rocksdb_options_t,
        dir: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_backup_engine_t {
        report(errptr, ptr::null_mut(), || open(BackupOptions::new(path(dir)), None, &(*options).env))
    }

    /// As `rocksdb_backup_engine_open`, with options. `env` is the databases' environment; the backups' is the
    /// options', or else the same.
    fn rocksdb_backup_engine_open_opts(
        options: *const rocksdb_backup_engine_options_t,
        env: *mut rocksdb_env_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_backup_engine_t {
        report(errptr, ptr::null_mut(), || {
            let options = &*options;
            first_complaint(&options.deferred)?;
            let env = env.as_ref().cloned().unwrap_or_default();
            open(options.options(&env.env), options.env.as_ref(), &env)
        })
    }

    /// Makes a backup. Logs are in it; what was written without a log is not.
    fn rocksdb_backup_engine_create_new_backup(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            (*be).0.create((*db).cf.db(), &CreateBackupOptions::default()).map(drop)
        });
    }

    /// Makes a backup; 1 flushes memtables first.
    fn rocksdb_backup_engine_create_new_backup_flush(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        flush_before_backup: u8,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let mut options = CreateBackupOptions::default();
            options.flush_before_backup = flush_before_backup != 0;
            (*be).0.create((*db).cf.db(), &options).map(drop)
        });
    }

    /// Makes a backup, and says its number if `backup_id` is not NULL.
    fn rocksdb_backup_engine_create_new_backup_with_options(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_create_backup_options_t,
        backup_id: *mut u32,
        errptr: *mut *mut c_char,
    ) {
        rocksdb_backup_engine_create_new_backup_with_metadata(
            be, db, options, ptr::null(), 0, backup_id, errptr,
        );
    }

    /// As `rocksdb_backup_engine_create_new_backup_with_options`; keeps some bytes of the program with the backup.
    fn rocksdb_backup_engine_create_new_backup_with_metadata(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_create_backup_options_t,
        app_metadata: *const c_char,
        app_metadata_len: usize,
        backup_id: *mut u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let mut how = match options.as_ref() {
                Some(options) => options.options()?,
                None => CreateBackupOptions::default(),
            };
            how.app_metadata = bytes(app_metadata, app_metadata_len).to_vec();
            let id = (*be).0.create((*db).cf.db(), &how)?;
            if let Some(out) = backup_id.as_mut() {
                *out = id;
            }
            Ok(())
        });
    }

    /// Deletes the oldest backups until so many are left.
    fn rocksdb_backup_engine_purge_old_backups(
        be: *mut rocksdb_backup_engine_t,
        num_backups_to_keep: u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*be).0.purge(num_backups_to_keep));
    }

    /// Says whether the files of a backup are there and have their sizes; their bytes are not read.
    fn rocksdb_backup_engine_verify_backup(
        be: *mut rocksdb_backup_engine_t,
        backup_id: u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*be).0.verify(backup_id, false));
    }

    /// Restores the newest backup as the database in `db_dir`, which nobody has open, with its logs in `wal_dir`.
    fn rocksdb_backup_engine_restore_db_from_latest_backup(
        be: *mut rocksdb_backup_engine_t,
        db_dir: *const c_char,
        wal_dir: *const c_char,
        restore_options: *const rocksdb_restore_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let how = (*restore_options).options()?;
            (*be).0.restore(None, path(db_dir), path(wal_dir), &how)
        });
    }

    /// As `rocksdb_backup_engine_restore_db_from_latest_backup`, of a given backup.
    fn rocksdb_backup_engine_restore_db_from_backup(
        be: *mut rocksdb_backup_engine_t,
        db_dir: *const c_char,
        wal_dir: *const c_char,
        restore_options: *const rocksdb_restore_options_t,
        backup_id: u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let how = (*restore_options).options()?;
            (*be).0.restore(Some(backup_id), path(db_dir), path(wal_dir), &how)
        });
    }

    /// Ends the backup that another thread makes, and refuses all further ones.
    fn rocksdb_backup_engine_stop_backup(be: *mut rocksdb_backup_engine_t) {
        (*be).0.stop();
    }

    /// Closes the directory; NULL is ignored.
    fn rocksdb_backup_engine_close(be: *mut rocksdb_backup_engine_t) {
        drop(unbox(be));
    }

    /// The backups that can be restored, the oldest first.
    fn rocksdb_backup_engine_get_backup_info(
        be: *mut rocksdb_backup_engine_t,
    ) -> *const rocksdb_backup_engine_info_t {
        boxed(rocksdb_backup_engine_info_t((*be).0.backups())).cast_const()
    }

    /// Number of backups.
    fn rocksdb_backup_engine_info_count(info: *const rocksdb_backup_engine_info_t) -> i32 {
        i32::try_from((*info).0.len()).unwrap_or(i32::MAX)
    }

    /// Returns what the program gave with a backup, lent; NULL without such a backup.
    fn rocksdb_backup_engine_info_app_metadata(
        info: *const rocksdb_backup_engine_info_t,
        index: i32,
        len: *mut usize,
    ) -> *const c_char {
        lend_if(of(&*info, index).map(|b| &b.app_metadata[..]), len)
    }

    /// Destroys a list of backups; NULL is ignored.
    fn rocksdb_backup_engine_info_destroy(info: *const rocksdb_backup_engine_info_t) {
        drop(unbox(info.cast_mut()));
    }
}

fn of(info: &rocksdb_backup_engine_info_t, index: i32) -> Option<&BackupInfo> {
    info.0.get(usize::try_from(index).ok()?)
}

macro_rules! facts {
    ($($(#[$meta:meta])* $get:ident -> $ty:ty: $field:ident;)*) => {
        c_api! {$(
            $(#[$meta])*
            fn $get(info: *const rocksdb_backup_engine_info_t, index: i32) -> $ty {
                of(&*info, index).map_or(0, |b| b.$field)
            }
        )*}
    };
}

facts! {
    /// When a backup was begun, in Unix seconds.
    rocksdb_backup_engine_info_timestamp -> i64: timestamp;
    /// The number of a backup.
    rocksdb_backup_engine_info_backup_id -> u32: id;
    /// Bytes of the files of a backup, shared ones among them.
    rocksdb_backup_engine_info_size -> u64: size;
    /// Number of the files of a backup.
    rocksdb_backup_engine_info_number_files -> u32: files;
}
