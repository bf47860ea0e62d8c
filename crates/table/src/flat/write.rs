//! Writes tables without blocks, entry by entry, and what stands after the entries.

use super::cuckoo::CuckooBuilder;
use super::plain::PlainBuilder;
use super::{FlatFooter, FlatKind, TableFormat};
use crate::block::build::BlockBuilder;
use crate::format::BlockHandle;
use crate::options::BuilderOptions;
use crate::output::Output;
use crate::properties::TableProperties;
use spanlith_base::{Error, Result};

/// The entries of one table.
pub(crate) enum FlatWriter {
    Cuckoo(Box<CuckooBuilder>),
    Plain(Box<PlainBuilder>),
}

impl FlatWriter {
    /// `None` if the options ask for blocks.
    pub(crate) fn of(options: &BuilderOptions) -> Option<Self> {
        match options.table.format {
            TableFormat::BlockBased => None,
            TableFormat::Cuckoo(cuckoo) => {
                let builder = CuckooBuilder::new(cuckoo, &options.comparator);
                Some(Self::Cuckoo(Box::new(builder)))
            }
            TableFormat::Plain(plain) => {
                let builder = PlainBuilder::new(plain, options);
                Some(Self::Plain(Box::new(builder)))
            }
        }
    }

    /// Refuses what a format does not have.
    ///
    /// # Errors
    /// `NotSupported` for keys with timestamps, and what the format refuses of its options.
    pub(crate) fn check(&self, options: &BuilderOptions) -> Result<()> {
        if options.comparator.timestamp_size() > 0 {
            return Err(Error::not_supported(
                "user-defined timestamps in tables that are not block-based",
            ));
        }
        match self {
            Self::Cuckoo(_) => Ok(()),
            Self::Plain(builder) => builder.check(),
        }
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// Of the format, for entries that it cannot hold; of the file.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8], out: &mut Output) -> Result<()> {
        match self {
            Self::Cuckoo(builder) => {
                builder.add(key, value)?;
                // Nothing is written before the end; who cuts tables by their size goes by what that will be.
                out.expect(builder.size_estimate());
                Ok(())
            }
            Self::Plain(builder) => builder.add(key, value, out),
        }
    }

    /// Returns the error for a range tombstone.
    pub(crate) fn refuse_range_tombstone(&self) -> Error {
        match self {
            Self::Cuckoo(_) => Error::not_supported("Unsupported key type 15"),
            Self::Plain(_) => Error::not_supported("Range deletion unsupported"),
        }
    }

    /// Writes what is left of the entries, properties, metaindex and footer; whether the table is to be compacted soon.
    /// The properties of a block-based table come as `properties`, those of this table are there when this returns.
    ///
    /// # Errors
    /// Of the format; of the file.
    pub(crate) fn finish(self, out: &mut Output, properties: &mut TableProperties) -> Result<bool> {
        let own = |p: &TableProperties| TableProperties {
            column_family_id: p.column_family_id,
            column_family_name: p.column_family_name.clone(),
            db_id: p.db_id.clone(),
            db_session_id: p.db_session_id.clone(),
            orig_file_number: p.orig_file_number,
            ..TableProperties::default()
        };
        let mut metaindex = Vec::new();
        let mut own = own(properties);
        let (kind, needs_compaction) = match self {
            Self::Cuckoo(builder) => {
                out.expect(0);
                builder.finish(&mut own, |bytes| out.put_raw(bytes).map(drop))?;
                (FlatKind::Cuckoo, false)
            }
            Self::Plain(builder) => {
                own.db_host_id.clone_from(&properties.db_host_id);
                // As collectors add them there, what a table from outside says is also said by a plain one.
                let all = std::mem::take(&mut properties.user_collected);
                let is_general = |name: &str| !name.starts_with("rocksdb.block.based.table.");
                let general = all.into_iter().filter(|(name, _)| is_general(name));
                own.user_collected = general.collect();
                let needs_compaction = builder.finish(&mut own, &mut metaindex, out)?;
                (FlatKind::Plain, needs_compaction)
            }
        };
        *properties = own;
        metaindex.push(("rocksdb.properties", out.put_raw(&properties.encode())?));
        metaindex.sort_by_key(|(name, _)| *name);
        put_end(kind, &metaindex, out)?;
        Ok(needs_compaction)
    }
}

fn put_end(kind: FlatKind, entries: &[(&str, BlockHandle)], out: &mut Output) -> Result<()> {
    let mut block = BlockBuilder::new(1);
    for (name, handle) in entries {
        let mut value = Vec::new();
        handle.encode(&mut value);
        block.add(name.as_bytes(), &value, 0);
    }
    let metaindex = out.put_raw(block.finish())?;
    out.put_raw(&FlatFooter::encode(kind, metaindex)).map(drop)
}
