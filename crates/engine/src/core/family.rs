//! A column family: what stays the same while it is open, and its options, which may be replaced.

use super::adaptive::Adaptive;
use super::hiding::Hiding;
use super::level0_shape::{ReadCount, UserShape};
use super::pacer::Pacer;
use super::purge::{FamilySink, PurgeQueue};
use super::{FamilyCounters, SuperVersion};
use crate::blob::BlobSource;
use crate::filter::FilterSource;
use crate::listener::BlobFileRecords;
use crate::merge::MergeOperator;
use crate::options::{BlockBasedTableOptions, CfOptions, FamilyText};
use crate::ttl::ValueTimes;
use crate::version::edit::BlobFileAddition;
use crate::version::{FilePaths, LevelOptions, PurgeSink, TableCache};
use spanlith_base::Comparator;
use spanlith_base::slice_transform::{ExtractorId, NO_EXTRACTOR, SliceTransform};
use spanlith_base::sync::{ArcCell, Guard};
use spanlith_memtable::{BloomOptions, MemTable, MemTableOptions, Protection};
use spanlith_table::{Collectors, TableOptions};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Largest part of the write buffer that a memtable's filter takes; RocksDB's.
const BLOOM_SHARE_MAX: f64 = 0.25;

/// Options of a family, as set and in the form its parts take them. Replaced as a whole when options
/// change at run time; readers see them through the superversion.
pub(crate) struct FamilySettings {
    pub options: CfOptions,
    pub table_options: BlockBasedTableOptions,
    pub table: TableOptions,
    pub levels: LevelOptions,
    /// The part of a key that is its prefix.
    pub prefix_extractor: Option<SliceTransform>,
    /// Stands for it.
    pub extractor_id: ExtractorId,
    /// Holds what of `options` the user set otherwise, while level 0 has a shape of its own.
    pub(super) user: Option<UserShape>,
    /// Says what OPTIONS files say; made when the first is written.
    text: OnceLock<Arc<FamilyText>>,
}

impl FamilySettings {
    /// `paths` are the directories of the family's tables.
    pub(crate) fn new(
        options: CfOptions,
        table_options: BlockBasedTableOptions,
        paths: &FilePaths,
    ) -> Self {
        let prefix_extractor = SliceTransform::from_text(&options.prefix_extractor);
        Self {
            table: super::table_options(&options, &table_options),
            levels: super::level_options(&options, paths),
            extractor_id: id_of(prefix_extractor.as_ref()),
            prefix_extractor,
            options,
            table_options,
            user: None,
            text: OnceLock::new(),
        }
    }

    /// The options as the user set them.
    pub(crate) fn user_options(&self) -> CfOptions {
        let mut options = self.options.clone();
        if let Some(user) = self.user {
            user.put(&mut options);
        }
        options
    }

    /// The settings with other values of what makes the shape of level 0; `user` are those of the user.
    pub(super) fn with_shape(&self, user: UserShape, shaped: UserShape) -> Self {
        let mut options = self.options.clone();
        shaped.put(&mut options);
        let mut levels = self.levels.clone();
        levels.write_buffer_size = options.write_buffer_size;
        levels.level0_file_num_compaction_trigger = options.level0_file_num_compaction_trigger;
        levels.level0_stop_writes_trigger = options.level0_stop_writes_trigger;
        Self {
            options,
            levels,
            table_options: self.table_options.clone(),
            table: self.table.clone(),
            prefix_extractor: self.prefix_extractor.clone(),
            extractor_id: self.extractor_id,
            user: Some(user),
            text: self.text.clone(),
        }
    }

    /// Returns what OPTIONS files say of the family. It is `like` itself if that says the same: a thousand families with the same
    /// options have one text.
    pub(crate) fn text(&self, like: Option<&Arc<FamilyText>>) -> &Arc<FamilyText> {
        self.text.get_or_init(|| {
            let text = FamilyText::new(&self.user_options(), &self.table_options);
            match like {
                Some(like) if **like == text => like.clone(),
                _ => Arc::new(text),
            }
        })
    }

    /// Returns whether reads that find no value in a table are counted with its file.
    pub(crate) fn counts_wasted_reads(&self) -> bool {
        self.options.read_triggered_compaction_threshold > 0.0
    }

