//! Looks for records after damage.
//!
//! Behind a record that fails, the framing is lost: a length may be wrong, and what follows it starts
//! anywhere. The search walks the rest of the file block by block, since no record crosses the end of
//! one. It follows a chain of records as long as their checksums are right, and where none begins it
//! tries the next byte. What it finds was written as a record, or is a copy of one inside a value; the
//! caller tells them apart.
//!
//! The cost is linear in the file. Lengths that are read from the middle of something can ask for long
//! checksums at every byte, so the bytes that may be summed in vain are limited for each block; a
//! record that holds what the caller looks for is tried in any case.
//!
//! Invariants: B3. Nothing found here is ever replayed.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use crate::compression::Decompressor;
use crate::record::{
    BLOCK_SIZE, FULL, HEADER_SIZE, LAST, RECYCLABLE_FULL, RECYCLABLE_HEADER_SIZE, RECYCLABLE_LAST,
    TYPE_OFFSET, ZERO, is_recyclable,
};
use spanlith_base::Result;
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::coding::get_fixed32;
use spanlith_env::RandomAccessFile;

/// Bytes summed in vain that a block may cost, as a multiple of its size.
const WASTE_MAX: usize = 64;

/// Longest compressed payload that is looked into.
const COMPRESSED_MAX: usize = 256;
/// Longest record that is looked for among compressed ones, uncompressed.
const NOTE_MAX: usize = 64 << 10;

/// How a ZSTD frame begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Describes what to look for.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Offset of the first byte that may begin a record.
    pub from: u64,
    /// Offset from which on none is looked for; the block that it lies in may be searched to its end.
    pub until: u64,
    /// Number of the log; 0 for a MANIFEST.
    pub log_number: u64,
    /// Only records with a log number count: the file may hold those of an earlier log.
    pub recycled: bool,
    /// Bytes that tell a record worth any effort, and where in its payload they stand.
    pub mark: Option<(&'a [u8], usize)>,
}

/// Finds the records of `file` from an offset on, and shows each that is whole in one piece (offset of
/// its header, payload, decompressed if it is short) to `visit`. Returns how many logical records end
/// in what was searched; fewer than there are where the limit on wasted work was met.
///
/// # Errors
/// Those of the file.
pub fn search_records(
    file: &dyn RandomAccessFile,
    search: &Search<'_>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<u64> {
    let mut block = vec![0u8; BLOCK_SIZE];
    let mut start = search.from - search.from % BLOCK_SIZE as u64;
    let mut records = 0;
    loop {
        let n = file.read_at(start, &mut block)?;
        let bytes = block.get(..n).unwrap_or_default();
        let first = search.from.saturating_sub(start);
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        records += search_block(bytes, start, first, search, visit);
        start = start.saturating_add(n as u64);
        if n < BLOCK_SIZE || start >= search.until {
            return Ok(records);
        }
    }
}

fn search_block(
    block: &[u8],
    start: u64,
    first: usize,
    search: &Search<'_>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> u64 {
    let mut waste = WASTE_MAX * BLOCK_SIZE;
    let (mut at, mut records) = (first, 0);
    while let Some(rest) = block.get(at..).filter(|rest| rest.len() >= HEADER_SIZE) {
        let Some((record_type, payload, len)) = record_at(rest, search, &mut waste) else {
            at += 1;
            continue;
        };
        if matches!(record_type, FULL | LAST | RECYCLABLE_FULL | RECYCLABLE_LAST) {
            records += 1;
        }
        if matches!(record_type, FULL | RECYCLABLE_FULL) {
            show(start + at as u64, payload, visit);
        }
        at += len;
    }
    records
}

/// The record that `rest` begins with: type, payload, bytes with header.
fn record_at<'b>(
    rest: &'b [u8],
    search: &Search<'_>,
    waste: &mut usize,
) -> Option<(u8, &'b [u8], usize)> {
    let &[c0, c1, c2, c3, l0, l1, record_type] = rest.first_chunk::<HEADER_SIZE>()?;
    let recyclable = is_recyclable(record_type);
    if record_type == ZERO || record_type > RECYCLABLE_LAST || (search.recycled && !recyclable) {
        return None;
    }
    let header = match recyclable {
        true => RECYCLABLE_HEADER_SIZE,
        false => HEADER_SIZE,
    };
    let len = header + usize::from(u16::from_le_bytes([l0, l1]));
    let record = rest.get(..len)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "headers hold the low 32 bits"
    )]
    let number = search.log_number as u32;
    if recyclable && get_fixed32(record, HEADER_SIZE) != Some(number) {
        return None;
    }
    let payload = record.get(header..)?;
    let is_marked = search.mark.is_some_and(|(mark, at)| {
        let from = payload.get(at..);
        from.is_some_and(|from| from.starts_with(mark))
    });
    if *waste < len && !is_marked {
        return None;
    }
    let actual = mask(crc32c(record.get(TYPE_OFFSET..)?));
    if actual != u32::from_le_bytes([c0, c1, c2, c3]) {
        *waste = waste.saturating_sub(len);
        return None;
    }
    Some((record_type, payload, len))
}

