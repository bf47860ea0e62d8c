//! Options and components of one column family, checked before anything is touched.

use crate::core::{DefaultCache, Engine, FamilyRequest, Resources};
use crate::filter::{CompactionFilter, CompactionFilterFactory, FilterSource, filter_by_name};
use crate::merge::{MergeOperator, operator_by_name};
use crate::options::text::split_pairs;
use crate::options::{
    BlockBasedTableOptions, CfOptions, CompressionType, DataBlockIndexType, DbOptions, IndexType,
    OptionTable, OwnDbOptions, STATS_FAMILY, apply_own, check_supported, collectors_of,
    is_null_object, object_id, sanitize_cf, sanitize_table,
};
use crate::ttl::{TimedMerge, ValueTimes, wrap_filters};
use crate::version::{DbPath, PATHS_MAX};
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::timestamp::U64_TIMESTAMP_LEN;
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::Clock;
use spanlith_table::{BlockCache, CacheUsageOptions, Collectors, TablePropertiesCollectorFactory};
use std::sync::Arc;
use std::time::Duration;

/// Most levels; RocksDB has no bound, and takes memory for each.
const LEVELS_MAX: i32 = 63;

/// How a column family is opened or created. Settings are plain data; components are attached here
/// and persisted by name only.
#[derive(Clone)]
#[must_use]
pub struct FamilyOptions {
    name: String,
    options: CfOptions,
    table: BlockBasedTableOptions,
    comparator: Option<Comparator>,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    prefix_extractor: Option<SliceTransform>,
    filters: FilterSource,
    collectors: Collectors,
    block_cache: Option<BlockCache>,
    blob_cache: Option<BlockCache>,
    default_cache: Option<DefaultCache>,
    cache_usage: CacheUsageOptions,
    paths: Vec<DbPath>,
    /// How old its values may become, if the database is one whose values have times.
    pub(super) ttl: Option<Duration>,
}

/// The newest format of tables, which RocksDB reads from 11.10 on.
const FORMAT_VERSION_MAX: u32 = 8;

fn check_table(cf: &CfOptions, table: &BlockBasedTableOptions) -> Result<()> {
    let super_block = table.super_block_alignment_size;
    let text = if table.cache_index_and_filter_blocks && table.no_block_cache {
        "Enable cache_index_and_filter_blocks, , but block cache is disabled"
    } else if table.pin_l0_filter_and_index_blocks_in_cache && table.no_block_cache {
        "Enable pin_l0_filter_and_index_blocks_in_cache, , but block cache is disabled"
    } else if table.format_version > FORMAT_VERSION_MAX {
        "Unsupported BlockBasedTable format_version. Please check include/rocksdb/table.h for more info"
    } else if table.block_align && cf.compression != CompressionType::None {
        "Enable block_align, but compression enabled"
    } else if table.block_align && !table.block_size.is_power_of_two() {
        "Block alignment requested but block size is not a power of 2"
    } else if table.block_size > u32::MAX.into() {
        "block size exceeds maximum number (4GiB) allowed"
    } else if table.data_block_index_type == DataBlockIndexType::BinaryAndHash
        && table.data_block_hash_table_util_ratio <= 0.0
    {
        "data_block_hash_table_util_ratio should be greater than 0 when data_block_index_type is \
         set to kDataBlockBinaryAndHash"
    } else if super_block != 0 && !super_block.is_power_of_two() {
        "Super Block alignment requested but super block alignment size is not a power of 2"
    } else if super_block > u32::MAX.into() {
        "Super block alignment size exceeds maximum number (4GiB) allowed"
    } else if table.use_udi_as_primary_index && is_null_object(&table.user_defined_index_factory) {
        "use_udi_as_primary_index requires user_defined_index_factory"
    } else if matches!(table.super_block_alignment_space_overhead_ratio, 1..=3) {
        "Super block alignment space overhead is too high"
    } else {
        return Ok(());
    };
    Err(Error::invalid_argument(text))
}

impl FamilyOptions {
    /// A family of that name with default options.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            options: CfOptions::default(),
            table: BlockBasedTableOptions::default(),
            comparator: None,
            merge_operator: None,
            prefix_extractor: None,
            filters: FilterSource::default(),
            collectors: Collectors::default(),
            block_cache: None,
            blob_cache: None,
            default_cache: None,
            cache_usage: CacheUsageOptions::default(),
            paths: Vec::new(),
            ttl: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets options of families that RocksDB does not have, by name, as `name=value;name=value`; goes into the
    /// options of the last call of [`Self::options`].
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name and for one of the database, for a wrong value, and for one out of
    /// bounds.
    pub fn set(mut self, text: &str) -> Result<Self> {
        for (name, _) in split_pairs(text)? {
            if OwnDbOptions::row(&name).is_some() {
                let text = format!("{name} is an option of the database, not of a family");
                return Err(Error::invalid_argument(text));
            }
        }
        apply_own(text, &mut OwnDbOptions::default(), &mut self.options.own)?;
        Ok(self)
    }

