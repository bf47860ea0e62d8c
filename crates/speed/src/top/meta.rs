//! The metadata log of tables on a speed disk: which files there are, and where.
//!
//! It has two halves. One begins with a checkpoint of all files, and each change appends a page; once it is full, the other
//! half gets a checkpoint and is the one that counts. A page is written durably before the next one begins, so the log
//! that counts is the front of valid pages of the newest half with a whole checkpoint. A valid page
//! after one that is not was written after that one had been durable: the disk is damaged, and that is told.
//!
//! | offset of a page | bytes | |
//! |---|---|---|
//! | 0 | 8 | `SPANSDTM` |
//! | 8 | 4 | masked CRC-32C of bytes 12 to the end of the page |
//! | 12 | 4 | its place in the half |
//! | 16 | 8 | generation of the half |
//! | 24 | 16 | instance of the disk |
//! | 40 | 4 | bytes of payload |
//! | 44 | 4 | pages of the checkpoint with which the half begins, at least 1 |
//! | 48 | | payload: records ([`super::record`]), then zeros |

use super::extents::{Extent, FreeSpace};
use super::record::{Files, TableRecord, put_len};
use crate::bytes::{array_at, u32_at, u64_at};
use crate::layout::TablesArea;
use crate::plant::Plant;
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{BlockDevice, Durability};

const MAGIC: &[u8; 8] = b"SPANSDTM";
const HEADER: usize = 48;

/// Where the log is.
pub(crate) struct MetaPlace {
    pub(crate) area: TablesArea,
    pub(crate) page_size: usize,
    pub(crate) instance: [u8; 16],
    pub(crate) plant: Option<Plant>,
}

impl MetaPlace {
    fn payload_max(&self) -> usize {
        self.page_size.saturating_sub(HEADER)
    }

    fn half_pages(&self) -> u32 {
        self.area.half_pages(self.page_size)
    }

    /// Most bytes of records of all files. Two pages of a checkpoint that follow each other hold more than one full page
    /// between them, so that one of so many bytes takes three quarters of a half.
    fn records_max(&self) -> usize {
        self.payload_max() * self.half_pages() as usize / 8 * 3
    }

