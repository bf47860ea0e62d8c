//! Whether to ask for huge pages.
//!
//! A huge page costs a third of the pages it stands for, as long as the machine has it at hand. A virtual
//! machine whose host backs memory only when it is first touched may not: a huge page is then often one
//! that was never touched, which takes milliseconds, while single pages come from those touched and freed
//! before. So each huge page is timed as it is first touched. As long as they cost less on average than
//! they save, single slow ones are put up with; else the next regions come as single pages, for longer
//! each time, until a huge page comes fast again.
//!
//! Measured under Firecracker: 2 MiB of pages freed before take 90 to 250 us as a huge page, 450 to 700 us
//! as single ones asked for together; a huge page never touched before takes 4,900 us. A search in a
//! memtable of single pages waits for address translation as well, so they may cost a little more.

use std::time::Duration;

/// What a huge page may take on average, of CPU time: what single pages take, and half as much again for
/// what it saves searches.
const WORTH: Duration = Duration::from_micros(1000);
/// A huge page counts for one in so many in the average.
const WEIGHT: u32 = 8;
/// Regions that come as single pages when huge pages were too slow.
const FIRST_PAUSE: u32 = 32;
/// The most.
const PAUSE_MAX: u32 = 1024;

/// What the huge pages taken so far say about the next.
pub(super) struct Huge {
    /// What they took, on average.
    average: Duration,
    /// Regions still to come as single pages.
    skip: u32,
    /// How many the next pause makes.
    pause: u32,
}

impl Huge {
    pub(super) const fn new() -> Self {
        Self {
            average: Duration::ZERO,
            skip: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// Whether the next region is to be a huge page.
    pub(super) fn is_next(&mut self) -> bool {
        let is_next = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_next
    }

    /// A huge page took so much CPU time.
    pub(super) fn took(&mut self, time: Duration) {
        self.average = self.average * (WEIGHT - 1) / WEIGHT + time / WEIGHT;
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

    /// Regions that come as single pages before the next huge one.
    fn paused(huge: &mut Huge) -> u32 {
        let mut regions = 0;
        while !huge.is_next() {
            regions += 1;
        }
        regions
    }

    const FAST: Duration = Duration::from_micros(90);
    const SLOW: Duration = Duration::from_micros(4900);

    #[test]
    fn slow_pages_are_asked_for_less_and_less() {
        let mut huge = Huge::new();
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 0, "one is put up with");
        let pauses: Vec<u32> = (0..8)
            .map(|_| {
                huge.took(SLOW);
                paused(&mut huge)
            })
            .collect();
        assert_eq!(pauses, [32, 64, 128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn fast_pages_are_always_asked_for() {
        let mut huge = Huge::new();
        for i in 0..400 {
            huge.took(if i % 16 == 15 { SLOW } else { FAST });
            assert_eq!(paused(&mut huge), 0, "page {i}");
        }
        for _ in 0..8 {
            huge.took(FAST);
        }
        huge.took(SLOW);
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 32);
        huge.took(FAST);
        assert_eq!(paused(&mut huge), 0, "fast again");
        for _ in 0..16 {
            huge.took(FAST);
        }
        huge.took(SLOW);
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 32, "forgotten");
    }
}
