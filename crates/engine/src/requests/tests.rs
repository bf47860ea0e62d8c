//! The queue alone, under a model: what is accepted, in which order it is taken, and what waits.

use super::cell::{Outcome, Wakers};
use super::plan::{Kind, Plan};
use super::queue::{After, Entry, Fate, Issued, Job, Limits, Queue, Segment, Work};
use crate::options::AsyncMode;
use crate::write::WriteOptions;
use spanlith_base::{ErrorKind, Result};
use spanlith_testkit::{Rng, seed};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

fn queue(requests: usize, bytes: usize, segment_bytes: usize) -> Queue<()> {
    let limits = Limits {
        requests,
        bytes,
        segment_bytes,
    };
    Queue::new(Weak::new(), Plan::new(AsyncMode::Dedicated, 4, 8), limits)
}

fn entry(options: WriteOptions) -> Entry {
    Entry {
        options,
        is_alone: false,
        hook: None,
    }
}

fn put(q: &mut Queue<()>, n: u32, options: WriteOptions, waits: bool) -> Result<Issued> {
    q.write(entry(options), waits, 30, u64::from(n), |batch| {
        batch.put(&n.to_be_bytes(), b"value")
    })
}

fn take(q: &mut Queue<()>) -> Option<Segment> {
    match q.take(std::iter::once(Kind::Write))? {
        Work::Group(segment) => Some(*segment),
        Work::Job(_) => None,
    }
}

fn settle(q: &mut Queue<()>, mut segment: Segment) -> Wakers {
    let mut wakers = segment.cell.settle(Outcome::Same(Ok(())));
    q.settled(&mut segment, 0, &mut wakers);
    wakers
}

/// The numbers that a segment writes, in their order.
fn numbers(segment: &Segment) -> Vec<u32> {
    let entries = segment.batch.iter().unwrap();
    let keys = entries.map(|op| op.unwrap().key().unwrap().to_vec());
    keys.map(|k| u32::from_be_bytes(k.try_into().unwrap()))
        .collect()
}

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn writes_share_a_group_until_their_options_differ() {
    let mut q = queue(100, 1 << 20, 1 << 20);
    let (plain, sync) = (WriteOptions::new(), WriteOptions::new().sync(true));
    let unlogged = WriteOptions::new().disable_wal(true);
    // One without a sync goes along with others that ask for one, but does not begin to wait for one.
    for (n, options) in [plain, plain, sync, plain, sync, unlogged, plain]
        .into_iter()
        .enumerate()
    {
        put(&mut q, n as u32, options, true).unwrap();
    }
    let mut groups = Vec::new();
    while let Some(segment) = take(&mut q) {
        assert!(take(&mut q).is_none(), "one group at a time");
        groups.push((numbers(&segment), segment.options.sync));
        settle(&mut q, segment).wake();
    }
    assert_eq!(
        groups,
        [
            (vec![0, 1], false),
            (vec![2, 3, 4], true),
            (vec![5], false),
            (vec![6], false)
        ]
    );
    assert!(q.is_idle());
}

#[test]
fn a_full_group_takes_no_more_and_a_lone_write_none_at_all() {
    let mut q = queue(100, 1 << 20, 40);
    for n in 0..4 {
        put(&mut q, n, WriteOptions::new(), true).unwrap();
    }
    let mut alone = entry(WriteOptions::new());
    alone.is_alone = true;
    q.write(alone, true, 30, 4, |b| b.put(&4u32.to_be_bytes(), b""))
        .unwrap();
    put(&mut q, 5, WriteOptions::new(), true).unwrap();
    let mut sizes = Vec::new();
    while let Some(segment) = take(&mut q) {
        sizes.push(numbers(&segment));
        settle(&mut q, segment).wake();
    }
    assert_eq!(sizes, [vec![0, 1, 2], vec![3], vec![4], vec![5]]);
}

