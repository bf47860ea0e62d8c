//! A vector of plain values that a job fills and drops: hashes of keys, the bytes of a filter or of a table.
//!
//! Such a vector has some megabytes. From glibc it comes as a mapping of its own once; when that is freed, glibc takes
//! vectors of its size from its heaps from then on and trims these less, so that a process keeps several megabytes
//! for each thread that ever ran a job. Here a large one is a mapping always: it grows in place or moves without a copy, takes
//! as many pages as were written to, and leaves nothing. A small one is the allocator's.
#![expect(
    unsafe_code,
    reason = "memory from `mmap`, which no vector of std can have"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// From so many bytes on, it is a mapping.
const MAPPED_FROM: usize = 512 << 10;
/// Bytes of the first allocation.
const FIRST_BYTES: usize = 1 << 10;

/// A vector of values that need no drop. Its memory is mapped when it is large.
pub struct Scratch<T: Copy> {
    at: NonNull<T>,
    len: usize,
    /// Values there is room for; none are allocated if 0.
    capacity: usize,
    is_mapped: bool,
}

// SAFETY: It owns its values, as a vector does.
unsafe impl<T: Copy + Send> Send for Scratch<T> {}
// SAFETY: As above.
unsafe impl<T: Copy + Sync> Sync for Scratch<T> {}

impl<T: Copy> Default for Scratch<T> {
    fn default() -> Self {
        const { assert!(size_of::<T>() > 0) };
        Self {
            at: NonNull::dangling(),
            len: 0,
            capacity: 0,
            is_mapped: false,
        }
    }
}

impl<T: Copy> Scratch<T> {
    /// That many equal values.
    pub fn filled(value: T, len: usize) -> Self {
        let mut scratch = Self::default();
        scratch.make_room(len);
        for i in 0..len {
            // SAFETY: There is room for `len` values.
            unsafe { scratch.at.add(i).write(value) };
        }
        scratch.len = len;
        scratch
    }

    /// Appends a value.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        if self.len == self.capacity {
            self.make_room(1);
        }
        // SAFETY: There is room for one more.
        unsafe { self.at.add(self.len).write(value) };
        self.len += 1;
    }

    /// Values there is room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sees to it that there is room for that many more.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        if more > self.capacity - self.len {
            self.make_room(more);
        }
    }

    /// Appends values.
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[T]) {
        self.reserve(values.len());
        // SAFETY: There is room for as many more, in memory that is nobody else's.
        unsafe {
            let end = self.at.as_ptr().add(self.len);
            end.copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        self.len += values.len();
    }

    /// Appends equal values, up to that length.
    pub fn pad(&mut self, len: usize, value: T) {
        while self.len < len {
            self.push(value);
        }
    }

    /// Forgets all values, and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, more: usize) {
        let first = FIRST_BYTES.div_ceil(size_of::<T>());
        let wanted = self.len.checked_add(more);
        let wanted = wanted.expect("M1: shorter than the address space");
        let wanted = wanted.max(self.capacity.saturating_mul(2)).max(first);
        let layout = layout::<T>(wanted);
        if layout.size() < MAPPED_FROM || !self.map(layout.size()) {
            self.allocate(layout);
            self.capacity = wanted;
        }
    }

    /// Moves to an allocation of that layout.
    fn allocate(&mut self, layout: Layout) {
        // SAFETY: The layout has a size; the old allocation, if it is one, has the layout of its capacity.
        let raw = unsafe {
            if self.capacity == 0 || self.is_mapped {
                alloc(layout)
            } else {
                let old = self::layout::<T>(self.capacity);
                realloc(self.at.as_ptr().cast(), old, layout.size())
            }
        };
        let Some(at) = NonNull::new(raw.cast::<T>()) else {
            handle_alloc_error(layout)
        };
        if self.is_mapped {
            // SAFETY: Two places of at least `len` values each.
            unsafe { at.copy_from_nonoverlapping(self.at, self.len) };
            self.release();
        }
        self.at = at;
        self.is_mapped = false;
    }

    /// Moves to a mapping of at least that many bytes; false, with nothing changed, if the system refuses.
    fn map(&mut self, bytes: usize) -> bool {
        let old = self.is_mapped.then(|| self.mapped_bytes());
        let grown = match old {
            Some(old) => map::grow(self.at.cast(), old, bytes),
            None => None,
        };
        let at = match grown {
            Some(at) => at.cast(),
            None => {
                let Some(at) = map::take(bytes) else {
                    return false;
                };
                let at = at.cast::<T>();
                // SAFETY: Two places of at least `len` values each; a mapping is aligned to pages.
                unsafe { at.copy_from_nonoverlapping(self.at, self.len) };
                self.release();
                at
            }
        };
        self.at = at;
        self.is_mapped = true;
        self.capacity = bytes / size_of::<T>();
        true
    }

    fn mapped_bytes(&self) -> usize {
        self.capacity * size_of::<T>()
    }

    /// Gives the memory back; it is nobody's afterwards.
    fn release(&mut self) {
        if self.is_mapped {
            map::give_back(self.at.cast(), self.mapped_bytes());
        } else if self.capacity > 0 {
            // SAFETY: Allocated with the layout of its capacity.
            unsafe { dealloc(self.at.as_ptr().cast(), layout::<T>(self.capacity)) };
        }
    }
}

