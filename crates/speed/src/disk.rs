//! A speed disk that is open: its logs, the order of their pages, and what of them is durable.
//!
//! ```text
//! ordinals   1 … durable)            … written)          … next
//!            survive a power loss    survive the process  being written
//! ```
//!
//! Pages of all logs take ordinals from one counter. A write registers what it writes, so that a flush knows below
//! which ordinal everything had been written when it began; when it ends that much is durable. A durable write
//! moves the mark only if everything before it is durable already. What a flush covers is not written again.
//!
//! Locks: `meta` (rank 25, a token) orders changes of superblock and directory and is held during their I/O; `state`
//! (rank 94) is bookkeeping; those of logs (95) lie after it. Names of logs are asked for under the lock of an info log.

use self::beside::{Beside, is_beside};
use crate::directory::{Directory, LogEntry};
use crate::format::{Opened, read_disk};
use crate::gate::LogGate;
use crate::kept::KeptPages;
use crate::layout::{DIRECTORIES, Layout, SUPERBLOCKS};
use crate::log::{Found, Log, LogState};
use crate::page::colour_of;
use crate::plant::Plant;
use crate::scan::{Scan, scan};
use crate::superblock::{OWNER_MAX, Superblock};
use crate::top::{StoredFile, Top, TopUsage};
use crate::usage::{Counters, SpeedOptions, SpeedUsage};
use spanlith_base::sync::{Condvar, Mutex};
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{BlockDevice, Durability};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

mod beside;
mod ordinals;

/// A speed disk that is open.
pub struct SpeedDisk {
    device: Arc<dyn BlockDevice>,
    path: PathBuf,
    instance: [u8; 16],
    layout: Layout,
    epoch: u64,
    read_only: bool,
    /// One of the `STAGE`s. [`STAGE_OPEN`] is stored with Release once the logs are as they were found, and loaded with Acquire;
    /// [`STAGE_CLOSED`] publishes nothing: those who write have ended before.
    stage: AtomicU8,
    /// Says what the open found.
    found: OnceLock<Scan>,
    meta: Mutex<Meta>,
    state: Mutex<State>,
    /// `durable` has risen, or something failed.
    risen: Condvar,
    pub(crate) counters: Counters,
    gate: LogGate,
    /// Its tables, if it has a part for them.
    top: Option<Arc<Top>>,
    pub(crate) plant: Option<Plant>,
}

struct Meta {
    superblock: Superblock,
    generation: u64,
    /// Which copy of the directory is written next.
    slot: usize,
    /// Which copy of the superblock is the newer one.
    superblock_slot: usize,
    /// The logs that are read beside.
    beside: Option<Beside>,
    /// Why the disk is not opened after all.
    refused: Option<Error>,
}

/// The logs are being read, and nothing is written before [`SpeedDisk::conclude`].
const STAGE_READING: u8 = 0;
/// The disk is open.
const STAGE_OPEN: u8 = 1;
/// [`SpeedDisk::close`] was called.
const STAGE_CLOSED: u8 = 2;

/// The answer of [`SpeedDisk::found`] before the logs are read.
static NOTHING: Scan = Scan {
    logs: Vec::new(),
    next_ordinal: 0,
    damage: None,
};

struct State {
    logs: BTreeMap<u64, Arc<Log>>,
    free: BTreeSet<u32>,
    next_ordinal: u64,
    /// First and last ordinal of writes under way and of those that failed.
    in_flight: BTreeMap<u64, u64>,
    /// Everything below is durable.
    durable: u64,
    /// Everything below is durable, or will be when the durable writes under way have ended.
    promised: u64,
    /// Threads that wait until `durable` rises.
    waiting: u32,
    /// Pages below are not written again.
    sealed: u64,
    /// The first failure that was not settled yet.
    failed: Option<Error>,
    /// It was one of a flush, so that nobody knows what became of the pages that are not durable.
    lost: bool,
    /// Flushes for tables that had failed when the last failure was settled.
    failed_for_tables: u64,
    floor: u64,
    /// Bytes of payload of the page with the last ordinal.
    last_len: u16,
}

impl State {
    fn written(&self) -> u64 {
        let first = self.in_flight.first_key_value();
        first.map_or(self.next_ordinal, |(&from, _)| from)
    }
}

impl std::fmt::Debug for SpeedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeedDisk")
            .field("path", &self.path)
            .finish()
    }
}

