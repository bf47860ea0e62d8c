//! One word of conditions that writers and readers look at: a caller that finds none of the bits meant for it goes on, any
//! other takes the slow path.

use std::sync::atomic::{AtomicU16, Ordering};

/// Bits of [`WriteGate`].
pub(crate) mod gate {
    /// Writes are delayed.
    pub const DELAY: u16 = 1;
    /// Writes are stopped until background work catches up.
    pub const STOP: u16 = 2;
    /// A background error, or closing.
    pub const REFUSE: u16 = 4;
    /// Files are taken in, and writers were in the way of the flush before: they wait, but not for ever.
    pub const HOLD: u16 = 8;
    /// Writers look at the pace of the families they write to, before they join the queue.
    pub const PACE: u16 = 16;
    /// A trace of queries may be on.
    pub const TRACE: u16 = 32;
    /// There are statistics.
    pub const MEASURE: u16 = 64;
    /// The database was opened for reading only.
    pub const READ_ONLY: u16 = 128;
    /// Inserting into a memtable calls user code, which may call back: a comparator that is none of ours. Never taken back.
    pub const CALLS_BACK: u16 = 256;
    /// Some family plans its level 0 by reads and writes.
    pub const COUNT_READS: u16 = 512;
    /// Reads take part in a trace: of queries, or of looked-up blocks.
    pub const TRACE_READS: u16 = 1024;
    /// Under the policy `smooth` memtables of some family are full: its writers wait for a flush before they join the queue, and
    /// others do not.
    pub const FULL: u16 = 2048;
    /// Bits of which a writer looks at each before it joins the queue.
    pub const WATCHED: u16 = PACE | FULL | TRACE | MEASURE | READ_ONLY | CALLS_BACK;
    /// Bits that are not meant for leaders.
    pub const NOT_LEADERS: u16 = WATCHED | READS;
    /// Bits that a reader looks at.
    pub const READS: u16 = TRACE_READS | COUNT_READS;
}

/// The word. Relaxed: who needs to be sure looks again under the state mutex, under which alone it changes. It is a line
/// that all readers look at: writers do not write to what lies beside it.
pub(crate) struct WriteGate(AtomicU16);

impl WriteGate {
    /// With these bits of [`gate`] set.
    pub(crate) fn new(bits: u16) -> Self {
        Self(AtomicU16::new(bits))
    }

    /// All bits.
    #[inline]
    pub(crate) fn bits(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether some of these bits are set.
    #[inline]
    pub(crate) fn has(&self, bits: u16) -> bool {
        self.bits() & bits != 0
    }

    /// Returns whether a leader of a group has to look out for nothing.
    #[inline]
    pub(crate) fn is_open_to_leaders(&self) -> bool {
        self.bits() & !gate::NOT_LEADERS == 0
    }

    /// Sets bits. Requires: the state mutex.
    pub(crate) fn set(&self, bits: u16) {
        self.0.fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits. Requires: the state mutex.
    pub(crate) fn clear(&self, bits: u16) {
        self.0.fetch_and(!bits, Ordering::Relaxed);
    }

    /// Sets or clears bits. Requires: the state mutex.
    pub(crate) fn put(&self, bits: u16, yes: bool) {
        match yes {
            true => self.set(bits),
            false => self.clear(bits),
        }
    }

    /// Of the bits of `mask`, sets those of `bits` and clears the others. Requires: the state mutex.
    pub(crate) fn replace(&self, mask: u16, bits: u16) {
        debug_assert_eq!(bits & !mask, 0, "bits beside the mask");
        let keep = self.bits() & !mask;
        self.0.store(keep | bits, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beside_the_mask_stay() {
        let word = WriteGate::new(gate::MEASURE | gate::DELAY);
        assert!(!word.is_open_to_leaders());
        word.replace(gate::DELAY | gate::STOP, gate::STOP);
        assert_eq!(word.bits(), gate::MEASURE | gate::STOP);
        word.put(gate::STOP, false);
        assert!(word.is_open_to_leaders() && word.has(gate::WATCHED));
        word.put(gate::HOLD, true);
        assert!(word.has(gate::HOLD | gate::PACE) && !word.has(gate::PACE));
    }
}
