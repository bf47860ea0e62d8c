//! The buffer of one thread: a ring of bytes that it fills and the writer of the trace empties, without a lock.
//!
//! ```text
//! record: stamp u64 | kind u8 | length of the payload u32 | payload
//! ```
//!
//! `head` counts bytes that were filled, `tail` bytes that were emptied. The bytes from `tail` to `head` belong to the writer,
//! all others to the thread: bytes are written before the Release of the `head` that covers them and read after its
//! Acquire, read before the Release of the `tail` that frees them and written again after its Acquire.
#![expect(
    unsafe_code,
    reason = "two threads share the bytes of a ring without a lock; tested with both at work"
)]

use super::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::memory::prefetch_to_write;
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

/// Bytes of a record before its payload.
pub const RECORD_HEAD: usize = 13;
const HEAD: usize = RECORD_HEAD;
/// Bytes of a ring, a power of two. In models a few records fill it.
const BYTES: usize = if cfg!(shuttle) { 256 } else { 256 << 10 };
const MASK: u64 = BYTES as u64 - 1;
/// Bytes in use at which the writer is told.
const TELL_AT: u64 = BYTES as u64 / 2;
/// Bytes of the largest record that goes into a ring.
pub const RECORD_MAX: usize = BYTES / 4;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;
/// Bytes between a record and the place whose lines are asked for as it is pushed.
const AHEAD: u64 = 4 * LINE as u64;
/// Lines that are asked for at once at most.
const LINES_MAX: usize = 8;

/// Keeps what one side writes off the lines that the other side writes.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// Shared by a thread and the writer.
#[derive(Debug)]
pub struct Ring {
    /// Number of the thread in its trace.
    pub index: u32,
    bytes: Box<[UnsafeCell<u8>]>,
    /// Bytes that were filled, since the beginning. Stored by the thread alone.
    head: Apart,
    /// Bytes that were emptied. Stored by whoever takes.
    tail: Apart,
    /// Somebody takes.
    is_taken: AtomicBool,
}

// SAFETY: Only one thread has the `Producer` of a ring, which is not `Sync`, and `take` refuses a second writer. Which bytes
// belong to whom: see above.
unsafe impl Sync for Ring {}

/// The thread's side of a ring.
pub struct Producer {
    /// The ring, which the writer shares.
    pub ring: Arc<Ring>,
    head: Cell<u64>,
    /// The ring's, as it was when it last mattered.
    tail: Cell<u64>,
    /// The next time that the writer is told, by `head`.
    tell_at: Cell<u64>,
    /// Records of the trace so far.
    pub places: Cell<u64>,
    /// Stamp of the last of them.
    pub stamp: Cell<u64>,
    /// Requests since the last one that was recorded.
    pub skipped: Cell<u64>,
    /// Where records are put together.
    scratch: Cell<Vec<u8>>,
}

/// How full a ring is with a record that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Nothing needs to be done.
    Low,
    /// The writer should come.
    Half,
}

impl Ring {
    /// A ring and its thread's side.
    #[expect(clippy::new_ret_no_self, reason = "the thread's side has the ring")]
    pub fn new(index: u32) -> Producer {
        let ring = Arc::new(Self {
            index,
            bytes: (0..BYTES).map(|_| UnsafeCell::new(0)).collect(),
            head: Apart(AtomicU64::new(0)),
            tail: Apart(AtomicU64::new(0)),
            is_taken: AtomicBool::new(false),
        });
        Producer {
            ring,
            head: Cell::new(0),
            tail: Cell::new(0),
            tell_at: Cell::new(TELL_AT),
            places: Cell::new(0),
            stamp: Cell::new(0),
            skipped: Cell::new(0),
            scratch: Cell::default(),
        }
    }

