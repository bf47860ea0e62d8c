//! Memory of a memtable: bump allocation from growing blocks, all freed together.
//!
//! ```text
//!   current -> block n          block n-1        …        block 0 (small)
//!              [used |  free]   [full]                    [full]
//!   large   -> a block of its own for each allocation above a quarter of the largest block size
//! ```
//!
//! An allocation is one fetch_add on the current block. The one that does not fit makes a new block
//! and installs it by compare-and-swap; a thread that loses that race frees its block and uses the
//! winner's. The first block is small, so that an idle memtable is cheap; sizes then double up to
//! the maximum. Blocks of 2 MiB are regions (`spanlith_base::memory`): huge pages if they come fast, because a search in a
//! large memtable is bound by address translation, and often such as an earlier memtable left. Else single pages
//! are asked for in steps of 16 KiB, ahead of those who write there: no writer waits for many.
//!
//! Invariants: M1 (memory neither moves nor is freed before the arena is dropped). Allocations are
//! aligned to [`ALIGN`] and their contents are unspecified.
//!
//! Threads: any number may allocate at once.
#![expect(
    unsafe_code,
    reason = "hands out raw memory; the concurrent bump is checked with loom"
)]

use spanlith_base::memory::{REGION_BYTES, Region};
use spanlith_base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Alignment of every allocation, in bytes. The first one in a block has that of a cache line, so
/// an arena that serves multiples of 64 bytes only keeps them aligned to lines.
pub(crate) const ALIGN: usize = if cfg!(loom) { 8 } else { 4 };
/// Size of the first block.
const FIRST_BLOCK_BYTES: usize = if cfg!(any(loom, shuttle)) {
    256
} else {
    4 << 10
};
/// From this `arena_block_size` on, blocks are huge pages.
const HUGE_FROM_BYTES: usize = 1 << 20;

/// Pages of a region are asked for in steps of so many bytes, two of them before anybody writes.
const STEP_BYTES: usize = 16 << 10;

/// Smallest block that is a part of a region: the allocator would map it, and keep its like from then on.
const PART_FROM_BYTES: usize = 128 << 10;

/// Where a block's memory came from.
enum Source {
    Allocator,
    Region(Region),
    /// From here on in a region whose owners are the blocks in it.
    Part(Arc<Region>, u32),
}

/// Header of a block, apart from its memory so that the hot counter has its own line.
#[repr(align(64))]
struct Block {
    /// Bytes handed out; passes `size` when an allocation did not fit. Relaxed: hands out disjoint
    /// ranges, publishes nothing.
    used: AtomicUsize,
    size: usize,
    base: NonNull<u8>,
    source: Source,
    /// Its pages are asked for as it fills.
    lacks_pages: bool,
    /// The block before it in its list; written before the block is published.
    previous: *mut Block,
}

/// Memory held by an arena, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaUsage {
    /// Obtained from the system.
    pub(crate) allocated: usize,
    /// Size of the block in use.
    pub(crate) last_block: usize,
    /// Part of that block not handed out yet.
    pub(crate) unused: usize,
}

/// A growing set of blocks.
pub(crate) struct Arena {
    /// Published by the Release in `install`, read by Acquire loads. Never null.
    current: AtomicPtr<Block>,
    /// List of single-allocation blocks. Published by Release, read on drop only.
    large: AtomicPtr<Block>,
    /// Bytes obtained from the system, headers included. A counter.
    reserved: AtomicUsize,
    block_size_max: usize,
}

