//! Filters of logs: user code that looks at each batch of a log before it is replayed.
//!
//! As in RocksDB a batch can be left out, be replaced by a smaller one, be called damaged, or end the
//! replay. Batches that are left out keep their sequence numbers: nobody else gets them. They are gone
//! from the database once its memtables are tables; until then an open without the filter finds them.

use crate::write::WriteBatch;
use spanlith_base::coding::get_fixed32;
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Offset of the number of updates in a batch.
const COUNT_AT: usize = 8;

/// Describes what a filter wants done with a batch.
#[derive(Debug)]
pub enum WalVerdict {
    /// Replay it.
    Keep,
    /// Replay this one in its place; it must not have more updates.
    Replace(WriteBatch),
    /// Leave it out.
    Ignore,
    /// Leave out this one and all that follow, of later logs too.
    Stop,
    /// It is damaged: what that means is up to the recovery mode. That it had been synced is no objection:
    /// the file is whole.
    Corrupted,
    /// Something that this build does not know: the open fails.
    Unknown,
}

/// Decides over the batches of logs while a database is opened.
///
/// Called by the thread that opens, in the order of the logs. A panic fails the open.
pub trait WalFilter: Send + Sync {
    /// Told in errors.
    fn name(&self) -> &str;

    /// Called before the first batch: of which log on each family needs what logs hold, by its id, and
    /// the ids of families by name.
    fn families(&self, _log_numbers: &BTreeMap<u32, u64>, _ids: &BTreeMap<String, u32>) {}

    /// Decides over a batch of the log with that number and path.
    fn record(&self, log_number: u64, log_path: &str, batch: &WriteBatch) -> WalVerdict;
}

/// A filter during a replay.
pub(super) struct Filtering {
    /// `None` keeps all.
    filter: Option<Arc<dyn WalFilter>>,
    has_stopped: bool,
    /// It called a batch damaged and the replay ended there: what the files prove of the rest is beside the
    /// point.
    pub(super) has_cut: bool,
}

/// Describes what becomes of a batch.
pub(super) enum Filtered {
    /// It is replayed.
    Kept,
    /// This one is, in the place of one with so many updates.
    Replaced(WriteBatch, u64),
    /// Nothing is; it has so many updates.
    LeftOut(u64),
    /// It counts as damaged.
    Damaged(Error),
}

impl Filtering {
    /// No filter.
    pub(super) const NONE: Self = Self {
        filter: None,
        has_stopped: false,
        has_cut: false,
    };

    /// Begins a replay; the filter is told of the families: id, name, first log that it needs.
    pub(super) fn begin<'f>(
        filter: Arc<dyn WalFilter>,
        families: impl Iterator<Item = (u32, &'f str, u64)>,
    ) -> Self {
        let (mut numbers, mut ids) = (BTreeMap::new(), BTreeMap::new());
        for (id, name, log_number) in families {
            numbers.insert(id, log_number);
            ids.insert(name.to_string(), id);
        }
        filter.families(&numbers, &ids);
        Self {
            filter: Some(filter),
            has_stopped: false,
            has_cut: false,
        }
    }

    /// Asks the filter, if there is one, about a batch with updates.
    ///
    /// # Errors
    /// `NotSupported` in RocksDB's words for answers that make no sense; `Corruption` of a batch that
    /// cannot be decoded.
    pub(super) fn ask(
        &mut self,
        rep: &[u8],
        log: u64,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<Filtered> {
        let Some(filter) = &self.filter else {
            return Ok(Filtered::Kept);
        };
        // Notes about logs, of which a filter knows nothing, have none.
        let count = get_fixed32(rep, COUNT_AT).unwrap_or(0);
        if count == 0 {
            return Ok(Filtered::Kept);
        }
        if self.has_stopped {
            return Ok(Filtered::LeftOut(count.into()));
        }
        let batch = WriteBatch::from_bytes(rep)?;
        match filter.record(log, &path().to_string_lossy(), &batch) {
            WalVerdict::Keep => Ok(Filtered::Kept),
            WalVerdict::Ignore => Ok(Filtered::LeftOut(count.into())),
            WalVerdict::Stop => {
                self.has_stopped = true;
                Ok(Filtered::LeftOut(count.into()))
            }
            WalVerdict::Replace(new) if new.len() <= count as usize => {
                Ok(Filtered::Replaced(new, count.into()))
            }
            WalVerdict::Replace(_) => Err(Error::not_supported(format!(
                "More than original # of records returned by Wal Filter : {}",
                filter.name()
            ))),
            WalVerdict::Corrupted => Ok(Filtered::Damaged(Error::corruption(format!(
                "Corruption reported by Wal Filter : {}",
                filter.name()
            )))),
            WalVerdict::Unknown => Err(Error::not_supported(format!(
                "Unknown WalProcessingOption returned by Wal Filter : {}",
                filter.name()
            ))),
        }
    }
}
