//! Options of the codecs; their names and properties are [`spanlith_base::compression`]'s.
//!
//! The type byte in a block's trailer decides for that block; a block that did not shrink enough is
//! stored raw.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::CompressionType;
use spanlith_base::compression::DEFAULT_LEVEL;

/// How a codec goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionOptions {
    /// zlib: base-2 logarithm of the window; the sign (RocksDB's mark of raw streams) is ignored.
    pub window_bits: i32,
    /// Level of zlib and zstd; [`DEFAULT_LEVEL`] leaves the choice to the codec.
    pub level: i32,
    /// zlib's strategy. Only recorded: it cannot be passed on, and no reader depends on it.
    pub strategy: i32,
    /// Most bytes of the dictionary; 0 writes none.
    pub max_dict_bytes: u32,
    /// Bytes of samples a zstd dictionary is made from; 0 takes the samples themselves as
    /// dictionary.
    pub zstd_max_train_bytes: u32,
    /// Recorded: whether the options were set for the bottommost level.
    pub enabled: bool,
    /// Most bytes of data blocks held back for sampling; 0 sets no limit of its own.
    pub max_dict_buffer_bytes: u64,
    /// Train the dictionary (`true`), or only give the samples a zstd header.
    pub use_zstd_dict_trainer: bool,
    /// Threads that compress blocks. Only a hint: one does.
    pub parallel_threads: u32,
    /// zstd: add a checksum to every frame.
    pub checksum: bool,
    /// Leave blocks as they are while trying to compress them does not pay.
    pub auto_skip: bool,
    /// With `auto_skip`: of so many blocks that are left about one is tried; 0 leaves the number to the writer.
    pub auto_skip_min_sample_every: i32,
}

impl Default for CompressionOptions {
    fn default() -> Self {
        Self {
            window_bits: -14,
            level: DEFAULT_LEVEL,
            strategy: 0,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            enabled: false,
            max_dict_buffer_bytes: 0,
            use_zstd_dict_trainer: true,
            parallel_threads: 1,
            checksum: false,
            auto_skip: false,
            auto_skip_min_sample_every: 0,
        }
    }
}

impl CompressionOptions {
    /// The text of the `rocksdb.compression_options` property.
    pub(crate) fn property(
        &self,
        max_compressed_bytes_per_kb: u32,
        codec: CompressionType,
    ) -> String {
        format!(
            "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; \
             enabled={}; max_dict_buffer_bytes={}; use_zstd_dict_trainer={}; \
             max_compressed_bytes_per_kb={}; checksum={}; _type={}; ",
            self.window_bits,
            self.level,
            self.strategy,
            self.max_dict_bytes,
            self.zstd_max_train_bytes,
            u8::from(self.enabled),
            self.max_dict_buffer_bytes,
            u8::from(self.use_zstd_dict_trainer),
            max_compressed_bytes_per_kb,
            u8::from(self.checksum),
            codec.as_byte(),
        )
    }
}
