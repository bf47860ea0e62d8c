//! Splits a compaction into ranges of user keys that are worked on at once.
//!
//! Boundaries come from the indexes of the inputs: each table names about 128 keys that cut it into
//! equal parts. All parts together are dealt out to ranges of equal size, none smaller than a file of
//! the output level. Versions of one user key stay in one range.

use super::job::CompactionJob;
use crate::options::CompactionPri;
use crate::picker::sort_all;
use spanlith_base::Result;
use spanlith_table::KeyAnchor;

/// Parts into which one table is cut, about.
const ANCHORS_PER_FILE: u64 = 128;

/// How many ranges a job may have, as far as the database says.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitLimits {
    /// `max_subcompactions`.
    pub subcompactions: u32,
    /// Compaction jobs that could run beside those that do.
    pub free_jobs: u64,
}

impl CompactionJob {
    /// User keys at which the job is split, ascending; none if it stays whole.
    ///
    /// # Errors
    /// Those of opening and reading the indexes of the inputs.
    pub(super) fn split_keys(&self, limits: SplitLimits) -> Result<Vec<Vec<u8>>> {
        let ranges = self.ranges_wanted(limits);
        if ranges <= 1 {
            return Ok(Vec::new());
        }
        let mut anchors = Vec::new();
        for f in self.plan.input_files() {
            let reader = self.family.cache.reader(f)?;
            anchors.extend(reader.key_anchors(ANCHORS_PER_FILE)?);
        }
        let comparator = &self.family.comparator;
        // All parts count for the size of a range, but of those with one key only the first is dealt.
        let total = anchors.iter().map(|a| a.size_bytes).sum();
        let mut order: Vec<&KeyAnchor> = anchors.iter().collect();
        sort_all(&mut order, |a, b| {
            let order = comparator.compare_without_timestamp(&a.user_key, true, &b.user_key, true);
            order.is_lt()
        });
        order.dedup_by(|b, a| comparator.same_key(&a.user_key, &b.user_key));
        let mut keys = deal(&order, total, ranges, self.plan.target_file_size);
        // In front of all versions of the key.
        for key in &mut keys {
            let bare = comparator.strip_timestamp(key).len();
            key[bare..].fill(0xff);
        }
        Ok(keys)
    }

    fn ranges_wanted(&self, limits: SplitLimits) -> u64 {
        if !self.plan.may_split {
            return 1;
        }
        let limit = match self.max_subcompactions {
            0 => limits.subcompactions,
            own => own,
        };
        let limit = u64::from(limit.max(1));
        let in_turn = self.settings.levels.compaction_pri == CompactionPri::RoundRobin;
        if !self.plan.is_leveled || !in_turn {
            return limit;
        }
        // Files that take turns bring a range each, as far as jobs are free.
        let files = self.plan.inputs.first().map_or(0, |i| i.1.len()) as u64;
        limit.max(files.min(limit + limits.free_jobs))
    }
}

/// Keys that cut the parts into at most `ranges` ranges of equal size; all together have `total` bytes.
fn deal(anchors: &[&KeyAnchor], total: u64, ranges: u64, fewest_bytes: u64) -> Vec<Vec<u8>> {
    let size = (total / ranges).max(fewest_bytes);
    if size >= total {
        return Vec::new();
    }
    let mut keys = Vec::new();
    let (mut sum, mut next) = (0, size);
    for anchor in anchors {
        sum += anchor.size_bytes;
        if sum > next {
            next += size;
            keys.push(anchor.user_key.clone());
            if keys.len() as u64 + 1 == ranges {
                break;
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: &[u64]) -> Vec<KeyAnchor> {
        let anchor = |(i, &size_bytes): (usize, &u64)| KeyAnchor {
            user_key: vec![b'a' + i as u8],
            size_bytes,
        };
        sizes.iter().enumerate().map(anchor).collect()
    }

    fn cut(sizes: &[u64], ranges: u64, fewest: u64) -> String {
        let parts = parts(sizes);
        let anchors: Vec<&KeyAnchor> = parts.iter().collect();
        let keys = deal(&anchors, sizes.iter().sum(), ranges, fewest);
        keys.iter()
            .map(|k| String::from_utf8_lossy(k).into_owned())
            .collect()
    }

    #[test]
    fn parts_are_dealt_out_to_ranges_of_equal_size() {
        assert_eq!(cut(&[10; 8], 4, 1), "ceg");
        assert_eq!(cut(&[10; 8], 2, 1), "e");
        assert_eq!(cut(&[70, 10, 10, 10], 3, 1), "ab", "one part is large");
    }

    #[test]
    fn parts_that_are_not_dealt_out_make_ranges_larger() {
        let parts = parts(&[10; 8]);
        let anchors: Vec<&KeyAnchor> = parts.iter().collect();
        let keys = deal(&anchors, 120, 4, 1);
        assert_eq!(keys, [b"d".to_vec(), b"g".to_vec()], "30 bytes each");
    }

    #[test]
    fn no_range_is_smaller_than_a_file_of_the_output() {
        assert_eq!(cut(&[10; 8], 4, 40), "e");
        assert_eq!(cut(&[10; 8], 4, 80), "", "it fits one file");
        assert_eq!(cut(&[10; 8], 1, 1), "");
        assert_eq!(cut(&[], 4, 1), "");
    }
}
