//! Reads cuckoo tables: a lookup reads the buckets that a key may be in.
//!
//! An order exists only once somebody wants to walk: then all keys are read, once, and sorted.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::hash::Hashing;
use super::{
    BLOCK_SIZE, EMPTY_KEY, HASH_FUNCTIONS, HASH_FUNCTIONS_MAX, IDENTITY_FIRST, IS_LAST_LEVEL,
    TABLE_SIZE, USE_MODULE_HASH, USER_KEY_LENGTH, VALUE_LENGTH,
};
use crate::block::Block;
use crate::flat::blocks::{BlockWriter, VirtualIndex};
use crate::flat::file::FlatFile;
use crate::flat::{FlatSink, ONE_BLOCK};
use crate::format::BlockHandle;
use crate::properties::TableProperties;
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::keys::{TAG_LEN, ValueType, pack_tag, split_internal, tag_type};
use spanlith_base::{Comparator, Error, Result};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Tag of all entries of a table of the last level.
const LAST_LEVEL_TAG: u64 = pack_tag(0, ValueType::Value as u8);
/// Bytes of buckets that are read at once when all are.
const READ_STEP: usize = 1 << 20;

/// An open cuckoo table.
pub(crate) struct CuckooTable {
    file: FlatFile,
    comparator: Comparator,
    hashing: Hashing,
    functions: u32,
    block_size: u32,
    key_len: usize,
    user_key_len: usize,
    value_len: usize,
    is_last_level: bool,
    /// The key of buckets that hold nothing.
    empty_key: Vec<u8>,
    num_entries: u64,
    order: OnceLock<Order>,
}

/// The buckets in the order of their keys.
struct Order {
    buckets: Vec<u32>,
    index: Arc<Block>,
}

impl CuckooTable {
    /// Takes the shape of the table from its properties.
    ///
    /// # Errors
    /// `Corruption` if one is missing, or if they contradict each other or the length of the file.
    pub(crate) fn open(
        file: FlatFile,
        properties: &TableProperties,
        comparator: &Comparator,
    ) -> Result<Self> {
        let get = |name: &str, what: &str| {
            let found = properties.user_collected.get(name);
            found.ok_or_else(|| Error::corruption(format!("{what} not found")))
        };
        let number = |name: &str, what: &str| {
            get_fixed32(get(name, what)?, 0).ok_or_else(|| bad_property(name))
        };
        let flag = |name: &str, what: &str| match get(name, what)?.as_slice() {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(bad_property(name)),
        };
        let functions = number(HASH_FUNCTIONS, "Number of hash functions")?;
        let empty_key = get(EMPTY_KEY, "Empty bucket value")?.clone();
        let user_key_len = number(USER_KEY_LENGTH, "User key length")? as usize;
        let value_len = number(VALUE_LENGTH, "Value length")? as usize;
        let table_size = get_fixed64(get(TABLE_SIZE, "Hash table size")?, 0);
        let is_last_level = flag(IS_LAST_LEVEL, "Is last level")?;
        let table = Self {
            hashing: Hashing {
                table_size: table_size.ok_or_else(|| bad_property(TABLE_SIZE))?,
                identity_first: flag(IDENTITY_FIRST, "identity as first hash")?,
                by_remainder: flag(USE_MODULE_HASH, "hash type is")?,
            },
            block_size: number(BLOCK_SIZE, "Cuckoo block size")?,
            comparator: comparator.clone(),
            functions,
            key_len: usize::try_from(properties.fixed_key_length).unwrap_or(usize::MAX),
            user_key_len,
            value_len,
            is_last_level,
            empty_key,
            num_entries: properties.num_entries,
            file,
            order: OnceLock::new(),
        };
        table.check_shape(properties)?;
        Ok(table)
    }

