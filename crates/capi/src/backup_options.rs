//! Options of backups, of one backup, and of restoring.

use crate::comparator::State;
use crate::convert::{Deferred, first_complaint};
use crate::env::rocksdb_env_t;
use crate::ffi::{boxed, lend_if};
use crate::rate_limiter::rocksdb_ratelimiter_t;
use libc::{c_char, c_void};
use spanlith::{BackupNames, BackupOptions, CreateBackupOptions, RestoreMode, RestoreOptions};
use spanlith_base::Result;
use spanlith_env::{Env, RateLimiter};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// RocksDB's number of names by session and size, and the bit of it that says size.
const NAMES_DEFAULT: i32 = i32::MIN | 2;
const NAMES_BY_CHECKSUM: i32 = 1;

/// RocksDB's numbers of what stays: all that is the same, by session or by checksum; nothing.
const KEEP_SESSION: i32 = 1;
const KEEP_CHECKSUM: i32 = 2;
const PURGE_ALL: i32 = 0xffff;

/// How backups are made and restored. What only says how RocksDB's threads and temperatures are used, and what does
/// not concern engines that write, is kept and given back, and changes nothing.
pub struct rocksdb_backup_engine_options_t {
    /// As C gave it: who gets it may take it for a C string.
    dir: CString,
    pub(crate) env: Option<rocksdb_env_t>,
    share_table_files: bool,
    sync: bool,
    destroy_old_data: bool,
    backup_log_files: bool,
    backup_rate_limit: u64,
    restore_rate_limit: u64,
    backup_limiter: Option<Arc<RateLimiter>>,
    restore_limiter: Option<Arc<RateLimiter>>,
    share_files_with_checksum: bool,
    max_background_operations: i32,
    callback_trigger_interval_size: u64,
    max_valid_backups_to_open: i32,
    share_files_with_checksum_naming: i32,
    io_buffer_size: u64,
    schema_version: i32,
    current_temperatures_override_manifest: bool,
    /// Values that did not fit their option.
    pub(crate) deferred: Deferred,
}

impl Default for rocksdb_backup_engine_options_t {
    fn default() -> Self {
        Self {
            dir: CString::default(),
            env: None,
            share_table_files: true,
            sync: true,
            destroy_old_data: false,
            backup_log_files: true,
            backup_rate_limit: 0,
            restore_rate_limit: 0,
            backup_limiter: None,
            restore_limiter: None,
            share_files_with_checksum: true,
            max_background_operations: 1,
            callback_trigger_interval_size: 4 << 20,
            max_valid_backups_to_open: i32::MAX,
            share_files_with_checksum_naming: NAMES_DEFAULT,
            io_buffer_size: 0,
            schema_version: 1,
            current_temperatures_override_manifest: false,
            deferred: Deferred::new(),
        }
    }
}

impl rocksdb_backup_engine_options_t {
    pub(crate) fn options(&self, env: &Env) -> BackupOptions {
        let mut o = BackupOptions::new(Path::new(OsStr::from_bytes(self.dir.to_bytes())))
            .backup_rate_limit(self.backup_rate_limit, env)
            .restore_rate_limit(self.restore_rate_limit, env);
        if let Some(limiter) = &self.backup_limiter {
            o.backup_limiter = Some(limiter.clone());
        }
        if let Some(limiter) = &self.restore_limiter {
            o.restore_limiter = Some(limiter.clone());
        }
        o.share_table_files = self.share_table_files;
        o.sync = self.sync;
        o.destroy_old_data = self.destroy_old_data;
        o.backup_log_files = self.backup_log_files;
        o.share_files_with_checksum = self.share_files_with_checksum;
        o.progress_interval = self.callback_trigger_interval_size;
        o.io_buffer_size = self.io_buffer_size;
        o.names = match self.share_files_with_checksum_naming {
            n if n & i32::MAX == NAMES_BY_CHECKSUM => BackupNames::ChecksumAndSize,
            n if n < 0 => BackupNames::SessionAndSize,
            _ => BackupNames::Session,
        };
        o.schema_version = u32::try_from(self.schema_version).unwrap_or(0);
        o
    }
}

/// State; called as a backup goes on.
pub type ProgressFn = unsafe extern "C" fn(*mut c_void);

/// State, path of a shared file below the backup directory and its length: 1 leaves it out.
pub type ExcludeFilesFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u8;

/// How one backup is made.
pub struct rocksdb_create_backup_options_t {
    flush_before_backup: bool,
    atomic_flush: bool,
    decrease_background_thread_cpu_priority: bool,
    background_thread_cpu_priority: i32,
    progress: Option<Arc<dyn Fn() + Send + Sync>>,
    exclude: Option<spanlith::ExcludeFile>,
    /// Values that did not fit their option.
    deferred: Deferred,
}

