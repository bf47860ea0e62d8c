//! A page of a log.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | masked CRC-32C of what follows, begun with the instance of the disk |
//! | 4 | 2 | `0x5350` |
//! | 6 | 2 | bytes of payload |
//! | 8 | 8 | colour: epoch (24 bits) and number (40 bits) of the log |
//! | 16 | 8 | ordinal: pages of all logs of a disk are numbered without gaps |
//! | 24 | 4 | number of this page on the disk, so that a write that went astray shows |
//! | 28 | 2, 2 | place in its batch, pages of the batch |
//! | 32 | 8 | where in the log the payload begins |
//! | 40 | 8 | witness: every ordinal below it was durable when this page was written |
//! | 48 | 2 | bytes of payload of the page with the ordinal before, when this page was begun |
//! | 50 | 6 | zeros |
//! | 56 | | payload, then zeros |
//!
//! A *batch* is what one append began. It is recovered whole or not at all. Its last page may be written again with
//! more payload until it is made durable or another page is begun; from then on no page is written again before its
//! group is recycled, so that a write that tears cannot take with it what was acknowledged. The next page says
//! how long it had become: an older form of it is not the whole of it.

use crate::bytes::{u16_at, u32_at, u64_at};
use spanlith_base::checksum::{crc32c, crc32c_append, mask};

/// Bytes in front of the payload.
pub const PAGE_HEADER: usize = 56;
const MAGIC: u16 = 0x5350;
const NUMBER_BITS: u32 = 40;

/// The colour of a log.
pub(crate) fn colour_of(epoch: u64, number: u64) -> u64 {
    (epoch << NUMBER_BITS) | (number & ((1 << NUMBER_BITS) - 1))
}

/// Describes what the header of a page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// Which log it belongs to.
    pub colour: u64,
    /// Its place among all pages of all logs.
    pub ordinal: u64,
    /// Its place on the disk.
    pub page: u32,
    /// Its place in its batch.
    pub index: u16,
    /// Pages of its batch.
    pub batch: u16,
    /// Where in the log its payload begins.
    pub offset: u64,
    /// Every ordinal below was durable when it was written.
    pub witness: u64,
    /// Bytes of its payload.
    pub len: u16,
    /// Bytes of payload of the page with the ordinal before.
    pub before: u16,
}

/// Completes `page`, whose payload stands in its place already.
pub fn seal_page(page: &mut [u8], header: &PageHeader, instance: &[u8; 16]) {
    let end = (PAGE_HEADER + header.len as usize).min(page.len());
    if let Some(rest) = page.get_mut(end..) {
        rest.fill(0);
    }
    let mut front = [0u8; PAGE_HEADER];
    let mut at = 4;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = front.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&MAGIC.to_le_bytes());
    put(&header.len.to_le_bytes());
    put(&header.colour.to_le_bytes());
    put(&header.ordinal.to_le_bytes());
    put(&header.page.to_le_bytes());
    put(&header.index.to_le_bytes());
    put(&header.batch.to_le_bytes());
    put(&header.offset.to_le_bytes());
    put(&header.witness.to_le_bytes());
    put(&header.before.to_le_bytes());
    if let Some(place) = page.get_mut(..PAGE_HEADER) {
        place.copy_from_slice(&front);
    }
    let crc = checksum(page, instance);
    if let Some(place) = page.get_mut(..4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

fn checksum(page: &[u8], instance: &[u8; 16]) -> u32 {
    let begun = crc32c(instance);
    mask(crc32c_append(begun, page.get(4..).unwrap_or_default()))
}

/// Returns what a page says; `None` if it is torn, damaged, of another disk, or was never one.
pub fn decode_page(bytes: &[u8], instance: &[u8; 16]) -> Option<PageHeader> {
    let header = header_of(bytes)?;
    (u32_at(bytes, 0) == checksum(bytes, instance)).then_some(header)
}

/// As [`decode_page`], without a look at the checksum: for reports.
pub fn header_of(bytes: &[u8]) -> Option<PageHeader> {
    let len = u16_at(bytes, 6);
    let (index, batch) = (u16_at(bytes, 28), u16_at(bytes, 30));
    let is_sound = bytes.len() >= PAGE_HEADER
        && u16_at(bytes, 4) == MAGIC
        && PAGE_HEADER + len as usize <= bytes.len()
        && index < batch;
    is_sound.then(|| PageHeader {
        colour: u64_at(bytes, 8),
        ordinal: u64_at(bytes, 16),
        page: u32_at(bytes, 24),
        index,
        batch,
        offset: u64_at(bytes, 32),
        witness: u64_at(bytes, 40),
        len,
        before: u16_at(bytes, 48),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTANCE: [u8; 16] = *b"0123456789abcdef";

    #[test]
    fn a_page_comes_back_and_no_changed_bit_goes_unseen() {
        let header = PageHeader {
            colour: colour_of(3, 12),
            ordinal: 77,
            page: 5,
            index: 1,
            batch: 3,
            offset: 9000,
            witness: 70,
            len: 300,
            before: 456,
        };
        let mut page = vec![0xabu8; 512];
        seal_page(&mut page, &header, &INSTANCE);
        assert_eq!(decode_page(&page, &INSTANCE), Some(header));
        assert_eq!(decode_page(&page, &[0; 16]), None);
        assert!(page[PAGE_HEADER + 300..].iter().all(|&b| b == 0));
        for bit in 0..page.len() * 8 {
            let mut changed = page.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_page(&changed, &INSTANCE), None, "bit {bit}");
        }
        for len in 0..page.len() {
            assert_eq!(decode_page(&page[..len], &INSTANCE), None);
        }
    }

    #[test]
    fn a_colour_is_never_that_of_an_earlier_epoch() {
        assert_ne!(colour_of(1, 12), colour_of(2, 12));
        assert_eq!(colour_of(1, 12) >> 40, 1);
    }
}