// SAFETY: The arena owns its blocks; block headers are immutable once published, but for the atomic
// counter.
unsafe impl Send for Arena {}
// SAFETY: As above; allocation hands out disjoint ranges.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena whose blocks grow up to about `block_size` bytes.
    pub(crate) fn new(block_size: usize) -> Self {
        let block_size_max = if block_size >= HUGE_FROM_BYTES {
            REGION_BYTES
        } else {
            block_size.max(FIRST_BLOCK_BYTES).next_multiple_of(ALIGN)
        };
        let size = FIRST_BLOCK_BYTES.min(block_size_max);
        let first = Block::new(size, null_mut(), Source::Allocator);
        let reserved = Block::footprint(first);
        Self {
            current: AtomicPtr::new(first),
            large: AtomicPtr::new(null_mut()),
            reserved: AtomicUsize::new(reserved),
            block_size_max,
        }
    }

    /// `bytes` of memory that stays valid and in place until the arena is dropped. Distinct calls
    /// return disjoint ranges.
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGN);
        if bytes <= self.block_size_max / 4 {
            let current = self.current.load(Ordering::Acquire);
            if let Some(at) = Block::take(current, bytes) {
                return at;
            }
        }
        self.allocate_slow(bytes)
    }

    #[cold]
    fn allocate_slow(&self, bytes: usize) -> NonNull<u8> {
        if bytes > self.block_size_max / 4 {
            return self.allocate_large(bytes);
        }
        let mut current = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: Published blocks live as long as the arena.
            let size = unsafe { (*current).size };
            let next_size = (size * 2)
                .max(bytes.next_power_of_two())
                .min(self.block_size_max);
            let source = self.source(next_size, current);
            let block = Block::new(next_size, current, source);
            let at = Block::take(block, bytes).expect("a new block holds the allocation");
            // Release pairs with the Acquire loads of `current`: whoever sees the block sees its
            // header.
            match self
                .current
                .compare_exchange(current, block, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.reserved
                        .fetch_add(Block::footprint(block), Ordering::Relaxed);
                    if next_size == REGION_BYTES / 2 && self.block_size_max == REGION_BYTES {
                        Region::expect_whole();
                    }
                    return at;
                }
                Err(winner) => {
                    // SAFETY: The block was never published and `at` is forgotten here.
                    unsafe { Block::free(block) };
                    if let Some(at) = Block::take(winner, bytes) {
                        return at;
                    }
                    current = winner;
                }
            }
        }
    }

    /// Where the memory of the next block comes from: the blocks before the first whole region share one, so that
    /// they leave as little to the allocator as those after them.
    fn source(&self, size: usize, previous: *mut Block) -> Source {
        if size == REGION_BYTES {
            return whole_region();
        }
        if self.block_size_max != REGION_BYTES || size < PART_FROM_BYTES {
            return Source::Allocator;
        }
        // SAFETY: Published blocks live as long as the arena.
        let previous = unsafe { &*previous };
        if let Source::Part(region, at) = &previous.source {
            let at = *at as usize + previous.size;
            if at + size <= REGION_BYTES {
                return Source::Part(region.clone(), at as u32);
            }
        }
        Region::partial().map_or(Source::Allocator, |region| {
            Source::Part(Arc::new(region), 0)
        })
    }

    fn allocate_large(&self, bytes: usize) -> NonNull<u8> {
        let source = match bytes == REGION_BYTES {
            true => whole_region(),
            false => Source::Allocator,
        };
        let block = Block::new(bytes, null_mut(), source);
        let at = Block::take(block, bytes).expect("a new block holds the allocation");
        self.reserved
            .fetch_add(Block::footprint(block), Ordering::Relaxed);
        let mut head = self.large.load(Ordering::Relaxed);
        loop {
            // SAFETY: Not yet published: this thread is the only one that knows the block.
            unsafe { (*block).previous = head };
            match self.large.compare_exchange_weak(
                head,
                block,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return at,
                Err(seen) => head = seen,
            }
        }
    }

    /// Bytes obtained from the system.
    #[inline]
    pub(crate) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Memory held.
    pub(crate) fn usage(&self) -> ArenaUsage {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: Published blocks live as long as the arena.
        let block = unsafe { &*current };
        ArenaUsage {
            allocated: self.reserved.load(Ordering::Relaxed),
            last_block: block.size,
            unused: block
                .size
                .saturating_sub(block.used.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for list in [&self.current, &self.large] {
            let mut block = list.load(Ordering::Acquire);
            while !block.is_null() {
                // SAFETY: Exclusive access; every block is in exactly one list and freed once.
                unsafe {
                    let previous = (*block).previous;
                    Block::free(block);
                    block = previous;
                }
            }
        }
    }
}

impl Block {
    fn new(size: usize, previous: *mut Block, source: Source) -> *mut Block {
        let base = obtain(size, &source);
        let lacks_pages = match &source {
            Source::Region(region) => region.lacks_pages(),
            Source::Allocator | Source::Part(..) => false,
        };
        let block = Block {
            used: AtomicUsize::new(0),
            size,
            base,
            source,
            lacks_pages,
            previous,
        };
        if lacks_pages {
            block.populate(0, ahead(0));
        }
        Box::into_raw(Box::new(block))
    }

    /// Asks for pages from `from` up to `to`, as far as the block goes.
    #[cold]
    fn populate(&self, from: usize, to: usize) {
        if let Source::Region(region) = &self.source {
            let to = to.min(self.size);
            if from < to {
                region.populate(from, to - from);
            }
        }
    }

    /// A part of `block` that no other call returns; `None` if the rest is too small.
    #[inline]
    fn take(block: *mut Block, bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: Callers pass a published block, or one they made and have not freed.
        let block = unsafe { &*block };
        let at = block.used.fetch_add(bytes, Ordering::Relaxed);
        if at > block.size || bytes > block.size - at {
            return None;
        }
        if block.lacks_pages && (at ^ (at + bytes)) >= STEP_BYTES {
            block.populate(ahead(at), ahead(at + bytes));
        }
        debug_assert!(
            at.is_multiple_of(ALIGN) && bytes.is_multiple_of(ALIGN),
            "M1: {bytes} bytes at {at} share a word with another range"
        );
        // SAFETY: at + bytes <= size, checked above; the range is inside the block's memory.
        Some(unsafe { block.base.add(at) })
    }

    fn footprint(block: *mut Block) -> usize {
        // SAFETY: Callers pass a block they made and have not freed.
        size_of::<Block>() + unsafe { (*block).size }
    }

    /// # Safety
    /// `block` came from `new`, is freed once, and nobody uses its memory any more.
    unsafe fn free(block: *mut Block) {
        // SAFETY: The caller gives up the block.
        let block = unsafe { Box::from_raw(block) };
        // SAFETY: Base, size and source are what `obtain` returned.
        unsafe { release(block.base, block.size, block.source) };
    }
}

/// Where pages end that were asked for when so many bytes of a block are in use.
const fn ahead(used: usize) -> usize {
    used / STEP_BYTES * STEP_BYTES + 2 * STEP_BYTES
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 64).expect("a block is smaller than the address space")
}

