//! Keys that cut a table into parts of about equal size, from its index alone.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::TableReader;
use crate::block::entry::bad_entry;
use crate::options::ReadParams;
use spanlith_base::Result;
use spanlith_base::keys::user_key;

/// The end of one part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAnchor {
    /// A user key that is not smaller than the part's keys and not larger than those after it.
    pub user_key: Vec<u8>,
    /// Bytes of the part in the file.
    pub size_bytes: u64,
}

impl TableReader {
    /// Ends of about `most` parts, in key order; together they cover all data blocks.
    ///
    /// # Errors
    /// Those of reading the index.
    pub fn key_anchors(&self, most: u64) -> Result<Vec<KeyAnchor>> {
        let per_anchor = (self.properties.num_data_blocks / most.max(1)).max(1);
        let mut anchors = Vec::new();
        let (mut count, mut size, mut end) = (0, 0_u64, 0_u64);
        let mut last = Vec::new();
        self.for_each_index(&ReadParams::default(), |index| {
            for i in 0..index.len() {
                let handle = index.handle(i).ok_or_else(bad_entry)?;
                let block_end = handle.offset.saturating_add(handle.size);
                size = size.saturating_add(block_end.saturating_sub(end));
                end = block_end;
                let key = index.key(i);
                let key = if index.has_user_keys() {
                    &key[..]
                } else {
                    user_key(&key)
                };
                count += 1;
                if count == per_anchor {
                    anchors.push(KeyAnchor {
                        user_key: key.to_vec(),
                        size_bytes: size,
                    });
                    (count, size) = (0, 0);
                } else {
                    last.clear();
                    last.extend_from_slice(key);
                }
            }
            Ok(())
        })?;
        if count > 0 {
            anchors.push(KeyAnchor {
                user_key: last,
                size_bytes: size,
            });
        }
        Ok(anchors)
    }
}
