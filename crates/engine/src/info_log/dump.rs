//! The dump of all options at the head of the info log, in RocksDB's lines, words and order: programs
//! and people look for them there.

use super::template::{Filler, Line, Template, codec_word};
use super::{InfoLog, Sink};
use crate::options::{BlockBasedTableOptions, CfOptions, DbOptions, collectors_of, table_factory};
use spanlith_table::BlockCache;
use std::sync::LazyLock;

static DATABASE: LazyLock<Template<DbOptions>> =
    LazyLock::new(|| Template::new(include_str!("dump_db.txt")));
static FAMILY: LazyLock<Template<CfOptions>> =
    LazyLock::new(|| Template::new(include_str!("dump_cf.txt")));
static TABLE: LazyLock<Template<BlockBasedTableOptions>> =
    LazyLock::new(|| Template::new(include_str!("dump_table.txt")));
/// Families whose options are written; of further ones a line says that they are not.
const FAMILIES_MAX: usize = 10;

/// Describes what a database has that no option holds.
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
            let mut filler = Filler::new(options, &own);
            for line in DATABASE.lines() {
                self.header(format_args!("{}", filler.filled(line)));
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
            let none = |_: &str| String::new();
            let mut filler = Filler::new(cf, &none);
            for line in FAMILY.lines() {
                self.family_line(line, &mut filler, cf, (table, cache));
            }
        });
    }

    fn family_line(
        &self,
        line: &Line<CfOptions>,
        filler: &mut Filler<'_, CfOptions>,
        cf: &CfOptions,
        (table, cache): (&BlockBasedTableOptions, Option<&BlockCache>),
    ) {
        if line.text == "@table" {
            let format = table_factory::format_of(&cf.table_factory).unwrap_or_default();
            let text = match table_factory::rows_of(&format) {
                rows if rows.is_empty() => self.table_text(table, cache),
                rows => rows
                    .iter()
                    .map(|(name, value)| format!("  {name}: {value}\n"))
                    .collect(),
            };
            self.header(format_args!("           table_factory options: {text}"));
        } else if line.text == "@multipliers" {
            let list = cf.max_bytes_for_level_multiplier_additional.iter();
            for (level, multiplier) in list.enumerate() {
                self.header(format_args!(
                    "Options.max_bytes_for_level_multiplier_addtl[{level}]: {multiplier}"
                ));
            }
        } else if line.shows("compression") && !cf.compression_per_level.is_empty() {
            for (level, codec) in cf.compression_per_level.iter().enumerate() {
                let codec = codec.name();
                let codec = codec_word(&codec);
                self.header(format_args!("       Options.compression[{level}]: {codec}"));
            }
        } else if line.shows("table_properties_collectors")
            && let Some(collectors) = collectors_of(&cf.table_properties_collectors)
        {
            self.header(format_args!("{}{}", line.head(), collectors.log_text()));
        } else {
            self.header(format_args!("{}", filler.filled(line)));
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
        let mut filler = Filler::new(table, &own);
        for line in TABLE.lines() {
            text.push_str(filler.filled(line));
            text.push('\n');
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::table::OptionTable;

    #[test]
    fn every_template_names_options_that_exist() {
        fn check<T: OptionTable>(template: &Template<T>) {
            let lines = template.lines().iter();
            for part in lines.flat_map(|line| line.text.split('{').skip(1)) {
                let name = part.split('}').next().unwrap_or_default();
                let name = name.split(['|', '.']).next().unwrap_or_default();
                assert!(name.starts_with('@') || T::row(name).is_some(), "{name}");
            }
        }
        check(&DATABASE);
        check(&FAMILY);
        check(&TABLE);
    }
}
