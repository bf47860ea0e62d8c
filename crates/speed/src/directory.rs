//! The log directory: which logs are on a speed disk, and which page groups hold them.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `SPANSDLD` |
//! | 8 | 4 | masked CRC-32C of what follows, to the end |
//! | 12 | 4 | bytes in all |
//! | 16 | 8 | generation |
//! | 24 | 16 | instance of the disk |
//! | 40 | 8 | floor: an ordinal below it that no page has belongs to a log that is gone or broken |
//! | 48 | 4, 4 | logs, zero |
//! | 56 | | per log: number, colour, bytes (8 each), state, groups (4 each), then the groups (4 each) |
//!
//! A page group that no log names is free. It is not zeroed: the colour tells old pages from new ones.

use crate::bytes::{array_at, u32_at, u64_at};
use crate::layout::{DIRECTORY_MAX, Layout};
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::{Error, Result, SubCode};

const MAGIC: &[u8; 8] = b"SPANSDLD";
const HEADER: usize = 56;
const ENTRY: usize = 32;

/// Describes what is recorded about where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// It may be growing; so many bytes were durable.
    Open(u64),
    /// It holds so many bytes, all of them durable, and grows no more. Pages of its colour with bytes after them
    /// were dropped.
    Closed(u64),
    /// A write or a flush failed: so many bytes are durable, and what is after them, if anything, may have holes.
    Broken(u64),
}

impl LogEnd {
    /// Bytes that are durable.
    pub fn durable(self) -> u64 {
        let (Self::Open(n) | Self::Closed(n) | Self::Broken(n)) = self;
        n
    }
}

/// For reports: the end of a log as words.
impl std::fmt::Display for LogEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(n) => write!(f, "open, {n} bytes were durable"),
            Self::Closed(n) => write!(f, "closed, {n} bytes"),
            Self::Broken(n) => write!(f, "broken, {n} bytes are durable"),
        }
    }
}

/// A log in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number in the database.
    pub number: u64,
    /// Says what tells its pages from those that stood there before.
    pub colour: u64,
    /// Where it ends.
    pub end: LogEnd,
    /// Its page groups, in order.
    pub groups: Vec<u32>,
}

/// The logs of a disk, by rising number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Which of two copies is newer.
    pub generation: u64,
    /// Instance of the disk.
    pub instance: [u8; 16],
    /// An ordinal below it that no page has belongs to a log that is gone or broken.
    pub floor: u64,
    /// The logs.
    pub logs: Vec<LogEntry>,
}

