//! Free pages of the part of a speed disk that has tables: runs by place and by length, so that a table gets the smallest run
//! that holds it, and runs that meet are one again.

use std::collections::{BTreeMap, BTreeSet};

/// A run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The first page, counted from the first page of tables.
    pub first: u32,
    /// Pages; not 0.
    pub pages: u32,
}

impl Extent {
    /// The page after it.
    pub(crate) fn end(self) -> u32 {
        self.first.saturating_add(self.pages)
    }
}

/// The pages that no table has.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    by_first: BTreeMap<u32, u32>,
    by_pages: BTreeSet<(u32, u32)>,
    pages: u64,
}

impl FreeSpace {
    /// All of `pages` but those that are `taken`; `None` if some of these are not there, or are taken twice.
    pub(crate) fn new(pages: u32, taken: &mut [Extent]) -> Option<Self> {
        taken.sort_unstable();
        let mut free = Self::default();
        let mut at = 0;
        for extent in taken {
            let end = extent.first.checked_add(extent.pages)?;
            if extent.first < at || extent.pages == 0 || end > pages {
                return None;
            }
            free.insert(at, extent.first - at);
            at = end;
        }
        free.insert(at, pages - at);
        Some(free)
    }

    /// Free pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages of the `count` longest runs.
    pub(crate) fn longest(&self, count: usize) -> u64 {
        let longest = self.by_pages.iter().rev().take(count);
        longest.map(|(pages, _)| u64::from(*pages)).sum()
    }

    /// Takes `want` pages from the shortest run that has so many, or all of the longest one; `None` if nothing is free.
    pub(crate) fn take(&mut self, want: u32) -> Option<Extent> {
        let fits = self.by_pages.range((want, 0)..).next().copied();
        let (_, first) = fits.or_else(|| self.by_pages.last().copied())?;
        self.take_at(first, want)
    }

    /// Takes at most `want` pages from the run that begins at `first`; `None` if none does.
    pub(crate) fn take_at(&mut self, first: u32, want: u32) -> Option<Extent> {
        let pages = self.remove(first)?;
        let taken = want.min(pages);
        self.insert(first + taken, pages - taken);
        (taken > 0).then_some(Extent {
            first,
            pages: taken,
        })
    }

    /// Gives pages back.
    pub(crate) fn give(&mut self, extent: Extent) {
        let (mut first, mut pages) = (extent.first, extent.pages);
        let before = self.by_first.range(..first).next_back();
        if let Some((&at, &len)) = before
            && at + len == first
        {
            self.remove(at);
            (first, pages) = (at, pages + len);
        }
        if let Some(len) = self.remove(extent.end()) {
            pages += len;
        }
        debug_assert!(
            self.by_first.range(first..first + pages).next().is_none(),
            "pages are free once"
        );
        self.insert(first, pages);
    }

    fn insert(&mut self, first: u32, pages: u32) {
        if pages > 0 {
            self.by_first.insert(first, pages);
            self.by_pages.insert((pages, first));
            self.pages += u64::from(pages);
        }
    }

    fn remove(&mut self, first: u32) -> Option<u32> {
        let pages = self.by_first.remove(&first)?;
        self.by_pages.remove(&(pages, first));
        self.pages -= u64::from(pages);
        Some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::SeededRng;
    use spanlith_testkit::{seed, test_name};

    fn run(first: u32, pages: u32) -> Extent {
        Extent { first, pages }
    }

    #[test]
    fn a_table_gets_the_shortest_run_that_holds_it_and_runs_that_meet_are_one() {
        let mut free = FreeSpace::new(100, &mut [run(50, 10), run(10, 20)]).unwrap();
        assert_eq!(
            (free.pages(), free.longest(1), free.longest(2)),
            (70, 40, 60)
        );
        assert_eq!(free.take(8), Some(run(0, 8)));
        assert_eq!(free.take(15), Some(run(30, 15)));
        assert_eq!(free.take_at(45, 99), Some(run(45, 5)));
        assert_eq!(free.take_at(45, 1), None);
        assert_eq!(free.take(100), Some(run(60, 40)), "less than was asked for");
        free.give(run(70, 10));
        free.give(run(60, 10));
        free.give(run(80, 20));
        assert_eq!(free.take(40), Some(run(60, 40)));
        assert_eq!(free.take(9), Some(run(8, 2)));
        assert_eq!((free.take(1), free.pages()), (None, 0));
    }

    #[test]
    fn what_is_taken_twice_or_not_there_is_refused() {
        for taken in [
            vec![run(0, 2), run(1, 1)],
            vec![run(9, 2)],
            vec![run(0, 0)],
            vec![run(u32::MAX, 2)],
        ] {
            assert!(
                FreeSpace::new(10, &mut taken.clone()).is_none(),
                "{taken:?}"
            );
        }
        assert_eq!(FreeSpace::new(10, &mut [run(0, 10)]).unwrap().pages(), 0);
    }

    /// No page is lost or given out twice, in whichever order pages are taken and given back.
    #[test]
    fn no_page_is_lost_or_given_out_twice() {
        let rng = SeededRng::new(seed(test_name!()));
        let mut free = FreeSpace::new(500, &mut []).unwrap();
        let mut held: Vec<Extent> = Vec::new();
        for _ in 0..5000 {
            if rng.below(2) == 0 {
                held.extend(free.take(1 + rng.below(40) as u32));
            } else if !held.is_empty() {
                let at = rng.below(held.len() as u64) as usize;
                free.give(held.swap_remove(at));
            }
            let mut taken = held.clone();
            let expected = FreeSpace::new(500, &mut taken).expect("nothing is given out twice");
            assert_eq!(expected.by_first, free.by_first);
            assert_eq!(expected.by_pages, free.by_pages);
            assert_eq!(expected.pages, free.pages);
        }
    }
}
