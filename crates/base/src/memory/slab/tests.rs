use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn bytes(slot: &Slot, len: usize) -> &'static mut [u8] {
    // SAFETY: The slot is in use by the test alone and has at least `len` bytes.
    unsafe { std::slice::from_raw_parts_mut(slot.at.as_ptr(), len) }
}

/// xorshift64*.
fn next(state: &mut u64) -> usize {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize
}

#[test]
fn each_length_has_a_class_that_holds_it_and_wastes_at_most_a_sixteenth() {
    for len in SMALLEST + 1..=LARGEST {
        let class = class_of(len);
        assert!(class < CLASSES);
        assert!(class_bytes(class) >= len, "{len}");
        assert!(class_bytes(class - 1) < len, "{len}");
        assert!((class_bytes(class) - len) * STEPS <= len, "{len}");
    }
    assert!(allocate(SMALLEST).is_none());
    assert!(allocate(LARGEST + 1).is_none());
}

/// Runs what one thread does at random: every slot keeps its bytes, overlaps no other, and fits.
fn churn(seed: u64, rounds: usize) {
    let mut state = seed;
    let mut held: Vec<(Slot, usize, u8)> = Vec::new();
    for round in 0..rounds {
        // Phases that grow and phases that shrink, down to nothing.
        let grows = (round / 700).is_multiple_of(2);
        if held.is_empty() || (grows && !next(&mut state).is_multiple_of(4)) {
            let spread = if next(&mut state).is_multiple_of(8) {
                // Leaves the class of the longest to a test of its own.
                30_000
            } else {
                400
            };
            let len =
                SMALLEST + 1 + next(&mut state) % spread + if spread == 400 { 3000 } else { 0 };
            let slot = allocate(len.min(LARGEST)).unwrap();
            let mark = next(&mut state) as u8;
            bytes(&slot, len.min(LARGEST)).fill(mark);
            held.push((slot, len.min(LARGEST), mark));
        } else {
            let (slot, len, mark) = held.swap_remove(next(&mut state) % held.len());
            assert!(
                bytes(&slot, len).iter().all(|&b| b == mark),
                "seed {seed}, round {round}"
            );
            // SAFETY: Taken from the list of those in use.
            unsafe { free(slot) };
        }
        if round % 997 == 0 {
            let by_place: BTreeMap<usize, usize> = held
                .iter()
                .map(|(slot, len, _)| (slot.at.as_ptr().addr(), *len))
                .collect();
            assert_eq!(by_place.len(), held.len());
            for ((at, len), (after, _)) in by_place.iter().zip(by_place.iter().skip(1)) {
                assert!(at + len <= *after, "seed {seed}, round {round}");
            }
        }
    }
    for (slot, len, mark) in held {
        assert!(bytes(&slot, len).iter().all(|&b| b == mark));
        // SAFETY: As above.
        unsafe { free(slot) };
    }
}

#[test]
fn slots_keep_their_bytes_whatever_is_taken_and_given_back() {
    churn(7, 20_000);
}

#[test]
fn slots_of_many_threads_keep_their_bytes() {
    std::thread::scope(|s| {
        for seed in 1..=6 {
            s.spawn(move || churn(seed * 77, 4_000));
        }
    });
}

#[test]
fn slots_may_be_given_back_by_another_thread() {
    let slots: Vec<HeldSlot> = (0..500)
        .map(|i| HeldSlot(allocate(4000 + i).unwrap()))
        .collect();
    std::thread::spawn(move || {
        for slot in slots {
            // SAFETY: In use until here.
            unsafe { free(slot.0) };
        }
    })
    .join()
    .unwrap();
    churn(3, 500);
}

struct HeldSlot(Slot);
// SAFETY: A slot is plain memory with one owner.
unsafe impl Send for HeldSlot {}

#[test]
fn what_is_given_back_serves_other_sizes() {
    // In a thread whose arena is empty at first and at the end, whatever other tests do.
    let mut arena = Box::new(Arena {
        partial: [const { Vec::new() }; CLASSES],
        open: Vec::new(),
    });
    for len in [1100, 4200, 9000, 32_768] {
        let class = class_of(len);
        let at = arena.begin_span(class).unwrap();
        assert_eq!(arena.open.len(), 1, "one region serves all in turn");
        // SAFETY: The arena is this test's.
        let head = unsafe { &mut *at.header.as_ptr() };
        let slots = head.spans[at.span].slots;
        for slot in 0..slots {
            assert_eq!(take_slot(head, at.span), usize::from(slot));
        }
        assert!(head.spans[at.span].is_full());
        let end = slot_offset(at.span, class, slots.into());
        assert!(end <= (at.span + 1) * SPAN_BYTES);
        assert!(end + class_bytes(class) > (at.span + 1) * SPAN_BYTES);
        let other = arena.begin_span(class_of(2000)).unwrap();
        head.spans[at.span].used = 0;
        arena.end_span(at);
        arena.end_span(other);
        assert!(
            arena.open.is_empty(),
            "a region without spans in use is given back"
        );
        assert!(arena.partial.iter().all(Vec::is_empty));
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_slot_that_was_given_back_holds_nothing_of_before() {
    let (stays, goes) = (allocate(LARGEST).unwrap(), allocate(LARGEST).unwrap());
    let at = goes.at;
    bytes(&goes, LARGEST).fill(7);
    // SAFETY: In use until here.
    unsafe { free(goes) };
    // SAFETY: The span stays mapped while `stays` is in use; its class is used by no other test, so that
    // nobody was given the slot meanwhile.
    let after = unsafe { std::slice::from_raw_parts(at.as_ptr(), LARGEST) };
    assert!(after.iter().all(|&b| b == 0xDB));
    // SAFETY: In use until here.
    unsafe { free(stays) };
}

// SAFETY: Slots may be used and given back by any thread.
unsafe impl Send for Slot {}

/// Alone in its class: other tests of this process free and take other sizes.
#[test]
fn memory_that_one_thread_gave_back_serves_the_next_threads() {
    const LEN: usize = 23_000;
    let region = |slot: &Slot| slot.at.as_ptr().addr() / REGION_BYTES;
    let mut held: Vec<Slot> = (0..2000).map(|_| allocate(LEN).unwrap()).collect();
    let before: BTreeSet<usize> = held.iter().map(region).collect();
    let mut state = 7;
    // As a full cache does: one entry goes, another comes, from thread after thread.
    for _ in 0..ARENAS + 1 {
        held = std::thread::scope(|scope| {
            let work = scope.spawn(move || {
                for _ in 0..1000 {
                    let gone = held.swap_remove(next(&mut state) % held.len());
                    // SAFETY: Taken from the list of those in use.
                    unsafe { free(gone) };
                    held.push(allocate(LEN).unwrap());
                }
                held
            });
            work.join().unwrap()
        });
    }
    let after: BTreeSet<usize> = held.iter().map(region).collect();
    // Some: an arena that another test's thread holds is passed by.
    let new = after.difference(&before).count();
    assert!(
        new * 4 <= before.len(),
        "{new} new regions beside {}",
        before.len()
    );
    for slot in held {
        // SAFETY: Taken from the list of those in use.
        unsafe { free(slot) };
    }
}