    fn page(&self, header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.page_size);
        page.extend_from_slice(MAGIC);
        page.extend_from_slice(&[0; 4]);
        page.extend_from_slice(&header.index.to_le_bytes());
        page.extend_from_slice(&header.generation.to_le_bytes());
        page.extend_from_slice(&self.instance);
        page.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        page.extend_from_slice(&header.checkpoint.to_le_bytes());
        page.extend_from_slice(payload);
        page.resize(self.page_size, 0);
        let crc = mask(crc32c(page.get(12..).unwrap_or_default()));
        if let Some(place) = page.get_mut(8..12) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        page
    }

    /// The header and the payload of a page at place `index`; `None` if it is none.
    fn parse<'a>(&self, page: &'a [u8], index: u32) -> Option<(Header, &'a [u8])> {
        let crc = mask(crc32c(page.get(12..)?));
        let is_whole = u32_at(page, 8) == crc || self.plant == Some(Plant::TablesNoChecksum);
        let header = Header {
            index: u32_at(page, 12),
            generation: u64_at(page, 16),
            checkpoint: u32_at(page, 44),
        };
        let is_ours = page.get(..8) == Some(MAGIC) && array_at(page, 24) == self.instance;
        let is_sound =
            header.index == index && (1..=self.half_pages()).contains(&header.checkpoint);
        let end = HEADER.checked_add(u32_at(page, 40) as usize)?;
        let payload = page.get(HEADER..end)?;
        (is_whole && is_ours && is_sound).then_some((header, payload))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    index: u32,
    generation: u64,
    checkpoint: u32,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Meta {
    generation: u64,
    half: usize,
    /// The place of the next page.
    next: u32,
    checkpoint: u32,
    /// The files as the pages say.
    files: Files,
    /// Bytes of their records.
    bytes: usize,
}

fn full(what: &str) -> Error {
    Error::io(format!("No space left on speed disk: {what}")).with_subcode(SubCode::NoSpace)
}

impl Meta {
    /// The files as the log says.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Returns whether there is hardly any room for further files.
    pub(crate) fn is_full(&self, place: &MetaPlace) -> bool {
        self.bytes > place.records_max() / 20 * 19
    }

    /// Makes `records` durable, all or none.
    ///
    /// # Errors
    /// Of the device: what the disk says after a loss of power is unknown then, until the next change is durable. `Io`
    /// with subcode `NoSpace` if there are too many files.
    pub(crate) fn commit(
        &mut self,
        device: &dyn BlockDevice,
        place: &MetaPlace,
        records: &[TableRecord],
    ) -> Result<()> {
        let mut payload = Vec::new();
        records.iter().for_each(|r| r.encode(&mut payload));
        if payload.len() > place.payload_max() {
            return Err(full("a record of a table is too long"));
        }
        let is_growing = records.iter().any(|r| matches!(r, TableRecord::Put(..)));
        if is_growing && self.bytes + payload.len() > place.records_max() {
            return Err(full("too many tables for its metadata log"));
        }
        if self.next >= place.half_pages() {
            self.turn(device, place)?;
        }
        let header = Header {
            index: self.next,
            generation: self.generation,
            checkpoint: self.checkpoint,
        };
        let page = place.page(&header, &payload);
        let at = place.area.half(self.half) + u64::from(self.next) * place.page_size as u64;
        device.write_at(at, &page, Durability::Durable)?;
        self.next += 1;
        for record in records {
            record.clone().apply(&mut self.files)?;
        }
        self.bytes = bytes_of(&self.files);
        Ok(())
    }

    /// Goes on in the other half, which begins with what this one says.
    fn turn(&mut self, device: &dyn BlockDevice, place: &MetaPlace) -> Result<()> {
        let half = match place.plant {
            Some(Plant::TablesOneHalf) => self.half,
            _ => 1 - self.half,
        };
        let pages = write_checkpoint(device, place, half, self.generation + 1, &self.files)?;
        self.generation += 1;
        self.half = half;
        (self.next, self.checkpoint) = (pages, pages);
        Ok(())
    }

    /// Removes all files.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn clear(&mut self, device: &dyn BlockDevice, place: &MetaPlace) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        match self.turn(device, place) {
            Ok(()) => self.bytes = 0,
            Err(_) => self.files = files.clone(),
        }
        match self.files.is_empty() {
            true => Ok(()),
            false => Err(Error::io("the tables of a speed disk could not be removed")),
        }
    }
}

fn bytes_of(files: &Files) -> usize {
    files.iter().map(|(name, file)| put_len(name, file)).sum()
}

/// Writes a checkpoint into a half. Returns its pages.
pub(crate) fn write_checkpoint(
    device: &dyn BlockDevice,
    place: &MetaPlace,
    half: usize,
    generation: u64,
    files: &Files,
) -> Result<u32> {
    let mut payloads = vec![Vec::new()];
    for (name, file) in files {
        let record = TableRecord::Put(name.clone(), file.clone());
        let last = payloads.last().map_or(0, Vec::len);
        if last + record.len() > place.payload_max() {
            payloads.push(Vec::new());
        }
        if let Some(last) = payloads.last_mut() {
            record.encode(last);
        }
    }
    let checkpoint = payloads.len() as u32;
    if checkpoint >= place.half_pages() {
        return Err(full("too many tables for its metadata log"));
    }
    let mut bytes = Vec::with_capacity(payloads.len() * place.page_size);
    for (index, payload) in (0..).zip(&payloads) {
        let header = Header {
            index,
            generation,
            checkpoint,
        };
        bytes.extend_from_slice(&place.page(&header, payload));
    }
    device.write_at(place.area.half(half), &bytes, Durability::Durable)?;
    Ok(checkpoint)
}

/// Describes what a half holds.
struct Half {
    bytes: Vec<u8>,
    /// Headers of the pages; `None` for those that are not valid.
    headers: Vec<Option<Header>>,
}

