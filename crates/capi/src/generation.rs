//! The generation of the C interface that this build serves.
//!
//! A few functions changed their arguments, and numbers their meaning, from one release of RocksDB to the next, so that a
//! program works only with a library of the generation of its header. The default is 11.8. Features of this crate choose an
//! older one: `generation-10-4` for 9.0 to 10.x, `generation-8-10` for 8.2 to 8.11 and `generation-8-1` for all before.
//! Everything that depends on the generation is in this module, and in the functions that have a `cfg` with one of
//! these features.

use crate::options::rocksdb_options_t;
use crate::table_options::rocksdb_block_based_table_options_t;
use spanlith::options::CompressionType;
use std::sync::LazyLock;

/// The release whose numbers an older build uses, as in the head of `spec/statistics.tsv`. Releases before 8.2 have no
/// function that takes a number.
const RELEASE: &str = if cfg!(feature = "generation-8-10") {
    "8.10"
} else {
    "10.4"
};

/// Returns whether functions and numbers are those of a release before 11.8.
const IS_OLDER: bool = cfg!(feature = "generation-10-4");

/// Numbers of counters and histograms by release: kind, name, number in 11.8, and the numbers in each older release, with
/// commas between several.
const NUMBERS: &str = include_str!("../spec/statistics.tsv");

/// The numbers of 11.8 by those of an older release.
struct Numbers {
    tickers: Vec<Option<u32>>,
    histograms: Vec<Option<u32>>,
}

impl Numbers {
    /// Reads the column of a release.
    fn of(release: &str) -> Self {
        let mut rows = NUMBERS
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>());
        let head = rows.next().unwrap_or_default();
        let column = head.iter().position(|name| *name == release);
        let mut numbers = Self {
            tickers: Vec::new(),
            histograms: Vec::new(),
        };
        for row in rows {
            let old = column.and_then(|column| row.get(column)).unwrap_or(&"");
            let all = match row[0] {
                "ticker" => &mut numbers.tickers,
                _ => &mut numbers.histograms,
            };
            for old in old
                .split(',')
                .filter_map(|number| number.parse::<usize>().ok())
            {
                all.resize(all.len().max(old + 1), None);
                all[old] = row[2].parse().ok();
            }
        }
        numbers
    }
}

static OLDER: LazyLock<Numbers> = LazyLock::new(|| Numbers::of(RELEASE));

/// The number in 11.8 of a counter; `None` for one that 11.8 does not have.
pub(crate) fn ticker(number: u32) -> Option<u32> {
    if IS_OLDER {
        nth(&OLDER.tickers, number)
    } else {
        Some(number)
    }
}

/// The number in 11.8 of a histogram; `None` for one that 11.8 does not have.
pub(crate) fn histogram(number: u32) -> Option<u32> {
    if IS_OLDER {
        nth(&OLDER.histograms, number)
    } else {
        Some(number)
    }
}

fn nth(all: &[Option<u32>], number: u32) -> Option<u32> {
    all.get(usize::try_from(number).ok()?).copied().flatten()
}

/// The level of perf contexts in 11.8: 9.0 inserted one for times of waiting at 3.
pub(crate) fn perf_level(level: i32) -> i32 {
    let was_inserted = cfg!(feature = "generation-8-10") && level >= 3;
    level.saturating_add(i32::from(was_inserted))
}

/// The version of block-based tables that the release writes unless it is asked otherwise.
const FORMAT_VERSION: u32 = if cfg!(feature = "generation-8-10") {
    5
} else {
    6
};

/// Sets what the release of this build has as defaults of new options where 11.8 has others.
pub(crate) fn adjust_options(options: &mut rocksdb_options_t) {
    if IS_OLDER {
        options.table.format_version = FORMAT_VERSION;
        options.cf.compression = CompressionType::Snappy;
    }
    if cfg!(feature = "generation-8-1") {
        options.cf.level_compaction_dynamic_level_bytes = false;
        options.db.compaction_readahead_size = 0;
    }
}

/// Sets what the release of this build has as defaults of new table options where 11.8 has others.
pub(crate) fn adjust_table_options(options: &mut rocksdb_block_based_table_options_t) {
    if IS_OLDER {
        options.table.format_version = FORMAT_VERSION;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::stats::{Histogram, Ticker};

    /// Counters and histograms that older releases have, by the sizes of their enumerations.
    const SIZES: [(&str, usize, usize); 2] = [("8.10", 215, 60), ("10.4", 216, 64)];

    #[test]
    fn the_table_has_the_counters_of_11_8_by_number_and_name() {
        let rows = NUMBERS
            .lines()
            .skip(1)
            .map(|line| line.split('\t').collect::<Vec<_>>());
        let (mut tickers, mut histograms) = (0, 0);
        for row in rows {
            let number = row[2].parse().expect("a number");
            let name = match row[0] {
                "ticker" => {
                    tickers += 1;
                    Ticker::from_number(number).map(Ticker::name)
                }
                _ => {
                    histograms += 1;
                    Histogram::from_number(number).map(Histogram::name)
                }
            };
            assert_eq!(
                name.map(|n| n.trim_start_matches("rocksdb.")),
                Some(row[1]),
                "{row:?}"
            );
        }
        assert_eq!(
            (tickers, histograms),
            (Ticker::ALL.len(), Histogram::ALL.len())
        );
    }

    #[test]
    fn older_releases_have_a_number_for_all_but_what_11_8_has_lost() {
        for (release, tickers, histograms) in SIZES {
            let numbers = Numbers::of(release);
            assert_eq!(
                (numbers.tickers.len(), numbers.histograms.len()),
                (tickers, histograms)
            );
            let lost = |all: &[Option<u32>]| all.iter().filter(|number| number.is_none()).count();
            let expected = if release == "8.10" { (1, 2) } else { (0, 0) };
            assert_eq!(
                (lost(&numbers.tickers), lost(&numbers.histograms)),
                expected,
                "{release}"
            );
        }
    }

    #[test]
    fn counters_keep_their_meaning_from_release_to_release() {
        // The number of `NUMBER_KEYS_WRITTEN` in each release's header.
        let name = |release: &str, number| {
            let number = nth(&Numbers::of(release).tickers, number)?;
            Ticker::from_number(number).map(Ticker::name)
        };
        const WRITTEN: [(&str, u32); 2] = [("8.10", 37), ("10.4", 57)];
        for (release, number) in WRITTEN {
            assert_eq!(
                name(release, number),
                Some("number.keys.written"),
                "{release}"
            );
        }
    }
}
