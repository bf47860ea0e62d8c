//! The file that a log is for its writer.
//!
//! Bytes that are appended go into pages: those that the last page still has room for into that one, unless it is
//! durable already, the others into new ones, which form a batch. Where a sync is expected they stay in memory until
//! it comes, and are then written durably by one call. A sync after cached writes is a flush of the device.

use crate::disk::SpeedDisk;
use crate::flight::{AlignedBytes, Flight, Listed};
use crate::log::Log;
use crate::page::{PAGE_HEADER, PageHeader, seal_page};
use crate::plant::Plant;
use crate::scan::PageRef;
use spanlith_base::{Error, Result};
use spanlith_env::{Durability, SyncUnderWay, WritableFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most bytes of pages that are written by one call.
const WRITE_BYTES: usize = 256 << 10;

/// Writes a log.
pub struct LogFile {
    disk: Arc<SpeedDisk>,
    log: Arc<Log>,
    path: PathBuf,
    /// Bytes that were appended and are not in pages yet.
    pending: Vec<u8>,
    expects_sync: bool,
    /// The last page, if it may be written again.
    open: Option<PageHeader>,
    /// Ordinal after the last page of the log.
    end: u64,
    /// Pages as they are written; kept for the next time.
    buffer: AlignedBytes,
}

impl LogFile {
    /// Writes `log`, which is empty. `path`: how it is called in messages.
    pub fn new(disk: Arc<SpeedDisk>, log: Arc<Log>, path: &Path) -> Self {
        Self {
            disk,
            log,
            path: path.to_path_buf(),
            pending: Vec::new(),
            expects_sync: false,
            open: None,
            end: 0,
            buffer: AlignedBytes::default(),
        }
    }

    fn check(&self) -> Result<()> {
        match &self.log.state.lock().failed {
            Some(e) => Err(e.clone()),
            None => Ok(()),
        }
    }

    fn fail<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|e| {
            let mut state = self.log.state.lock();
            state.failed.get_or_insert_with(|| e.clone());
        })
    }

    /// Returns whether the next `bytes` fit into the page groups that the disk has left.
    pub fn has_room(&self, bytes: usize) -> bool {
        let group_pages = u64::from(self.disk.layout().group_pages);
        let (used, groups) = {
            let state = self.log.state.lock();
            (state.used, state.groups.len() as u64)
        };
        let free = u64::from(self.disk.usage().free_groups);
        let payload = (self.disk.page_size() - PAGE_HEADER) as u64;
        let needed = ((bytes + self.pending.len()) as u64).div_ceil(payload) + 1;
        used + needed <= (groups + free) * group_pages
    }

    /// Pages that lie one after the other for at most `count` pages: the first, and how many.
    fn take_pages(&self, count: u64) -> Result<(u32, u64)> {
        let layout = *self.disk.layout();
        let per_group = u64::from(layout.group_pages);
        let used = self.log.state.lock().used;
        if used == self.log.state.lock().groups.len() as u64 * per_group {
            self.disk.extend(&self.log)?;
        }
        let mut state = self.log.state.lock();
        let group = state.groups.get((used / per_group) as usize).copied();
        let group = group.ok_or_else(|| Error::corruption("a log without its page group"))?;
        let within = used % per_group;
        let count = count.min(per_group - within);
        state.used += count;
        Ok((layout.first_page(group) + within as u32, count))
    }

    /// Puts all pending bytes into pages for a durable write beside others. `None`, and nothing has happened, if it is not one
    /// run of pages of the present page group, or anything in front of it is neither durable nor about to be.
    fn take_off(&mut self) -> Option<Flight> {
        let page_size = self.disk.page_size();
        let room = page_size - PAGE_HEADER;
        let count = self.pending.len().div_ceil(room) as u64;
        if count == 0
            || self.pending.len() > WRITE_BYTES
            || self.open.is_some()
            || self.disk.plant == Some(Plant::Rewrite)
        {
            return None;
        }
        let per_group = u64::from(self.disk.layout().group_pages);
        let offset = {
            let state = self.log.state.lock();
            let within = state.used % per_group;
            let is_full = state.used == state.groups.len() as u64 * per_group;
            if is_full || within + count > per_group {
                return None;
            }
            state.len + state.ahead
        };
        // All of them, since the group has room.
        let (page, taken) = self.take_pages(count).ok()?;
        debug_assert_eq!(taken, count);
        let last = self.pending.len() - (count as usize - 1) * room;
        let Some((ordinal, witness, before)) = self.disk.begin_durable(count, last as u16) else {
            self.log.state.lock().used -= count;
            return None;
        };
        let mut buffer = AlignedBytes::zeroed(count as usize * page_size);
        let mut pages = Vec::with_capacity(count as usize);
        let first = PageHeader {
            colour: self.log.colour,
            ordinal,
            page,
            index: 0,
            batch: count as u16,
            offset,
            witness,
            len: 0,
            before,
        };
        self.lay_out(&self.pending, &mut buffer, first, &mut pages);
        self.end = ordinal + count;
        let listed = Listed {
            ordinals: (ordinal, self.end),
            pages,
            bytes: self.pending.len() as u64,
            is_written: false,
        };
        self.pending.clear();
        Some(Flight::begin(&self.disk, &self.log, (page, buffer), listed))
    }

    /// Puts `payload` into the pages `to`, of which `header` begins the first one, and lists them; returns the last header.
    fn lay_out(
        &self,
        payload: &[u8],
        to: &mut [u8],
        mut header: PageHeader,
        refs: &mut Vec<PageRef>,
    ) -> Option<PageHeader> {
        let page_size = self.disk.page_size();
        let parts = payload.chunks(page_size - PAGE_HEADER);
        let mut last = None;
        for (part, page) in parts.zip(to.chunks_exact_mut(page_size)) {
            header.len = part.len() as u16;
            put(page, PAGE_HEADER, part);
            seal_page(page, &header, self.disk.instance());
            refs.push(PageRef::from(&header));
            last = Some(header);
            header.ordinal += 1;
            header.page += 1;
            header.index += 1;
            header.offset += part.len() as u64;
            header.before = header.len;
        }
        last
    }

    /// As [`WritableFile::begin_sync`].
    pub(crate) fn begin_flight(&mut self) -> Result<Option<Flight>> {
        self.check()?;
        let flight = self.take_off();
        self.expects_sync &= flight.is_none();
        Ok(flight)
    }

    /// Puts what is pending into pages and writes them.
    fn write_out(&mut self, how: Durability) -> Result<()> {
        let page_size = self.disk.page_size();
        let room = page_size - PAGE_HEADER;
        let pages_max = (WRITE_BYTES / page_size).max(1) as u64;
        let pending = std::mem::take(&mut self.pending);
        let mut rest: &[u8] = &pending;
        let mut begun = Vec::new();
        while !rest.is_empty() {
            let again = self.open.take();
            let mut again = again.filter(|h| {
                let len = rest.len().saturating_add(h.len as usize).min(room);
                (h.len as usize) < room && self.disk.begin_again(h.ordinal, len as u16)
            });
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let mut starts = Vec::with_capacity(2);
            let mut refs = Vec::new();
            let mut first = 0;
            let mut last = None;
            if let Some(mut header) = again {
                let n = rest.len().min(room - header.len as usize);
                let (part, behind) = rest.split_at(n);
                rest = behind;
                buffer.resize(page_size);
                // Readers take the page from memory until it is not written again.
                put(&mut buffer, PAGE_HEADER, &self.log.state.lock().tail);
                put(&mut buffer, PAGE_HEADER + header.len as usize, part);
                header.len += n as u16;
                seal_page(&mut buffer, &header, self.disk.instance());
                starts.push(header.ordinal);
                begun.push((header.ordinal, header.ordinal + 1));
                first = header.page;
                refs.push(PageRef::from(&header));
                last = Some(header);
            }
            if !rest.is_empty() {
                let count = (rest.len().div_ceil(room) as u64).min(pages_max);
                let taken = self.take_pages(count);
                let (page, count) = match taken {
                    Ok(taken) => taken,
                    Err(e) => {
                        if let Some(header) = again {
                            self.disk.give_up_again(header.ordinal, header.len);
                        }
                        return Err(e);
                    }
                };
                if !buffer.is_empty() && page != first + 1 {
                    // The page that is written again lies elsewhere.
                    let written = self.write_run(&starts, &refs, first, &buffer, how, last);
                    written.inspect_err(|_| self.put_back(again))?;
                    again = None;
                    buffer.clear();
                    starts.clear();
                    refs.clear();
                }
                if buffer.is_empty() {
                    first = page;
                }
                let end = rest.len().min(count as usize * room) - (count as usize - 1) * room;
                let (ordinal, witness, before) = self.disk.begin_write(count, end as u16);
                starts.push(ordinal);
                begun.push((ordinal, ordinal + count));
                let (part, behind) = rest.split_at(rest.len().min(count as usize * room));
                rest = behind;
                let at = buffer.len();
                buffer.resize(at + count as usize * page_size);
                let first = PageHeader {
                    colour: self.log.colour,
                    ordinal,
                    page,
                    index: 0,
                    batch: count as u16,
                    offset: self.pages_end(last.as_ref()),
                    witness,
                    len: 0,
                    before,
                };
                last = self.lay_out(
                    part,
                    buffer.get_mut(at..).unwrap_or_default(),
                    first,
                    &mut refs,
                );
                self.end = ordinal + count;
            }
            let written = self.write_run(&starts, &refs, first, &buffer, how, last);
            written.inspect_err(|_| self.put_back(again))?;
            self.buffer = buffer;
        }
        if how == Durability::Durable {
            self.seal();
            let is_done = begun.iter().fold(true, |done, &(from, to)| {
                self.disk.note_durable(from, to) && done
            });
            if !is_done {
                self.disk.flush_to(self.end)?;
            }
        }
        let mut emptied = pending;
        emptied.clear();
        self.pending = emptied;
        Ok(())
    }

    /// The write that was to replace the page of `header`, if it is one, has failed and may have left anything there: what was
    /// acknowledged goes back, as far as the device takes it. The log has failed in any case.
    fn put_back(&self, header: Option<PageHeader>) {
        let Some(header) = header else { return };
        let mut page = AlignedBytes::zeroed(self.disk.page_size());
        put(&mut page, PAGE_HEADER, &self.log.state.lock().tail);
        seal_page(&mut page, &header, self.disk.instance());
        // A second failure says no more than the first one.
        let _ = self
            .disk
            .write_pages(header.page, &page, Durability::Cached);
    }

    /// The last page is not written again.
    fn seal(&mut self) {
        if self.disk.plant != Some(Plant::Rewrite) {
            self.open = None;
            self.log.state.lock().tail.clear();
        }
    }

    /// Where the next new page begins in the log.
    fn pages_end(&self, last: Option<&PageHeader>) -> u64 {
        match last {
            Some(h) => h.offset + u64::from(h.len),
            None => {
                let state = self.log.state.lock();
                debug_assert!(
                    state.flights.is_empty(),
                    "a write beside durable ones that are under way"
                );
                state.len
            }
        }
    }

    /// Writes pages that lie one after the other, and tells readers of them.
    fn write_run(
        &mut self,
        starts: &[u64],
        refs: &[PageRef],
        first: u32,
        bytes: &[u8],
        how: Durability,
        last: Option<PageHeader>,
    ) -> Result<()> {
        let written = self.disk.write_pages(first, bytes, how);
        if written.is_ok() {
            let page_size = self.disk.page_size();
            let mut state = self.log.state.lock();
            for page in refs {
                match state.pages.last_mut() {
                    Some(before) if before.ordinal == page.ordinal => *before = *page,
                    _ => state.pages.push(*page),
                }
                state.len = page.offset + u64::from(page.len);
            }
            state.tail.clear();
            let may_go_on = how == Durability::Cached || self.disk.plant == Some(Plant::Rewrite);
            if let Some(h) = last.as_ref().filter(|_| may_go_on) {
                let at = bytes.len() - page_size + PAGE_HEADER;
                let payload = bytes.get(at..at + h.len as usize);
                state.tail.extend_from_slice(payload.unwrap_or_default());
            }
            self.open = last;
        }
        // Only now: a page that is neither under way nor known would seem to be gone.
        self.disk.end_write(starts, &written);
        written
    }
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = to.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

