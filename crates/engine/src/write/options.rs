//! Options of one write.

use crate::core::WriteClass;
use spanlith_env::IoPriority;
use std::time::Duration;

/// How a write is made durable and what it may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The write survives a power cut when the call returns.
    pub sync: bool,
    /// The write is not logged: it survives nothing before the next flush.
    pub disable_wal: bool,
    /// Fail with `Result incomplete: Write stall` instead of waiting.
    pub no_slowdown: bool,
    /// Updates of column families that do not exist are left out instead of refusing the write; they
    /// go to the log all the same.
    pub ignore_missing_column_families: bool,
    /// Bytes of checksum for each update between the call and the log and memtable: 0 or 8. Batches
    /// may bring their own ([`WriteBatch::protect`](crate::WriteBatch::protect)).
    pub protection_bytes_per_key: usize,
    /// Asks the database's rate limiter for the bytes that go to the log; the caller waits for them before it
    /// stands in anybody's way. Only `User`, only with a log, and not with `manual_wal_flush`, or the write is
    /// refused, as in RocksDB.
    pub rate_limiter_priority: Option<IoPriority>,
    /// Says who goes first when writes are slowed down, under the policy `smooth`.
    pub class: WriteClass,
    /// Fail with `Operation timed out: Write stall` instead of waiting longer for the pace of writes, under the policy
    /// `smooth`. What waits behind others in the queue, or for a stop, waits on.
    pub wait_max: Option<Duration>,
}

impl WriteOptions {
    /// The defaults: logged, not synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `sync`.
    #[must_use]
    pub fn sync(mut self, on: bool) -> Self {
        self.sync = on;
        self
    }

    /// Sets `disable_wal`.
    #[must_use]
    pub fn disable_wal(mut self, on: bool) -> Self {
        self.disable_wal = on;
        self
    }

    /// Sets `ignore_missing_column_families`.
    #[must_use]
    pub fn ignore_missing_column_families(mut self, on: bool) -> Self {
        self.ignore_missing_column_families = on;
        self
    }

    /// Sets `protection_bytes_per_key`.
    #[must_use]
    pub fn protection_bytes_per_key(mut self, bytes: usize) -> Self {
        self.protection_bytes_per_key = bytes;
        self
    }

    /// Sets `rate_limiter_priority`.
    #[must_use]
    pub fn rate_limiter_priority(mut self, priority: Option<IoPriority>) -> Self {
        self.rate_limiter_priority = priority;
        self
    }

    /// Sets `class`.
    #[must_use]
    pub fn class(mut self, class: WriteClass) -> Self {
        self.class = class;
        self
    }

    /// Sets `wait_max`.
    #[must_use]
    pub fn wait_max(mut self, wait: Option<Duration>) -> Self {
        self.wait_max = wait;
        self
    }

    /// Returns whether single updates are written as batches for the sake of an option.
    #[inline]
    pub(crate) fn needs_batch(&self) -> bool {
        // Without a branch for each: single updates ask.
        (usize::from(self.ignore_missing_column_families) | self.protection_bytes_per_key != 0)
            | self.rate_limiter_priority.is_some()
    }
}
