//! The rule of placement without a database: its rows one by one, and loads with a known best place of the pointer.

use super::*;
use spanlith_testkit::{Rng, seed};

const GIB: u64 = 1 << 30;

fn facts(seconds: u64) -> Facts {
    Facts {
        now: seconds * SECOND,
        capacity: 100 * GIB,
        used: 10 * GIB,
        reserved: GIB,
        levels: vec![GIB, 2 * GIB, 20 * GIB, 200 * GIB],
        ..Facts::default()
    }
}

/// A log that takes so many times as long as calibrated.
fn log(times: f64) -> Option<LogTime> {
    Some(LogTime {
        nanos: (times * 1e4) as u64,
        calibrated: 10_000,
    })
}

/// A pointer of `auto` that was set to `quarters` at second 0.
fn auto(quarters: i32) -> Placement {
    Placement {
        pointer: Pointer(quarters),
        policy: Some(Policy::Auto),
        ..Placement::default()
    }
}

#[test]
fn fixed_policies_stay_whatever_is_measured() {
    let mut placement = Placement::default();
    assert_eq!(placement.look(Policy::Lad(3), &facts(1)), Some(Move::Set));
    let full = Facts {
        used: 100 * GIB,
        log: log(50.0),
        bandwidth: Some(1.0),
        ..facts(100)
    };
    assert_eq!(placement.look(Policy::Lad(3), &full), None);
    assert_eq!(placement.note_full(101 * SECOND), None);
    assert_eq!(placement.pointer(), Pointer::at(3));
    assert_eq!(placement.look(Policy::Pl, &full), Some(Move::Set));
    assert_eq!(placement.pointer(), Pointer::NOTHING);
}

#[test]
fn auto_begins_with_what_fits() {
    let begin = |levels: Vec<u64>| {
        let mut placement = Placement::default();
        placement.look(Policy::Auto, &Facts { levels, ..facts(1) });
        placement.pointer().levels()
    };
    // An empty database; one that fits; a third of its last level fits; nothing fits.
    assert!((begin(vec![0; 4]) - 4.0).abs() < 1e-9);
    assert!((begin(vec![GIB, 2 * GIB, 20 * GIB]) - 3.0).abs() < 1e-9);
    assert!((begin(vec![GIB, 2 * GIB, 20 * GIB, 200 * GIB]) - 3.25).abs() < 1e-9);
    assert!(begin(vec![200 * GIB]).abs() < 0.26);
}

/// The decision table: what is measured and where the pointer goes from 2.0.
#[test]
fn each_row_of_the_rule() {
    let base = || facts(100);
    let (space, load, room) = (Some(Move::Space), Some(Move::Load), Some(Move::Room));
    let rows: [(&str, Facts, Option<Move>, f64); 11] = [
        ("room and nothing known", base(), room, 2.25),
        (
            "space is short",
            Facts {
                used: 93 * GIB,
                ..base()
            },
            space,
            1.5,
        ),
        (
            "space goes before load",
            Facts {
                used: 93 * GIB,
                log: log(9.0),
                ..base()
            },
            space,
            1.5,
        ),
        (
            "between the bands of space",
            Facts {
                used: 88 * GIB,
                ..base()
            },
            None,
            2.0,
        ),
        (
            "the log waits",
            Facts {
                log: log(4.1),
                ..base()
            },
            load,
            1.75,
        ),
        (
            "the log is between its bands",
            Facts {
                log: log(3.0),
                ..base()
            },
            None,
            2.0,
        ),
        (
            "the log is quick",
            Facts {
                log: log(1.9),
                ..base()
            },
            room,
            2.25,
        ),
        (
            "the bandwidth is taken",
            Facts {
                bandwidth: Some(0.66),
                ..base()
            },
            load,
            1.75,
        ),
        (
            "between the bands of bandwidth",
            Facts {
                bandwidth: Some(0.5),
                ..base()
            },
            None,
            2.0,
        ),
        (
            "bandwidth is left",
            Facts {
                bandwidth: Some(0.39),
                ..base()
            },
            room,
            2.25,
        ),
        (
            "the next level does not fit",
            Facts {
                levels: vec![GIB, 2 * GIB, 999 * GIB],
                ..base()
            },
            None,
            2.0,
        ),
    ];
    for (what, facts, moved, levels) in rows {
        let mut placement = auto(8);
        assert_eq!(placement.look(Policy::Auto, &facts), moved, "{what}");
        assert!(
            (placement.pointer().levels() - levels).abs() < 1e-9,
            "{what}"
        );
    }
    // The ends: load goes down to the log alone, space only to flushes, room to all levels.
    let busy = Facts {
        log: log(9.0),
        ..base()
    };
    assert_eq!(auto(-4).look(Policy::Auto, &busy), None);
    assert_eq!(auto(0).look(Policy::Auto, &busy), load);
    let full = Facts {
        used: 99 * GIB,
        ..base()
    };
    assert_eq!(auto(0).look(Policy::Auto, &full), None);
    let small = Facts {
        levels: vec![GIB, GIB],
        ..base()
    };
    assert_eq!(auto(8).look(Policy::Auto, &small), None);
}

