//! Changes of options while the database is open, as RocksDB's `SetOptions` and `SetDBOptions` take
//! them: names and values, all or none.
//!
//! The result is a new set of options; whoever holds the database checks it with
//! [`super::check_supported`] and installs it. Nothing is corrected as at open: what sanitising would
//! change is taken as it is, as in RocksDB.
//!
//! | fault | a family's options | a database's options |
//! |---|---|---|
//! | no change at all | `InvalidArgument` "empty input" | the same |
//! | unknown name | `InvalidArgument` "Extra option not recognized: …" | `NotFound` "Unrecognized option: …" |
//! | not mutable | `InvalidArgument` "Option not changeable: …" | `NotFound` "Unrecognized option: …" |
//! | bad value | `InvalidArgument` "Error parsing NAME:…" | the same |
//!
//! A bad value is reported before an unknown name, whichever stands first. Options that RocksDB does not have are
//! changed by the same calls, and answered in the same way.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::own::set_own;
use super::own_rows::{OwnCfOptions, OwnDbOptions};
use super::table::OptionTable;
use super::text::{
    CF_ALIASES, check_factory, has_other_factory, knows_cf_option, name_the_factory,
    no_such_option, not_recognized, set_cf_option,
};
use super::{
    BlockBasedTableOptions, CfOptions, CompactionStyle, CompressionType, DbOptions, DynamicLevel0,
    objects,
};
use spanlith_base::{Error, Result};

/// The name without the field of a struct.
fn whole(name: &str) -> &str {
    name.split_once('.').map_or(name, |(whole, _)| whole)
}

fn not_changeable(name: &str) -> Error {
    Error::invalid_argument(format!("Option not changeable: {name}")).in_plain_words(fixed(name))
}

/// Says in plain words that an option cannot be changed.
fn fixed(name: &str) -> String {
    format!("{name} cannot be changed in an open database; give it when the database is opened")
}

fn empty() -> Error {
    Error::invalid_argument("empty input")
}

impl DbOptions {
    /// These options with `changes` (names and values) made as on an open database.
    ///
    /// # Errors
    /// As the table at the head of this module; `self` is unchanged in any case.
    pub fn with_changes<N: AsRef<str>, V: AsRef<str>>(&self, changes: &[(N, V)]) -> Result<Self> {
        if changes.is_empty() {
            return Err(empty());
        }
        let mut new = self.clone();
        let mut unknown = None;
        for (name, value) in changes {
            let (name, value) = (name.as_ref(), value.as_ref());
            let known = Self::row(whole(name)).is_some_and(|row| row.mutable);
            let own = OwnDbOptions::row(name).filter(|row| row.mutable);
            if known {
                new.set_option(name, value)?;
            } else if own.is_some() {
                set_own(&mut new.own, name, value).unwrap_or(Ok(()))?;
            } else if !Self::IGNORED.contains(&name) {
                unknown.get_or_insert(name);
            }
        }
        if let Some(name) = unknown {
            let error = Error::not_found(format!("Unrecognized option: {name}"));
            return Err(error.in_plain_words(match Self::row(whole(name)) {
                Some(_) => fixed(name),
                None if OwnDbOptions::row(name).is_some() => fixed(name),
                None if CfOptions::row(whole(name)).is_some() => {
                    format!("{name} is an option of column families, not of the database")
                }
                None => no_such_option(name),
            }));
        }
        new.check_values()?;
        Ok(new)
    }

    /// Refuses values that RocksDB refuses when a database is opened or its options are changed.
    ///
    /// # Errors
    /// `InvalidArgument`, in RocksDB's words.
    pub fn check_values(&self) -> Result<()> {
        self.own.check_bounds()?;
        if !self.daily_offpeak_time_utc.is_empty()
            && off_peak(&self.daily_offpeak_time_utc).is_none()
        {
            return Err(Error::invalid_argument(
                "daily_offpeak_time_utc should be set in the format HH:mm-HH:mm (e.g. 04:30-07:30)",
            ));
        }
        if self.read_io_executor_threads <= 0 {
            return Err(Error::invalid_argument(
                "read_io_executor_threads must be greater than zero",
            ));
        }
        Ok(())
    }
}

