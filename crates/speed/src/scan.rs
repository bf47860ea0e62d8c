//! Recovery: what the pages of a disk hold.
//!
//! A page counts if its checksum, the instance of the disk, the colour of its log and its own place agree, and if
//! every ordinal below its own, down to the floor of the directory, is that of a page that counts: the
//! *durable prefix*. An ordinal that is missing below a witness was durable once: that is damage, and told.
//! A batch that is not there whole does not count. Nothing is changed here.

use crate::directory::{Directory, LogEnd, LogEntry};
use crate::kept::{Chunk, KeptPages};
use crate::layout::Layout;
use crate::listing::Listing;
use crate::page::PageHeader;
use crate::plant::Plant;
use crate::superblock::Superblock;
use crate::verify::{Raw, Rule, Verified, Verifier};
use spanlith_base::Result;
use spanlith_base::memory::REGION_BYTES;
use spanlith_env::BlockDevice;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Reads whose pages are kept as one piece.
const READS_OF_PIECE: u32 = (REGION_BYTES / READ_BYTES) as u32;

/// Bytes of pages that a scan keeps, so that a replay after it need not read and check them again. The replay gives them up
/// as it fills memtables with them.
const KEPT_BYTES: usize = 256 << 20;

/// Where a part of a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    /// Where in the log it begins.
    pub(crate) offset: u64,
    /// Its ordinal.
    pub(crate) ordinal: u64,
    /// Its page.
    pub(crate) page: u32,
    /// Its bytes.
    pub(crate) len: u16,
}

impl From<&PageHeader> for PageRef {
    fn from(h: &PageHeader) -> Self {
        Self {
            offset: h.offset,
            ordinal: h.ordinal,
            page: h.page,
            len: h.len,
        }
    }
}

/// A log that was found.
#[derive(Clone, Debug)]
pub struct FoundLog {
    /// Says what the directory says about it.
    pub entry: LogEntry,
    /// Bytes that count.
    pub bytes: u64,
    /// Pages of this log that are whole and do not count, because one before them is missing.
    pub dropped_pages: u64,
    pub(crate) pages: Vec<PageRef>,
    /// Its first pages, as many as were kept.
    pub(crate) kept: KeptPages,
}

/// The pages of a log that are whole.
pub(crate) struct Pages {
    headers: Vec<PageHeader>,
    /// As many of its first ones as there was room for, and were not given to the log already.
    kept: KeptPages,
}

/// Describes what a scan found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The logs, by rising number.
    pub logs: Vec<FoundLog>,
    /// The first ordinal that does not count.
    pub next_ordinal: u64,
    /// Which bytes that were durable are damaged or missing, if any are.
    pub damage: Option<String>,
}

impl Scan {
    /// Pages that are whole and do not count.
    pub fn dropped_pages(&self) -> u64 {
        self.logs.iter().map(|l| l.dropped_pages).sum()
    }
}

/// Returns what the pages of all logs of the directory hold.
///
/// # Errors
/// Of reading the device: a page that cannot be read is none that was never written.
pub(crate) fn scan(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    directory: &Directory,
    plant: Option<Plant>,
) -> Result<Scan> {
    let layout = &superblock.layout;
    let rule = rule_of(superblock, plant);
    let bytes = bytes_of(layout, directory);
    let found = std::thread::scope(|scope| {
        let verifier = Verifier::new(scope, rule, bytes);
        let mut reading = Reading::new(device, layout, verifier, None);
        let logs = directory.logs.iter();
        logs.map(|entry| reading.log(entry, plant))
            .collect::<Result<Vec<Pages>>>()
    })?;
    Ok(judge(directory, found, plant))
}

fn rule_of(superblock: &Superblock, plant: Option<Plant>) -> Rule {
    Rule {
        page_size: superblock.layout.page_size as usize,
        instance: superblock.instance,
        ignores_checksums: plant == Some(Plant::NoChecksum),
    }
}