#[test]
fn a_move_is_held_and_what_went_up_stays_up() {
    let mut placement = auto(8);
    let busy = |s| Facts {
        log: log(9.0),
        ..facts(s)
    };
    assert_eq!(placement.look(Policy::Auto, &busy(100)), Some(Move::Load));
    assert_eq!(placement.look(Policy::Auto, &busy(102)), None, "held");
    assert_eq!(placement.look(Policy::Auto, &busy(103)), Some(Move::Load));
    assert_eq!(
        placement.look(Policy::Auto, &facts(132)),
        None,
        "no way down yet"
    );
    assert_eq!(placement.look(Policy::Auto, &facts(133)), Some(Move::Room));
    assert_eq!(
        placement.note_full(133 * SECOND),
        Some(Move::Space),
        "at once"
    );
    assert!(
        placement.is_due(Policy::Auto, 134 * SECOND)
            && !placement.is_due(Policy::Auto, 133 * SECOND + 1)
    );
    assert!(placement.is_due(Policy::Pl, 133 * SECOND + 1));
}

/// A load that depends on the pointer, as a real one does: with more levels on the disk the log waits longer.
#[test]
fn under_a_steady_load_the_pointer_does_not_swing() {
    for at in [0.5, 1.0, 1.7, 2.4, 3.1] {
        let mut placement = auto(16);
        let mut moves = Vec::new();
        for second in 1..=1200 {
            let levels = placement.pointer().levels();
            // One quarter of a level moves the time by a third of the way between the bands.
            let times = 3.0 + (levels - at) * 8.0 / 3.0;
            let facts = Facts {
                levels: vec![GIB; 4],
                log: log(times.max(1.0)),
                ..facts(second)
            };
            if placement.look(Policy::Auto, &facts).is_some() {
                moves.push(second);
            }
        }
        let late = moves.iter().filter(|s| **s > 200).count();
        assert_eq!(late, 0, "at {at}: {moves:?}");
        assert!((placement.pointer().levels() - at).abs() <= 0.6, "at {at}");
    }
}

/// A load between two states that a second tells apart moves the pointer at most once in thirty seconds each way.
#[test]
fn a_load_that_leaps_moves_the_pointer_rarely() {
    let mut placement = auto(16);
    let mut downs = 0;
    for second in 1..=600 {
        let facts = Facts {
            levels: vec![GIB; 4],
            log: log(if second % 2 == 0 { 9.0 } else { 1.0 }),
            ..facts(second)
        };
        downs += u32::from(placement.look(Policy::Auto, &facts) == Some(Move::Room));
    }
    assert!(downs <= 600 / 30, "{downs}");
}