    fn check_shape(&self, properties: &TableProperties) -> Result<()> {
        let tag = if self.is_last_level { 0 } else { TAG_LEN };
        let broken = |what: &str| Err(Error::corruption(format!("cuckoo table: {what}")));
        if self.key_len.checked_sub(tag) != Some(self.user_key_len) {
            return broken("lengths of keys contradict each other");
        }
        if !(1..=HASH_FUNCTIONS_MAX).contains(&self.functions) || self.block_size == 0 {
            return broken("number of hash functions, or of buckets in a row");
        }
        if self.num_entries == 0 {
            return match properties.data_size {
                0 => Ok(()),
                _ => broken("entries without a count"),
            };
        }
        let size = self.hashing.table_size;
        if size == 0 || !self.hashing.by_remainder && !size.is_power_of_two() {
            return broken("number of buckets");
        }
        if self.empty_key.len() != self.key_len || self.key_len < self.hashing.key_len_min() {
            return broken("length of the empty key");
        }
        let buckets = size.checked_add(u64::from(self.block_size) - 1);
        let bytes = buckets.and_then(|n| n.checked_mul(self.bucket_len() as u64));
        let is_whole = bytes == Some(properties.data_size)
            && properties.data_size <= self.file.data_end()
            && buckets.is_some_and(|n| n <= u64::from(u32::MAX) && n >= self.num_entries);
        match is_whole {
            true => Ok(()),
            false => broken("buckets do not fill what the file has for them"),
        }
    }

    fn bucket_len(&self) -> usize {
        self.key_len.saturating_add(self.value_len)
    }

    fn num_buckets(&self) -> u64 {
        match self.num_entries {
            0 => 0,
            _ => self.hashing.table_size + u64::from(self.block_size) - 1,
        }
    }

