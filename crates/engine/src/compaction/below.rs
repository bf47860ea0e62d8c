//! Says whether a user key can exist below the output level of a compaction, by file ranges.

use crate::version::Version;
use spanlith_base::{Comparator, keys};
use std::cmp::Ordering;
use std::sync::Arc;

/// Cursors over the levels below the output. Keys must be asked in order.
pub(crate) struct Below {
    version: Arc<Version>,
    /// (level, index of the first file that does not end before the last key asked).
    cursors: Vec<(usize, usize)>,
    /// Output stays in level 0, where older files may hold anything, or is no level of level compaction:
    /// as in RocksDB nothing is looked at then.
    unknown: bool,
}

impl Below {
    pub(crate) fn new(version: Arc<Version>, output_level: usize, is_leveled: bool) -> Self {
        let cursors = (output_level + 1..version.levels.len())
            .filter(|&l| !version.levels[l].files.is_empty())
            .map(|l| (l, 0))
            .collect();
        Self {
            version,
            cursors,
            unknown: output_level == 0 || !is_leveled,
        }
    }

    /// False if no file of a deeper level covers `user_key`, whose timestamp does not count.
    pub(crate) fn may_contain(&mut self, comparator: &Comparator, user_key: &[u8]) -> bool {
        if self.unknown {
            return true;
        }
        self.cursors.iter_mut().any(|(level, at)| {
            let files = &self.version.levels[*level].files;
            while let Some(f) = files.get(*at)
                && comparator.compare_without_timestamp(
                    keys::user_key(&f.largest),
                    true,
                    user_key,
                    true,
                ) == Ordering::Less
            {
                *at += 1;
            }
            files.get(*at).is_some_and(|f| {
                let smallest = keys::user_key(&f.smallest);
                comparator.compare_without_timestamp(smallest, true, user_key, true)
                    != Ordering::Greater
            })
        })
    }
}