    /// With an extractor of the user's, which no text can name; `None` changes nothing.
    pub(crate) fn with_prefix_extractor(mut self, extractor: Option<SliceTransform>) -> Self {
        if extractor.is_some() {
            self.extractor_id = id_of(extractor.as_ref());
            self.prefix_extractor = extractor;
        }
        self
    }

    /// An empty memtable of the family.
    pub(crate) fn new_memtable(&self, comparator: &Comparator) -> Arc<MemTable> {
        let o = &self.options;
        let share = o
            .memtable_prefix_bloom_size_ratio
            .clamp(0.0, BLOOM_SHARE_MAX);
        let bloom = (share > 0.0).then(|| BloomOptions {
            size_bytes: (o.write_buffer_size as f64 * share) as usize,
            whole_keys: o.memtable_whole_key_filtering,
            prefixes: self.prefix_extractor.clone(),
        });
        let options = MemTableOptions {
            arena_block_size: self.arena_block_size(),
            bloom,
            protection: Protection {
                bytes_per_key: o.memtable_protection_bytes_per_key.min(8) as u8,
                checks_order: o.paranoid_memory_checks,
                checks_on_seek: o.memtable_verify_per_key_checksum_on_seek,
            },
            max_range_deletions: o.memtable_max_range_deletions,
        };
        Arc::new(MemTable::with_options(comparator.clone(), &options))
    }

    /// RocksDB's default: an eighth of the write buffer, at most 1 MiB, in whole 4 KiB.
    pub(crate) fn arena_block_size(&self) -> usize {
        let o = &self.options;
        let set = if o.arena_block_size == 0 {
            (o.write_buffer_size / 8).min(1 << 20)
        } else {
            o.arena_block_size
        };
        (set as usize).next_multiple_of(4096)
    }
}

fn id_of(extractor: Option<&SliceTransform>) -> ExtractorId {
    extractor.map_or(NO_EXTRACTOR, SliceTransform::id)
}

/// A column family. Handles, iterators and jobs share it; it outlives its removal as long as one of
/// them does.
pub(crate) struct Family {
    pub id: u32,
    pub name: String,
    pub comparator: Comparator,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// It takes tables only (`disallow_memtable_writes`).
    pub refuses_writes: bool,
    /// Its values have times (`ttl`).
    pub times: Option<ValueTimes>,
    /// Its keys have timestamps or its values times: one look for what calls on the way of most others ask for.
    pub is_special: bool,
    /// Where its jobs get their filters.
    pub filters: FilterSource,
    /// Says who adds properties to its tables.
    pub collectors: Collectors,
    pub cache: Arc<TableCache>,
    /// Its blob files.
    pub blobs: Arc<BlobSource>,
    /// Says what readers use; replaced under the state mutex.
    pub superversion: ArcCell<SuperVersion>,
    /// From which size on values are separated in adaptive mode.
    pub adaptive: Adaptive,
    /// How much of what upper levels refer to hides older values.
    pub hiding: Hiding,
    /// Work done for it so far.
    pub counters: FamilyCounters,
    /// How fast it may be written.
    pub pacer: Pacer,
    /// Reads, while somebody wants to know.
    pub reads: ReadCount,
    /// Set once the removal is durable.
    dropped: AtomicBool,
    // Last: files reported by what is dropped above still find it.
    sink: Arc<dyn PurgeSink>,
}

/// Describes what [`Family::new`] needs.
pub(crate) struct FamilyParts {
    pub id: u32,
    pub name: String,
    pub comparator: Comparator,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    pub filters: FilterSource,
    pub collectors: Collectors,
    pub cache: Arc<TableCache>,
    pub blobs: Arc<BlobSource>,
    pub superversion: SuperVersion,
    pub times: Option<ValueTimes>,
    pub sink: Arc<dyn PurgeSink>,
}

impl Family {
    /// Returns what listeners are told of new blob files.
    pub(crate) fn blob_records(&self, files: &[BlobFileAddition]) -> Vec<BlobFileRecords> {
        let told = files.iter().map(|f| BlobFileRecords {
            path: self.cache.paths.blob(f.number),
            number: f.number,
            count: f.total_count,
            bytes: f.total_bytes,
        });
        told.collect()
    }

