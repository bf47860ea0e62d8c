//! Tables without blocks while they are written: [`crate::flat`] encodes the entries.

use super::{TableBuilder, TableSummary};
use crate::block::seek::common_prefix;
use crate::flat::FlatWriter;
use spanlith_base::{Error, Result, keys};

impl TableBuilder {
    /// Adds an entry to a table without blocks.
    pub(super) fn add_flat(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Some((_, tag)) = keys::split_internal(key) else {
            return Err(Error::invalid_argument(
                "internal key is shorter than its tag",
            ));
        };
        if !self.follows(key, common_prefix(&self.last_key, key)) {
            return Err(self.out_of_order(key));
        }
        if let Some(flat) = &mut self.flat {
            flat.add(key, value, &mut self.out)?;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        if let Some(content) = &mut self.content {
            content.add(key, value);
        }
        self.counters.count(tag, key.len(), value.len())
    }

    /// Ends a table without blocks.
    pub(super) fn finish_flat(mut self, flat: FlatWriter) -> Result<TableSummary> {
        let mut properties = self.properties(0);
        let needs_compaction = flat.finish(&mut self.out, &mut properties)?;
        let tail_start = properties.data_size;
        self.close(tail_start, properties, needs_compaction)
    }
}
