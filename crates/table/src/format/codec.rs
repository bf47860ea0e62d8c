//! Names and options of the codecs.
//!
//! The type byte in a block's trailer decides for that block; a block that did not shrink enough is
//! stored raw.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::{Error, Result};

/// Codec of a table being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Blocks as they are.
    #[default]
    None,
    /// Snappy.
    Snappy,
    /// Raw deflate.
    Zlib,
    /// bzip2.
    Bzip2,
    /// LZ4.
    Lz4,
    /// LZ4 with a thorough encoder. Written by the plain encoder: the format is the same, the
    /// blocks are larger.
    Lz4hc,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Every codec, by type byte.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Snappy,
        Self::Zlib,
        Self::Bzip2,
        Self::Lz4,
        Self::Lz4hc,
        Self::Zstd,
    ];

    /// The codec that decodes blocks of a type byte; `None` if this build has none.
    pub fn from_byte(b: u8) -> Option<Self> {
        match b {
            0 => Some(Self::None),
            1 => Some(Self::Snappy),
            2 => Some(Self::Zlib),
            3 => Some(Self::Bzip2),
            4 => Some(Self::Lz4),
            5 => Some(Self::Lz4hc),
            // 0x40 is what RocksDB wrote before its zstd format was final; it decodes alike.
            7 | 0x40 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The type byte in trailers.
    pub fn as_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Bzip2 => 3,
            Self::Lz4 => 4,
            Self::Lz4hc => 5,
            Self::Zstd => 7,
        }
    }

    /// Name in the `rocksdb.compression` property before format version 7.
    pub fn name(self) -> &'static str {
        CompressionType(self.as_byte()).name()
    }

    /// Returns whether blocks of the codec may refer to a dictionary.
    pub fn uses_dictionary(self) -> bool {
        matches!(self, Self::Zlib | Self::Lz4 | Self::Lz4hc | Self::Zstd)
    }
}

/// A type byte that RocksDB defines, readable by this build or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionType(u8);

impl CompressionType {
    /// Not compressed.
    pub const NONE: Self = Self(0);

    /// A defined type; `None` for bytes no writer stores.
    pub fn from_byte(b: u8) -> Option<Self> {
        matches!(b, 0..=7 | 0x40 | 0x80..=0xfe).then_some(Self(b))
    }

    /// The type byte.
    pub fn as_byte(self) -> u8 {
        self.0
    }

    /// RocksDB's name.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "NoCompression",
            1 => "Snappy",
            2 => "Zlib",
            3 => "BZip2",
            4 => "LZ4",
            5 => "LZ4HC",
            6 => "Xpress",
            7 => "ZSTD",
            0x40 => "ZSTDNotFinal",
            _ => "Custom",
        }
    }

    /// The type of that name in the `rocksdb.compression` property.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [0, 1, 2, 3, 4, 5, 6, 7, 0x40]
            .map(Self)
            .into_iter()
            .find(|t| t.name() == name)
    }

    /// The codec, or an error that names it.
    ///
    /// # Errors
    /// `NotSupported` for codecs this build lacks.
    #[inline]
    pub fn codec(self) -> Result<Compression> {
        Compression::from_byte(self.0).ok_or_else(|| {
            Error::not_supported(format!("{} compression", self.name())).with("type", self.0)
        })
    }
}

/// Level that stands for the default of the codec.
pub const DEFAULT_LEVEL: i32 = 32767;

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
    pub(crate) fn property(&self, max_compressed_bytes_per_kb: u32, codec: Compression) -> String {
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
