//! Options of one transaction.

/// How a transaction keeps from conflicts. The defaults are RocksDB's.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TxnOptions {
    /// No locks: the commit fails with `Busy` if a key of the transaction was written meanwhile.
    pub optimistic: bool,
    /// Begins with [`Transaction::set_snapshot`](super::Transaction::set_snapshot).
    pub set_snapshot: bool,
    /// How long to wait for a lock, in milliseconds; 0 not at all, negative as long as the database's options of locks say.
    pub lock_timeout: i64,
    /// A wait that closes a circle fails at once with `Busy` and `Deadlock`.
    pub deadlock_detect: bool,
    /// Transactions of such a circle that are looked at; a longer chain counts as a circle.
    pub deadlock_detect_depth: usize,
    /// Others may take its locks after so many milliseconds, its commit then fails with `Expired`; negative for never.
    pub expiration: i64,
    /// Most bytes of its batch; 0 for no limit.
    pub max_write_batch_size: usize,
    /// Nothing is locked and no conflict looked for: the caller knows that there is none.
    pub skip_concurrency_control: bool,
    /// Commits without having been prepared.
    pub skip_prepare: bool,
    /// How often [`Db::transact`](crate::Db::transact) tries again.
    pub retries: u32,
}

impl Default for TxnOptions {
    fn default() -> Self {
        Self {
            optimistic: false,
            set_snapshot: false,
            lock_timeout: -1,
            deadlock_detect: false,
            deadlock_detect_depth: 50,
            expiration: -1,
            max_write_batch_size: 0,
            skip_concurrency_control: false,
            skip_prepare: true,
            retries: 3,
        }
    }
}

impl TxnOptions {
    /// With locks.
    pub fn pessimistic() -> Self {
        Self::default()
    }

    /// Without locks.
    pub fn optimistic() -> Self {
        Self {
            optimistic: true,
            ..Self::default()
        }
    }

    /// Sets `set_snapshot`.
    #[must_use]
    pub fn set_snapshot(mut self, on: bool) -> Self {
        self.set_snapshot = on;
        self
    }

    /// Sets `lock_timeout`, in milliseconds.
    #[must_use]
    pub fn lock_timeout(mut self, millis: i64) -> Self {
        self.lock_timeout = millis;
        self
    }

    /// Sets `deadlock_detect`.
    #[must_use]
    pub fn deadlock_detect(mut self, on: bool) -> Self {
        self.deadlock_detect = on;
        self
    }

    /// Sets `expiration`, in milliseconds.
    #[must_use]
    pub fn expiration(mut self, millis: i64) -> Self {
        self.expiration = millis;
        self
    }

    /// Sets `skip_prepare`.
    #[must_use]
    pub fn skip_prepare(mut self, on: bool) -> Self {
        self.skip_prepare = on;
        self
    }

    /// Sets `retries`.
    #[must_use]
    pub fn retries(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }
}
