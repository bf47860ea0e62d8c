//! The background work of a database: how much of it is queued and runs, and what holds it back. Guarded by the state mutex.

use spanlith_memtable::MemTable;
use std::collections::VecDeque;
use std::sync::Arc;

/// A flush of several families in one edit: by family, the newest memtable of it. Each counts in the family's
/// [`FlushTurn`](super::FlushTurn).
pub(crate) struct Together(pub Vec<(u32, Arc<MemTable>)>);

/// The slot for a merge within level 0 beside a compaction out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Beside {
    #[default]
    Free,
    /// A job is queued for it, or looks for work.
    Taken,
    /// It merges, and is one of the compaction jobs that found work.
    Works,
}

/// See the head of the module.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Families whose tree asks for a compaction, in the order of asking.
    compaction_queue: VecDeque<u32>,
    /// Flushes of several families that no job has begun, in the order of asking.
    together: VecDeque<Together>,
    /// Flush jobs queued or running. Those of a dropped family count, too, which no family tells of any more.
    flushes: usize,
    /// Compaction jobs queued, not yet started.
    compactions_queued: usize,
    /// Compaction jobs that found work.
    compactions_running: usize,
    beside: Beside,
    /// Exclusive manual compactions in progress; automatic ones stay away meanwhile.
    exclusive: usize,
    /// Manual compactions in progress, of any kind.
    manual: usize,
    /// How often background work was paused and not continued.
    paused: usize,
    /// The files of a level are being listed in another one.
    refitting: bool,
    /// Files from outside that have a place and are not installed: no level is listed elsewhere meanwhile.
    ingesting: usize,
    /// Ingestions that writers were in the way of: they wait, but not for ever.
    holds: usize,
    /// Number of the newest job.
    last_id: u64,
}

impl Jobs {
    /// A number for a job.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Numbers for `count` jobs: those after the returned one.
    pub(crate) fn new_ids(&mut self, count: usize) -> u64 {
        let last = self.last_id;
        self.last_id += count as u64;
        last
    }

    /// Has writers wait for files that are taken in. Counts.
    pub(crate) fn hold_writers(&mut self) {
        self.holds += 1;
    }

    /// Takes back one call of [`Self::hold_writers`].
    pub(crate) fn release_writers(&mut self) {
        debug_assert!(self.holds > 0, "nobody holds writers");
        self.holds -= 1;
    }

    /// Returns whether writers wait for files that are taken in.
    pub(crate) fn hold_back_writers(&self) -> bool {
        self.holds > 0
    }

    /// Returns whether no flush and no compaction runs or is queued.
    pub(crate) fn are_over(&self) -> bool {
        self.compactions_queued + self.compactions_running + self.flushes == 0
            && self.beside == Beside::Free
    }

    /// Flush jobs queued or running.
    pub(crate) fn flushes(&self) -> usize {
        self.flushes
    }

    /// A flush job is queued.
    pub(crate) fn begin_flush(&mut self) {
        self.flushes += 1;
    }

    /// A flush job is over.
    pub(crate) fn end_flush(&mut self) {
        debug_assert!(self.flushes > 0, "a flush ends that nobody began");
        self.flushes -= 1;
    }

    /// Compaction jobs queued, not yet started.
    pub(crate) fn compactions_queued(&self) -> usize {
        self.compactions_queued
    }

    /// Compaction jobs that found work.
    pub(crate) fn compactions_running(&self) -> usize {
        self.compactions_running
    }

    /// A compaction job is queued.
    pub(crate) fn queue_compaction(&mut self) {
        self.compactions_queued += 1;
    }

    /// A compaction job that was queued looks for work.
    pub(crate) fn start_compaction(&mut self) {
        self.compactions_queued = self.compactions_queued.saturating_sub(1);
    }

    /// A compaction job found work.
    pub(crate) fn begin_compaction(&mut self) {
        self.compactions_running += 1;
    }

    /// A compaction job that found work is over.
    pub(crate) fn end_compaction(&mut self) {
        self.compactions_running = self.compactions_running.saturating_sub(1);
    }

    /// Compaction jobs, queued or at work, without the one that has a slot of its own.
    pub(crate) fn compactions_in_slots(&self) -> usize {
        let all = self.compactions_queued + self.compactions_running;
        all.saturating_sub(usize::from(self.beside == Beside::Works))
    }

    /// Takes the slot for a merge beside a compaction; false if it is taken.
    pub(crate) fn take_beside(&mut self) -> bool {
        let is_free = self.beside == Beside::Free;
        if is_free {
            self.beside = Beside::Taken;
        }
        is_free
    }

    /// The job of that slot found work, or is over with it.
    pub(crate) fn set_beside_works(&mut self, works: bool) {
        self.beside = if works { Beside::Works } else { Beside::Taken };
    }

    /// The job of that slot ends.
    pub(crate) fn free_beside(&mut self) {
        self.beside = Beside::Free;
    }

    /// The tree of a family asks for a compaction.
    pub(crate) fn push_family(&mut self, id: u32) {
        self.compaction_queue.push_back(id);
    }

    /// The family that has waited longest for a compaction.
    pub(crate) fn pop_family(&mut self) -> Option<u32> {
        self.compaction_queue.pop_front()
    }

