//! One word of conditions that writers and readers look at: a caller that finds none of the bits meant for it goes on, any
//! other takes the slow path.

use super::gate;
use std::sync::atomic::{AtomicU16, Ordering};

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