impl Default for rocksdb_create_backup_options_t {
    fn default() -> Self {
        Self {
            flush_before_backup: false,
            atomic_flush: false,
            decrease_background_thread_cpu_priority: false,
            background_thread_cpu_priority: 2,
            progress: None,
            exclude: None,
            deferred: Deferred::new(),
        }
    }
}

impl rocksdb_create_backup_options_t {
    pub(crate) fn options(&self) -> Result<CreateBackupOptions> {
        first_complaint(&self.deferred)?;
        let mut options = CreateBackupOptions::default();
        options.flush_before_backup = self.flush_before_backup;
        options.atomic_flush = self.atomic_flush;
        options.progress.clone_from(&self.progress);
        options.exclude.clone_from(&self.exclude);
        Ok(options)
    }
}

/// How a backup is restored.
pub struct rocksdb_restore_options_t {
    keep_log_files: bool,
    mode: i32,
    /// Values that did not fit their option.
    deferred: Deferred,
}

impl Default for rocksdb_restore_options_t {
    fn default() -> Self {
        Self {
            keep_log_files: false,
            mode: PURGE_ALL,
            deferred: Deferred::new(),
        }
    }
}

impl rocksdb_restore_options_t {
    pub(crate) fn options(&self) -> Result<RestoreOptions> {
        first_complaint(&self.deferred)?;
        let mut options = RestoreOptions::default();
        options.keep_log_files = self.keep_log_files;
        options.mode = match self.mode {
            KEEP_SESSION | KEEP_CHECKSUM => RestoreMode::KeepSame,
            _ => RestoreMode::PurgeAll,
        };
        Ok(options)
    }
}

c_api! {
    /// RocksDB's defaults, for a directory of backups.
    fn rocksdb_backup_engine_options_create(
        backup_dir: *const c_char,
    ) -> *mut rocksdb_backup_engine_options_t {
        boxed(rocksdb_backup_engine_options_t {
            dir: CStr::from_ptr(backup_dir).to_owned(),
            ..Default::default()
        })
    }

    /// The directory of the backups.
    fn rocksdb_backup_engine_options_set_backup_dir(
        options: *mut rocksdb_backup_engine_options_t,
        value: *const c_char,
    ) {
        (*options).dir = CStr::from_ptr(value).to_owned();
    }

    /// The directory of the backups, lent, with its length.
    fn rocksdb_backup_engine_options_get_backup_dir(
        options: *mut rocksdb_backup_engine_options_t,
        size: *mut usize,
    ) -> *const c_char {
        let options = &*options;
        lend_if(Some(options.dir.to_bytes()), size)
    }

    /// The environment of the backups; NULL means that of the databases.
    fn rocksdb_backup_engine_options_set_env(
        options: *mut rocksdb_backup_engine_options_t,
        env: *mut rocksdb_env_t,
    ) {
        (*options).env = env.as_ref().cloned();
    }

    /// Shares a limiter of backups, which goes before a rate; NULL takes it away.
    fn rocksdb_backup_engine_options_set_backup_rate_limiter(
        options: *mut rocksdb_backup_engine_options_t,
        limiter: *mut rocksdb_ratelimiter_t,
    ) {
        (*options).backup_limiter = limiter.as_ref().map(|l| l.0.clone());
    }

    /// Shares a limiter of restoring, which goes before a rate; NULL takes it away.
    fn rocksdb_backup_engine_options_set_restore_rate_limiter(
        options: *mut rocksdb_backup_engine_options_t,
        limiter: *mut rocksdb_ratelimiter_t,
    ) {
        (*options).restore_limiter = limiter.as_ref().map(|l| l.0.clone());
    }

    /// RocksDB's defaults: nothing is flushed.
    fn rocksdb_create_backup_options_create() -> *mut rocksdb_create_backup_options_t {
        boxed(rocksdb_create_backup_options_t::default())
    }

    /// Has a function called each time `callback_trigger_interval_size` bytes more were copied; NULL calls nobody.
    fn rocksdb_create_backup_options_set_progress_callback(
        options: *mut rocksdb_create_backup_options_t,
        state: *mut c_void,
        callback: Option<ProgressFn>,
    ) {
        let state = State::new(state, None);
        (*options).progress = callback.map(|callback| {
            // SAFETY: The C API demands a function that may be called as long as the options are used.
            let call = move || unsafe { callback(the(&state)) };
            Arc::new(call) as Arc<dyn Fn() + Send + Sync>
        });
    }

    /// Has a function say which shared files are left out; NULL leaves out none. Asks for `schema_version` 2.
    fn rocksdb_create_backup_options_set_exclude_files_callback(
        options: *mut rocksdb_create_backup_options_t,
        state: *mut c_void,
        callback: Option<ExcludeFilesFn>,
    ) {
        let state = State::new(state, None);
        (*options).exclude = callback.map(|callback| {
            let call = move |path: &str| {
                // SAFETY: As above; the path is lent during the call.
                unsafe { callback(the(&state), path.as_ptr().cast(), path.len()) != 0 }
            };
            Arc::new(call) as spanlith::ExcludeFile
        });
    }

    /// RocksDB's defaults: nothing stays.
    fn rocksdb_restore_options_create() -> *mut rocksdb_restore_options_t {
        boxed(rocksdb_restore_options_t::default())
    }
}

