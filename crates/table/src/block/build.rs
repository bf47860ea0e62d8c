//! Encodes the entries of one block after another into a reused buffer.

use super::hash_index::HashIndexBuilder;
use super::parse::{HASH_INDEX, SEPARATED, UNIFORM};
use super::seek::common_prefix;
use spanlith_base::coding::{get_varint32, put_fixed32, put_varint32, varint_len};
use spanlith_base::keys::{ENTRY_MAX, user_key};
use spanlith_base::{Error, Result};

/// Restart interval of blocks with a single restart point.
pub(crate) const ONE_RESTART: usize = i32::MAX as usize;

/// Entries from here on have a block of their own; it is half of what offsets in a block reach.
pub(crate) const LARGE_ENTRY: usize = 1 << 31;

/// Refuses what no block could hold.
#[cold]
pub(crate) fn check_large(key: &[u8], value: &[u8]) -> Result<()> {
    // With tag, timestamp and what else a value gets after the user's key and value.
    if key.len() + value.len() <= ENTRY_MAX + (32 << 10) {
        return Ok(());
    }
    Err(Error::invalid_argument("entry is too large for a table")
        .with("key", key.len())
        .with("value", value.len()))
}

/// Describes what a block has beside ordinary entries.
struct Extras {
    /// The values, if they are kept apart from the keys.
    values: Option<Vec<u8>>,
    hash: Option<HashIndexBuilder>,
    /// Bytes that all user keys so far begin with, if they are to be stored once, in front of the entries (format
    /// version 8).
    prefix: Option<usize>,
}

/// Builds one block at a time.
pub(crate) struct BlockBuilder {
    interval: usize,
    data: Vec<u8>,
    restarts: Vec<u32>,
    /// Entries since the last restart point.
    since_restart: usize,
    /// The footer says that keys are spread evenly.
    is_uniform: bool,
    /// `None` for ordinary blocks.
    extras: Option<Box<Extras>>,
}

impl BlockBuilder {
    /// An empty block with a restart point every `interval` entries.
    pub(crate) fn new(interval: usize) -> Self {
        Self {
            interval: interval.max(1),
            data: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            is_uniform: false,
            extras: None,
        }
    }

    /// An empty data block, with values kept apart from the keys, and with a hash index of that
    /// fill ratio, if wanted. Keys are then internal keys.
    pub(crate) fn with_extras(interval: usize, separated: bool, hash_ratio: Option<f64>) -> Self {
        let mut builder = Self::new(interval);
        if separated || hash_ratio.is_some() {
            builder.extras = Some(Box::new(Extras {
                values: separated.then(Vec::new),
                hash: hash_ratio.map(HashIndexBuilder::new),
                prefix: None,
            }));
        }
        builder
    }

    /// Stores once, in front of the entries, what all user keys of a block begin with. Keys are internal keys, and
    /// `shared` is always what two of them have in common.
    pub(crate) fn strip_prefixes(&mut self) {
        let extras = self.extras.get_or_insert_with(|| {
            Box::new(Extras {
                values: None,
                hash: None,
                prefix: None,
            })
        });
        extras.prefix = Some(0);
    }

    /// Says whether the keys of the block are spread evenly; kept until said otherwise.
    pub(crate) fn mark_uniform(&mut self, is_uniform: bool) {
        self.is_uniform = is_uniform;
    }

    /// Starts the next block.
    pub(crate) fn clear(&mut self) {
        if let Some(extras) = &mut self.extras {
            if let Some(values) = &mut extras.values {
                values.clear();
            }
            if let Some(hash) = &mut extras.hash {
                hash.clear();
            }
        }
        self.data.clear();
        // The first one lies after a prefix, if the block before had one.
        self.restarts.clear();
        self.restarts.push(0);
        self.since_restart = 0;
    }