impl Half {
    fn read(device: &dyn BlockDevice, place: &MetaPlace, which: usize) -> Result<Self> {
        let mut bytes = vec![0; place.half_pages() as usize * place.page_size];
        device.read_at(place.area.half(which), &mut bytes)?;
        let pages = bytes.chunks_exact(place.page_size);
        let headers = (0..).zip(pages);
        let headers = headers.map(|(i, page)| place.parse(page, i).map(|(header, _)| header));
        let headers = headers.collect();
        Ok(Self { bytes, headers })
    }

    /// The header of the first page, and how many pages belong to its generation, if its checkpoint is whole.
    fn front(&self) -> Option<(Header, u32)> {
        let first = self.headers.first().copied().flatten()?;
        let is_next = |(i, h): &(u32, &Option<Header>)| *h == &Some(Header { index: *i, ..first });
        let count = (0..).zip(&self.headers).take_while(is_next).count() as u32;
        (count >= first.checkpoint).then_some((first, count))
    }

    /// The records of its first `count` pages, one page after the other.
    fn records(&self, place: &MetaPlace, count: u32) -> Result<Files> {
        let mut files = Files::new();
        let pages = self.bytes.chunks_exact(place.page_size);
        for (i, page) in (0..count).zip(pages) {
            let payload = place.parse(page, i).map_or(&[][..], |(_, payload)| payload);
            for record in TableRecord::decode_all(payload)? {
                record.apply(&mut files)?;
            }
        }
        Ok(files)
    }

    /// The first page that was written when the log up to generation `generation` and page `count` of half `is_it` was
    /// durable, and more.
    fn witness(&self, generation: u64, count: Option<u32>) -> Option<Header> {
        let mut headers = self.headers.iter().flatten();
        headers
            .find(|h| match h.generation.cmp(&generation) {
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Equal => count.is_some_and(|count| h.index > count),
                // A checkpoint that was torn says nothing; a page that followed it does.
                std::cmp::Ordering::Greater => h.index >= h.checkpoint,
            })
            .copied()
    }
}

/// Describes what was found on a disk.
pub(crate) struct Recovered {
    pub(crate) meta: Meta,
    pub(crate) free: FreeSpace,
    /// Says what is damaged, if anything is.
    pub(crate) damage: Option<String>,
}

/// Reads the log.
///
/// # Errors
/// `Corruption` if no half has a whole checkpoint, or what one says contradicts itself; of the device.
pub(crate) fn recover(device: &dyn BlockDevice, place: &MetaPlace) -> Result<Recovered> {
    let path = device.path();
    let wrong =
        |what: &str| Error::corruption(format!("tables of a speed disk: {what}")).with_path(path);
    let halves = [Half::read(device, place, 0)?, Half::read(device, place, 1)?];
    let fronts = halves.iter().map(Half::front).enumerate();
    let fronts = fronts.filter_map(|(half, front)| {
        front.map(|(first, count)| (first.generation, half, first, count))
    });
    let Some((generation, half, first, count)) = fronts.max_by_key(|(generation, ..)| *generation)
    else {
        return Err(wrong("both halves of the metadata log are damaged"));
    };
    let damage = halves.iter().enumerate().find_map(|(i, h)| {
        let found = h.witness(generation, (i == half).then_some(count))?;
        Some(format!(
            "page {count} of half {half} of the metadata log of tables is damaged: page {} of generation {} was written later",
            found.index, found.generation
        ))
    });
    let files = match halves.get(half) {
        Some(h) => h.records(place, count).map_err(|e| e.with_path(path))?,
        None => Files::new(),
    };
    let mut taken: Vec<Extent> = Vec::new();
    for (name, file) in &files {
        let pages: u64 = file.runs.iter().map(|run| u64::from(run.pages)).sum();
        if file.size > pages.saturating_mul(place.page_size as u64) {
            return Err(wrong(&format!("{name} is longer than its pages")));
        }
        taken.extend(&file.runs);
    }
    let pages = place.area.data_pages(place.page_size);
    let free = FreeSpace::new(pages, &mut taken);
    let free = free.ok_or_else(|| wrong("pages that two tables have, or that are not there"))?;
    let meta = Meta {
        generation,
        half,
        next: count,
        checkpoint: first.checkpoint,
        bytes: bytes_of(&files),
        files,
    };
    Ok(Recovered { meta, free, damage })
}