/// Start and end of the daily hours of low load, in seconds of the day; `None` unless `text` reads
/// `HH:mm-HH:mm` with two different times.
pub fn off_peak(text: &str) -> Option<(u32, u32)> {
    fn time(text: &str) -> Option<u32> {
        let (hour, minute) = text.split_once(':')?;
        let two = |t: &str| (t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit())).then_some(());
        two(hour)?;
        two(minute)?;
        let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 3600 + minute * 60)
    }
    let (start, end) = text.split_once('-')?;
    let (start, end) = (time(start)?, time(end)?);
    (start != end).then_some((start, end))
}

/// Seconds until the daily hours of low load begin anew, if `now` (Unix seconds) lies within them;
/// else 0. Both ends count to the minute, and the end is part of them.
pub fn seconds_to_next_off_peak(text: &str, now: u64) -> u64 {
    const DAY: u64 = 24 * 60 * 60;
    if text.is_empty() {
        return 0;
    }
    let Some((start, end)) = off_peak(text) else {
        return 0;
    };
    let (start, end) = (u64::from(start), u64::from(end));
    let time = now % DAY;
    let minute = time / 60 * 60;
    let within = match start > end {
        true => minute >= start || minute <= end,
        false => (start..=end).contains(&minute),
    };
    match (within, time < start) {
        (false, _) => 0,
        (true, true) => start - time,
        (true, false) => start + DAY - time,
    }
}

/// Returns whether a text of an option that stays names the object that is there, as RocksDB lets it of these two: by its
/// name, without properties.
fn is_same_object(cf: &CfOptions, name: &str, text: &str) -> bool {
    let (now, may_be_empty) = match name {
        "comparator" => (&cf.comparator, true),
        "memtable_factory" => (&cf.memtable_factory, false),
        _ => return false,
    };
    let is_plain = !text.trim_end_matches([';', '}']).contains(';');
    match objects::id(text) {
        Some(id) => is_plain && Some(id) == objects::id(now),
        None => may_be_empty && text.trim().is_empty(),
    }
}

impl CfOptions {
    /// These options and those of the family's tables with `changes` (names and values) made as on an
    /// open database. Table options are named `block_based_table_factory={…}`, `table_factory={…}` or
    /// `block_based_table_factory.NAME`; all of them may be changed, and count for new tables.
    ///
    /// # Errors
    /// As the table at the head of this module; nothing is changed in any case.
    pub fn with_changes<N: AsRef<str>, V: AsRef<str>>(
        &self,
        table: &BlockBasedTableOptions,
        changes: &[(N, V)],
    ) -> Result<(Self, BlockBasedTableOptions)> {
        if changes.is_empty() {
            return Err(empty());
        }
        let (mut cf, mut table) = (self.clone(), table.clone());
        let mut unknown = None;
        for (name, value) in changes {
            let (name, value) = (name.as_ref(), value.as_ref());
            let whole = whole(name);
            if let Some(row) = OwnCfOptions::row(name) {
                if !row.mutable {
                    return Err(not_changeable(name));
                }
                set_own(&mut cf.own, name, value).unwrap_or(Ok(()))?;
                continue;
            }
            if !knows_cf_option(whole) {
                unknown.get_or_insert(name);
                continue;
            }
            let mutable = match Self::row(whole) {
                Some(row) => row.mutable,
                // The memtable's other name is the only alias of something fixed.
                None => !(CF_ALIASES.contains(&whole) && whole == "memtable"),
            };
            if !mutable {
                if is_same_object(self, whole, value) {
                    continue;
                }
                return Err(not_changeable(name));
            }
            let value = match whole {
                "block_based_table_factory" | "plain_table_factory" => {
                    check_factory(&cf, name)?;
                    // "No object" keeps the one that is there.
                    if objects::is_null(value) {
                        continue;
                    }
                    value.to_string()
                }
                // Without an id, the present factory is meant.
                "table_factory" if name == whole && value.trim_start().starts_with('{') => {
                    match objects::id(value) {
                        // A new factory: what is not said has its default.
                        Some(_) => {
                            table = BlockBasedTableOptions::default();
                            value.to_string()
                        }
                        None if has_other_factory(&cf) => value.to_string(),
                        None => format!(
                            "{{id={};{}",
                            cf.table_factory,
                            &value.trim_start().get(1..).unwrap_or("}")
                        ),
                    }
                }
                _ => value.to_string(),
            };
            set_cf_option(&mut cf, &mut table, name, &value)
                .map_err(|e| name_the_factory(e, name))?;
        }
        if let Some(name) = unknown {
            return Err(not_recognized(name));
        }
        cf.check_values()?;
        Ok((cf, table))
    }