/// Bytes that a scan of the logs of `directory` reads.
pub(crate) fn bytes_of(layout: &Layout, directory: &Directory) -> u64 {
    let groups: u64 = directory.logs.iter().map(|l| l.groups.len() as u64).sum();
    groups * u64::from(layout.group_pages) * u64::from(layout.page_size)
}

/// Reads the pages of all logs of the directory, and tells `listing` what counts as soon as it does. [`judge`] says the rest.
///
/// # Errors
/// As [`scan`]; if `listing` is told to stop.
pub(crate) fn read_listed(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    directory: &Directory,
    listing: &mut Listing,
) -> Result<Vec<Pages>> {
    let verifier = Verifier::at_once(rule_of(superblock, None));
    let mut reading = Reading::new(device, &superblock.layout, verifier, Some(listing));
    let logs = directory.logs.iter();
    logs.map(|entry| reading.log(entry, None)).collect()
}

/// Reads the logs of a disk, one after the other.
struct Reading<'a> {
    device: &'a dyn BlockDevice,
    layout: &'a Layout,
    verifier: Verifier,
    /// Bytes of pages that may still be kept.
    room: usize,
    /// Memory of a piece that was not kept.
    spare: Option<Chunk>,
    /// Is told what counts while the rest is read.
    listing: Option<&'a mut Listing>,
}

impl<'a> Reading<'a> {
    fn new(
        device: &'a dyn BlockDevice,
        layout: &'a Layout,
        verifier: Verifier,
        listing: Option<&'a mut Listing>,
    ) -> Self {
        Self {
            device,
            layout,
            verifier,
            room: KEPT_BYTES,
            spare: None,
            listing,
        }
    }

    /// All pages of a log that are whole.
    fn log(&mut self, entry: &LogEntry, plant: Option<Plant>) -> Result<Pages> {
        let layout = self.layout;
        let page_size = layout.page_size as usize;
        let pages_at_once = (READ_BYTES / page_size).max(1) as u32;
        let pages_of_piece = pages_at_once
            .saturating_mul(READS_OF_PIECE)
            .min(layout.group_pages);
        let bytes_of_piece = pages_of_piece as usize * page_size;
        let counts = |header: &PageHeader| {
            let is_ours = header.colour == entry.colour || plant == Some(Plant::NoColour);
            let is_before_end = match entry.end {
                LogEnd::Closed(end) => header.offset.saturating_add(u64::from(header.len)) <= end,
                LogEnd::Open(_) | LogEnd::Broken(_) => true,
            };
            is_ours && is_before_end
        };
        let mut pages = Pages {
            headers: Vec::new(),
            kept: KeptPages::new(page_size),
        };
        for &group in &entry.groups {
            let end = layout.first_page(group) + layout.group_pages;
            let mut first = layout.first_page(group);
            while first < end {
                let count = pages_of_piece.min(end - first);
                let spare = self.spare.take();
                let mut chunk = spare.unwrap_or_else(|| Chunk::new(bytes_of_piece));
                let whole = chunk.bytes_mut().get_mut(..count as usize * page_size);
                let mut at = layout.offset_of(first);
                for part in whole
                    .unwrap_or_default()
                    .chunks_mut(pages_at_once as usize * page_size)
                {
                    self.device.read_at(at, part)?;
                    at += part.len() as u64;
                }
                self.verifier.give(Raw {
                    first,
                    count,
                    chunk,
                });
                while let Some(piece) = self.verifier.next() {
                    self.take(piece, bytes_of_piece, &counts, &mut pages)?;
                }
                first += count;
            }
        }
        while let Some(piece) = self.verifier.rest() {
            self.take(piece, bytes_of_piece, &counts, &mut pages)?;
        }
        if let Some(listing) = &mut self.listing {
            listing.end_log();
        }
        pages.headers.sort_by_key(|h| h.ordinal);
        pages.headers.dedup_by_key(|h| h.ordinal);
        Ok(pages)
    }

