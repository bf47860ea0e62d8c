//! The driver over the double: order, groups, followers, flights, and failures and panics at each stage.

use super::Stage;
use super::double::{At, BEGAN, Double, Fault, Numbers, Record};
use super::pipeline::PARALLEL_BYTES;
use spanlith_base::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn numbers(writer: u32) -> Numbers {
    Numbers {
        writer,
        count: 1 + writer % 3,
        bytes: 20,
    }
}

/// So large that a group of such writers inserts in parallel.
fn large(writer: u32) -> Numbers {
    Numbers {
        bytes: PARALLEL_BYTES,
        ..numbers(writer)
    }
}

/// Three writers that ask for a sync and form one group; `None` for one that panicked.
fn write_group(double: &Double, of: fn(u32) -> Numbers) -> Vec<Option<Result<u64>>> {
    std::thread::scope(|scope| {
        let write = |writer| {
            move || {
                let write = AssertUnwindSafe(|| double.write(of(writer), true));
                catch_unwind(write).ok()
            }
        };
        let writers: Vec<_> = (1..=3).map(|writer| scope.spawn(write(writer))).collect();
        writers.into_iter().map(|w| w.join().unwrap()).collect()
    })
}

fn oks(results: &[Option<Result<u64>>]) -> usize {
    results.iter().flatten().filter(|r| r.is_ok()).count()
}

#[test]
fn a_lone_writer_is_logged_inserted_and_published() {
    let double = Double::new(1);
    assert_eq!(double.write(numbers(2), false).unwrap(), BEGAN + 1);
    assert_eq!(double.write(numbers(1), false).unwrap(), BEGAN + 4);
    assert_eq!(double.visible(), BEGAN + 5);
    assert_eq!(double.records().len(), 2);
    assert_eq!((double.published_calls(), double.inserted_beside()), (2, 0));
}

#[test]
fn a_group_is_one_record_with_the_numbers_of_all_its_writers() {
    for (of, beside) in [(numbers as fn(u32) -> Numbers, 0), (large, 2)] {
        let double = Double::new(1).in_groups_of(3);
        let results = write_group(&double, of);
        assert_eq!(oks(&results), 3);
        let [
            Record {
                first,
                count,
                writers,
            },
        ] = &double.records()[..]
        else {
            panic!("{:?}", double.records());
        };
        // 2, 3 and 1 numbers.
        assert_eq!((*first, *count, writers.len()), (BEGAN + 1, 6, 3));
        assert_eq!(double.visible(), BEGAN + 6);
        assert_eq!(double.inserted_beside(), beside, "followers that insert");
        assert_eq!(double.published_calls(), 3);
    }
}

#[test]
fn a_request_that_is_refused_fails_alone() {
    let alone = Double::new(1).with(At::Check(1), Fault::Fails);
    assert!(alone.write(numbers(1), false).is_err());
    assert_eq!(
        (alone.records().len(), alone.visible(), alone.next()),
        (0, BEGAN, BEGAN + 1)
    );
    for of in [numbers as fn(u32) -> Numbers, large] {
        let double = Double::new(1)
            .in_groups_of(3)
            .with(At::Check(2), Fault::Fails);
        let results = write_group(&double, of);
        let refused = results[1].as_ref().unwrap().as_ref().unwrap_err();
        assert!(refused.to_string().contains("refused"), "{refused}");
        assert_eq!(oks(&results), 2);
        assert!(!double.records()[0].writers.contains(&2));
        // 2 numbers and 1.
        assert_eq!(double.visible(), BEGAN + 3);
        assert_eq!(double.failures(), []);
        assert!(double.write(numbers(4), false).is_ok(), "others go on");
    }
}