    /// Feeds the entry of a user key to `sink` if it is not newer than `tag`. Which entry is meant when keys are equal
    /// decides the user key alone: the table has one of each.
    ///
    /// # Errors
    /// Of reading the file; `Corruption` for a bucket that holds neither value nor deletion.
    pub(crate) fn get(&self, user_key: &[u8], tag: u64, sink: FlatSink<'_>) -> Result<()> {
        if user_key.len() != self.user_key_len || self.num_entries == 0 {
            return Ok(());
        }
        let bucket_len = self.bucket_len();
        for function in 0..self.functions {
            let first = self.hashing.bucket(user_key, function);
            let offset = first * bucket_len as u64;
            let len = self.block_size as usize * bucket_len;
            let bytes = self.file.read(offset, len)?;
            for (at, bucket) in bytes.chunks_exact(bucket_len).enumerate() {
                let own = bucket.get(..self.user_key_len).unwrap_or_default();
                let empty = self.empty_key.get(..self.user_key_len).unwrap_or_default();
                if self.comparator.compare(own, empty) == Ordering::Equal {
                    return Ok(());
                }
                if self.comparator.compare(own, user_key) != Ordering::Equal {
                    continue;
                }
                let offset = offset + (at * bucket_len) as u64;
                let own_tag = self.tag_of(bucket, offset)?;
                if own_tag <= tag {
                    // Nothing follows, whatever the sink says.
                    let _: ControlFlow<()> = self.give(bucket, own_tag, sink);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    fn give(&self, bucket: &[u8], tag: u64, sink: FlatSink<'_>) -> ControlFlow<()> {
        let value = match tag_type(tag) == ValueType::Value as u8 {
            true => bucket.get(self.key_len..).unwrap_or_default(),
            false => &[],
        };
        let block = Arc::new(Block::raw(value.to_vec()));
        sink(tag, block.bytes(), &block)
    }

    /// The tag of a bucket's key.
    fn tag_of(&self, bucket: &[u8], offset: u64) -> Result<u64> {
        if self.is_last_level {
            return Ok(LAST_LEVEL_TAG);
        }
        let key = bucket.get(..self.key_len).unwrap_or_default();
        let tag = split_internal(key).map_or(0, |(_, tag)| tag);
        match ValueType::from_byte(tag_type(tag)) {
            Some(ValueType::Value | ValueType::Deletion) => Ok(tag),
            _ => Err(self.file.bad("bucket with another type of entry", offset)),
        }
    }

    /// The index over blocks of about [`ONE_BLOCK`] bytes: handles are a place in the order, in bytes of buckets.
    ///
    /// # Errors
    /// Of reading the file; `Corruption` if it does not hold as many keys as it says, or one twice.
    pub(crate) fn index(&self) -> Result<Arc<Block>> {
        Ok(self.order()?.index.clone())
    }

    fn order(&self) -> Result<&Order> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let order = self.sort()?;
        // Another thread may have been faster, with the same order.
        Ok(self.order.get_or_init(|| order))
    }

    fn sort(&self) -> Result<Order> {
        let bucket_len = self.bucket_len();
        let per_read = (READ_STEP / bucket_len.max(1)).max(1) as u64;
        // Keys of the buckets that hold something, as the file has them.
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < self.num_buckets() {
            let n = per_read.min(self.num_buckets() - at);
            let bytes = self
                .file
                .read(at * bucket_len as u64, n as usize * bucket_len)?;
            for (number, bucket) in (at..).zip(bytes.chunks_exact(bucket_len)) {
                let key = bucket.get(..self.key_len).unwrap_or_default();
                if key != self.empty_key {
                    found.push((number as u32, keys.len()));
                    keys.extend_from_slice(key);
                }
            }
            at += n;
        }
        if found.len() as u64 != self.num_entries {
            let e = self
                .file
                .bad("cuckoo table: number of entries contradicts the buckets", 0);
            return Err(e
                .with("expected", self.num_entries)
                .with("found", found.len()));
        }
        let user = |at: usize| keys.get(at..at + self.user_key_len).unwrap_or_default();
        found.sort_by(|a, b| self.comparator.compare(user(a.1), user(b.1)));
        let twice = found.windows(2).find(|pair| match pair {
            [a, b] => self.comparator.compare(user(a.1), user(b.1)) == Ordering::Equal,
            _ => false,
        });
        if let Some([_, (bucket, _)]) = twice {
            let offset = u64::from(*bucket) * bucket_len as u64;
            return Err(self.file.bad("cuckoo table: a key occurs twice", offset));
        }
        let mut index = VirtualIndex::default();
        let per_block = self.per_block();
        for (number, part) in found.chunks(per_block).enumerate() {
            let Some((bucket, last)) = part.last() else {
                continue;
            };
            let key = keys.get(*last..*last + self.key_len).unwrap_or_default();
            let offset = u64::from(*bucket) * bucket_len as u64;
            let tag = self.tag_of(key, offset)?;
            let handle = BlockHandle {
                offset: (number * per_block * bucket_len) as u64,
                size: (part.len() * bucket_len) as u64,
            };
            index.add(user(*last), tag, handle);
        }
        Ok(Order {
            index: index.finish(&self.comparator)?,
            buckets: found.into_iter().map(|(bucket, _)| bucket).collect(),
        })
    }

    fn per_block(&self) -> usize {
        (ONE_BLOCK / self.bucket_len().max(1)).max(1)
    }

    /// The entries of a block of the index.
    ///
    /// # Errors
    /// Of reading the file; `Corruption` for a bucket that holds neither value nor deletion.
    pub(crate) fn block(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let bucket_len = self.bucket_len().max(1) as u64;
        let from = (handle.offset / bucket_len) as usize;
        let to = from + (handle.size / bucket_len) as usize;
        let mut out = BlockWriter::default();
        let order = self.order()?;
        for &bucket in order.buckets.get(from..to).unwrap_or_default() {
            let offset = u64::from(bucket) * bucket_len;
            let bytes = self.file.read(offset, bucket_len as usize)?;
            let tag = self.tag_of(&bytes, offset)?;
            let user = bytes.get(..self.user_key_len).unwrap_or_default();
            let value = match tag_type(tag) == ValueType::Value as u8 {
                true => bytes.get(self.key_len..).unwrap_or_default(),
                false => &[],
            };
            out.add(user, tag, value);
        }
        Ok(out.finish())
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn memory_usage(&self) -> usize {
        let order = self.order.get();
        self.empty_key.capacity()
            + order.map_or(0, |o| {
                o.buckets.capacity() * size_of::<u32>() + o.index.memory_usage()
            })
    }
}

#[cold]
fn bad_property(name: &str) -> Error {
    Error::corruption("cuckoo table: property of another form").with("name", name)
}
