//! Files of equal slots, one for each size class.
//!
//! A slot, little-endian: CRC-32C of all after it (4 bytes), family (4), sequence number (8), length of the key (4),
//! of the value (4), key, value; the rest is what was there before. A slot that was emptied begins with 24 zero bytes. Classes are powers of two
//! from 64 bytes to 1 MiB, so that a slot of at most 4 KiB never crosses a page.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER: usize = 24;
/// Size of a slot of the smallest class, as a power of two.
const SMALLEST: u32 = 6;
/// The same of the largest.
const LARGEST: u32 = 20;

/// A slot: class and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    class: u8,
    slot: u32,
}

/// Describes what a slot holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) family: usize,
    pub(super) sequence: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

impl<'a> Entry<'a> {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend((self.family as u32).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend((self.key.len() as u32).to_le_bytes());
        out.extend((self.value.len() as u32).to_le_bytes());
        out.extend(self.key);
        out.extend(self.value);
        let sum = spanlith_base::checksum::crc32c(&out[4..]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The entry of a slot; `None` if it is empty or was torn.
    fn decode(slot: &'a [u8]) -> Option<Self> {
        let key_len = usize::try_from(number(slot, 16)).ok()?;
        let value_len = usize::try_from(number(slot, 20)).ok()?;
        let end = HEADER.checked_add(key_len)?.checked_add(value_len)?;
        let body = slot.get(4..end)?;
        if spanlith_base::checksum::crc32c(body) != number(slot, 0) {
            return None;
        }
        let sequence = slot.get(8..16)?.try_into().ok()?;
        Some(Self {
            family: usize::try_from(number(slot, 4)).ok()?,
            sequence: u64::from_le_bytes(sequence),
            key: slot.get(HEADER..HEADER + key_len)?,
            value: slot.get(HEADER + key_len..end)?,
        })
    }
}

/// Slots of one size.
#[derive(Debug)]
struct Class {
    file: File,
    path: PathBuf,
    size: usize,
    /// Slots that the file has.
    slots: u32,
    free: BTreeSet<u32>,
}

impl Class {
    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.size as u64
    }

    fn wrong(&self, slot: u32) -> Error {
        let text = format!("{}: slot {slot} is damaged", self.path.display());
        Error::new(ErrorKind::InvalidData, text)
    }
}

/// All size classes.
#[derive(Debug)]
pub(super) struct Slabs {
    classes: Vec<Class>,
    sequence: u64,
}

impl Slabs {
    /// Opens the files and shows every entry.
    pub(super) fn open(dir: &Path, mut each: impl FnMut(&Entry<'_>, Place)) -> Result<Self> {
        let mut out = Self {
            classes: Vec::new(),
            sequence: 0,
        };
        for (class, power) in (0..).zip(SMALLEST..=LARGEST) {
            let path = dir.join(format!("{}.slab", 1_u64 << power));
            let mut file = File::options();
            file.read(true).write(true).create(true).truncate(false);
            let file = file
                .open(&path)
                .map_err(|e| Error::new(e.kind(), format!("{}: {e}", path.display())))?;
            let size = 1_usize << power;
            let len = file.metadata()?.len();
            // A last slot that was cut off holds nothing.
            let slots = u32::try_from(len / size as u64)
                .map_err(|_| Error::other(format!("{}: too many slots", path.display())))?;
            let (mut free, mut buffer) = (BTreeSet::new(), vec![0; size]);
            for slot in 0..slots {
                file.read_exact_at(&mut buffer, u64::from(slot) * size as u64)?;
                match Entry::decode(&buffer) {
                    Some(entry) => {
                        out.sequence = out.sequence.max(entry.sequence);
                        each(&entry, Place { class, slot });
                    }
                    None => {
                        free.insert(slot);
                    }
                }
            }
            out.classes.push(Class {
                file,
                path,
                size,
                slots,
                free,
            });
        }
        Ok(out)
    }

    /// Writes an entry: over its old slot if that has the right size, else into a free or a new one.
    pub(super) fn put(
        &mut self,
        family: usize,
        key: &[u8],
        value: &[u8],
        old: Option<Place>,
    ) -> Result<Place> {
        let bytes = HEADER + key.len() + value.len();
        let power = bytes.next_power_of_two().ilog2().max(SMALLEST);
        if power > LARGEST {
            let text = format!("an entry of {bytes} bytes is larger than the largest slot");
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        self.sequence += 1;
        let entry = Entry {
            family,
            sequence: self.sequence,
            key,
            value,
        };
        let number = (power - SMALLEST) as usize;
        let class = &mut self.classes[number];
        let in_place = old.filter(|old| usize::from(old.class) == number);
        let slot = match in_place {
            Some(old) => old.slot,
            None => class.free.first().copied().unwrap_or(class.slots),
        };
        let mut bytes = entry.encode();
        if slot == class.slots {
            // A file ends with a whole slot.
            bytes.resize(class.size, 0);
        }
        class.file.write_all_at(&bytes, class.offset(slot))?;
        class.free.remove(&slot);
        class.slots = class.slots.max(slot + 1);
        Ok(Place {
            class: number as u8,
            slot,
        })
    }

    /// Empties a slot.
    pub(super) fn clear(&mut self, place: Place) -> Result<()> {
        let class = &mut self.classes[usize::from(place.class)];
        let offset = class.offset(place.slot);
        class.file.write_all_at(&[0; HEADER], offset)?;
        class.free.insert(place.slot);
        Ok(())
    }

    /// Adds the value in a slot to a buffer.
    pub(super) fn value(&self, place: Place, key: &[u8], value: &mut Vec<u8>) -> Result<()> {
        let class = &self.classes[usize::from(place.class)];
        let mut buffer = vec![0; class.size];
        let offset = class.offset(place.slot);
        class.file.read_exact_at(&mut buffer, offset)?;
        match Entry::decode(&buffer) {
            Some(entry) if entry.key == key => {
                value.extend_from_slice(entry.value);
                Ok(())
            }
            _ => Err(class.wrong(place.slot)),
        }
    }

    /// Makes all files last through a power cut.
    pub(super) fn sync(&self) -> Result<()> {
        self.classes.iter().try_for_each(|c| c.file.sync_data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_entry_are_an_empty_slot() {
        let entry = Entry {
            family: 3,
            sequence: 9,
            key: b"key",
            value: b"value",
        };
        let whole = entry.encode();
        let back = Entry::decode(&whole).unwrap();
        assert_eq!(
            (back.family, back.sequence, back.key, back.value),
            (3, 9, &b"key"[..], &b"value"[..])
        );
        for at in 0..whole.len() {
            assert!(Entry::decode(&whole[..at]).is_none(), "cut at {at}");
            let mut torn = whole.clone();
            torn[at] ^= 0x40;
            assert!(Entry::decode(&torn).is_none(), "flipped at {at}");
        }
        assert!(Entry::decode(&[0xff; 64]).is_none());
        assert!(Entry::decode(&[0; 64]).is_none());
    }
}
