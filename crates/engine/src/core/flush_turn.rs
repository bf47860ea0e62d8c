//! How far the flush of one family is: asked for, queued, running, and what holds it back. Guarded by the state mutex.
//!
//! ```text
//! sealed ─► asked for ─► queued ─► running ─► installed ─► told
//!             │ held back: sealed memtables listeners have not heard of,
//!             │ a flush of several families, history that is not given up
//! ```

/// See the head of the module.
#[derive(Default)]
pub(crate) struct FlushTurn {
    /// A flush job is queued or running.
    queued: bool,
    /// The flush job is running.
    running: bool,
    /// Someone waits for all sealed memtables, however few.
    requested: bool,
    /// The flush waits for history to be given up (`persist_user_defined_timestamps=false`); looked at
    /// again after every change of memtables or version, and from time to time.
    postponed: bool,
    /// The next flush does not wait for that: somebody asked for it.
    at_once: bool,
    /// A flush is installed that listeners have not heard of yet.
    untold: bool,
    /// Sealed memtables that listeners have not heard of yet: flushes wait.
    seals_untold: usize,
    /// Times it is in a flush of several families, or about to be: it is not flushed by itself meanwhile.
    listed: usize,
    /// Sealed memtables that the flush which runs takes, from the oldest on.
    taken: usize,
}

impl FlushTurn {
    /// Somebody waits for all sealed memtables, however few.
    pub(crate) fn request(&mut self) {
        self.requested = true;
    }

    /// As [`Self::request`], without waiting for history to be given up.
    pub(crate) fn request_now(&mut self) {
        self.requested = true;
        self.at_once = true;
        self.postponed = false;
    }