    /// The family asks for nothing any more.
    pub(crate) fn forget_family(&mut self, id: u32) {
        self.compaction_queue.retain(|&queued| queued != id);
    }

    /// Returns whether some family waits for a compaction.
    pub(crate) fn has_families(&self) -> bool {
        !self.compaction_queue.is_empty()
    }

    /// Lists a flush of several families, after all others.
    pub(crate) fn list_together(&mut self, flush: Together) {
        self.together.push_back(flush);
    }

    /// Lists a flush of several families again, before all others, which have waited for its families.
    pub(crate) fn list_together_again(&mut self, flush: Together) {
        self.together.push_front(flush);
    }

    /// Takes the flushes of several families that no job has begun, in the order of asking.
    pub(crate) fn take_together(&mut self) -> VecDeque<Together> {
        std::mem::take(&mut self.together)
    }

    /// Returns whether flushes of several families wait.
    pub(crate) fn has_together(&self) -> bool {
        !self.together.is_empty()
    }

    /// A manual compaction begins; automatic ones stay away if it is exclusive.
    pub(crate) fn begin_manual(&mut self, is_exclusive: bool) {
        self.manual += 1;
        self.exclusive += usize::from(is_exclusive);
    }

    /// Takes back one [`Self::begin_manual`].
    pub(crate) fn end_manual(&mut self, is_exclusive: bool) {
        self.manual -= 1;
        self.exclusive -= usize::from(is_exclusive);
    }

    /// Returns whether a manual compaction is in progress.
    pub(crate) fn has_manual(&self) -> bool {
        self.manual > 0
    }

    /// Returns whether an exclusive one is.
    pub(crate) fn has_exclusive(&self) -> bool {
        self.exclusive > 0
    }

    /// Pauses background work. Counts.
    pub(crate) fn pause(&mut self) {
        self.paused += 1;
    }

    /// Takes back one pause; false if there was none.
    pub(crate) fn unpause(&mut self) -> bool {
        let was_paused = self.paused > 0;
        self.paused = self.paused.saturating_sub(1);
        was_paused
    }

    /// Takes back all pauses.
    pub(crate) fn end_pauses(&mut self) {
        self.paused = 0;
    }

    /// Returns whether background work is paused.
    pub(crate) fn are_paused(&self) -> bool {
        self.paused > 0
    }

    /// The files of a level are being listed in another one, or not any more.
    pub(crate) fn set_refitting(&mut self, yes: bool) {
        self.refitting = yes;
    }

    /// Returns whether the files of a level are being listed in another one.
    pub(crate) fn is_refitting(&self) -> bool {
        self.refitting
    }

    /// Files from outside get a place.
    pub(crate) fn begin_ingestion(&mut self) {
        debug_assert!(!self.refitting, "a place in a level that is being moved");
        self.ingesting += 1;
    }

    /// They are installed, or not going to be.
    pub(crate) fn end_ingestion(&mut self) {
        self.ingesting -= 1;
    }

    /// Returns whether files from outside have a place and are not installed.
    pub(crate) fn is_ingesting(&self) -> bool {
        self.ingesting > 0
    }

    /// Returns whether work is under way after which others look again.
    pub(crate) fn are_going_to_change(&self) -> bool {
        !self.are_over() || self.manual > 0 || self.refitting || self.paused > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_exclusive_compactions_count() {
        let mut jobs = Jobs::default();
        assert!(!jobs.unpause(), "nothing to take back");
        jobs.pause();
        jobs.pause();
        assert!(jobs.unpause() && jobs.are_paused());
        jobs.end_pauses();
        assert!(!jobs.are_paused() && jobs.are_over());
        jobs.begin_manual(true);
        jobs.begin_manual(false);
        jobs.end_manual(true);
        assert!(jobs.has_manual() && !jobs.has_exclusive());
        jobs.hold_writers();
        jobs.hold_writers();
        jobs.release_writers();
        assert!(jobs.hold_back_writers(), "one still does");
        jobs.release_writers();
        assert!(!jobs.hold_back_writers());
        assert!(jobs.are_over() && jobs.are_going_to_change());
    }

    #[test]
    fn the_slot_beside_counts_apart() {
        let mut jobs = Jobs::default();
        assert!(jobs.take_beside() && !jobs.take_beside() && !jobs.are_over());
        jobs.begin_compaction();
        assert_eq!(jobs.compactions_in_slots(), 1);
        jobs.begin_compaction();
        jobs.set_beside_works(true);
        assert_eq!(
            (jobs.compactions_in_slots(), jobs.compactions_running()),
            (1, 2)
        );
        jobs.end_compaction();
        jobs.set_beside_works(false);
        assert_eq!(jobs.compactions_in_slots(), 1);
        jobs.end_compaction();
        assert!(!jobs.are_over());
        jobs.free_beside();
        assert!(jobs.are_over());
    }

    #[test]
    fn jobs_are_over_when_none_is_queued_or_runs() {
        let mut jobs = Jobs::default();
        jobs.queue_compaction();
        assert!(!jobs.are_over());
        jobs.start_compaction();
        jobs.begin_compaction();
        assert!(!jobs.are_over());
        jobs.end_compaction();
        jobs.begin_flush();
        assert!(!jobs.are_over());
        jobs.end_flush();
        assert!(jobs.are_over() && jobs.new_ids(3) == 0 && jobs.new_id() == 4);
    }
}