#[test]
fn a_failure_of_any_stage_fails_the_whole_group_and_publishes_nothing() {
    let stages = [
        (At::Log(2), Stage::Log),
        (At::Sync(0), Stage::Log),
        (At::Insert(2), Stage::Insert),
    ];
    for (at, stage) in stages {
        for of in [numbers as fn(u32) -> Numbers, large] {
            let double = Double::new(1).in_groups_of(3).with(at, Fault::Fails);
            let results = write_group(&double, of);
            assert_eq!((results.iter().flatten().count(), oks(&results)), (3, 0));
            assert_eq!(double.failures(), [stage], "{at:?}");
            assert_eq!(double.visible(), BEGAN, "{at:?}: nothing is visible");
            assert_eq!(
                double.next(),
                BEGAN + 7,
                "{at:?}: numbers are given out once"
            );
            assert!(double.write(numbers(4), false).is_err(), "{at:?}: W5");
        }
    }
}

#[test]
fn a_failure_of_any_stage_of_a_lone_writer_publishes_nothing() {
    for (at, stage) in [(At::Log(1), Stage::Log), (At::Insert(1), Stage::Insert)] {
        let double = Double::new(1).with(at, Fault::Fails);
        assert!(double.write(numbers(1), false).is_err());
        assert_eq!(double.failures(), [stage]);
        assert_eq!(double.visible(), BEGAN);
        let e = double.write(numbers(2), false).unwrap_err();
        assert!(e.to_string().contains("a stage has failed"), "{e}");
    }
    let log = Double::new(1).with(At::Log(1), Fault::Fails);
    assert!(log.write(numbers(1), false).is_err());
    assert_eq!(log.next(), BEGAN + 3, "its numbers may be in the log");
}

#[test]
fn a_panic_of_any_stage_fails_the_group_and_leaves_nobody_waiting() {
    for at in [At::Log(2), At::Sync(0), At::Insert(2), At::Check(2)] {
        for of in [numbers as fn(u32) -> Numbers, large] {
            let double = Double::new(1).in_groups_of(3).with(at, Fault::Panics);
            let results = write_group(&double, of);
            assert_eq!(
                results.iter().filter(|r| r.is_none()).count(),
                1,
                "{at:?}: one thread unwinds"
            );
            assert_eq!(oks(&results), 0, "{at:?}");
            assert_eq!(double.visible(), BEGAN, "{at:?}");
            assert!(double.write(numbers(4), false).is_err(), "{at:?}: W5");
        }
    }
}

#[test]
fn a_panic_while_room_is_made_leaves_nobody_waiting() {
    let double = Double::new(1).with(At::Room, Fault::Panics);
    let write = |writer| catch_unwind(AssertUnwindSafe(|| double.write(numbers(writer), false)));
    assert!(write(1).is_err(), "it unwinds");
    assert!(write(2).is_err(), "the next one leads, and unwinds too");
    assert_eq!((double.visible(), double.records().len()), (BEGAN, 0));
}

#[test]
fn a_leader_without_room_waits_and_leads_on() {
    let double = Double::new(1);
    double.fill();
    assert_eq!(double.write(numbers(1), false).unwrap(), BEGAN + 1);
    assert_eq!(double.visible(), BEGAN + 2);
    let refused = Double::new(1).with(At::Room, Fault::Fails);
    assert!(refused.write(numbers(1), false).is_err());
    assert_eq!(refused.failures(), [], "a refusal is no failure");
    assert_eq!((refused.records().len(), refused.visible()), (0, BEGAN));
}

#[test]
fn two_groups_in_flight_become_visible_in_order() {
    let double = &Double::new(2).holding_syncs();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| double.write(numbers(1), true));
        assert_eq!(double.await_syncs(1), [BEGAN + 1]);
        let two = scope.spawn(|| double.write(numbers(2), true));
        assert_eq!(double.await_syncs(2), [BEGAN + 1, BEGAN + 3]);
        assert_eq!(double.records().len(), 2, "both are logged");
        double.land(BEGAN + 3);
        double.await_inserted(BEGAN + 5);
        assert_eq!(double.visible(), BEGAN, "the first one is in flight");
        double.land(BEGAN + 1);
        assert_eq!(one.join().unwrap().unwrap(), BEGAN + 1);
        assert_eq!(two.join().unwrap().unwrap(), BEGAN + 3);
        assert_eq!(double.visible(), BEGAN + 5);
    });
    // One that does not fly finds none in flight.
    assert_eq!(double.write(numbers(3), false).unwrap(), BEGAN + 6);
}