/// A machine of two disks on which the time of a read, or of a byte of work, depends on what each has to do.
///
/// Calls share between the disks as the bytes of tables do. The tables follow the pointer at some bytes a second.
struct Machine {
    rng: Rng,
    /// Hundredths by which a second's times are off.
    noise: u64,
    /// Bytes of tables that are written anew in a second.
    renewed: f64,
    /// Requests by second that the calls need; what each disk can do alone, and its time for one when it is idle.
    asked: f64,
    fast: (f64, f64),
    other: (f64, f64),
    /// Calls wait for work and not for reads.
    is_held: bool,
    used: f64,
    placement: Placement,
    facts: Facts,
}

impl Machine {
    fn new(name: &str, noise: u64) -> Self {
        let seed = seed(name);
        eprintln!("{name}: seed {seed}");
        Self {
            rng: Rng::new(seed),
            noise,
            renewed: 2.0 * GIB as f64,
            asked: 100_000.0,
            fast: (200_000.0, 10_000.0),
            other: (200_000.0, 10_000.0),
            is_held: false,
            used: 0.0,
            placement: auto(0),
            facts: Facts {
                now: SECOND,
                capacity: 1000 * GIB,
                levels: vec![100 * GIB; 4],
                ..Facts::default()
            },
        }
    }

    /// Share of the requests that the speed disk has.
    fn share(&self) -> f64 {
        self.used / (400 * GIB) as f64
    }

    /// Times of a request with the share `x` on the speed disk.
    fn times(&self, x: f64) -> (f64, f64) {
        let of = |(most, idle): (f64, f64), part: f64| {
            idle / (1.0 - (self.asked * part / most).min(0.95))
        };
        (of(self.fast, x), of(self.other, 1.0 - x))
    }

    /// Mean time of a request.
    fn cost(&self, x: f64) -> f64 {
        let (fast, other) = self.times(x);
        x * fast + (1.0 - x) * other
    }

    /// The least that any share of quarters of levels reaches.
    fn best(&self) -> f64 {
        let all = (0..=16).map(|q| self.cost(f64::from(q) / 16.0));
        all.fold(f64::INFINITY, f64::min)
    }

    fn second(&mut self) {
        let pointer = self.placement.pointer();
        let aim = pointer.expected(&self.facts.levels) as f64;
        self.used += (aim - self.used).clamp(-self.renewed, self.renewed);
        let x = self.share();
        let (fast, other) = self.times(x);
        let mut off = || {
            let noise = self.noise.max(1);
            (100 - noise + self.rng.below(2 * noise)) as f64 / 100.0
        };
        let (fast, other) = (fast * off(), other * off());
        let (here, there) = (self.asked * x, self.asked * (1.0 - x));
        let facts = &mut self.facts;
        facts.now += SECOND;
        facts.used = self.used as u64;
        for (of, n, nanos) in [
            (&mut facts.fast, here, fast),
            (&mut facts.other, there, other),
        ] {
            match self.is_held {
                // A request of work is one of 16 KiB.
                true => {
                    of.outputs += n as u64 * (16 << 10);
                    of.outputs_nanos += (n * nanos) as u64;
                }
                false => {
                    of.reads += n as u64;
                    of.reads_nanos += (n * nanos) as u64;
                }
            }
        }
        facts.held_nanos += if self.is_held { SECOND } else { 0 };
        self.placement.look(Policy::Auto, &self.facts);
    }

    /// Mean cost of some seconds, over the least.
    fn run(&mut self, seconds: u32) -> f64 {
        let mut sum = 0.0;
        for _ in 0..seconds {
            self.second();
            sum += self.cost(self.share());
        }
        sum / f64::from(seconds) / self.best()
    }
}

