//! The dump of all options at the head of the info log, in RocksDB's lines, words and order: programs
//! and people look for them there.
//!
//! Each line is a template: `{name}` is an option in the words of an OPTIONS file, with 1 and 0 for true
//! and false; `{name.member}` a member of a nested one; behind `|` stands another form, behind `@` what
//! no option holds.

use super::{InfoLog, Sink};
use crate::options::table::OptionTable;
use crate::options::{BlockBasedTableOptions, CfOptions, DbOptions, collectors_of};
use spanlith_table::BlockCache;
use std::fmt::Write as _;

const DATABASE: &str = include_str!("dump_db.txt");
const FAMILY: &str = include_str!("dump_cf.txt");
const TABLE: &str = include_str!("dump_table.txt");
/// Families whose options are written; of further ones a line says that they are not.
const FAMILIES_MAX: usize = 10;

/// Options that are shown with six decimals.
const FLOATS: [&str; 7] = [
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "data_block_hash_table_util_ratio",
    "experimental_mempurge_threshold",
    "max_bytes_for_level_multiplier",
    "memtable_prefix_bloom_size_ratio",
    "uniform_cv_threshold",
];

/// What a database has that no option holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpParts {
    /// Statistics are kept.
    pub statistics: bool,
    /// Background writes are limited.
    pub rate_limiter: bool,
    /// Capacity of the cache of rows in bytes.
    pub row_cache: Option<usize>,
}

impl InfoLog {
    /// Writes all options of the database.
    pub fn dump_db_options(&self, options: &DbOptions, parts: DumpParts) {
        if !self.is_heard() {
            return;
        }
        let some = |is_there: bool| match is_there {
            true => self.address(),
            false => "(nil)".to_string(),
        };
        let own = |name: &str| match name {
            "fs" => "PosixFileSystem".to_string(),
            "statistics" => some(parts.statistics),
            "rate_limiter" => some(parts.rate_limiter),
            "row_cache" => parts
                .row_cache
                .map_or_else(|| "None".to_string(), |bytes| bytes.to_string()),
            "sst_file_manager.rate_bytes_per_sec" => "0".to_string(),
            "wal_recovery_mode" => options.wal_recovery_mode.number().to_string(),
            "wal_compression" => options.wal_compression.as_byte().to_string(),
            _ => self.address(),
        };
        self.held(|| {
            for line in DATABASE.lines() {
                self.header(format_args!("{}", filled(line, options, &own)));
            }
        });
    }

    /// Writes all options of a column family and its tables; `before` families have had theirs written.
    pub fn dump_cf_options(
        &self,
        name: &str,
        before: usize,
        cf: &CfOptions,
        (table, cache): (&BlockBasedTableOptions, Option<&BlockCache>),
    ) {
        if !self.is_heard() {
            return;
        }
        if before >= FAMILIES_MAX {
            self.header(format_args!("\t(skipping printing options)"));
            return;
        }
        self.held(|| {
            self.header(format_args!(
                "--------------- Options for column family [{name}]:"
            ));
            for line in FAMILY.lines() {
                self.family_line(line, cf, table, cache);
            }
        });
    }

    fn family_line(
        &self,
        line: &str,
        cf: &CfOptions,
        table: &BlockBasedTableOptions,
        cache: Option<&BlockCache>,
    ) {
        if line == "@table" {
            let text = self.table_text(table, cache);
            self.header(format_args!("           table_factory options: {text}"));
        } else if line == "@multipliers" {
            let list = cf.max_bytes_for_level_multiplier_additional.iter();
            for (level, multiplier) in list.enumerate() {
                self.header(format_args!(
                    "Options.max_bytes_for_level_multiplier_addtl[{level}]: {multiplier}"
                ));
            }
        } else if line.contains("{compression|") && !cf.compression_per_level.is_empty() {
            for (level, codec) in cf.compression_per_level.iter().enumerate() {
                let codec = codec_word(&codec.name());
                self.header(format_args!("       Options.compression[{level}]: {codec}"));
            }
        } else if line.contains("{table_properties_collectors}")
            && let Some(collectors) = collectors_of(&cf.table_properties_collectors)
        {
            let (before, _) = line.split_once('{').unwrap_or_default();
            self.header(format_args!("{before}{}", collectors.log_text()));
        } else {
            let none = |_: &str| String::new();
            self.header(format_args!("{}", filled(line, cf, &none)));
        }
    }

    fn table_text(&self, table: &BlockBasedTableOptions, cache: Option<&BlockCache>) -> String {
        let own = |name: &str| match name {
            "checksum" => table.checksum.number().to_string(),
            "data_block_index_type" => table.data_block_index_type.number().to_string(),
            "index_shortening" => table.index_shortening.number().to_string(),
            "index_type" => table.index_type.number().to_string(),
            "prepopulate_block_cache" => table.prepopulate_block_cache.number().to_string(),
            "cache" => cache_text(cache),
            _ => self.address(),
        };
        let mut text = String::new();
        for line in TABLE.lines() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", filled(line, table, &own));
        }
        text
    }

    /// Where RocksDB writes the address of an object.
    fn address(&self) -> String {
        format!("{:p}", std::ptr::from_ref(self))
    }

    /// Hands the lines that `dump` writes to the operating system together.
    fn held(&self, dump: impl FnOnce()) {
        let hold = |held: bool| {
            if let Some(sink) = &self.sink {
                Sink::hold(sink, held);
            }
        };
        hold(true);
        dump();
        hold(false);
    }
}

