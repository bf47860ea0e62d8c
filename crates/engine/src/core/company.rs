//! How many writers a leader waits for before it syncs, and for how long.
//!
//! One sync for all writers is cheaper than one for each half of them: writers that return while another group is being
//! synced form a second set, and the two sets take turns on the disk. A leader that waits for the others brings them together.
//!
//! 1. When a group is synced, the writers that are busy are those of the group and those that joined the queue during the
//!    sync ([`Company::synced`]).
//! 2. The next leader waits until so many are in its group, at most [`Company::patience`].
//! 3. Patience grows when most of them come, and shrinks when they do not ([`Company::waited`]): threads that do other work
//!    between writes are not worth the wait.
//!
//! Groups that are on their way to the disk beside each other do not take turns: their leaders have the least patience
//! ([`Company::sent_off`]), since a long wait would let the groups before land first.

/// Eighths of a sync that a leader waits at most: a whole one. A writer that came a moment later would wait for as long.
const MOST: u32 = 8;

/// Eighths that it always waits, which costs little where nobody comes and notices when somebody does.
const LEAST: u32 = 1;

/// See the head of the module. Part of what the leader owns.
#[derive(Debug)]
pub(crate) struct Company {
    /// Writers that were busy when the last group was synced.
    writers: usize,
    /// Eighths of a sync, of `LEAST..=MOST`.
    eighths: u32,
}

impl Company {
    /// Nobody has written yet.
    pub(crate) fn new() -> Self {
        Self {
            writers: 1,
            eighths: MOST,
        }
    }

    /// Writers that the group of a leader should have; a lone writer waits for nobody.
    #[inline]
    pub(crate) fn writers(&self) -> usize {
        self.writers
    }

    /// For how long a leader waits for them, in nanoseconds, if a sync takes `sync_nanos`.
    pub(crate) fn patience(&self, sync_nanos: u64) -> u64 {
        debug_assert!(
            (LEAST..=MOST).contains(&self.eighths),
            "patience has bounds"
        );
        sync_nanos / 8 * u64::from(self.eighths)
    }

    /// A leader had `before` writers in its group, waited, and has `after`.
    pub(crate) fn waited(&mut self, before: usize, after: usize) {
        let missed = self.writers.saturating_sub(after);
        let came = after.saturating_sub(before);
        self.eighths = match came >= missed {
            true => (self.eighths + 1).min(MOST),
            false => (self.eighths - 1).max(LEAST),
        };
    }

    /// A group of `len` writers was synced, while `joined` others came.
    pub(crate) fn synced(&mut self, len: usize, joined: usize) {
        self.writers = len + joined;
    }

    /// A group of `len` writers is on its way to the disk, beside others.
    pub(crate) fn sent_off(&mut self, len: usize) {
        self.writers = len;
        self.eighths = LEAST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: u64 = 80_000;

    #[test]
    fn a_lone_writer_waits_for_nobody() {
        let mut company = Company::new();
        assert_eq!(company.writers(), 1);
        company.synced(1, 0);
        assert_eq!(company.writers(), 1);
    }

    #[test]
    fn two_sets_of_writers_that_take_turns_are_brought_together() {
        let mut company = Company::new();
        company.synced(3, 5);
        assert_eq!(company.writers(), 8);
        assert_eq!(company.patience(SYNC), SYNC);
        company.waited(5, 8);
        company.synced(8, 0);
        assert_eq!(company.writers(), 8);
        assert_eq!(company.patience(SYNC), SYNC);
    }

    #[test]
    fn leaders_of_groups_beside_others_wait_for_an_eighth_of_a_sync() {
        let mut company = Company::new();
        for _ in 0..9 {
            company.sent_off(4);
            assert_eq!((company.writers(), company.patience(SYNC)), (4, SYNC / 8));
            company.waited(1, 4);
        }
    }

    #[test]
    fn patience_falls_to_an_eighth_of_a_sync_where_nobody_comes_and_rises_again() {
        let mut company = Company::new();
        for _ in 0..20 {
            company.synced(4, 4);
            company.waited(4, 5);
        }
        assert_eq!(company.patience(SYNC), SYNC / 8);
        for _ in 0..7 {
            company.waited(4, 7);
        }
        assert_eq!(company.patience(SYNC), SYNC);
    }
}
