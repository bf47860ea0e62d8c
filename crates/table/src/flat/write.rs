//! Writes tables without blocks, entry by entry, and what stands behind the entries.

use super::cuckoo::CuckooBuilder;
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
        }
    }

    /// Refuses what a format does not have.
    ///
    /// # Errors
    /// `NotSupported` for keys with timestamps.
    pub(crate) fn check(&self, options: &BuilderOptions) -> Result<()> {
        match options.comparator.timestamp_size() {
            0 => Ok(()),
            _ => Err(Error::not_supported(
                "user-defined timestamps in tables that are not block-based",
            )),
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
        }
    }

    /// Returns the error for a range tombstone.
    pub(crate) fn refuse_range_tombstone(&self) -> Error {
        match self {
            Self::Cuckoo(_) => Error::not_supported("Unsupported key type 15"),
        }
    }

    /// Writes what is left of the entries, properties, metaindex and footer. The metaindex and where it
    /// lies are told by the footer; the properties of a block-based table come as `properties`, those of this table
    /// are there when this returns.
    ///
    /// # Errors
    /// Of the format; of the file.
    pub(crate) fn finish(self, out: &mut Output, properties: &mut TableProperties) -> Result<()> {
        out.expect(0);
        let own = |p: &TableProperties| TableProperties {
            column_family_id: p.column_family_id,
            column_family_name: p.column_family_name.clone(),
            db_id: p.db_id.clone(),
            db_session_id: p.db_session_id.clone(),
            orig_file_number: p.orig_file_number,
            ..TableProperties::default()
        };
        let kind = match self {
            Self::Cuckoo(builder) => {
                *properties = own(properties);
                builder.finish(properties, |bytes| out.put_raw(bytes).map(drop))?;
                FlatKind::Cuckoo
            }
        };
        let metaindex = [("rocksdb.properties", out.put_raw(&properties.encode())?)];
        put_end(kind, &metaindex, out)
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
