//! A list that keeps a few items in place, so that a block of ordinary size is searched without
//! following another pointer.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

/// Items kept in place.
const INLINE: usize = 6;

/// A list of `T`; up to six items live in the list itself.
pub(super) struct Small<T> {
    inline: [T; INLINE],
    /// Items in `inline`, if `heap` is empty.
    len: usize,
    /// All items, once there are more.
    heap: Vec<T>,
}

impl<T: Copy + Default> Small<T> {
    /// An empty list.
    pub(super) fn new() -> Self {
        Self {
            inline: [T::default(); INLINE],
            len: 0,
            heap: Vec::new(),
        }
    }

    /// The items.
    #[inline]
    pub(super) fn as_slice(&self) -> &[T] {
        if self.heap.is_empty() {
            self.inline.get(..self.len).unwrap_or_default()
        } else {
            &self.heap
        }
    }

    /// Appends an item; `expected` is how many there will be.
    pub(super) fn push(&mut self, item: T, expected: usize) {
        if self.heap.is_empty() {
            if let Some(place) = self.inline.get_mut(self.len) {
                *place = item;
                self.len += 1;
                return;
            }
            self.heap.reserve_exact(expected.max(INLINE + 1));
            self.heap.extend_from_slice(&self.inline);
        }
        self.heap.push(item);
    }

    /// Removes all items.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.heap.clear();
    }

    /// Bytes outside the list itself.
    pub(super) fn heap_usage(&self) -> usize {
        self.heap.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_the_same_in_place_and_on_the_heap() {
        let mut list = Small::new();
        for n in 0..20u32 {
            let want: Vec<u32> = (0..n).collect();
            assert_eq!(list.as_slice(), want);
            assert_eq!(list.heap_usage() > 0, n > INLINE as u32);
            list.push(n, 20);
        }
        list.clear();
        assert!(list.as_slice().is_empty());
        list.push(7, 1);
        assert_eq!(list.as_slice(), [7]);
    }
}
