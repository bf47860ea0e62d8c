//! `rocksdb_eventlistener_t`: what happens in a database, told to a C program.
//!
//! A listener is shared by the options it was added to, their copies and the databases opened with
//! them; a callback that is NULL is not called. The handle of the database that callbacks get is made
//! for the call: it is good for reading, and not to be closed. Until `open` has returned a handle,
//! background threads that have something to tell wait for it, and what the opening thread itself does
//! is not told.

use crate::comparator::{DestructorFn, State};
use crate::db::rocksdb_t;
use crate::ffi::{boxed, unbox};
use crate::job_info::{
    rocksdb_compactionjobinfo_t, rocksdb_externalfileingestioninfo_t, rocksdb_flushjobinfo_t,
    rocksdb_memtableinfo_t, rocksdb_status_ptr_t, rocksdb_subcompactionjobinfo_t,
    rocksdb_writestallinfo_t,
};
use crate::options::rocksdb_options_t;
use libc::c_void;
use spanlith::listener::{
    BackgroundErrorReason, CompactionInfo, ExternalFileInfo, FlushInfo, MemtableInfo,
    WriteStallInfo,
};
use spanlith::{EventListener, WeakDb};
use spanlith_base::Error;
use spanlith_env::Env;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

/// State, database, flush.
pub type OnFlushFn =
    unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_flushjobinfo_t);
/// State, database, compaction.
pub type OnCompactionFn =
    unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_compactionjobinfo_t);
/// State, part of a compaction.
pub type OnSubcompactionFn =
    unsafe extern "C" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t);
/// State, database, file.
pub type OnIngestedFn =
    unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_externalfileingestioninfo_t);
/// State, RocksDB's number of the reason, error.
pub type OnBackgroundErrorFn = unsafe extern "C" fn(*mut c_void, u32, *mut rocksdb_status_ptr_t);
/// State, change.
pub type OnStallFn = unsafe extern "C" fn(*mut c_void, *const rocksdb_writestallinfo_t);
/// State, memtable.
pub type OnMemtableFn = unsafe extern "C" fn(*mut c_void, *const rocksdb_memtableinfo_t);

/// The callbacks of a listener.
pub(crate) struct Callbacks {
    state: State,
    flush_begin: Option<OnFlushFn>,
    flush_completed: Option<OnFlushFn>,
    compaction_begin: Option<OnCompactionFn>,
    compaction_completed: Option<OnCompactionFn>,
    subcompaction_begin: Option<OnSubcompactionFn>,
    subcompaction_completed: Option<OnSubcompactionFn>,
    external_file_ingested: Option<OnIngestedFn>,
    background_error: Option<OnBackgroundErrorFn>,
    stall_conditions_changed: Option<OnStallFn>,
    memtable_sealed: Option<OnMemtableFn>,
}

/// A listener.
pub struct rocksdb_eventlistener_t(Arc<Callbacks>);

/// Where the listeners of one database find it.
pub(crate) struct Place {
    opener: ThreadId,
    env: Env,
    /// `None` if it could not be opened.
    db: OnceLock<Option<WeakDb>>,
}

impl Place {
    /// A database that the calling thread is about to open.
    pub(crate) fn new(env: Env) -> Arc<Self> {
        Arc::new(Self {
            opener: thread::current().id(),
            env,
            db: OnceLock::new(),
        })
    }

    /// Says where it is, once it is open, or that it could not be opened.
    pub(crate) fn set(&self, db: Option<WeakDb>) {
        // Nobody else sets it.
        let _ = self.db.set(db);
    }

    /// Calls with a handle, if there is a database.
    fn with(&self, call: impl FnOnce(*mut rocksdb_t)) {
        let db = match self.db.get() {
            Some(db) => db,
            None if thread::current().id() == self.opener => return,
            None => self.db.wait(),
        };
        if let Some(db) = db.as_ref().and_then(WeakDb::upgrade) {
            let mut handle = rocksdb_t::lent(db.default_cf(), self.env.clone());
            call(&raw mut handle);
        }
    }
}

/// A listener of one database.
pub(crate) struct Listener {
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) place: Arc<Place>,
}

