//! Collects separators while data blocks are written, and encodes the index at the end, when it is
//! known whether user keys suffice.

use super::hash::HashIndex;
use super::partition::{Entry, PartitionLimits, Partitions};
use super::uniform::Evenness;
use super::{IndexForm, IndexType};
use crate::block::build::BlockBuilder;
use crate::format::{BlockHandle, TRAILER_LEN};
use crate::options::BuilderOptions;
use spanlith_base::coding::{put_varint32, put_varint64};
use spanlith_base::keys::{MAX_SEQUENCE, SEEK_TYPE, pack_tag, user_key};
use spanlith_base::memory::Scratch;
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// Shortest tag of a separator that is not a key of the table.
const SEPARATOR_TAG: u64 = pack_tag(MAX_SEQUENCE, SEEK_TYPE);

/// Describes what was written.
#[derive(Debug, Default)]
pub(crate) struct FinishedIndex {
    /// The index block, or the top level.
    pub(crate) handle: BlockHandle,
    /// Keys are user keys.
    pub(crate) user_keys: bool,
    /// Values are delta-encoded.
    pub(crate) delta: bool,
    /// Bytes of all blocks, uncompressed, without trailers.
    pub(crate) size: u64,
    /// Number of partitions; 0 with one level.
    pub(crate) partitions: u64,
    /// Bytes of the top level, with its trailer; 0 with one level.
    pub(crate) top_level_size: u64,
    /// Blocks whose keys are spread evenly.
    pub(crate) uniform_blocks: u64,
    /// Names and places of meta blocks.
    pub(crate) meta: Vec<(&'static str, BlockHandle)>,
}

/// First keys of data blocks.
#[derive(Default)]
struct FirstKeys {
    keys: Vec<u8>,
    ends: Vec<usize>,
}

impl FirstKeys {
    fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.keys[start..self.ends[i]]
    }
}

/// Builds the index of one table.
pub(crate) struct IndexBuilder {
    /// Internal-key separators, one after the other.
    keys: Scratch<u8>,
    /// End of each separator, and the handle of its block.
    entries: Scratch<(usize, BlockHandle)>,
    /// Some user key spans two data blocks, or the format has internal keys only.
    internal_keys: bool,
    delta: bool,
    /// Values begin with a number above 0: 0 says that a whole handle follows.
    escapes: bool,
    interval: usize,
    /// Gaps up to which keys are spread evenly; negative means never.
    uniform_cv_threshold: f64,
    first_keys: Option<FirstKeys>,
    partitions: Option<Partitions>,
    hash: Option<HashIndex>,
    /// Scratch for the shortened key.
    short: Vec<u8>,
}

impl IndexBuilder {
    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `InvalidArgument` for a hash-search index without a prefix extractor.
    pub(crate) fn check(options: &BuilderOptions) -> Result<()> {
        if options.table.index_type == IndexType::HashSearch && options.prefix_extractor.is_none() {
            return Err(Error::invalid_argument(
                "Hash index is specified for block-based table, but prefix_extractor is not given",
            ));
        }
        Ok(())
    }

    /// A builder for the index that the options ask for, with delta-encoded values if `delta`.
    pub(crate) fn new(options: &BuilderOptions, delta: bool) -> Self {
        let t = &options.table;
        let extractor = options.prefix_extractor.clone();
        let hash = extractor.filter(|_| t.index_type == IndexType::HashSearch);
        // Restart points of a hash-search index are numbers of data blocks.
        let interval = match t.index_type {
            IndexType::HashSearch => 1,
            _ => t.index_block_restart_interval,
        };
        let limits = PartitionLimits {
            size: t.metadata_block_size,
            deviation: t.block_size_deviation,
        };
        Self {
            keys: Scratch::default(),
            entries: Scratch::default(),
            internal_keys: t.format_version <= 2,
            delta,
            escapes: t.format_version >= 8,
            interval,
            uniform_cv_threshold: t.uniform_cv_threshold,
            first_keys: (t.index_type == IndexType::BinarySearchWithFirstKey)
                .then(FirstKeys::default),
            partitions: (t.index_type == IndexType::TwoLevelIndexSearch)
                .then(|| Partitions::new(limits, interval, delta)),
            hash: hash.map(HashIndex::new),
            short: Vec::new(),
        }
    }

    /// About the bytes of the index over what was added so far: each entry takes its separator, three
    /// short lengths, a handle and, mostly, a restart point.
    pub(crate) fn size_estimate(&self) -> u64 {
        const ENTRY: usize = 12;
        (self.keys.len() + self.entries.len() * ENTRY) as u64
    }

