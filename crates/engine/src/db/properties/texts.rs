//! Properties that are texts, by name; lists of levels and tables.

use super::Properties;
use super::tables::{aggregated, compression_ratio};
use crate::core::Family;
use crate::db::IndexResidency;
use crate::version::Version;
use spanlith_base::{ValueType, keys};
use std::fmt::Write;
use std::sync::Arc;

impl Properties<'_> {
    /// Any property of a family by its full name, as text; `None` if there is none of that name.
    pub(super) fn text(&self, family: &Arc<Family>, name: &str) -> Option<String> {
        if let Some(v) = self.integer(family, name) {
            return Some(v.to_string());
        }
        if name == "spanlith.background-errors" {
            return Some(self.state.lock().trouble.describe());
        }
        if name == "spanlith.disk-stalls" {
            return Some(self.disk.text());
        }
        if name == "spanlith.write-pace" {
            return Some(self.write_pace_text());
        }
        if name == "spanlith.written-bytes" {
            return Some(self.written_bytes().text());
        }
        if name == "spanlith.index-residency" {
            return IndexResidency::of(family).ok().map(|found| found.text());
        }
        if name == "spanlith.tombstones" {
            let sv = family.superversion.load_full();
            return Some(super::super::level_metrics::tombstones_text(&sv.version));
        }
        if name == "spanlith.async-requests" {
            let requests = self.requests;
            return Some(requests.map_or_else(String::new, |r| r.report()));
        }
        if name == "spanlith.speed-tables" {
            let tables = self.components.resources.tables.as_ref();
            return Some(tables.map_or_else(String::new, |t| t.text()));
        }
        let name = name.strip_prefix("rocksdb.")?;
        let sv = family.superversion.load_full();
        let (version, cache) = (&sv.version, &family.cache);
        if let Some((stem, number)) = split_number(name) {
            let number = usize::try_from(number?).ok()?;
            let is_level = number < version.num_levels();
            return match stem {
                "num-files-at-level" if is_level => Some(version.num_files(number).to_string()),
                "compression-ratio-at-level" if is_level => {
                    Some(format!("{:.6}", compression_ratio(version, cache, number)))
                }
                "aggregated-table-properties-at-level" if is_level => {
                    Some(aggregated(version, cache, Some(number)))
                }
                "live-sst-files-size-at-temperature" => {
                    let files = version.file_iter();
                    let these = files.filter(|(_, f)| usize::from(f.temperature) == number);
                    Some(these.map(|(_, f)| f.size).sum::<u64>().to_string())
                }
                _ => None,
            };
        }
        match name {
            "levelstats" => Some(levelstats(version)),
            "sstables" => {
                let state = self.state.lock();
                let number = state.family(family.id).map_or(0, |f| f.superversion_number);
                drop(state);
                Some(sstables(version, number))
            }
            "stats" => {
                let cf = self.family_stats_text(family);
                let read = Self::read_histogram_text(family);
                Some(cf + &read + &self.db_stats_text())
            }
            "cfstats" => Some(self.family_stats_text(family) + &Self::read_histogram_text(family)),
            "cfstats-no-file-histogram" => Some(self.family_stats_text(family)),
            "cf-file-histogram" => Some(Self::read_histogram_text(family)),
            "dbstats" => Some(self.db_stats_text()),
            "cf-write-stall-stats" => Some(super::compactions::stall_text(
                &family.counters.numbers().stalls,
            )),
            "db-write-stall-stats" => Some(super::writes::stall_text()),
            "block-cache-entry-stats" | "fast-block-cache-entry-stats" => {
                family.cache.readers.cache.as_ref()?;
                Some(super::compactions::cache_text(&family.cache))
            }
            "aggregated-table-properties" => Some(aggregated(version, cache, None)),
            "options-statistics" => self.reporter.statistics().map(|s| s.text()),
            "blob-stats" => Some(blob_stats(version)),
            _ => None,
        }
    }
}

/// The stem of a name with a number after it, and the number; `None` for the number if digits are
/// missing or too many.
pub(super) fn split_number(name: &str) -> Option<(&str, Option<u32>)> {
    const STEMS: [&str; 4] = [
        "num-files-at-level",
        "compression-ratio-at-level",
        "aggregated-table-properties-at-level",
        "live-sst-files-size-at-temperature",
    ];
    STEMS.iter().find_map(|stem| {
        let digits = name.strip_prefix(stem)?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        Some((*stem, digits.parse().ok().filter(|_| plain)))
    })
}

fn levelstats(version: &Version) -> String {
    let mut out = String::from("Level Files Size(MB)\n--------------------\n");
    for level in 0..version.num_levels() {
        // Rounded, not cut.
        let mb = version.level_bytes(level) as f64 / f64::from(1 << 20);
        let _ = writeln!(out, "{level:3} {:8} {mb:8.0}", version.num_files(level));
    }
    out
}

fn sstables(version: &Version, number: u64) -> String {
    let mut out = String::new();
    let bound = |k: &[u8]| {
        let hex: String = keys::user_key(k)
            .iter()
            .map(|b| format!("{b:02X}"))
            .collect();
        let t = keys::tag(k);
        // A bound that a range tombstone made carries no entry's type.
        debug_assert!(ValueType::from_byte(keys::tag_type(t)).is_some() || keys::tag_type(t) > 0);
        format!(
            "'{hex}' seq:{}, type:{}",
            keys::tag_sequence(t),
            keys::tag_type(t)
        )
    };
    for level in 0..version.num_levels() {
        let _ = writeln!(out, "--- level {level} --- version# {number} ---");
        for f in version.files(level) {
            let _ = writeln!(
                out,
                " {}:{}[{} .. {}][{} .. {}]({})",
                f.number,
                f.size,
                f.smallest_seqno,
                f.largest_seqno,
                bound(&f.smallest),
                bound(&f.largest),
                u8::from(f.is_being_compacted()),
            );
        }
    }
    out
}

/// A number as a C++ stream prints it: with six digits that count, and no zeros after them. Of at least 0.001, and
/// less than a million, or 0.
fn six_digits(number: f64) -> String {
    let before = number.max(1e-9).log10().floor() as i32;
    let places = usize::try_from(5 - before).unwrap_or(0);
    let text = format!("{number:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

fn blob_stats(version: &Version) -> String {
    let files = version.blob_files.values();
    let (mut total, mut garbage) = (0, 0);
    for file in files {
        total += file.size();
        garbage += file.garbage_bytes;
    }
    let live = total - garbage.min(total);
    let amplification = if live == 0 {
        0.0
    } else {
        total as f64 / live as f64
    };
    format!(
        "Number of blob files: {}\nTotal size of blob files: {total}\n\
         Total size of garbage in blob files: {garbage}\n\
         Blob file space amplification: {}\n",
        version.blob_files.len(),
        six_digits(amplification)
    )
}

#[cfg(test)]
mod tests {
    use super::six_digits;

    #[test]
    fn six_digits_count_and_zeros_behind_them_go() {
        for (number, text) in [
            (1.465_060_240_963_855_3, "1.46506"),
            (1.0, "1"),
            (0.0, "0"),
            (1.5, "1.5"),
            (12.345_678, "12.3457"),
            (123_456.7, "123457"),
            (1.999_999_9, "2"),
            (0.001_234_567_8, "0.00123457"),
        ] {
            assert_eq!(six_digits(number), text);
        }
    }
}