#[test]
fn a_group_whose_sync_fails_in_flight_takes_those_after_it_along() {
    let double = &Double::new(2)
        .holding_syncs()
        .with(At::Sync(BEGAN + 1), Fault::Fails);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| double.write(numbers(1), true));
        double.await_syncs(1);
        let two = scope.spawn(|| double.write(numbers(2), true));
        double.await_syncs(2);
        double.land(BEGAN + 3);
        double.await_inserted(BEGAN + 5);
        double.land(BEGAN + 1);
        let e = one.join().unwrap().unwrap_err();
        assert!(e.to_string().contains("Sync"), "{e}");
        let e = two.join().unwrap().unwrap_err();
        assert!(e.to_string().contains("a stage has failed"), "{e}");
    });
    assert_eq!(double.failures(), [Stage::Log]);
    assert_eq!((double.visible(), double.next()), (BEGAN, BEGAN + 6));
    assert!(double.write(numbers(3), true).is_err(), "W5");
}

#[test]
fn a_group_before_one_that_fails_in_flight_becomes_visible() {
    for at in [At::Sync(BEGAN + 3), At::Insert(2)] {
        for fault in [Fault::Fails, Fault::Panics] {
            let double = &Double::new(2).holding_syncs().with(at, fault);
            std::thread::scope(|scope| {
                let one = scope.spawn(|| double.write(numbers(1), true));
                double.await_syncs(1);
                let two = scope
                    .spawn(|| catch_unwind(AssertUnwindSafe(|| double.write(numbers(2), true))));
                double.await_syncs(2);
                double.land(BEGAN + 3);
                let two = two.join().unwrap();
                assert_eq!(two.is_err(), fault == Fault::Panics, "{at:?}");
                assert!(two.map_or(true, |r| r.is_err()), "{at:?}");
                double.land(BEGAN + 1);
                assert_eq!(one.join().unwrap().unwrap(), BEGAN + 1, "{at:?}");
            });
            assert_eq!(double.visible(), BEGAN + 2, "{at:?}");
            assert_eq!(double.failures().len(), 1, "{at:?}");
        }
    }
}

#[test]
fn a_group_that_fails_before_it_flies_is_its_own_failure() {
    for fault in [Fault::Fails, Fault::Panics] {
        let double = Double::new(2).with(At::Log(1), fault);
        let write = catch_unwind(AssertUnwindSafe(|| double.write(numbers(1), true)));
        assert!(write.map_or(true, |r| r.is_err()));
        assert_eq!((double.visible(), double.next()), (BEGAN, BEGAN + 3));
        assert!(double.write(numbers(2), false).is_err(), "W5");
    }
}

#[test]
fn no_more_groups_fly_than_may() {
    // The double counts those in flight when it sends one off.
    let double = &Double::new(2).holding_syncs();
    std::thread::scope(|scope| {
        let write = |writer| move || double.write(numbers(writer), true);
        let one = scope.spawn(write(1));
        double.await_syncs(1);
        let two = scope.spawn(write(2));
        double.await_syncs(2);
        let three = scope.spawn(write(3));
        double.land(BEGAN + 1);
        assert_eq!(one.join().unwrap().unwrap(), BEGAN + 1);
        assert_eq!(double.await_syncs(2), [BEGAN + 3, BEGAN + 6]);
        double.land(BEGAN + 3);
        double.land(BEGAN + 6);
        assert!(two.join().unwrap().is_ok() && three.join().unwrap().is_ok());
    });
    assert_eq!(double.visible(), BEGAN + 6);
}

#[test]
fn a_leader_that_is_measured_gets_the_times_of_all_stages_in_order() {
    let all = [Stage::Room, Stage::Log, Stage::Insert, Stage::Publish];
    for (most, sync) in [(1, false), (1, true), (2, true)] {
        let mut times = Vec::new();
        let double = Double::new(most);
        let written = double.write_timed(numbers(1), sync, Some(&mut times));
        assert_eq!(written.unwrap(), BEGAN + 1);
        // A group that takes off needs no room.
        let skipped = usize::from(most == 2);
        assert_eq!(times, all[skipped..], "{most} in flight, {sync}");
    }
}
