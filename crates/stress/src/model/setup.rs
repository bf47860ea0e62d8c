//! Describes what a program fixes for its whole life, and what every open may draw anew.
//!
//! Both have a one-line text form (`name=value` separated by spaces), so that a program is a text
//! file. Every value is legal in RocksDB too.

use spanlith::options::{
    BlockBasedTableOptions, CfOptions, ChecksumType, CompactionPri, CompactionStyle,
    CompressionType, DataBlockIndexType, DbOptions, IndexShorteningMode, IndexType, KvsepGc,
    KvsepMode, PrepopulateBlobCache,
};
use spanlith_base::slice_transform::SliceTransform;
use spanlith_testkit::Rng;
use std::fmt;

/// Which merge operator the database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// None: programs do not merge.
    None,
    /// `uint64add`.
    Add,
    /// `stringappend` with a comma.
    Append,
}

/// Fixed for the life of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Keys are ordered by RocksDB's reverse bytewise comparator.
    pub reverse: bool,
    /// Merge operator.
    pub merge: MergeKind,
    /// Number of levels.
    pub levels: i32,
    /// Number of column families; a key lives in one of them, see [`Self::family_of`].
    pub families: u64,
    /// Logs lie in a directory of their own, below that of the database.
    pub logs_apart: bool,
    /// Runs on real files with threads instead of in memory.
    pub real: bool,
    /// Seed of the world: ids and the like.
    pub world_seed: u64,
    /// Options that RocksDB does not have, as `OpenBuilder::set` takes them; empty for the defaults.
    pub own: &'static str,
}

/// A text of own options that lives as long as the process, which has few of them. Blanks are taken out, since
/// they separate the words of a program's line.
pub fn own_options(text: &str) -> &'static str {
    match text.is_empty() {
        true => "",
        false => String::leak(text.split_ascii_whitespace().collect()),
    }
}

impl Setup {
    /// Takes own options that a plan names; of one that names none, how writers are slowed down and whether compactions give way,
    /// by the seed of the world, so that all else is drawn as without.
    pub fn with_own(mut self, named: &'static str) -> Self {
        const DRAWN: [&str; 8] = [
            "",
            "",
            "preemptible_compaction=true",
            "write_throttle_policy=smooth",
            "write_throttle_policy=smooth;level0_merges_beside=false",
            "write_throttle_policy=smooth;preemptible_compaction=true",
            "write_throttle_policy=two_stage;preemptible_compaction=true",
            "write_throttle_policy=rocksdb_517",
        ];
        self.own = match named {
            "" => DRAWN[self.world_seed as usize / 4 % DRAWN.len()],
            named => named,
        };
        self
    }

    /// Draws one.
    pub fn draw(rng: &mut Rng, real: bool) -> Self {
        let mut drawn = Self {
            reverse: rng.one_in(5),
            merge: *rng.pick(&[MergeKind::None, MergeKind::Add, MergeKind::Append]),
            levels: *rng.pick(&[2, 3, 4, 7, 7, 7]),
            families: *rng.pick(&[1, 1, 2, 3]),
            logs_apart: false,
            real,
            world_seed: rng.next_u64(),
            own: "",
        };
        drawn.logs_apart = drawn.world_seed.is_multiple_of(4);
        drawn
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// A text naming what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut s = Self {
            reverse: false,
            merge: MergeKind::None,
            levels: 7,
            families: 1,
            logs_apart: false,
            real: false,
            world_seed: 0,
            own: "",
        };
        for (name, value) in pairs(text)? {
            match name {
                "reverse" => s.reverse = number(value)? != 0,
                "merge" => {
                    s.merge = match value {
                        "none" => MergeKind::None,
                        "add" => MergeKind::Add,
                        "append" => MergeKind::Append,
                        _ => return Err(format!("merge={value}")),
                    }
                }
                "levels" => s.levels = number(value)? as i32,
                "families" => s.families = number(value)?.max(1),
                "logs" => s.logs_apart = number(value)? != 0,
                "real" => s.real = number(value)? != 0,
                "world" => s.world_seed = number(value)?,
                "set" => s.own = own_options(value),
                _ => return Err(format!("unknown setup {name}")),
            }
        }
        Ok(s)
    }

    /// The family a key lives in: a sum over its bytes, so that one list of keys, and one line of
    /// text, says everything.
    pub fn family_of(&self, key: &[u8]) -> u64 {
        let sum = key.iter().fold(0u64, |s, b| s + u64::from(*b));
        sum % self.families
    }

    /// Name of a family.
    pub fn family_name(family: u64) -> String {
        match family {
            0 => "default".to_string(),
            n => format!("family{n}"),
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merge = match self.merge {
            MergeKind::None => "none",
            MergeKind::Add => "add",
            MergeKind::Append => "append",
        };
        write!(
            f,
            "reverse={} merge={merge} levels={} families={} logs={} real={} world={}",
            u8::from(self.reverse),
            self.levels,
            self.families,
            u8::from(self.logs_apart),
            u8::from(self.real),
            self.world_seed
        )?;
        match self.own {
            "" => Ok(()),
            own => write!(f, " set={own}"),
        }
    }
}

fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    text.split_ascii_whitespace()
        .map(|w| w.split_once('=').ok_or_else(|| format!("no = in {w}")))
        .collect()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

macro_rules! tuning {
    ($($(#[$doc:meta])* $name:ident = [$($value:expr),+];)*) => {
        /// Options drawn at every open, by short names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Tuning { $($(#[$doc])* pub $name: u64,)* }

        impl Tuning {
            /// The first value of each row.
            pub fn plain() -> Self {
                Self { $($name: [$($value),+][0],)* }
            }

            /// Draws each row.
            pub fn draw(rng: &mut Rng) -> Self {
                Self { $($name: *rng.pick(&[$($value),+]),)* }
            }

            /// Reads the text form; what is left out is plain.
            ///
            /// # Errors
            /// A text naming what is wrong.
            pub fn parse(text: &str) -> Result<Self, String> {
                let mut t = Self::plain();
                for (name, value) in pairs(text)? {
                    match name {
                        $(stringify!($name) => t.$name = number(value)?,)*
                        _ => return Err(format!("unknown option {name}")),
                    }
                }
                Ok(t)
            }
        }

        impl fmt::Display for Tuning {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let plain = Self::plain();
                let mut gap = "";
                $(if self.$name != plain.$name {
                    write!(f, "{gap}{}={}", stringify!($name), self.$name)?;
                    gap = " ";
                })*
                let _ = gap;
                Ok(())
            }
        }
    };
}

tuning! {
    /// Bytes of a memtable.
    buffer = [64 << 10, 64 << 10, 80 << 10, 256 << 10];
    /// Memtables before writes stop.
    buffers = [2, 3, 4, 6];
    /// Memtables flushed together.
    together = [1, 1, 2];
    /// Files at which level 0 is compacted.
    l0 = [4, 1, 2, 8];
    /// Files in level 0 at which writes stop; the slowdown is half of it.
    stop = [36, 6, 20];
    /// Size of an output file.
    file = [1 << 20, 4 << 10, 16 << 10, 64 << 10, 1, 300];
    /// Size of level 1.
    base = [1 << 20, 16 << 10, 64 << 10, 256 << 10];
    /// Growth from level to level.
    growth = [10, 2, 4];
    /// Dynamic level sizes.
    dynamic = [1, 0];
    /// Bytes of a data block.
    block = [4096, 64, 256, 1024, 1];
    /// Keys between restart points.
    restart = [16, 1, 2, 7];
    /// The same in indexes.
    index_restart = [1, 1, 4];
    /// Table format.
    format = [7, 5, 6, 4, 3, 2, 8];
    /// Block checksum: 0 none, 1 CRC32C, 2 XXH32, 3 XXH64, 4 XXH3.
    checksum = [4, 1, 2, 3, 0];
    /// Codec by RocksDB's numbers: 0 none, 1 Snappy, 2 zlib, 3 bzip2, 4 LZ4, 5 LZ4HC, 7 ZSTD.
    codec = [4, 4, 0, 0, 1, 2, 3, 5, 7];
    /// Codec of the last level; 255 as the others.
    bottom = [255, 255, 0, 4, 7];
    /// Bytes of a dictionary; 0 is none.
    dict = [0, 0, 0, 1024];
    /// Bytes a ZSTD dictionary is trained from.
    train = [0, 4096];
    /// Kind of index: 0 binary, 2 partitioned, 3 with first keys.
    index = [0, 0, 2, 3, 1];
    /// Size of a partition of index or filter.
    partition = [4096, 128];
    /// Filters are partitioned if the index is.
    split_filter = [0, 1];
    /// Ribbon filters instead of Bloom filters.
    ribbon = [0, 0, 1];
    /// Data blocks have a hash index.
    hash = [0, 0, 1];
    /// Data blocks keep keys and values apart, from format 6 on.
    apart = [0, 0, 1];
    /// Logs are compressed with ZSTD.
    zlog = [0, 0, 1];
    /// Families are flushed together.
    atomic = [0, 0, 1];
    /// Logs are recorded in the MANIFEST.
    tracked = [0, 0, 1];
    /// Bits per key of the filter; 0 is no filter.
    bloom = [0, 10, 2];
    /// Bytes of the block cache; 0 is no cache.
    cache = [8 << 20, 0, 4 << 10, 64 << 10];
    /// Index and filter live in the cache.
    cache_index = [0, 1];
    /// Threads of one compaction.
    parts = [1, 1, 3];
    /// Size at which the MANIFEST is written anew.
    manifest = [1 << 30, 1 << 30, 100, 2000];
    /// The MANIFEST is continued by the next open.
    reuse = [0, 0, 1];
    /// Logs kept to be written again.
    recycle = [0, 0, 1, 3];
    /// Recovery leaves what it can in memtables and logs.
    stay = [0, 0, 1];
    /// Automatic compactions.
    auto = [1, 1, 1, 0];
    /// Choice of files.
    pri = [3, 0, 1, 2, 4];
    /// Index separators.
    separators = [1, 0, 2];
    /// Write-back of logs and tables while they are written.
    write_back = [0, 0, 4096];
    /// Hidden entries before an iterator seeks.
    skip = [8, 0, 1, 3];
    /// Bytes of a prefix; 0 is no extractor, and from 100 on shorter keys are prefixes, too.
    prefix = [0, 0, 15, 16, 1, 114];
    /// Filters hold whole keys beside prefixes.
    whole = [1, 1, 0];
    /// Memtables have filters.
    mem_bloom = [0, 0, 1];
    /// Seconds for which what is written stays out of the last level.
    young = [0, 0, 20, 200];
    /// One more than the smallest value that goes to a blob file; 0 for no blob files.
    blob_min = [0, 0, 1, 2, 30, 200];
    /// Size of a blob file.
    blob_file = [256 << 20, 1, 1000, 20_000];
    /// Codec of blobs, as `codec`.
    blob_codec = [0, 0, 4, 1, 7];
    /// One more than the share of old blob files, in percent, that compactions empty; 0 for none.
    blob_gc = [0, 0, 26, 101];
    /// Percent of garbage in old blob files that forces compactions.
    blob_force = [100, 100, 30];
    /// First level whose tables refer to blobs.
    blob_level = [0, 0, 1, 2];
    /// Bytes that compactions read ahead in blob files.
    blob_ahead = [0, 4096];
    /// 1: blob files are collected by a target of space; 2: the engine chooses which values go there; 3: both.
    blob_budget = [0, 2, 1];
    /// Bytes of the cache of values; 0 for none. Flushes fill it if the size is odd.
    blob_cache = [0, 1 << 20, 8001];
    /// Compaction style by RocksDB's numbers: 0 level, 1 universal, 2 FIFO, which here has room for everything.
    style = [0, 0, 0, 1, 1, 2];
    /// Universal compaction: 1 moves files that overlap nothing, 2 takes a part of the oldest runs; 3 both.
    runs = [0, 1, 2, 3];
    /// Universal compaction: space beside the oldest run, in per cent of it.
    amplification = [200, 25, 900];
}

fn codec(n: u64) -> CompressionType {
    let byte = u8::try_from(n).ok();
    byte.and_then(CompressionType::from_byte)
        .unwrap_or_default()
}

impl Tuning {
    /// Options of the database.
    pub fn db_options(&self) -> DbOptions {
        let mut o = DbOptions::default();
        o.create_if_missing = true;
        o.create_missing_column_families = true;
        o.atomic_flush = self.atomic != 0;
        o.track_and_verify_wals_in_manifest = self.tracked != 0;
        o.wal_compression = codec(7 * self.zlog);
        o.max_subcompactions = self.parts as u32;
        o.max_manifest_file_size = self.manifest;
        if self.manifest < 1 << 20 {
            // The size alone decides.
            o.max_manifest_space_amp_pct = 0;
        }
        o.reuse_manifest_on_open = self.reuse != 0;
        o.recycle_log_file_num = self.recycle;
        o.avoid_flush_during_recovery = self.stay != 0;
        o.bytes_per_sync = self.write_back;
        o.wal_bytes_per_sync = self.write_back;
        o
    }

    /// Options of another family, drawn from these: families differ in all that is theirs.
    pub fn of_family(&self, family: u64) -> Self {
        if family == 0 {
            return *self;
        }
        let text = self.to_string();
        let seed = text.bytes().fold(family, |s, b| {
            s.wrapping_mul(0x0100_0000_01b3) ^ u64::from(b)
        });
        Self::draw(&mut Rng::new(seed))
    }

    fn extractor_text(&self) -> String {
        match self.prefix {
            0 => "nullptr".to_string(),
            n @ 1..100 => format!("fixed:{n}"),
            n => format!("capped:{}", n - 100),
        }
    }

    /// Returns what finds the prefix of a key.
    pub fn extractor(&self) -> Option<SliceTransform> {
        SliceTransform::from_text(&self.extractor_text())
    }

    /// Options of a family.
    pub fn cf_options(&self, setup: &Setup) -> CfOptions {
        let mut o = CfOptions::default();
        o.write_buffer_size = self.buffer;
        o.max_write_buffer_number = self.buffers as i32;
        o.min_write_buffer_number_to_merge = self.together as i32;
        o.level0_file_num_compaction_trigger = self.l0 as i32;
        o.level0_stop_writes_trigger = self.stop as i32;
        o.level0_slowdown_writes_trigger = (self.stop / 2) as i32;
        o.target_file_size_base = self.file;
        o.max_bytes_for_level_base = self.base;
        o.max_bytes_for_level_multiplier = self.growth as f64;
        o.level_compaction_dynamic_level_bytes = self.dynamic != 0;
        o.num_levels = setup.levels;
        o.compression = codec(self.codec);
        o.bottommost_compression = codec(self.bottom);
        o.compression_opts.max_dict_bytes = self.dict as u32;
        if self.dict > 0 {
            o.compression_opts.zstd_max_train_bytes = self.train as u32;
        }
        o.disable_auto_compactions = self.auto == 0;
        o.max_sequential_skip_in_iterations = self.skip;
        o.prefix_extractor = self.extractor_text();
        o.memtable_prefix_bloom_size_ratio = 0.1 * self.mem_bloom as f64;
        o.memtable_whole_key_filtering = self.whole != 0;
        o.preclude_last_level_data_seconds = self.young;
        o.enable_blob_files = self.blob_min > 0;
        o.min_blob_size = self.blob_min.saturating_sub(1);
        o.blob_file_size = self.blob_file;
        o.blob_compression_type = codec(self.blob_codec);
        o.enable_blob_garbage_collection = self.blob_gc > 0;
        o.blob_garbage_collection_age_cutoff = self.blob_gc.saturating_sub(1) as f64 / 100.0;
        if self.blob_budget & 1 != 0 {
            o.own.kvsep_gc = KvsepGc::Budget;
        }
        if self.blob_budget & 2 != 0 {
            o.own.kvsep_mode = KvsepMode::Adaptive;
        }
        o.blob_garbage_collection_force_threshold = self.blob_force as f64 / 100.0;
        o.blob_file_starting_level = self.blob_level as i32;
        o.blob_compaction_readahead_size = self.blob_ahead;
        o.prepopulate_blob_cache = match self.blob_cache % 2 {
            0 => PrepopulateBlobCache::Disable,
            _ => PrepopulateBlobCache::FlushOnly,
        };
        o.compaction_style = match self.style {
            1 => CompactionStyle::Universal,
            2 => CompactionStyle::Fifo,
            _ => CompactionStyle::Level,
        };
        o.compaction_options_universal.allow_trivial_move = self.runs & 1 != 0;
        o.compaction_options_universal.incremental = self.runs & 2 != 0;
        o.compaction_options_universal
            .max_size_amplification_percent = self.amplification as u32;
        if self.style == 2 {
            // Nothing is to be lost: small files are merged, none is deleted.
            o.ttl = 0;
            o.compaction_options_fifo.allow_compaction = true;
            o.compaction_options_fifo.max_table_files_size = u64::MAX;
        }
        o.compaction_pri = match self.pri {
            0 => CompactionPri::ByCompensatedSize,
            1 => CompactionPri::OldestLargestSeqFirst,
            2 => CompactionPri::OldestSmallestSeqFirst,
            4 => CompactionPri::RoundRobin,
            _ => CompactionPri::MinOverlappingRatio,
        };
        o
    }

    /// Options of tables.
    pub fn table_options(&self) -> BlockBasedTableOptions {
        let mut o = BlockBasedTableOptions::default();
        o.block_size = self.block;
        o.block_restart_interval = self.restart as i32;
        o.index_block_restart_interval = self.index_restart as i32;
        o.format_version = self.format as u32;
        o.checksum = match self.checksum {
            0 => ChecksumType::None,
            1 => ChecksumType::Crc32c,
            2 => ChecksumType::XxHash,
            3 => ChecksumType::XxHash64,
            _ => ChecksumType::Xxh3,
        };
        if self.bloom > 0 {
            o.filter_policy = match self.ribbon {
                0 => format!("bloomfilter:{}:false", self.bloom),
                _ => format!("ribbonfilter:{}", self.bloom),
            };
        }
        o.whole_key_filtering = self.whole != 0;
        o.index_type = match self.index {
            // It needs prefixes.
            1 if self.prefix != 0 => IndexType::HashSearch,
            2 => IndexType::TwoLevelIndexSearch,
            3 => IndexType::BinarySearchWithFirstKey,
            _ => IndexType::BinarySearch,
        };
        o.metadata_block_size = self.partition;
        o.partition_filters = self.split_filter != 0 && self.index == 2;
        if self.hash != 0 {
            o.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        }
        o.separate_key_value_in_data_block = self.apart != 0 && self.format >= 6;
        o.no_block_cache = self.cache == 0;
        o.cache_index_and_filter_blocks = self.cache_index != 0 && self.cache > 0;
        o.index_shortening = match self.separators {
            0 => IndexShorteningMode::NoShortening,
            2 => IndexShorteningMode::ShortenSeparatorsAndSuccessor,
            _ => IndexShorteningMode::ShortenSeparators,
        };
        o
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_setup_and_of_options_is_read_back_as_the_same() {
        let mut rng = Rng::new(spanlith_testkit::seed(spanlith_testkit::test_name!()));
        for _ in 0..50 {
            let t = Tuning::draw(&mut rng);
            assert_eq!(Tuning::parse(&t.to_string()), Ok(t));
            let s = Setup::draw(&mut rng, false);
            assert_eq!(Setup::parse(&s.to_string()), Ok(s));
        }
        assert!(Tuning::parse("nonsense=1").is_err());
        assert!(Setup::parse("levels").is_err());
    }
}
