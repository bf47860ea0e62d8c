//! Which tables go to the speed disk: a rule of what is measured, without I/O, lock or clock.
//!
//! The *pointer* counts levels from the top in quarters. Tables of a level above it go to the speed disk, of the level
//! that it stands in a part, chosen by the number of the file, and those below it to the other disk. At 0 only flushes
//! go there, and at -1 nothing does. It says where new tables go and moves none: a level may have tables on both disks.
//!
//! With the policy `auto` the pointer is moved at most once a second, by the first of these that holds:
//!
//! | what is measured | the pointer goes |
//! |---|---|
//! | less than 8 % of the space is free | half a level up, to 0 at most |
//! | writes of the log take more than 4 times as long as calibrated, or tables take more than 65 % of the bandwidth | a quarter up, to -1 at most |
//! | more than 15 % is free, the level that comes fits into 85 %, writes of the log take less than twice as long, and tables less than 40 % of the bandwidth | a quarter down |
//!
//! *Up* is to fewer levels. After a move it stays for three seconds, and after it went up it does not come down for thirty.
//! A quantity that nobody measured (a bandwidth, a calibrated log) decides nothing.

use std::fmt;
use std::str::FromStr;

/// Parts of a level that the pointer tells apart.
const PARTS: i32 = 4;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Time between two looks.
const TICK: u64 = SECOND;
/// How long the pointer stays where it was moved to.
const HOLD: u64 = 3 * SECOND;
/// How long it does not come down after it went up.
const HOLD_DOWN: u64 = 30 * SECOND;
/// Shares of the space, in hundredths.
const SPACE_LOW: u64 = 8;
const SPACE_HIGH: u64 = 15;
const FILL: u64 = 85;
/// Shares of the bandwidth.
const BANDWIDTH_LOW: f64 = 0.40;
const BANDWIDTH_HIGH: f64 = 0.65;
/// Times that writes of the log may take, by what was calibrated.
const LOG_LOW: f64 = 2.0;
const LOG_HIGH: f64 = 4.0;
/// Most levels that a policy may name.
const LEVELS_MAX: u8 = 64;

/// Says which levels go to the speed disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The log alone.
    Pl,
    /// Flushes, and so many levels from the top.
    Lad(u8),
    /// As space, bandwidth and the log allow.
    #[default]
    Auto,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pl => f.write_str("pl"),
            Self::Lad(levels) => write!(f, "lad:{levels}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Policy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(':') {
            None if text == "pl" => Ok(Self::Pl),
            None if text == "auto" => Ok(Self::Auto),
            Some(("lad", levels)) => {
                let levels = levels.parse().map_err(|_| ())?;
                (levels <= LEVELS_MAX)
                    .then_some(Self::Lad(levels))
                    .ok_or(())
            }
            _ => Err(()),
        }
    }
}

/// Where a table goes by its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer(i32);

impl Pointer {
    /// Nothing goes to the speed disk.
    pub const NOTHING: Self = Self(-PARTS);

    /// Flushes and `levels` levels go there.
    pub fn at(levels: u8) -> Self {
        Self(i32::from(levels) * PARTS)
    }

    /// The pointer as it was stored by [`Self::stored`].
    pub fn load(stored: i32) -> Self {
        Self(stored.max(-PARTS))
    }

    /// The pointer as a number.
    pub fn stored(self) -> i32 {
        self.0
    }

    /// The pointer in levels.
    pub fn levels(self) -> f64 {
        f64::from(self.0) / f64::from(PARTS)
    }

    /// Returns whether the table `number` of the level `rank`, counted from the top, goes to the speed disk.
    pub fn takes(self, rank: u32, number: u64, is_flush: bool) -> bool {
        if is_flush && self.0 >= 0 {
            return true;
        }
        let part = self.part_of(rank);
        // The numbers of neighbours are spread by a multiplication; the highest bits are the best mixed.
        let drawn = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as i32;
        drawn < part
    }

    /// Returns whether any table of the level goes there.
    pub fn takes_any(self, rank: u32) -> bool {
        self.part_of(rank) > 0
    }

    /// Quarters of a level that go there.
    fn part_of(self, rank: u32) -> i32 {
        let above = i32::try_from(rank).map_or(i32::MAX, |rank| rank.saturating_mul(PARTS));
        self.0.saturating_sub(above).clamp(0, PARTS)
    }

