//! Measures the space that compactions give back: whether there is any, and how fast it comes.
//!
//! A writer who is slowed down because space runs out waits for compactions that drop what nobody reads any more. A tree in which
//! every key is written once has nothing to drop, and its writers would wait for nothing: the last compactions tell the two
//! apart.

use crate::work_debt::Change;

/// Weight of the compactions before, beside the latest.
const KEPT: f64 = 0.8;
/// Least share of what compactions read that they have to give back for writers to wait for it.
const SHARE_MIN: f64 = 0.02;

/// The space of one tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceGiven {
    total: u64,
    given: u64,
    /// Bytes that compactions read since the last look.
    read: u64,
    /// Of the last compactions, the older ones ever less: bytes read, and bytes given back.
    recent_read: f64,
    recent_given: f64,
}

impl SpaceGiven {
    /// The next change is the end of a compaction that read `bytes`.
    pub fn reads(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes);
    }

    /// The tree takes `total` bytes after a change.
    pub fn follow(&mut self, total: u64, change: Change) {
        let before = std::mem::replace(&mut self.total, total);
        // Bytes that went because files were taken out or a family was emptied do not come again.
        if change != Change::Compaction {
            return;
        }
        let fall = before.saturating_sub(total);
        self.given = self.given.saturating_add(fall);
        self.recent_given += fall as f64;
        let read = std::mem::take(&mut self.read);
        if read > 0 {
            // The end of a job, not its begin.
            self.recent_given *= KEPT;
            self.recent_read = self.recent_read * KEPT + read as f64;
        }
    }

    /// Returns whether compactions give space back, judged by the last of them.
    pub fn gives(&self) -> bool {
        self.recent_given > SHARE_MIN * self.recent_read && self.recent_given > 0.0
    }

    /// Bytes that compactions have given back in all.
    pub fn bytes(&self) -> u64 {
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_give_space_back_and_new_keys_do_not() {
        let mut s = SpaceGiven::default();
        assert!(!s.gives());
        for i in 1..=20u64 {
            s.follow(1000 + i * 100, Change::Flush(100));
            s.reads(1000);
            s.follow(1000 + i * 100, Change::Compaction);
            // The next one begins.
            s.follow(1000 + i * 100, Change::Compaction);
        }
        assert!(!s.gives());
        assert_eq!(s.bytes(), 0);
        for _ in 0..3 {
            s.follow(3100, Change::Flush(100));
            s.reads(1000);
            s.follow(3000, Change::Compaction);
        }
        assert!(s.gives());
        assert_eq!(s.bytes(), 300);
        // And no more, a while after.
        for _ in 0..40 {
            s.reads(1000);
            s.follow(3000, Change::Compaction);
        }
        assert!(!s.gives(), "{s:?}");
    }

    #[test]
    fn what_was_taken_out_by_hand_is_not_given_back_by_compactions() {
        let mut s = SpaceGiven::default();
        s.follow(1 << 40, Change::External);
        s.follow(0, Change::External);
        assert_eq!((s.bytes(), s.gives()), (0, false));
        s.reads(u64::MAX);
        s.reads(u64::MAX);
        s.follow(u64::MAX, Change::Compaction);
        s.follow(0, Change::Compaction);
        assert_eq!(s.bytes(), u64::MAX);
    }
}
