//! Options that are structs: printed and parsed as `{field=value;…}`.

use super::enums::{CompactionStopStyle, PinningTier, Temperature};
use super::table::{OptionTable, parse_nested, print_nested};
use super::text::{split_outside_braces, strip_braces};
use super::values::{OptionValue, ValueError};

options! {
    /// How a codec compresses.
    pub struct CompressionOptions {
        /// Zstd: adds a checksum to each frame.
        fixed checksum: bool = false;
        /// Bytes of data that are buffered while the dictionary is collected; 0 means a whole file.
        fixed max_dict_buffer_bytes: u64 = 0;
        /// Says whether bottommost options replace the general ones.
        fixed enabled: bool = false;
        /// Size of the dictionary of a file; 0 means none.
        fixed max_dict_bytes: u32 = 0;
        /// A block is stored plain if it does not shrink to this many 1024ths.
        fixed max_compressed_bytes_per_kb: i32 = 896;
        /// Threads that compress the blocks of one file.
        fixed parallel_threads: u32 = 1;
        /// Zstd: bytes of samples from which the dictionary is trained.
        fixed zstd_max_train_bytes: u32 = 0;
        /// Level of the codec; 32767 is its own default, negative values of LZ4 are acceleration.
        fixed level: i32 = 32767;
        /// Zstd: trains the dictionary instead of cutting it from samples.
        fixed use_zstd_dict_trainer: bool = true;
        /// Zlib: strategy.
        fixed strategy: i32 = 0;
        /// Zlib: window bits.
        fixed window_bits: i32 = -14;
        /// Tries to compress only some data blocks while compression does not pay. A running estimate of what
        /// the blocks of a table become is held against `max_compressed_bytes_per_kb`. Saves processor time
        /// where data does not compress, and misses a few blocks where it begins to.
        newer auto_skip: bool = false;
        /// With `auto_skip`: of so many blocks that are skipped about one is tried all the same; 0 means 64.
        newer auto_skip_min_sample_every: i32 = 0;
    }
    ignored {}
}

options! {
    /// FIFO compaction.
    pub struct FifoCompactionOptions {
        /// Merges small files in tiers of geometric sizes instead of by the work a file less costs.
        fixed use_kv_ratio_compaction: bool = false;
        /// Total size of tables and blob files beyond which the oldest are dropped; 0 means none.
        fixed max_data_files_size: u64 = 0;
        /// Copy buffer for changes of temperature.
        fixed trivial_copy_buffer_size: u64 = 4096;
        /// Copies instead of rewriting when only the temperature changes.
        fixed allow_trivial_copy_when_change_temperature: bool = false;
        /// Ages at which the temperature of a file changes, youngest first, as
        /// `{{temperature=kWarm;age=10;}:{temperature=kCold;age=60;}}`.
        fixed file_temperature_age_thresholds: FileTemperatureAges = FileTemperatureAges::default();
        /// Merges small files.
        fixed allow_compaction: bool = false;
        /// Without effect, as in RocksDB, where thresholds took its place.
        fixed age_for_warm: u64 = 0;
        /// Total size of tables beyond which the oldest are dropped.
        fixed max_table_files_size: u64 = 1 << 30;
    }
    ignored { "ttl" }
}

options! {
    /// From which age on a file has a temperature.
    pub struct FileTemperatureAge {
        /// Age of the newest key of a file, in seconds.
        fixed age: u64 = 0;
        /// Temperature of files of that age and older ones.
        fixed temperature: Temperature = Temperature::Unknown;
    }
    ignored {}
}

/// Ages at which files change their temperature, in the order they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileTemperatureAges(pub Vec<FileTemperatureAge>);

