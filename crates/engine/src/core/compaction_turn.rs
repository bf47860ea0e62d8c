//! The compactions of one family: whether one is due or queued, which run, and by which facts that was judged. Guarded by
//! the state mutex.

use super::CompactionProgress;
use crate::picker::RunningCompaction;
use crate::version::LevelTargets;
use std::sync::Arc;

/// See the head of the module.
pub(crate) struct CompactionTurn {
    /// It waits in the queue of families.
    queued: bool,
    /// The tree asks for a compaction that is not yet running.
    due: bool,
    /// Output ranges of running compactions, and of files that are being taken in.
    running: Vec<RunningCompaction>,
    /// How far compactions are that run.
    progress: Vec<Arc<CompactionProgress>>,
    /// Bytes the tree is behind, for stalls.
    pending_bytes: u64,
    /// Free files whose writer, or a caller, asked for compaction, as of the last installation.
    marked_files: usize,
    /// Unix seconds against which ages of files are held; 0 before the first look. As RocksDB does, they are looked at when
    /// files or options change, a compaction begins, and now and then, not when a memtable is sealed.
    judged_at: u64,
    /// Sequence number below which nothing was protected when a snapshot was last released; 0 before.
    oldest_snapshot: u64,
    /// Smallest sequence number a snapshot's release has to pass for a bottommost file to become
    /// worth rewriting, or for data to be old enough for the last level; `u64::MAX` if nothing waits for one.
    mark_threshold: u64,
    /// The tables that the last compaction with two outputs wrote, and its `preclude_last_level_data_seconds`.
    placed: (u64, Vec<u64>),
    /// Compactions that have ended since the open.
    ended: u64,
    /// Says that what was due found no room for its outputs.
    lacks_room: bool,
}

impl Default for CompactionTurn {
    fn default() -> Self {
        Self {
            queued: false,
            due: false,
            running: Vec::new(),
            progress: Vec::new(),
            pending_bytes: 0,
            marked_files: 0,
            judged_at: 0,
            oldest_snapshot: 0,
            mark_threshold: u64::MAX,
            placed: (0, Vec::new()),
            ended: 0,
            lacks_room: false,
        }
    }
}

impl CompactionTurn {
    /// The family waits in the queue.
    pub(crate) fn queue(&mut self) {
        self.queued = true;
    }

    /// It left the queue.
    pub(crate) fn unqueue(&mut self) {
        self.queued = false;
    }

    /// Returns whether it is to be put into the queue.
    pub(crate) fn wants_queue(&self) -> bool {
        self.due && !self.queued
    }

    /// Returns whether the tree asks for a compaction that is not yet running.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Nothing can run now; what is due is looked at again after the next installation.
    pub(crate) fn put_off(&mut self) {
        self.due = false;
    }

    /// Notes that what is due found no room for its outputs.
    pub(crate) fn note_lack(&mut self) {
        self.lacks_room = true;
    }

    /// Returns whether that is so, once.
    pub(crate) fn take_lack(&mut self) -> bool {
        std::mem::take(&mut self.lacks_room)
    }

    /// Returns whether a compaction runs, is queued or is due.
    pub(crate) fn is_coming(&self) -> bool {
        self.due || self.queued || !self.running.is_empty()
    }

    /// Takes over what an installed version asks for.
    pub(super) fn note_targets(&mut self, targets: &LevelTargets) {
        self.pending_bytes = targets.pending_compaction_bytes;
        self.marked_files = targets.marked_files;
    }

    /// A compaction is due, or none.
    pub(super) fn set_due(&mut self, due: bool) {
        self.due = due;
    }

    /// Bytes the tree is behind.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Free files whose writer, or a caller, asked for compaction.
    pub(super) fn marked_files(&self) -> usize {
        self.marked_files
    }

    /// Output ranges of running compactions.
    pub(crate) fn running(&self) -> &[RunningCompaction] {
        &self.running
    }

