//! A table on a speed disk, as its writer and its readers share it.
//!
//! A table is there for others as soon as it is created, and on the disk once it was synced. Its pages are free when its
//! deletion is durable, or it never was on the disk, and nobody has it open any more.

use super::extents::Extent;
use super::record::{RUNS_MAX, StoredFile, TableRecord};
use super::{Top, no_space};
use crate::gate::PIECE_BYTES;
use crate::plant::Plant;
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result};
use spanlith_env::{Durability, RandomAccessFile, SequentialFile, WritableFile};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A leaf among the locks.
const FILE_RANK: u8 = 95;
/// A table gets so many bytes at first, unless its writer says how long it is going to be.
const FIRST_BYTES: u64 = 256 << 10;
/// A table that grows gets as much as it has, and not more than this.
const GROWTH_MAX: u64 = 16 << 20;

/// A table.
pub(crate) struct TopFile {
    /// Where its pages go back to.
    top: Weak<Top>,
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    /// Its name; none once it was deleted.
    name: Option<String>,
    /// Its pages, in order. More than the bytes need while it is written.
    runs: Vec<Extent>,
    len: u64,
    /// The bytes at the end that fill no page.
    tail: Vec<u8>,
    /// The metadata log has it.
    is_recorded: bool,
}

impl Drop for TopFile {
    fn drop(&mut self) {
        if let Some(top) = self.top.upgrade() {
            let runs = std::mem::take(&mut self.state.get_mut().runs);
            top.give_back(&runs);
        }
    }
}

impl TopFile {
    /// A table that is new.
    pub(super) fn new(top: &Arc<Top>, name: &str) -> Arc<Self> {
        Self::with(top, name, &StoredFile::default(), false)
    }

    /// A table that was found.
    pub(super) fn found(top: &Arc<Top>, name: &str, file: &StoredFile) -> Arc<Self> {
        Self::with(top, name, file, true)
    }

    fn with(top: &Arc<Top>, name: &str, file: &StoredFile, is_recorded: bool) -> Arc<Self> {
        let state = FileState {
            name: Some(name.to_string()),
            runs: file.runs.clone(),
            len: file.size,
            tail: Vec::new(),
            is_recorded,
        };
        Arc::new(Self {
            top: Arc::downgrade(top),
            state: Mutex::new(FILE_RANK, state),
        })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.state.lock().len
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.state.lock().is_recorded
    }

    pub(super) fn rename(&self, name: Option<&str>) {
        self.state.lock().name = name.map(str::to_string);
    }

    /// Takes its pages away at once, as nobody should.
    pub(super) fn rob(&self) -> Vec<Extent> {
        std::mem::take(&mut self.state.lock().runs)
    }

    /// The run and the page in it that hold the page `page` of a table.
    fn place(runs: &[Extent], mut page: u64) -> Option<(u32, u32)> {
        for run in runs {
            if page < u64::from(run.pages) {
                let page = page as u32;
                return Some((run.first + page, run.pages - page));
            }
            page -= u64::from(run.pages);
        }
        None
    }
}

/// A table that is written.
pub(crate) struct TopWriter {
    top: Arc<Top>,
    file: Arc<TopFile>,
    path: PathBuf,
    /// Pages that the writer announced.
    announced: u32,
    /// Failed flushes of the disk before the first byte that no flush covered.
    failed_flushes: u64,
    /// Something was appended that is not recorded.
    is_dirty: bool,
    failed: Option<Error>,
}

impl TopWriter {
    pub(super) fn new(top: Arc<Top>, file: Arc<TopFile>, path: &Path) -> Self {
        Self {
            failed_flushes: top.failed_flushes.load(Ordering::Relaxed),
            top,
            file,
            path: path.to_path_buf(),
            announced: 0,
            is_dirty: true,
            failed: None,
        }
    }