impl<T: Copy> Drop for Scratch<T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T: Copy> Deref for Scratch<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values were written.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Scratch<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: As above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T: Copy> From<&[T]> for Scratch<T> {
    fn from(values: &[T]) -> Self {
        let mut scratch = Self::default();
        scratch.make_room(values.len());
        // SAFETY: There is room for as many values, in memory that is nobody else's.
        unsafe {
            scratch
                .at
                .as_ptr()
                .copy_from_nonoverlapping(values.as_ptr(), values.len())
        };
        scratch.len = values.len();
        scratch
    }
}

/// That of so many values.
fn layout<T>(len: usize) -> Layout {
    Layout::array::<T>(len).expect("M1: shorter than the address space")
}

#[cfg(all(unix, not(any(loom, shuttle))))]
mod map {
    use std::ptr::NonNull;

    pub(super) use super::super::region::map_bytes as take;

    /// The same mapping, longer, perhaps elsewhere; `None` if it stays as it is.
    #[cfg(target_os = "linux")]
    pub(super) fn grow(at: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: The mapping was made by `take` or by this function, and is the caller's.
        let at = unsafe { libc::mremap(at.as_ptr().cast(), old, new, libc::MREMAP_MAYMOVE) };
        if at == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(at.cast())
    }

    /// Other systems have no such call.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn grow(_at: NonNull<u8>, _old: usize, _new: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) fn give_back(at: NonNull<u8>, bytes: usize) {
        // SAFETY: The mapping has this size, and its owner gave it up.
        let status = unsafe { libc::munmap(at.as_ptr().cast(), bytes) };
        debug_assert_eq!(status, 0, "M1: unmapping");
    }
}

#[cfg(any(not(unix), loom, shuttle))]
mod map {
    use std::ptr::NonNull;

    pub(super) fn take(_bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) fn grow(_at: NonNull<u8>, _old: usize, _new: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) fn give_back(_at: NonNull<u8>, _bytes: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_a_vector_holds_small_and_mapped() {
        let mut scratch = Scratch::default();
        let mut vector = Vec::new();
        for i in 0..400_000u64 {
            let value = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            scratch.push(value);
            vector.push(value);
            if i.is_power_of_two() {
                assert!(*scratch == vector[..], "after {i}");
            }
        }
        assert!(*scratch == vector[..]);
        assert!(scratch.is_mapped || !cfg!(all(unix, not(any(loom, shuttle)))));
        assert!(*Scratch::from(&vector[..]) == vector[..]);
    }

    #[test]
    fn slices_follow_each_other_across_every_growth_and_a_cleared_one_keeps_its_room() {
        let mut scratch = Scratch::default();
        for round in 0..2u8 {
            let mut vector = Vec::new();
            for len in (0..3000usize).chain([0, MAPPED_FROM, 5, 1 << 20]) {
                let piece = vec![(len as u8) ^ round; len];
                scratch.extend_from_slice(&piece);
                vector.extend_from_slice(&piece);
                scratch.pad(vector.len() + len % 7, 9);
                vector.resize(vector.len() + len % 7, 9);
                if len.is_multiple_of(500) {
                    assert!(*scratch == vector[..], "after {len}");
                }
            }
            assert!(*scratch == vector[..] && scratch.capacity() >= vector.len());
            let capacity = scratch.capacity();
            scratch.clear();
            assert!(scratch.is_empty() && scratch.capacity() == capacity);
            scratch.reserve(capacity);
            assert_eq!(scratch.capacity(), capacity);
        }
    }

    #[test]
    fn filled_ones_are_full_and_can_be_changed() {
        for len in [
            0,
            1,
            10,
            MAPPED_FROM - 1,
            MAPPED_FROM,
            MAPPED_FROM + 5,
            3 << 20,
        ] {
            let mut scratch = Scratch::filled(7u8, len);
            assert!(scratch.len() == len && scratch.iter().all(|&byte| byte == 7));
            scratch.fill(1);
            scratch.push(2);
            let (last, rest) = scratch.split_last().unwrap();
            assert!(*last == 2 && rest.len() == len && rest.iter().all(|&byte| byte == 1));
        }
    }
}
