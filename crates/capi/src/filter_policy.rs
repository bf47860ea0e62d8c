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

    /// Ribbon filters in all levels: smaller than Bloom filters with the same rate of errors, slower to
    /// build.
    fn rocksdb_filterpolicy_create_ribbon(
        bloom_equivalent_bits_per_key: f64,
    ) -> *mut rocksdb_filterpolicy_t {
        ribbon(bloom_equivalent_bits_per_key, -1)
    }

    /// Ribbon filters, but Bloom filters in levels above `bloom_before_level`; a flush counts as
    /// level -1.
    fn rocksdb_filterpolicy_create_ribbon_hybrid(
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: i32,
    ) -> *mut rocksdb_filterpolicy_t {
        ribbon(bloom_equivalent_bits_per_key, bloom_before_level)
    }
}

c_api! {
    /// As `rocksdb_filterpolicy_create_bloom`. RocksDB exports it without a declaration; the format it may once
    /// have chosen means nothing any more.
    fn rocksdb_filterpolicy_create_bloom_format(
        bits_per_key: f64,
        _original_format: u8,
    ) -> *mut rocksdb_filterpolicy_t {
        boxed(rocksdb_filterpolicy_t(format!("bloomfilter:{bits_per_key}:false")))
    }

    /// As `rocksdb_filterpolicy_create_ribbon_hybrid`; RocksDB exports it without a declaration.
    fn rocksdb_filterpolicy_create_ribbon_format(
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: i32,
    ) -> *mut rocksdb_filterpolicy_t {
        ribbon(bloom_equivalent_bits_per_key, bloom_before_level)
    }
}

fn ribbon(bits_per_key: f64, bloom_before_level: i32) -> *mut rocksdb_filterpolicy_t {
    boxed(rocksdb_filterpolicy_t(format!(
        "ribbonfilter:{bits_per_key}:{bloom_before_level}"
    )))
}

destroyers! {
    rocksdb_filterpolicy_destroy(rocksdb_filterpolicy_t);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RocksDB's option of that name, which texts leave at 0, is off here: tables of flushes have Ribbon
    /// filters, too.
    #[test]
    fn ribbon_filters_are_ribbon_filters_in_every_level() {
        // SAFETY: The handle was just made.
        let policy = unsafe { crate::ffi::unbox(rocksdb_filterpolicy_create_ribbon(8.0)) };
        assert_eq!(policy.unwrap().0, "ribbonfilter:8:-1");
    }
}
