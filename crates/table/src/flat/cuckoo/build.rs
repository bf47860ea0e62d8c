//! Gathers the entries of a cuckoo table and gives each its bucket.
//!
//! RocksDB's order of trials is kept, so that the same entries and options make the same bytes: first the
//! buckets of the functions in use; then, breadth first, moves of what lies there; then one function more.

use super::hash::Hashing;
use super::{
    BLOCK_SIZE, CuckooOptions, EMPTY_KEY, HASH_FUNCTIONS, HASH_FUNCTIONS_MAX, IDENTITY_FIRST,
    IS_LAST_LEVEL, TABLE_SIZE, USE_MODULE_HASH, USER_KEY_LENGTH, VALUE_LENGTH,
};
use crate::properties::TableProperties;
use spanlith_base::keys::{self, TAG_LEN, ValueType, pack_tag, tag_sequence, tag_type};
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;

/// No entry.
const EMPTY: u32 = i32::MAX as u32;
/// Fills values that nobody reads.
const FILLER: u8 = b'a';

#[derive(Clone, Copy)]
struct Bucket {
    /// Number of the entry in it, or [`EMPTY`].
    entry: u32,
    /// The last search for room that came by.
    seen_by: u32,
}

/// A bucket that a search for room has come to.
struct Step {
    bucket: u64,
    depth: u32,
    /// The step that it was come from.
    from: usize,
}

/// The entries of one table.
pub(crate) struct CuckooBuilder {
    options: CuckooOptions,
    comparator: Comparator,
    /// Internal keys with their values, and internal keys of deletions, one after the other.
    values: Vec<u8>,
    deletions: Vec<u8>,
    num_values: u64,
    num_entries: u64,
    /// Bytes of a user key, once there is one.
    user_key_len: usize,
    value_len: Option<usize>,
    /// All entries so far are values of number 0, so that tags can be left out. RocksDB looks at the first entry only,
    /// and loses the numbers of others.
    is_last_level: bool,
    /// Bytewise, whatever the order of the table.
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// Buckets that hashes lead to; known at the end if hashes are divided.
    table_size: u64,
    num_functions: u32,
}

impl CuckooBuilder {
    pub(crate) fn new(options: CuckooOptions, comparator: &Comparator) -> Self {
        Self {
            options: CuckooOptions {
                cuckoo_block_size: options.cuckoo_block_size.max(1),
                ..options
            },
            comparator: comparator.clone(),
            values: Vec::new(),
            deletions: Vec::new(),
            num_values: 0,
            num_entries: 0,
            user_key_len: 0,
            value_len: None,
            is_last_level: true,
            smallest: Vec::new(),
            largest: Vec::new(),
            table_size: if options.use_module_hash { 0 } else { 2 },
            num_functions: 2,
        }
    }