    /// Moves all bytes that are there after `to`.
    ///
    /// # Panics
    /// If another thread takes at the same time: the file of the trace has one writer.
    pub fn take(&self, to: &mut Vec<u8>) {
        // Acquire and Release: what one writer did to `tail` comes before the next.
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        assert!(!was_taken, "two writers of a trace");
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Acquire);
        let (at, many) = ((tail & MASK) as usize, (head - tail) as usize);
        let first = many.min(BYTES - at);
        for (from, len) in [(at, first), (0, many - first)] {
            let cells = &self.bytes[from..from + len];
            // SAFETY: A cell is as large as its byte. These lie between `tail` and `head`, so that the thread does not write
            // them until `tail` is stored below, and their values came before the Acquire above.
            let bytes = unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<u8>(), len) };
            to.extend_from_slice(bytes);
        }
        self.tail.0.store(head, Ordering::Release);
        self.is_taken.store(false, Ordering::Release);
    }
}

impl Producer {
    /// Has `encode` put a payload together after the head of its record, and `push` do something with both.
    #[inline]
    pub fn with_record<T>(
        &self,
        stamp: u64,
        kind: u8,
        encode: impl FnOnce(&mut Vec<u8>),
        push: impl FnOnce(&[u8]) -> T,
    ) -> T {
        let mut scratch = self.scratch.take();
        scratch.clear();
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&stamp.to_le_bytes());
        head[8] = kind;
        scratch.extend_from_slice(&head);
        encode(&mut scratch);
        // One that is longer is refused by who pushes it.
        let len = (scratch.len() - HEAD) as u32;
        scratch[9..HEAD].copy_from_slice(&len.to_le_bytes());
        let pushed = push(&scratch);
        if scratch.capacity() <= BYTES {
            self.scratch.set(scratch);
        }
        pushed
    }

    /// Appends a record of at most [`RECORD_MAX`] bytes; `None` if there is no room.
    #[inline]
    pub fn push(&self, record: &[u8]) -> Option<Fill> {
        debug_assert!(record.len() <= RECORD_MAX);
        let head = self.head.get();
        let end = head + record.len() as u64;
        if end - self.tail.get() > BYTES as u64 && !self.has_room(end) {
            return None;
        }
        let at = (head & MASK) as usize;
        let (first, second) = record.split_at(record.len().min(BYTES - at));
        self.copy(at, first);
        if !second.is_empty() {
            self.copy(0, second);
        }
        self.head.set(end);
        self.ring.head.0.store(end, Ordering::Release);
        self.ask_for(end + AHEAD, record.len());
        match end < self.tell_at.get() {
            true => Some(Fill::Low),
            false => Some(self.tell()),
        }
    }

    /// Requires: the place is free.
    #[inline]
    fn copy(&self, at: usize, from: &[u8]) {
        let cells = &self.ring.bytes[at..at + from.len()];
        let to = UnsafeCell::raw_get(cells.as_ptr());
        // SAFETY: `to` points to as many bytes, which a cell allows to be written through a shared reference. They lie
        // outside `tail` to `head` by the check of room in `push`, so that the writer does not read them until `head` is
        // stored; it has read what was there before the Acquire of `tail`. No other thread has this side.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Has the processor get the lines of a place that a later record goes to, to write them. The writer has read them
    /// since they were written last, so that they lie in its processor's cache; a store would wait for them, and the next
    /// instruction with a lock for the store. Asked for now they come during the request.
    #[inline]
    fn ask_for(&self, place: u64, len: usize) {
        for line in 0..len.div_ceil(LINE).min(LINES_MAX) {
            let at = (place + (line * LINE) as u64) & MASK;
            prefetch_to_write(self.ring.bytes[at as usize].get().cast());
        }
    }

    #[cold]
    fn has_room(&self, end: u64) -> bool {
        self.tail.set(self.ring.tail.0.load(Ordering::Acquire));
        end - self.tail.get() <= BYTES as u64
    }

    /// Half a ring has been filled since the writer was told last, or since it came.
    #[cold]
    fn tell(&self) -> Fill {
        let (head, tail) = (self.head.get(), self.ring.tail.0.load(Ordering::Acquire));
        self.tail.set(tail);
        if head - tail < TELL_AT {
            self.tell_at.set(tail + TELL_AT);
            return Fill::Low;
        }
        self.tell_at.set(head + TELL_AT);
        Fill::Half
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn record(n: u64) -> Vec<u8> {
        let len = match n % 1000 {
            999 => RECORD_MAX - 13 - n as usize % 5,
            rest => rest as usize % 77,
        };
        let payload = (0..len).map(|at| (at as u64 * 31 + n) as u8);
        let mut out = n.to_le_bytes().to_vec();
        out.push(n as u8);
        out.extend_from_slice(&(len as u32).to_le_bytes());
        out.extend(payload);
        out
    }

    #[test]
    fn a_writer_beside_the_thread_gets_every_record_whole() {
        let records = if cfg!(miri) { 1_200 } else { 20_000 };
        let side = Ring::new(0);
        let ring = side.ring.clone();
        let producer = std::thread::spawn(move || {
            for n in 0..records {
                while side.push(&record(n)).is_none() {
                    std::thread::yield_now();
                }
            }
        });
        let (mut bytes, mut n) = (Vec::new(), 0);
        while n < records {
            bytes.clear();
            ring.take(&mut bytes);
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let expected = record(n);
                assert!(rest.starts_with(&expected), "record {n}");
                rest = &rest[expected.len()..];
                n += 1;
            }
        }
        producer.join().unwrap();
    }

    #[test]
    fn a_full_ring_takes_nothing_until_it_is_emptied() {
        let side = Ring::new(0);
        let mut pushed = 0;
        while side.push(&[7; 113]).is_some() {
            pushed += 1;
        }
        assert_eq!(pushed, BYTES / 113);
        let mut bytes = Vec::new();
        side.ring.take(&mut bytes);
        assert_eq!(bytes.len(), pushed * 113);
        assert!(side.push(&[7; 113]).is_some());
    }

    #[test]
    fn the_writer_is_told_at_half_and_not_again_at_once() {
        let side = Ring::new(0);
        let mut told = Vec::new();
        for n in 0..BYTES / 64 {
            if side.push(&[1; 64]) == Some(Fill::Half) {
                told.push(n);
            }
        }
        assert_eq!(told, [BYTES / 128 - 1, BYTES / 64 - 1]);
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use crate::sync::{Mutex, explore};
    use std::sync::atomic::AtomicUsize as Plain;

    const RECORDS: usize = 24;

    /// The number of a record, its length, and as many bytes that follow from both.
    fn record(n: usize) -> Vec<u8> {
        let len = 3 + n * 7 % (RECORD_MAX - 3);
        let mut out = vec![n as u8, len as u8];
        out.extend((2..len).map(|at| (at * 31 + n) as u8));
        out
    }

    /// A thread that fills the ring over and over, and two writers that take turns, as the thread of a trace and a caller without
    /// room do: every record arrives whole, once and in order.
    #[test]
    fn records_of_a_ring_arrive_whole_and_in_order() {
        explore("trace: rings, two that empty them", || {
            let side = Ring::new(0);
            let got = Arc::new(Mutex::new(90, (Vec::new(), 0)));
            let arrived = Arc::new(Plain::new(0));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let (ring, got, arrived) = (side.ring.clone(), got.clone(), arrived.clone());
                    shuttle::thread::spawn(move || {
                        while arrived.load(Ordering::SeqCst) < RECORDS {
                            {
                                let mut got = got.lock();
                                let (bytes, n) = &mut *got;
                                ring.take(bytes);
                                while !bytes.is_empty() {
                                    let expected = record(*n);
                                    assert!(bytes.starts_with(&expected), "record {n}: {bytes:?}");
                                    bytes.drain(..expected.len());
                                    *n += 1;
                                }
                                arrived.store(*n, Ordering::SeqCst);
                            }
                            shuttle::thread::yield_now();
                        }
                    })
                })
                .collect();
            let mut told = 0;
            for n in 0..RECORDS {
                loop {
                    match side.push(&record(n)) {
                        None => shuttle::thread::yield_now(),
                        Some(fill) => {
                            told += usize::from(fill == Fill::Half);
                            break;
                        }
                    }
                }
            }
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!(got.lock().1, RECORDS);
            // At most once for each half of a ring that was filled.
            let filled: usize = (0..RECORDS).map(|n| record(n).len()).sum();
            assert!(told <= filled / (BYTES / 2), "{told} of {filled} bytes");
        });
    }
}
