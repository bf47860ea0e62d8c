//! Says whether to ask for huge pages.
//!
//! A huge page costs a third of the pages it stands for, as long as the machine has it at hand. A virtual
//! machine whose host backs memory only when it is first touched may not: a huge page is then often one
//! that was never touched, which takes milliseconds, while single pages come from those touched and freed
//! before. So each huge page is timed as it is first touched. When some have come fast in a
//! row, takers touch them themselves: who cleared a page has it in its cache. Until then somebody else tries the next
//! one ([`super::ahead`]), so that takers rarely wait for a slow one. As long as they cost
//! less on average than they save, single slow ones are put up with; else the next regions come as single pages,
//! for longer each time, until a huge page comes fast again.
//!
//! Measured under Firecracker: 2 MiB of pages freed before take 90 to 250 us as a huge page, 450 to 700 us
//! as single ones asked for together; a huge page never touched before takes 4,900 us. A search in a
//! memtable of single pages waits for address translation as well, so they may cost a little more. Writers that
//! fill pages which another core cleared take 5 % more CPU time.

use std::time::Duration;

/// Says what a huge page may take on average, of CPU time: what single pages take, and half as much again for
/// what it saves searches.
const WORTH: Duration = Duration::from_micros(1000);
/// A huge page counts for one in so many in the average.
const WEIGHT: u32 = 8;
/// So many fast ones in a row, and takers touch them themselves.
const TRUSTED_AFTER: u32 = 8;
/// Regions that come as single pages when huge pages were too slow.
const FIRST_PAUSE: u32 = 32;
/// The most.
const PAUSE_MAX: u32 = 1024;

/// How a region comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As a huge page that its taker touches.
    Huge,
    /// As single pages; the next huge page is to be tried.
    Probed,
    /// As single pages.
    Single,
}

/// Describes what the huge pages taken so far say about the next.
pub(super) struct Huge {
    /// Says what they took, on average.
    average: Duration,
    /// How many came fast since the last slow one.
    streak: u32,
    /// Regions still to come as single pages.
    skip: u32,
    /// How many the next pause makes.
    pause: u32,
}

impl Huge {
    pub(super) const fn new() -> Self {
        Self {
            average: Duration::ZERO,
            streak: 0,
            skip: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// How the next region comes.
    pub(super) fn next(&mut self) -> Way {
        if self.skip > 0 {
            self.skip -= 1;
            Way::Single
        } else if self.streak >= TRUSTED_AFTER {
            Way::Huge
        } else {
            Way::Probed
        }
    }

    /// Returns whether a huge page is to be tried by somebody who does not wait for it.
    pub(super) fn wants_probe(&self) -> bool {
        self.skip == 0 && self.streak < TRUSTED_AFTER
    }

    /// A huge page took so much CPU time.
    pub(super) fn took(&mut self, time: Duration) {
        self.average = self.average * (WEIGHT - 1) / WEIGHT + time / WEIGHT;
        self.streak = if time <= WORTH {
            self.streak.saturating_add(1)
        } else {
            0
        };
        if self.average <= WORTH {
            self.pause = (self.pause / 2).max(FIRST_PAUSE);
            return;
        }
        // The next one decides: it is asked for when the pause is over.
        self.average = WORTH;
        self.skip = self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions that come as single pages before the next huge one is tried.
    fn paused(huge: &mut Huge) -> u32 {
        let mut regions = 0;
        while huge.next() == Way::Single {
            regions += 1;
        }
        regions
    }

    const FAST: Duration = Duration::from_micros(90);
    const SLOW: Duration = Duration::from_micros(4900);

    #[test]
    fn slow_pages_are_asked_for_less_and_less() {
        let mut huge = Huge::new();
        assert!(huge.wants_probe());
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 0, "one is put up with");
        let pauses: Vec<u32> = (0..8)
            .map(|_| {
                huge.took(SLOW);
                assert!(!huge.wants_probe());
                paused(&mut huge)
            })
            .collect();
        assert_eq!(pauses, [32, 64, 128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn fast_pages_are_always_asked_for_and_few_takers_wait_for_a_slow_one() {
        let mut huge = Huge::new();
        assert_eq!(huge.next(), Way::Probed);
        for i in 0..400 {
            let is_slow = i % 16 == 15;
            huge.took(if is_slow { SLOW } else { FAST });
            let is_trusted = i % 16 >= TRUSTED_AFTER - 1 && !is_slow;
            assert_eq!(huge.wants_probe(), !is_trusted, "page {i}");
            let next = if is_trusted { Way::Huge } else { Way::Probed };
            assert_eq!(huge.next(), next, "page {i}");
        }
        for _ in 0..8 {
            huge.took(FAST);
        }
        huge.took(SLOW);
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 32);
        assert_eq!(huge.next(), Way::Probed);
        for _ in 0..TRUSTED_AFTER {
            assert_eq!(huge.next(), Way::Probed);
            huge.took(FAST);
        }
        assert_eq!(huge.next(), Way::Huge, "fast again");
        for _ in 0..16 {
            huge.took(FAST);
        }
        huge.took(SLOW);
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 32, "forgotten");
    }
}
