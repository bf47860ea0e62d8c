//! How a speed disk is opened, and its figures.

use std::sync::atomic::AtomicU64;

/// How a disk is opened.
#[derive(Clone, Debug, Default)]
pub struct SpeedOptions {
    /// Identity of the database: the disk must be its own or nobody's, and is its own then. `None` takes any.
    pub owner: Option<String>,
    /// Change nothing.
    pub read_only: bool,
    /// Take damage for the end of the logs instead of refusing it.
    pub accept_damage: bool,
    /// When the logs are read.
    pub reading: LogReading,
}

/// When the logs of a disk that is opened are read. Those of a disk that has tables, is opened for reading only, or whose damage is
/// accepted, are read before an open returns whatever is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogReading {
    /// Before the open returns.
    #[default]
    AtOnce,
    /// By a thread beside the one that opens and replays them, if there is much to read and a second processor. The caller
    /// asks for the verdict with [`SpeedDisk::conclude`](crate::SpeedDisk::conclude).
    BesideReplay,
    /// The same however little there is to read.
    AlwaysBeside,
}

/// Figures of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeedUsage {
    /// Logs.
    pub logs: usize,
    /// Page groups.
    pub groups: u32,
    /// Page groups that hold nothing.
    pub free_groups: u32,
    /// Pages written since the open, those written again included.
    pub pages_written: u64,
    /// Bytes of logs written since the open.
    pub bytes_written: u64,
    /// Durable writes since the open.
    pub durable_writes: u64,
    /// Flushes since the open.
    pub flushes: u64,
}

/// The counters behind [`SpeedUsage`]. All are Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) pages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) durable_writes: AtomicU64,
    pub(crate) flushes: AtomicU64,
}