fn show(offset: u64, payload: &[u8], visit: &mut dyn FnMut(u64, &[u8])) {
    if !payload.starts_with(&ZSTD_MAGIC) {
        visit(offset, payload);
        return;
    }
    if payload.len() > COMPRESSED_MAX {
        return;
    }
    let mut out = Vec::new();
    let whole = Decompressor::new().ok();
    if whole.and_then(|mut d| d.fragment(payload, &mut out, NOTE_MAX)) == Some(true) {
        visit(offset, &out);
    }
}

/// Returns whether the bytes of a record that seems too long for what is left of its file are a whole record
/// whose length field was changed: the checksum, which leaves the length out, fits them.
pub fn is_whole_but_for_length(rest: &[u8]) -> bool {
    let stored = get_fixed32(rest, 0);
    let Some(body) = rest.get(TYPE_OFFSET..).filter(|b| !b.is_empty()) else {
        return false;
    };
    stored == Some(mask(crc32c(body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogOptions, LogWriter};
    use spanlith_base::CompressionType;
    use spanlith_env::{FileSystem, IoActivity, MemFs};
    use std::path::Path;

    const MARK: &[u8] = b"spanlith";

    /// A log with records of these sizes, each beginning with its number; and where they begin.
    fn log(sizes: &[usize], options: LogOptions) -> (MemFs, Vec<u64>) {
        let fs = MemFs::new();
        let file = fs.create(Path::new("/log"), IoActivity::Wal).unwrap();
        let mut writer = LogWriter::new_with(file, 7, options).unwrap();
        let mut starts = Vec::new();
        for (n, &size) in sizes.iter().enumerate() {
            let mut payload = vec![n as u8; size];
            payload.extend_from_slice(MARK);
            starts.push(writer.next_offset());
            writer.add_record(&payload).unwrap();
        }
        writer.flush().unwrap();
        (fs, starts)
    }

    fn found(fs: &MemFs, from: u64, recycled: bool) -> (u64, Vec<u64>) {
        let file = fs.open_random(Path::new("/log")).unwrap();
        let search = Search {
            from,
            until: u64::MAX,
            log_number: 7,
            recycled,
            mark: Some((MARK, 40)),
        };
        let mut offsets = Vec::new();
        let records = search_records(&*file, &search, &mut |at, _| offsets.push(at)).unwrap();
        (records, offsets)
    }

    #[test]
    fn records_are_found_from_any_byte_on() {
        let sizes = [40, 100, 0, 32_700, 10, 40_000, 40];
        for recyclable in [false, true] {
            let options = LogOptions {
                recyclable,
                ..LogOptions::default()
            };
            let (fs, starts) = log(&sizes, options);
            // The fourth and the sixth record are in pieces.
            let whole = [0, 1, 2, 4, 6].map(|n| starts[n]);
            assert_eq!(found(&fs, 0, recyclable), (7, whole.to_vec()));
            for from in 1..starts[2] {
                let behind: Vec<u64> = whole.iter().copied().filter(|&s| s >= from).collect();
                assert_eq!(found(&fs, from, recyclable).1, behind, "{from}");
            }
            assert_eq!(found(&fs, 1 << 20, recyclable), (0, Vec::new()));
        }
        let (fs, _) = log(&sizes, LogOptions::default());
        assert_eq!(
            found(&fs, 0, true),
            (0, Vec::new()),
            "no record has a number"
        );
    }

    #[test]
    fn short_compressed_records_are_shown_as_they_were() {
        let (fs, starts) = log(
            &[40, 41],
            LogOptions {
                compression: CompressionType::Zstd,
                ..LogOptions::default()
            },
        );
        let file = fs.open_random(Path::new("/log")).unwrap();
        let search = Search {
            from: starts[0] + 1,
            until: u64::MAX,
            log_number: 7,
            recycled: false,
            mark: Some((MARK, 41)),
        };
        let mut shown = Vec::new();
        search_records(&*file, &search, &mut |at, p| shown.push((at, p.to_vec()))).unwrap();
        let mut payload = vec![1u8; 41];
        payload.extend_from_slice(MARK);
        assert_eq!(shown, [(starts[1], payload)]);
    }

    #[test]
    fn wasted_work_is_limited_but_marked_records_are_found() {
        let (fs, starts) = log(&[40], LogOptions::default());
        let mut bytes = fs.read_all(Path::new("/log"), 1 << 20).unwrap();
        let record = bytes.split_off(starts[0] as usize);
        // Every third byte begins something that may be a record of 16 KiB.
        let mut image: Vec<u8> = [0xff, 0x3f, 1].repeat(10_000);
        let at = image.len() as u64;
        image.extend_from_slice(&record);
        fs.write_file(Path::new("/log"), &image).unwrap();
        assert_eq!(found(&fs, 0, false), (1, vec![at]));
    }

    #[test]
    fn a_changed_length_is_told_from_a_cut_record() {
        let (fs, _) = log(&[100], LogOptions::default());
        let mut bytes = fs.read_all(Path::new("/log"), 1 << 20).unwrap();
        bytes[5] ^= 0x40;
        assert!(is_whole_but_for_length(&bytes));
        for cut in 0..bytes.len() {
            assert!(!is_whole_but_for_length(&bytes[..cut]), "{cut}");
        }
    }
}
