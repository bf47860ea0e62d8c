//! Whether to ask for huge pages.
//!
//! A huge page costs a third of the pages it stands for, as long as the machine has it at hand. A virtual
//! machine whose host backs memory only when it is first touched may not: a huge page is then often one
//! that was never touched, which takes milliseconds, while single pages come from those touched and freed
//! before. So each huge page is timed as it is first touched; after a slow one the next come as single
//! pages, for longer each time, until one comes fast again.
//!
//! Measured under Firecracker: 2 MiB of pages freed before take 250 us as a huge page, 450 us as single
//! ones asked for together, 700 us by faults; a huge page never touched before takes 4,900 us.

use std::time::Duration;

/// CPU time of a first touch from which on it was slow. Clearing two mebibytes takes a fifth.
const SLOW: Duration = Duration::from_micros(1500);
/// Regions that come as single pages after the first slow huge page.
const FIRST_PAUSE: u32 = 32;
/// The most.
const PAUSE_MAX: u32 = 1024;

/// What the huge pages taken so far say about the next.
pub(super) struct Huge {
    /// Regions still to come as single pages.
    skip: u32,
    /// How many the next slow one makes.
    pause: u32,
}

impl Huge {
    pub(super) const fn new() -> Self {
        Self {
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
        if time < SLOW {
            self.pause = (self.pause / 2).max(FIRST_PAUSE);
            return;
        }
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

    #[test]
    fn slow_pages_are_asked_for_less_and_less() {
        let mut huge = Huge::new();
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
        for _ in 0..100 {
            assert!(huge.is_next());
            huge.took(SLOW / 2);
        }
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 32);
        huge.took(SLOW / 2);
        assert!(huge.is_next(), "fast again");
        huge.took(SLOW);
        assert_eq!(paused(&mut huge), 32, "forgotten");
    }
}
