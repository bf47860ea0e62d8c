//! The driver over the double under many schedules: groups of all kinds, several in flight, followers that insert, and
//! failures. A writer that nobody wakes is a deadlock, which fails the model.

use super::double::{At, BEGAN, Double, Fault, Numbers};
use super::pipeline::PARALLEL_BYTES;
use spanlith_base::sync::explore;
use std::sync::Arc;

/// Writers that each write twice: every third write is large.
const WRITERS: u32 = 4;

/// As [`model_of`], in which every second writer asks for a sync.
fn model(double: impl Fn() -> Double + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    model_of(double, |thread| thread % 2 == 0)
}

/// Four writers, of which some ask for a sync, and a reader. What is visible is inserted and never sinks; a writer sees its own
/// write.
fn model_of(
    double: impl Fn() -> Double + Send + Sync + 'static,
    syncs: fn(u32) -> bool,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let double = Arc::new(double());
        let writers: Vec<_> = (0..WRITERS)
            .map(|thread| {
                let double = Arc::clone(&double);
                shuttle::thread::spawn(move || {
                    let mut written = 0;
                    for n in 0..2 {
                        let writer = thread * 2 + n;
                        let numbers = Numbers {
                            writer,
                            count: 1 + writer % 2,
                            bytes: if writer % 3 == 0 { PARALLEL_BYTES } else { 20 },
                        };
                        let Ok(first) = double.write(numbers, syncs(thread)) else {
                            continue;
                        };
                        let last = first + u64::from(numbers.count) - 1;
                        assert!(double.visible() >= last, "W3: its own write");
                        written += u64::from(numbers.count);
                    }
                    written
                })
            })
            .collect();
        let reader = Arc::clone(&double);
        let reader = shuttle::thread::spawn(move || {
            let mut seen = BEGAN;
            for _ in 0..4 {
                let now = reader.visible();
                assert!(now >= seen, "W3: sank from {seen} to {now}");
                seen = now;
                shuttle::thread::yield_now();
            }
        });
        let mut written = 0;
        for writer in writers {
            written += writer.join().unwrap();
        }
        reader.join().unwrap();
        assert_eq!(double.visible(), BEGAN + written, "{:?}", double.failures());
        if double.failures().is_empty() {
            assert_eq!(double.next(), BEGAN + written + 1);
        }
    }
}

#[test]
fn shuttle_finds_no_bad_order_of_groups() {
    explore(
        "commit: 4 writers, one group at a time",
        model(|| Double::new(1)),
    );
}

#[test]
fn shuttle_finds_no_bad_order_of_groups_in_flight() {
    explore(
        "commit: 4 writers, two groups in flight",
        model(|| Double::new(2)),
    );
}

/// One more than may be unapplied is in flight: one that is inserted and waits for those before it.
#[test]
fn shuttle_finds_no_bad_order_of_groups_beside_one_that_waits_its_turn() {
    explore(
        "commit: 4 writers that sync, two groups unapplied",
        model_of(|| Double::new(2), |_| true),
    );
    explore(
        "commit: 4 writers, 3 of which sync, two groups unapplied",
        model_of(|| Double::new(2), |thread| thread != 0),
    );
    for at in [At::Sync(BEGAN + 3), At::Insert(5)] {
        let double = move || Double::new(2).with(at, Fault::Fails);
        explore(
            &format!("commit: 4 writers that sync, {at:?} fails"),
            model_of(double, |_| true),
        );
    }
}

#[test]
fn shuttle_finds_no_writer_that_waits_for_a_group_that_failed() {
    for at in [At::Sync(BEGAN + 3), At::Insert(2), At::Log(4)] {
        let double = move || Double::new(2).with(at, Fault::Fails);
        explore(&format!("commit: 4 writers, {at:?} fails"), model(double));
    }
    let alone = || Double::new(1).with(At::Insert(3), Fault::Fails);
    explore("commit: 4 writers, an insertion fails", model(alone));
}
