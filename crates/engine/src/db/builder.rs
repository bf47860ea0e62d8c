//! Collects what an open needs, checks it, opens.

use super::Db;
use crate::merge::{MergeOperator, StringAppend, UInt64Add};
use crate::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, MergeOperatorChoice, check_supported,
    sanitize_cf, sanitize_db,
};
use crate::recovery::{self, OpenRequest};
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::Env;
use spanlith_table::BlockCache;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Capacity of the block cache that a database gets when none is given: RocksDB's 32 MiB.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// How to open a database. Settings are plain data; components are attached here and persisted by
/// name only.
#[must_use]
pub struct OpenBuilder {
    dir: PathBuf,
    env: Option<Env>,
    options: DbOptions,
    cf_options: CfOptions,
    table_options: BlockBasedTableOptions,
    families: Vec<String>,
    comparator: Option<Comparator>,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    block_cache: Option<BlockCache>,
    no_info_log: bool,
}

impl OpenBuilder {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            env: None,
            options: DbOptions::default(),
            cf_options: CfOptions::default(),
            table_options: BlockBasedTableOptions::default(),
            families: vec!["default".to_string()],
            comparator: None,
            merge_operator: None,
            block_cache: None,
            no_info_log: false,
        }
    }

    /// Options of the database.
    pub fn options(mut self, options: DbOptions) -> Self {
        self.options = options;
        self
    }

    /// Creates the database if there is none.
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.options.create_if_missing = create;
        self
    }

    /// Refuses a database that exists.
    pub fn must_be_new(mut self) -> Self {
        self.options.create_if_missing = true;
        self.options.error_if_exists = true;
        self
    }

    /// Options of the default column family.
    pub fn cf_options(mut self, options: CfOptions) -> Self {
        self.cf_options = options;
        self
    }

    /// Options of its tables.
    pub fn table_options(mut self, options: BlockBasedTableOptions) -> Self {
        self.table_options = options;
        self
    }

    /// The column families to open; must contain `default`.
    pub fn families(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.families = names.into_iter().map(Into::into).collect();
        self
    }

    /// Order of user keys.
    pub fn comparator(mut self, comparator: Comparator) -> Self {
        self.comparator = Some(comparator);
        self
    }

    /// Merge operator of the default family.
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.merge_operator = Some(operator);
        self
    }

    /// Cache for blocks; may be shared by several databases.
    pub fn block_cache(mut self, cache: BlockCache) -> Self {
        self.block_cache = Some(cache);
        self
    }

    /// The outside world: files, time, threads, chance.
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Writes no `LOG` file.
    pub fn no_info_log(mut self) -> Self {
        self.no_info_log = true;
        self
    }

    /// The options as text alone: what a component decides is left out.
    fn plain_cf_options(&self) -> CfOptions {
        let mut cf = self.cf_options.clone();
        let plain = CfOptions::default();
        if self.comparator.is_some() {
            cf.comparator = plain.comparator;
        }
        if self.merge_operator.is_some() {
            cf.merge_operator = plain.merge_operator;
        }
        cf
    }

    /// Reports invalid and unsupported options, before anything is touched.
    ///
    /// # Errors
    /// `NotSupported` with the names of all options whose feature does not exist yet;
    /// `InvalidArgument` if the default family is missing.
    pub fn check(&self) -> Result<()> {
        if !self.families.iter().any(|f| f == "default") {
            return Err(Error::invalid_argument(
                "Default column family not specified",
            ));
        }
        if self.options.keep_log_file_num == 0 {
            return Err(Error::invalid_argument(
                "keep_log_file_num must be greater than 0",
            ));
        }
        if self.options.unordered_write && self.options.enable_pipelined_write {
            return Err(Error::invalid_argument(
                "unordered_write is incompatible with enable_pipelined_write",
            ));
        }
        check_supported(&self.options, &self.plain_cf_options(), &self.table_options)
    }

    fn request(mut self, read_only: bool) -> Result<OpenRequest> {
        self.check()?;
        let comparator = match self.comparator.take() {
            Some(c) => c,
            None => Comparator::from_name(&self.cf_options.comparator).unwrap_or_default(),
        };
        self.cf_options.comparator = comparator.name().to_string();
        match &self.merge_operator {
            Some(m) => self.cf_options.merge_operator = m.name().to_string(),
            None => self.merge_operator = operator_by_text(&self.cf_options.merge_operator),
        }
        sanitize_db(&mut self.options);
        sanitize_cf(&mut self.cf_options);
        let block_cache = if self.table_options.no_block_cache {
            None
        } else {
            Some(self.block_cache.unwrap_or_else(|| {
                BlockCache::new(DEFAULT_CACHE_BYTES, spanlith_cache::Policy::Clock)
            }))
        };
        Ok(OpenRequest {
            dir: self.dir,
            env: self.env.unwrap_or_else(Env::system),
            options: self.options,
            families: self.families,
            cf_options: self.cf_options,
            table_options: self.table_options,
            comparator,
            merge_operator: self.merge_operator,
            block_cache,
            read_only,
            no_info_log: self.no_info_log || read_only,
        })
    }

    /// Opens for reading and writing.
    ///
    /// # Errors
    /// With RocksDB's kind and text before the colon: `Invalid argument` (missing, exists, wrong
    /// comparator, families left out), `IO error` (directory, lock), `Corruption` (with file and
    /// offset), `Not implemented` (an option or a feature found in the directory, by name).
    pub fn open(self) -> Result<Db> {
        Ok(Db::from_engine(recovery::open(self.request(false)?)?))
    }

    /// Opens for reading: no LOCK, nothing on disk changes; logs are replayed into memory.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_read_only(self) -> Result<Db> {
        Ok(Db::from_engine(recovery::open(self.request(true)?)?))
    }
}

/// The built-in operator that an option's text names.
fn operator_by_text(text: &str) -> Option<Arc<dyn MergeOperator>> {
    match MergeOperatorChoice::parse(text)? {
        MergeOperatorChoice::None => None,
        MergeOperatorChoice::UInt64Add => Some(Arc::new(UInt64Add)),
        MergeOperatorChoice::StringAppend { delimiter } => {
            Some(Arc::new(StringAppend::new(delimiter.as_bytes())))
        }
    }
}
