//! Which background work is urgent: writers are about to be delayed or stopped, and this work alone would help them.
//!
//! With `preemptible_compaction`, a compaction that runs is asked to let such work go first while no thread is free for it. The rules
//! are functions of a family's state, without effect; they hold under every policy of the write controller.

use super::state::FamilyState;
use super::{DbState, FlushTurn};

/// Returns whether something in a database is urgent and does not run. `atomic` says that all families are flushed together.
pub(crate) fn is_any_urgent(state: &DbState, atomic: bool) -> bool {
    is_flush_urgent(state, atomic) || state.families.values().any(is_level0_urgent)
}

/// Returns whether a flush is queued that no thread has begun, and writers would stop for the next full memtable.
pub(crate) fn is_flush_urgent(state: &DbState, atomic: bool) -> bool {
    let waits = |turn: &FlushTurn| turn.is_queued() && !turn.is_running();
    // The flags of the default family stand for a flush of all.
    let all_wait = atomic && state.family(0).is_some_and(|f| waits(&f.flush));
    state.families.values().any(|f| {
        let sealed = i64::try_from(f.imm.len()).unwrap_or(i64::MAX);
        let most = i64::from(f.settings.options.max_write_buffer_number);
        let is_near = sealed > 0 && sealed >= most - 1;
        is_near && (all_wait || waits(&f.flush))
    })
}

/// Returns whether level 0 of a family has as many files as delay writers, and no compaction works on it.
pub(crate) fn is_level0_urgent(f: &FamilyState) -> bool {
    let o = &f.settings.options;
    let files = i64::try_from(f.version.num_files(0)).unwrap_or(i64::MAX);
    let trigger = o.level0_file_num_compaction_trigger;
    let slowdown = o.level0_slowdown_writes_trigger;
    f.settings.levels.is_leveled()
        && !o.disable_auto_compactions
        && trigger >= 0
        && slowdown >= 0
        && files >= i64::from(slowdown.max(trigger))
        && !f
            .compaction
            .running()
            .iter()
            .any(|r| r.input_levels.contains(&0))
}
