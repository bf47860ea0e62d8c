//! Makes the dictionary of a table from its first data blocks.
//!
//! Samples are taken as RocksDB takes them: whole blocks in an order that steps through the list by
//! a large prime, until there are enough bytes; the last one is cut. They become the dictionary as
//! they are, or zstd is trained with them, or zstd puts its header in front of them.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::codec::CompressionOptions;
use super::finalize::finalize;

/// The step through the blocks, modulo their number.
const STEP: u64 = 545_055_921_143;

/// The dictionary of a table that begins with `blocks`; empty if none can be made.
pub(crate) fn make(options: &CompressionOptions, blocks: &[&[u8]]) -> Vec<u8> {
    let wanted = match options.zstd_max_train_bytes {
        0 => options.max_dict_bytes,
        n => n,
    } as usize;
    let n = blocks.len() as u64;
    let mut samples = Vec::with_capacity(wanted.min(1 << 20));
    let mut sizes = Vec::new();
    if n > 0 {
        let mut at = n / 2;
        for _ in 0..n {
            if samples.len() >= wanted {
                break;
            }
            let block = blocks.get(at as usize).copied().unwrap_or_default();
            let len = block.len().min(wanted - samples.len());
            samples.extend_from_slice(block.get(..len).unwrap_or_default());
            sizes.push(len);
            at = (at + STEP % n) % n;
        }
    }
    if options.zstd_max_train_bytes == 0 || samples.is_empty() {
        return samples;
    }
    let size_max = options.max_dict_bytes as usize;
    if !options.use_zstd_dict_trainer {
        return finalize(&samples, &sizes, size_max, options.level);
    }
    let mut dictionary = Vec::with_capacity(size_max);
    match zstd_safe::train_from_buffer(&mut dictionary, &samples, &sizes) {
        Ok(_) => dictionary,
        // Too few or too uniform samples: the table does without, as in RocksDB.
        Err(_) => Vec::new(),
    }
}
