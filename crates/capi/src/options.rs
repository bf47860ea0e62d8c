//! `rocksdb_options_t`: settings of database and column family in one object, and the components
//! attached to it.

use crate::comparator::rocksdb_comparator_t;
use crate::convert::{Deferred, first_complaint};
use crate::env::rocksdb_env_t;
use crate::event_listener::Callbacks;
use crate::ffi::{array, boxed, text, unbox};
use crate::generation;
use crate::hint_sets::HintSets;
use crate::merge_operator::rocksdb_mergeoperator_t;
use crate::older::OlderOptions;
use crate::sst_file_manager::Managed;
use crate::table_options::rocksdb_block_based_table_options_t;
use libc::c_char;
use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType, DbOptions};
use spanlith::{
    Collectors, CompactionFilter, CompactionFilterFactory, DbPath, DefaultCache, Logger,
    MergeOperator, UInt64Add, WalFilter,
};
use spanlith_base::stats::Statistics;
use spanlith_base::{Comparator, Result, SliceTransform, WriteBufferManager};
use spanlith_env::{Env, RateLimiter};
use spanlith_table::BlockCache;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

/// Options of a database and of a column family.
#[derive(Default)]
pub struct rocksdb_options_t {
    pub(crate) db: DbOptions,
    pub(crate) cf: CfOptions,
    pub(crate) table: BlockBasedTableOptions,
    pub(crate) comparator: Comparator,
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    pub(crate) prefix_extractor: Option<SliceTransform>,
    pub(crate) block_cache: Option<BlockCache>,
    pub(crate) env: rocksdb_env_t,
    pub(crate) statistics: Option<Arc<Statistics>>,
    pub(crate) parts: Parts,
    /// Values that did not fit their option; opening reports them.
    pub(crate) deferred: Deferred,
    pub(crate) texts: Texts,
}

/// Components that databases opened with the options share.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) rate_limiter: Option<Arc<RateLimiter>>,
    pub(crate) write_buffers: Option<Arc<WriteBufferManager>>,
    pub(crate) row_cache: Option<BlockCache>,
    pub(crate) blob_cache: Option<BlockCache>,
    pub(crate) sst_files: Option<Managed>,
    /// Used by families without a block cache of their own; belongs to the table factory, as in RocksDB.
    pub(crate) default_cache: DefaultCache,
    pub(crate) db_paths: Vec<DbPath>,
    pub(crate) cf_paths: Vec<DbPath>,
    pub(crate) logger: Option<Arc<dyn Logger>>,
    pub(crate) listeners: Vec<Arc<Callbacks>>,
    pub(crate) compaction_filter: Option<Arc<dyn CompactionFilter>>,
    pub(crate) compaction_filter_factory: Option<Arc<dyn CompactionFilterFactory>>,
    pub(crate) collectors: Collectors,
    pub(crate) wal_filter: Option<Arc<dyn WalFilter>>,
    pub(crate) hint_sets: HintSets,
    pub(crate) older: OlderOptions,
}

/// Strings lent to the C program; each lives as long as the handle.
#[derive(Default)]
pub(crate) struct Texts(Mutex<Vec<CString>>);

impl Texts {
    /// A NUL-terminated copy of `text` (up to its first NUL), which stays until the handle goes.
    fn lend(&self, text: &str) -> *const c_char {
        let end = text.bytes().position(|b| b == 0).unwrap_or(text.len());
        let copy = CString::new(&text[..end]).unwrap_or_default();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|k| *k == copy).unwrap_or_else(|| {
            kept.push(copy);
            kept.len() - 1
        });
        kept[at].as_ptr()
    }
}

impl rocksdb_options_t {
    /// Settings and components again; strings that were lent stay with the original.
    pub(crate) fn copy(&self) -> Self {
        Self {
            db: self.db.clone(),
            cf: self.cf.clone(),
            table: self.table.clone(),
            comparator: self.comparator.clone(),
            merge_operator: self.merge_operator.clone(),
            prefix_extractor: self.prefix_extractor.clone(),
            block_cache: self.block_cache.clone(),
            env: self.env.clone(),
            statistics: self.statistics.clone(),
            parts: self.parts.clone(),
            deferred: self.deferred.clone(),
            texts: Texts::default(),
        }
    }

    /// The first value that did not fit its option.
    pub(crate) fn check(&self) -> Result<()> {
        first_complaint(&self.deferred)
    }

    /// The outside world of databases opened with these options.
    pub(crate) fn env(&self) -> Env {
        self.env.env.clone()
    }
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_options_create() -> *mut rocksdb_options_t {
        let mut options = rocksdb_options_t::default();
        generation::adjust_options(&mut options);
        boxed(options)
    }