impl SpeedDisk {
    /// Opens the disk on `device`, finds what its logs hold, and makes that durable.
    ///
    /// # Errors
    /// `Corruption` if there is no speed disk, it belongs to somebody else, is smaller than it was, or durable bytes of
    /// its logs are damaged; of the device. Nothing has changed then, unless a write failed.
    pub fn open(device: Arc<dyn BlockDevice>, options: &SpeedOptions) -> Result<Arc<Self>> {
        Self::open_planted(device, options, None)
    }

    pub(crate) fn open_planted(
        device: Arc<dyn BlockDevice>,
        options: &SpeedOptions,
        plant: Option<Plant>,
    ) -> Result<Arc<Self>> {
        let path = device.path().to_path_buf();
        let opened = read_disk(&*device)?;
        let Opened {
            mut superblock,
            directory,
            ..
        } = opened;
        if let Some(owner) = &options.owner {
            if owner.len() > OWNER_MAX {
                return Err(Error::invalid_argument(
                    "the identity of the database is too long",
                ));
            }
            if !superblock.owner.is_empty() && superblock.owner != *owner {
                return Err(Error::corruption(format!(
                    "speed disk {} belongs to the database with identity {}, not to {owner}",
                    path.display(),
                    superblock.owner
                ))
                .with_path(&path));
            }
            superblock.owner.clone_from(owner);
        }
        let top = Top::open(&device, &superblock, options.read_only, plant)?;
        let is_beside =
            top.is_none() && plant.is_none() && is_beside(&superblock, &directory, options);
        let found = match is_beside {
            true => None,
            false => Some(scan(&*device, &superblock, &directory, plant)?),
        };
        let damage_of_tables = top.as_ref().and_then(|(_, damage)| damage.clone());
        let read_superblock = superblock.clone();
        if !options.read_only && plant != Some(Plant::SameEpoch) {
            superblock.epoch += 1;
        }
        let disk = Arc::new(Self {
            instance: superblock.instance,
            layout: superblock.layout,
            epoch: superblock.epoch,
            read_only: options.read_only,
            stage: AtomicU8::new(STAGE_READING),
            meta: Mutex::new(
                25,
                Meta {
                    generation: directory.generation,
                    slot: if opened.directory_slot == 0 { 1 } else { 0 },
                    superblock,
                    superblock_slot: opened.superblock_slot,
                    beside: None,
                    refused: None,
                },
            ),
            state: Mutex::new(
                94,
                State {
                    logs: BTreeMap::new(),
                    free: BTreeSet::new(),
                    next_ordinal: directory.floor,
                    in_flight: BTreeMap::new(),
                    durable: directory.floor,
                    promised: directory.floor,
                    waiting: 0,
                    sealed: directory.floor,
                    failed: None,
                    lost: false,
                    failed_for_tables: 0,
                    floor: directory.floor,
                    last_len: 0,
                },
            ),
            risen: Condvar::new(),
            found: OnceLock::new(),
            device,
            path,
            counters: Counters::default(),
            gate: LogGate::default(),
            top: top.map(|(top, _)| top),
            plant,
        });
        let logs = disk.make_logs(&directory);
        match found {
            Some(mut found) => {
                found.damage = found.damage.or(damage_of_tables);
                let mut meta = disk.meta.lock();
                disk.take_over(&mut meta, found, options.accept_damage)?;
            }
            None => {
                let beside = Beside::begin(&disk.device, read_superblock, directory, logs)?;
                disk.meta.lock().beside = Some(beside);
            }
        }
        Ok(disk)
    }

    /// Makes the logs of the directory, of which nothing is found yet.
    fn make_logs(self: &Arc<Self>, directory: &Directory) -> Vec<Arc<Log>> {
        let logs = directory.logs.iter().map(|entry| {
            let state = LogState {
                found: Found::Front,
                groups: entry.groups.clone(),
                used: u64::MAX,
                ..LogState::default()
            };
            Log::new(self, entry.number, entry.colour, state)
        });
        let logs: Vec<Arc<Log>> = logs.collect();
        let mut state = self.state.lock();
        state.free = (0..self.layout.groups).collect();
        for group in directory.logs.iter().flat_map(|entry| &entry.groups) {
            state.free.remove(group);
        }
        state.logs = logs.iter().map(|log| (log.number, log.clone())).collect();
        logs
    }