/// Borrows all of a state, so that what borrows it may go to another thread.
fn the(state: &State) -> *mut c_void {
    state.state
}

accessors! { rocksdb_backup_engine_options_t {
    share_table_files: rocksdb_backup_engine_options_set_share_table_files(u8),
        rocksdb_backup_engine_options_get_share_table_files -> u8;
    sync: rocksdb_backup_engine_options_set_sync(u8),
        rocksdb_backup_engine_options_get_sync -> u8;
    destroy_old_data: rocksdb_backup_engine_options_set_destroy_old_data(u8),
        rocksdb_backup_engine_options_get_destroy_old_data -> u8;
    backup_log_files: rocksdb_backup_engine_options_set_backup_log_files(u8),
        rocksdb_backup_engine_options_get_backup_log_files -> u8;
    backup_rate_limit: rocksdb_backup_engine_options_set_backup_rate_limit(u64),
        rocksdb_backup_engine_options_get_backup_rate_limit -> u64;
    restore_rate_limit: rocksdb_backup_engine_options_set_restore_rate_limit(u64),
        rocksdb_backup_engine_options_get_restore_rate_limit -> u64;
    share_files_with_checksum: rocksdb_backup_engine_options_set_share_files_with_checksum(u8),
        rocksdb_backup_engine_options_get_share_files_with_checksum -> u8;
    max_background_operations: rocksdb_backup_engine_options_set_max_background_operations(i32),
        rocksdb_backup_engine_options_get_max_background_operations -> i32;
    callback_trigger_interval_size: rocksdb_backup_engine_options_set_callback_trigger_interval_size(u64),
        rocksdb_backup_engine_options_get_callback_trigger_interval_size -> u64;
    max_valid_backups_to_open: rocksdb_backup_engine_options_set_max_valid_backups_to_open(i32),
        rocksdb_backup_engine_options_get_max_valid_backups_to_open -> i32;
    share_files_with_checksum_naming: rocksdb_backup_engine_options_set_share_files_with_checksum_naming(i32),
        rocksdb_backup_engine_options_get_share_files_with_checksum_naming -> i32;
    io_buffer_size: rocksdb_backup_engine_options_set_io_buffer_size(u64),
        rocksdb_backup_engine_options_get_io_buffer_size -> u64;
    schema_version: rocksdb_backup_engine_options_set_schema_version(i32),
        rocksdb_backup_engine_options_get_schema_version -> i32;
    current_temperatures_override_manifest:
        rocksdb_backup_engine_options_set_current_temperatures_override_manifest(u8),
        rocksdb_backup_engine_options_get_current_temperatures_override_manifest -> u8;
}}

accessors! { rocksdb_create_backup_options_t {
    flush_before_backup: rocksdb_create_backup_options_set_flush_before_backup(u8),
        rocksdb_create_backup_options_get_flush_before_backup -> u8;
    atomic_flush: rocksdb_create_backup_options_set_atomic_flush(u8),
        rocksdb_create_backup_options_get_atomic_flush -> u8;
    decrease_background_thread_cpu_priority:
        rocksdb_create_backup_options_set_decrease_background_thread_cpu_priority(u8),
        rocksdb_create_backup_options_get_decrease_background_thread_cpu_priority -> u8;
    background_thread_cpu_priority: rocksdb_create_backup_options_set_background_thread_cpu_priority(i32),
        rocksdb_create_backup_options_get_background_thread_cpu_priority -> i32;
}}

accessors! { rocksdb_restore_options_t {
    keep_log_files: rocksdb_restore_options_set_keep_log_files(i32),
        rocksdb_restore_options_get_keep_log_files -> u8;
    mode: rocksdb_restore_options_set_mode(i32),
        rocksdb_restore_options_get_mode -> i32;
}}

destroyers! {
    rocksdb_backup_engine_options_destroy(rocksdb_backup_engine_options_t);
    rocksdb_create_backup_options_destroy(rocksdb_create_backup_options_t);
    rocksdb_restore_options_destroy(rocksdb_restore_options_t);
}
