//! Describes what an entry of a block cache is: RocksDB's roles of cache entries.

/// Describes what the memory of a cache entry is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CacheRole {
    /// A data block.
    #[default]
    DataBlock,
    /// A filter, or a partition of one.
    FilterBlock,
    /// The block above the partitions of a filter.
    FilterMetaBlock,
    /// A filter of a form that is not read any more.
    DeprecatedFilterBlock,
    /// An index, or a partition of one, or the block above the partitions.
    IndexBlock,
    /// Any other block.
    OtherBlock,
    /// Memtables.
    WriteBuffer,
    /// Data held back until there is a dictionary.
    CompressionDictionaryBuildingBuffer,
    /// Filters that are being made.
    FilterConstruction,
    /// Open tables.
    BlockBasedTableReader,
    /// Descriptions of files.
    FileMetadata,
    /// A value in a blob file.
    BlobValue,
    /// A cache of such values.
    BlobCache,
    /// Anything else.
    Misc,
}

impl CacheRole {
    /// All, in RocksDB's order.
    pub const ALL: [Self; 14] = [
        Self::DataBlock,
        Self::FilterBlock,
        Self::FilterMetaBlock,
        Self::DeprecatedFilterBlock,
        Self::IndexBlock,
        Self::OtherBlock,
        Self::WriteBuffer,
        Self::CompressionDictionaryBuildingBuffer,
        Self::FilterConstruction,
        Self::BlockBasedTableReader,
        Self::FileMetadata,
        Self::BlobValue,
        Self::BlobCache,
        Self::Misc,
    ];

    /// RocksDB's name, as in texts.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; CacheRole::ALL.len()] = [
            "DataBlock",
            "FilterBlock",
            "FilterMetaBlock",
            "DeprecatedFilterBlock",
            "IndexBlock",
            "OtherBlock",
            "WriteBuffer",
            "CompressionDictionaryBuildingBuffer",
            "FilterConstruction",
            "BlockBasedTableReader",
            "FileMetadata",
            "BlobValue",
            "BlobCache",
            "Misc",
        ];
        NAMES[self as usize]
    }

    /// RocksDB's name, as in keys of maps.
    pub fn hyphenated(self) -> String {
        let mut out = String::new();
        for c in self.name().chars() {
            if c.is_ascii_uppercase() && !out.is_empty() {
                out.push('-');
            }
            out.push(c.to_ascii_lowercase());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_numbered_in_their_order_and_have_two_names() {
        for (n, role) in CacheRole::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, n);
        }
        assert_eq!(CacheRole::Misc.hyphenated(), "misc");
        assert_eq!(
            CacheRole::BlockBasedTableReader.hyphenated(),
            "block-based-table-reader"
        );
    }
}