    /// Makes of the logs what was found, and that durable.
    ///
    /// # Errors
    /// `Corruption` if there is damage, unless it is accepted, or something else was listed before. Nothing has changed then,
    /// unless a write failed.
    fn take_over(&self, meta: &mut Meta, mut found: Scan, accept_damage: bool) -> Result<()> {
        let logs = self.state.lock().logs.clone();
        for found in &found.logs {
            let log = logs.get(&found.entry.number);
            let listed = log.is_none_or(|log| found.pages.starts_with(&log.state.lock().pages));
            if !listed {
                let number = found.entry.number;
                let text = format!(
                    "speed disk {}: pages of log {number:06} are out of order",
                    self.path.display()
                );
                return Err(Error::corruption(text).with_path(&self.path));
            }
        }
        if let Some(damage) = found.damage.as_ref().filter(|_| !accept_damage) {
            let text = format!("speed disk {}: {damage}", self.path.display());
            return Err(Error::corruption(text).with_path(&self.path));
        }
        for found in &mut found.logs {
            let Some(log) = logs.get(&found.entry.number) else {
                continue;
            };
            let mut state = log.state.lock();
            state.kept.append(&mut found.kept);
            state.pages.clone_from(&found.pages);
            state.len = found.bytes;
            state.closed = Some(found.bytes);
            state.found = Found::All;
            drop(state);
            log.found.notify_all();
        }
        {
            let mut state = self.state.lock();
            let next = found.next_ordinal;
            (state.next_ordinal, state.durable, state.promised) = (next, next, next);
            (state.sealed, state.floor) = (next, next);
        }
        // An open takes over once.
        let _ = self.found.set(found);
        if !self.read_only {
            self.pin(meta)?;
        }
        self.stage.store(STAGE_OPEN, Ordering::Release);
        Ok(())
    }

    /// Makes durable what was found and the new epoch, and records where the logs end.
    fn pin(&self, meta: &mut Meta) -> Result<()> {
        // A process that died left bytes that only the system knows.
        if self.plant != Some(Plant::Unflushed) {
            self.device.flush()?;
        }
        meta.superblock.generation += 1;
        let slot = 1 - meta.superblock_slot.min(1);
        self.write_superblock(&meta.superblock, slot)?;
        self.write_directory(meta, |_| {})
    }

    fn write_superblock(&self, superblock: &Superblock, slot: usize) -> Result<()> {
        let mut bytes = superblock.encode();
        bytes.resize(bytes.len().next_multiple_of(self.page_size()), 0);
        let at = SUPERBLOCKS.get(slot).copied().unwrap_or_default();
        self.device.write_at(at, &bytes, Durability::Durable)
    }

    /// Writes the directory as it is, changed by `change`, and makes it durable.
    fn write_directory(
        &self,
        meta: &mut Meta,
        change: impl FnOnce(&mut Vec<LogEntry>),
    ) -> Result<()> {
        let (mut logs, floor) = {
            let mut state = self.state.lock();
            // Ordinals in front of the first page that is not durable are durable, or belong to logs that are gone.
            let durable = state.durable;
            let first = state.logs.values();
            let first = first.filter_map(|l| l.first_ordinal_from(durable)).min();
            let first = first.unwrap_or(state.next_ordinal).min(state.written());
            state.floor = first.max(durable);
            let logs: Vec<LogEntry> = state.logs.values().map(|l| entry_of(l, durable)).collect();
            (logs, state.floor)
        };
        change(&mut logs);
        let directory = Directory {
            generation: meta.generation + 1,
            instance: self.instance,
            floor,
            logs,
        };
        let mut bytes = directory.encode()?;
        bytes.resize(bytes.len().next_multiple_of(self.page_size()), 0);
        let at = DIRECTORIES.get(meta.slot).copied().unwrap_or_default();
        self.device.write_at(at, &bytes, Durability::Durable)?;
        meta.generation += 1;
        if self.plant != Some(Plant::OneDirectory) {
            meta.slot = 1 - meta.slot;
        }
        Ok(())
    }

