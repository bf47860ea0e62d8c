//! Options of a flush on demand.

/// How memtables are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushOptions {
    /// Return when they are in tables.
    pub wait: bool,
    /// Begin at once, although that may delay writes or stop them: otherwise the call waits until one more
    /// sealed memtable and one more file of level 0 would not, with or without `wait`.
    pub allow_write_stall: bool,
    /// The memtables of all families named are sealed at one moment, and become durable together or not at all
    /// (`force_atomic_flush`), at the next try, too, if one failed.
    pub atomic: bool,
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
        atomic: false,
    };

    pub(crate) const fn waiting(wait: bool) -> Self {
        Self {
            wait,
            allow_write_stall: false,
            atomic: false,
        }
    }
}
