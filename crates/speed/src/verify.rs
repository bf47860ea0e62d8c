//! Verifies pages that were read, beside the reading of the next ones.
//!
//! One more thread does it while a scan reads more than [`BESIDE_FROM`] bytes and the system has a second processor: the
//! checksums of pages then cost an open no time, since a device takes longer to read them. It ends with the scan. What comes
//! of a piece does not depend on who verifies it, and pieces come back in the order in which they were given.

use crate::kept::Chunk;
use crate::page::{PageHeader, decode_page, header_of};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

/// Bytes of pages from which on a thread is worth its begin.
const BESIDE_FROM: u64 = 8 << 20;

/// Returns whether `bytes` of pages are worth a thread beside the one that opens the disk.
pub(crate) fn is_worth_a_thread(bytes: u64) -> bool {
    let has_processor = || std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    bytes >= BESIDE_FROM && has_processor()
}
/// Pieces given and not taken back: one that is verified and one that waits.
const PENDING_MAX: usize = 2;

/// Consecutive pages that were read.
pub(crate) struct Raw {
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Holds the pages at its front.
    pub(crate) chunk: Chunk,
}

/// The same, and the headers of those that are whole and in their place.
pub(crate) struct Verified {
    pub(crate) raw: Raw,
    pub(crate) headers: Vec<PageHeader>,
}

/// How pages are verified.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) page_size: usize,
    pub(crate) instance: [u8; 16],
    /// A planted fault: checksums are not looked at.
    pub(crate) ignores_checksums: bool,
}

impl Rule {
    fn verify(&self, raw: Raw) -> Verified {
        let pages = raw.chunk.bytes().chunks_exact(self.page_size);
        let numbered = (raw.first..).zip(pages.take(raw.count as usize));
        let headers = numbered.filter_map(|(page, bytes)| {
            let header = match self.ignores_checksums {
                true => header_of(bytes),
                false => decode_page(bytes, &self.instance),
            };
            header.filter(|h| h.page == page)
        });
        Verified {
            headers: headers.collect(),
            raw,
        }
    }
}

/// Verifies pieces in the order in which they come.
pub(crate) struct Verifier {
    rule: Rule,
    done: VecDeque<Verified>,
    beside: Option<Beside>,
}

struct Beside {
    give: SyncSender<Raw>,
    take: Receiver<Verified>,
    pending: usize,
}

impl Verifier {
    /// For a scan of `bytes` within `scope`.
    pub(crate) fn new<'scope>(scope: &'scope Scope<'scope, '_>, rule: Rule, bytes: u64) -> Self {
        let is_worth_it = is_worth_a_thread(bytes);
        Self {
            rule,
            done: VecDeque::new(),
            beside: is_worth_it.then(|| Beside::begin(scope, rule)).flatten(),
        }
    }

    /// One that verifies pieces as they are given.
    pub(crate) fn at_once(rule: Rule) -> Self {
        Self {
            rule,
            done: VecDeque::new(),
            beside: None,
        }
    }

    /// Takes a piece to be verified.
    pub(crate) fn give(&mut self, raw: Raw) {
        let Some(beside) = &mut self.beside else {
            self.done.push_back(self.rule.verify(raw));
            return;
        };
        match beside.give.send(raw) {
            Ok(()) => beside.pending += 1,
            // The thread has ended, which it does only by a panic.
            Err(back) => self.done.push_back(self.rule.verify(back.0)),
        }
    }

    /// The next piece that is verified; waits for it if more are under way than may be.
    pub(crate) fn next(&mut self) -> Option<Verified> {
        self.take(PENDING_MAX)
    }

    /// The next piece; `None` once all have been taken.
    pub(crate) fn rest(&mut self) -> Option<Verified> {
        self.take(0)
    }

    fn take(&mut self, pending_max: usize) -> Option<Verified> {
        match &mut self.beside {
            Some(beside) if beside.pending > pending_max => {
                beside.pending -= 1;
                beside.take.recv().ok()
            }
            _ => self.done.pop_front(),
        }
    }
}

impl Beside {
    /// `None` if the system gives no thread.
    fn begin<'scope>(scope: &'scope Scope<'scope, '_>, rule: Rule) -> Option<Self> {
        let (give, given) = sync_channel::<Raw>(PENDING_MAX + 1);
        let (put, take) = sync_channel(PENDING_MAX + 1);
        let body = move || {
            for raw in given {
                if put.send(rule.verify(raw)).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("spanlith-verify".to_string());
        thread.spawn_scoped(scope, body).ok()?;
        Some(Self {
            give,
            take,
            pending: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::seal_page;

    const PAGE: usize = 512;
    const PAGES: u32 = 8;

    /// Pieces of pages, of which one in five is damaged and one in seven stands in another place.
    fn pieces(instance: &[u8; 16]) -> Vec<Raw> {
        let piece = |n: u32| {
            let first = n * PAGES;
            let mut bytes = vec![0; PAGE * PAGES as usize];
            for (page, bytes) in (first..).zip(bytes.chunks_exact_mut(PAGE)) {
                let header = PageHeader {
                    colour: 1,
                    ordinal: u64::from(page),
                    page: page + u32::from(page % 7 == 3),
                    index: 0,
                    batch: 1,
                    offset: 0,
                    witness: 0,
                    len: 9,
                    before: 9,
                };
                seal_page(bytes, &header, instance);
                bytes[100] ^= u8::from(page % 5 == 2);
            }
            let mut chunk = Chunk::new(bytes.len());
            chunk.bytes_mut().copy_from_slice(&bytes);
            Raw {
                first,
                // The last one is shorter than its memory.
                count: PAGES - u32::from(n == 39),
                chunk,
            }
        };
        (0..40).map(piece).collect()
    }

    #[test]
    fn pages_verified_beside_their_reading_are_those_verified_at_once() {
        let rule = Rule {
            page_size: PAGE,
            instance: [3; 16],
            ignores_checksums: false,
        };
        let verified = |bytes: u64| {
            std::thread::scope(|scope| {
                let mut verifier = Verifier::new(scope, rule, bytes);
                let mut found = Vec::new();
                let note = |piece: Verified| (piece.raw.first, piece.raw.count, piece.headers);
                for raw in pieces(&rule.instance) {
                    verifier.give(raw);
                    found.extend(std::iter::from_fn(|| verifier.next()).map(note));
                }
                found.extend(std::iter::from_fn(|| verifier.rest()).map(note));
                found
            })
        };
        let at_once = verified(0);
        assert_eq!(at_once.len(), 40);
        let pages = 0..40 * PAGES - 1;
        let whole = pages.filter(|page| page % 5 != 2 && page % 7 != 3);
        let found = at_once.iter().flat_map(|piece| &piece.2);
        assert!(found.map(|h| h.page).eq(whole));
        assert!(verified(BESIDE_FROM) == at_once);
    }
}
