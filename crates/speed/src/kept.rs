//! Pages of a log that an open has read and checked, kept for the replay: so each page is read and checked once.
//!
//! They stay as the device gave them, in the pieces in which they were read. A reader that goes on from one page to the next
//! copies payload out of them, and gives up each piece once it is past its last page that counts.
//!
//! A piece lies in a region of memory, which the memtable that the replay fills takes next: its pages are there already, so
//! that the two together ask the system for hardly more memory than the memtable alone.

use crate::page::PAGE_HEADER;
use crate::scan::PageRef;
use spanlith_base::memory::{REGION_BYTES, Region};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Memory that pages are read into.
pub(crate) enum Chunk {
    Region(Region),
    Bytes(Vec<u8>),
}

impl Chunk {
    /// Memory for `len` bytes: a region, if they fill more than half of one.
    pub(crate) fn new(len: usize) -> Self {
        let fills = (REGION_BYTES / 2 + 1..=REGION_BYTES).contains(&len);
        match fills.then(Region::whole).flatten() {
            Some(region) => {
                if region.lacks_pages() {
                    region.populate(0, REGION_BYTES);
                }
                Self::Region(region)
            }
            None => Self::Bytes(vec![0; len]),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Region(region) => region.bytes_mut(),
            Self::Bytes(bytes) => bytes,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Region(region) => region.bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

/// Consecutive pages as they stand on the disk.
#[derive(Clone, Debug)]
struct Piece {
    first: u32,
    /// The last of its pages that counted when it was read.
    last: u32,
    chunk: Arc<Chunk>,
}

/// The pieces of a log, in the order in which they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptPages {
    page_size: usize,
    pieces: VecDeque<Piece>,
}

impl KeptPages {
    pub(crate) fn new(page_size: usize) -> Self {
        Self {
            page_size: page_size.max(1),
            pieces: VecDeque::new(),
        }
    }

    /// Keeps pages from `first` on, of which `last` is the last one that was found whole.
    pub(crate) fn keep(&mut self, first: u32, last: u32, chunk: Chunk) {
        let chunk = Arc::new(chunk);
        self.pieces.push_back(Piece { first, last, chunk });
    }

    /// Goes on with the pieces of `more`, which is empty then.
    pub(crate) fn append(&mut self, more: &mut Self) {
        self.page_size = more.page_size;
        self.pieces.append(&mut more.pieces);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Copies what a log holds from `offset` on, which is in the first of `pages`, until `buf` is full, the pages end, or one of them
    /// is not here. Returns how much that was.
    pub(crate) fn read(&mut self, pages: &[PageRef], offset: u64, buf: &mut [u8]) -> usize {
        let mut done = 0;
        for page in pages {
            if done == buf.len() {
                break;
            }
            let has = |p: &Piece| (p.first..=p.last).contains(&page.page);
            let Some(at) = self.pieces.iter().position(has) else {
                break;
            };
            let Some(piece) = self.pieces.get(at) else {
                break;
            };
            let begin = (page.page - piece.first) as usize * self.page_size + PAGE_HEADER;
            let skip = (offset + done as u64).saturating_sub(page.offset) as usize;
            let bytes = piece.chunk.bytes();
            let payload = bytes.get(begin + skip..begin + usize::from(page.len));
            let payload = payload.unwrap_or_default();
            let rest = buf.get_mut(done..).unwrap_or_default();
            let n = payload.len().min(rest.len());
            if let (Some(to), Some(from)) = (rest.get_mut(..n), payload.get(..n)) {
                to.copy_from_slice(from);
            }
            done += n;
            if n == payload.len() && page.page == piece.last {
                self.pieces.remove(at);
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_read_across_pieces_and_given_up() {
        let size = PAGE_HEADER + 8;
        let piece = |pages: &[u8]| -> Chunk {
            let page = |n: &u8| [vec![0; PAGE_HEADER], vec![*n; 8]].concat();
            Chunk::Bytes(pages.iter().flat_map(page).collect())
        };
        let mut kept = KeptPages::new(size);
        // Page 12 is none that counts, and what follows it in its piece is not kept.
        kept.keep(10, 11, piece(&[1, 2, 9]));
        kept.keep(20, 21, piece(&[3, 4]));
        let page = |n: u32, offset, len| PageRef {
            offset,
            ordinal: 0,
            page: n,
            len,
        };
        let pages = [
            page(10, 0, 8),
            page(11, 8, 5),
            page(20, 13, 8),
            page(21, 21, 2),
        ];
        let mut buf = [0; 10];
        assert_eq!(kept.read(&pages, 3, &mut buf), 10);
        assert_eq!(buf, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
        assert_eq!(kept.pieces.len(), 1);
        assert_eq!(kept.read(&pages[2..], 13, &mut buf), 10);
        assert_eq!(buf, [3, 3, 3, 3, 3, 3, 3, 3, 4, 4]);
        assert!(kept.is_empty());
        assert_eq!(kept.read(&pages, 0, &mut buf), 0);
    }
}