    /// Returns whether [`Self::key_added`] must be called.
    pub(crate) fn wants_keys(&self) -> bool {
        self.hash.is_some() || self.first_keys.is_some()
    }

    /// An internal key was added to the open data block; `first` says that it is the block's first.
    pub(crate) fn key_added(&mut self, key: &[u8], first: bool) {
        if let Some(hash) = &mut self.hash {
            hash.add(user_key(key), self.entries.len() as u32);
        }
        if let Some(firsts) = self.first_keys.as_mut().filter(|_| first) {
            firsts.keys.extend_from_slice(key);
            firsts.ends.push(firsts.keys.len());
        }
    }

    /// Adds the block that ends with the internal key `last`. `next` is the first key of the next
    /// block, `None` after the last. With `shorten` the separator is made as short as possible.
    pub(crate) fn add(
        &mut self,
        cmp: &Comparator,
        last: &[u8],
        next: Option<&[u8]>,
        shorten: bool,
        handle: BlockHandle,
    ) {
        let user = user_key(last);
        if let Some(partitions) = self.partitions.as_mut().filter(|_| next.is_some()) {
            self.short.clear();
            handle.encode(&mut self.short);
            let (user_keys, len) = (!self.internal_keys, self.short.len());
            partitions.close_if_full(self.entries.len(), user_keys, last, len);
        }
        if next.is_some_and(|next| cmp.equal(user, user_key(next))) {
            self.internal_keys = true;
        }
        let mut found = false;
        if shorten {
            self.short.clear();
            self.short.extend_from_slice(user);
            match next {
                Some(next) => cmp.shortest_separator(&mut self.short, user_key(next)),
                None => cmp.short_successor(&mut self.short),
            }
            found =
                self.short.len() <= user.len() && cmp.compare(user, &self.short) == Ordering::Less;
        }
        if found {
            self.keys.extend_from_slice(&self.short);
            self.keys.extend_from_slice(&SEPARATOR_TAG.to_le_bytes());
        } else {
            self.keys.extend_from_slice(last);
        }
        self.entries.push((self.keys.len(), handle));
        if self.partitions.is_some() {
            self.add_to_partition();
        }
    }

    /// Adds the last entry to the open partition.
    fn add_to_partition(&mut self) {
        let at = self.entries.len() - 1;
        let (mut full, mut delta) = (Vec::new(), Vec::new());
        let before = at.checked_sub(1).map(|i| self.entries[i].1);
        encode(
            self.entries[at].1,
            before.unwrap_or_default(),
            self.escapes,
            &mut full,
            &mut delta,
        );
        let key = &self.keys[self.key_range(at)];
        if let Some(partitions) = &mut self.partitions {
            partitions.add(&Entry {
                key,
                full: &full,
                delta: &delta,
            });
        }
    }

    /// Asks for the open partition to be closed with the next block (coupled filters).
    pub(crate) fn request_cut(&mut self) {
        if let Some(partitions) = &mut self.partitions {
            partitions.request_cut();
        }
    }

    /// Returns whether a partition was closed since the last call.
    pub(crate) fn take_closed(&mut self) -> bool {
        self.partitions
            .as_mut()
            .is_some_and(Partitions::take_closed)
    }

    /// The last separator, as an internal key; empty before the first.
    pub(crate) fn last_separator(&self) -> &[u8] {
        match self.entries.len().checked_sub(1) {
            Some(at) => &self.keys[self.key_range(at)],
            None => &[],
        }
    }

    fn key_range(&self, at: usize) -> Range<usize> {
        let start = if at == 0 { 0 } else { self.entries[at - 1].0 };
        start..self.entries[at].0
    }

    /// How index blocks of this table are encoded, once all entries are there.
    fn form(&self) -> IndexForm {
        IndexForm {
            user_keys: !self.internal_keys,
            delta: self.delta,
            first_keys: self.first_keys.is_some(),
            padding: 0,
            escapes: self.escapes,
        }
    }

    /// How the block above the partitions of a filter is encoded.
    pub(crate) fn form_of_top(&self) -> IndexForm {
        IndexForm {
            first_keys: false,
            ..self.form()
        }
    }