    pub(crate) fn new(p: FamilyParts) -> Arc<Self> {
        Arc::new(Self {
            id: p.id,
            name: p.name,
            is_special: p.times.is_some() || p.comparator.timestamp_size() != 0,
            times: p.times,
            comparator: p.comparator,
            merge_operator: p.merge_operator,
            refuses_writes: p.superversion.settings.options.disallow_memtable_writes,
            filters: p.filters,
            collectors: p.collectors,
            cache: p.cache,
            counters: FamilyCounters::new(p.superversion.version.num_levels()),
            pacer: Pacer::new(),
            reads: ReadCount::default(),
            blobs: p.blobs,
            adaptive: Adaptive::default(),
            hiding: Hiding::default(),
            superversion: ArcCell::new(Arc::new(p.superversion)),
            dropped: AtomicBool::new(false),
            sink: p.sink,
        })
    }

    /// Where its files report that they may be deleted.
    pub(crate) fn sink(&self) -> Weak<dyn PurgeSink> {
        Arc::downgrade(&self.sink)
    }

    /// A sink that deletes files of the given directories.
    pub(crate) fn new_sink(queue: &Arc<PurgeQueue>, paths: FilePaths) -> Arc<dyn PurgeSink> {
        Arc::new(FamilySink {
            queue: queue.clone(),
            paths,
        })
    }

    /// Path of one of its tables.
    pub(crate) fn table_path(&self, number: u64, path_id: u32) -> PathBuf {
        self.cache.paths.table(number, path_id)
    }

    /// Where its blob files are.
    pub(crate) fn blob_dir(&self) -> &std::path::Path {
        self.cache.paths.dir(0)
    }

    /// Current options.
    pub(crate) fn settings(&self) -> Arc<FamilySettings> {
        self.superversion.load().settings.clone()
    }

    /// A user key given without its timestamp, with one of `fill` bytes: 0xff stands in front of all
    /// versions of the key, 0 after them.
    pub(crate) fn pad<'a>(&self, key: Option<&'a [u8]>, fill: u8) -> Option<Cow<'a, [u8]>> {
        key.map(|key| self.padded(key, fill))
    }

    /// As [`Self::pad`].
    pub(crate) fn padded<'a>(&self, key: &'a [u8], fill: u8) -> Cow<'a, [u8]> {
        match self.comparator.timestamp_size() {
            0 => Cow::Borrowed(key),
            size => {
                let mut padded = key.to_vec();
                padded.resize(key.len() + size, fill);
                Cow::Owned(padded)
            }
        }
    }

    /// Returns whether it was removed.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

/// The families of a database by id, immutable: replaced when one is created or dropped.
pub(crate) struct FamilySet {
    /// Ascending ids; the first is the default family.
    families: Vec<Arc<Family>>,
}

impl FamilySet {
    pub(crate) fn new(mut families: Vec<Arc<Family>>) -> Self {
        families.sort_by_key(|f| f.id);
        Self { families }
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<Family>> {
        match self.families.get(id as usize) {
            Some(f) if f.id == id => Some(f),
            _ => {
                let at = self.families.binary_search_by_key(&id, |f| f.id).ok()?;
                self.families.get(at)
            }
        }
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Family>> {
        self.families.iter().find(|f| f.name == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.families.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.families.len()
    }

    pub(crate) fn with(&self, family: Arc<Family>) -> Self {
        let mut families = self.families.clone();
        families.push(family);
        Self::new(families)
    }

    pub(crate) fn without(&self, id: u32) -> Self {
        let families = self.families.iter().filter(|f| f.id != id);
        Self::new(families.cloned().collect())
    }
}

/// The families of an open database. Replaced under leadership and the state mutex.
pub(crate) struct Families {
    /// The default family, which is never dropped.
    default: Arc<Family>,
    all: ArcCell<FamilySet>,
}

impl Families {
    /// These families; the default one is among them.
    pub(super) fn new(all: FamilySet) -> Self {
        let default = all.get(0).expect("the default family is always there");
        Self {
            default: default.clone(),
            all: ArcCell::new(Arc::new(all)),
        }
    }

    /// The default family.
    #[inline]
    pub(crate) fn default(&self) -> &Arc<Family> {
        &self.default
    }

    /// Those that were not dropped, for a short look.
    #[inline]
    pub(crate) fn load(&self) -> Guard<'_, FamilySet> {
        self.all.load()
    }

    /// Those that were not dropped.
    pub(crate) fn load_full(&self) -> Arc<FamilySet> {
        self.all.load_full()
    }

    /// From now on there are these. Requires: leadership and the state mutex.
    pub(super) fn replace(&self, all: Arc<FamilySet>) {
        self.all.replace(all);
    }
}
