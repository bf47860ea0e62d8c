//! Lists pages of logs as soon as they count, while later ones are still being read.
//!
//! Pages that follow one another from the floor of the directory on count whatever comes after them ([`crate::scan`]):
//! later pages can bear witness that one is missing, which refuses the open, and none can take back one that is there. So
//! they are replayed while the rest is read. What makes that safe:
//!
//! * The *verdict* is given by [`judge`](crate::scan::judge) on all pages, as if none had been listed, before anything is
//!   written to the disk: every write asks for it ([`SpeedDisk::conclude`](crate::SpeedDisk::conclude)). What was replayed
//!   until then is in memory.
//! * What was listed must be the front of what the verdict lists, or the open is refused. Both orders are the same for
//!   every log that a writer of ours wrote, since its pages are taken in the order of their ordinals.
//!
//! One thread lists, any may read the logs meanwhile: pages enter a log under its lock, after their memory was kept.

use crate::kept::KeptPages;
use crate::log::{Found, Log};
use crate::page::PageHeader;
use crate::scan::PageRef;
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lists pages in logs.
pub(crate) struct Listing {
    /// In the order of the directory, with the bytes of those that have ended.
    logs: Vec<(Arc<Log>, Option<u64>)>,
    /// The one that is read, by its place among them.
    at: usize,
    prefix: Prefix,
    /// Nobody wants to know any more. Relaxed: it publishes nothing.
    stop: Arc<AtomicBool>,
}

/// Says what is known of the durable prefix of ordinals.
struct Prefix {
    floor: u64,
    /// The ordinal that would go on with it.
    next: u64,
    /// Bytes of payload of the page before that.
    before: Option<u16>,
    /// Pages of the batch that is not there to its end yet.
    batch: Vec<(usize, PageHeader)>,
    /// Pages found after one that was not.
    later: BTreeMap<u64, (usize, PageHeader)>,
    /// A page is there that nothing can follow, or one came twice: the verdict says what that means.
    is_over: bool,
}

impl Listing {
    /// For pages from the ordinal `floor` on, until `stop` is set.
    pub(crate) fn new(
        logs: Vec<(Arc<Log>, Option<u64>)>,
        floor: u64,
        stop: Arc<AtomicBool>,
    ) -> Self {
        for (log, end) in &logs {
            enter(log, *end, [].iter());
        }
        Self {
            logs,
            at: 0,
            prefix: Prefix::new(floor),
            stop,
        }
    }

    /// Takes pages of the log that is read, in the order in which they lie there, and what was kept of them.
    ///
    /// # Errors
    /// If it is to stop.
    pub(crate) fn list(&mut self, found: &[PageHeader], kept: &mut KeptPages) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::io("the reading of the logs was given up"));
        }
        // Before the pages are listed: a reader may have them from memory then.
        if let Some((log, _)) = self.logs.get(self.at) {
            log.state.lock().kept.append(kept);
        }
        let mut count = Vec::new();
        for header in found {
            self.prefix.add(self.at, header, &mut count);
        }
        let mut count = count.as_slice();
        while let Some((first, _)) = count.first() {
            let n = count.iter().take_while(|(log, _)| log == first).count();
            let (of_log, others) = count.split_at(n);
            if let Some((log, end)) = self.logs.get(*first) {
                enter(log, *end, of_log.iter().map(|(_, header)| header));
            }
            count = others;
        }
        Ok(())
    }

    /// All pages of the log that is read were listed.
    pub(crate) fn end_log(&mut self) {
        self.at += 1;
    }

    /// All logs were read, or reading them failed.
    pub(crate) fn end(&self, failed: Option<&Error>) {
        for (log, _) in &self.logs {
            log.state.lock().found = failed.map_or(Found::All, |e| Found::Failed(e.clone()));
            log.found.notify_all();
        }
    }
}

impl Drop for Listing {
    /// A reader that has ended by a panic leaves nobody waiting.
    fn drop(&mut self) {
        for (log, _) in &self.logs {
            let mut state = log.state.lock();
            if matches!(state.found, Found::Front) {
                state.found = Found::Failed(Error::io("the reading of the logs has ended"));
            }
            drop(state);
            log.found.notify_all();
        }
    }
}

