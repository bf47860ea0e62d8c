//! The pointer of placement: how many levels from the top have their new tables on the speed disk, in quarters.
//!
//! Tables of a level above it go to the speed disk, of the level that it stands in a part, chosen by the number of the file, and
//! those below it to the other disk. At 0 only flushes go there, and at -1 nothing does. It says where new tables go and
//! moves none: a level may have tables on both disks.

use std::fmt;
use std::str::FromStr;

/// Parts of a level that the pointer tells apart.
pub(crate) const PARTS: i32 = 4;
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
pub struct Pointer(pub(crate) i32);

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
    pub(crate) fn expected(self, levels: &[u64]) -> u64 {
        let of = |(rank, bytes): (usize, &u64)| {
            let part = self.part_of(u32::try_from(rank).unwrap_or(u32::MAX));
            u128::from(*bytes) * u128::from(part.unsigned_abs()) / PARTS as u128
        };
        let all: u128 = levels.iter().enumerate().map(of).sum();
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