    /// No compaction may write where files are being taken in (C2).
    pub(crate) fn claim(&mut self, ranges: impl IntoIterator<Item = RunningCompaction>) {
        self.running.extend(ranges);
    }

    /// A compaction begins (C2).
    pub(crate) fn begin(&mut self, range: RunningCompaction, progress: Arc<CompactionProgress>) {
        debug_assert!(
            self.running.iter().all(|r| r.id != range.id),
            "C2: two compactions have one number"
        );
        self.running.push(range);
        self.progress.push(progress);
    }

    /// The compaction, or the claim, of that number is over.
    pub(crate) fn end(&mut self, id: u64) {
        self.ended += 1;
        self.running.retain(|r| r.id != id);
        self.progress.retain(|c| c.id != id);
    }

    /// Compactions, and claims, that have ended since the open.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// A compaction that kept what `seconds` call young out of the last level wrote these tables.
    pub(super) fn note_placed(&mut self, seconds: u64, tables: Vec<u64>) {
        self.placed = (seconds, tables);
    }

    /// The tables that the last such compaction wrote; none if it had another idea of what is young.
    pub(super) fn placed(&self, seconds: u64) -> &[u64] {
        match self.placed.0 == seconds {
            true => &self.placed.1,
            false => &[],
        }
    }

    /// How far compactions are that run.
    pub(crate) fn progress(&self) -> &[Arc<CompactionProgress>] {
        &self.progress
    }

    /// Unix seconds against which ages of files are held.
    pub(crate) fn judged_at(&self) -> u64 {
        self.judged_at
    }

    /// Ages of files are held against `now` from here on.
    pub(crate) fn judge_at(&mut self, now: u64) {
        self.judged_at = now;
    }

    /// Sequence number below which nothing was protected when a snapshot was last released; 0 before.
    pub(crate) fn oldest_snapshot(&self) -> u64 {
        self.oldest_snapshot
    }

    /// A snapshot was released, and nothing below `oldest` is protected.
    pub(super) fn note_release(&mut self, oldest: u64) {
        self.oldest_snapshot = self.oldest_snapshot.max(oldest);
    }

    /// Smallest sequence number that a release has to pass to matter.
    pub(super) fn mark_threshold(&self) -> u64 {
        self.mark_threshold
    }

    /// See [`Self::mark_threshold`].
    pub(super) fn set_mark_threshold(&mut self, seqno: u64) {
        self.mark_threshold = seqno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: u64) -> RunningCompaction {
        RunningCompaction {
            id,
            output_level: 1,
            smallest: Vec::new(),
            largest: Vec::new(),
            input_levels: vec![0],
            proximal: None,
        }
    }

    #[test]
    fn what_is_due_is_queued_once_and_comes_until_it_has_run() {
        let mut c = CompactionTurn::default();
        assert!(!c.wants_queue() && !c.is_coming());
        c.set_due(true);
        assert!(c.wants_queue());
        c.queue();
        assert!(!c.wants_queue() && c.is_coming());
        c.unqueue();
        c.begin(range(4), Arc::new(CompactionProgress::new(4, 10, 0)));
        c.claim([range(5)]);
        c.put_off();
        assert!(!c.is_due() && c.is_coming());
        c.end(4);
        assert_eq!((c.running().len(), c.progress().len()), (1, 0));
        c.end(5);
        assert!(!c.is_coming());
    }

    #[test]
    fn tables_are_placed_as_long_as_the_same_is_young() {
        let mut c = CompactionTurn::default();
        assert_eq!(c.placed(20), [0; 0]);
        c.note_placed(20, vec![7, 8]);
        assert_eq!((c.placed(20), c.placed(30)), (&[7, 8][..], &[][..]));
    }

    #[test]
    fn the_oldest_snapshot_only_rises() {
        let mut c = CompactionTurn::default();
        c.note_release(7);
        c.note_release(3);
        assert_eq!((c.oldest_snapshot(), c.mark_threshold()), (7, u64::MAX));
    }
}