    /// Encodes the blocks and hands each to `put`, which says where it went.
    ///
    /// # Errors
    /// Those of `put`.
    pub(crate) fn finish(
        mut self,
        put: &mut dyn FnMut(&[u8]) -> Result<BlockHandle>,
    ) -> Result<FinishedIndex> {
        let mut out = FinishedIndex {
            user_keys: !self.internal_keys,
            delta: self.delta,
            ..FinishedIndex::default()
        };
        if let Some(hash) = self.hash.take() {
            for (name, contents) in hash.finish() {
                out.size += contents.len() as u64;
                out.meta.push((name, put(&contents)?));
            }
        }
        let Some(partitions) = self.partitions.take() else {
            let (block, even) = self.encode_entries(0..self.entries.len());
            out.uniform_blocks = even.into();
            out.size += block.len() as u64;
            out.handle = put(&block)?;
            return Ok(out);
        };
        // Without a partition nothing says that keys are internal, in any format.
        out.user_keys |= self.entries.is_empty();
        let mut top = TopLevel::new(self.interval, self.form());
        let mut start = 0;
        for end in partitions.finish(self.entries.len()) {
            let (block, even) = self.encode_entries(start..end);
            out.uniform_blocks += u64::from(even);
            out.size += block.len() as u64;
            out.partitions += 1;
            let handle = put(&block)?;
            top.add(&self.keys[self.key_range(end - 1)], handle);
            start = end;
        }
        let block = top.finish();
        out.size += block.len() as u64;
        if out.partitions > 0 {
            out.top_level_size = block.len() as u64;
        }
        out.handle = put(&block)?;
        Ok(out)
    }

    /// One index block over some entries, and whether their keys are spread evenly.
    fn encode_entries(&self, range: Range<usize>) -> (Vec<u8>, bool) {
        let mut level = TopLevel::new(self.interval, self.form());
        level.evenness = Evenness::new(self.uniform_cv_threshold, !self.internal_keys);
        for at in range {
            let first = self.first_keys.as_ref().map(|f| f.get(at));
            level.add_with(&self.keys[self.key_range(at)], self.entries[at].1, first);
        }
        let is_even = level.evenness.is_even();
        level.block.mark_uniform(is_even);
        (level.finish(), is_even)
    }
}

/// Encodes a handle, whole and as a difference to the one before.
fn encode(
    handle: BlockHandle,
    before: BlockHandle,
    escapes: bool,
    full: &mut Vec<u8>,
    delta: &mut Vec<u8>,
) {
    full.clear();
    handle.encode(full);
    let change = handle.size.wrapping_sub(before.size) as i64;
    delta.clear();
    // Sizes of blocks have 32 bits: nothing overflows.
    let zigzag = ((change << 1) ^ (change >> 63)) as u64;
    put_varint64(delta, zigzag.wrapping_add(u64::from(escapes)));
}

/// Encodes one block of keys and handles: an index, a partition of one, or the block above
/// partitions of an index or a filter.
pub(crate) struct TopLevel {
    form: IndexForm,
    block: BlockBuilder,
    previous: Vec<u8>,
    before: Option<BlockHandle>,
    full: Vec<u8>,
    delta: Vec<u8>,
    evenness: Evenness,
}

impl TopLevel {
    /// An empty block of that form.
    pub(crate) fn new(interval: usize, form: IndexForm) -> Self {
        Self {
            form,
            block: BlockBuilder::new(interval),
            previous: Vec::new(),
            before: None,
            full: Vec::new(),
            delta: Vec::new(),
            evenness: Evenness::new(-1.0, form.user_keys),
        }
    }

    /// Adds a block whose separator is the internal key `key`.
    pub(crate) fn add(&mut self, key: &[u8], handle: BlockHandle) {
        self.add_with(key, handle, None);
    }

    fn add_with(&mut self, key: &[u8], handle: BlockHandle, first: Option<&[u8]>) {
        let key = if self.form.user_keys {
            user_key(key)
        } else {
            key
        };
        if self.block.is_empty() || self.block.restart_is_due() {
            self.evenness.add(key);
        }
        encode(
            handle,
            self.before.unwrap_or_default(),
            self.form.escapes,
            &mut self.full,
            &mut self.delta,
        );
        if let Some(first) = first {
            for value in [&mut self.full, &mut self.delta] {
                put_varint32(value, first.len() as u32);
                value.extend_from_slice(first);
            }
        }
        if !self.form.delta {
            self.block.add_after(&self.previous, key, &self.full);
        } else {
            // A difference presumes that the block follows the previous one; without a shared byte
            // the handle is whole.
            let follows = self
                .before
                .is_some_and(|b| b.offset + b.size + TRAILER_LEN as u64 == handle.offset);
            let previous: &[u8] = if follows { &self.previous } else { &[] };
            self.block.add_delta(previous, key, &self.full, &self.delta);
        }
        self.previous.clear();
        self.previous.extend_from_slice(key);
        self.before = Some(handle);
    }

    /// The block's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.block.finish().to_vec()
    }
}
