//! Slots of equal size in regions.
//!
//! ```text
//!   region  [header | span 0 |  span 1  | … |  span 7]     2 MiB
//!   span    [slot | slot | slot | …]                       256 KiB, slots of one size class
//!   arena   per size class the spans that have a free slot; the regions that have a free span
//! ```
//!
//! Sizes of slots rise in sixteenths of a power of two, from 1 KiB to 32 KiB: at most a sixteenth of a
//! slot is unused. Slots are handed out from the start of a span, whose pages are asked for in steps of
//! 16 KiB, so that no reader waits for many. A span without slots in use serves any class again; a
//! region without spans in use is given back, so that what a cache drops can serve a memtable or the
//! system.
//!
//! Threads take from arenas of their own, as far as there are enough; a slot goes back to the arena it
//! came from. A thread whose arena has no free slot moves to one that has, and begins a span in its own
//! only if there is none: memory follows the number of slots in use, whichever threads come and go.
//! Each arena is behind a lock that is held for some tens of nanoseconds.
#![expect(unsafe_code, reason = "hands out raw memory")]

use super::region::{REGION_BYTES, Region};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SPAN_BYTES: usize = 256 << 10;
const SPANS: usize = REGION_BYTES / SPAN_BYTES;
/// Bytes of a region before its first slot.
const HEADER_BYTES: usize = 1 << 10;
const SMALLEST: usize = 1 << 10;
const LARGEST: usize = 32 << 10;
/// Classes between a power of two and the next.
const STEPS: usize = 16;
const CLASSES: usize = STEPS * 5 + 1;
/// Pages are asked for in so many bytes.
const POPULATE_BYTES: usize = 16 << 10;
const ARENAS: usize = 8;
/// Words of a bitmap of the slots of a span.
const WORDS: usize = SPAN_BYTES / SMALLEST / 64;

/// A slot in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) at: NonNull<u8>,
    /// Its size.
    pub(super) bytes: u32,
    pub(super) arena: u8,
}

/// A part of a region with slots of one size.
#[derive(Clone, Copy)]
struct Span {
    /// Slots that are free although they were handed out before.
    returned: [u64; WORDS],
    /// Slots in use.
    used: u16,
    /// Slots that were ever handed out since the span got its class; those after it were never touched.
    begun: u16,
    slots: u16,
    class: u8,
    /// Where the arena lists it among those with a free slot; `u32::MAX` if it does not.
    place: u32,
    /// End of the pages asked for, from the start of the region.
    populated: u32,
}

/// At the start of each region.
struct Header {
    region: Region,
    /// Bit of each span without a class.
    free: u8,
    /// Where the arena lists it among those with a free span; `u32::MAX` if it does not.
    place: u32,
    spans: [Span; SPANS],
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
const NOWHERE: u32 = u32::MAX;

/// A span of a region that lives as long as it is listed.
#[derive(Clone, Copy)]
struct SpanAt {
    header: NonNull<Header>,
    span: usize,
}

pub(super) struct Arena {
    /// Per class, spans with a free slot.
    partial: [Vec<SpanAt>; CLASSES],
    /// Regions with a free span.
    open: Vec<NonNull<Header>>,
}

// SAFETY: The headers are owned by the arena, and reached only while its lock is held.
unsafe impl Send for Arena {}

static ARENA: [Mutex<Arena>; ARENAS] = [const {
    Mutex::new(Arena {
        partial: [const { Vec::new() }; CLASSES],
        open: Vec::new(),
    })
}; ARENAS];

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The arena a thread begins spans in, and the one it takes slots from; `usize::MAX` before the first.
    static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
    static NOW: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The arenas of this thread: home, and where it takes slots from.
fn my_arenas() -> (usize, usize) {
    let mine = HOME.try_with(|home| {
        if home.get() == usize::MAX {
            home.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed) % ARENAS);
        }
        home.get()
    });
    let home = mine.unwrap_or(0);
    let now = NOW.try_with(Cell::get).unwrap_or(usize::MAX);
    (home, if now == usize::MAX { home } else { now })
}

/// Has this thread take slots from `arena` from now on.
fn move_to(arena: usize) {
    // A thread that ends takes from its home.
    let _ = NOW.try_with(|now| now.set(arena));
}

