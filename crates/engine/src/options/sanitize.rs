//! The corrections that RocksDB makes to options when a database is opened.
//!
//! They are part of what an option means (0 often stands for "derive it"), so they are applied
//! silently there; here each real correction is returned as a line for the info log. Options whose
//! features do not exist are refused before (see [`super::unsupported`]), so their rules are not
//! repeated here.

use super::cf::DEFAULT_SECONDS;
use super::objects::is_null;
use super::{
    BlockBasedTableOptions, CfOptions, CompactionStyle, CompressionType, DbOptions, IndexType,
    Temperature, WalRecoveryMode,
};
use std::path::Path;

const THIRTY_DAYS: u64 = 30 * 24 * 60 * 60;
/// The oldest format of tables that is written.
const FORMAT_VERSION_MIN: u32 = 2;

/// Fills in derived values of `db`; returns what was corrected. `open_files_max` is how many files the process
/// may have open, if there is a limit.
pub fn sanitize_db(db: &mut DbOptions, open_files_max: Option<u64>) -> Vec<String> {
    let mut notes = Vec::new();
    if db.max_open_files != -1 {
        let most = open_files_max.and_then(|n| i32::try_from(n).ok());
        let wanted = db.max_open_files;
        db.max_open_files = wanted.min(most.unwrap_or(i32::MAX)).max(20);
        if db.max_open_files != wanted {
            notes.push(format!(
                "max_open_files changed from {wanted} to {}",
                db.max_open_files
            ));
        }
    }
    let archives = db.wal_ttl_seconds > 0 || db.wal_size_limit_mb > 0;
    // A log that may hold old bytes after its end cannot be told from a damaged one in these modes.
    let strict = matches!(
        db.wal_recovery_mode,
        WalRecoveryMode::TolerateCorruptedTailRecords | WalRecoveryMode::AbsoluteConsistency
    );
    if db.recycle_log_file_num > 0 && (archives || strict) {
        notes.push(format!(
            "recycle_log_file_num changed from {} to 0",
            db.recycle_log_file_num
        ));
        db.recycle_log_file_num = 0;
    }
    if db.allow_2pc && db.avoid_flush_during_recovery {
        notes.push("avoid_flush_during_recovery changed from true to false".to_string());
        db.avoid_flush_during_recovery = false;
    }
    if db.delayed_write_rate == 0 {
        db.delayed_write_rate = 16 << 20;
    }
    if !db.wal_compression.suits_logs() {
        notes.push(format!(
            "wal_compression changed from {} to none",
            db.wal_compression
        ));
        db.wal_compression = CompressionType::None;
    }
    if db.keep_log_file_num == 0 {
        notes.push("keep_log_file_num raised from 0 to 1".to_string());
        db.keep_log_file_num = 1;
    }
    notes
}

/// Leaves out a `wal_dir` that is the directory of the database, so that its OPTIONS lead to the logs after it was
/// moved; else cuts a slash at its end. `first_path` is the first directory of tables, if one is given. As in
/// RocksDB, texts are compared.
pub fn sanitize_wal_dir(db: &mut DbOptions, dir: &Path, first_path: Option<&Path>) {
    let normal = |text: &str| {
        let mut out = String::new();
        for c in text.chars().chain(['/']) {
            if c != '/' || !out.ends_with('/') {
                out.push(c);
            }
        }
        out
    };
    let of = |path: &Path| normal(&path.to_string_lossy());
    let is_own = normal(&db.wal_dir) == of(dir) && first_path.is_none_or(|p| of(p) == of(dir));
    if db.wal_dir.is_empty() || is_own {
        db.wal_dir.clear();
    } else if db.wal_dir.len() > 1 && db.wal_dir.ends_with('/') {
        db.wal_dir.pop();
    }
}

/// Corrects options of tables as RocksDB's factory of tables does when it is made.
pub fn sanitize_table(table: &mut BlockBasedTableOptions) {
    // Older formats are read and not written.
    table.format_version = table.format_version.max(FORMAT_VERSION_MIN);
    table.block_restart_interval = table.block_restart_interval.max(1);
    table.index_block_restart_interval = match table.index_type {
        IndexType::HashSearch => 1,
        _ => table.index_block_restart_interval.max(1),
    };
    if !(0..=100).contains(&table.block_size_deviation) {
        table.block_size_deviation = 0;
    }
    if table.index_type != IndexType::TwoLevelIndexSearch {
        table.partition_filters = false;
    }
}

/// Corrects what would stop writes for good if it were changed to that while the database is open: every stop has to
/// be a reason for a job that ends it. At open these are corrected as well, together with what RocksDB corrects
/// then only.
pub fn sanitize_stops(cf: &mut CfOptions) {
    let merged = cf.min_write_buffer_number_to_merge.max(1);
    cf.max_write_buffer_number = cf.max_write_buffer_number.max(merged.saturating_add(1));
    cf.level0_file_num_compaction_trigger = cf.level0_file_num_compaction_trigger.max(1);
    let trigger = cf.level0_file_num_compaction_trigger;
    cf.level0_stop_writes_trigger = cf.level0_stop_writes_trigger.max(trigger);
}

