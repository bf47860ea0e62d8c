//! Bytes in a vector or in a slot of a region, read in the same way.
#![expect(unsafe_code, reason = "one pointer and length for two kinds of memory")]

use super::slab::{self, Slot};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// Set in a capacity: the bytes lie in a slot, whose size and arena the other bits tell. No vector has
/// a capacity so large.
const SLOT: usize = 1 << (usize::BITS - 1);
/// Bits of the size of a slot.
const SIZE_BITS: u32 = 20;

/// Bytes that are owned. Made of a vector; [`Self::settle`] moves them to where many of them lie close.
pub struct HeldBytes {
    at: NonNull<u8>,
    len: usize,
    /// Capacity of the vector, or [`SLOT`] and the rest of the slot.
    capacity: usize,
}

// SAFETY: Owns plain bytes, as a vector does; slots may be freed by any thread.
unsafe impl Send for HeldBytes {}
// SAFETY: Shared references only read.
unsafe impl Sync for HeldBytes {}

impl HeldBytes {
    /// Moves the bytes to memory that is cheap to take and give back, if their number allows it: for
    /// bytes that stay for long, such as those of a cache. Costs a copy.
    pub fn settle(&mut self) {
        if self.slot().is_none()
            && let Some(settled) = Self::in_slot(self)
        {
            *self = settled;
        }
    }

    /// A copy of `bytes` where [`Self::settle`] would move them.
    pub fn settled_copy(bytes: &[u8]) -> Self {
        Self::in_slot(bytes).unwrap_or_else(|| Self::from(bytes.to_vec()))
    }

    /// A copy of `bytes` in a slot; `None` if no slot is for as many.
    fn in_slot(bytes: &[u8]) -> Option<Self> {
        let len = bytes.len();
        let slot = slab::allocate(len)?;
        // SAFETY: The slot has at least `len` bytes, and is nobody else's, so that it lies elsewhere than `bytes`.
        unsafe { (slot.at.as_ptr()).copy_from_nonoverlapping(bytes.as_ptr(), len) };
        Some(Self {
            at: slot.at,
            len,
            capacity: SLOT | usize::from(slot.arena) << SIZE_BITS | slot.bytes as usize,
        })
    }

    /// The slot the bytes lie in.
    #[inline]
    fn slot(&self) -> Option<Slot> {
        (self.capacity & SLOT != 0).then_some(Slot {
            at: self.at,
            bytes: (self.capacity & ((1 << SIZE_BITS) - 1)) as u32,
            arena: (self.capacity >> SIZE_BITS) as u8,
        })
    }

    /// Lets `f` change the bytes as a vector; bytes in a slot are copied out before.
    pub fn edit<R>(&mut self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut bytes = std::mem::take(self).into_vec();
        let result = f(&mut bytes);
        *self = Self::from(bytes);
        result
    }

    /// Bytes of memory it occupies.
    pub fn memory_usage(&self) -> usize {
        self.slot()
            .map_or(self.capacity, |slot| slot.bytes as usize)
    }

    fn into_vec(self) -> Vec<u8> {
        if self.slot().is_some() {
            return self.to_vec();
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: The parts are those of a vector, which `this` does not free any more.
        unsafe { Vec::from_raw_parts(this.at.as_ptr(), this.len, this.capacity) }
    }
}

impl From<Vec<u8>> for HeldBytes {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        // SAFETY: A vector's pointer is not null.
        let at = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        Self {
            at,
            len: bytes.len(),
            capacity: bytes.capacity(),
        }
    }
}

impl Default for HeldBytes {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl Deref for HeldBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes at `at` are owned by this value and not changed while borrowed.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl Drop for HeldBytes {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot() {
            // SAFETY: The slot is this value's, and it is not used any more.
            unsafe { slab::free(slot) };
        } else {
            // SAFETY: The parts are those of the vector it was made of.
            drop(unsafe { Vec::from_raw_parts(self.at.as_ptr(), self.len, self.capacity) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_every_move() {
        for len in [0, 1, 700, 1024, 4133, 32 << 10, 100_000] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let mut held = HeldBytes::from(bytes.clone());
            held.settle();
            assert_eq!(*held, bytes);
            assert!(held.memory_usage() >= len);
            held.settle();
            let copied = HeldBytes::settled_copy(&bytes);
            assert_eq!(
                (&*copied, copied.memory_usage()),
                (&*held, held.memory_usage())
            );
            held.edit(|all| all.push(9));
            assert_eq!(held.len(), len + 1);
            assert_eq!(held[..len], bytes);
        }
    }
}
