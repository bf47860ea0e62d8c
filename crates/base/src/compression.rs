//! The codecs that RocksDB knows: their type bytes, names and properties, one row for each.
//!
//! Options, trailers of blocks, headers of blob files, references to blobs and logs name a codec by the same byte.
//! All take it from here, and so do tools and the C API. How a codec is carried out belongs to the crates that
//! store something: `table::format` for blocks and blobs, `wal` for records of logs.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::{Error, Result};
use std::fmt;

/// Level that stands for the default of the codec.
pub const DEFAULT_LEVEL: i32 = 32767;

/// This build decodes blocks and blobs of the codec.
const READS: u8 = 1;
/// It encodes them too.
const WRITES: u8 = 1 << 1;
/// Records of logs may be stored with it.
const LOGS: u8 = 1 << 2;
/// Blocks may refer to a dictionary.
const DICTIONARY: u8 = 1 << 3;
/// It takes about as little time as LZ4.
const FAST: u8 = 1 << 4;

/// Facts about a codec.
struct Row {
    /// In texts of options.
    name: &'static str,
    /// In properties of tables, in events and in messages.
    word: &'static str,
    /// On the command lines of tools; empty if they do not offer it.
    short: &'static str,
    /// The levels that it takes besides its default; `None` if it refuses none.
    levels: Option<(i32, i32)>,
}

/// The row that all codecs of users share.
static CUSTOM: Row = Row {
    name: "",
    word: "Custom",
    short: "",
    levels: None,
};

macro_rules! codecs {
    ($(
        $(#[$meta:meta])*
        $Variant:ident = $byte:literal, $name:literal, $word:literal, $short:literal:
            $($property:ident)|* $(, levels $low:literal to $high:literal)?;
    )*) => {
        /// Compression of blocks, blobs or log records.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum CompressionType {
            $($(#[$meta])* $Variant,)*
            /// A codec of the user's, 0x80 to 0xFE.
            Custom(u8),
        }

        impl CompressionType {
            /// All with a name of their own, by byte.
            const NAMED: &'static [Self] = &[$(Self::$Variant),*];

            /// The byte in block trailers and the C API.
            #[inline]
            pub const fn as_byte(self) -> u8 {
                match self {
                    $(Self::$Variant => $byte,)*
                    Self::Custom(byte) => byte,
                }
            }

            /// From the byte of an option.
            #[inline]
            pub fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$Variant),)*
                    0x80..=0xfe => Some(Self::Custom(byte)),
                    _ => None,
                }
            }

            fn row(self) -> &'static Row {
                match self {
                    $(Self::$Variant => {
                        static ROW: Row = Row {
                            name: $name,
                            word: $word,
                            short: $short,
                            levels: [$(Some(($low, $high)),)? None][0],
                        };
                        &ROW
                    })*
                    Self::Custom(_) => &CUSTOM,
                }
            }

            /// Bits of the constants above, apart from the row for the sake of readers of blocks.
            #[inline]
            const fn properties(self) -> u8 {
                match self {
                    $(Self::$Variant => 0 $(| $property)*,)*
                    Self::Custom(_) => 0,
                }
            }
        }
    };
}

codecs! {
    /// Data as they are.
    #[default]
    None = 0, "kNoCompression", "NoCompression", "none": READS | WRITES | LOGS;
    /// Snappy.
    Snappy = 1, "kSnappyCompression", "Snappy", "snappy": READS | WRITES | FAST;
    /// Raw deflate.
    Zlib = 2, "kZlibCompression", "Zlib", "zlib": READS | WRITES | DICTIONARY, levels -1 to 9;
    /// bzip2.
    Bzip2 = 3, "kBZip2Compression", "BZip2", "bzip2": READS | WRITES;
    /// LZ4.
    Lz4 = 4, "kLZ4Compression", "LZ4", "lz4": READS | WRITES | DICTIONARY | FAST;
    /// LZ4 with a thorough encoder. Written by the plain encoder: the format is the same, the blocks are larger.
    Lz4Hc = 5, "kLZ4HCCompression", "LZ4HC", "lz4hc": READS | WRITES | DICTIONARY | FAST;
    /// A codec of Windows.
    Xpress = 6, "kXpressCompression", "Xpress", "xpress": ;
    /// Zstandard.
    Zstd = 7, "kZSTD", "ZSTD", "zstd": READS | WRITES | LOGS | DICTIONARY;
    /// Zstd before its format was final; 7.8 only. It decodes alike.
    ZstdNotFinal = 0x40, "kZSTDNotFinalCompression", "ZSTDNotFinal", "": READS;
    /// "As the other levels", for `bottommost_compression`.
    Disable = 0xff, "kDisableCompressionOption", "DisableOption", "": ;
}

impl CompressionType {
    /// The codecs that this build writes, "none" first.
    pub fn written() -> impl Iterator<Item = Self> {
        Self::NAMED.iter().copied().filter(|t| t.is_written())
    }

    /// The codecs that tools offer on their command lines, with their names there.
    pub fn offered() -> impl Iterator<Item = (&'static str, Self)> {
        let short = Self::NAMED.iter().map(|t| (t.row().short, *t));
        short.filter(|(short, _)| !short.is_empty())
    }

