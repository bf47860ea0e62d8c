//! A log on a speed disk, as its writer and its readers share it.

use crate::directory::LogEnd;
use crate::disk::SpeedDisk;
use crate::flight::Listed;
use crate::kept::KeptPages;
use crate::page::{PAGE_HEADER, decode_page};
use crate::scan::PageRef;
use spanlith_base::sync::{Condvar, Mutex, MutexGuard};
use spanlith_base::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Rank of the lock of a log.
const LOG_RANK: u8 = 95;
/// Most bytes that a reader takes from the device at once.
const READ_BYTES: usize = 256 << 10;

/// A log. Its page groups are free when it was deleted and nobody holds it any more.
pub struct Log {
    pub(crate) number: u64,
    pub(crate) colour: u64,
    /// Where its page groups go back to.
    disk: Weak<SpeedDisk>,
    pub(crate) state: Mutex<LogState>,
    /// More of it was found, or all.
    pub(crate) found: Condvar,
}

/// How far a log that was there at the open is read.
#[derive(Clone, Debug, Default)]
pub(crate) enum Found {
    /// All of it is known, as it is of a log that was begun since.
    #[default]
    All,
    /// Pages after those listed may still be found.
    Front,
    /// Reading it has failed.
    Failed(Error),
}

/// Describes what changes of a log.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    pub(crate) found: Found,
    /// Its page groups, in order.
    pub(crate) groups: Vec<u32>,
    /// Pages of the groups that were given away.
    pub(crate) used: u64,
    /// Its pages, in order.
    pub(crate) pages: Vec<PageRef>,
    /// Bytes that were written.
    pub(crate) len: u64,
    /// Durable writes under way after the pages, in order, and bytes of them.
    pub(crate) flights: VecDeque<Listed>,
    pub(crate) ahead: u64,
    /// Its pages, as many as the open kept for the replay, which gives them up.
    pub(crate) kept: KeptPages,
    /// Payload of the last page while it may be written again.
    pub(crate) tail: Vec<u8>,
    /// Bytes that were found at the open or when it was closed, if it does not grow any more.
    pub(crate) closed: Option<u64>,
    /// The first failure of a write or a flush.
    pub(crate) failed: Option<Error>,
    /// Bytes that were durable when a failure was settled.
    pub(crate) broken: Option<u64>,
    /// It is not in the directory any more.
    pub(crate) is_deleted: bool,
}

impl LogState {
    /// Where the log ends, for the directory. `durable`: every ordinal below is durable.
    pub(crate) fn end(&self, durable: u64) -> LogEnd {
        let durable_pages = self.pages.partition_point(|p| p.ordinal < durable);
        let bytes = match self.pages.get(durable_pages) {
            Some(page) => page.offset,
            None => self.len,
        };
        match (&self.failed, self.closed) {
            (Some(_), _) => LogEnd::Broken(self.broken.unwrap_or(bytes)),
            (None, Some(end)) if end <= bytes => LogEnd::Closed(end),
            // The last page may be written again.
            (None, _) if durable_pages == self.pages.len() && !self.tail.is_empty() => {
                LogEnd::Open(self.pages.last().map_or(0, |p| p.offset))
            }
            (None, _) => LogEnd::Open(bytes),
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("number", &self.number).finish()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let state = self.state.lock();
        if state.is_deleted {
            let groups = state.groups.clone();
            drop(state);
            if let Some(disk) = self.disk.upgrade() {
                disk.give_back(&groups);
            }
        }
    }
}

impl Log {
    pub(crate) fn new(
        disk: &Arc<SpeedDisk>,
        number: u64,
        colour: u64,
        state: LogState,
    ) -> Arc<Self> {
        Arc::new(Self {
            number,
            colour,
            disk: Arc::downgrade(disk),
            state: Mutex::new(LOG_RANK, state),
            found: Condvar::new(),
        })
    }

    /// Its number in the database.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes that were written. Waits until all of a log is found that was there at the open.
    pub fn len(&self) -> u64 {
        let mut state = self.state.lock();
        while matches!(state.found, Found::Front) {
            state = self.found.wait(state);
        }
        state.len
    }