    /// Bytes that stand on the speed disk once all tables are where the pointer says.
    fn expected(self, levels: &[u64]) -> u64 {
        let of = |(rank, bytes): (usize, &u64)| {
            let part = self.part_of(u32::try_from(rank).unwrap_or(u32::MAX));
            u128::from(*bytes) * u128::from(part.unsigned_abs()) / PARTS as u128
        };
        let all: u128 = levels.iter().enumerate().map(of).sum();
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// The findings of a look.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Nanoseconds of a clock that never goes back.
    pub now: u64,
    /// Bytes that tables may take on the speed disk.
    pub capacity: u64,
    /// Bytes that they take, and those that are being written.
    pub used: u64,
    /// Bytes kept free for what flushes and compactions write next.
    pub reserved: u64,
    /// Bytes of each level, wherever they are, from the top.
    pub levels: Vec<u64>,
    /// Share of the bandwidth that tables take; `None` if nobody knows.
    pub bandwidth: Option<f64>,
    /// Time of a durable write of the log, by the calibrated one; `None` if nobody knows.
    pub log: Option<f64>,
}

impl Facts {
    /// Hundredths of the space that are free.
    fn free(&self) -> u64 {
        let free = self.capacity.saturating_sub(self.used);
        u64::try_from(u128::from(free) * 100 / u128::from(self.capacity.max(1))).unwrap_or(0)
    }

    fn fits(&self, pointer: Pointer) -> bool {
        let expected = u128::from(pointer.expected(&self.levels)) + u128::from(self.reserved);
        expected * 100 <= u128::from(self.capacity) * u128::from(FILL)
    }

    /// The lowest pointer whose levels fit.
    fn lowest_fit(&self) -> Pointer {
        let lowest = i32::try_from(self.levels.len()).map_or(0, |n| n.saturating_mul(PARTS));
        let mut all = (0..=lowest).rev().map(Pointer);
        all.find(|p| self.fits(*p)).unwrap_or(Pointer(0))
    }
}

/// Why the pointer was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The policy says so, or it is the first look.
    Set,
    /// Space is short.
    Space,
    /// The log waits, or the bandwidth is taken.
    Load,
    /// There is room, and the disk has time.
    Room,
}

/// The rule and what it remembers.
#[derive(Clone, Debug)]
pub struct Placement {
    pointer: Pointer,
    policy: Option<Policy>,
    looked: u64,
    moved: u64,
    went_up: Option<u64>,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            pointer: Pointer::NOTHING,
            policy: None,
            looked: 0,
            moved: 0,
            went_up: None,
        }
    }
}

impl Placement {
    /// Where the pointer is.
    pub fn pointer(&self) -> Pointer {
        self.pointer
    }

    /// Returns whether it is time to look again.
    pub fn is_due(&self, policy: Policy, now: u64) -> bool {
        self.policy != Some(policy) || now.saturating_sub(self.looked) >= TICK
    }

    /// Looks, and moves the pointer if the rule says so.
    pub fn look(&mut self, policy: Policy, facts: &Facts) -> Option<Move> {
        self.looked = facts.now;
        if self.policy != Some(policy) {
            self.policy = Some(policy);
            self.went_up = None;
            let pointer = match policy {
                Policy::Pl => Pointer::NOTHING,
                Policy::Lad(levels) => Pointer::at(levels),
                Policy::Auto => facts.lowest_fit(),
            };
            return self.set(pointer, facts.now, Move::Set);
        }
        if policy != Policy::Auto || facts.now.saturating_sub(self.moved) < HOLD {
            return None;
        }
        let (to, why) = self.rule(facts)?;
        self.set(to, facts.now, why)
    }

    /// The disk had no room for a table: the pointer goes up at once, whatever the hold.
    pub fn note_full(&mut self, now: u64) -> Option<Move> {
        if self.policy != Some(Policy::Auto) || self.pointer.0 <= 0 {
            return None;
        }
        let to = Pointer((self.pointer.0 - PARTS / 2).max(0));
        self.set(to, now, Move::Space)
    }

    fn set(&mut self, to: Pointer, now: u64, why: Move) -> Option<Move> {
        if to == self.pointer {
            return None;
        }
        if to.0 < self.pointer.0 && why != Move::Set {
            self.went_up = Some(now);
        }
        self.pointer = to;
        self.moved = now;
        Some(why)
    }