    /// Returns whether no entry was added.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Bytes of the block if it were finished now.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        let size = self.data.len() + 4 * self.restarts.len() + 4;
        match &self.extras {
            None => size,
            Some(extras) => size + extras.size(),
        }
    }

    /// Returns what RocksDB expects an entry to add to the block (7.2 of the format notes: the length of
    /// the shared prefix counts four bytes, and nothing is assumed to be shared).
    #[inline]
    pub(crate) fn size_of_next(&self, key_len: usize, value_len: usize) -> usize {
        let restart = if self.since_restart >= self.interval {
            4
        } else {
            0
        };
        key_len
            + value_len
            + 4
            + varint_len(key_len as u64)
            + varint_len(value_len as u64)
            + restart
            + self.extra_size_of_next()
    }

    /// At a restart point of a block with separated values an entry says where its value is.
    #[inline]
    fn extra_size_of_next(&self) -> usize {
        match self.extras.as_ref().and_then(|e| e.values.as_ref()) {
            Some(values) if self.data.is_empty() || self.since_restart >= self.interval => {
                varint_len(values.len() as u64)
            }
            _ => 0,
        }
    }

    /// Returns whether the next entry opens a restart interval.
    pub(crate) fn restart_is_due(&self) -> bool {
        self.since_restart >= self.interval
    }

    /// Appends an entry. `shared` is what `key` and the previous key have in common; it is not used
    /// at a restart point.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8], shared: usize) {
        if self.extras.is_some() {
            return self.add_with_extras(key, value, shared);
        }
        let shared = self.next_shared(shared);
        let rest = &key[shared..];
        if (shared | rest.len() | value.len()) < 0x80 {
            self.data
                .extend_from_slice(&[shared as u8, rest.len() as u8, value.len() as u8]);
        } else {
            put_varint32(&mut self.data, shared as u32);
            put_varint32(&mut self.data, rest.len() as u32);
            put_varint32(&mut self.data, value.len() as u32);
        }
        self.data.extend_from_slice(rest);
        self.data.extend_from_slice(value);
    }

    #[inline(never)]
    fn add_with_extras(&mut self, key: &[u8], value: &[u8], shared: usize) {
        if let Some(prefix) = self.extras.as_mut().and_then(|e| e.prefix.as_mut()) {
            *prefix = match self.data.is_empty() {
                true => user_key(key).len(),
                // All keys have in common the least that two neighbours have.
                false => shared.min(*prefix),
            };
        }
        let shared = self.next_shared(shared);
        let is_restart = self.since_restart == 1;
        let rest = &key[shared..];
        put_varint32(&mut self.data, shared as u32);
        put_varint32(&mut self.data, rest.len() as u32);
        put_varint32(&mut self.data, value.len() as u32);
        let Some(extras) = &mut self.extras else {
            return;
        };
        if let Some(hash) = &mut extras.hash {
            hash.add(user_key(key), self.restarts.len() - 1);
        }
        match &mut extras.values {
            Some(values) => {
                if is_restart {
                    put_varint32(&mut self.data, values.len() as u32);
                }
                self.data.extend_from_slice(rest);
                values.extend_from_slice(value);
            }
            None => {
                self.data.extend_from_slice(rest);
                self.data.extend_from_slice(value);
            }
        }
    }

    /// Appends an entry of a block whose keys the caller keeps.
    pub(crate) fn add_after(&mut self, previous: &[u8], key: &[u8], value: &[u8]) {
        self.add(key, value, common_prefix(previous, key));
    }

    /// Appends an index entry in the delta form: `full` is the value if no byte is shared, `delta`
    /// otherwise.
    pub(crate) fn add_delta(&mut self, previous: &[u8], key: &[u8], full: &[u8], delta: &[u8]) {
        let shared = self.next_shared(common_prefix(previous, key));
        put_varint32(&mut self.data, shared as u32);
        put_varint32(&mut self.data, (key.len() - shared) as u32);
        self.data.extend_from_slice(&key[shared..]);
        self.data
            .extend_from_slice(if shared == 0 { full } else { delta });
    }

    /// Opens a restart interval if one is due; the shared length to encode.
    #[inline]
    fn next_shared(&mut self, shared: usize) -> usize {
        if self.since_restart >= self.interval {
            self.restarts.push(self.data.len() as u32);
            self.since_restart = 1;
            return 0;
        }
        self.since_restart += 1;
        // The first entry of a block is a restart point too.
        if self.data.is_empty() { 0 } else { shared }
    }

    /// Appends restart array and footer; the block's bytes.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if let Some(prefix @ 1..) = self.extras.as_ref().and_then(|e| e.prefix)
            && !self.data.is_empty()
        {
            self.move_prefix(prefix);
        }
        let mut footer = self.restarts.len() as u32;
        if self.is_uniform {
            footer |= UNIFORM;
        }
        let mut values_at = None;
        if let Some(values) = self.extras.as_ref().and_then(|e| e.values.as_ref()) {
            values_at = Some(self.data.len() as u32);
            self.data.extend_from_slice(values);
            footer |= SEPARATED;
        }
        for &offset in &self.restarts {
            put_fixed32(&mut self.data, offset);
        }
        if let Some(hash) = self.extras.as_ref().and_then(|e| e.hash.as_ref())
            && hash.finish(&mut self.data)
        {
            footer |= HASH_INDEX;
        }
        if let Some(values_at) = values_at {
            put_fixed32(&mut self.data, values_at);
        }
        put_fixed32(&mut self.data, footer);
        &self.data
    }
}

impl BlockBuilder {
    /// Takes the first `prefix` bytes of the keys at restart points and puts them once in front of all entries. No
    /// other entry stores any of them: it shares at least as many bytes with the one before.
    fn move_prefix(&mut self, prefix: usize) {
        let separated = self.extras.as_ref().is_some_and(|e| e.values.is_some());
        let old = std::mem::take(&mut self.data);
        let mut out = Vec::with_capacity(old.len() + prefix);
        let ends = self.restarts.iter().skip(1).map(|&at| at as usize);
        let ends: Vec<usize> = ends.chain([old.len()]).collect();
        for (restart, end) in self.restarts.iter_mut().zip(ends) {
            let mut at = *restart as usize;
            let mut numbers = [0u32; 4];
            let count = if separated { 4 } else { 3 };
            for number in &mut numbers[..count] {
                (*number, at) = own_varint(&old, at);
            }
            let [shared, rest, value, offset] = numbers;
            debug_assert_eq!(shared, 0, "an entry at a restart point shares nothing");
            debug_assert!(rest as usize >= prefix, "every key begins with the prefix");
            if out.is_empty() {
                out.extend_from_slice(&old[at..at + prefix]);
            }
            *restart = out.len() as u32;
            put_varint32(&mut out, 0);
            put_varint32(&mut out, rest - prefix as u32);
            put_varint32(&mut out, value);
            if separated {
                put_varint32(&mut out, offset);
            }
            out.extend_from_slice(&old[at + prefix..end]);
        }
        self.data = out;
    }
}

/// The varint that this builder has put at `at`, and where it ends.
fn own_varint(data: &[u8], at: usize) -> (u32, usize) {
    let rest = &data[at..];
    let (number, behind) = get_varint32(rest).unwrap_or((0, rest));
    (number, at + rest.len() - behind.len())
}

impl Extras {
    /// Bytes beside entries, restart array and footer.
    fn size(&self) -> usize {
        let values = self.values.as_ref().map_or(0, |values| values.len() + 4);
        values + self.hash.as_ref().map_or(0, HashIndexBuilder::size)
    }
}
