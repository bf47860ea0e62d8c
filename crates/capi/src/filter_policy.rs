//! `rocksdb_filterpolicy_t`: filters, by the text that names them in options.

use crate::ffi::boxed;

/// A filter policy.
pub struct rocksdb_filterpolicy_t(pub(crate) String);

c_api! {
    /// Full Bloom filters; RocksDB has no other kind any more.
    fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        boxed(rocksdb_filterpolicy_t(format!("bloomfilter:{bits_per_key}:false")))
    }

    /// Full Bloom filters.
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        boxed(rocksdb_filterpolicy_t(format!("bloomfilter:{bits_per_key}:false")))
    }
}

destroyers! {
    rocksdb_filterpolicy_destroy(rocksdb_filterpolicy_t);
}