    /// Refuses what RocksDB refuses when a family is opened in a database of those options.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotSupported`, in RocksDB's words.
    pub fn check_with(&self, db: &DbOptions) -> Result<()> {
        if db.allow_concurrent_memtable_write && self.inplace_update_support {
            return Err(Error::invalid_argument(
                "In-place memtable updates (inplace_update_support) is not compatible with \
                 concurrent writes (allow_concurrent_memtable_write)",
            ));
        }
        if db.allow_concurrent_memtable_write && objects::hashes_prefixes(&self.memtable_factory) {
            return Err(Error::invalid_argument(
                "Memtable doesn't allow concurrent writes (allow_concurrent_memtable_write)",
            ));
        }
        self.check_values_in(Some(db))
    }

    /// Refuses values that RocksDB refuses when a family is opened or its options are changed.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotSupported`, in RocksDB's words.
    pub fn check_values(&self) -> Result<()> {
        self.check_values_in(None)
    }

    /// As [`Self::check_values`], in a database of those options.
    fn check_values_in(&self, db: Option<&DbOptions>) -> Result<()> {
        self.own.check_bounds()?;
        if self.own.kvsep_space_max < self.own.kvsep_space_target {
            return Err(Error::invalid_argument(
                "kvsep_space_max must not be smaller than kvsep_space_target",
            ));
        }
        if self.own.dynamic_level0 != DynamicLevel0::Off
            && self.compaction_style != CompactionStyle::Level
        {
            return Err(Error::invalid_argument(
                "dynamic_level0 needs leveled compaction",
            ));
        }
        self.check_codecs()?;
        let block_based = objects::id(&self.table_factory) == Some("BlockBasedTable");
        let is_set = |seconds| seconds > 0 && seconds != super::cf::DEFAULT_SECONDS;
        if !block_based && is_set(self.ttl) {
            return Err(Error::not_supported(
                "TTL is only supported in Block-Based Table format. ",
            ));
        }
        if !block_based && is_set(self.periodic_compaction_seconds) {
            return Err(Error::not_supported(
                "Periodic Compaction is only supported in Block-Based Table format. ",
            ));
        }
        if self.enable_blob_garbage_collection {
            let share = 0.0..=1.0;
            if !share.contains(&self.blob_garbage_collection_age_cutoff) {
                return Err(Error::invalid_argument(
                    "The age cutoff for blob garbage collection should be in the range [0.0, 1.0].",
                ));
            }
            if !share.contains(&self.blob_garbage_collection_force_threshold) {
                return Err(Error::invalid_argument(
                    "The garbage ratio threshold for forcing blob garbage collection should be in \
                     the range [0.0, 1.0].",
                ));
            }
        }
        let threshold = self.read_triggered_compaction_threshold;
        if threshold < 0.0 || !threshold.is_finite() {
            return Err(Error::invalid_argument(
                "read_triggered_compaction_threshold must be >= 0.0 and finite. Use 0.0 to disable.",
            ));
        }
        if let Some(db) = db {
            self.check_fifo(db)?;
        }
        for (what, bytes) in [
            ("Memtable", self.memtable_protection_bytes_per_key),
            ("Block", u32::from(self.block_protection_bytes_per_key)),
        ] {
            if !matches!(bytes, 0 | 1 | 2 | 4 | 8) {
                return Err(Error::not_supported(format!(
                    "{what} per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes \
                     per key."
                )));
            }
        }
        self.check_style()
    }

    /// Refuses options of the database that do not go with FIFO compaction.
    fn check_fifo(&self, db: &DbOptions) -> Result<()> {
        if self.compaction_style != CompactionStyle::Fifo {
            return Ok(());
        }
        if db.max_open_files != -1 && self.ttl > 0 {
            return Err(Error::not_supported(
                "FIFO compaction only supported with max_open_files = -1.",
            ));
        }
        if db.open_files_async {
            return Err(Error::not_supported(
                "FIFO compaction is not supported with open_files_async = true.",
            ));
        }
        Ok(())
    }