    /// RocksDB's names of all values but codecs of users.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().map(|t| t.row().name)
    }

    /// From a byte in a trailer, a header or a reference; `None` for bytes no writer stores.
    #[inline]
    pub fn from_stored_byte(byte: u8) -> Option<Self> {
        match byte {
            0xff => None,
            _ => Self::from_byte(byte),
        }
    }

    /// RocksDB's name in texts of options.
    pub fn name(self) -> String {
        match self {
            Self::Custom(byte) => format!("kCustomCompression{byte:02X}"),
            named => named.row().name.to_string(),
        }
    }

    /// From the name in texts of options.
    pub fn from_name(name: &str) -> Option<Self> {
        let custom = || {
            let digits = name.strip_prefix("kCustomCompression")?;
            let byte = u8::from_str_radix(digits, 16).ok()?;
            Self::from_byte(byte).filter(|c| *c == Self::Custom(byte))
        };
        let mut named = Self::NAMED.iter().copied();
        named.find(|t| t.row().name == name).or_else(custom)
    }

    /// RocksDB's word for it in properties of tables, in events and in messages.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// The codec of that word in the `rocksdb.compression` property.
    pub fn from_word(word: &str) -> Option<Self> {
        let mut stored = Self::NAMED.iter().filter(|t| **t != Self::Disable);
        stored.find(|t| t.word() == word).copied()
    }

    #[inline]
    fn has(self, property: u8) -> bool {
        self.properties() & property != 0
    }

    /// Returns whether this build writes blocks and blobs with it.
    pub fn is_written(self) -> bool {
        self.has(WRITES)
    }

    /// Returns whether records of logs may be stored with it.
    pub fn suits_logs(self) -> bool {
        self.has(LOGS)
    }

    /// Returns whether blocks of the codec may refer to a dictionary.
    pub fn uses_dictionary(self) -> bool {
        self.has(DICTIONARY)
    }

    /// Returns whether it takes about as little time as LZ4.
    pub fn is_fast(self) -> bool {
        self.has(FAST)
    }

    /// Returns whether a compressor of the codec accepts the level.
    pub fn takes_level(self, level: i32) -> bool {
        let levels = self.row().levels;
        level == DEFAULT_LEVEL || levels.is_none_or(|(low, high)| (low..=high).contains(&level))
    }

    /// The codec that decodes what is stored under this type.
    ///
    /// # Errors
    /// [`Self::unreadable`] for codecs this build lacks.
    #[inline]
    pub fn codec(self) -> Result<Self> {
        match self {
            Self::ZstdNotFinal => Ok(Self::Zstd),
            known if known.has(READS) => Ok(known),
            other => Err(other.unreadable()),
        }
    }

    /// The codec itself, if this build writes it.
    ///
    /// # Errors
    /// [`Self::unwritable`] for others.
    pub fn for_writing(self) -> Result<Self> {
        match self.is_written() {
            true => Ok(self),
            false => Err(self.unwritable()),
        }
    }

    /// The `NotSupported` of a reader that meets the type.
    #[cold]
    pub fn unreadable(self) -> Error {
        Error::not_supported(format!("{} compression", self.word())).with("type", self.as_byte())
    }

    /// The `NotSupported` of a writer that is to use the type.
    #[cold]
    pub fn unwritable(self) -> Error {
        Error::not_supported(format!("compression {self}"))
    }
}

impl fmt::Display for CompressionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn every_type_comes_back_from_its_byte_and_its_names() {
        let mut seen = 0;
        for byte in 0..=u8::MAX {
            let Some(t) = CompressionType::from_byte(byte) else {
                assert!(matches!(byte, 8..=0x3f | 0x41..=0x7f), "{byte}");
                assert_eq!(CompressionType::from_stored_byte(byte), None);
                continue;
            };
            seen += 1;
            assert_eq!(t.as_byte(), byte);
            assert_eq!(CompressionType::from_name(&t.name()), Some(t));
            let is_stored = t != CompressionType::Disable;
            assert_eq!(
                CompressionType::from_stored_byte(byte),
                is_stored.then_some(t)
            );
            let is_named = is_stored && t != CompressionType::Custom(byte);
            assert_eq!(
                CompressionType::from_word(t.word()),
                is_named.then_some(t),
                "{t}"
            );
        }
        assert_eq!(seen, 10 + 127);
        assert_eq!(CompressionType::from_name("kCustomCompression07"), None);
    }

    #[test]
    fn a_codec_that_is_written_is_read_and_a_codec_that_is_absent_is_refused_by_name() {
        let written: Vec<u8> = CompressionType::written().map(|t| t.as_byte()).collect();
        assert_eq!(written, [0, 1, 2, 3, 4, 5, 7]);
        for t in CompressionType::written() {
            assert_eq!(t.codec().unwrap(), t);
            assert_eq!(t.for_writing().unwrap(), t);
        }
        let old = CompressionType::ZstdNotFinal;
        assert_eq!(old.codec().unwrap(), CompressionType::Zstd);
        let absent = CompressionType::Custom(0x81);
        for (e, text) in [
            (absent.codec().unwrap_err(), "Custom compression"),
            (
                absent.for_writing().unwrap_err(),
                "compression kCustomCompression81",
            ),
            (
                old.for_writing().unwrap_err(),
                "compression kZSTDNotFinalCompression",
            ),
        ] {
            assert_eq!((e.kind(), e.message()), (ErrorKind::NotSupported, text));
        }
    }

    #[test]
    fn a_level_is_refused_only_where_the_row_limits_it() {
        let takes = CompressionType::takes_level;
        for level in [-1, 0, 9, DEFAULT_LEVEL] {
            assert!(takes(CompressionType::Zlib, level), "{level}");
        }
        for level in [-2, 10] {
            assert!(!takes(CompressionType::Zlib, level), "{level}");
            assert!(takes(CompressionType::Zstd, level), "{level}");
        }
    }
}
