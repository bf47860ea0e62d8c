//! Describes what the tour has written, so that it can tell what must be there.
//!
//! Key `user00000042`, value `{"user":42,"rev":3,"note":"…"}`. The value follows from number and
//! revision, and the model keeps the revision of every number: 4 bytes an entry.

use indicatif::ProgressBar;
use spanlith::{Cf, ReadOptions, Result};
use spanlith_workload::generate::Rng;
use std::io::Write;

const WORDS: [&str; 16] = [
    "level", "table", "block", "filter", "merge", "flush", "write", "read", "seek", "scan", "log",
    "batch", "cache", "index", "snapshot", "sync",
];

/// Prefix of the keys of the process that is killed.
pub const SYNCED: &[u8] = b"synced-";

/// Revision of every entry, by number.
#[derive(Debug, Default)]
pub struct Model {
    revisions: Vec<u32>,
}

/// Describes what a comparison found.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Entries as they must be.
    pub right: u64,
    /// Entries of the killed processes, each as it must be.
    pub synced: u64,
    /// Entries that are missing, foreign or different.
    pub wrong: u64,
    /// The first few of those, in words.
    pub examples: Vec<String>,
}

/// The key of a number.
pub fn key(n: u64) -> Vec<u8> {
    format!("user{n:08}").into_bytes()
}

/// The number of a key.
fn number(key: &[u8]) -> Option<u64> {
    std::str::from_utf8(key.strip_prefix(b"user")?)
        .ok()?
        .parse()
        .ok()
}

/// Writes the value of a number at a revision.
pub fn put_value(out: &mut Vec<u8>, n: u64, rev: u32) {
    out.clear();
    // A vector takes everything.
    let _ = write!(out, "{{\"user\":{n},\"rev\":{rev},\"note\":\"");
    let mut rng = Rng::new(n << 24 ^ u64::from(rev));
    let mut bits = rng.next_u64();
    while out.len() < 96 {
        out.extend_from_slice(WORDS[(bits & 15) as usize].as_bytes());
        out.push(b' ');
        bits = bits.rotate_right(4);
    }
    out.extend_from_slice(b"\"}");
}

/// The revision a value claims.
fn revision(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, rest) = text.split_once("\"rev\":")?;
    rest.split_once(',')?.0.parse().ok()
}

/// Returns whether `value` is one that was written for number `n` at some revision.
pub fn is_genuine(n: u64, value: &[u8], scratch: &mut Vec<u8>) -> bool {
    revision(value).is_some_and(|rev| {
        put_value(scratch, n, rev);
        scratch == value
    })
}

impl Model {
    /// `entries` entries at revision 0.
    pub fn new(entries: u64) -> Self {
        Self {
            revisions: vec![0; usize::try_from(entries).unwrap_or(0)],
        }
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.revisions.len() as u64
    }

    /// Deals the entries out to `threads` writers: writer `t` owns the numbers `n` with
    /// `n % threads == t`, and gets their revisions in order.
    pub fn deal(&self, threads: usize) -> Vec<Vec<u32>> {
        let mut out = vec![Vec::new(); threads];
        for (n, rev) in self.revisions.iter().enumerate() {
            out[n % threads].push(*rev);
        }
        out
    }

    /// Takes back what [`Self::deal`] dealt, with the entries added; all writers added up to one
    /// turn the same.
    pub fn collect(&mut self, dealt: &[Vec<u32>]) {
        let threads = dealt.len();
        let len = dealt.iter().map(Vec::len).sum();
        self.revisions = (0..len).map(|n| dealt[n % threads][n / threads]).collect();
    }

    /// Reads everything and compares.
    ///
    /// # Errors
    /// Of reading.
    pub fn compare(&self, cf: &Cf, progress: &ProgressBar) -> Result<Comparison> {
        let mut out = Comparison::default();
        let (mut wanted, mut scratch) = (0u64, Vec::new());
        let mut options = ReadOptions::new().fill_cache(false);
        options.readahead = 1 << 20;
        let mut cursor = cf.cursor(options);
        let mut on = cursor.seek_to_first()?;
        let mut seen = 0u64;
        while on {
            let (k, v) = (cursor.key(), cursor.value());
            seen += 1;
            if seen.is_multiple_of(1 << 16) {
                progress.set_position(seen);
            }
            if k.starts_with(SYNCED) {
                if v == super::crash::value_of(k) {
                    out.synced += 1;
                } else {
                    out.note(k, "has another value");
                }
            } else if let Some(n) = number(k) {
                while wanted < n.min(self.len()) {
                    out.note(&key(wanted), "is missing");
                    wanted += 1;
                }
                match self.revisions.get(usize::try_from(n).unwrap_or(usize::MAX)) {
                    None => out.note(k, "was never written"),
                    Some(rev) => {
                        put_value(&mut scratch, n, *rev);
                        if scratch == v {
                            out.right += 1;
                        } else {
                            out.note(k, "does not have the last value written");
                        }
                        wanted = n + 1;
                    }
                }
            } else {
                out.note(k, "was never written");
            }
            on = cursor.next()?;
        }
        for n in wanted..self.len() {
            out.note(&key(n), "is missing");
        }
        Ok(out)
    }
}

impl Comparison {
    fn note(&mut self, key: &[u8], what: &str) {
        self.wrong += 1;
        if self.examples.len() < 5 {
            self.examples
                .push(format!("{} {what}", crate::bytes::show(key, false)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_revision_and_cannot_be_mistaken() {
        let (mut a, mut scratch) = (Vec::new(), Vec::new());
        put_value(&mut a, 42, 7);
        assert!(a.starts_with(b"{\"user\":42,\"rev\":7,\"note\":\""));
        assert_eq!(revision(&a), Some(7));
        assert!(is_genuine(42, &a, &mut scratch));
        assert!(!is_genuine(43, &a, &mut scratch));
        a[50] ^= 1;
        assert!(!is_genuine(42, &a, &mut scratch));
        assert_eq!(number(&key(42)), Some(42));
    }

    #[test]
    fn what_is_dealt_comes_back() {
        let mut model = Model::new(10);
        model.revisions = (0..10).collect();
        let mut dealt = model.deal(3);
        dealt[1].push(100);
        dealt[2].push(101);
        dealt[0].push(102);
        dealt[1].push(103);
        model.collect(&dealt);
        // 10 = 3 * 3 + 1: writer 1 owns number 10, writer 2 number 11, then writer 0 number 12.
        assert_eq!(model.revisions[..10], (0..10).collect::<Vec<_>>());
        assert_eq!(model.revisions[10..], [100, 101, 102, 103]);
    }
}
