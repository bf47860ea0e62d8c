//! The tests of `rocksdb`.

use super::*;
use crate::{SpeedUpInput, stall_condition, wants_speed_up};

fn calm() -> StallInput {
    StallInput {
        immutable_count: 0,
        max_write_buffer_number: 2,
        min_write_buffer_number_to_merge: 1,
        l0_files: 0,
        level0_slowdown_writes_trigger: 20,
        level0_stop_writes_trigger: 36,
        pending_compaction_bytes: 0,
        soft_pending_compaction_bytes_limit: 1000,
        hard_pending_compaction_bytes_limit: 2000,
        disable_auto_compactions: false,
    }
}

#[test]
fn the_first_rule_that_holds_decides() {
    use StallCause::{
        L0FileCountLimit as L0, MemtableLimit as Mem, PendingCompactionBytes as Debt,
    };
    use StallCondition::{Delayed, Normal, Stopped};
    let with_memtables = |immutable_count, max, merge| StallInput {
        immutable_count,
        max_write_buffer_number: max,
        min_write_buffer_number_to_merge: merge,
        ..calm()
    };
    let with_files = |l0_files| StallInput { l0_files, ..calm() };
    let with_debt = |pending_compaction_bytes| StallInput {
        pending_compaction_bytes,
        ..calm()
    };
    let off = |input| StallInput {
        disable_auto_compactions: true,
        ..input
    };
    let cases = [
        (calm(), Normal),
        (with_memtables(1, 2, 1), Normal),
        (with_memtables(2, 2, 1), Stopped(Mem)),
        (with_memtables(2, 3, 1), Normal),
        (with_memtables(2, 4, 1), Normal),
        (with_memtables(3, 4, 1), Delayed(Mem)),
        (with_memtables(3, 4, 2), Delayed(Mem)),
        (with_memtables(3, 4, 3), Normal),
        (with_memtables(4, 4, 3), Stopped(Mem)),
        (with_files(19), Normal),
        (with_files(20), Delayed(L0)),
        (with_files(35), Delayed(L0)),
        (with_files(36), Stopped(L0)),
        (off(with_files(36)), Normal),
        (
            StallInput {
                level0_slowdown_writes_trigger: -1,
                ..with_files(35)
            },
            Normal,
        ),
        (with_debt(999), Normal),
        (with_debt(1000), Delayed(Debt)),
        (with_debt(2000), Stopped(Debt)),
        (off(with_debt(2000)), Normal),
        (off(with_memtables(2, 2, 1)), Stopped(Mem)),
        (
            StallInput {
                soft_pending_compaction_bytes_limit: 0,
                ..with_debt(1999)
            },
            Normal,
        ),
        (
            StallInput {
                hard_pending_compaction_bytes_limit: 0,
                ..with_debt(9999)
            },
            Delayed(Debt),
        ),
        (
            StallInput {
                l0_files: 36,
                ..with_memtables(2, 2, 1)
            },
            Stopped(Mem),
        ),
        (
            StallInput {
                pending_compaction_bytes: 2000,
                ..with_files(20)
            },
            Stopped(Debt),
        ),
        (
            StallInput {
                pending_compaction_bytes: 1000,
                ..with_files(20)
            },
            Delayed(L0),
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(stall_condition(&input), expected, "{input:?}");
    }
}

fn speed_up() -> SpeedUpInput {
    SpeedUpInput {
        level0_file_num_compaction_trigger: 4,
        level0_slowdown_writes_trigger: 20,
        soft_pending_compaction_bytes_limit: 4000,
        max_bytes_for_level_base: 100,
        ..SpeedUpInput::default()
    }
}

#[test]
fn compaction_speeds_up_before_writes_are_delayed() {
    let with_files = |l0_files| SpeedUpInput {
        l0_files,
        ..speed_up()
    };
    // min(2 x 4, 4 + (20 - 4) / 4) = 8.
    assert!(!wants_speed_up(&with_files(7)));
    assert!(wants_speed_up(&with_files(8)));
    let near = |l0_files| SpeedUpInput {
        level0_slowdown_writes_trigger: 8,
        ..with_files(l0_files)
    };
    assert!(!wants_speed_up(&near(4)) && wants_speed_up(&near(5)));
    let off = SpeedUpInput {
        level0_file_num_compaction_trigger: -1,
        ..with_files(50)
    };
    assert!(!wants_speed_up(&off));

    let with_debt = |pending_compaction_bytes, bottommost_bytes| SpeedUpInput {
        pending_compaction_bytes,
        bottommost_bytes,
        ..speed_up()
    };
    assert!(!wants_speed_up(&with_debt(999, 0)) && wants_speed_up(&with_debt(1000, 0)));
    // An eighth of the data, but at least twice the base level.
    assert!(!wants_speed_up(&with_debt(199, 80)) && wants_speed_up(&with_debt(200, 80)));
    assert!(!wants_speed_up(&with_debt(499, 4000)) && wants_speed_up(&with_debt(500, 4000)));
    let no_limit = SpeedUpInput {
        soft_pending_compaction_bytes_limit: 0,
        ..with_debt(1 << 40, 80)
    };
    assert!(!wants_speed_up(&no_limit));

    assert!(!wants_speed_up(&SpeedUpInput {
        marked_files: 1,
        ..speed_up()
    }));
    assert!(wants_speed_up(&SpeedUpInput {
        marked_files: 2,
        ..speed_up()
    }));
}

/// Feeds one state and returns the rate afterwards.
fn step(c: &mut DelayController, l0_files: usize, debt: u64) -> u64 {
    let input = StallInput {
        l0_files,
        pending_compaction_bytes: debt,
        ..calm()
    };
    c.update(&stall_condition(&input), &input);
    c.current_rate()
}

#[test]
fn the_rate_falls_with_growing_debt_and_rises_with_shrinking_debt() {
    let mut c = DelayController::new(1_000_000);
    assert_eq!(step(&mut c, 0, 0), 0);
    // Entering the delay leaves the rate as it is.
    assert_eq!(step(&mut c, 20, 100), 1_000_000);
    assert_eq!(
        step(&mut c, 21, 100),
        800_000,
        "debt that does not shrink counts as growing"
    );
    assert_eq!(step(&mut c, 22, 300), 640_000);
    assert_eq!(step(&mut c, 22, 200), 800_000);
    assert_eq!(step(&mut c, 22, 100), 1_000_000);
    assert_eq!(step(&mut c, 22, 90), 1_000_000, "never above the maximum");
    // Two files before the stop.
    assert_eq!(step(&mut c, 34, 80), 600_000);
    assert_eq!(step(&mut c, 36, 80), 0);
    assert!(c.stopped);
    // Behind a stop no delay was active: the rate stays.
    assert_eq!(step(&mut c, 30, 80), 600_000);
    // Leaving the delay.
    assert_eq!(step(&mut c, 0, 80), 0);
    assert_eq!(step(&mut c, 20, 80), 840_000);
    assert_eq!(step(&mut c, 0, 80), 0);
    assert_eq!(step(&mut c, 20, 80), 1_000_000);
}

#[test]
fn debt_near_the_hard_limit_is_penalised() {
    let mut c = DelayController::new(1_000_000);
    assert_eq!(step(&mut c, 0, 1000), 1_000_000);
    assert_eq!(
        step(&mut c, 0, 1750),
        800_000,
        "three quarters of the way is not yet near"
    );
    assert_eq!(step(&mut c, 0, 1751), 480_000);
}

#[test]
fn the_rate_has_a_floor_unless_the_user_wants_less() {
    let mut c = DelayController::new(20_000);
    step(&mut c, 34, 1);
    assert_eq!(step(&mut c, 34, 1), MIN_RATE);
    assert_eq!(step(&mut c, 34, 1), MIN_RATE);
    let mut slow = DelayController::new(1000);
    step(&mut slow, 34, 1);
    assert_eq!(step(&mut slow, 34, 1), 1000);
    assert_eq!(DelayController::new(0).max_rate, 16 << 20);
}

#[test]
fn without_automatic_compaction_the_users_rate_is_used() {
    let mut c = DelayController::new(1_000_000);
    step(&mut c, 34, 1);
    assert_eq!(step(&mut c, 34, 1), 600_000);
    let input = StallInput {
        immutable_count: 3,
        max_write_buffer_number: 4,
        disable_auto_compactions: true,
        ..calm()
    };
    c.update(&stall_condition(&input), &input);
    assert_eq!(c.current_rate(), 1_000_000);
}

#[test]
fn a_write_without_credit_waits_for_what_it_lacks() {
    const MS: u64 = 1_000_000;
    let mut c = DelayController::new(1_000_000);
    assert_eq!(c.delay_for(5 * MS, 1 << 40), Duration::ZERO, "not delayed");
    step(&mut c, 20, 0);
    // One interval of credit, 1000 bytes, to begin with.
    assert_eq!(c.delay_for(100 * MS, 600), Duration::ZERO);
    assert_eq!(c.delay_for(100 * MS, 400), Duration::ZERO);
    // 500 bytes take 0.5 ms after the next refill in 1 ms.
    assert_eq!(c.delay_for(100 * MS, 500), Duration::from_micros(1500));
    // The debt of others counts.
    assert_eq!(c.delay_for(100 * MS, 10_000), Duration::from_micros(11_500));
    // All paid: the refill lies at 111.5 ms; half a millisecond later there is credit for 1.5 ms.
    assert_eq!(c.delay_for(112 * MS, 1500), Duration::ZERO);
    assert_eq!(c.delay_for(112 * MS, 1), Duration::from_micros(1001));
    // Entering the delay anew forgets old debt.
    step(&mut c, 0, 0);
    step(&mut c, 20, 0);
    assert_eq!(c.delay_for(112 * MS, 900), Duration::ZERO);
    // A small lack costs at least one interval.
    assert_eq!(
        c.delay_for(112 * MS + 900_000, 101),
        Duration::from_millis(1)
    );
}

#[test]
fn long_runs_of_writes_keep_to_the_rate() {
    let mut c = DelayController::new(1 << 20);
    step(&mut c, 20, 0);
    let (mut now, mut written) = (1_000_000_000_u64, 0_u64);
    let start = now;
    while written < 4 << 20 {
        now += u64::try_from(c.delay_for(now, 3000).as_nanos()).unwrap();
        written += 3000;
    }
    let seconds = (now - start) as f64 / 1e9;
    assert!((3.9..4.1).contains(&seconds), "{seconds}");
}
