//! Opening without what was written after a timestamp.

use super::{Db, OpenBuilder, compact_range};
use crate::compaction::Trim;
use spanlith_base::{Error, Result};

impl OpenBuilder {
    /// Opens for reading and writing, and drops every version that was written with a later timestamp than `timestamp`,
    /// in all families that have timestamps: all their tables are rewritten before this returns. For programs that
    /// repeat their newest writes from elsewhere. Families without timestamps stay as they are.
    ///
    /// # Errors
    /// As [`Self::open`]; `InvalidArgument` with `avoid_flush_during_recovery`, and if timestamps of a family have
    /// another length; `NotSupported` for families with timestamps whose tables have none, and for those with FIFO
    /// compaction or none, where no compaction rewrites all tables; of the compactions. The database is closed then, and some
    /// of the versions may be gone.
    pub fn open_and_trim_history(self, timestamp: &[u8]) -> Result<Db> {
        if self.has_logs_kept() {
            return Err(Error::invalid_argument(
                "avoid_flush_during_recovery incompatible with OpenAndTrimHistory",
            ));
        }
        let db = self.open()?;
        let engine = db.engine();
        let all = engine.families.load_full();
        let timed: Vec<_> = all
            .iter()
            .filter(|f| f.comparator.timestamp_size() > 0)
            .collect();
        let trims = timed.iter().map(|f| Trim::of(f, timestamp));
        let trimmed = trims.collect::<Result<Vec<_>>>().and_then(|trims| {
            let mut families = timed.iter().zip(trims);
            families.try_for_each(|(f, trim)| {
                compact_range(engine, f, (None, None), &Trim::options(), Some(trim))
            })
        });
        if let Err(e) = trimmed {
            // The first error counts, not that of the close.
            let _ = db.close();
            return Err(e);
        }
        Ok(db)
    }
}
