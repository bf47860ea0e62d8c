//! Sectors that read as others of the same file.
//!
//! A disk that puts one sector in the place of another leaves a log whose records are right and whose
//! replay stops where the sector ends, as at a torn tail. But then the records that were replayed from
//! the wrong place stand after it once more, in their own: byte for byte, at a distance of whole
//! sectors, with numbers that were given out before. Nothing that a log is appended by writes that. A
//! value that holds the image of its own log could, torn by a power loss, and is reported as well.

use spanlith_base::Result;
use spanlith_env::RandomAccessFile;
use spanlith_wal::record::HEADER_SIZE;

/// Size of the sectors that disks exchange, in bytes, or a part of it.
const SECTOR: usize = 512;

/// Bytes of a file that are read at a time; a multiple of the sector.
const STEP: usize = 64 << 10;

/// The first place in front of `limit` whose bytes are those of the record at `at`, whole sectors away
/// from it. Reads the file up to `limit` once.
///
/// # Errors
/// Those of the file.
pub(super) fn find_twin(file: &dyn RandomAccessFile, at: u64, limit: u64) -> Result<Option<u64>> {
    let mut head = [0; HEADER_SIZE];
    if file.read_at(at, &mut head)? < HEADER_SIZE {
        return Ok(None);
    }
    let [.., l0, l1, _] = head;
    // Without the log number that a recyclable header ends with; it is covered by the checksum.
    let len = HEADER_SIZE + usize::from(u16::from_le_bytes([l0, l1]));
    let mut record = vec![0; len];
    if file.read_at(at, &mut record)? < len {
        return Ok(None);
    }
    let limit = limit.min(at);
    let mut window = vec![0; STEP + HEADER_SIZE];
    let mut start = at % SECTOR as u64;
    while start < limit {
        let n = file.read_at(start, &mut window)?;
        let bytes = window.get(..n).unwrap_or_default();
        for from in (0..STEP).step_by(SECTOR) {
            let place = start + from as u64;
            let is_like = bytes.get(from..).is_some_and(|b| b.starts_with(&head));
            if !is_like || place >= limit {
                continue;
            }
            let mut twin = vec![0; len];
            if file.read_at(place, &mut twin)? == len && twin == record {
                return Ok(Some(place));
            }
        }
        start += STEP as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{FileSystem, MemFs};
    use std::path::Path;

    #[test]
    fn a_twin_is_found_whole_sectors_away_and_nowhere_else() {
        let mut record: Vec<u8> = (0..100).collect();
        record[4..6].copy_from_slice(&93u16.to_le_bytes());
        let twin = |first: usize, second: usize, change: bool| {
            let mut bytes = vec![0xee; 300_000];
            bytes[first..first + 100].copy_from_slice(&record);
            bytes[first + 99] ^= u8::from(change);
            bytes[second..second + 100].copy_from_slice(&record);
            let fs = MemFs::new();
            fs.write_file(Path::new("/log"), &bytes).unwrap();
            let file = fs.open_random(Path::new("/log")).unwrap();
            find_twin(&*file, second as u64, second as u64 - 1).unwrap()
        };
        for first in [0, 512, 77, 65_530, 65_536, 200_003] {
            assert_eq!(twin(first, first + 512, false), Some(first as u64));
            assert_eq!(twin(first, first + 4096 * 5, false), Some(first as u64));
            assert_eq!(twin(first, first + 511, false), None, "{first}");
            assert_eq!(twin(first, first + 512, true), None, "{first}");
        }
    }
}