#[test]
fn an_entry_that_cannot_be_encoded_leaves_nothing_behind() {
    let mut q = queue(100, 1 << 20, 1 << 20);
    let fails = |_: &mut spanlith_wal::WriteBatch| Err(super::queue::closed());
    assert!(
        q.write(entry(WriteOptions::new()), true, 1, 0, fails)
            .is_err()
    );
    assert!(q.is_idle() && q.figures() == [0; 5]);
}

#[test]
fn without_room_writes_wait_in_their_order_or_are_refused() {
    let mut q = queue(2, 1 << 20, 1 << 20);
    let options = WriteOptions::new();
    put(&mut q, 0, options, false).unwrap();
    put(&mut q, 1, options, false).unwrap();
    let e = put(&mut q, 2, options, false).err().unwrap();
    assert_eq!(
        e.to_string(),
        "Resource busy: too many asynchronous requests are outstanding"
    );
    let slots: Vec<_> = (3..7)
        .map(|n| match put(&mut q, n, options, true).unwrap() {
            Issued::Waiting(slot) => slot,
            Issued::Accepted(..) => panic!("{n} was accepted"),
        })
        .collect();
    let woken = Arc::new(Counter::default());
    let waker = Waker::from(woken.clone());
    assert!(matches!(slots[0].fate(Some(waker)), Fate::Waiting));
    // 4 is withdrawn: 3 and 5 take the room of the first group.
    assert!(slots[1].withdraw().is_none());
    let first = take(&mut q).unwrap();
    // A group that is being written still counts.
    assert!(put(&mut q, 7, options, false).is_err());
    settle(&mut q, first).wake();
    let second = take(&mut q).unwrap();
    assert_eq!(numbers(&second), [3, 5]);
    assert!(matches!(slots[0].fate(None), Fate::Accepted(_, 0)));
    assert!(matches!(slots[2].fate(None), Fate::Accepted(_, 1)));
    assert!(matches!(slots[3].fate(None), Fate::Waiting));
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "not before the result");
    settle(&mut q, second).wake();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let third = take(&mut q).unwrap();
    assert_eq!(numbers(&third), [6]);
    settle(&mut q, third).wake();
    assert!(q.is_idle() && q.figures() == [0; 5]);
}

#[test]
fn a_write_larger_than_all_room_waits_until_it_is_alone() {
    let mut q = queue(100, 64, 1 << 20);
    put(&mut q, 0, WriteOptions::new(), true).unwrap();
    let big = |batch: &mut spanlith_wal::WriteBatch| batch.put(&1u32.to_be_bytes(), &[0; 1000]);
    let issued = q.write(entry(WriteOptions::new()), true, 1000, 0, big);
    assert!(matches!(issued, Ok(Issued::Waiting(_))));
    let segment = take(&mut q).unwrap();
    settle(&mut q, segment).wake();
    let segment = take(&mut q).unwrap();
    assert_eq!(numbers(&segment), [1]);
    settle(&mut q, segment).wake();
    assert_eq!(q.figures(), [0; 5]);
}

#[test]
fn close_fails_what_waits_and_keeps_what_was_accepted() {
    let mut q = queue(1, 1 << 20, 1 << 20);
    put(&mut q, 0, WriteOptions::new(), true).unwrap();
    let Ok(Issued::Waiting(slot)) = put(&mut q, 1, WriteOptions::new(), true) else {
        panic!("it should wait");
    };
    let mut wakers = Wakers::default();
    assert_eq!(q.close(&mut wakers).len(), 1);
    wakers.wake();
    let Fate::Failed(e) = slot.fate(None) else {
        panic!("it should have failed");
    };
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress);
    assert!(put(&mut q, 2, WriteOptions::new(), true).is_err());
    assert!(!q.is_idle());
    let segment = take(&mut q).unwrap();
    assert_eq!(numbers(&segment), [0]);
    settle(&mut q, segment).wake();
    assert!(q.is_idle());
}

