//! Components of options that are chosen by a number or two: memtables, other table formats, caches
//! of rows and blobs, partitioners, collectors.
//!
//! Options that the engine does not have are kept and refused by name when a database is opened.

use crate::cache::rocksdb_cache_t;
use crate::ffi::boxed;
use crate::options::rocksdb_options_t;
use spanlith::options::table_factory::text_of;
use spanlith::{CompactOnDeletion, TablePropertiesCollectorFactory};
use spanlith_table::{CuckooOptions, PlainOptions, TableFormat};
use std::sync::Arc;

/// Options of tables that are hash tables.
#[derive(Default)]
pub struct rocksdb_cuckoo_table_options_t {
    hash_table_ratio: f64,
    max_search_depth: u32,
    cuckoo_block_size: u32,
    identity_as_first_hash: u8,
    use_module_hash: u8,
}

/// Cuts tables where a prefix of the keys changes.
pub struct rocksdb_sst_partitioner_factory_t(String);

/// A factory of collectors of table properties. No function of the C interface makes one.
pub struct rocksdb_table_properties_collector_factory_t(Arc<dyn TablePropertiesCollectorFactory>);

/// Adds a factory to the ones there are.
fn add_collector(o: &mut rocksdb_options_t, factory: CompactOnDeletion) {
    o.parts.collectors.0.push(Arc::new(factory));
}

fn set_table_factory(o: &mut rocksdb_options_t, name: &str) {
    o.cf.table_factory = name.to_string();
}

fn set_plain_tables(o: &mut rocksdb_options_t, options: PlainOptions) {
    set_table_factory(o, &text_of(&TableFormat::Plain(options)));
}

c_api! {
    /// Memtables as unsorted lists: a hint, nothing else can be told from it.
    fn rocksdb_options_set_memtable_vector_rep(options: *mut rocksdb_options_t) {
        (*options).cf.memtable_factory = "VectorRepFactory".to_string();
    }

    /// Memtables by prefix, with skip lists: a hint.
    fn rocksdb_options_set_hash_skip_list_rep(
        options: *mut rocksdb_options_t,
        bucket_count: usize,
        _skiplist_height: i32,
        _skiplist_branching_factor: i32,
    ) {
        (*options).cf.memtable_factory = format!("prefix_hash:{bucket_count}");
    }

    /// Memtables by prefix, with lists: a hint.
    fn rocksdb_options_set_hash_link_list_rep(
        options: *mut rocksdb_options_t,
        bucket_count: usize,
    ) {
        (*options).cf.memtable_factory = format!("hash_linkedlist:{bucket_count}");
    }

    /// Tables of records in a row. An encoding that is none of the two is the plain one.
    #[cfg(not(feature = "generation-8-1"))]
    fn rocksdb_options_set_plain_table_factory(
        options: *mut rocksdb_options_t,
        user_key_len: u32,
        bloom_bits_per_key: i32,
        hash_table_ratio: f64,
        index_sparseness: usize,
        huge_page_tlb_size: usize,
        encoding_type: std::ffi::c_char,
        full_scan_mode: u8,
        store_index_in_file: u8,
    ) {
        let plain = PlainOptions {
            user_key_len,
            bloom_bits_per_key,
            hash_table_ratio,
            index_sparseness: index_sparseness as u64,
            huge_page_tlb_size: huge_page_tlb_size as u64,
            encoding_type: match encoding_type {
                1 => spanlith_table::PlainEncoding::Prefix,
                _ => spanlith_table::PlainEncoding::Plain,
            },
            full_scan_mode: full_scan_mode != 0,
            store_index_in_file: store_index_in_file != 0,
            ..PlainOptions::default()
        };
        set_plain_tables(&mut *options, plain);
    }

    /// Tables of records in a row, in the plain encoding.
    #[cfg(feature = "generation-8-1")]
    fn rocksdb_options_set_plain_table_factory(
        options: *mut rocksdb_options_t,
        user_key_len: u32,
        bloom_bits_per_key: i32,
        hash_table_ratio: f64,
        index_sparseness: usize,
    ) {
        let plain = PlainOptions {
            user_key_len,
            bloom_bits_per_key,
            hash_table_ratio,
            index_sparseness: index_sparseness as u64,
            ..PlainOptions::default()
        };
        set_plain_tables(&mut *options, plain);
    }

    /// RocksDB's defaults.
    fn rocksdb_cuckoo_options_create() -> *mut rocksdb_cuckoo_table_options_t {
        boxed(rocksdb_cuckoo_table_options_t {
            hash_table_ratio: 0.9,
            max_search_depth: 100,
            cuckoo_block_size: 5,
            identity_as_first_hash: 0,
            use_module_hash: 1,
        })
    }

    /// The older name of `rocksdb_cuckoo_options_set_hash_table_ratio`.
    fn rocksdb_cuckoo_options_set_hash_ratio(
        options: *mut rocksdb_cuckoo_table_options_t,
        v: f64,
    ) {
        (*options).hash_table_ratio = v;
    }

    /// Tables that are hash tables. A null pointer changes nothing.
    fn rocksdb_options_set_cuckoo_table_factory(
        options: *mut rocksdb_options_t,
        table_options: *mut rocksdb_cuckoo_table_options_t,
    ) {
        if let Some(o) = table_options.as_ref() {
            let format = TableFormat::Cuckoo(CuckooOptions {
                hash_table_ratio: o.hash_table_ratio,
                max_search_depth: o.max_search_depth,
                cuckoo_block_size: o.cuckoo_block_size,
                identity_as_first_hash: o.identity_as_first_hash != 0,
                use_module_hash: o.use_module_hash != 0,
            });
            set_table_factory(&mut *options, &text_of(&format));
        }
    }

    /// Keeps what tables answer to point lookups; the cache may also be the one of blocks. A null
    /// pointer changes nothing.
    fn rocksdb_options_set_row_cache(
        options: *mut rocksdb_options_t,
        cache: *mut rocksdb_cache_t,
    ) {
        if !cache.is_null() {
            (*options).parts.row_cache = Some((*cache).0.clone());
        }
    }

    /// A cache of values in blob files; it may also be the one of blocks. A null pointer changes nothing.
    fn rocksdb_options_set_blob_cache(
        options: *mut rocksdb_options_t,
        blob_cache: *mut rocksdb_cache_t,
    ) {
        if !blob_cache.is_null() {
            (*options).parts.blob_cache = Some((*blob_cache).0.clone());
        }
    }

    /// Asks for compaction of tables with `num_dels_trigger` deletions among `window_size` entries
    /// in a row; goes beside the collectors there are.
    fn rocksdb_options_add_compact_on_deletion_collector_factory(
        options: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
    ) {
        add_collector(&mut *options, CompactOnDeletion {
            window_size,
            deletion_trigger: num_dels_trigger,
            ..CompactOnDeletion::default()
        });
    }

    /// As without a ratio; also for tables with that share of deletions, if it is above 0 and at
    /// most 1.
    fn rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
        options: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
    ) {
        add_collector(&mut *options, CompactOnDeletion {
            window_size,
            deletion_trigger: num_dels_trigger,
            deletion_ratio,
            ..CompactOnDeletion::default()
        });
    }

    /// As with a ratio; not for tables smaller than `min_file_size` bytes.
    fn rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
        options: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
        min_file_size: u64,
    ) {
        add_collector(&mut *options, CompactOnDeletion {
            window_size,
            deletion_trigger: num_dels_trigger,
            deletion_ratio,
            min_file_size,
        });
    }

    /// Adds a factory of collectors, which stays the caller's; NULL changes nothing.
    fn rocksdb_options_add_table_properties_collector_factory(
        options: *mut rocksdb_options_t,
        factory: *mut rocksdb_table_properties_collector_factory_t,
    ) {
        if let Some(factory) = factory.as_ref() {
            (*options).parts.collectors.0.push(factory.0.clone());
        }
    }

    /// Cuts tables where the first `prefix_len` bytes of the keys change.
    fn rocksdb_sst_partitioner_fixed_prefix_factory_create(
        prefix_len: usize,
    ) -> *mut rocksdb_sst_partitioner_factory_t {
        boxed(rocksdb_sst_partitioner_factory_t(format!(
            "{{id=SstPartitionerFixedPrefixFactory;length={prefix_len};}}"
        )))
    }

    /// Uses a partitioner, which stays the caller's; NULL changes nothing.
    fn rocksdb_options_set_sst_partitioner_factory(
        options: *mut rocksdb_options_t,
        factory: *mut rocksdb_sst_partitioner_factory_t,
    ) {
        if let Some(factory) = factory.as_ref() {
            (*options).cf.sst_partitioner_factory = factory.0.clone();
        }
    }
}

