//! Options of a flush on demand.

/// How memtables are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushOptions {
    /// Return when they are in tables.
    pub wait: bool,
    /// Begin at once, although that may delay writes or stop them: otherwise the call waits until one more
    /// sealed memtable and one more file of level 0 would not, with or without `wait`.
    pub allow_write_stall: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        Self::waiting(true)
    }
}

impl FlushOptions {
    /// For flushes that writes wait for.
    pub(crate) const AT_ONCE: Self = Self {
        wait: true,
        allow_write_stall: true,
    };

    pub(crate) const fn waiting(wait: bool) -> Self {
        Self {
            wait,
            allow_write_stall: false,
        }
    }
}
