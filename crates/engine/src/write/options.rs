//! Options of one write.

/// How a write is made durable and what it may wait for.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The write survives a power cut when the call returns.
    pub sync: bool,
    /// The write is not logged: it survives nothing before the next flush.
    pub disable_wal: bool,
    /// Fail with `Result incomplete: Write stall` instead of waiting.
    pub no_slowdown: bool,
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
}