fn cache_text(cache: Option<&BlockCache>) -> String {
    let Some(cache) = cache else {
        return "  block_cache: (nil)".to_string();
    };
    let name = match cache.policy() {
        spanlith_cache::Policy::Lru => "LRUCache",
        spanlith_cache::Policy::Clock => "AutoHyperClockCache",
    };
    format!(
        "  block_cache: {:#x}\n  block_cache_name: {name}\n  block_cache_options:\n    capacity : {}\n    \
         num_shard_bits : {}\n    strict_capacity_limit : {}\n    memory_allocator : None",
        cache.identity(),
        cache.capacity(),
        cache.shard_bits(),
        u8::from(cache.is_strict()),
    )
}

/// RocksDB's short word for a codec: `kZSTD` is `ZSTD`, `kNoCompression` stays what it says.
fn codec_word(name: &str) -> String {
    match name {
        "kNoCompression" => "NoCompression".to_string(),
        "kDisableCompressionOption" => "Disabled".to_string(),
        other => {
            let word = other.strip_prefix('k').unwrap_or(other);
            word.strip_suffix("Compression").unwrap_or(word).to_string()
        }
    }
}

/// A member of a nested option in the words of an OPTIONS file.
fn member(nested: &str, name: &str) -> String {
    let members = nested.trim_matches(['{', '}']).split(';');
    let mut found = members.filter_map(|m| m.trim().strip_prefix(name)?.strip_prefix('='));
    found.next().unwrap_or_default().to_string()
}

fn filled<T: OptionTable>(line: &str, options: &T, own: &dyn Fn(&str) -> String) -> String {
    let Some((before, rest)) = line.split_once('{') else {
        return line.to_string();
    };
    let Some((name, after)) = rest.split_once('}') else {
        return line.to_string();
    };
    let value = match name.strip_prefix('@') {
        Some(name) => own(name),
        None => shown(name, options),
    };
    let after = filled(after, options, own);
    format!("{before}{value}{after}")
}

/// The value of `name`, with its form.
fn shown<T: OptionTable>(name: &str, options: &T) -> String {
    let (name, form) = name.split_once('|').unwrap_or((name, ""));
    let (option, leaf) = match name.split_once('.') {
        Some((option, leaf)) => (option, Some(leaf)),
        None => (name, None),
    };
    let value = T::row(option).map_or_else(String::new, |row| (row.get)(options));
    let value = leaf.map_or_else(|| value.clone(), |leaf| member(&value, leaf));
    match (form, value.as_str()) {
        ("word", _) => value,
        ("codec", name) => codec_word(name),
        ("none", "nullptr") => "None".to_string(),
        ("unknown", "nullptr") => "Unknown".to_string(),
        ("class", text) => text.split(':').next().unwrap_or_default().to_string(),
        (_, "true") => "1".to_string(),
        (_, "false") => "0".to_string(),
        _ => match FLOATS.contains(&name).then(|| value.parse::<f64>()) {
            Some(Ok(float)) => format!("{float:.6}"),
            _ => value,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompressionType;

    #[test]
    fn every_template_names_options_that_exist() {
        fn check<T: OptionTable>(text: &str) {
            for part in text.split('{').skip(1) {
                let name = part.split('}').next().unwrap_or_default();
                let name = name.split(['|', '.']).next().unwrap_or_default();
                assert!(name.starts_with('@') || T::row(name).is_some(), "{name}");
            }
        }
        check::<DbOptions>(DATABASE);
        check::<CfOptions>(FAMILY);
        check::<BlockBasedTableOptions>(TABLE);
    }

    #[test]
    fn values_stand_in_the_words_that_rocksdb_logs() {
        let cf = CfOptions {
            compression: CompressionType::Snappy,
            ..CfOptions::default()
        };
        let none = |_: &str| String::new();
        for (template, want) in [
            ("{compression|codec}", "Snappy"),
            ("{bottommost_compression|codec}", "Disabled"),
            ("{merge_operator|none}", "None"),
            ("{prefix_extractor}", "nullptr"),
            ("{enable_blob_files|word}", "false"),
            ("{disable_auto_compactions}", "0"),
            ("{compression_opts.window_bits}", "-14"),
            ("{compression_opts.enabled|word}", "false"),
            ("{max_bytes_for_level_multiplier}", "10.000000"),
            ("{compaction_options_universal.size_ratio}", "1"),
            ("{compaction_options_universal.reduce_file_locking}", "1"),
            (
                "{compaction_options_fifo.max_table_files_size}",
                "1073741824",
            ),
        ] {
            assert_eq!(filled(template, &cf, &none), want, "{template}");
        }
    }
}
