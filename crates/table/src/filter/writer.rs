//! Gathers the entries of a table's filter, and cuts it into partitions.
//!
//! A filter that is cut on its own ends when it holds as many entries as its size allows. One that
//! is coupled to the index asks the index to close its partition, and follows when the index does.
//!
//! The prefix of the key after a cut also goes into the partition before it, and the prefix of the
//! key before a cut into the one after: a seek from either side lands there.

use super::entries::Entries;
use super::{FilterBuilder, FilterPolicy};
use crate::index::{IndexBuilder, IndexType};
use crate::options::BuilderOptions;
use spanlith_base::keys::TAG_LEN;
use spanlith_base::memory::Scratch;
use spanlith_base::{Error, Result, SliceTransform};

/// A finished partition.
pub(crate) struct FilterPartition {
    /// Internal key not smaller than the partition's keys, smaller than those after it.
    pub(crate) key: Vec<u8>,
    /// The filter.
    pub(crate) contents: Vec<u8>,
}

/// A finished filter.
pub(crate) enum Finished {
    /// Nothing was added.
    Nothing,
    /// One filter over the table.
    Full(Scratch<u8>),
    /// Partitions in order.
    Partitioned(Vec<FilterPartition>),
}

/// The filter of a table that is being written.
pub(crate) enum FilterWriter {
    /// Whole keys into one fast local Bloom filter: the usual case.
    Plain(FilterBuilder),
    /// Anything else.
    General(Box<General>),
}

/// Any filter.
pub(crate) struct General {
    policy: FilterPolicy,
    whole_keys: bool,
    extractor: Option<SliceTransform>,
    entries: Entries,
    /// Finished filters are asked for their entries.
    verify: bool,
    /// One did not have them all.
    is_damaged: bool,
    partitions: Option<Partitions>,
    /// Bytes of timestamp that the keys of the table have and those given here do not.
    timestamp_size: usize,
}

/// The state of a partitioned filter.
struct Partitions {
    /// Entries at which a partition is cut.
    capacity: u64,
    coupled: bool,
    done: Vec<FilterPartition>,
    /// Entries of finished partitions.
    entries: u64,
    /// User key added last, if any.
    last: Option<Vec<u8>>,
}

impl FilterWriter {
    /// A writer for the filter that the options ask for, if any.
    pub(crate) fn new(options: &BuilderOptions) -> Option<Self> {
        let t = &options.table;
        let policy = FilterPolicy::new(
            t.filter,
            t.format_version,
            options.filter_level,
            t.optimize_filters_for_memory
                .then(|| t.filter_balance.clone()),
        )?;
        let extractor = options.prefix_extractor.clone();
        if options.skip_filters || (!t.whole_key_filtering && extractor.is_none()) {
            return None;
        }
        let partitioned = t.partition_filters && t.index_type == IndexType::TwoLevelIndexSearch;
        let plain = !partitioned && !t.verify_filters;
        if let (Some(bits), None, true) = (policy.fast_local(), &extractor, plain) {
            let balance = policy.balance().cloned();
            return Some(Self::Plain(FilterBuilder::new(bits, balance)));
        }
        let partitions = partitioned.then(|| {
            let percent = 100 - u64::from(t.block_size_deviation.min(100));
            let target = (t.metadata_block_size as u64 * percent)
                .div_ceil(100)
                .max(1);
            let capacity = policy.capacity(target);
            // Room for the prefix of the key after the cut.
            let reserve = u64::from(extractor.is_some() && capacity > 1);
            Partitions {
                capacity: capacity - reserve,
                coupled: !t.decouple_partitioned_filters,
                done: Vec::new(),
                entries: 0,
                last: None,
            }
        });
        Some(Self::General(Box::new(General {
            policy,
            whole_keys: t.whole_key_filtering,
            extractor,
            entries: Entries::default(),
            verify: t.verify_filters,
            is_damaged: false,
            partitions,
            timestamp_size: options.comparator.timestamp_size(),
        })))
    }