impl WritableFile for LogFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check()?;
        self.pending.extend_from_slice(data);
        let counter = &self.disk.counters.bytes;
        counter.fetch_add(data.len() as u64, Ordering::Relaxed);
        if self.expects_sync && self.pending.len() < WRITE_BYTES {
            return Ok(());
        }
        let written = self.write_out(Durability::Cached);
        self.fail(written)
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.expects_sync = false;
        let first = match &self.open {
            Some(h) => h.ordinal,
            None => self.end,
        };
        // The pages before these must be durable, or a flush is needed anyway.
        let is_alone = !self.pending.is_empty() && self.disk.is_durable_before(first);
        let synced = match is_alone {
            true => self.write_out(Durability::Durable),
            false => {
                let written = self.write_out(Durability::Cached);
                written.and_then(|()| self.disk.flush_to(self.end))
            }
        };
        if synced.is_ok() {
            self.seal();
        }
        self.fail(synced)
    }

    fn expect_sync(&mut self) {
        self.expects_sync = true;
    }

    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        let flight = self.begin_flight()?;
        Ok(flight.map(|flight| Box::new(flight) as Box<dyn SyncUnderWay>))
    }

    fn len(&self) -> u64 {
        let state = self.log.state.lock();
        state.len + state.ahead + self.pending.len() as u64
    }

    fn close(&mut self) -> Result<()> {
        self.check()?;
        let closed = self.write_out(Durability::Cached);
        let closed = closed.and_then(|()| self.disk.close_log(&self.log));
        self.open = None;
        self.fail(closed)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