    /// Takes what counts of a piece, whose pages are kept if there is room for them.
    fn take(
        &mut self,
        piece: Verified,
        bytes: usize,
        counts: &dyn Fn(&PageHeader) -> bool,
        pages: &mut Pages,
    ) -> Result<()> {
        let Verified { raw, headers } = piece;
        let before = pages.headers.len();
        pages.headers.extend(headers.into_iter().filter(counts));
        let last = pages.headers.get(before..).and_then(<[_]>::last);
        match last.filter(|_| self.room >= bytes) {
            Some(last) => {
                self.room -= bytes;
                pages.kept.keep(raw.first, last.page, raw.chunk);
            }
            None => self.spare = Some(raw.chunk),
        }
        let new = pages.headers.get(before..).unwrap_or_default();
        match &mut self.listing {
            Some(listing) => listing.list(new, &mut pages.kept),
            None => Ok(()),
        }
    }
}

/// Which of the pages found count.
pub(crate) fn judge(directory: &Directory, found: Vec<Pages>, plant: Option<Plant>) -> Scan {
    let mut above: Vec<PageHeader> = found.iter().flat_map(|f| &f.headers).copied().collect();
    above.retain(|h| h.ordinal >= directory.floor);
    above.sort_by_key(|h| h.ordinal);
    let mut next = directory.floor;
    let mut whole = next;
    let mut before: Option<u16> = None;
    for header in &above {
        // An older form of the page before, which lacks its end, is as good as none.
        let follows = header.ordinal == next && before.is_none_or(|len| len == header.before);
        if !follows && plant != Some(Plant::Holes) {
            break;
        }
        before = Some(header.len);
        next = header.ordinal + 1;
        if header.index + 1 == header.batch {
            whole = next;
        }
    }
    let next = whole;
    let witnessed = above.iter().map(|h| h.witness).max().unwrap_or(0);
    let mut damage = (next < witnessed).then(|| {
        format!(
            "the page with ordinal {next} is damaged or missing; everything below ordinal {witnessed} had been made \
             durable"
        )
    });
    let mut logs = Vec::with_capacity(found.len());
    for (entry, pages) in directory.logs.iter().zip(found) {
        let counted = pages.headers.iter().filter(|h| h.ordinal < next).count();
        let log = assemble(entry, pages, next);
        let is_short = match entry.end {
            LogEnd::Closed(end) => log.bytes != end,
            LogEnd::Open(durable) => log.bytes < durable || log.pages.len() < counted,
            LogEnd::Broken(durable) => log.bytes < durable,
        };
        if is_short && damage.is_none() && plant.is_none() {
            damage = Some(format!(
                "log {:06} is damaged or missing behind its byte {}; {} bytes of it had been made durable",
                entry.number,
                log.bytes,
                entry.end.durable()
            ));
        }
        logs.push(log);
    }
    Scan {
        logs,
        next_ordinal: next,
        damage,
    }
}

/// The front of a log: its pages below `next`, as far as they follow one another.
fn assemble(entry: &LogEntry, found: Pages, next: u64) -> FoundLog {
    let Pages { headers, kept } = found;
    let mut pages = Vec::new();
    let mut bytes = 0u64;
    for header in headers.iter().take_while(|h| h.ordinal < next) {
        if header.offset != bytes {
            break;
        }
        bytes += u64::from(header.len);
        pages.push(PageRef::from(header));
    }
    FoundLog {
        kept,
        entry: entry.clone(),
        bytes,
        dropped_pages: (headers.len() - pages.len()) as u64,
        pages,
    }
}