    /// Returns whether more of it may still be found.
    pub(crate) fn is_being_found(&self) -> bool {
        matches!(self.state.lock().found, Found::Front)
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages it takes up, and page groups.
    pub fn room(&self) -> (u64, usize) {
        let state = self.state.lock();
        (state.pages.len() as u64, state.groups.len())
    }

    /// Where it ends, for the directory. `durable`: every ordinal below is durable.
    pub(crate) fn end(&self, durable: u64) -> LogEnd {
        self.state.lock().end(durable)
    }

    /// The first and the last ordinal of its pages.
    pub(crate) fn ordinals(&self) -> Option<(u64, u64)> {
        let state = self.state.lock();
        let first = state.pages.first()?.ordinal;
        Some((first, state.pages.last()?.ordinal))
    }

    /// The first of its ordinals from `from` on.
    pub(crate) fn first_ordinal_from(&self, from: u64) -> Option<u64> {
        let state = self.state.lock();
        let at = state.pages.partition_point(|p| p.ordinal < from);
        state.pages.get(at).map(|p| p.ordinal)
    }

    /// Reads from `disk`, which it is on, at `offset` until `buf` is full or the log ends; returns the bytes read. Waits for what
    /// is still to be found.
    ///
    /// # Errors
    /// Of the device; `Corruption` if a page is not what was written.
    pub fn read_at(&self, disk: &SpeedDisk, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let rest = buf.get_mut(done..).unwrap_or_default();
            match self.read_some(disk, offset + done as u64, rest)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    /// Its state once it has a byte at `offset`, which is waited for; `None` if it ends before that.
    fn state_at(&self, offset: u64) -> Result<Option<MutexGuard<'_, LogState>>> {
        let mut state = self.state.lock();
        while offset >= state.len {
            match &state.found {
                Found::All => return Ok(None),
                Found::Failed(e) => return Err(e.clone()),
                Found::Front => state = self.found.wait(state),
            }
        }
        Ok(Some(state))
    }

    /// Reads from pages that lie one after the other.
    fn read_some(&self, disk: &SpeedDisk, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let page_size = disk.layout().page_size as usize;
        let run: Vec<PageRef> = {
            let Some(mut state) = self.state_at(offset)? else {
                return Ok(0);
            };
            let at = state.pages.partition_point(|p| p.offset <= offset);
            let at = at.saturating_sub(1);
            // The last page may be written again just now: its payload is in memory.
            let settled = state.pages.len() - usize::from(!state.tail.is_empty());
            if at >= settled {
                let begin = state.pages.get(at).map_or(0, |p| p.offset);
                let tail = state.tail.get((offset - begin) as usize..);
                return Ok(copy(tail.unwrap_or_default(), buf));
            }
            let state = &mut *state;
            let pages = state.pages.get(at..settled).unwrap_or_default();
            if !state.kept.is_empty() {
                let n = state.kept.read(pages, offset, buf);
                if n > 0 {
                    return Ok(n);
                }
            }
            let mut end = 0;
            let mut bytes = 0;
            for page in pages {
                let follows = pages.first().map_or(0, |p| p.page) + end as u32 == page.page;
                if !follows
                    || bytes >= buf.len()
                    || (end + 1) * page_size > READ_BYTES.max(page_size)
                {
                    break;
                }
                end += 1;
                bytes += page.len as usize;
            }
            pages.get(..end).unwrap_or_default().to_vec()
        };
        let mut raw = vec![0; run.len() * page_size];
        let first = run.first().map_or(0, |p| p.page);
        disk.read_pages(first, &mut raw)?;
        let mut done = 0;
        for (page, bytes) in run.iter().zip(raw.chunks_exact(page_size)) {
            let header = decode_page(bytes, disk.instance());
            let is_it = header.is_some_and(|h| {
                (h.colour, h.ordinal, h.offset, h.len)
                    == (self.colour, page.ordinal, page.offset, page.len)
            });
            if !is_it {
                let at = disk.layout().offset_of(page.page);
                return Err(Error::corruption(format!(
                    "page {} of a speed disk is not what was written for log {:06}",
                    page.page, self.number
                ))
                .with_path(disk.path())
                .with_offset(at));
            }
            let skip = (offset + done as u64 - page.offset) as usize;
            let payload = bytes.get(PAGE_HEADER + skip..PAGE_HEADER + page.len as usize);
            let rest = buf.get_mut(done..).unwrap_or_default();
            let n = copy(payload.unwrap_or_default(), rest);
            done += n;
            if done == buf.len() {
                break;
            }
        }
        Ok(done)
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let n = from.len().min(to.len());
    if let (Some(to), Some(from)) = (to.get_mut(..n), from.get(..n)) {
        to.copy_from_slice(from);
    }
    n
}