    /// The decision table of `auto`.
    fn rule(&self, facts: &Facts) -> Option<(Pointer, Move)> {
        let at = self.pointer.0;
        if facts.free() < SPACE_LOW && at > 0 {
            return Some((Pointer((at - PARTS / 2).max(0)), Move::Space));
        }
        let waits = facts.log.is_some_and(|w| w > LOG_HIGH);
        let is_busy = facts.bandwidth.is_some_and(|u| u > BANDWIDTH_HIGH);
        if waits || is_busy {
            let to = Pointer((at - 1).max(-PARTS));
            return (to.0 < at).then_some((to, Move::Load));
        }
        let is_held = |since| facts.now.saturating_sub(since) < HOLD_DOWN;
        if self.went_up.is_some_and(is_held) {
            return None;
        }
        let has_time = facts.log.is_none_or(|w| w < LOG_LOW)
            && facts.bandwidth.is_none_or(|u| u < BANDWIDTH_LOW);
        let lowest = i32::try_from(facts.levels.len()).map_or(0, |n| n.saturating_mul(PARTS));
        let to = Pointer(at + 1);
        let has_room = facts.free() > SPACE_HIGH && facts.fits(to);
        (has_time && has_room && at < lowest).then_some((to, Move::Room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn facts(seconds: u64) -> Facts {
        Facts {
            now: seconds * SECOND,
            capacity: 100 * GIB,
            used: 10 * GIB,
            reserved: GIB,
            levels: vec![GIB, 2 * GIB, 20 * GIB, 200 * GIB],
            bandwidth: None,
            log: None,
        }
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
    fn policies_are_texts() {
        for (text, policy) in [
            ("pl", Policy::Pl),
            ("lad:0", Policy::Lad(0)),
            ("lad:3", Policy::Lad(3)),
            ("auto", Policy::Auto),
        ] {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string(), text);
        }
        for text in [
            "", "PL", "lad", "lad:", "lad:x", "lad:-1", "lad:65", "auto:1",
        ] {
            assert_eq!(text.parse::<Policy>(), Err(()), "{text}");
        }
    }

    #[test]
    fn the_pointer_divides_levels_and_takes_a_part_of_the_one_it_stands_in() {
        // R-SPAN-32 and R-SPAN-34.
        let all =
            |p: Pointer, rank, is_flush| (0..400).filter(|n| p.takes(rank, *n, is_flush)).count();
        assert_eq!(all(Pointer::NOTHING, 0, true), 0);
        let flushes = Pointer::at(0);
        assert_eq!((all(flushes, 0, true), all(flushes, 0, false)), (400, 0));
        let two = Pointer::at(2);
        assert_eq!(
            (all(two, 0, false), all(two, 1, false), all(two, 2, false)),
            (400, 400, 0)
        );
        assert!(two.takes_any(1) && !two.takes_any(2));
        // R-SPAN-33: partial levels.
        for quarter in 0..=4 {
            let p = Pointer(8 + quarter);
            let taken = all(p, 2, false) as i32;
            assert!(
                (taken - quarter * 100).abs() <= 12,
                "{quarter}: {taken} of 400"
            );
            assert_eq!(p.takes_any(2), quarter > 0);
        }
        // A lower pointer keeps what a higher one takes.
        let kept = |n| !Pointer(9).takes(2, n, false) || Pointer(10).takes(2, n, false);
        assert!((0..1000).all(kept));
    }

    #[test]
    fn fixed_policies_stay_whatever_is_measured() {
        let mut placement = Placement::default();
        assert_eq!(placement.look(Policy::Lad(3), &facts(1)), Some(Move::Set));
        let full = Facts {
            used: 100 * GIB,
            log: Some(50.0),
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
                    log: Some(9.0),
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
                    log: Some(4.1),
                    ..base()
                },
                load,
                1.75,
            ),
            (
                "the log is between its bands",
                Facts {
                    log: Some(3.0),
                    ..base()
                },
                None,
                2.0,
            ),
            (
                "the log is quick",
                Facts {
                    log: Some(1.9),
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
            log: Some(9.0),
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
            log: Some(9.0),
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
                let log = 3.0 + (levels - at) * 8.0 / 3.0;
                let facts = Facts {
                    levels: vec![GIB; 4],
                    log: Some(log.max(1.0)),
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
                log: Some(if second % 2 == 0 { 9.0 } else { 1.0 }),
                ..facts(second)
            };
            downs += u32::from(placement.look(Policy::Auto, &facts) == Some(Move::Room));
        }
        assert!(downs <= 600 / 30, "{downs}");
    }
}