    /// Adds a user key without its timestamp.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: &[u8], index: &mut IndexBuilder) {
        match self {
            Self::Plain(builder) => builder.add(key),
            Self::General(general) => general.add(key, index),
        }
    }

    /// Number of entries so far.
    pub(crate) fn num_entries(&self) -> u64 {
        match self {
            Self::Plain(builder) => builder.len() as u64,
            Self::General(general) => general.num_entries(),
        }
    }

    /// About the bytes of the filter over what was added so far.
    pub(crate) fn size_estimate(&self) -> u64 {
        match self {
            Self::Plain(builder) => builder.size(),
            Self::General(general) => general.policy.size(general.num_entries()),
        }
    }

    /// The filter. The index must have all its entries.
    ///
    /// # Errors
    /// `Corruption` if it was to be verified and lacks an entry.
    pub(crate) fn finish(self, index: &IndexBuilder) -> Result<Finished> {
        match self {
            Self::Plain(builder) if builder.is_empty() => Ok(Finished::Nothing),
            Self::Plain(builder) => Ok(Finished::Full(builder.finish())),
            Self::General(general) => general.finish(index),
        }
    }
}

impl General {
    fn num_entries(&self) -> u64 {
        self.partitions.as_ref().map_or(0, |p| p.entries) + self.entries.len()
    }

    #[inline(never)]
    fn add(&mut self, key: &[u8], index: &mut IndexBuilder) {
        if let Some(partitions) = &self.partitions {
            let full = self.entries.len() >= partitions.capacity;
            let cut = if partitions.coupled {
                if full {
                    index.request_cut();
                }
                index.take_closed()
            } else {
                full
            };
            if cut {
                self.cut(key, index);
            }
        }
        let prefix = self.extractor.as_ref().and_then(|e| e.prefix(key));
        match (prefix.map(|p| self.policy.hash(p)), self.whole_keys) {
            (Some(prefix), true) => self.entries.add_pair(self.policy.hash(key), prefix),
            (Some(prefix), false) => self.entries.add(prefix),
            (None, true) => self.entries.add(self.policy.hash(key)),
            (None, false) => {}
        }
        if let Some(partitions) = &mut self.partitions {
            let last = partitions.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
    }

    /// Ends the open partition before the user key `next`.
    fn cut(&mut self, next: &[u8], index: &IndexBuilder) {
        let prefix_of = |key: &[u8]| {
            let extractor = self.extractor.as_ref()?;
            extractor.prefix(key).map(|p| self.policy.hash(p))
        };
        let next = prefix_of(next);
        let last = self.partitions.as_ref().and_then(|p| p.last.as_deref());
        let last = last.and_then(prefix_of);
        match next {
            Some(prefix) if self.whole_keys => self.entries.add_pair(prefix, prefix),
            Some(prefix) => self.entries.add(prefix),
            None => {}
        }
        self.end_partition(index);
        if let Some(prefix) = last {
            self.entries.add(prefix);
        }
    }

    fn end_partition(&mut self, index: &IndexBuilder) {
        let Some(partitions) = &mut self.partitions else {
            return;
        };
        if self.entries.len() == 0 {
            // Nothing in its range has an entry; the next partition answers for it.
            return;
        }
        let key = if partitions.coupled {
            index.last_separator().to_vec()
        } else {
            let mut key = partitions.last.clone().unwrap_or_default();
            // The smallest timestamp, and the smallest tag.
            key.resize(key.len() + self.timestamp_size + TAG_LEN, 0);
            key
        };
        let contents = build(
            &self.policy,
            &self.entries,
            self.verify,
            &mut self.is_damaged,
        );
        partitions.entries += self.entries.len();
        partitions.done.push(FilterPartition { key, contents });
        self.entries.clear();
    }

    fn finish(mut self, index: &IndexBuilder) -> Result<Finished> {
        self.end_partition(index);
        let finished = match self.partitions {
            None if self.entries.len() == 0 => Finished::Nothing,
            None => {
                let (policy, entries) = (&self.policy, &self.entries);
                let contents = build(policy, entries, self.verify, &mut self.is_damaged);
                Finished::Full(contents[..].into())
            }
            Some(partitions) if partitions.done.is_empty() => Finished::Nothing,
            Some(partitions) => Finished::Partitioned(partitions.done),
        };
        match self.is_damaged {
            true => Err(Error::corruption("Corrupted filter content")),
            false => Ok(finished),
        }
    }
}

/// The filter over the entries; it is asked for all of them if it is to be verified.
fn build(policy: &FilterPolicy, entries: &Entries, verify: bool, is_damaged: &mut bool) -> Vec<u8> {
    let contents = policy.build(entries.hashes());
    if verify && !policy.has_all(&contents, entries.hashes()) {
        *is_damaged = true;
    }
    contents
}