    /// As [`Self::set`], and leaves out what belongs to the database: for a text that was given for both.
    ///
    /// # Errors
    /// As [`Self::set`], except for options of the database.
    pub fn set_of_family(mut self, text: &str) -> Result<Self> {
        apply_own(text, &mut OwnDbOptions::default(), &mut self.options.own)?;
        Ok(self)
    }

    /// Its options.
    pub fn options(mut self, options: CfOptions) -> Self {
        self.options = options;
        self
    }

    /// Options of its tables.
    pub fn table_options(mut self, options: BlockBasedTableOptions) -> Self {
        self.table = options;
        sanitize_table(&mut self.table);
        self
    }

    /// Order of user keys.
    pub fn comparator(mut self, comparator: Comparator) -> Self {
        self.comparator = Some(comparator);
        self
    }

    /// Merge operator.
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.merge_operator = Some(operator);
        self
    }

    /// The part of a key that is its prefix, for filters and prefix scans.
    pub fn prefix_extractor(mut self, extractor: SliceTransform) -> Self {
        self.prefix_extractor = Some(extractor);
        self
    }

    /// Compaction filter that all compactions share. Goes before a factory.
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.filters.filter = Some(filter);
        self
    }

    /// Maker of a compaction filter for each job.
    pub fn compaction_filter_factory(mut self, factory: Arc<dyn CompactionFilterFactory>) -> Self {
        self.filters.factory = Some(factory);
        self
    }

    /// Adds a maker of collectors, which see every entry of its tables while they are written. With
    /// any, those that the option `table_properties_collectors` names are not made.
    pub fn table_properties_collector(
        mut self,
        factory: Arc<dyn TablePropertiesCollectorFactory>,
    ) -> Self {
        self.collectors.0.push(factory);
        self
    }

    /// Cache for blocks; may be shared by families and databases.
    pub fn block_cache(mut self, cache: BlockCache) -> Self {
        self.block_cache = Some(cache);
        self
    }

    /// Cache for values in blob files (`blob_cache`); may be the block cache, and may be shared by families
    /// and databases. Without one, each read of such a value reads its file. No file of the database names
    /// it: it must be given whenever it is opened.
    pub fn blob_cache(mut self, cache: BlockCache) -> Self {
        self.blob_cache = Some(cache);
        self
    }

    /// The block cache that is used if no other is given; without this call the families of a database share one.
    pub fn default_cache(mut self, cache: DefaultCache) -> Self {
        self.default_cache = Some(cache);
        self
    }

    /// Which memory outside the block cache is charged to it (`cache_usage_options`). No file of the
    /// database names it: it must be given whenever it is opened.
    pub fn cache_usage(mut self, options: CacheUsageOptions) -> Self {
        self.cache_usage = options;
        self
    }

    /// The directories of its tables that were named.
    pub(super) fn own_paths(&self) -> &[DbPath] {
        &self.paths
    }

    /// Directories of its tables (`cf_paths`); without any, those of the database. At most four. No
    /// file of the database names them: they must be given whenever it is opened.
    pub fn paths(mut self, paths: Vec<DbPath>) -> Self {
        self.paths = paths;
        self
    }

    /// The options as text alone: what a component decides is left out.
    fn plain(&self) -> CfOptions {
        let mut cf = self.options.clone();
        let plain = CfOptions::default();
        if self.comparator.is_some() {
            cf.comparator = plain.comparator;
        }
        if self.merge_operator.is_some() {
            cf.merge_operator = plain.merge_operator;
        }
        if self.prefix_extractor.is_some() {
            cf.prefix_extractor = plain.prefix_extractor;
        }
        if self.filters.filter.is_some() {
            cf.compaction_filter = plain.compaction_filter;
        }
        if self.filters.factory.is_some() {
            cf.compaction_filter_factory = plain.compaction_filter_factory;
        }
        if !self.collectors.0.is_empty() {
            cf.table_properties_collectors = plain.table_properties_collectors;
        }
        cf
    }

    /// Reports unsupported options of the family and of the database.
    ///
    /// # Errors
    /// `NotSupported` with the names of all options whose feature does not exist; `InvalidArgument`
    /// for a hash index without prefixes.
    pub(super) fn check(&self, db: &DbOptions) -> Result<()> {
        self.check_values(db)?;
        self.check_supported(db)
    }

    /// Reports options of the family that are wrong, in RocksDB's order: programs see the first.
    ///
    /// # Errors
    /// `InvalidArgument` and `NotSupported`, in its words.
    pub(super) fn check_values(&self, db: &DbOptions) -> Result<()> {
        self.check_index()?;
        self.check_shape()?;
        if self.options.compression == CompressionType::Disable {
            return Err(Error::invalid_argument(
                "kDisableCompressionOption not permitted for option: compression",
            ));
        }
        if db.unordered_write && self.options.max_successive_merges != 0 {
            return Err(Error::invalid_argument(
                "max_successive_merges larger than 0 is currently inconsistent with unordered_write",
            ));
        }
        self.check_codecs()?;
        self.check_timestamps(db)?;
        self.options.check_with(db)?;
        if self.name == "default" && self.options.disallow_memtable_writes {
            return Err(Error::invalid_argument(
                "Default column family cannot use disallow_memtable_writes=true",
            ));
        }
        Ok(())
    }

    /// Reports options of the family and of the database whose feature does not exist.
    ///
    /// # Errors
    /// `NotSupported` with their names.
    pub(super) fn check_supported(&self, db: &DbOptions) -> Result<()> {
        check_supported(db, &self.plain(), &self.table)
    }

    /// Refuses a hash index without prefixes.
    fn check_index(&self) -> Result<()> {
        let no_extractor = self.prefix_extractor.is_none()
            && SliceTransform::from_text(&self.options.prefix_extractor).is_none();
        if self.table.index_type == IndexType::HashSearch && no_extractor {
            return Err(Error::invalid_argument(
                "Hash index is specified for block-based table, but prefix_extractor is not given",
            ));
        }
        Ok(())
    }

    /// Refuses codecs that do not exist.
    fn check_codecs(&self) -> Result<()> {
        let codecs = match &self.options.compression_per_level[..] {
            [] => std::slice::from_ref(&self.options.compression),
            per_level => per_level,
        };
        if codecs.contains(&CompressionType::Xpress) {
            return Err(Error::invalid_argument(
                "Compression type Xpress is not linked with the binary.",
            ));
        }
        self.options.check_codecs()
    }

    /// Refuses what there is no room for.
    fn check_shape(&self) -> Result<()> {
        if self.paths.len() > PATHS_MAX {
            let text = "More than four CF paths are not supported yet. ";
            return Err(Error::not_supported(text));
        }
        if self.options.num_levels > LEVELS_MAX {
            let text = format!("num_levels must be at most {LEVELS_MAX}");
            return Err(Error::invalid_argument(text));
        }
        Ok(())
    }

    /// Returns what a database that is opened for reading does in place of [`Self::check`]: values that only writers use
    /// may be anything, and those that make no sense in memory are left out.
    ///
    /// # Errors
    /// `NotSupported` with the names of options without their feature; `InvalidArgument` for more levels than
    /// there can be.
    pub(super) fn prepare_for_reading(&mut self, db: &DbOptions) -> Result<()> {
        self.check_shape()?;
        let is_known = |bytes| matches!(bytes, 0 | 1 | 2 | 4 | 8);
        let o = &mut self.options;
        if !is_known(o.memtable_protection_bytes_per_key) {
            o.memtable_protection_bytes_per_key = 0;
        }
        if !is_known(o.block_protection_bytes_per_key.into()) {
            o.block_protection_bytes_per_key = 0;
        }
        let (defaults, mut cf) = (CfOptions::default(), self.plain());
        cf.compression = defaults.compression;
        cf.bottommost_compression = defaults.bottommost_compression;
        cf.compression_per_level = Vec::new();
        cf.blob_compression_type = defaults.blob_compression_type;
        let mut table = self.table.clone();
        table.block_align = false;
        check_supported(db, &cf, &table)
    }

    /// Refuses what RocksDB refuses for families whose tables hold no timestamps, in its words.
    ///
    /// # Errors
    /// `NotSupported`.
    fn check_timestamps(&self, db: &DbOptions) -> Result<()> {
        let named = || Comparator::from_name(&self.options.comparator).unwrap_or_default();
        let comparator = self.comparator.clone().unwrap_or_else(named);
        let size = comparator.timestamp_size();
        let what = if size == 0 || self.options.persist_user_defined_timestamps {
            return Ok(());
        } else if size != U64_TIMESTAMP_LEN {
            "Not persisting user-defined timestampsfeature only support user-defined timestamps \
             formatted as uint64_t."
        } else if db.atomic_flush {
            "Not persisting user-defined timestamps feature is not supportedin combination with \
             atomic flush."
        } else if db.allow_concurrent_memtable_write {
            "Not persisting user-defined timestamps feature is not supported in combination with \
             concurrent memtable write."
        } else {
            return Ok(());
        };
        Err(Error::not_supported(what))
    }

    /// Refuses what RocksDB refuses about options of tables when it opens for writing, in its words;
    /// it does not when it creates a family or opens for reading.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn check_table(&self) -> Result<()> {
        self.check_index()?;
        check_table(&self.options, &self.table)?;
        self.cache_usage.check(self.table.no_block_cache)
    }

    /// The family as the engine takes it; its values get times if there is a `clock` for them.
    pub(super) fn into_request(
        mut self,
        resources: &Resources,
        clock: Option<&Arc<dyn Clock>>,
    ) -> FamilyRequest {
        if self.paths.is_empty() {
            self.paths = resources.paths.clone();
        }
        if self.paths.len() > 1 {
            self.options.level_compaction_dynamic_level_bytes = false;
        }
        let comparator = match self.comparator.take() {
            Some(c) => c,
            None => Comparator::from_name(&self.options.comparator).unwrap_or_default(),
        };
        self.options.comparator = comparator.name().to_string();
        match &self.merge_operator {
            Some(m) => self.options.merge_operator = m.options_text(),
            None => self.merge_operator = operator_by_name(&self.options.merge_operator),
        }
        if let Some(extractor) = &self.prefix_extractor {
            self.options.prefix_extractor = extractor.name();
        }
        let clock = clock.filter(|_| self.name != STATS_FAMILY);
        let times = clock.map(|clock| self.wrap(clock));
        match &self.filters.filter {
            Some(f) => self.options.compaction_filter = f.name().to_string(),
            None => {
                self.filters.filter =
                    object_id(&self.options.compaction_filter).and_then(filter_by_name);
            }
        }
        if let Some(f) = &self.filters.factory {
            self.options.compaction_filter_factory = f.name().to_string();
        }
        if self.collectors.0.is_empty() {
            let named = &self.options.table_properties_collectors;
            self.collectors = collectors_of(named).unwrap_or_default();
        }
        self.options.table_properties_collectors = self.collectors.options_text();
        sanitize_cf(&mut self.options);
        let block_cache = if self.table.no_block_cache {
            None
        } else {
            let shared = self
                .default_cache
                .as_ref()
                .unwrap_or(&resources.default_cache);
            Some(self.block_cache.unwrap_or_else(|| shared.get()))
        };
        FamilyRequest {
            name: self.name,
            options: self.options,
            table_options: self.table,
            comparator,
            merge_operator: self.merge_operator,
            prefix_extractor: self.prefix_extractor,
            filters: self.filters,
            times,
            collectors: self.collectors,
            block_cache,
            blob_cache: self.blob_cache,
            cache_usage: self.cache_usage,
            paths: self.paths,
            tables: resources.tables.as_ref().map(|t| t.state.clone()),
        }
    }

    /// The family as who writes its tables without a database takes it.
    ///
    /// # Errors
    /// As [`Self::check`] and [`Self::check_table`].
    pub(crate) fn for_tables(mut self, db: &DbOptions) -> Result<FamilyRequest> {
        // Nobody writes to a memtable.
        let db = DbOptions {
            allow_concurrent_memtable_write: false,
            ..db.clone()
        };
        self.check_table()?;
        self.check(&db)?;
        // Nothing is read.
        self.table.no_block_cache = true;
        Ok(self.into_request(&Resources::default(), None))
    }

    /// Wraps merge operator and filters for values with times.
    fn wrap(&mut self, clock: &Arc<dyn Clock>) -> ValueTimes {
        let user_operator = self.merge_operator.take();
        if let Some(user) = &user_operator {
            let wrapped = TimedMerge::new(user.clone(), clock.clone());
            self.options.merge_operator = wrapped.options_text();
            self.merge_operator = Some(Arc::new(wrapped));
        }
        if self.filters.filter.is_none() {
            let named = object_id(&self.options.compaction_filter);
            self.filters.filter = named.and_then(filter_by_name);
        }
        let limit = self.ttl.unwrap_or_default();
        self.filters = wrap_filters(std::mem::take(&mut self.filters), limit, clock);
        ValueTimes {
            clock: clock.clone(),
            user_operator,
        }
    }

    /// The family as an open database takes it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn request(self, engine: &Engine) -> Result<FamilyRequest> {
        let options = engine.options();
        self.check(&options)?;
        let times = engine.families.default().times.as_ref();
        if self.ttl.is_some() && times.is_none() {
            return Err(Error::invalid_argument(
                "a time to live in a database that was opened without",
            ));
        }
        Ok(self.into_request(&engine.c.resources, times.map(|t| &t.clock)))
    }
}