    /// A copy that shares the attached components.
    fn rocksdb_options_create_copy(options: *mut rocksdb_options_t) -> *mut rocksdb_options_t {
        boxed((*options).copy())
    }

    /// Copies table options, and shares their block cache.
    fn rocksdb_options_set_block_based_table_factory(
        options: *mut rocksdb_options_t,
        table_options: *mut rocksdb_block_based_table_options_t,
    ) {
        if table_options.is_null() {
            return;
        }
        let (o, t) = (&mut *options, &*table_options);
        o.cf.table_factory = "BlockBasedTable".to_string();
        o.table = t.table.clone();
        o.block_cache = t.block_cache.clone();
        o.parts.default_cache = DefaultCache::default();
        o.deferred.retain(|name, _| !name.starts_with("table."));
        o.deferred.extend(t.deferred.iter().map(|(name, e)| (*name, e.clone())));
    }

    /// Orders keys by `comparator`; NULL means by bytes.
    fn rocksdb_options_set_comparator(
        options: *mut rocksdb_options_t,
        comparator: *mut rocksdb_comparator_t,
    ) {
        let o = &mut *options;
        o.comparator = comparator.as_ref().map_or(Comparator::Bytewise, |c| c.0.clone());
        o.cf.comparator = o.comparator.name().to_string();
        o.deferred.remove("comparator");
    }

    /// Takes a merge operator; NULL removes it.
    fn rocksdb_options_set_merge_operator(
        options: *mut rocksdb_options_t,
        merge_operator: *mut rocksdb_mergeoperator_t,
    ) {
        set_merge_operator(&mut *options, unbox(merge_operator).map(|m| m.0));
    }

    /// Adds 64-bit little-endian integers.
    fn rocksdb_options_set_uint64add_merge_operator(options: *mut rocksdb_options_t) {
        set_merge_operator(&mut *options, Some(Arc::new(UInt64Add)));
    }

    /// The outside world; NULL means the default.
    fn rocksdb_options_set_env(options: *mut rocksdb_options_t, env: *mut rocksdb_env_t) {
        (*options).env = env.as_ref().cloned().unwrap_or_default();
    }

    /// Codec of each level; the last counts for all deeper ones.
    fn rocksdb_options_set_compression_per_level(
        options: *mut rocksdb_options_t,
        level_values: *const i32,
        num_levels: usize,
    ) {
        let o = &mut *options;
        let mut all = vec![CompressionType::None; num_levels];
        o.deferred.remove("cf.compression_per_level");
        for (slot, &value) in all.iter_mut().zip(array(level_values, num_levels)) {
            let mut bad = Deferred::new();
            crate::convert::assign(slot, value, "cf.compression_per_level", &mut bad);
            o.deferred.append(&mut bad);
        }
        o.cf.compression_per_level = all;
    }

    /// Further factors of level sizes.
    fn rocksdb_options_set_max_bytes_for_level_multiplier_additional(
        options: *mut rocksdb_options_t,
        level_values: *mut i32,
        num_levels: usize,
    ) {
        (*options).cf.max_bytes_for_level_multiplier_additional =
            array(level_values, num_levels).to_vec();
    }
}

fn set_merge_operator(o: &mut rocksdb_options_t, operator: Option<Arc<dyn MergeOperator>>) {
    o.cf.merge_operator = operator
        .as_ref()
        .map_or("nullptr", |m| m.name())
        .to_string();
    o.merge_operator = operator;
    o.deferred.remove("merge_operator");
}

macro_rules! strings {
    ($($field:ident: $set:ident, $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(options: *mut rocksdb_options_t, value: *const c_char) {
                (*options).db.$field = text(value).into_owned();
            }

            #[doc = concat!("Value of `", stringify!($field), "`, lent by the options.")]
            fn $get(options: *mut rocksdb_options_t, size: *mut usize) -> *const c_char {
                let o = &*options;
                if let Some(size) = size.as_mut() {
                    *size = o.db.$field.len();
                }
                o.texts.lend(&o.db.$field)
            }
        )*}
    };
}

strings! {
    db_log_dir: rocksdb_options_set_db_log_dir, rocksdb_options_get_db_log_dir;
    wal_dir: rocksdb_options_set_wal_dir, rocksdb_options_get_wal_dir;
    db_host_id: rocksdb_options_set_db_host_id, rocksdb_options_get_db_host_id;
    daily_offpeak_time_utc:
        rocksdb_options_set_daily_offpeak_time_utc, rocksdb_options_get_daily_offpeak_time_utc;
}

destroyers! {
    rocksdb_options_destroy(rocksdb_options_t);
}