impl Directory {
    /// Its bytes.
    ///
    /// # Errors
    /// `Io` with subcode `NoSpace` if they do not fit.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.instance);
        out.extend_from_slice(&self.floor.to_le_bytes());
        out.extend_from_slice(&(self.logs.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for log in &self.logs {
            let state = match log.end {
                LogEnd::Open(_) => 0u32,
                LogEnd::Closed(_) => 1,
                LogEnd::Broken(_) => 2,
            };
            for n in [log.number, log.colour, log.end.durable()] {
                out.extend_from_slice(&n.to_le_bytes());
            }
            out.extend_from_slice(&state.to_le_bytes());
            out.extend_from_slice(&(log.groups.len() as u32).to_le_bytes());
            for group in &log.groups {
                out.extend_from_slice(&group.to_le_bytes());
            }
        }
        if out.len() > DIRECTORY_MAX {
            let text =
                "No space left on speed disk: too many logs and page groups for its directory";
            return Err(Error::io(text).with_subcode(SubCode::NoSpace));
        }
        let len = out.len() as u32;
        if let Some(place) = out.get_mut(12..16) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        let crc = mask(crc32c(out.get(12..).unwrap_or_default()));
        if let Some(place) = out.get_mut(8..12) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        Ok(out)
    }

    /// Returns what `bytes`, of which the directory may be the front, say; `None` if they are none of this disk's, torn
    /// or damaged.
    ///
    /// # Errors
    /// `Corruption` for a directory that contradicts itself or the sizes under a checksum that is right.
    pub fn decode(bytes: &[u8], instance: &[u8; 16], layout: &Layout) -> Result<Option<Self>> {
        let len = u32_at(bytes, 12) as usize;
        if bytes.get(..8) != Some(MAGIC) || !(HEADER..=DIRECTORY_MAX).contains(&len) {
            return Ok(None);
        }
        let Some(bytes) = bytes.get(..len) else {
            return Ok(None);
        };
        let crc = mask(crc32c(bytes.get(12..).unwrap_or_default()));
        if u32_at(bytes, 8) != crc || array_at(bytes, 24) != *instance {
            return Ok(None);
        }
        let found = Self {
            generation: u64_at(bytes, 16),
            instance: *instance,
            floor: u64_at(bytes, 40),
            logs: decode_logs(bytes, u32_at(bytes, 48), layout)?,
        };
        Ok(Some(found))
    }
}

fn decode_logs(bytes: &[u8], count: u32, layout: &Layout) -> Result<Vec<LogEntry>> {
    let wrong = |what: &str| Error::corruption(format!("log directory of a speed disk: {what}"));
    let mut used = vec![false; layout.groups as usize];
    let mut logs: Vec<LogEntry> = Vec::new();
    let mut at = HEADER;
    for _ in 0..count {
        if at + ENTRY > bytes.len() {
            return Err(wrong("it ends within a log"));
        }
        let end = u64_at(bytes, at + 16);
        let end = match u32_at(bytes, at + 24) {
            0 => LogEnd::Open(end),
            1 => LogEnd::Closed(end),
            2 => LogEnd::Broken(end),
            _ => return Err(wrong("a state nobody knows")),
        };
        let count = u32_at(bytes, at + 28) as usize;
        let list = count.checked_mul(4).and_then(|n| n.checked_add(at + ENTRY));
        let Some(list) = list.and_then(|end| bytes.get(at + ENTRY..end)) else {
            return Err(wrong("it ends within the page groups of a log"));
        };
        let mut groups = Vec::with_capacity(count);
        for i in 0..count {
            let group = u32_at(list, i * 4);
            match used.get_mut(group as usize) {
                Some(used) if !*used => *used = true,
                Some(_) => return Err(wrong(&format!("page group {group} is named twice"))),
                None => return Err(wrong(&format!("page group {group} is not on this disk"))),
            }
            groups.push(group);
        }
        let log = LogEntry {
            number: u64_at(bytes, at),
            colour: u64_at(bytes, at + 8),
            end,
            groups,
        };
        let is_behind = |before: &LogEntry| before.number < log.number;
        if !logs.last().is_none_or(is_behind) {
            return Err(wrong("logs out of order"));
        }
        at += ENTRY + list.len();
        logs.push(log);
    }
    match at == bytes.len() {
        true => Ok(logs),
        false => Err(wrong("something follows the last log")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTANCE: [u8; 16] = *b"0123456789abcdef";

    fn layout() -> Layout {
        Layout::new(1 << 20, 4096, 64 << 10).unwrap()
    }

    fn entry(number: u64, end: LogEnd, groups: &[u32]) -> LogEntry {
        LogEntry {
            number,
            colour: number << 8,
            end,
            groups: groups.to_vec(),
        }
    }

    fn example() -> Directory {
        Directory {
            generation: 9,
            instance: INSTANCE,
            floor: 31,
            logs: vec![
                entry(4, LogEnd::Closed(20), &[3, 0]),
                entry(9, LogEnd::Broken(25), &[1]),
                entry(11, LogEnd::Open(7), &[]),
            ],
        }
    }

    #[test]
    fn a_directory_comes_back_and_no_changed_bit_goes_unseen() {
        let bytes = example().encode().unwrap();
        let mut padded = bytes.clone();
        padded.resize(4096, 0xee);
        for bytes in [&bytes, &padded] {
            let found = Directory::decode(bytes, &INSTANCE, &layout()).unwrap();
            assert_eq!(found, Some(example()));
        }
        assert_eq!(
            Directory::decode(&bytes, &[0; 16], &layout()).unwrap(),
            None
        );
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = Directory::decode(&changed, &INSTANCE, &layout());
            assert_eq!(found.unwrap(), None, "bit {bit}");
        }
    }

    #[test]
    fn a_directory_that_contradicts_itself_is_damaged() {
        for (logs, what) in [
            (vec![entry(4, LogEnd::Open(0), &[1, 1])], "named twice"),
            (vec![entry(4, LogEnd::Open(0), &[12])], "not on this disk"),
            (
                vec![
                    entry(4, LogEnd::Open(0), &[]),
                    entry(3, LogEnd::Open(0), &[]),
                ],
                "out of order",
            ),
        ] {
            let directory = Directory { logs, ..example() };
            let bytes = directory.encode().unwrap();
            let e = Directory::decode(&bytes, &INSTANCE, &layout()).unwrap_err();
            assert!(e.to_string().contains(what), "{e}");
        }
        let many = vec![entry(4, LogEnd::Open(0), &[0; 20_000])];
        let e = Directory {
            logs: many,
            ..example()
        }
        .encode()
        .unwrap_err();
        assert_eq!(e.subcode(), Some(SubCode::NoSpace));
    }
}