    /// Takes in an entry.
    ///
    /// # Errors
    /// `NotSupported` for types other than value and deletion, and for keys and values of another length than the
    /// first.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let refuse = |what: &str| Err(Error::not_supported(what));
        if self.num_entries >= u64::from(EMPTY - 1) {
            return refuse("Number of keys in a file must be < 2^32-1");
        }
        let Some((user, tag)) = keys::split_internal(key) else {
            return Err(Error::invalid_argument(
                "internal key is shorter than its tag",
            ));
        };
        let kind = tag_type(tag);
        let is_value = kind == ValueType::Value as u8;
        if !is_value && kind != ValueType::Deletion as u8 {
            return refuse(&format!("Unsupported key type {kind}"));
        }
        if self.num_entries == 0 {
            let ratio = self.options.hash_table_ratio;
            if !(ratio > 0.0 && ratio <= 1.0) {
                return Err(Error::invalid_argument(
                    "hash_table_ratio of a cuckoo table must be above 0 and at most 1",
                )
                .with("hash_table_ratio", ratio));
            }
            self.smallest = user.to_vec();
            self.largest = user.to_vec();
            self.user_key_len = user.len();
        }
        if user.len() != self.user_key_len {
            return refuse("all keys have to be the same size");
        }
        if self.options.identity_as_first_hash && user.len() < 8 {
            return refuse("identity_as_first_hash needs keys of at least 8 bytes");
        }
        if is_value {
            if *self.value_len.get_or_insert(value.len()) != value.len() {
                return refuse("all values have to be the same size");
            }
            self.values.extend_from_slice(key);
            self.values.extend_from_slice(value);
            self.num_values += 1;
        } else {
            self.deletions.extend_from_slice(key);
        }
        self.is_last_level &= is_value && tag_sequence(tag) == 0;
        self.num_entries += 1;
        if user < self.smallest.as_slice() {
            self.smallest = user.to_vec();
        } else if user > self.largest.as_slice() {
            self.largest = user.to_vec();
        }
        let ratio = self.options.hash_table_ratio;
        if !self.options.use_module_hash
            && (self.table_size as f64) < self.num_entries as f64 / ratio
        {
            self.table_size *= 2;
        }
        Ok(())
    }

    /// About the bytes of the table if it were finished now; a compaction cuts its outputs by it.
    pub(crate) fn size_estimate(&self) -> u64 {
        if self.num_entries == 0 {
            return 0;
        }
        let bucket = (self.key_len() + self.value_len.unwrap_or(0)) as u64;
        let ratio = self.options.hash_table_ratio;
        if self.options.use_module_hash {
            return ((bucket * self.num_entries) as f64 / ratio) as u64;
        }
        // As if one entry more were there: the size doubles now and then.
        let mut size = self.table_size;
        if (size as f64) < (self.num_entries + 1) as f64 / ratio {
            size *= 2;
        }
        (bucket * size).saturating_sub(1)
    }

    /// Bytes of a key as it is stored.
    fn key_len(&self) -> usize {
        match self.is_last_level {
            true => self.user_key_len,
            false => self.user_key_len + TAG_LEN,
        }
    }

    /// The key of an entry as it is stored, and its value. Values come first, then deletions.
    fn entry(&self, number: u32) -> (&[u8], Option<&[u8]>) {
        let number = u64::from(number);
        let value_len = self.value_len.unwrap_or(0);
        let internal = self.user_key_len + TAG_LEN;
        match number.checked_sub(self.num_values) {
            Some(deletion) => {
                let at = deletion as usize * internal;
                (&self.deletions[at..at + self.key_len()], None)
            }
            None => {
                let at = number as usize * (internal + value_len);
                let (key, rest) = self.values[at..].split_at(internal);
                (&key[..self.key_len()], Some(&rest[..value_len]))
            }
        }
    }

    fn user_key(&self, number: u32) -> &[u8] {
        &self.entry(number).0[..self.user_key_len]
    }

    fn hashing(&self) -> Hashing {
        Hashing {
            table_size: self.table_size,
            by_remainder: self.options.use_module_hash,
            identity_first: self.options.identity_as_first_hash,
        }
    }

    /// Gives every entry a bucket.
    fn place_all(&mut self) -> Result<Vec<Bucket>> {
        let room = self.table_size as usize + self.options.cuckoo_block_size as usize - 1;
        let nothing = Bucket {
            entry: EMPTY,
            seen_by: 0,
        };
        let mut buckets = Vec::new();
        if buckets.try_reserve_exact(room).is_err() {
            let e = Error::not_supported("a cuckoo table with so many buckets");
            return Err(e.with("buckets", room));
        }
        buckets.resize(room, nothing);
        let mut searches = 0;
        for entry in 0..self.num_entries as u32 {
            let bucket = self.place(entry, &mut buckets, &mut searches)?;
            buckets[bucket as usize].entry = entry;
        }
        Ok(buckets)
    }

    /// The bucket for an entry, which is empty when this returns.
    fn place(&mut self, entry: u32, buckets: &mut [Bucket], searches: &mut u32) -> Result<u64> {
        let hashing = self.hashing();
        let block = u64::from(self.options.cuckoo_block_size);
        let mut tried = Vec::new();
        for function in 0..self.num_functions {
            let first = hashing.bucket(self.user_key(entry), function);
            for at in first..first + block {
                let there = buckets[at as usize].entry;
                if there == EMPTY {
                    return Ok(at);
                }
                let (own, other) = (self.user_key(entry), self.user_key(there));
                if self.comparator.compare(own, other) == Ordering::Equal {
                    return Err(Error::not_supported("Same key is being inserted again."));
                }
                tried.push(at);
            }
        }
        loop {
            *searches += 1;
            if let Some(at) = self.make_room(&tried, *searches, buckets) {
                return Ok(at);
            }
            if self.num_functions >= HASH_FUNCTIONS_MAX {
                return Err(Error::not_supported("Too many collisions. Unable to hash."));
            }
            // Entries that have a bucket keep it: the functions so far stay.
            let first = hashing.bucket(self.user_key(entry), self.num_functions);
            self.num_functions += 1;
            for at in first..first + block {
                if buckets[at as usize].entry == EMPTY {
                    return Ok(at);
                }
                tried.push(at);
            }
        }
    }

    /// Moves entries, each to a bucket of its own choice, until one of `tried` is empty. As in RocksDB the search
    /// begins at as many of these as there are hash functions.
    fn make_room(&self, tried: &[u64], search: u32, buckets: &mut [Bucket]) -> Option<u64> {
        let hashing = self.hashing();
        let starts = self.num_functions as usize;
        let mut steps: Vec<Step> = Vec::new();
        for &bucket in tried.iter().take(starts) {
            buckets[bucket as usize].seen_by = search;
            steps.push(Step {
                bucket,
                depth: 0,
                from: 0,
            });
        }
        let mut at = 0;
        'search: loop {
            let step = steps.get(at)?;
            let (bucket, depth) = (step.bucket, step.depth);
            if depth >= self.options.max_search_depth {
                return None;
            }
            let entry = buckets[bucket as usize].entry;
            for function in 0..self.num_functions {
                let first = hashing.bucket(self.user_key(entry), function);
                for next in first..first + u64::from(self.options.cuckoo_block_size) {
                    let there = &mut buckets[next as usize];
                    if there.seen_by == search {
                        continue;
                    }
                    there.seen_by = search;
                    steps.push(Step {
                        bucket: next,
                        depth: depth + 1,
                        from: at,
                    });
                    if there.entry == EMPTY {
                        break 'search;
                    }
                }
            }
            at += 1;
        }
        let mut last = steps.len() - 1;
        while last >= starts {
            let from = steps[last].from;
            buckets[steps[last].bucket as usize] = buckets[steps[from].bucket as usize];
            last = from;
        }
        Some(steps[last].bucket)
    }

    /// A key that no entry has: one below the smallest, or above the largest.
    ///
    /// # Errors
    /// `Corruption` if there is none.
    fn empty_key(&self) -> Result<Vec<u8>> {
        let below = step_beyond(&self.smallest, |b| b.wrapping_sub(1), Ordering::Less);
        let beyond = || step_beyond(&self.largest, |b| b.wrapping_add(1), Ordering::Greater);
        let mut key = below
            .or_else(beyond)
            .ok_or_else(|| Error::corruption("Unable to find unused key"))?;
        if !self.is_last_level {
            key.extend_from_slice(&pack_tag(0, ValueType::Value as u8).to_le_bytes());
        }
        Ok(key)
    }

    /// Gives every entry its bucket, hands all buckets to `put` and describes the table in its properties.
    ///
    /// # Errors
    /// `NotSupported` if a key occurs twice or the entries find no buckets; of `put`.
    pub(crate) fn finish(
        mut self,
        properties: &mut TableProperties,
        mut put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buckets = Vec::new();
        let mut empty = Vec::new();
        if self.num_entries > 0 {
            if self.options.use_module_hash {
                let size = self.num_entries as f64 / self.options.hash_table_ratio;
                self.table_size = size as u64;
            }
            buckets = self.place_all()?;
            empty = self.empty_key()?;
        }
        let value_len = self.value_len.unwrap_or(0);
        let filler = vec![FILLER; value_len];
        for bucket in &buckets {
            let (key, value) = match bucket.entry {
                EMPTY => (empty.as_slice(), None),
                entry => self.entry(entry),
            };
            put(key)?;
            put(value.unwrap_or(&filler))?;
        }
        let key_len = self.key_len() as u64;
        let bucket_len = key_len + value_len as u64;
        let is_last_level = self.is_last_level && self.num_entries > 0;
        properties.num_entries = self.num_entries;
        properties.num_deletions = self.num_entries - self.num_values;
        properties.fixed_key_length = key_len;
        properties.raw_key_size = self.num_entries * key_len;
        properties.raw_value_size = self.num_entries * value_len as u64;
        properties.data_size = buckets.len() as u64 * bucket_len;
        properties.num_data_blocks = 1;
        let o = &self.options;
        let described = [
            (EMPTY_KEY, empty),
            (HASH_FUNCTIONS, self.num_functions.to_le_bytes().to_vec()),
            (TABLE_SIZE, self.table_size.to_le_bytes().to_vec()),
            (VALUE_LENGTH, (value_len as u64).to_le_bytes().to_vec()),
            (IS_LAST_LEVEL, vec![u8::from(is_last_level)]),
            (BLOCK_SIZE, o.cuckoo_block_size.to_le_bytes().to_vec()),
            (IDENTITY_FIRST, vec![u8::from(o.identity_as_first_hash)]),
            (USE_MODULE_HASH, vec![u8::from(o.use_module_hash)]),
            (
                USER_KEY_LENGTH,
                (self.user_key_len as u32).to_le_bytes().to_vec(),
            ),
        ];
        let described = described.map(|(name, value)| (name.to_string(), value));
        properties.user_collected.extend(described);
        Ok(())
    }
}

/// The key that differs from `key` in its end by one step and lies on `side` of it, bytewise; `None` if there is none.
fn step_beyond(key: &[u8], step: impl Fn(u8) -> u8, side: Ordering) -> Option<Vec<u8>> {
    let mut other = key.to_vec();
    for at in (0..key.len()).rev() {
        other[at] = step(other[at]);
        if other.as_slice().cmp(key) == side {
            return Some(other);
        }
    }
    None
}