    /// Refuses options of a compaction style that contradict each other or the style.
    fn check_style(&self) -> Result<()> {
        let ages = &self
            .compaction_options_fifo
            .file_temperature_age_thresholds
            .0;
        if !ages.is_empty() {
            let is_sorted = ages.is_sorted_by(|a, b| a.age < b.age);
            let what = if self.compaction_style != CompactionStyle::Fifo {
                "only supports FIFO compaction."
            } else if self.num_levels > 1 {
                "is only supported when num_levels = 1."
            } else if !is_sorted {
                "requires elements to be sorted in increasing order with respect to `age` field."
            } else {
                ""
            };
            if !what.is_empty() {
                return Err(Error::not_supported(format!(
                    "Option file_temperature_age_thresholds {what}"
                )));
            }
        }
        if self.compaction_style == CompactionStyle::Universal {
            let runs = self.compaction_options_universal.max_read_amp;
            if runs < -1 {
                return Err(Error::not_supported(
                    "CompactionOptionsUniversal::max_read_amp should be at least -1.",
                ));
            }
            if runs > 0 && runs < self.level0_file_num_compaction_trigger {
                return Err(Error::not_supported(
                    "CompactionOptionsUniversal::max_read_amp limits the number of sorted runs but is \
                     smaller than the compaction trigger level0_file_num_compaction_trigger.",
                ));
            }
        }
        Ok(())
    }

