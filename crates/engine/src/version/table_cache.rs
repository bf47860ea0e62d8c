//! Opens tables once and keeps the reader with the file's metadata.

use super::{FileMeta, FilePaths};
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::FileSystem;
use spanlith_table::{BlockCache, ReaderOptions, TableReader};
use std::sync::Arc;

/// Sequence numbers that the fragments of one table may hold on top of four per tombstone. Flushes
/// and compactions write disjoint tombstones, which need one each; tables made by hand may nest them.
const NESTED_MAX: usize = 1 << 22;

/// How tables of a family are opened.
pub struct TableCache {
    /// File system.
    pub fs: Arc<dyn FileSystem>,
    /// Where tables lie.
    pub paths: FilePaths,
    /// Order of user keys.
    pub comparator: Comparator,
    /// Cache of their blocks, if any.
    pub block_cache: Option<BlockCache>,
    /// Where index and filter blocks live.
    pub metadata: MetadataBlocks,
    /// The prefix extractor in use.
    pub prefix_extractor: Option<SliceTransform>,
    /// Whether filters are asked for whole keys.
    pub whole_key_filtering: bool,
    /// Whether the unique id in the MANIFEST is compared with the file's.
    pub verify_unique_id: bool,
}

/// Where index and filter blocks of tables live.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetadataBlocks {
    /// In the block cache, instead of with the reader.
    pub cached: bool,
    /// With high priority there.
    pub high_priority: bool,
    /// Those of level 0 with the reader all the same.
    pub pin_l0: bool,
    /// The top level of partitioned ones with the reader all the same.
    pub pin_top_level: bool,
}

impl TableCache {
    /// The reader of a file, opened at first use. Later calls cost one load.
    ///
    /// # Errors
    /// Of the file system; `Corruption` if the file is not the one the MANIFEST describes.
    #[inline]
    pub fn reader<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<TableReader>> {
        match file.reader.get() {
            Some(r) => Ok(r),
            None => self.open(file),
        }
    }

    #[cold]
    fn open<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<TableReader>> {
        let path = self.paths.table(file.number, file.path_id);
        let handle = self.fs.open_random(&path)?;
        if handle.size() != file.size {
            return Err(Error::corruption(format!(
                "Sst file size mismatch between expected {} and file system {} sstable: {}",
                file.size,
                handle.size(),
                path.display()
            ))
            .with_path(&path));
        }
        let expected_unique_id =
            (self.verify_unique_id && file.unique_id != [0, 0]).then_some(file.unique_id);
        let reader = TableReader::open(
            handle,
            file.size,
            ReaderOptions {
                comparator: self.comparator.clone(),
                cache: self.block_cache.clone(),
                verify_checksums: true,
                expected_unique_id,
                largest_seqno: file.largest_seqno,
                file_number: file.number,
                level: file.level as i32,
                cache_index_and_filter_blocks: self.metadata.cached,
                cache_index_and_filter_blocks_with_high_priority: self.metadata.high_priority,
                pin_l0_filter_and_index_blocks_in_cache: self.metadata.pin_l0,
                pin_top_level_index_and_filter: self.metadata.pin_top_level,
                prefix_extractor: self.prefix_extractor.clone(),
                whole_key_filtering: self.whole_key_filtering,
                ..ReaderOptions::default()
            },
        )?;
        if reader.has_range_tombstones() {
            let tombstones = self
                .load_tombstones(&reader)
                .map_err(|e| e.with_path(&path))?;
            // As below, and before it: who finds the reader finds the tombstones too.
            let _ = file.tombstones.set(tombstones);
        }
        // Two threads may open the same file at once; the first reader stays.
        let _ = file.reader.set(reader);
        file.note_stats();
        Ok(file.reader.get().expect("set above"))
    }

    /// The range tombstones of a table, as fragments.
    fn load_tombstones(&self, reader: &TableReader) -> Result<Arc<FragmentedTombstones>> {
        let stored = reader.range_tombstones()?;
        let tombstones = stored.iter().map(|(start, end, seqno)| RangeTombstone {
            start,
            end,
            seqno: *seqno,
        });
        let seqnos_max = NESTED_MAX + stored.len().saturating_mul(4);
        FragmentedTombstones::build_bounded(&self.comparator, tombstones, seqnos_max).map(Arc::new)
    }
}
