//! A zstd dictionary out of samples without training: the samples themselves, after a header with
//! statistics of how they compress.
#![expect(unsafe_code, reason = "zstd-safe has no call for it")]

use spanlith_base::compression::DEFAULT_LEVEL;
use std::ffi::c_uint;
use zstd_safe::zstd_sys::{ZDICT_finalizeDictionary, ZDICT_isError, ZDICT_params_t};

/// zstd's default level, which stands for RocksDB's "default" here.
const ZSTD_DEFAULT_LEVEL: i32 = 3;

/// A dictionary of at most `size_max` bytes from concatenated `samples` of the given `sizes`, for
/// compression at `level`; empty if zstd cannot make one: too few samples, or samples too much
/// alike.
pub(super) fn finalize(samples: &[u8], sizes: &[usize], size_max: usize, level: i32) -> Vec<u8> {
    let Ok(count) = c_uint::try_from(sizes.len()) else {
        return Vec::new();
    };
    if samples.is_empty() || sizes.iter().sum::<usize>() > samples.len() {
        return Vec::new();
    }
    let parameters = ZDICT_params_t {
        compressionLevel: match level {
            DEFAULT_LEVEL => ZSTD_DEFAULT_LEVEL,
            level => level,
        },
        notificationLevel: 0,
        dictID: 0,
    };
    let mut dictionary = vec![0u8; size_max];
    // SAFETY: Both buffers are as long as said, the contents lie within the samples, and `sizes` has
    // `count` elements whose sum was checked against the samples.
    let written = unsafe {
        ZDICT_finalizeDictionary(
            dictionary.as_mut_ptr().cast(),
            dictionary.len(),
            samples.as_ptr().cast(),
            samples.len().min(size_max),
            samples.as_ptr().cast(),
            sizes.as_ptr(),
            count,
            parameters,
        )
    };
    // SAFETY: The function looks at the number only.
    if unsafe { ZDICT_isError(written) } != 0 {
        return Vec::new();
    }
    dictionary.truncate(written);
    dictionary
}