/// A region, or what the allocator has.
fn whole_region() -> Source {
    Region::whole().map_or(Source::Allocator, Source::Region)
}

/// Memory for a block of that size.
fn obtain(size: usize, source: &Source) -> NonNull<u8> {
    match source {
        Source::Region(region) => region.base(),
        // SAFETY: `Arena::source` has found the part inside the region.
        Source::Part(region, at) => unsafe { region.base().add(*at as usize) },
        Source::Allocator => {
            // SAFETY: The size is not zero: blocks have at least FIRST_BLOCK_BYTES or one allocation.
            let base = unsafe { alloc(layout(size)) };
            NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout(size)))
        }
    }
}

/// # Safety
/// The arguments are what `obtain` took and returned; the memory is unused from now on.
unsafe fn release(base: NonNull<u8>, size: usize, source: Source) {
    match source {
        // SAFETY: Allocated by `obtain` with this layout.
        Source::Allocator => unsafe { dealloc(base.as_ptr(), layout(size)) },
        Source::Region(region) => drop(region),
        Source::Part(region, _) => drop(region),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_idle_arena_holds_one_small_block() {
        let arena = Arena::new(1 << 20);
        assert!(arena.usage().allocated <= FIRST_BLOCK_BYTES + 64);
        assert_eq!(arena.usage().unused, FIRST_BLOCK_BYTES);
    }

    #[test]
    fn pages_are_asked_for_ahead_and_once_whatever_the_sizes() {
        for bytes in [64, 100, 1000, 64 << 10, (64 << 10) + 4, 200_000, 500_000] {
            let (mut used, mut asked) = (0, ahead(0));
            while used + bytes <= REGION_BYTES {
                // As `take` does.
                if used ^ (used + bytes) >= STEP_BYTES {
                    assert_eq!(ahead(used), asked, "neither a gap nor twice");
                    asked = ahead(used + bytes);
                }
                used += bytes;
                assert!(
                    asked >= used + STEP_BYTES,
                    "{used} of {asked}, {bytes} at a time"
                );
            }
        }
    }

    /// Whichever way the region's pages come here, what is asked for lies inside it.
    #[test]
    fn a_block_without_pages_is_filled_to_its_end() {
        let regions: Vec<Region> = std::iter::repeat_with(Region::whole)
            .take(4)
            .flatten()
            .collect();
        for region in regions {
            let mut block = Block {
                used: AtomicUsize::new(0),
                size: REGION_BYTES,
                base: region.base(),
                source: Source::Region(region),
                lacks_pages: true,
                previous: null_mut(),
            };
            let block = &raw mut block;
            let mut taken = 0;
            while let Some(at) = Block::take(block, 100_000) {
                // SAFETY: The block handed out 100,000 bytes at `at`.
                unsafe { at.as_ptr().write_bytes(7, 100_000) };
                taken += 1;
            }
            assert_eq!(taken, REGION_BYTES / 100_000);
        }
    }

    #[test]
    fn concurrent_allocations_are_disjoint_and_keep_their_bytes() {
        let arena = Arena::new(1 << 20);
        std::thread::scope(|s| {
            for thread in 0..4u8 {
                let arena = &arena;
                s.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..2_000usize {
                        let len = 1 + (i * 37) % 700 + if i % 500 == 7 { 600_000 } else { 0 };
                        let at = arena.allocate(len);
                        assert_eq!(at.as_ptr().addr() % ALIGN, 0);
                        // SAFETY: The arena handed out `len` bytes at `at` to this thread alone.
                        unsafe { at.as_ptr().write_bytes(thread, len) };
                        mine.push((at, len));
                    }
                    for (at, len) in mine {
                        // SAFETY: Written above; nobody else has the range.
                        let bytes = unsafe { std::slice::from_raw_parts(at.as_ptr(), len) };
                        assert!(bytes.iter().all(|&b| b == thread));
                    }
                });
            }
        });
        assert!(arena.usage().allocated > 4 * 4 * 600_000);
    }

    #[test]
    fn blocks_double_up_to_the_maximum() {
        let arena = Arena::new(64 << 10);
        let mut sizes = vec![arena.usage().allocated];
        for _ in 0..400 {
            arena.allocate(1 << 10);
            if *sizes.last().unwrap() != arena.usage().allocated {
                sizes.push(arena.usage().allocated);
            }
        }
        let steps: Vec<usize> = sizes
            .windows(2)
            .map(|w| w[1] - w[0] - size_of::<Block>())
            .collect();
        assert_eq!(
            &steps[..6],
            &[8 << 10, 16 << 10, 32 << 10, 64 << 10, 64 << 10, 64 << 10]
        );
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Two threads exhaust the first block at once: every range is handed out once.
    #[test]
    fn ranges_from_a_block_change_are_disjoint_loom() {
        loom::model(|| {
            let arena = Arc::new(Arena::new(512));
            arena.allocate(128);
            let take = |arena: &Arena| (0..2).map(|_| arena.allocate(96)).collect::<Vec<_>>();
            let other = arena.clone();
            let t = loom::thread::spawn(move || {
                take(&other)
                    .into_iter()
                    .map(|p| p.as_ptr().addr())
                    .collect::<Vec<_>>()
            });
            let mut all: Vec<usize> = take(&arena)
                .into_iter()
                .map(|p| p.as_ptr().addr())
                .collect();
            all.extend(t.join().unwrap());
            all.sort_unstable();
            assert!(
                all.windows(2).all(|w| w[1] - w[0] >= 96),
                "M1: ranges overlap"
            );
        });
    }
}