#[cfg(test)]
impl Pages {
    pub(crate) fn of(headers: Vec<PageHeader>) -> Self {
        Self {
            headers,
            kept: KeptPages::default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::disk::SpeedDisk;
    use crate::emulated::{EmulatedDevice, Profile};
    use crate::format::{FormatOptions, format_disk};
    use crate::usage::{LogReading, SpeedOptions};
    use crate::writer::LogFile;
    use spanlith_env::WritableFile;
    use std::path::Path;
    use std::sync::Arc;

    pub(crate) fn page(ordinal: u64, index: u16, batch: u16, offset: u64) -> PageHeader {
        PageHeader {
            colour: 1,
            ordinal,
            page: ordinal as u32,
            index,
            batch,
            offset,
            witness: 0,
            len: 10,
            before: 10,
        }
    }

    /// The verdict on pages of one log, which are numbered from 5 on.
    pub(crate) fn found(pages: &[PageHeader], end: LogEnd) -> Scan {
        let directory = Directory {
            generation: 1,
            instance: [0; 16],
            floor: 5,
            logs: vec![LogEntry {
                number: 4,
                colour: 1,
                end,
                groups: vec![0],
            }],
        };
        judge(&directory, vec![Pages::of(pages.to_vec())], None)
    }

    #[test]
    fn a_batch_counts_whole_or_not_at_all() {
        let pages = [page(5, 0, 1, 0), page(6, 0, 3, 10), page(7, 1, 3, 20)];
        let scan = found(&pages, LogEnd::Open(0));
        assert_eq!((scan.next_ordinal, scan.logs[0].bytes), (6, 10));
        assert_eq!((scan.dropped_pages(), scan.damage), (2, None));
        let whole = [&pages[..], &[page(8, 2, 3, 30)]].concat();
        assert_eq!(found(&whole, LogEnd::Open(0)).logs[0].bytes, 40);
    }

    /// X-SD-10: a replay reads what the open has read already; whoever reads once more reads the device.
    #[test]
    fn the_first_reader_after_an_open_reads_no_page_again() {
        for reading in [LogReading::AtOnce, LogReading::AlwaysBeside] {
            reads_no_page_again(reading);
        }
    }

    fn reads_no_page_again(reading: LogReading) {
        let options = SpeedOptions {
            reading,
            ..SpeedOptions::default()
        };
        let open =
            |device: &Arc<EmulatedDevice>| SpeedDisk::open(device.clone(), &options).unwrap();
        let profile = Profile::by_name("O").unwrap();
        let device = Arc::new(EmulatedDevice::new(profile, 4 << 20));
        let format = FormatOptions {
            group_bytes: 64 << 10,
            ..FormatOptions::default()
        };
        format_disk(&*device, &format, [3; 16]).unwrap();
        let disk = open(&device);
        let log = disk.create_log(5).unwrap();
        let mut file = LogFile::new(disk.clone(), log, Path::new("log"));
        let mut written = Vec::new();
        for n in 0..60u8 {
            let bytes = vec![n; 100 + 90 * usize::from(n)];
            // Pages that are written again, whole batches, and flushes.
            if n % 3 == 0 {
                file.expect_sync();
            }
            file.append(&bytes).unwrap();
            if n % 3 == 0 || n % 7 == 0 {
                file.sync().unwrap();
            }
            written.extend_from_slice(&bytes);
        }
        drop((file, disk));
        let disk = open(&device);
        let log = disk.log(5).unwrap();
        disk.conclude().unwrap();
        let read = || {
            let before = device.requests();
            let mut found = Vec::new();
            let mut part = [0; 3000];
            loop {
                let n = log.read_at(&disk, found.len() as u64, &mut part).unwrap();
                found.extend_from_slice(&part[..n]);
                if n == 0 {
                    break;
                }
            }
            assert!(
                found == written,
                "{} of {} bytes",
                found.len(),
                written.len()
            );
            device.requests() - before
        };
        assert_eq!(read(), 0);
        assert!(read() > 0, "the memory was given back");
    }

    #[test]
    fn what_was_durable_and_is_missing_is_damage() {
        let mut pages = [page(5, 0, 1, 0), page(7, 0, 1, 20)];
        assert_eq!(found(&pages, LogEnd::Open(10)).damage, None);
        pages[1].witness = 7;
        let damage = found(&pages, LogEnd::Open(10)).damage.unwrap();
        assert!(
            damage.contains("ordinal 6 is damaged or missing"),
            "{damage}"
        );
        for end in [LogEnd::Open(20), LogEnd::Closed(20), LogEnd::Broken(20)] {
            let damage = found(&[page(5, 0, 1, 0)], end).damage.unwrap();
            assert!(damage.contains("behind its byte 10; 20 bytes"), "{damage}");
        }
    }
}
