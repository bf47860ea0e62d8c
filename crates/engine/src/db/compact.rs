//! Compactions of ranges on demand: what a memtable holds of the range is flushed first.

use crate::compaction::{CompactRangeOptions, KeyRange, ManualCompaction, Trim};
use crate::core::{Engine, Family};
use crate::listener::FlushReason;
use crate::write::FlushCall;
use spanlith_base::Result;
use std::sync::Arc;

/// Compacts a range of a family into the deepest level, without the versions that `trim` drops.
///
/// # Errors
/// Of the flush and the compactions.
pub(crate) fn compact_range(
    engine: &Engine,
    family: &Arc<Family>,
    range: KeyRange<'_>,
    options: &CompactRangeOptions,
    trim: Option<Trim>,
) -> Result<()> {
    let manual = ManualCompaction::new(engine, family, range, options)?.trimming(trim);
    if let Some(flush) = manual.flush_before() {
        let families = std::slice::from_ref(family);
        let reason = FlushReason::ManualCompaction;
        FlushCall::new(engine, &engine.leader, reason, families).run(flush)?;
    }
    manual.run()
}
