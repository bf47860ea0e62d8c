//! Properties as names and values, as RocksDB's `GetMapProperty`.

use super::Properties;
use super::compactions::Facts;
use super::tables::sum;
use crate::core::{Family, StallCounts};
use spanlith_table::CacheRole;
use std::collections::BTreeMap;
use std::sync::Arc;

type Map = BTreeMap<String, String>;

fn stalls(map: &mut Map, s: &StallCounts) {
    for (name, count) in [
        (
            "cf-l0-file-count-limit-delays-with-ongoing-compaction",
            s.l0_delays_with_compaction,
        ),
        (
            "cf-l0-file-count-limit-stops-with-ongoing-compaction",
            s.l0_stops_with_compaction,
        ),
        ("l0-file-count-limit-delays", s.l0_delays),
        ("l0-file-count-limit-stops", s.l0_stops),
        ("memtable-limit-delays", s.memtable_delays),
        ("memtable-limit-stops", s.memtable_stops),
        ("pending-compaction-bytes-delays", s.debt_delays),
        ("pending-compaction-bytes-stops", s.debt_stops),
        ("total-delays", s.delays()),
        ("total-stops", s.stops()),
    ] {
        map.insert(name.to_string(), count.to_string());
    }
}

impl Properties<'_> {
    /// A property of a family as names and values, by its full name.
    pub(super) fn map(&self, family: &Arc<Family>, name: &str) -> Option<Map> {
        let name = name.strip_prefix("rocksdb.")?;
        let mut map = Map::new();
        match name {
            "cfstats" => {
                let facts = Facts::gather(self.state, family);
                let mut put = |prefix: &str, values: &[(&str, f64)]| {
                    for (name, value) in values {
                        map.insert(format!("compaction.{prefix}.{name}"), format!("{value:.6}"));
                    }
                };
                facts.rows(|level, row| put(&format!("L{level}"), &row.values()));
                put("Sum", &facts.sum_row().values());
                stalls(&mut map, &facts.numbers.stalls);
            }
            "cf-write-stall-stats" => stalls(&mut map, &family.counters.numbers().stalls),
            "db-write-stall-stats" => {
                map.insert("write-buffer-manager-limit-stops".into(), "0".into());
            }
            "dbstats" => {
                let n = self.counters.numbers(self.now());
                let up = n.at_nanos.saturating_sub(self.counters.opened_nanos);
                map.insert("db.uptime".into(), format!("{:.6}", up as f64 / 1e9));
                for (name, value) in [
                    ("db.wal_bytes_written", n.wal_bytes),
                    ("db.wal_syncs", n.wal_syncs),
                    ("db.user_bytes_written", n.bytes),
                    ("db.user_writes", n.writes),
                    ("db.user_keys_written", n.keys),
                    ("db.user_writes_with_wal", n.wal_writes),
                    ("db.user_write_stall_micros", n.stall_micros),
                ] {
                    map.insert(name.to_string(), value.to_string());
                }
            }
            "block-cache-entry-stats" | "fast-block-cache-entry-stats" => {
                let cache = family.cache.readers.cache.as_ref()?;
                for (name, value) in [
                    ("capacity", cache.capacity()),
                    ("usage", cache.usage()),
                    ("count", cache.len()),
                ] {
                    map.insert(name.to_string(), value.to_string());
                }
                let capacity = cache.capacity().max(1) as f64;
                let entries = super::compactions::cache_entries(cache);
                for (role, (count, bytes)) in CacheRole::ALL.into_iter().zip(entries) {
                    let role = role.hyphenated();
                    let percent = 100.0 * bytes as f64 / capacity;
                    map.insert(format!("count.{role}"), count.to_string());
                    map.insert(format!("bytes.{role}"), bytes.to_string());
                    map.insert(format!("percent.{role}"), format!("{percent:.6}"));
                }
                map.insert("id".into(), format!("{:#x}", cache.identity()));
            }
            _ => {
                let stem = name.strip_prefix("aggregated-table-properties")?;
                let level = match stem {
                    "" => None,
                    _ => Some(stem.strip_prefix("-at-level")?.parse().ok()?),
                };
                let version = family.superversion.load().version.clone();
                if level.is_some_and(|l: usize| l >= version.num_levels()) {
                    return None;
                }
                let p = sum(&version, &family.cache, level).p;
                for (name, value) in [
                    ("data_size", p.data_size),
                    ("index_size", p.index_size),
                    ("index_partitions", p.index_partitions),
                    ("top_level_index_size", p.top_level_index_size),
                    ("filter_size", p.filter_size),
                    ("raw_key_size", p.raw_key_size),
                    ("raw_value_size", p.raw_value_size),
                    ("num_data_blocks", p.num_data_blocks),
                    ("num_entries", p.num_entries),
                    ("num_filter_entries", p.num_filter_entries),
                    ("num_deletions", p.num_deletions),
                    ("num_merge_operands", p.num_merge_operands),
                    ("num_range_deletions", p.num_range_deletions),
                ] {
                    map.insert(name.to_string(), value.to_string());
                }
            }
        }
        Some(map)
    }
}