    fn page_size(&self) -> usize {
        self.top.place.page_size
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Keeps a failure: what comes after it would leave a gap (E2).
    fn poison<T>(&mut self, result: Result<T>) -> Result<T> {
        result.map_err(|e| {
            let e = e.with_path(&self.path);
            self.failed = Some(e.clone());
            e
        })
    }

    /// Gives the table pages up to `pages`.
    fn grow(&mut self, pages: u64) -> Result<()> {
        let page = self.page_size() as u64;
        loop {
            let (has, end) = {
                let state = self.file.state.lock();
                let has = state.runs.iter().map(|r| u64::from(r.pages)).sum::<u64>();
                (has, state.runs.last().map(|run| run.end()))
            };
            if has >= pages {
                return Ok(());
            }
            let growth = (has * page).clamp(FIRST_BYTES, GROWTH_MAX) / page;
            let announced = u64::from(self.announced).saturating_sub(has);
            let want = (pages - has).max(if announced > 0 { announced } else { growth });
            let run = self.top.take(end, u32::try_from(want).unwrap_or(u32::MAX));
            let run = run.ok_or_else(|| no_space(&self.path))?;
            let is_taken = {
                let runs = &mut self.file.state.lock().runs;
                let has_room = runs.len() < RUNS_MAX;
                match runs.last_mut().filter(|last| last.end() == run.first) {
                    Some(last) => last.pages += run.pages,
                    None if has_room => runs.push(run),
                    None => {}
                }
                runs.last().is_some_and(|last| last.end() == run.end())
            };
            if !is_taken {
                self.top.give_back(&[run]);
                return Err(no_space(&self.path));
            }
        }
    }

    /// Writes whole pages from the page `page` of the table on.
    fn write_pages(&self, mut page: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let place = TopFile::place(&self.file.state.lock().runs, page);
            let (at, run) = place.ok_or_else(|| no_space(&self.path))?;
            let bytes = (run as usize)
                .saturating_mul(self.page_size())
                .min(data.len());
            let (now, rest) = data.split_at(bytes);
            let at = self.top.place.area.offset_of(at, self.page_size());
            self.top.device.write_at(at, now, Durability::Cached)?;
            page += (bytes / self.page_size()) as u64;
            data = rest;
        }
        Ok(())
    }

    fn add(&mut self, data: &[u8]) -> Result<()> {
        self.top.check_writable()?;
        let page_size = self.page_size();
        let (len, mut tail) = {
            let mut state = self.file.state.lock();
            (state.len, std::mem::take(&mut state.tail))
        };
        let aligned = len - tail.len() as u64;
        if !self.is_dirty {
            self.failed_flushes = self.top.failed_flushes.load(Ordering::Relaxed);
            self.is_dirty = true;
        }
        self.grow((len + data.len() as u64).div_ceil(page_size as u64))?;
        let page = aligned / page_size as u64;
        // A page that was begun is filled first; what follows goes to the disk from where it is.
        let mut data_left = data;
        let mut written = 0;
        if !tail.is_empty() {
            let (now, rest) = data.split_at(data.len().min(page_size - tail.len()));
            tail.extend_from_slice(now);
            data_left = rest;
            if tail.len() == page_size {
                self.write_pages(page, &tail)?;
                written = 1;
                tail.clear();
            }
        }
        if tail.is_empty() {
            let whole = data_left.len() / page_size * page_size;
            let (now, rest) = data_left.split_at(whole);
            self.write_pages(page + written, now)?;
            tail.extend_from_slice(rest);
        }
        let mut state = self.file.state.lock();
        state.len = len + data.len() as u64;
        state.tail = tail;
        Ok(())
    }

    /// Asks for the write-back of a range of the table.
    fn hand_over(&self, offset: u64, len: u64, is_strict: bool) {
        let page_size = self.page_size() as u64;
        let (mut page, end) = (offset / page_size, (offset + len).div_ceil(page_size));
        while page < end {
            let place = TopFile::place(&self.file.state.lock().runs, page);
            let Some((at, run)) = place else {
                break;
            };
            let pages = u64::from(run).min(end - page);
            let at = self.top.place.area.offset_of(at, self.page_size());
            self.top.device.write_back(at, pages * page_size, is_strict);
            page += pages;
        }
    }

    /// Makes the table durable and records it.
    fn record(&mut self) -> Result<()> {
        self.top.check_writable()?;
        let page_size = self.page_size() as u64;
        let (len, mut tail) = {
            let state = self.file.state.lock();
            (state.len, state.tail.clone())
        };
        if !tail.is_empty() {
            let page = (len - tail.len() as u64) / page_size;
            tail.resize(self.page_size(), 0);
            self.write_pages(page, &tail)?;
        }
        if self.top.place.plant != Some(Plant::TablesUnflushed) {
            self.top.flush(self.failed_flushes)?;
        }
        let mut meta = self.top.meta.lock();
        let put = {
            let state = self.file.state.lock();
            state.name.clone().map(|name| {
                let runs = front(&state.runs, len.div_ceil(page_size));
                TableRecord::Put(name, StoredFile { size: len, runs })
            })
        };
        // Nobody asks for one that was deleted meanwhile.
        if let Some(put) = put {
            self.top.commit(&mut meta, put)?;
        }
        self.file.state.lock().is_recorded = true;
        self.is_dirty = false;
        Ok(())
    }
}