options! {
    /// Universal compaction.
    pub struct UniversalCompactionOptions {
        /// Releases files that a compaction turns out not to need.
        fixed reduce_file_locking: bool = true;
        /// Compacts a part of the largest run at a time.
        fixed incremental: bool = false;
        /// Share of the data, from the newest, that is compressed; -1 means all.
        fixed compression_size_percent: i32 = -1;
        /// Moves files that overlap nothing.
        fixed allow_trivial_move: bool = false;
        /// Extra space, relative to the largest run, at which everything is compacted.
        fixed max_size_amplification_percent: u32 = 200;
        /// Largest number of runs in one compaction.
        fixed max_merge_width: u32 = u32::MAX;
        /// When to stop adding runs.
        fixed stop_style: CompactionStopStyle = CompactionStopStyle::TotalSize;
        /// Smallest number of runs in one compaction.
        fixed min_merge_width: u32 = 2;
        /// Largest number of runs a read should meet; -1 means the level-0 trigger.
        fixed max_read_amp: i32 = -1;
        /// Slack in per cent when sizes of runs are compared.
        fixed size_ratio: u32 = 1;
    }
    ignored {}
}

options! {
    /// Which metadata blocks of tables stay in the block cache.
    pub struct MetadataCacheOptions {
        /// Index and filter blocks that are not partitioned.
        fixed unpartitioned_pinning: PinningTier = PinningTier::Fallback;
        /// Partitions of indexes and filters.
        fixed partition_pinning: PinningTier = PinningTier::Fallback;
        /// Top level of partitioned indexes and filters.
        fixed top_level_index_pinning: PinningTier = PinningTier::Fallback;
    }
    ignored {}
}

nested_values!(
    UniversalCompactionOptions,
    MetadataCacheOptions,
    FileTemperatureAge
);

impl OptionValue for FileTemperatureAges {
    /// RocksDB puts the list into one more pair of braces.
    fn print(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let parts: Vec<String> = self.0.iter().map(OptionValue::print).collect();
        format!("{{{}}}", parts.join(":"))
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let mut ages = Vec::new();
        let list = strip_braces(text.trim());
        for part in split_outside_braces(list, ':').map_err(ValueError::Other)? {
            let mut age = FileTemperatureAge::default();
            parse_nested(&mut age, part.trim())?;
            ages.push(age);
        }
        self.0 = ages;
        Ok(())
    }
}

impl OptionValue for FifoCompactionOptions {
    const NESTED: bool = true;

    fn print(&self) -> String {
        print_nested(self)
    }

    /// Besides `{…}` RocksDB takes a number, for the size of tables, as it was written once, without braces.
    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        if text.contains('=') {
            return parse_nested(self, text);
        }
        if text.starts_with('{') {
            return Err(ValueError::Number("stoull"));
        }
        self.max_table_files_size.parse_into(text)
    }
}

impl OptionValue for CompressionOptions {
    const NESTED: bool = true;

    fn uses_newer(&self) -> bool {
        OptionTable::uses_newer(self)
    }

    fn print(&self) -> String {
        print_nested(self)
    }

    /// Besides `{…}` RocksDB takes positions:
    /// `window_bits:level:strategy[:max_dict_bytes[:zstd_max_train_bytes[:parallel_threads]
    /// [:enabled[:max_dict_buffer_bytes[:use_zstd_dict_trainer]]]]]`, without braces.
    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        if text.contains('=') {
            return parse_nested(self, text);
        }
        if text.starts_with('{') {
            return Err(ValueError::Number("stoi"));
        }
        let parts: Vec<&str> = match text {
            "" => Vec::new(),
            text => text.split(':').collect(),
        };
        // The last of six says whether it is enabled; threads came later.
        let sixth = if parts.len() == 6 {
            "enabled"
        } else {
            "parallel_threads"
        };
        let names = [
            "window_bits",
            "level",
            "strategy",
            "max_dict_bytes",
            "zstd_max_train_bytes",
            sixth,
            "enabled",
            "max_dict_buffer_bytes",
            "use_zstd_dict_trainer",
        ];
        for (name, part) in names.iter().zip(&parts) {
            if let Some(row) = Self::row(name) {
                (row.set)(self, part)?;
            }
        }
        match parts.len() {
            3..=9 => Ok(()),
            _ => Err(ValueError::Positions),
        }
    }
}