#[test]
fn workers_are_started_for_work_that_nobody_looks_for() {
    let mut q = queue(100, 1 << 20, 1 << 20);
    assert_eq!(q.staff(), None, "at rest there is no worker");
    put(&mut q, 0, WriteOptions::new(), true).unwrap();
    assert_eq!(q.staff(), Some(0));
    assert_eq!(q.staff(), None, "it is on its way");
    for n in 0..5 {
        let run = Box::new(|_: &()| After::default());
        q.job(Kind::Job, true, Job { issued: n, run }).unwrap();
    }
    let lanes: Vec<_> = std::iter::from_fn(|| q.staff()).collect();
    assert_eq!(lanes, [1, 1, 1], "three of four threads are for jobs");
    let Some(Work::Group(segment)) = q.take_for_worker(0) else {
        panic!("there is a group");
    };
    put(&mut q, 1, WriteOptions::new(), true).unwrap();
    assert_eq!(
        q.staff(),
        None,
        "the next group waits until this one is done"
    );
    settle(&mut q, *segment).wake();
    q.seek(0);
    assert_eq!(q.staff(), None, "its worker looks again");
    let Some(Work::Group(segment)) = q.take_for_worker(0) else {
        panic!("there is a group");
    };
    settle(&mut q, *segment).wake();
    q.seek(0);
    assert!(q.take_for_worker(0).is_none());
    for _ in 0..5 {
        assert!(matches!(q.take_for_worker(1), Some(Work::Job(_))));
        q.job_done();
        q.seek(1);
    }
    for _ in 0..3 {
        assert!(q.take_for_worker(1).is_none());
    }
    assert!(q.is_idle() && q.figures() == [0; 5]);
}

/// R-SPAN-11: programs of issues, withdrawals and groups lose, repeat and reorder nothing, and room comes back.
#[test]
fn random_programs_keep_order_and_room() {
    let mut rng = Rng::new(seed(spanlith_testkit::test_name!()));
    for _ in 0..200 {
        let limit = rng.between(1, 6) as usize;
        let mut q = queue(limit, rng.between(100, 1000) as usize, 200);
        let mut expected: VecDeque<u32> = VecDeque::new();
        let mut waiting: VecDeque<(u32, Arc<super::queue::Slot>)> = VecDeque::new();
        let mut writing = None;
        let mut written = Vec::new();
        let mut all = Vec::new();
        for n in 0..200 {
            match rng.below(10) {
                0..5 => {
                    let options = WriteOptions::new().sync(rng.one_in(3));
                    match put(&mut q, n, options, rng.one_in(2)) {
                        Ok(Issued::Accepted(..)) => {
                            assert!(waiting.is_empty(), "nobody overtakes");
                            expected.push_back(n);
                        }
                        Ok(Issued::Waiting(slot)) => waiting.push_back((n, slot)),
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Busy),
                    }
                }
                5 => {
                    if !waiting.is_empty() {
                        let at = rng.index(waiting.len());
                        if waiting[at].1.withdraw().is_none() {
                            waiting.remove(at);
                        }
                    }
                }
                6..8 => {
                    if writing.is_none() {
                        writing = take(&mut q);
                    }
                }
                _ => {
                    if let Some(segment) = writing.take() {
                        written.extend(numbers(&segment));
                        settle(&mut q, segment).wake();
                    }
                }
            }
            while let Some((n, slot)) = waiting.front() {
                match slot.fate(None) {
                    Fate::Accepted(..) => expected.push_back(*n),
                    _ => break,
                }
                waiting.pop_front();
            }
            all.push(q.figures());
        }
        while let Some(segment) = writing.take().or_else(|| take(&mut q)) {
            written.extend(numbers(&segment));
            settle(&mut q, segment).wake();
        }
        expected.extend(waiting.iter().map(|w| w.0));
        assert_eq!(written, expected.make_contiguous());
        assert_eq!(q.figures(), [0; 5]);
        assert!(all.iter().all(|f| f[0] <= limit.max(1)), "{all:?}");
    }
}