    /// Gives up what the open kept of logs for their replay.
    pub fn forget_kept(&self) {
        for log in self.state.lock().logs.values() {
            log.state.lock().kept = KeptPages::default();
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Drawn when it was formatted.
    pub fn instance(&self) -> &[u8; 16] {
        &self.instance
    }

    /// Its sizes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Knows whether a log is written.
    pub fn gate(&self) -> &LogGate {
        &self.gate
    }

    /// A number of the storage that holds it, where that is known.
    pub fn storage(&self) -> Option<u64> {
        self.device.storage()
    }

    /// Nanoseconds of a durable write of a page, as calibrated; 0 if nobody did.
    pub fn calibrated_nanos(&self) -> u64 {
        self.meta.lock().superblock.write_nanos
    }

    /// Rises with every open for writing.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns what the open found; nothing before the logs are read.
    pub fn found(&self) -> &Scan {
        self.found.get().unwrap_or(&NOTHING)
    }

    pub(crate) fn page_size(&self) -> usize {
        self.layout.page_size as usize
    }

    /// Figures.
    pub fn usage(&self) -> SpeedUsage {
        let state = self.state.lock();
        let c = &self.counters;
        SpeedUsage {
            logs: state.logs.len(),
            groups: self.layout.groups,
            free_groups: state.free.len() as u32,
            pages_written: c.pages.load(Ordering::Relaxed),
            bytes_written: c.bytes.load(Ordering::Relaxed),
            durable_writes: c.durable_writes.load(Ordering::Relaxed),
            flushes: c.flushes.load(Ordering::Relaxed),
        }
    }

    /// Figures of its tables, if it has a part for them.
    pub fn tables_usage(&self) -> Option<TopUsage> {
        self.top.as_ref().map(|top| top.usage())
    }

    /// Its tables that survive a loss of power, by name, if it has a part for them.
    pub fn stored_tables(&self) -> Vec<(String, StoredFile)> {
        self.top.as_ref().map_or_else(Vec::new, |top| top.stored())
    }

    pub(crate) fn top(&self) -> Option<&Arc<Top>> {
        self.top.as_ref()
    }

    /// Numbers of the logs, ascending.
    pub fn numbers(&self) -> Vec<u64> {
        self.state.lock().logs.keys().copied().collect()
    }

    /// A log.
    pub fn log(&self, number: u64) -> Option<Arc<Log>> {
        self.state.lock().logs.get(&number).cloned()
    }

    /// Nothing is written before the verdict about what was found.
    fn check_writable(&self) -> Result<()> {
        match self.stage.load(Ordering::Acquire) {
            STAGE_OPEN if !self.read_only => Ok(()),
            STAGE_READING if !self.read_only => self.conclude(),
            _ => Err(Error::not_supported(
                "a speed disk that is open for reading only",
            )),
        }
    }

    /// Begins a log. One of the same number is gone then.
    ///
    /// # Errors
    /// `Io` with subcode `NoSpace` without a free page group; of the device. There is no such log then.
    pub fn create_log(self: &Arc<Self>, number: u64) -> Result<Arc<Log>> {
        self.check_writable()?;
        if self.log(number).is_some() {
            self.delete_log(number)?;
        }
        let mut meta = self.meta.lock();
        self.settle()?;
        let group = {
            let mut state = self.state.lock();
            state.free.pop_first().ok_or_else(|| no_space(&self.path))?
        };
        let state = LogState {
            groups: vec![group],
            ..LogState::default()
        };
        let log = Log::new(self, number, colour_of(self.epoch, number), state);
        let entry = entry_of(&log, 0);
        let written = self.write_directory(&mut meta, |logs| {
            let at = logs.partition_point(|l| l.number < number);
            logs.insert(at, entry);
        });
        let mut state = self.state.lock();
        match written {
            Ok(()) => {
                state.logs.insert(number, log.clone());
                Ok(log)
            }
            Err(e) => {
                state.free.insert(group);
                Err(e)
            }
        }
    }

    /// Takes a failure for what it is: the logs that it hit stay as they are, and ordinals go on after them.
    fn settle(&self) -> Result<()> {
        let Some(error) = self.state.lock().failed.clone() else {
            return Ok(());
        };
        // Logs that were not hit become durable as they are.
        self.device.flush()?;
        let failed_for_tables = self.failed_for_tables();
        let mut state = self.state.lock();
        state.failed_for_tables = failed_for_tables;
        for log in state.logs.values() {
            let mut log = log.state.lock();
            if state.lost && log.pages.last().is_some_and(|p| p.ordinal >= state.durable) {
                log.failed.get_or_insert_with(|| error.clone());
            }
            if log.failed.is_some() && log.broken.is_none() {
                log.broken = Some(log.end(state.durable).durable());
            }
        }
        state.in_flight.clear();
        (state.failed, state.lost) = (None, false);
        state.durable = state.next_ordinal;
        state.sealed = state.next_ordinal;
        Ok(())
    }

    /// Removes a log. Its page groups are free once nobody reads it any more.
    ///
    /// # Errors
    /// Of the device; the log is still there then.
    pub fn delete_log(&self, number: u64) -> Result<()> {
        self.check_writable()?;
        let Some(log) = self.log(number) else {
            let e = std::io::Error::from_raw_os_error(2);
            return Err(Error::from_io(
                "while unlink() log on a speed disk",
                &self.path,
                e,
            ));
        };
        if self.plant == Some(Plant::EarlyReuse) {
            let groups = std::mem::take(&mut log.state.lock().groups);
            self.state.lock().logs.remove(&number);
            self.state.lock().free.extend(groups);
            return Ok(());
        }
        let mut meta = self.meta.lock();
        // Ordinals of the log that lie after pages of others which are not durable would be missing among them.
        self.settle()?;
        let last = log.ordinals().map_or(0, |(_, last)| last);
        let is_between = {
            let state = self.state.lock();
            let others = state.logs.values().filter(|l| l.number != number);
            let others = others.filter_map(|l| l.first_ordinal_from(state.durable));
            last > others.min().unwrap_or(u64::MAX).min(state.written())
        };
        if is_between {
            self.flush_to(last + 1)?;
        }
        let removed = self.state.lock().logs.remove(&number);
        let written = self.write_directory(&mut meta, |_| {});
        match written {
            Ok(()) => {
                log.state.lock().is_deleted = true;
                Ok(())
            }
            Err(e) => {
                let mut state = self.state.lock();
                state.logs.extend(removed.map(|log| (number, log)));
                Err(e)
            }
        }
    }

    pub(crate) fn give_back(&self, groups: &[u32]) {
        self.state.lock().free.extend(groups);
    }

    /// Removes all logs and tables and makes the disk nobody's.
    ///
    /// # Errors
    /// Of the device; some of them may be left.
    pub fn release(&self) -> Result<()> {
        if let Some(top) = &self.top {
            top.clear()?;
        }
        for number in self.numbers() {
            self.delete_log(number)?;
        }
        let mut meta = self.meta.lock();
        meta.superblock.owner.clear();
        // Both copies, whichever is the newer one.
        for slot in [0, 1] {
            meta.superblock.generation += 1;
            self.write_superblock(&meta.superblock, slot)?;
        }
        Ok(())
    }

    /// Writes no more, and lets others write: whoever still reads may go on.
    pub fn close(&self) {
        self.stage.store(STAGE_CLOSED, Ordering::Relaxed);
        if let Some(top) = &self.top {
            top.close();
        }
        self.device.unlock();
    }

    /// Gives a log another page group.
    pub(crate) fn extend(&self, log: &Log) -> Result<()> {
        let mut meta = self.meta.lock();
        let group = self.state.lock().free.pop_first();
        let group = group.ok_or_else(|| no_space(&self.path))?;
        if self.plant == Some(Plant::LateDirectory) {
            log.state.lock().groups.push(group);
            return Ok(());
        }
        let written = self.write_directory(&mut meta, |logs| {
            if let Some(entry) = logs.iter_mut().find(|l| l.number == log.number) {
                entry.groups.push(group);
            }
        });
        match written {
            Ok(()) => log.state.lock().groups.push(group),
            Err(_) => {
                self.state.lock().free.insert(group);
            }
        }
        written
    }

    /// Records that a log grows no more, if all of it is durable.
    pub(crate) fn close_log(&self, log: &Log) -> Result<()> {
        let is_durable = {
            let durable = self.state.lock().durable;
            log.ordinals().is_none_or(|(_, last)| last < durable)
        };
        {
            let mut state = log.state.lock();
            state.tail = Vec::new();
            state.closed = Some(state.len);
            if state.is_deleted || state.failed.is_some() {
                return Ok(());
            }
        }
        match is_durable && !self.read_only {
            true => self.write_directory(&mut self.meta.lock(), |_| {}),
            false => Ok(()),
        }
    }

    pub(crate) fn write_pages(&self, page: u32, bytes: &[u8], how: Durability) -> Result<()> {
        self.check_writable()?;
        let pages = (bytes.len() / self.page_size()) as u64;
        self.counters.pages.fetch_add(pages, Ordering::Relaxed);
        let is_durable = how == Durability::Durable;
        if is_durable {
            self.counters.durable_writes.fetch_add(1, Ordering::Relaxed);
        }
        let _under_way = self.gate.enter(is_durable);
        self.device
            .write_at(self.layout.offset_of(page), bytes, how)
    }

    pub(crate) fn read_pages(&self, page: u32, bytes: &mut [u8]) -> Result<()> {
        self.device.read_at(self.layout.offset_of(page), bytes)
    }
}

fn entry_of(log: &Log, durable: u64) -> LogEntry {
    LogEntry {
        number: log.number,
        colour: log.colour,
        end: log.end(durable),
        groups: log.state.lock().groups.clone(),
    }
}

fn no_space(path: &Path) -> Error {
    let text = format!(
        "No space left on speed disk: all page groups of {} are in use",
        path.display()
    );
    Error::io(text)
        .with_subcode(SubCode::NoSpace)
        .with_path(path)
}

#[cfg(test)]
mod tests;