    /// Returns whether somebody waits for all sealed memtables.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested
    }

    /// Returns whether the next flush does not wait for history to be given up.
    pub(crate) fn is_at_once(&self) -> bool {
        self.at_once
    }

    /// Returns whether a job is queued or running.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Returns whether a job is running.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// Returns whether something keeps a job from being queued.
    pub(crate) fn is_held(&self) -> bool {
        self.postponed || self.seals_untold > 0 || self.listed > 0
    }

    /// Returns whether a flush is on its way, whatever is sealed.
    pub(crate) fn is_coming(&self) -> bool {
        self.queued || self.running || self.seals_untold > 0 || self.listed > 0
    }

    /// A job is queued.
    pub(crate) fn queue(&mut self) {
        self.queued = true;
    }

    /// A job begins that was told which memtables it flushes.
    pub(crate) fn begin(&mut self) {
        self.running = true;
    }

    /// A job begins that flushes what is sealed now.
    pub(crate) fn begin_all(&mut self) {
        self.running = true;
        self.at_once = false;
    }

    /// Nothing of what is sealed together is due: the job ends. It is asked for still if listeners have not heard of some.
    pub(crate) fn pass(&mut self, has_untold: bool) {
        self.requested &= has_untold;
        self.running = false;
    }

    /// Nothing runs any more, without a job.
    pub(crate) fn stop(&mut self) {
        self.running = false;
    }

    /// The job panicked and cannot give back what it took.
    pub(crate) fn abandon(&mut self) {
        self.queued = false;
        self.running = false;
    }

    /// The job ends. Returns whether the flush waits for history, and whether another try is due: of one that `failed`,
    /// if tries were `released` meanwhile or somebody asked for one.
    pub(crate) fn end(&mut self, failed: bool, released: bool) -> (bool, bool) {
        self.abandon();
        let again = failed && (released || self.at_once);
        // A flush is still asked for where listeners have not heard of sealed memtables, and after a flush of
        // several families.
        if !again && self.seals_untold == 0 && self.listed == 0 {
            self.requested &= self.postponed;
            self.at_once = false;
        }
        (self.postponed, again)
    }

    /// The job of several families ends. Unless everything is flushed, somebody may have asked for what was sealed since.
    pub(crate) fn end_together(&mut self, is_all_flushed: bool) {
        self.abandon();
        if is_all_flushed {
            self.requested = false;
            self.at_once = false;
        }
    }

    /// The flush waits for history to be given up, or not.
    pub(crate) fn postpone(&mut self, yes: bool) {
        self.postponed = yes;
    }

    /// Returns whether it waits for history to be given up.
    pub(crate) fn is_postponed(&self) -> bool {
        self.postponed
    }

    /// The flush that runs takes so many sealed memtables, the oldest.
    pub(crate) fn take(&mut self, memtables: usize) {
        self.taken = memtables;
    }

    /// Sealed memtables that the flush which runs takes.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// The flush takes none any more. Returns whether it took some.
    pub(crate) fn give_back(&mut self) -> bool {
        std::mem::take(&mut self.taken) > 0
    }

    /// The flush is installed; listeners have not heard of it.
    pub(crate) fn note_installed(&mut self) {
        self.taken = 0;
        self.untold = true;
    }

    /// Listeners know of the flush, or it failed.
    pub(crate) fn note_told(&mut self) {
        self.untold = false;
    }

    /// Returns whether a flush is installed that listeners have not heard of.
    pub(crate) fn is_untold(&self) -> bool {
        self.untold
    }

    /// A memtable was sealed that listeners have not heard of.
    pub(crate) fn note_seal(&mut self) {
        self.seals_untold += 1;
    }

    /// They have heard of one.
    pub(crate) fn note_seal_told(&mut self) {
        self.seals_untold = self.seals_untold.saturating_sub(1);
    }

    /// Returns whether memtables are sealed that listeners have not heard of.
    pub(crate) fn has_untold_seals(&self) -> bool {
        self.seals_untold > 0
    }

    /// The family is in one more flush of several families.
    pub(crate) fn list(&mut self) {
        self.listed += 1;
    }

    /// The family is in one such flush less.
    pub(crate) fn unlist(&mut self) {
        debug_assert!(self.listed > 0, "a family leaves a list it is not in");
        self.listed = self.listed.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_lasts_until_a_job_ends_that_nothing_held_back() {
        let mut f = FlushTurn::default();
        f.request();
        f.queue();
        f.note_seal();
        f.begin_all();
        assert_eq!(f.end(false, false), (false, false));
        assert!(f.is_requested() && f.is_held(), "a seal came meanwhile");
        f.note_seal_told();
        f.queue();
        f.begin_all();
        f.end(false, false);
        assert!(!f.is_requested() && !f.is_coming() && !f.is_held());
    }

    #[test]
    fn a_job_that_failed_is_tried_again_if_somebody_asks() {
        for (failed, asks, released, again) in [
            (false, true, true, false),
            (true, false, false, false),
            (true, true, false, true),
            (true, false, true, true),
        ] {
            let mut f = FlushTurn::default();
            f.queue();
            f.begin_all();
            if asks {
                f.request_now();
            }
            assert_eq!(f.end(failed, released), (false, again));
            assert_eq!(f.is_requested(), asks && again);
        }
    }

    #[test]
    fn a_flush_that_waits_for_history_stays_asked_for() {
        let mut f = FlushTurn::default();
        f.request();
        f.queue();
        f.postpone(true);
        assert_eq!(f.end(false, false), (true, false));
        assert!(f.is_requested() && f.is_held() && !f.is_coming());
        f.request_now();
        assert!(!f.is_held() && f.is_at_once());
    }

    #[test]
    fn a_family_in_a_flush_of_several_is_not_flushed_by_itself() {
        let mut f = FlushTurn::default();
        f.list();
        assert!(f.is_held() && f.is_coming());
        f.unlist();
        f.queue();
        f.request();
        f.begin();
        f.end_together(false);
        assert!(f.is_requested());
        f.end_together(true);
        assert!(!f.is_requested() && !f.is_coming());
    }
}