/// Disks of several speeds under several loads: the pointer comes to where calls wait least, and stays about there.
#[test]
fn the_pointer_finds_the_place_at_which_calls_wait_least() {
    // R-SPAN-33, R-SPAN-34.
    for is_held in [false, true] {
        for noise in [0, 20] {
            for (n, (fast, other)) in [
                // Alike; the speed disk four times as fast; the other one faster; both more than half full.
                ((150_000.0, 10_000.0), (150_000.0, 10_000.0)),
                ((400_000.0, 10_000.0), (130_000.0, 40_000.0)),
                ((60_000.0, 40_000.0), (400_000.0, 10_000.0)),
                ((100_000.0, 10_000.0), (80_000.0, 10_000.0)),
            ]
            .into_iter()
            .enumerate()
            {
                let name = format!("placement-{is_held}-{noise}-{n}");
                let mut machine = Machine::new(&name, noise);
                (machine.fast, machine.other, machine.is_held) = (fast, other, is_held);
                machine.run(900);
                let over = machine.run(900);
                assert!(over < 1.25, "{name}: {over} at {}", machine.share());
            }
        }
    }
}

/// A load that turns: the pointer follows to the new place within some minutes, each time.
#[test]
fn the_pointer_follows_a_load_that_changes() {
    let mut machine = Machine::new("placement-turns", 10);
    for turn in 0..6 {
        (machine.fast, machine.other) = match turn % 2 {
            0 => ((400_000.0, 10_000.0), (150_000.0, 40_000.0)),
            _ => ((150_000.0, 40_000.0), (400_000.0, 10_000.0)),
        };
        machine.is_held = turn % 3 == 2;
        machine.run(900);
        let over = machine.run(300);
        assert!(over < 1.25, "turn {turn}: {over} at {}", machine.share());
    }
}

/// Where the pointer stands well, noise alone does not move it to and fro.
#[test]
fn noise_moves_the_pointer_rarely() {
    let mut machine = Machine::new("placement-noise", 25);
    (machine.fast, machine.other) = ((150_000.0, 10_000.0), (150_000.0, 10_000.0));
    machine.run(900);
    let (mut moves, mut last) = (0, machine.placement.pointer());
    for _ in 0..3600 {
        machine.second();
        let now = machine.placement.pointer();
        moves += u32::from(now != last);
        last = now;
    }
    assert!(moves <= 36, "{moves} moves in an hour");
}

/// A log that waits is a reason to go up only where writers lose more by it than readers gain.
#[test]
fn readers_outweigh_a_log_that_few_wait_for() {
    let reads = |count: u64, each: u64| Asked {
        reads: count,
        reads_nanos: count * each,
        ..Asked::default()
    };
    let with = |writes| Facts {
        writes,
        fast: reads(100_000, 10_000),
        other: reads(100_000, 110_000),
        log: log(6.0),
        ..facts(100)
    };
    // 100 000 reads gain 100 us each; a write loses 50 us.
    assert_eq!(auto(8).look(Policy::Auto, &with(1000)), Some(Move::Room));
    let moved = auto(8).look(Policy::Auto, &with(1_000_000));
    assert_eq!(moved, Some(Move::Load));
    // Nobody knows what readers gain.
    let unknown = Facts {
        other: Asked::default(),
        ..with(1000)
    };
    assert_eq!(auto(8).look(Policy::Auto, &unknown), Some(Move::Load));
}

/// A quarter more comes only once the tables of the last one are there, or after half a minute.
#[test]
fn the_pointer_waits_for_the_tables_that_it_counts() {
    let levels = vec![10 * GIB; 4];
    let look = |placement: &mut Placement, seconds, used| {
        let facts = Facts {
            used: used * GIB,
            levels: levels.clone(),
            ..facts(seconds)
        };
        placement.look(Policy::Auto, &facts)
    };
    let mut placement = auto(8);
    placement.moved = 95 * SECOND;
    assert_eq!(look(&mut placement, 100, 16), None);
    assert_eq!(look(&mut placement, 101, 17), Some(Move::Room));
    assert_eq!(look(&mut placement, 110, 17), None);
    assert_eq!(look(&mut placement, 131, 17), Some(Move::Room));
}
