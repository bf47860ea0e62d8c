//! A commit pipeline over doubles of a log and of memtables, without a database: groups are logged one after the
//! other and applied at the same time.

use super::super::Mutex;
use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Describes what a stage does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Works,
    LogFails,
    ApplyFails,
}

/// A log, memtables and the order of their groups.
struct Pipeline {
    order: CommitOrder,
    /// Held while a group is ordered and logged: numbers in the order of the log.
    log: Mutex<(Vec<Ticket>, bool)>,
    /// Value by sequence number.
    applied: Mutex<BTreeMap<u64, u64>>,
}

impl Pipeline {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            order: CommitOrder::new(10),
            log: Mutex::new(1, (Vec::new(), false)),
            applied: Mutex::new(2, BTreeMap::new()),
        })
    }

    /// Orders and logs a group; `None` if writes are refused or the log fails.
    fn log(&self, count: u64, fate: Fate) -> Option<Ticket> {
        let mut log = self.log.lock();
        if log.1 {
            return None;
        }
        let ticket = self.order.begin(count);
        log.0.push(ticket);
        log.1 = fate == Fate::LogFails;
        (fate != Fate::LogFails).then_some(ticket)
    }

    fn apply(&self, ticket: Ticket, value: u64, fate: Fate) -> bool {
        for number in ticket.first..=ticket.last {
            if fate == Fate::ApplyFails && number == ticket.last {
                self.log.lock().1 = true;
                return false;
            }
            self.applied.lock().insert(number, value);
        }
        self.order.finish(ticket);
        true
    }

    /// Returns whether the group was published.
    fn write(&self, count: u64, value: u64, fate: Fate) -> bool {
        let Some(ticket) = self.log(count, fate) else {
            return false;
        };
        self.apply(ticket, value, fate)
    }

    /// All that is visible is applied, group by group.
    fn check(&self) -> u64 {
        let visible = self.order.visible();
        let applied = self.applied.lock();
        for number in 11..=visible {
            assert!(applied.contains_key(&number), "W3: {number} of {visible}");
        }
        visible
    }
}

/// Holds W3.
#[test]
fn a_group_is_published_behind_all_that_were_ordered_before_it() {
    let p = Pipeline::new();
    let one = p.log(3, Fate::Works).unwrap();
    let two = p.log(2, Fate::Works).unwrap();
    let three = p.log(1, Fate::Works).unwrap();
    assert_eq!(
        [one.first, one.last, two.first, three.last],
        [11, 13, 14, 16]
    );
    assert_eq!((p.order.assigned(), p.order.visible()), (16, 10));
    assert!(p.apply(two, 2, Fate::Works));
    assert_eq!(p.check(), 10, "the first group is in flight");
    assert!(p.apply(one, 1, Fate::Works));
    assert_eq!(p.check(), 15);
    assert!(p.apply(three, 3, Fate::Works));
    assert_eq!((p.check(), p.order.next()), (16, 17));
    p.order.publish_alone(17);
    assert_eq!((p.order.visible(), p.order.next()), (17, 18));
}

#[test]
fn a_group_without_numbers_is_finished_like_any_other() {
    let p = Pipeline::new();
    let empty = p.log(0, Fate::Works).unwrap();
    let full = p.log(1, Fate::Works).unwrap();
    assert!(p.apply(full, 1, Fate::Works));
    assert_eq!(p.order.visible(), 10);
    p.order.finish(empty);
    assert_eq!(p.check(), 11);
}

#[test]
fn a_failure_of_any_stage_holds_back_what_follows_and_its_numbers_are_given_to_nobody() {
    for fate in [Fate::LogFails, Fate::ApplyFails] {
        let p = Pipeline::new();
        assert!(p.write(2, 1, Fate::Works));
        // Ordered and logged before the failure, finished after it.
        let before = p.log(1, Fate::Works).unwrap();
        assert!(!p.write(2, 2, fate), "{fate:?}");
        assert!(!p.write(1, 3, Fate::Works), "W5: refused after {fate:?}");
        assert_eq!(p.check(), 12);
        let behind = p.order.begin(1);
        assert!(p.apply(before, 1, Fate::Works));
        assert_eq!(p.check(), 13, "the group before the failure is published");
        p.order.fail(Ticket {
            first: 14,
            last: 15,
        });
        p.order.finish(behind);
        assert!(p.order.wait(before), "it is visible");
        assert!(!p.order.wait(behind), "a group before it has failed");
        // Resumed.
        p.order.skip_assigned();
        p.log.lock().1 = false;
        assert_eq!((p.order.visible(), p.order.next()), (16, 17));
        assert!(p.order.wait(behind), "its numbers were given up");
        assert!(p.write(1, 4, Fate::Works));
        assert_eq!(p.order.visible(), 17);
    }
}

#[test]
fn numbers_that_something_else_may_have_written_are_taken() {
    let order = CommitOrder::new(5);
    order.take(9);
    order.take(7);
    assert_eq!((order.visible(), order.next()), (5, 10));
    order.skip_assigned();
    assert_eq!(order.visible(), 9);
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn many_writers_publish_in_order() {
    let p = Pipeline::new();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let p = &p;
            scope.spawn(move || {
                for n in 0..200 {
                    let ticket = p.log(1 + n % 3, Fate::Works).unwrap();
                    assert!(p.apply(ticket, writer, Fate::Works));
                    p.order.wait(ticket);
                    assert!(p.check() >= ticket.last, "read your own write");
                }
            });
        }
    });
    assert_eq!(p.check(), p.order.assigned());
    let log = &p.log.lock().0;
    assert!(log.windows(2).all(|w| w[0].last + 1 == w[1].first), "W2");
}

/// Two groups in flight and a reader, a failure among them: under every schedule that is tried, what is visible is
/// applied, never sinks, and waiters come back.
#[cfg(shuttle)]
#[test]
fn shuttle_finds_no_bad_order_of_groups_in_flight() {
    super::super::explore("commit order", || {
        let p = Pipeline::new();
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let p = Arc::clone(&p);
                shuttle::thread::spawn(move || {
                    for n in 0..2 {
                        let Some(ticket) = p.log(1 + (writer + n) % 2, Fate::Works) else {
                            return;
                        };
                        assert!(p.apply(ticket, writer, Fate::Works));
                        p.order.wait(ticket);
                        assert!(p.check() >= ticket.last);
                    }
                })
            })
            .collect();
        let reader = Arc::clone(&p);
        let reader = shuttle::thread::spawn(move || {
            let mut seen = 0;
            for _ in 0..4 {
                let now = reader.check();
                assert!(now >= seen, "W3: sank from {seen} to {now}");
                seen = now;
                shuttle::thread::yield_now();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        reader.join().unwrap();
        assert_eq!(p.check(), p.order.assigned());
    });
}