/// The runs of the first `pages` pages.
fn front(runs: &[Extent], mut pages: u64) -> Vec<Extent> {
    let mut out = Vec::with_capacity(runs.len());
    for run in runs {
        if pages == 0 {
            break;
        }
        let taken = u64::from(run.pages).min(pages) as u32;
        out.push(Extent {
            pages: taken,
            ..*run
        });
        pages -= u64::from(taken);
    }
    out
}

impl WritableFile for TopWriter {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check()?;
        if data.is_empty() {
            return Ok(());
        }
        if !self.is_dirty && !self.file.state.lock().tail.is_empty() {
            // Its last page would be written again, and with it bytes that are durable.
            let text = "going on with a table on a speed disk that was synced";
            return Err(Error::not_supported(text).with_path(&self.path));
        }
        let added = self.add(data);
        self.poison(added)
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        if !self.is_dirty {
            return Ok(());
        }
        let recorded = self.record();
        self.poison(recorded)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.hand_over(offset, len, false);
        Ok(())
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        // The piece before has arrived then.
        let from = offset.saturating_sub(PIECE_BYTES as u64);
        self.hand_over(from, offset + len - from, true);
        Ok(())
    }

    fn preallocate(&mut self, len: u64) {
        let pages = len.div_ceil(self.page_size() as u64);
        self.announced = u32::try_from(pages).unwrap_or(u32::MAX);
    }

    fn close(&mut self) -> Result<()> {
        self.sync()?;
        let page_size = self.page_size() as u64;
        let rest = {
            let mut state = self.file.state.lock();
            let kept = front(&state.runs, state.len.div_ceil(page_size));
            let all = std::mem::replace(&mut state.runs, kept);
            behind(&all, &state.runs)
        };
        self.top.give_back(&rest);
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns what `all` has beyond its front `kept`.
fn behind(all: &[Extent], kept: &[Extent]) -> Vec<Extent> {
    let mut out = Vec::new();
    for (i, run) in all.iter().enumerate() {
        let used = kept.get(i).map_or(0, |k| k.pages);
        if used < run.pages {
            out.push(Extent {
                first: run.first + used,
                pages: run.pages - used,
            });
        }
    }
    out
}

/// A table that is read, as long as it was when it was opened.
pub(crate) struct TopReader {
    top: Arc<Top>,
    /// Keeps its pages.
    _file: Arc<TopFile>,
    runs: Vec<Extent>,
    len: u64,
    tail: Vec<u8>,
    path: PathBuf,
}

impl TopReader {
    pub(super) fn new(top: Arc<Top>, file: Arc<TopFile>, path: &Path) -> Self {
        let (runs, len, tail) = {
            let state = file.state.lock();
            (state.runs.clone(), state.len, state.tail.clone())
        };
        Self {
            top,
            _file: file,
            runs,
            len,
            tail,
            path: path.to_path_buf(),
        }
    }
}

impl RandomAccessFile for TopReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let page_size = self.top.place.page_size as u64;
        let n = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = n.min(buf.len());
        // The end that fills no page may be on its way to the disk.
        let aligned = self.len - self.tail.len() as u64;
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let left = buf.get_mut(done..n).unwrap_or_default();
            if at >= aligned {
                let from = usize::try_from(at - aligned).unwrap_or(usize::MAX);
                let bytes = self.tail.get(from..).unwrap_or_default();
                let bytes = bytes.get(..left.len()).unwrap_or_default();
                left.copy_from_slice(bytes);
                break;
            }
            let (page, within) = (at / page_size, at % page_size);
            let Some((first, pages)) = TopFile::place(&self.runs, page) else {
                return Err(Error::corruption("a table on a speed disk without pages")
                    .with_path(&self.path));
            };
            let run = (u64::from(pages) * page_size - within).min(aligned - at);
            let bytes = usize::try_from(run).unwrap_or(usize::MAX).min(left.len());
            let place = self
                .top
                .place
                .area
                .offset_of(first, self.top.place.page_size)
                + within;
            let left = left.get_mut(..bytes).unwrap_or_default();
            self.top
                .device
                .read_at(place, left)
                .map_err(|e| e.with("table", self.path.display()))?;
            done += bytes;
        }
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// The same from front to back.
pub(crate) struct TopFromFront {
    file: TopReader,
    at: u64,
}

impl From<TopReader> for TopFromFront {
    fn from(file: TopReader) -> Self {
        Self { file, at: 0 }
    }
}

impl SequentialFile for TopFromFront {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.file.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}