/// Lists pages that count, as far as they go on with the log. `end`: the bytes of one that has ended.
fn enter<'p>(log: &Log, end: Option<u64>, pages: impl Iterator<Item = &'p PageHeader>) {
    let mut state = log.state.lock();
    for header in pages.map(PageRef::from) {
        if header.offset != state.len {
            break;
        }
        state.len += u64::from(header.len);
        state.pages.push(header);
    }
    if end == Some(state.len) {
        // Its reader need not wait for the logs after it.
        state.found = Found::All;
    }
    drop(state);
    log.found.notify_all();
}

impl Prefix {
    fn new(floor: u64) -> Self {
        Self {
            floor,
            next: floor,
            before: None,
            batch: Vec::new(),
            later: BTreeMap::new(),
            is_over: false,
        }
    }

    /// Takes a page of a log, and gives those that count now, in their order.
    fn add(&mut self, log: usize, header: &PageHeader, count: &mut Vec<(usize, PageHeader)>) {
        if header.ordinal < self.floor {
            count.push((log, *header));
            return;
        }
        let is_twice = header.ordinal < self.next || self.later.contains_key(&header.ordinal);
        self.is_over |= is_twice;
        if self.is_over {
            return;
        }
        self.later.insert(header.ordinal, (log, *header));
        while let Some((log, header)) = self.later.remove(&self.next) {
            // An older form of the page before, which lacks its end, is as good as none.
            if self.before.is_some_and(|len| len != header.before) {
                self.is_over = true;
                return;
            }
            self.before = Some(header.len);
            self.next = header.ordinal + 1;
            self.batch.push((log, header));
            if header.index + 1 == header.batch {
                count.append(&mut self.batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::LogEnd;
    use crate::scan::tests::{found, page};
    use spanlith_env::SeededRng;

    /// Ordinals that count after pages were added in this order, by the step that listed them.
    fn listed(pages: &[PageHeader]) -> Vec<u64> {
        let mut prefix = Prefix::new(5);
        let mut count = Vec::new();
        for page in pages {
            prefix.add(0, page, &mut count);
        }
        count.iter().map(|(_, h)| h.ordinal).collect()
    }

    #[test]
    fn pages_are_listed_once_all_before_them_and_their_batch_are_there() {
        let three = [page(6, 0, 3, 10), page(7, 1, 3, 20), page(8, 2, 3, 30)];
        let all = [&[page(5, 0, 1, 0)], &three[..]].concat();
        assert_eq!(listed(&all[..3]), [5]);
        assert_eq!(listed(&all), [5, 6, 7, 8]);
        assert_eq!(listed(&three), [0; 0]);
        let late = [&three[..], &[page(5, 0, 1, 0)]].concat();
        assert_eq!(listed(&late), [5, 6, 7, 8]);
        // One of before the floor counts by itself.
        assert_eq!(listed(&[page(3, 0, 1, 0), page(6, 0, 1, 10)]), [3]);
    }

    #[test]
    fn nothing_follows_a_page_whose_end_is_missing_or_that_came_twice() {
        let mut short = page(6, 0, 1, 10);
        short.before = 11;
        assert_eq!(listed(&[page(5, 0, 1, 0), short, page(7, 0, 1, 20)]), [5]);
        let twice = [page(5, 0, 1, 0), page(5, 0, 1, 0), page(6, 0, 1, 10)];
        assert_eq!(listed(&twice), [5]);
    }

    #[test]
    fn what_is_listed_is_what_the_verdict_lists() {
        let rng = SeededRng::new(spanlith_testkit::seed(spanlith_testkit::test_name!()));
        for _ in 0..2000 {
            // Batches of a log of which pages are missing, or lack their end.
            let (mut pages, mut ordinal, mut offset) = (Vec::new(), 5, 0);
            for _ in 0..1 + rng.below(6) {
                let batch = 1 + rng.below(4) as u16;
                for index in 0..batch {
                    pages.push(page(ordinal, index, batch, offset));
                    (ordinal, offset) = (ordinal + 1, offset + 10);
                }
            }
            pages.retain(|_| rng.below(30) > 0);
            if rng.below(4) == 0
                && let Some(page) = pages.last_mut()
            {
                page.before = 9;
            }
            let listed = listed(&pages);
            let verdict = found(&pages, LogEnd::Open(0));
            let verdict: Vec<u64> = verdict.logs[0].pages.iter().map(|p| p.ordinal).collect();
            assert_eq!(listed, verdict);
        }
    }
}
