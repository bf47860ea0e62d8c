//! How long a leader of the simulated machine waits for other writers before it syncs: by the rule of the engine's own
//! (`core/company.rs`), whose constants these are.

/// Eighths of a sync that a leader waits at most.
const MOST: u64 = 8;
/// Those that it waits always.
const LEAST: u64 = 1;

/// Holds what leaders know of the writers that are busy, and of syncs.
#[derive(Debug)]
pub(super) struct Company {
    writers: usize,
    eighths: u64,
    /// Of a sync, smoothed.
    sync_nanos: u64,
}

impl Company {
    pub(super) fn new() -> Self {
        Self {
            writers: 1,
            eighths: MOST,
            sync_nanos: 0,
        }
    }

    /// Nanoseconds that the leader of a group of `len` waits for others; 0: not at all.
    pub(super) fn patience(&self, len: usize) -> u64 {
        match self.is_complete(len) {
            true => 0,
            false => self.sync_nanos / 8 * self.eighths,
        }
    }

    /// Returns whether a group of `len` has all who are busy.
    pub(super) fn is_complete(&self, len: usize) -> bool {
        len >= self.writers
    }

    /// A leader had `before` writers, waited, and has `after`.
    pub(super) fn waited(&mut self, before: usize, after: usize) {
        let missed = self.writers.saturating_sub(after);
        self.eighths = match after.saturating_sub(before) >= missed {
            true => (self.eighths + 1).min(MOST),
            false => (self.eighths - 1).max(LEAST),
        };
    }

    /// A group of `len` was synced by itself while `joined` others came.
    pub(super) fn synced(&mut self, len: usize, joined: usize) {
        self.writers = len + joined;
    }

    /// A group of `len` is on its way to the disk beside others.
    pub(super) fn sent_off(&mut self, len: usize) {
        self.writers = len;
        self.eighths = LEAST;
    }

    /// A sync has taken so long.
    pub(super) fn note_sync(&mut self, nanos: u64) {
        self.sync_nanos = (self.sync_nanos * 7 + nanos) / 8;
    }
}
