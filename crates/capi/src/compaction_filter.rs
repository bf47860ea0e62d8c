//! `rocksdb_compactionfilter_t` and its factories: C code that drops or changes entries while
//! compactions rewrite them.

use crate::comparator::{DestructorFn, NameFn, State};
use crate::ffi::{boxed, bytes, text, unbox};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValue,
};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A filter; shared with the options and databases that use it.
pub struct rocksdb_compactionfilter_t(Arc<CFilter>);

/// Describes what a factory knows of the job its filter is for; lent during the call.
pub struct rocksdb_compactionfiltercontext_t(FilterContext);

/// Makes filters.
pub struct rocksdb_compactionfilterfactory_t(Arc<dyn CompactionFilterFactory>);

/// State, level, key, value, new value and its length, whether it changed: 1 drops the entry.
pub type FilterFn = unsafe extern "C" fn(
    *mut c_void,
    i32,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut u8,
) -> u8;
/// State, context: a filter, or NULL for none.
pub type CreateFilterFn = unsafe extern "C" fn(
    *mut c_void,
    *mut rocksdb_compactionfiltercontext_t,
) -> *mut rocksdb_compactionfilter_t;

struct CFilter {
    state: State,
    filter: FilterFn,
    name: String,
    /// Relaxed: it is set before the filter is used.
    ignores_snapshots: AtomicBool,
}

impl CompactionFilter for CFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        // C filters see values only, as RocksDB's do.
        let FilterValue::Value(value) = value else {
            return FilterDecision::Keep;
        };
        let (mut new, mut len, mut changed) = (ptr::null_mut(), 0, 0);
        // SAFETY: The pointers are valid for their lengths; the function is the C program's.
        let drops = unsafe {
            (self.filter)(
                self.state.state,
                level as i32,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &raw mut new,
                &raw mut len,
                &raw mut changed,
            )
        };
        if drops != 0 {
            FilterDecision::Remove
        } else if changed != 0 {
            // SAFETY: The callback set a buffer of its own, which is copied.
            FilterDecision::ChangeValue(unsafe { bytes(new, len) }.to_vec())
        } else {
            FilterDecision::Keep
        }
    }

    fn ignore_snapshots(&self) -> bool {
        self.ignores_snapshots.load(Ordering::Relaxed)
    }
}

/// A filter that a factory made: goes with the job.
struct Made(Box<rocksdb_compactionfilter_t>);

impl CompactionFilter for Made {
    fn name(&self) -> &str {
        self.0.0.name()
    }

    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        self.0.0.filter(level, key, value)
    }

    fn ignore_snapshots(&self) -> bool {
        self.0.0.ignore_snapshots()
    }
}

struct CFactory {
    state: State,
    create: CreateFilterFn,
    name: String,
}

impl CompactionFilterFactory for CFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, context: &FilterContext) -> Option<Box<dyn CompactionFilter>> {
        let mut context = rocksdb_compactionfiltercontext_t(context.clone());
        // SAFETY: The context is lent during the call; the result is the caller's to give away.
        let made = unsafe { unbox((self.create)(self.state.state, &raw mut context)) };
        made.map(|filter| Box::new(Made(filter)) as Box<dyn CompactionFilter>)
    }
}

c_api! {
    /// A filter by a callback.
    fn rocksdb_compactionfilter_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        filter: FilterFn,
        name: NameFn,
    ) -> *mut rocksdb_compactionfilter_t {
        let name = text(name(state)).into_owned();
        let state = State::new(state, destructor);
        let ignores_snapshots = AtomicBool::new(true);
        boxed(rocksdb_compactionfilter_t(Arc::new(CFilter {
            state,
            filter,
            name,
            ignores_snapshots,
        })))
    }

    /// Says whether the filter sees entries that snapshots see, too; compactions fail if not.
    fn rocksdb_compactionfilter_set_ignore_snapshots(
        filter: *mut rocksdb_compactionfilter_t,
        value: u8,
    ) {
        let filter = &*filter;
        filter.0.ignores_snapshots.store(value != 0, Ordering::Relaxed);
    }

    /// Returns whether the job reads all files of the family.
    fn rocksdb_compactionfiltercontext_is_full_compaction(
        context: *mut rocksdb_compactionfiltercontext_t,
    ) -> u8 {
        (*context).0.is_full_compaction.into()
    }

    /// Returns whether a caller asked for the compaction.
    fn rocksdb_compactionfiltercontext_is_manual_compaction(
        context: *mut rocksdb_compactionfiltercontext_t,
    ) -> u8 {
        (*context).0.is_manual_compaction.into()
    }

    /// A factory by a callback.
    fn rocksdb_compactionfilterfactory_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        create_compaction_filter: CreateFilterFn,
        name: NameFn,
    ) -> *mut rocksdb_compactionfilterfactory_t {
        let name = text(name(state)).into_owned();
        let state = State::new(state, destructor);
        let factory = CFactory { state, create: create_compaction_filter, name };
        boxed(rocksdb_compactionfilterfactory_t(Arc::new(factory)))
    }

    /// Shares a filter; NULL removes it.
    fn rocksdb_options_set_compaction_filter(
        options: *mut rocksdb_options_t,
        filter: *mut rocksdb_compactionfilter_t,
    ) {
        let filter = filter.as_ref().map(|f| f.0.clone() as Arc<dyn CompactionFilter>);
        (*options).parts.compaction_filter = filter;
    }

    /// Takes a factory; NULL removes it.
    fn rocksdb_options_set_compaction_filter_factory(
        options: *mut rocksdb_options_t,
        factory: *mut rocksdb_compactionfilterfactory_t,
    ) {
        (*options).parts.compaction_filter_factory = unbox(factory).map(|f| f.0);
    }
}

destroyers! {
    rocksdb_compactionfilter_destroy(rocksdb_compactionfilter_t);
    rocksdb_compactionfilterfactory_destroy(rocksdb_compactionfilterfactory_t);
}
