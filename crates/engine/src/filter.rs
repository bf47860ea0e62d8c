//! Compaction filters: user code that drops or changes entries while compactions rewrite them.
//!
//! A filter sees the newest version of each key that a compaction meets, if that is a value, and
//! every merge operand that no snapshot protects. It does not see keys whose tables are only moved.
//! Snapshots do not protect values from it: a reader with a snapshot may see what a filter did.
//!
//! Threads: one filter object is called from several jobs at once; a factory makes one per job.

use spanlith_base::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Describes what is about to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterValue<'a> {
    /// A value.
    Value(&'a [u8]),
    /// One merge operand.
    Operand(&'a [u8]),
    /// An entity: encoded columns.
    Entity(&'a [u8]),
}

/// Describes what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// It stays.
    Keep,
    /// It is deleted, as by a delete; an operand disappears.
    Remove,
    /// It is deleted, as by a single delete. Operands cannot be purged: they stay.
    Purge,
    /// It becomes this value or operand.
    ChangeValue(Vec<u8>),
    /// It becomes this entity. Operands stay.
    ChangeEntity(Vec<u8>),
    /// It and all keys before this one that the compaction reads vanish without tombstones: what
    /// lies below may come back. Keeps the entry if the key is not larger than the entry's.
    RemoveAndSkipUntil(Vec<u8>),
}

/// Decides over entries. Must not use the database that calls it.
pub trait CompactionFilter: Send + Sync {
    /// Name recorded in OPTIONS.
    fn name(&self) -> &str;

    /// Returns what becomes of an entry. `level` is the one the compaction starts from.
    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision;

    /// Must be true: a compaction with a filter that wants snapshots to protect entries fails with
    /// `NotSupported`.
    fn ignore_snapshots(&self) -> bool {
        true
    }
}

/// Why a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableCreation {
    /// By a flush.
    Flush,
    /// By a compaction.
    Compaction,
    /// While logs are replayed at open.
    Recovery,
}

/// Describes what a factory knows of the job its filter is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterContext {
    /// Why tables are written.
    pub creation: TableCreation,
    /// The job reads all files of the family.
    pub is_full_compaction: bool,
    /// A caller asked for the compaction.
    pub is_manual_compaction: bool,
    /// Level the compaction starts from; 0 for flushes.
    pub start_level: usize,
    /// Id of the family.
    pub column_family_id: u32,
}

/// Makes a filter for each job.
pub trait CompactionFilterFactory: Send + Sync {
    /// Name recorded in OPTIONS.
    fn name(&self) -> &str;

    /// A filter for one job, or for one part of a compaction that is split; `None`: the job filters
    /// nothing.
    fn create(&self, context: &FilterContext) -> Option<Box<dyn CompactionFilter>>;

    /// Returns whether jobs of a kind ask for a filter at all; compactions only by default.
    fn should_filter(&self, creation: TableCreation) -> bool {
        creation == TableCreation::Compaction
    }
}

/// RocksDB's `RemoveEmptyValueCompactionFilter`: drops keys whose value is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveEmptyValues;

impl RemoveEmptyValues {
    /// RocksDB's name.
    pub const NAME: &'static str = "RemoveEmptyValueCompactionFilter";
}

impl CompactionFilter for RemoveEmptyValues {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value([]) => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }
    }
}

/// The built-in filter of that name.
pub fn filter_by_name(name: &str) -> Option<Arc<dyn CompactionFilter>> {
    (name == RemoveEmptyValues::NAME).then(|| Arc::new(RemoveEmptyValues) as Arc<_>)
}

/// The error of a job whose filter wants snapshots to protect entries.
pub(crate) fn protective_filter() -> Error {
    Error::not_supported("CompactionFilter::IgnoreSnapshots() = false is not supported anymore.")
}

/// Where the jobs of a family get their filters.
#[derive(Clone, Default)]
pub(crate) struct FilterSource {
    /// Shared by all compactions; goes before the factory.
    pub filter: Option<Arc<dyn CompactionFilter>>,
    pub factory: Option<Arc<dyn CompactionFilterFactory>>,
}

impl FilterSource {
    /// Returns whether compactions are filtered.
    pub(crate) fn is_set(&self) -> bool {
        self.filter.is_some() || self.factory.is_some()
    }

    /// The filter of one job.
    pub(crate) fn make(&self, context: &FilterContext) -> Option<JobFilter> {
        if context.creation == TableCreation::Compaction
            && let Some(shared) = &self.filter
        {
            return Some(JobFilter::Shared(shared.clone()));
        }
        let factory = self.factory.as_ref()?;
        if !factory.should_filter(context.creation) {
            return None;
        }
        factory.create(context).map(JobFilter::Own)
    }
}

impl fmt::Debug for FilterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filter = self.filter.as_ref().map(|o| o.name());
        let factory = self.factory.as_ref().map(|o| o.name());
        f.debug_tuple("FilterSource")
            .field(&filter)
            .field(&factory)
            .finish()
    }
}

/// A filter in use by one job.
pub(crate) enum JobFilter {
    Shared(Arc<dyn CompactionFilter>),
    Own(Box<dyn CompactionFilter>),
}

impl Deref for JobFilter {
    type Target = dyn CompactionFilter;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Shared(f) => &**f,
            Self::Own(f) => &**f,
        }
    }
}