/// All locks, while the process forks.
pub(super) type Locked = [MutexGuard<'static, Arena>; ARENAS];

pub(super) fn lock_all() -> Locked {
    std::array::from_fn(lock)
}

fn lock(arena: usize) -> MutexGuard<'static, Arena> {
    ARENA[arena].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Class whose slots hold `len` bytes with the least to spare.
fn class_of(len: usize) -> usize {
    let last = len - 1;
    let power = last.ilog2();
    let step = (last >> (power - STEPS.ilog2())) & (STEPS - 1);
    let doublings = (power - SMALLEST.ilog2()) as usize;
    doublings * STEPS + step + 1
}

/// Bytes of the slots of a class.
fn class_bytes(class: usize) -> usize {
    let (doublings, step) = (class / STEPS, class % STEPS);
    (SMALLEST << doublings) + ((SMALLEST << doublings) / STEPS) * step
}

/// A slot for `len` bytes, initialised; `None` if the allocator serves that size better, or the system
/// has no memory.
pub(super) fn allocate(len: usize) -> Option<Slot> {
    if !(SMALLEST + 1..=LARGEST).contains(&len) {
        return None;
    }
    let class = class_of(len);
    let (home, now) = my_arenas();
    if let Some(slot) = take_listed(&mut lock(now), now, class) {
        return Some(slot);
    }
    // Slots that other threads gave back come before more is taken from the system: a cache is filled by one thread
    // and emptied by the next, and holds no more memory than it has entries.
    let others = |from: usize| (1..ARENAS).map(move |step| (from + step) % ARENAS);
    for other in others(now) {
        if let Ok(mut arena) = ARENA[other].try_lock()
            && let Some(slot) = take_listed(&mut arena, other, class)
        {
            move_to(other);
            return Some(slot);
        }
    }
    for other in std::iter::once(home).chain(others(home)) {
        if let Ok(mut arena) = ARENA[other].try_lock()
            && !arena.open.is_empty()
        {
            arena.begin_span(class)?;
            move_to(other);
            return take_listed(&mut arena, other, class);
        }
    }
    move_to(home);
    let mut arena = lock(home);
    arena.begin_span(class)?;
    take_listed(&mut arena, home, class)
}

/// A slot of a span of `arena`, number `index`, that has a free one; `None` without such a span.
fn take_listed(arena: &mut Arena, index: usize, class: usize) -> Option<Slot> {
    let at = *arena.partial[class].last()?;
    // SAFETY: Listed spans belong to regions that live; the lock is held.
    let header = unsafe { &mut *at.header.as_ptr() };
    let slot = take_slot(header, at.span);
    if header.spans[at.span].is_full() {
        arena.partial[class].pop();
        header.spans[at.span].place = NOWHERE;
    }
    let offset = slot_offset(at.span, class, slot);
    // SAFETY: The slot lies within the region.
    let at = unsafe { at.header.cast::<u8>().add(offset) };
    Some(Slot {
        at,
        bytes: class_bytes(class) as u32,
        arena: index as u8,
    })
}

/// Gives a slot back.
///
/// # Safety
/// `slot` came from [`allocate`], is given back once, and nobody uses it any more.
pub(super) unsafe fn free(slot: Slot) {
    if cfg!(debug_assertions) {
        // A late reader shall not find what it looks for: address checkers do not know slots.
        // SAFETY: The slot is as long as it says, and the caller's.
        unsafe { slot.at.write_bytes(0xDB, slot.bytes as usize) };
    }
    let (header, span) = locate(slot.at);
    let mut arena = lock(slot.arena.into());
    // SAFETY: A region with a slot in use lives; the lock of its arena is held.
    let head = unsafe { &mut *header.as_ptr() };
    let place = &mut head.spans[span];
    let class = usize::from(place.class);
    let offset = slot.at.as_ptr().addr() - header.as_ptr().addr() - span_start(span);
    let index = offset / class_bytes(class);
    let bit = 1 << (index % 64);
    debug_assert_eq!(place.returned[index / 64] & bit, 0, "M1: slot freed twice");
    place.returned[index / 64] |= bit;
    place.used -= 1;
    if place.used == 0 {
        arena.end_span(SpanAt { header, span });
    } else if place.place == NOWHERE {
        arena.list_span(SpanAt { header, span });
    }
}

/// The region of a slot, and the span.
fn locate(slot: NonNull<u8>) -> (NonNull<Header>, usize) {
    let inside = slot.as_ptr().addr() % REGION_BYTES;
    // SAFETY: Regions begin at multiples of their size: the start of the slot's is inside the same
    // mapping.
    (unsafe { slot.sub(inside) }.cast(), inside / SPAN_BYTES)
}

/// Where the slots of a span begin.
fn span_start(span: usize) -> usize {
    if span == 0 {
        HEADER_BYTES
    } else {
        span * SPAN_BYTES
    }
}

fn slot_offset(span: usize, class: usize, slot: usize) -> usize {
    span_start(span) + slot * class_bytes(class)
}

impl Span {
    const UNUSED: Self = Self {
        returned: [0; WORDS],
        used: 0,
        begun: 0,
        slots: 0,
        class: 0,
        place: NOWHERE,
        populated: 0,
    };

    fn is_full(&self) -> bool {
        self.used == self.slots
    }
}

/// Index of a free slot of a span that has one; those used before come first.
fn take_slot(header: &mut Header, index: usize) -> usize {
    let span = &mut header.spans[index];
    debug_assert!(!span.is_full(), "M1: listed span has a free slot");
    span.used += 1;
    for (at, word) in span.returned.iter_mut().enumerate() {
        if *word != 0 {
            let bit = word.trailing_zeros();
            *word &= *word - 1;
            return at * 64 + bit as usize;
        }
    }
    let slot = usize::from(span.begun);
    span.begun += 1;
    let end = slot_offset(index, usize::from(span.class), slot + 1);
    let populated = span.populated as usize;
    if end > populated && header.region.is_gradual() {
        let until = end.next_multiple_of(POPULATE_BYTES).min(REGION_BYTES);
        span.populated = until as u32;
        header.region.populate(populated, until - populated);
    }
    slot
}

impl Arena {
    /// A span for `class` from a region of this arena, listed.
    fn begin_span(&mut self, class: usize) -> Option<SpanAt> {
        let header = match self.open.last() {
            Some(&header) => header,
            None => self.open_region()?,
        };
        // SAFETY: Listed regions live; the lock is held.
        let head = unsafe { &mut *header.as_ptr() };
        let span = head.free.trailing_zeros() as usize;
        head.free &= head.free - 1;
        if head.free == 0 {
            self.open.pop();
            head.place = NOWHERE;
        }
        // Pages asked for under an earlier class are still there.
        let populated = head.spans[span].populated.max((span * SPAN_BYTES) as u32);
        head.spans[span] = Span {
            slots: ((span + 1) * SPAN_BYTES - span_start(span)).div_euclid(class_bytes(class))
                as u16,
            class: class as u8,
            populated,
            ..Span::UNUSED
        };
        let at = SpanAt { header, span };
        self.list_span(at);
        Some(at)
    }

    fn open_region(&mut self) -> Option<NonNull<Header>> {
        let region = Region::gradual()?;
        let header = region.base().cast::<Header>();
        // SAFETY: The region is owned, large enough, and aligned for anything.
        unsafe {
            header.write(Header {
                region,
                free: u8::MAX,
                place: NOWHERE,
                spans: [Span::UNUSED; SPANS],
            });
        }
        self.list_region(header);
        Some(header)
    }

    fn list_span(&mut self, at: SpanAt) {
        // SAFETY: The span's region lives; the lock is held.
        let span = unsafe { &mut (*at.header.as_ptr()).spans[at.span] };
        let list = &mut self.partial[usize::from(span.class)];
        span.place = list.len() as u32;
        list.push(at);
    }

    fn list_region(&mut self, header: NonNull<Header>) {
        // SAFETY: The region lives; the lock is held.
        unsafe { (*header.as_ptr()).place = self.open.len() as u32 };
        self.open.push(header);
    }

    /// Takes the class from a span whose last slot was given back.
    fn end_span(&mut self, at: SpanAt) {
        // SAFETY: The span's region lives; the lock is held.
        let head = unsafe { &mut *at.header.as_ptr() };
        let span = &mut head.spans[at.span];
        if span.place != NOWHERE {
            let list = &mut self.partial[usize::from(span.class)];
            let place = span.place as usize;
            list.swap_remove(place);
            span.place = NOWHERE;
            if let Some(moved) = list.get(place) {
                // SAFETY: Listed spans belong to regions that live. It is another span than `span`.
                unsafe { (*moved.header.as_ptr()).spans[moved.span].place = place as u32 };
            }
        }
        // Reborrowed: the line above may have reached the same header.
        // SAFETY: As above.
        let head = unsafe { &mut *at.header.as_ptr() };
        head.free |= 1 << at.span;
        if head.place == NOWHERE {
            self.list_region(at.header);
        }
        if head.free == u8::MAX {
            self.close_region(at.header);
        }
    }

    /// Gives a region without spans in use back.
    fn close_region(&mut self, header: NonNull<Header>) {
        // SAFETY: The region lives until the end of this function; the lock is held.
        let place = unsafe { (*header.as_ptr()).place } as usize;
        self.open.swap_remove(place);
        if let Some(moved) = self.open.get(place) {
            // SAFETY: Listed regions live.
            unsafe { (*moved.as_ptr()).place = place as u32 };
        }
        // SAFETY: Nobody knows the region any more; the header is read once, before its memory goes.
        drop(unsafe { header.read() }.region);
    }
}

#[cfg(test)]
mod tests;
