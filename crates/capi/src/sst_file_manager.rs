//! `rocksdb_sst_file_manager_t`: space and deletion rate of table files; directories of tables.

use crate::env::rocksdb_env_t;
use crate::ffi::{array, boxed, path};
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith::DbPath;
use spanlith_env::{SstFileManager, SstFileManagerOptions};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Adds up and limits the space of table files; a counted reference.
pub struct rocksdb_sst_file_manager_t {
    manager: Arc<SstFileManager>,
    /// Bytes per second as they were set: the getter gives back negative ones, which mean none, too.
    delete_rate: AtomicI64,
    /// Deletes trash while somebody uses the manager.
    thread: Arc<dyn Any + Send + Sync>,
}

/// A directory for tables.
pub struct rocksdb_dbpath_t(DbPath);

/// A manager attached to options, with its thread.
#[derive(Clone)]
pub(crate) struct Managed {
    pub(crate) manager: Arc<SstFileManager>,
    _thread: Arc<dyn Any + Send + Sync>,
}

/// The thread of a manager; stops when it is dropped.
struct Running(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

c_api! {
    /// A manager without limits.
    fn rocksdb_sst_file_manager_create(
        env: *mut rocksdb_env_t,
    ) -> *mut rocksdb_sst_file_manager_t {
        let env = env.as_ref().cloned().unwrap_or_default().env;
        let manager = SstFileManager::new(&env, SstFileManagerOptions::default());
        let thread = Arc::new(Running(manager.start(&env)));
        boxed(rocksdb_sst_file_manager_t { manager, delete_rate: AtomicI64::new(0), thread })
    }

    /// Bytes of tables at which flushes fail; 0 is no limit.
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(
        sfm: *mut rocksdb_sst_file_manager_t,
        max_allowed_space: u64,
    ) {
        (*sfm).manager.change(|o| o.max_space_bytes = max_allowed_space);
    }

    /// Bytes to keep free for compactions.
    fn rocksdb_sst_file_manager_set_compaction_buffer_size(
        sfm: *mut rocksdb_sst_file_manager_t,
        compaction_buffer_size: u64,
    ) {
        (*sfm).manager.change(|o| o.compaction_buffer_bytes = compaction_buffer_size);
    }

    /// Returns whether the limit is reached.
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> bool {
        (*sfm).manager.is_space_limit_reached()
    }

    /// Returns whether the limit is reached once running compactions have written their tables.
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> bool {
        (*sfm).manager.is_space_limit_reached_with_compactions()
    }

    /// Bytes of tables.
    fn rocksdb_sst_file_manager_get_total_size(sfm: *mut rocksdb_sst_file_manager_t) -> u64 {
        (*sfm).manager.total_bytes()
    }

    /// Bytes of files that wait to be deleted.
    fn rocksdb_sst_file_manager_get_total_trash_size(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> u64 {
        (*sfm).manager.trash_bytes()
    }

    /// Bytes deleted per second; 0 for at once.
    fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> i64 {
        // Publishes nothing but itself.
        (*sfm).delete_rate.load(Ordering::Relaxed)
    }

    /// Sets the bytes deleted per second; 0 or less for at once.
    fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(
        sfm: *mut rocksdb_sst_file_manager_t,
        delete_rate: i64,
    ) {
        let rate = u64::try_from(delete_rate).unwrap_or(0);
        (*sfm).delete_rate.store(delete_rate, Ordering::Relaxed);
        (*sfm).manager.change(|o| o.delete_bytes_per_second = rate);
    }

    /// Trash as a part of all bytes above which files are deleted at once.
    fn rocksdb_sst_file_manager_get_max_trash_db_ratio(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> f64 {
        (*sfm).manager.options().max_trash_ratio
    }

    /// Sets the part of all bytes above which trash is deleted at once.
    fn rocksdb_sst_file_manager_set_max_trash_db_ratio(
        sfm: *mut rocksdb_sst_file_manager_t,
        ratio: f64,
    ) {
        (*sfm).manager.change(|o| o.max_trash_ratio = ratio);
    }

    /// Shares a manager; NULL is ignored.
    fn rocksdb_options_set_sst_file_manager(
        options: *mut rocksdb_options_t,
        sfm: *mut rocksdb_sst_file_manager_t,
    ) {
        if let Some(sfm) = sfm.as_ref() {
            let (manager, _thread) = (sfm.manager.clone(), sfm.thread.clone());
            (*options).parts.sst_files = Some(Managed { manager, _thread });
        }
    }

    /// A directory, and the bytes of tables it should hold.
    fn rocksdb_dbpath_create(name: *const c_char, target_size: u64) -> *mut rocksdb_dbpath_t {
        boxed(rocksdb_dbpath_t(DbPath { dir: path(name), target_bytes: target_size }))
    }

    /// Copies the directories of tables of families that have no own ones.
    fn rocksdb_options_set_db_paths(
        options: *mut rocksdb_options_t,
        path_values: *const *const rocksdb_dbpath_t,
        num_paths: usize,
    ) {
        let paths = array(path_values, num_paths);
        (*options).parts.db_paths = paths.iter().map(|p| (**p).0.clone()).collect();
    }

    /// Copies the directories of tables of a family.
    fn rocksdb_options_set_cf_paths(
        options: *mut rocksdb_options_t,
        path_values: *const *const rocksdb_dbpath_t,
        num_paths: usize,
    ) {
        let paths = array(path_values, num_paths);
        (*options).parts.cf_paths = paths.iter().map(|p| (**p).0.clone()).collect();
    }
}

destroyers! {
    rocksdb_sst_file_manager_destroy(rocksdb_sst_file_manager_t);
    rocksdb_dbpath_destroy(rocksdb_dbpath_t);
}