macro_rules! told {
    ($($method:ident($facts:ty) => $callback:ident($info:ident) $(with $db:ident)?;)*) => {
        impl EventListener for Listener {
            $(told! { @method $method($facts) => $callback($info) $(with $db)? })*

            fn on_background_error(
                &self,
                reason: BackgroundErrorReason,
                error: &mut Option<Error>,
            ) {
                if let Some(callback) = self.callbacks.background_error {
                    let mut status = rocksdb_status_ptr_t(error.take());
                    // SAFETY: The callback was made for these arguments.
                    unsafe { callback(self.callbacks.state.state, reason as u32, &raw mut status) };
                    *error = status.0;
                }
            }
        }
    };
    (@method $method:ident($facts:ty) => $callback:ident($info:ident)) => {
        fn $method(&self, info: &$facts) {
            if let Some(callback) = self.callbacks.$callback {
                let info = $info::new(info);
                // SAFETY: The callback was made for these arguments.
                unsafe { callback(self.callbacks.state.state, &raw const info) };
            }
        }
    };
    (@method $method:ident($facts:ty) => $callback:ident($info:ident) with $db:ident) => {
        fn $method(&self, info: &$facts) {
            if let Some(callback) = self.callbacks.$callback {
                let info = $info::new(info);
                let state = self.callbacks.state.state;
                // SAFETY: The callback was made for these arguments.
                self.place.with(|$db| unsafe { callback(state, $db, &raw const info) });
            }
        }
    };
}

told! {
    on_flush_begin(FlushInfo) => flush_begin(rocksdb_flushjobinfo_t) with db;
    on_flush_completed(FlushInfo) => flush_completed(rocksdb_flushjobinfo_t) with db;
    on_compaction_begin(CompactionInfo) => compaction_begin(rocksdb_compactionjobinfo_t) with db;
    on_compaction_completed(CompactionInfo) =>
        compaction_completed(rocksdb_compactionjobinfo_t) with db;
    on_subcompaction_begin(CompactionInfo) => subcompaction_begin(rocksdb_subcompactionjobinfo_t);
    on_subcompaction_completed(CompactionInfo) =>
        subcompaction_completed(rocksdb_subcompactionjobinfo_t);
    on_external_file_ingested(ExternalFileInfo) =>
        external_file_ingested(rocksdb_externalfileingestioninfo_t) with db;
    on_stall_conditions_changed(WriteStallInfo) =>
        stall_conditions_changed(rocksdb_writestallinfo_t);
    on_memtable_sealed(MemtableInfo) => memtable_sealed(rocksdb_memtableinfo_t);
}

c_api! {
    /// A listener by callbacks; those that are NULL are not called.
    fn rocksdb_eventlistener_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        on_flush_begin: Option<OnFlushFn>,
        on_flush_completed: Option<OnFlushFn>,
        on_compaction_begin: Option<OnCompactionFn>,
        on_compaction_completed: Option<OnCompactionFn>,
        on_subcompaction_begin: Option<OnSubcompactionFn>,
        on_subcompaction_completed: Option<OnSubcompactionFn>,
        on_external_file_ingested: Option<OnIngestedFn>,
        on_background_error: Option<OnBackgroundErrorFn>,
        on_stall_conditions_changed: Option<OnStallFn>,
        on_memtable_sealed: Option<OnMemtableFn>,
    ) -> *mut rocksdb_eventlistener_t {
        boxed(rocksdb_eventlistener_t(Arc::new(Callbacks {
            state: State::new(state, destructor),
            flush_begin: on_flush_begin,
            flush_completed: on_flush_completed,
            compaction_begin: on_compaction_begin,
            compaction_completed: on_compaction_completed,
            subcompaction_begin: on_subcompaction_begin,
            subcompaction_completed: on_subcompaction_completed,
            external_file_ingested: on_external_file_ingested,
            background_error: on_background_error,
            stall_conditions_changed: on_stall_conditions_changed,
            memtable_sealed: on_memtable_sealed,
        })))
    }

    /// Takes a listener; listeners are told in the order in which they were added.
    fn rocksdb_options_add_eventlistener(
        options: *mut rocksdb_options_t,
        listener: *mut rocksdb_eventlistener_t,
    ) {
        if let Some(listener) = unbox(listener) {
            (*options).parts.listeners.push(listener.0);
        }
    }
}

destroyers! {
    rocksdb_eventlistener_destroy(rocksdb_eventlistener_t);
}
