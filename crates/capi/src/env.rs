//! `rocksdb_env_t`: the outside world, and its threads.

use crate::ffi::{boxed, path, report};
use libc::c_char;
use spanlith_base::Result;
use spanlith_env::mem::MemFs;
use spanlith_env::{Env, JobClass, Lowered};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// An environment: the process's own, or one whose files are in memory. A counted reference.
#[derive(Clone)]
pub struct rocksdb_env_t {
    pub(crate) env: Env,
    in_memory: bool,
}

impl Default for rocksdb_env_t {
    fn default() -> Self {
        Self {
            env: Env::system(),
            in_memory: false,
        }
    }
}

impl rocksdb_env_t {
    /// In memory every directory above a database counts as there.
    pub(crate) fn prepare(&self, dir: &Path) -> Result<()> {
        let mut above: Vec<&Path> = dir.ancestors().skip(1).collect();
        above.retain(|d| self.in_memory && !d.as_os_str().is_empty());
        above
            .iter()
            .rev()
            .try_for_each(|d| self.env.fs.create_dir_if_missing(d))
    }
}

/// Numbers of threads that were asked for, by class; for the getters only. Relaxed: they order
/// nothing.
static LOW: AtomicI32 = AtomicI32::new(0);
static HIGH: AtomicI32 = AtomicI32::new(0);
static BOTTOM: AtomicI32 = AtomicI32::new(0);
static REQUEST: AtomicI32 = AtomicI32::new(0);

fn asked_for(class: JobClass) -> &'static AtomicI32 {
    match class {
        JobClass::Low => &LOW,
        JobClass::High => &HIGH,
        JobClass::Bottom => &BOTTOM,
        JobClass::Request => &REQUEST,
    }
}

/// Makes at least `threads` threads available to a class; all databases share them.
pub(crate) fn set_threads(class: JobClass, threads: i32) {
    asked_for(class).store(threads, Ordering::Relaxed);
    if let Ok(n @ 1..) = usize::try_from(threads) {
        Env::system().executor.reserve(class, n);
    }
}

fn threads(class: JobClass) -> i32 {
    asked_for(class).load(Ordering::Relaxed)
}

/// The priority for the processor that threads are lowered to, RocksDB's.
const NICE: u8 = 19;

/// Lowers a priority of the threads of a class; all databases share them.
fn lower(class: JobClass, what: Lowered) {
    Env::system().executor.lower(class, what);
}

macro_rules! pools {
    ($($class:ident: $set:ident, $get:ident;)*) => {
        c_api! {$(
            /// Sets the number of threads of a class of background jobs; there are never fewer than
            /// open databases need.
            fn $set(_env: *mut rocksdb_env_t, n: i32) {
                set_threads(JobClass::$class, n);
            }

            /// Number of threads that was asked for.
            fn $get(_env: *mut rocksdb_env_t) -> i32 {
                threads(JobClass::$class)
            }
        )*}
    };
}

pools! {
    Low: rocksdb_env_set_background_threads, rocksdb_env_get_background_threads;
    Low: rocksdb_env_set_low_priority_background_threads,
        rocksdb_env_get_low_priority_background_threads;
    High: rocksdb_env_set_high_priority_background_threads,
        rocksdb_env_get_high_priority_background_threads;
    Bottom: rocksdb_env_set_bottom_priority_background_threads,
        rocksdb_env_get_bottom_priority_background_threads;
}

c_api! {
    /// The process's own environment.
    fn rocksdb_create_default_env() -> *mut rocksdb_env_t {
        boxed(rocksdb_env_t::default())
    }

    /// An environment whose files are in memory and go with the last user.
    fn rocksdb_create_mem_env() -> *mut rocksdb_env_t {
        let env = Env { fs: Arc::new(MemFs::new()), ..Env::system() };
        boxed(rocksdb_env_t { env, in_memory: true })
    }

    /// Waits for the environment's threads, which belong to the process and wait for work: nothing.
    fn rocksdb_env_join_all_threads(_env: *mut rocksdb_env_t) {}

    /// Has the disk serve the threads of compactions when nobody else wants it.
    fn rocksdb_env_lower_thread_pool_io_priority(_env: *mut rocksdb_env_t) {
        lower(JobClass::Low, Lowered::Disk);
    }

    /// The same for the threads of flushes.
    fn rocksdb_env_lower_high_priority_thread_pool_io_priority(_env: *mut rocksdb_env_t) {
        lower(JobClass::High, Lowered::Disk);
    }

    /// Lowers the priority of the threads of compactions for the processor.
    fn rocksdb_env_lower_thread_pool_cpu_priority(_env: *mut rocksdb_env_t) {
        lower(JobClass::Low, Lowered::Processor(NICE));
    }

    /// The same for the threads of flushes.
    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority(_env: *mut rocksdb_env_t) {
        lower(JobClass::High, Lowered::Processor(NICE));
    }

    /// Creates a directory if it is not there.
    fn rocksdb_create_dir_if_missing(
        env: *mut rocksdb_env_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let (env, dir) = (&*env, path(name));
            env.prepare(&dir)?;
            env.env.fs.create_dir_if_missing(&dir)
        });
    }
}

destroyers! {
    rocksdb_env_destroy(rocksdb_env_t);
}
