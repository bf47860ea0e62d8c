//! Which work may not begin or go on, by order of a caller: compactions that he called off, and all of it once he closes
//! the database; and whether compactions that run are to give way. Jobs look at it every few entries, without a lock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// See the head of the module. Each change of the switches of compactions is Release, paired with the Acquire of those who look: they see what its
/// caller did before.
#[derive(Debug, Default)]
pub(crate) struct WorkSwitches {
    /// Close began. Relaxed: long jobs look at it now and then.
    closing: AtomicBool,
    /// How often manual compactions were disabled and not enabled; below 0 after needless enabling, as in RocksDB.
    manual_disabled: AtomicI64,
    /// How often all compactions were aborted and not resumed.
    aborted: AtomicU64,
    /// Work is urgent and has no thread. A hint: whoever takes it looks at the state.
    gives_way: AtomicBool,
}

impl WorkSwitches {
    /// Has long jobs give up: close began.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Returns whether close began.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// The word that [`Self::close`] sets.
    pub(crate) fn closing(&self) -> &AtomicBool {
        &self.closing
    }

    /// Disables manual compactions. Counts.
    pub(crate) fn disable_manual(&self) {
        self.manual_disabled.fetch_add(1, Ordering::Release);
    }

    /// Takes back one call of [`Self::disable_manual`]; as in RocksDB one that is still to come if there was none.
    pub(crate) fn enable_manual(&self) {
        self.manual_disabled.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether manual compactions are off, or the one with that flag is.
    #[inline]
    pub(crate) fn manual_is_off(&self, canceled: Option<&AtomicBool>) -> bool {
        self.manual_disabled.load(Ordering::Acquire) > 0
            || canceled.is_some_and(|c| c.load(Ordering::Acquire))
    }

    /// Aborts all compactions. Counts.
    pub(crate) fn abort(&self) {
        self.aborted.fetch_add(1, Ordering::Release);
    }

    /// Takes back one call of [`Self::abort`]; without one it does nothing. Returns whether compactions may begin now.
    pub(crate) fn resume(&self) -> bool {
        let less = |n: u64| Some(n.saturating_sub(1));
        let before = self
            .aborted
            .fetch_update(Ordering::Release, Ordering::Acquire, less);
        before.is_ok_and(|n| n <= 1)
    }

    /// Asks the compactions that run to let urgent work go first.
    pub(crate) fn ask_way(&self) {
        self.gives_way.store(true, Ordering::Release);
    }

    /// Returns whether the caller is asked to; nobody else is then.
    #[inline]
    pub(crate) fn take_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed) && self.gives_way.swap(false, Ordering::Acquire)
    }

    /// Returns whether no compaction may begin or go on.
    #[inline]
    pub(crate) fn all_are_off(&self) -> bool {
        self.aborted.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_compaction_takes_the_request_to_give_way() {
        let s = WorkSwitches::default();
        assert!(!s.take_way());
        s.ask_way();
        s.ask_way();
        assert!(s.take_way() && !s.take_way());
    }

    #[test]
    fn each_order_has_to_be_taken_back_and_needless_enabling_counts_for_manual_ones_only() {
        let s = WorkSwitches::default();
        assert!(s.resume() && !s.all_are_off(), "nothing to take back");
        s.abort();
        s.abort();
        assert!(!s.resume() && s.all_are_off());
        assert!(s.resume() && !s.all_are_off());

        s.enable_manual();
        s.disable_manual();
        assert!(!s.manual_is_off(None), "the call before it counts");
        s.disable_manual();
        assert!(s.manual_is_off(None));
        s.enable_manual();
        let canceled = AtomicBool::new(true);
        assert!(s.manual_is_off(Some(&canceled)) && !s.manual_is_off(None));
    }
}
