//! Writes the records of a plain table, and the index and Bloom filter that it may store.

use super::index::{IndexRecords, bloom, hash};
use super::record::{PartKind, put_size, put_tag_and_value};
use super::{
    BLOOM, BLOOM_BLOCKS, BLOOM_VERSION, ENCODING, FILE_SIZE_MAX, INDEX, PlainEncoding, PlainOptions,
};
use crate::collector::Collecting;
use crate::format::BlockHandle;
use crate::options::BuilderOptions;
use crate::output::Output;
use crate::properties::TableProperties;
use spanlith_base::coding::put_varint32;
use spanlith_base::keys::{self, ValueType, tag_type};
use spanlith_base::{Error, Result, SliceTransform};

/// One table while it is written.
pub(crate) struct PlainBuilder {
    options: PlainOptions,
    extractor: Option<SliceTransform>,
    collecting: Option<Box<Collecting>>,
    /// The stored index, and hashes for the stored filter.
    index: Option<(IndexRecords, Vec<u32>)>,
    /// Prefix of the last whole key, and keys since then, itself included.
    prefix: Vec<u8>,
    of_prefix: u64,
    record: Vec<u8>,
    properties: TableProperties,
}

impl PlainBuilder {
    pub(crate) fn new(options: PlainOptions, table: &BuilderOptions) -> Self {
        let index = options
            .store_index_in_file
            .then(|| (IndexRecords::new(options.index_sparseness), Vec::new()));
        Self {
            options,
            extractor: table.prefix_extractor.clone(),
            collecting: Collecting::of(table),
            index,
            prefix: Vec::new(),
            of_prefix: 0,
            record: Vec::new(),
            properties: TableProperties::default(),
        }
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `NotSupported` for buckets or prefix encoding without a prefix extractor.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::not_supported(what));
        let has_extractor = self.extractor.is_some();
        if self.options.encoding_type == PlainEncoding::Prefix && !has_extractor {
            return refuse("PlainTable requires a prefix extractor for prefix encoding.");
        }
        if self.options.hash_table_ratio != 0.0 && !has_extractor {
            return refuse("PlainTable requires a prefix extractor enable prefix hash mode.");
        }
        Ok(())
    }

    /// Writes the next record.
    ///
    /// # Errors
    /// `NotSupported` for keys that options or format have no room for; of the file.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8], out: &mut Output) -> Result<()> {
        let Some((user, tag)) = keys::split_internal(key) else {
            return Err(Error::invalid_argument(
                "internal key is shorter than its tag",
            ));
        };
        let fixed = self.options.user_key_len as usize;
        if fixed > 0 && user.len() != fixed {
            let e = Error::not_supported("a key of another length than user_key_len");
            return Err(e.with("user_key_len", fixed).with("key", user.len()));
        }
        let prefix = match &self.extractor {
            None => &user[..0],
            Some(extractor) => (extractor.prefix(user).filter(|p| user.starts_with(p)))
                .ok_or_else(|| {
                    Error::not_supported("a key without a prefix in a plain table")
                        .with("key", user.escape_ascii())
                })?,
        };
        let prefix_len = prefix.len();
        let offset = out.offset();
        self.record.clear();
        self.put_key(user, prefix_len);
        put_tag_and_value(&mut self.record, tag, value);
        if offset + self.record.len() as u64 > FILE_SIZE_MAX {
            return Err(Error::not_supported(format!(
                "File size {} exceeds PlainTableReader max file size {FILE_SIZE_MAX}",
                offset + self.record.len() as u64
            )));
        }
        if let Some((index, hashes)) = &mut self.index {
            let prefix = &user[..prefix_len];
            index.add(prefix, offset as u32);
            hashes.push(hash(match self.extractor {
                None => user,
                Some(_) => prefix,
            }));
        }
        out.put_raw(&self.record)?;
        self.count(key, value, tag);
        if let Some(collecting) = &mut self.collecting {
            collecting.add(key, value, out.offset());
        }
        Ok(())
    }

    /// Appends a key, of which the first bytes are its prefix, without its tag.
    fn put_key(&mut self, user: &[u8], prefix_len: usize) {
        let len = user.len() as u32;
        if self.options.encoding_type == PlainEncoding::Plain {
            if self.options.user_key_len == 0 {
                put_varint32(&mut self.record, len);
            }
            self.record.extend_from_slice(user);
            return;
        }
        let (prefix, rest) = user.split_at(prefix_len);
        let sparseness = self.options.index_sparseness.max(1);
        let is_whole = self.of_prefix == 0
            || prefix != self.prefix
            || self.of_prefix.is_multiple_of(sparseness);
        if is_whole {
            self.of_prefix = 1;
            self.prefix = prefix.to_vec();
            put_size(&mut self.record, PartKind::Whole, len);
            self.record.extend_from_slice(user);
            return;
        }
        self.of_prefix += 1;
        if self.of_prefix == 2 {
            put_size(&mut self.record, PartKind::Prefix, prefix.len() as u32);
        }
        put_size(&mut self.record, PartKind::Suffix, rest.len() as u32);
        self.record.extend_from_slice(rest);
    }

    fn count(&mut self, key: &[u8], value: &[u8], tag: u64) {
        let p = &mut self.properties;
        p.num_entries += 1;
        p.raw_key_size += key.len() as u64;
        p.raw_value_size += value.len() as u64;
        match ValueType::from_byte(tag_type(tag)) {
            Some(ValueType::Deletion | ValueType::SingleDeletion) => p.num_deletions += 1,
            Some(ValueType::Merge) => p.num_merge_operands += 1,
            _ => {}
        }
    }

    /// Writes filter and index if they are stored, and describes the table in `properties`, which hold its identity
    /// by then; whether the table is to be compacted soon.
    ///
    /// # Errors
    /// Of the file.
    pub(crate) fn finish(
        self,
        properties: &mut TableProperties,
        metaindex: &mut Vec<(&'static str, BlockHandle)>,
        out: &mut Output,
    ) -> Result<bool> {
        let (o, own) = (&self.options, &self.properties);
        let p = properties;
        p.data_size = out.offset();
        p.num_data_blocks = 1;
        p.num_entries = own.num_entries;
        p.raw_key_size = own.raw_key_size;
        p.raw_value_size = own.raw_value_size;
        p.num_deletions = own.num_deletions;
        p.num_merge_operands = own.num_merge_operands;
        p.fixed_key_length = o.user_key_len.into();
        p.format_version = o.encoding_type as u64;
        p.prefix_extractor_name = match &self.extractor {
            Some(extractor) => extractor.name(),
            None => "nullptr".to_string(),
        };
        let mut collect = |name: &str, value| p.user_collected.insert(name.to_string(), value);
        collect(ENCODING, (o.encoding_type as u32).to_le_bytes().to_vec());
        if let Some((index, hashes)) = &self.index {
            collect(BLOOM_VERSION, b"1".to_vec());
            if let Ok(bits @ 1..) = u32::try_from(o.bloom_bits_per_key)
                && !hashes.is_empty()
            {
                let (bloom, lines) = bloom(hashes, bits, o.bloom_locality);
                let mut number = Vec::new();
                put_varint32(&mut number, lines);
                collect(BLOOM_BLOCKS, number);
                p.filter_size = bloom.len() as u64;
                metaindex.push((BLOOM, out.put_raw(&bloom)?));
            }
            if !hashes.is_empty() {
                let ratio = match self.extractor {
                    Some(_) => o.hash_table_ratio,
                    None => 0.0,
                };
                let index = index.finish(ratio);
                p.index_size = index.len() as u64;
                metaindex.push((INDEX, out.put_raw(&index)?));
            }
        }
        Ok(self.collecting.is_some_and(|c| c.finish(p)))
    }
}
