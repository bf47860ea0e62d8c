//! Places where outputs must be cut, whatever their size.
//!
//! - Around *old files* of the output level: data near its `ttl` is kept apart from younger data, so
//!   that it can sink on without dragging the younger data along.
//! - Where the prefix of the user key changes, if a partitioner asks for it.
//! - Once, where round robin goes on in the output level.

use super::plan::CompactionPlan;
use crate::version::FileMeta;
use spanlith_base::Comparator;
use spanlith_base::keys::user_key;
use std::sync::Arc;

/// Looks at every key that is written, in order.
#[derive(Debug)]
pub(super) struct ForcedCuts {
    old_files: Vec<Arc<FileMeta>>,
    /// First old file that does not end before the last key.
    next_old: usize,
    /// The last key lies in that file.
    in_old: bool,
    prefix: Option<usize>,
    /// Prefix of the last key; `None` before the first.
    last_prefix: Option<Vec<u8>>,
    /// Taken once it is passed.
    split_key: Option<Vec<u8>>,
}

impl ForcedCuts {
    /// The places of a plan, if it has any; `split_key` if it lies among the keys that are written.
    pub(super) fn new(plan: &CompactionPlan, split_key: Option<Vec<u8>>) -> Option<Box<Self>> {
        // Level 0 is never cut, not even by a partitioner: the parts would be of one age and, cut within the
        // versions of a key or a tombstone, overlap.
        let sorted = plan.output_level > 0;
        let old_files = if sorted { &plan.old_files[..] } else { &[] };
        let split_key = split_key.filter(|_| sorted);
        let prefix = plan.partition_prefix.filter(|_| sorted);
        if old_files.is_empty() && prefix.is_none() && split_key.is_none() {
            return None;
        }
        Some(Box::new(Self {
            old_files: old_files.to_vec(),
            next_old: 0,
            in_old: false,
            prefix,
            last_prefix: None,
            split_key,
        }))
    }

    /// Returns whether an old file begins or ends between the last key and this one. To be asked for every key.
    pub(super) fn crosses_old_file(&mut self, c: &Comparator, key: &[u8]) -> bool {
        while let Some(file) = self.old_files.get(self.next_old) {
            let behind = c.compare_internal(key, &file.largest).is_gt();
            if self.in_old {
                if !behind {
                    return false;
                }
                self.in_old = false;
                self.next_old += 1;
                return true;
            }
            if c.compare_internal(key, &file.smallest).is_lt() {
                return false;
            }
            if !behind {
                self.in_old = true;
                return true;
            }
            self.next_old += 1;
        }
        false
    }

    /// Returns whether the prefix is another than that of the last key. To be asked for every key.
    pub(super) fn changes_prefix(&mut self, key: &[u8]) -> bool {
        let Some(len) = self.prefix else {
            return false;
        };
        let user = user_key(key);
        let prefix = &user[..len.min(user.len())];
        match &mut self.last_prefix {
            Some(last) if last == prefix => false,
            Some(last) => {
                last.clear();
                last.extend_from_slice(prefix);
                true
            }
            none => {
                *none = Some(prefix.to_vec());
                false
            }
        }
    }

    /// Returns whether round robin goes on here, which is so once. To be asked only if neither the places
    /// above nor the size end the output here: the next key is asked then.
    pub(super) fn passes_split_key(&mut self, c: &Comparator, key: &[u8]) -> bool {
        let passed = |split: &mut Vec<u8>| c.compare_internal(key, split).is_ge();
        self.split_key.take_if(passed).is_some()
    }
}