/// Describes what is kept of a value that a C program gave.
trait Stored {
    fn stored(self) -> Self;
}

impl Stored for u8 {
    /// Truth is 1.
    fn stored(self) -> Self {
        u8::from(self != 0)
    }
}

impl Stored for u32 {
    fn stored(self) -> Self {
        self
    }
}

impl Stored for f64 {
    fn stored(self) -> Self {
        self
    }
}

macro_rules! cuckoo {
    ($($field:ident: $ty:ty, $set:ident, $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(options: *mut rocksdb_cuckoo_table_options_t, v: $ty) {
                (*options).$field = v.stored();
            }

            #[doc = concat!("Value of `", stringify!($field), "`.")]
            fn $get(options: *mut rocksdb_cuckoo_table_options_t) -> $ty {
                (*options).$field
            }
        )*}
    };
}

cuckoo! {
    hash_table_ratio: f64, rocksdb_cuckoo_options_set_hash_table_ratio,
        rocksdb_cuckoo_options_get_hash_table_ratio;
    max_search_depth: u32, rocksdb_cuckoo_options_set_max_search_depth,
        rocksdb_cuckoo_options_get_max_search_depth;
    cuckoo_block_size: u32, rocksdb_cuckoo_options_set_cuckoo_block_size,
        rocksdb_cuckoo_options_get_cuckoo_block_size;
    identity_as_first_hash: u8, rocksdb_cuckoo_options_set_identity_as_first_hash,
        rocksdb_cuckoo_options_get_identity_as_first_hash;
    use_module_hash: u8, rocksdb_cuckoo_options_set_use_module_hash,
        rocksdb_cuckoo_options_get_use_module_hash;
}

destroyers! {
    rocksdb_cuckoo_options_destroy(rocksdb_cuckoo_table_options_t);
    rocksdb_sst_partitioner_factory_destroy(rocksdb_sst_partitioner_factory_t);
    rocksdb_table_properties_collector_factory_destroy(
        rocksdb_table_properties_collector_factory_t
    );
}