/// Fills in derived values of `cf`; returns what was corrected.
pub fn sanitize_cf(cf: &mut CfOptions) -> Vec<String> {
    let mut notes = Vec::new();
    let mut set = |name: &str, from: String, to: String| {
        notes.push(format!("{name} changed from {from} to {to}"));
    };
    macro_rules! correct {
        ($field:ident, $value:expr) => {{
            let value = $value;
            if cf.$field != value {
                set(stringify!($field), cf.$field.to_string(), value.to_string());
                cf.$field = value;
            }
        }};
    }

    correct!(
        write_buffer_size,
        cf.write_buffer_size.clamp(64 << 10, 64 << 30)
    );
    if cf.arena_block_size == 0 {
        let wanted = (cf.write_buffer_size / 8).min(1 << 20);
        cf.arena_block_size = wanted.next_multiple_of(4096);
    }
    correct!(max_write_buffer_number, cf.max_write_buffer_number.max(2));
    let most = cf.max_write_buffer_number - 1;
    correct!(
        min_write_buffer_number_to_merge,
        cf.min_write_buffer_number_to_merge.min(most).max(1)
    );
    let fewest = if cf.compaction_style == CompactionStyle::Level {
        2
    } else {
        1
    };
    correct!(num_levels, cf.num_levels.max(fewest));
    if cf.max_bytes_for_level_multiplier <= 0.0 {
        correct!(max_bytes_for_level_multiplier, 1.0);
    }
    if cf.level0_file_num_compaction_trigger == 0 {
        correct!(level0_file_num_compaction_trigger, 1);
    }
    if cf.max_write_buffer_size_to_maintain < 0 {
        let all = u64::try_from(cf.max_write_buffer_number).unwrap_or(0);
        let bytes = all.saturating_mul(cf.write_buffer_size);
        correct!(
            max_write_buffer_size_to_maintain,
            i64::try_from(bytes).unwrap_or(i64::MAX)
        );
    }
    correct!(
        blob_direct_write_partitions,
        cf.blob_direct_write_partitions.max(1)
    );
    if cf.compaction_style == CompactionStyle::Fifo {
        // Files of level 0 are deleted, not compacted away: their number says nothing.
        correct!(level0_slowdown_writes_trigger, i32::MAX);
        correct!(level0_stop_writes_trigger, i32::MAX);
    }
    let trigger = cf.level0_file_num_compaction_trigger;
    correct!(
        level0_slowdown_writes_trigger,
        cf.level0_slowdown_writes_trigger.max(trigger)
    );
    let slowdown = cf.level0_slowdown_writes_trigger;
    correct!(
        level0_stop_writes_trigger,
        cf.level0_stop_writes_trigger.max(slowdown)
    );
    let share = cf.memtable_prefix_bloom_size_ratio;
    if !(0.0..=0.25).contains(&share) {
        correct!(memtable_prefix_bloom_size_ratio, share.clamp(0.0, 0.25));
    }
    let hard = cf.hard_pending_compaction_bytes_limit;
    if cf.soft_pending_compaction_bytes_limit == 0 {
        cf.soft_pending_compaction_bytes_limit = hard;
    } else if hard > 0 {
        let soft = cf.soft_pending_compaction_bytes_limit;
        correct!(soft_pending_compaction_bytes_limit, soft.min(hard));
    }
    if cf.compaction_style != CompactionStyle::Level {
        correct!(level_compaction_dynamic_level_bytes, false);
    }
    // 0 has the tiers of FIFO compaction derive it from what the data may take.
    let derived = cf.compaction_style == CompactionStyle::Fifo
        && cf.compaction_options_fifo.use_kv_ratio_compaction;
    if cf.max_compaction_bytes == 0 && !derived {
        cf.max_compaction_bytes = cf.target_file_size_base.saturating_mul(25);
    }
    if cf.ttl == DEFAULT_SECONDS {
        cf.ttl = if cf.table_factory == "BlockBasedTable" {
            THIRTY_DAYS
        } else {
            0
        };
    }
    if cf.periodic_compaction_seconds == DEFAULT_SECONDS {
        // So that a filter gets to see everything some time.
        let filtered = !is_null(&cf.compaction_filter) || !is_null(&cf.compaction_filter_factory);
        let wanted = match cf.compaction_style {
            CompactionStyle::Level => filtered,
            CompactionStyle::Universal => true,
            _ => false,
        };
        let usual = cf.table_factory == "BlockBasedTable";
        cf.periodic_compaction_seconds = if wanted && usual { THIRTY_DAYS } else { 0 };
    }
    match cf.compaction_style {
        // Both mean the same there: the stricter one counts.
        CompactionStyle::Universal if cf.ttl != 0 => {
            let strictest = match cf.periodic_compaction_seconds {
                0 => cf.ttl,
                period => period.min(cf.ttl),
            };
            correct!(periodic_compaction_seconds, strictest);
        }
        CompactionStyle::Fifo => correct!(last_level_temperature, Temperature::Unknown),
        _ => {}
    }
    notes
}
