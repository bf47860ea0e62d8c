//! Where the partitions of a two-level index end.
//!
//! A partition is closed before an entry that would not fit, by the rule by which data blocks are
//! cut, applied to the block as it will be encoded; or because a filter that is partitioned along
//! with the index asks for it.

use crate::block::build::BlockBuilder;
use spanlith_base::coding::varint_len;

/// Sizes at which a partition is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionLimits {
    /// Bytes of a partition.
    pub(crate) size: usize,
    /// A partition is closed early if it is this close to its size, in percent, and the next entry
    /// would not fit.
    pub(crate) deviation: u32,
}

/// Follows the open partition.
pub(super) struct Partitions {
    limits: PartitionLimits,
    delta: bool,
    /// The open partition with internal keys, and with user keys.
    blocks: [BlockBuilder; 2],
    last: Vec<u8>,
    /// Number of entries before the end of each closed partition.
    ends: Vec<usize>,
    /// The filter wants the open partition closed.
    requested: bool,
    /// A partition was closed and the filter has not followed.
    closed: bool,
}

/// An entry as it is added to the open partition.
pub(super) struct Entry<'a> {
    /// Separator as an internal key.
    pub(super) key: &'a [u8],
    /// Value without differences.
    pub(super) full: &'a [u8],
    /// Value as a difference.
    pub(super) delta: &'a [u8],
}

impl Partitions {
    pub(super) fn new(limits: PartitionLimits, interval: usize, delta: bool) -> Self {
        Self {
            limits,
            delta,
            blocks: [BlockBuilder::new(interval), BlockBuilder::new(interval)],
            last: Vec::new(),
            ends: Vec::new(),
            requested: false,
            closed: false,
        }
    }

    /// Closes the open partition, which ends with entry number `entries`, if the entry of a block
    /// that ends with `last_key` no longer belongs to it.
    pub(super) fn close_if_full(
        &mut self,
        entries: usize,
        user_keys: bool,
        last_key: &[u8],
        value_len: usize,
    ) -> bool {
        let block = &self.blocks[usize::from(user_keys)];
        if block.is_empty() || !(self.requested || self.is_full(block, last_key.len(), value_len)) {
            return false;
        }
        self.ends.push(entries);
        for block in &mut self.blocks {
            block.clear();
        }
        self.last.clear();
        self.requested = false;
        self.closed = true;
        true
    }

    /// RocksDB's flush-by-size rule. Differences are taken to be half as long as full values.
    fn is_full(&self, block: &BlockBuilder, key_len: usize, value_len: usize) -> bool {
        let now = block.size();
        if now >= self.limits.size {
            return true;
        }
        let deviation = self.limits.deviation.min(100) as usize;
        let early = (self.limits.size * (100 - deviation)).div_ceil(100);
        if deviation == 0 || now <= early {
            return false;
        }
        let restart = block.restart_is_due();
        let value = if !self.delta || restart {
            value_len + varint_len(value_len as u64)
        } else {
            value_len / 2
        };
        let next = key_len + 4 + varint_len(key_len as u64) + value + if restart { 4 } else { 0 };
        now + next > self.limits.size
    }

    /// Adds an entry to the open partition.
    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        let short = entry.key.len().saturating_sub(8);
        for (block, len) in self.blocks.iter_mut().zip([entry.key.len(), short]) {
            let key = &entry.key[..len];
            let last = &self.last[..self.last.len().min(if len == short {
                self.last.len().saturating_sub(8)
            } else {
                self.last.len()
            })];
            if self.delta {
                block.add_delta(last, key, entry.full, entry.delta);
            } else {
                block.add_after(last, key, entry.full);
            }
        }
        self.last.clear();
        self.last.extend_from_slice(entry.key);
    }

    /// Asks for the open partition to be closed with the next entry.
    pub(super) fn request_cut(&mut self) {
        self.requested = true;
    }

    /// Returns whether a partition was closed since the last call.
    pub(super) fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.closed)
    }

    /// Number of entries before the end of each partition, the open one included. A table without data
    /// blocks has none.
    pub(super) fn finish(self, entries: usize) -> Vec<usize> {
        let mut ends = self.ends;
        if entries > 0 && ends.last() != Some(&entries) {
            ends.push(entries);
        }
        ends
    }
}
