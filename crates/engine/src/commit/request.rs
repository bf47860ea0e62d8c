//! One write call on its way through the pipeline, and the sums of a group of them.

use spanlith_base::{Error, SequenceNumber};

/// The entries of a request, as far as the driver has to know them.
pub(crate) trait Entries: Send {
    /// Number of sequence numbers it takes.
    fn count(&self) -> u32;

    /// Number of updates in its part of the log.
    fn log_count(&self) -> u32;

    /// Number of calls it stands for.
    fn calls(&self) -> u32;

    /// Returns whether it may only join those that are checked, too.
    fn is_checked(&self) -> bool;

    /// Bytes of the batch it is, or would be.
    fn bytes(&self) -> usize;
}

/// A write and its outcome.
pub(crate) struct Request<P> {
    pub payload: P,
    pub sync: bool,
    pub disable_wal: bool,
    pub no_slowdown: bool,
    /// How often families had been removed when its families were checked.
    pub generation: u64,
    /// First sequence number; set by the leader.
    pub seqno: SequenceNumber,
    /// Set by the leader; `None` is success.
    pub error: Option<Error>,
}

/// The sums of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupLoad {
    /// Its first sequence number.
    pub first: SequenceNumber,
    /// Sequence numbers that it takes.
    pub count: u64,
    /// Updates in the log.
    pub logged: u32,
    /// Calls that it stands for.
    pub calls: u64,
    /// Bytes of its batches.
    pub bytes: usize,
    pub is_logged: bool,
    pub is_synced: bool,
}

impl GroupLoad {
    /// Nothing yet, of a group that `first` leads: its followers ask for no more than it does.
    pub(super) fn led_by<P>(request: &Request<P>, first: SequenceNumber) -> Self {
        Self {
            first,
            is_logged: !request.disable_wal,
            is_synced: request.sync,
            ..Self::default()
        }
    }

    /// Adds a request.
    pub(super) fn add<P: Entries>(&mut self, request: &Request<P>) {
        let payload = &request.payload;
        self.count += u64::from(payload.count());
        self.logged = self.logged.wrapping_add(payload.log_count());
        self.calls += u64::from(payload.calls());
        self.bytes += payload.bytes();
    }

    /// The sequence number after its last one.
    pub(super) fn next(&self) -> SequenceNumber {
        self.first + self.count
    }
}