    /// Refuses codecs of blobs and settings of dictionaries that make no sense.
    ///
    /// # Errors
    /// `InvalidArgument`, in RocksDB's words.
    pub(crate) fn check_codecs(&self) -> Result<()> {
        let dictionaries = &self.compression_opts;
        if dictionaries.zstd_max_train_bytes > 0 && dictionaries.max_dict_bytes == 0 {
            return Err(Error::invalid_argument(
                "The dictionary size limit (`CompressionOptions::max_dict_bytes`) should be nonzero if \
                 we're using zstd's dictionary generator.",
            ));
        }
        let blobs = match self.blob_compression_type {
            absent @ (CompressionType::Xpress | CompressionType::Disable) => Some(absent.word()),
            _ => None,
        };
        if let Some(name) = blobs {
            return Err(Error::invalid_argument(format!(
                "The specified blob compression type {name} is not available."
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cf(changes: &[(&str, &str)]) -> Result<(CfOptions, BlockBasedTableOptions)> {
        let mut family = CfOptions::new();
        super::super::sanitize_cf(&mut family);
        family.with_changes(&BlockBasedTableOptions::new(), changes)
    }

    /// Each answer is what RocksDB 11.8.1 says to the same call.
    #[test]
    fn changes_of_a_family_are_answered_as_measured() {
        for (name, value, want) in [
            (
                "nosuch",
                "1",
                "Invalid argument: Extra option not recognized: nosuch",
            ),
            (
                " write_buffer_size",
                "1",
                "Invalid argument: Extra option not recognized:  write_buffer_size",
            ),
            (
                "max_open_files",
                "100",
                "Invalid argument: Extra option not recognized: max_open_files",
            ),
            ("write_buffer_size", "1000000", "OK"),
            (
                "write_buffer_size",
                "abc",
                "Invalid argument: Error parsing write_buffer_size:stoull",
            ),
            (
                "write_buffer_size",
                "",
                "Invalid argument: Error parsing write_buffer_size:stoull",
            ),
            (
                "num_levels",
                "4",
                "Invalid argument: Option not changeable: num_levels",
            ),
            (
                "merge_operator",
                "uint64add",
                "Invalid argument: Option not changeable: merge_operator",
            ),
            (
                "memtable",
                "vector",
                "Invalid argument: Option not changeable: memtable",
            ),
            (
                "blob_cache",
                "1M",
                "Invalid argument: Option not changeable: blob_cache",
            ),
            ("compression_opts", "{level=3;}", "OK"),
            ("compression_opts", "4:5:6", "OK"),
            (
                "compression_opts",
                "4",
                "Invalid argument: unable to parse the specified CF option compression_opts",
            ),
            ("compression_opts.level", "4", "OK"),
            (
                "compression_opts.nosuch",
                "4",
                "Invalid argument: Unrecognized option: compression_opts.nosuch",
            ),
            (
                "compression_opts",
                "{nosuch=4}",
                "Invalid argument: Unrecognized option: compression_opts.nosuch",
            ),
            (
                "compression_opts",
                "{level=x}",
                "Invalid argument: Error parsing level:stoi",
            ),
            ("compaction_options_fifo", "{ttl=4}", "OK"),
            (
                "compression",
                "kFoo",
                "Invalid argument: Error parsing:: compression",
            ),
            (
                "disable_auto_compactions",
                "yes",
                "Invalid argument: Error parsing disable_auto_compactions:",
            ),
            (
                "level0_file_num_compaction_trigger",
                "99999999999",
                "Invalid argument: Error parsing level0_file_num_compaction_trigger:stoi",
            ),
            (
                "max_bytes_for_level_multiplier_additional",
                "1:x",
                "Invalid argument: Error parsing max_bytes_for_level_multiplier_additional:stoi",
            ),
            ("block_based_table_factory", "{block_size=8192;}", "OK"),
            ("block_based_table_factory", "block_size=8192", "OK"),
            ("block_based_table_factory", "{format_version=4;}", "OK"),
            (
                "block_based_table_factory",
                "{filter_policy=bloomfilter:10;}",
                "OK",
            ),
            ("block_based_table_factory", "{}", "OK"),
            ("block_based_table_factory", "nullptr", "OK"),
            (
                "block_based_table_factory",
                "{block_size=abc;}",
                "Invalid argument: Error parsing block_size:stoull",
            ),
            (
                "block_based_table_factory",
                "{nosuch=1;}",
                "Invalid argument: Extra option not recognized: block_based_table_factory",
            ),
            ("block_based_table_factory.block_size", "4444", "OK"),
            ("table_factory.filter_policy", "bloomfilter:10", "OK"),
            ("table_factory", "BlockBasedTable", "OK"),
            ("table_factory", "{id=BlockBasedTable;block_size=555}", "OK"),
            (
                "table_factory",
                "PlainTable",
                "Not implemented: TTL is only supported in Block-Based Table format. ",
            ),
            (
                "plain_table_factory",
                "{user_key_len=3}",
                "Invalid argument: Cannot modify BlockBasedTable as plain_table_factory",
            ),
            ("soft_rate_limit", "1", "OK"),
            ("comparator", "leveldb.BytewiseComparator", "OK"),
            ("comparator", "{id=leveldb.BytewiseComparator;}", "OK"),
            ("comparator", "", "OK"),
            (
                "comparator",
                "rocksdb.ReverseBytewiseComparator",
                "Invalid argument: Option not changeable: comparator",
            ),
            ("memtable_factory", "SkipListFactory", "OK"),
            (
                "memtable_factory",
                "skip_list",
                "Invalid argument: Option not changeable: memtable_factory",
            ),
            ("prefix_extractor", "fixed:4", "OK"),
            ("block_protection_bytes_per_key", "8", "OK"),
            (
                "block_protection_bytes_per_key",
                "3",
                "Not implemented: Block per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per key.",
            ),
            (
                "memtable_protection_bytes_per_key",
                "3",
                "Not implemented: Memtable per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per key.",
            ),
            ("blob_garbage_collection_force_threshold", "2.0", "OK"),
        ] {
            let got = cf(&[(name, value)]).map_or_else(|e| e.rocksdb_text(), |_| "OK".to_string());
            assert_eq!(got, want, "{name}={value}");
        }
    }

    #[test]
    fn changes_are_made_together_or_not_at_all_and_bad_values_come_first() {
        let text = |r: Result<(CfOptions, BlockBasedTableOptions)>| r.unwrap_err().rocksdb_text();
        assert_eq!(text(cf(&[])), "Invalid argument: empty input");
        assert_eq!(
            text(cf(&[("nosuch", "1"), ("ttl", "abc")])),
            "Invalid argument: Error parsing ttl:stoull"
        );
        assert_eq!(
            text(cf(&[("ttl", "1"), ("nosuch", "1")])),
            "Invalid argument: Extra option not recognized: nosuch"
        );
        let both = [
            ("enable_blob_garbage_collection", "true"),
            ("blob_garbage_collection_age_cutoff", "2.0"),
        ];
        assert_eq!(
            text(cf(&both)),
            "Invalid argument: The age cutoff for blob garbage collection should be in the range \
             [0.0, 1.0]."
        );
        let (family, table) = cf(&[
            ("ttl", "7"),
            ("table_factory", "{block_size=123}"),
            ("compression_opts.level", "4"),
        ])
        .unwrap();
        assert_eq!((family.ttl, family.compression_opts.level), (7, 4));
        assert_eq!(
            (table.block_size, family.table_factory.as_str()),
            (123, "BlockBasedTable")
        );
    }

    #[test]
    fn changes_of_a_database_are_answered_as_measured() {
        let parse = "Invalid argument: Error parsing";
        for (name, value, want) in [
            ("max_open_files", "100", "OK".to_string()),
            ("base_background_compactions", "1", "OK".to_string()),
            ("max_total_wal_size", "1g", "OK".to_string()),
            ("daily_offpeak_time_utc", "05:00-09:00", "OK".to_string()),
            ("daily_offpeak_time_utc", "", "OK".to_string()),
            ("daily_offpeak_time_utc", "abc", "Invalid argument: daily_offpeak_time_utc should be set in the format HH:mm-HH:mm (e.g. 04:30-07:30)".to_string()),
            ("max_open_files", "abc", format!("{parse} max_open_files:stoi")),
            ("strict_bytes_per_sync", "2", format!("{parse} strict_bytes_per_sync:")),
            ("create_if_missing", "1", "NotFound: Unrecognized option: create_if_missing".to_string()),
            ("nosuch", "1", "NotFound: Unrecognized option: nosuch".to_string()),
            ("rate_limiter_bytes_per_sec", "3", "NotFound: Unrecognized option: rate_limiter_bytes_per_sec".to_string()),
        ] {
            let got = DbOptions::new().with_changes(&[(name, value)]);
            let got = got.map_or_else(|e| e.rocksdb_text(), |_| "OK".to_string());
            assert_eq!(got, want, "{name}={value}");
        }
        let none: &[(&str, &str)] = &[];
        let e = DbOptions::new().with_changes(none).unwrap_err();
        assert_eq!(e.rocksdb_text(), "Invalid argument: empty input");
    }

    #[test]
    fn within_off_peak_hours_the_time_to_the_next_is_known() {
        let at = |hour: u64, minute: u64, second: u64| {
            20_000 * 86_400 + hour * 3600 + minute * 60 + second
        };
        let left = |text: &str, now: u64| seconds_to_next_off_peak(text, now);
        let day = "01:30-04:00";
        assert_eq!(left("", at(2, 0, 0)), 0);
        assert_eq!(left(day, at(1, 29, 59)), 0);
        assert_eq!(left(day, at(1, 30, 0)), 86_400);
        assert_eq!(left(day, at(1, 30, 1)), 86_399);
        // The minute of the end is part of it.
        assert_eq!(left(day, at(4, 0, 59)), 86_400 - (2 * 3600 + 30 * 60 + 59));
        assert_eq!(left(day, at(4, 1, 0)), 0);
        let night = "23:30-04:05";
        assert_eq!(left(night, at(23, 29, 0)), 0);
        assert_eq!(left(night, at(23, 40, 0)), 86_400 - 600);
        assert_eq!(left(night, at(4, 5, 0)), (19 * 60 + 25) * 60);
        assert_eq!(left(night, at(4, 6, 0)), 0);
    }

    #[test]
    fn off_peak_hours_are_two_different_times_of_the_day() {
        assert_eq!(off_peak("23:30-04:05"), Some((84_600, 14_700)));
        for text in [
            "",
            "5:00-09:00",
            "05:00",
            "05:00-05:00",
            "24:00-01:00",
            "01:60-02:00",
            "+1:00-02:00",
        ] {
            assert_eq!(off_peak(text), None, "{text}");
        }
    }
}
