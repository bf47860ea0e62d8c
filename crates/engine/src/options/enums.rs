//! Enumerations of options, with RocksDB's names and numbers.

use super::values::{OptionValue, ValueError};
pub use spanlith_base::CompressionType;
use spanlith_base::checksum::ChecksumKind;

macro_rules! option_enum {
    (@error $names:expr) => { ValueError::Enum($names) };
    (@error $names:expr, $error:ident) => { ValueError::$error($names) };
    ($(
        $(#[$meta:meta])*
        pub enum $Name:ident $(else $error:ident)? { $($(#[$vmeta:meta])* $Variant:ident = $number:literal, $text:literal;)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "RocksDB's name says it; the option's row explains")]
        pub enum $Name { $($(#[$vmeta])* $Variant = $number,)* }

        impl $Name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// RocksDB's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$Variant => $text,)* }
            }

            /// RocksDB's number, as its C API uses it.
            pub fn number(self) -> i32 {
                self as i32
            }

            /// From RocksDB's number.
            pub fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$Variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl OptionValue for $Name {
            fn print(&self) -> String {
                self.name().to_string()
            }

            fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
                *self = Self::ALL
                    .iter()
                    .copied()
                    .find(|v| v.name() == super::text::strip_braces(text))
                    .ok_or_else(|| {
                        let names = Self::ALL.iter().map(|v| v.name()).collect();
                        option_enum!(@error names $(, $error)?)
                    })?;
                Ok(())
            }
        }
    )*};
}

option_enum! {
    /// Describes what an open does about damage in the synced part of a log.
    pub enum SyncedLogDamage {
        #[default]
        Refuse = 0, "refuse";
        Truncate = 1, "truncate";
    }

    /// From which size on values are separated.
    pub enum KvsepMode {
        #[default]
        Static = 0, "static";
        Adaptive = 1, "adaptive";
    }

    /// How the codec of each data block is chosen.
    pub enum CodecChoice {
        #[default]
        Fixed = 0, "fixed";
        Adaptive = 1, "adaptive";
    }

    /// How garbage in blob files is collected.
    pub enum KvsepGc {
        #[default]
        Compat = 0, "compat";
        Budget = 1, "budget";
    }

    /// By which rules writes are slowed down (`spanlith_pace::ThrottlePolicy`).
    pub enum WriteThrottlePolicy {
        Rocksdb517 = 0, "rocksdb_517";
        #[default]
        Rocksdb = 1, "rocksdb";
        TwoStage = 2, "two_stage";
        Smooth = 3, "smooth";
    }

    /// By which rule level 0 is shaped (`spanlith_pace::ShapeRule`).
    pub enum DynamicLevel0 {
        #[default]
        Off = 0, "off";
        Paper = 1, "paper";
        Continuous = 2, "continuous";
        Merged = 3, "merged";
    }

    /// Describes who carries out asynchronous requests.
    pub enum AsyncMode {
        #[default]
        Auto = 0, "auto";
        Inline = 1, "inline";
        Shared = 2, "shared";
        Dedicated = 3, "dedicated";
    }

    /// Describes what becomes of files that nothing explains.
    pub enum OrphanFiles {
        #[default]
        Keep = 0, "keep";
        Delete = 1, "delete";
    }

    /// Block checksum.
    pub enum ChecksumType {
        None = 0, "kNoChecksum";
        Crc32c = 1, "kCRC32c";
        XxHash = 2, "kxxHash";
        XxHash64 = 3, "kxxHash64";
        #[default]
        Xxh3 = 4, "kXXH3";
    }

    /// How tables are arranged in levels.
    pub enum CompactionStyle {
        #[default]
        Level = 0, "kCompactionStyleLevel";
        Universal = 1, "kCompactionStyleUniversal";
        Fifo = 2, "kCompactionStyleFIFO";
        None = 3, "kCompactionStyleNone";
    }

    /// Which file of a level is compacted first.
    pub enum CompactionPri {
        ByCompensatedSize = 0, "kByCompensatedSize";
        OldestLargestSeqFirst = 1, "kOldestLargestSeqFirst";
        OldestSmallestSeqFirst = 2, "kOldestSmallestSeqFirst";
        #[default]
        MinOverlappingRatio = 3, "kMinOverlappingRatio";
        RoundRobin = 4, "kRoundRobin";
    }

    /// When universal compaction stops adding files.
    pub enum CompactionStopStyle {
        SimilarSize = 0, "kCompactionStopStyleSimilarSize";
        #[default]
        TotalSize = 1, "kCompactionStopStyleTotalSize";
    }

    /// How hot data is, for file systems that care.
    pub enum Temperature {
        #[default]
        Unknown = 0, "kUnknown";
        Hot = 4, "kHot";
        Warm = 8, "kWarm";
        Cool = 10, "kCool";
        Cold = 12, "kCold";
        Ice = 16, "kIce";
    }

    /// Describes what recovery does with a damaged log.
    pub enum WalRecoveryMode else Unmapped {
        TolerateCorruptedTailRecords = 0, "kTolerateCorruptedTailRecords";
        AbsoluteConsistency = 1, "kAbsoluteConsistency";
        #[default]
        PointInTimeRecovery = 2, "kPointInTimeRecovery";
        SkipAnyCorruptedRecords = 3, "kSkipAnyCorruptedRecords";
    }

    /// Which messages go to the info log.
    #[derive(PartialOrd, Ord)]
    pub enum InfoLogLevel else Unmapped {
        Debug = 0, "DEBUG_LEVEL";
        #[default]
        Info = 1, "INFO_LEVEL";
        Warn = 2, "WARN_LEVEL";
        Error = 3, "ERROR_LEVEL";
        Fatal = 4, "FATAL_LEVEL";
        Header = 5, "HEADER_LEVEL";
    }

    /// The slowest cache tier in use.
    pub enum CacheTier else Unmapped {
        Volatile = 0, "kVolatileTier";
        VolatileCompressed = 1, "kVolatileCompressedTier";
        #[default]
        NonVolatileBlock = 2, "kNonVolatileBlockTier";
    }

    /// Which blob writes fill the blob cache.
    pub enum PrepopulateBlobCache else Unmapped {
        #[default]
        Disable = 0, "kDisable";
        FlushOnly = 1, "kFlushOnly";
    }

    /// Which table writes fill the block cache.
    pub enum PrepopulateBlockCache else Unmapped {
        #[default]
        Disable = 0, "kDisable";
        FlushOnly = 1, "kFlushOnly";
        FlushAndCompaction = 2, "kFlushAndCompaction";
    }

    /// Layout of a table's index.
    pub enum IndexType else Unmapped {
        #[default]
        BinarySearch = 0, "kBinarySearch";
        HashSearch = 1, "kHashSearch";
        TwoLevelIndexSearch = 2, "kTwoLevelIndexSearch";
        BinarySearchWithFirstKey = 3, "kBinarySearchWithFirstKey";
    }

    /// How an index block is searched.
    pub enum BlockSearchType else Unmapped {
        #[default]
        Binary = 0, "kBinary";
        Interpolation = 1, "kInterpolation";
        Auto = 2, "kAuto";
    }

    /// Says whether data blocks carry a hash index.
    pub enum DataBlockIndexType else Unmapped {
        #[default]
        BinarySearch = 0, "kDataBlockBinarySearch";
        BinaryAndHash = 1, "kDataBlockBinaryAndHash";
    }

    /// How far index keys are shortened.
    pub enum IndexShorteningMode else Unmapped {
        NoShortening = 0, "kNoShortening";
        #[default]
        ShortenSeparators = 1, "kShortenSeparators";
        ShortenSeparatorsAndSuccessor = 2, "kShortenSeparatorsAndSuccessor";
    }

    /// Which indexes tables have (RocksDB 11.12).
    pub enum IndexMode else Unmapped {
        StandardOnly = 0, "kStandardOnly";
        #[default]
        StandardDefault = 1, "kStandardDefault";
        CustomDefault = 2, "kCustomDefault";
        CustomOnly = 3, "kCustomOnly";
        StandardRequired = 4, "kStandardRequired";
    }

    /// When a data block of format version 8 stores once what its keys have in common.
    pub enum OptimizeKeyCommonPrefix else Unmapped {
        Disabled = 0, "kDisabled";
        #[default]
        IfFastSeek = 1, "kIfFastSeek";
        Enabled = 2, "kEnabled";
    }

    /// Which metadata blocks stay in the block cache.
    pub enum PinningTier else Unmapped {
        #[default]
        Fallback = 0, "kFallback";
        None = 1, "kNone";
        FlushedAndSimilar = 2, "kFlushedAndSimilar";
        All = 3, "kAll";
    }
}

impl ChecksumType {
    /// As the table format knows it.
    pub fn kind(self) -> ChecksumKind {
        match self {
            Self::None => ChecksumKind::None,
            Self::Crc32c => ChecksumKind::Crc32c,
            Self::XxHash => ChecksumKind::XxHash,
            Self::XxHash64 => ChecksumKind::XxHash64,
            Self::Xxh3 => ChecksumKind::Xxh3,
        }
    }
}

impl OptionValue for CompressionType {
    fn print(&self) -> String {
        self.name()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        *self = Self::from_name(text).ok_or_else(|| ValueError::Enum(Self::names().collect()))?;
        Ok(())
    }
}
