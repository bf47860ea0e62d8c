//! Without regions: callers turn to the allocator.

use std::ptr::NonNull;
use std::time::Duration;

/// Bytes of a region.
pub const REGION_BYTES: usize = 2 << 20;

/// A region; there is none.
pub enum Region {}

impl Region {
    /// None.
    pub fn whole() -> Option<Self> {
        None
    }

    /// None.
    pub fn partial() -> Option<Self> {
        None
    }

    /// None will be.
    pub fn expect_whole() {}

    /// As there is none.
    pub fn lacks_pages(&self) -> bool {
        match *self {}
    }

    /// As there is none.
    pub fn populate(&self, _at: usize, _bytes: usize) {
        match *self {}
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        match *self {}
    }

    /// As there is none.
    pub fn bytes(&self) -> &[u8] {
        match *self {}
    }

    /// As there is none.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match *self {}
    }
}

/// Nothing is kept.
pub fn tend_spare(_offered_after: Duration, _released_after: Duration) -> bool {
    true
}

/// A slot; there is none.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) at: NonNull<u8>,
    pub(super) bytes: u32,
    pub(super) arena: u8,
}

/// None.
pub(super) fn allocate(_len: usize) -> Option<Slot> {
    None
}

/// # Safety
/// Nothing to free: no slot exists.
#[expect(unsafe_code, reason = "has the form of the other")]
pub(super) unsafe fn free(slot: Slot) {
    let _ = (slot.at, slot.bytes, slot.arena);
}
