//! Recognises a filter block and queries it.

use super::hash::hash64;
use super::hash32::bloom_hash;
use super::{legacy, ribbon};
use spanlith_base::memory;

const MULTIPLIER: u32 = 0x9e37_79b9;

/// Describes what the last five bytes of a filter say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing was added: no key matches.
    Never,
    /// Not interpreted: every key matches.
    Always,
    /// Fast local Bloom.
    FastLocal { lines: u32, probes: u8 },
    /// Ribbon.
    Ribbon(ribbon::Layout),
    /// Legacy Bloom, over another hash than the others.
    Legacy(legacy::Layout),
}

/// A full filter.
pub struct Filter {
    bytes: Vec<u8>,
    kind: Kind,
}

fn recognise(bytes: &[u8]) -> Kind {
    let Some(len) = bytes.len().checked_sub(5).filter(|&len| len > 0) else {
        return Kind::Never;
    };
    match bytes[len..] {
        [0xff, 0, probes, 0, 0] => {
            // The upper three bits are a line size code, of which only 0 is defined.
            let lines = u32::try_from(len / 64).unwrap_or(0);
            match probes {
                1..=30 if lines > 0 => Kind::FastLocal { lines, probes },
                _ => Kind::Always,
            }
        }
        [0xfe, seed, a, b, c] => {
            let blocks = u32::from_le_bytes([a, b, c, 0]);
            ribbon::Layout::new(len, seed, blocks).map_or(Kind::Always, Kind::Ribbon)
        }
        [probes @ 1..=0x7f, a, b, c, d] => {
            let lines = u32::from_le_bytes([a, b, c, d]);
            legacy::Layout::new(len, probes, lines).map_or(Kind::Always, Kind::Legacy)
        }
        // Reserved markers.
        _ => Kind::Always,
    }
}

impl Filter {
    /// Wraps the contents of a filter block. Never fails: what is not understood matches.
    pub fn parse(bytes: Vec<u8>) -> Self {
        let kind = recognise(&bytes);
        Self { bytes, kind }
    }

    /// Returns whether it is a kind this build queries.
    pub fn is_understood(&self) -> bool {
        self.kind != Kind::Always
    }

    /// The bytes of the block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the bytes back.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns whether `key` may have been added.
    #[inline]
    pub fn may_match(&self, key: &[u8]) -> bool {
        query_key(self.kind, &self.bytes, key)
    }

    /// Returns whether [`Self::may_match_hash`] decides. A legacy filter has another hash, and needs the key.
    pub fn is_asked_by_hash(&self) -> bool {
        !matches!(self.kind, Kind::Legacy(_))
    }

    /// Returns whether a key with that [`hash64`] may have been added. Always, for a legacy filter.
    #[inline]
    pub fn may_match_hash(&self, hash: u64) -> bool {
        query(self.kind, &self.bytes, hash)
    }

    /// Starts loading the cache line that [`Self::may_match_hash`] will read.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        match self.kind {
            Kind::FastLocal { lines, .. } => prefetch::<1>(&self.bytes, line_of(hash, lines)),
            Kind::Ribbon(layout) => prefetch::<4>(&self.bytes, layout.offset_of(hash)),
            _ => {}
        }
    }

    /// Queries the filter in `bytes` without wrapping it.
    #[inline]
    pub fn query_bytes(bytes: &[u8], hash: u64) -> bool {
        query(recognise(bytes), bytes, hash)
    }

    /// Where the line is in `bytes` that answers for a hash, if it is a filter in which one line does.
    pub(crate) fn line_in(bytes: &[u8], hash: u64) -> Option<usize> {
        match recognise(bytes) {
            Kind::FastLocal { lines, .. } => Some(line_of(hash, lines)),
            _ => None,
        }
    }

    /// Queries the filter in `bytes`, of whatever kind, for a key.
    pub fn query_bytes_for(bytes: &[u8], key: &[u8]) -> bool {
        query_key(recognise(bytes), bytes, key)
    }

    /// Bytes of memory it occupies.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }
}

/// Offset of the line of a hash in a filter of that many lines.
#[inline(always)]
pub(super) fn line_of(hash: u64, lines: u32) -> usize {
    (((hash & 0xffff_ffff) * u64::from(lines)) >> 32) as usize * 64
}

#[inline(always)]
fn query(kind: Kind, bytes: &[u8], hash: u64) -> bool {
    let Kind::FastLocal { lines, probes } = kind else {
        return query_other(kind, bytes, hash);
    };
    let at = line_of(hash, lines);
    let Some(line) = bytes.get(at..at + 64).and_then(|l| l.first_chunk::<64>()) else {
        return true;
    };
    let words: &[[u8; 8]; 8] = match line.as_chunks::<8>().0.first_chunk() {
        Some(words) => words,
        None => return true,
    };
    let mut x = (hash >> 32) as u32;
    for _ in 0..probes {
        let bit = (x >> 23) as usize;
        if u64::from_le_bytes(words[bit >> 6]) >> (bit & 63) & 1 == 0 {
            return false;
        }
        x = x.wrapping_mul(MULTIPLIER);
    }
    true
}

#[inline(never)]
fn query_other(kind: Kind, bytes: &[u8], hash: u64) -> bool {
    match kind {
        Kind::Ribbon(layout) => layout.query(bytes, hash),
        Kind::Never => false,
        _ => true,
    }
}

/// Asks a filter of any kind.
fn query_key(kind: Kind, bytes: &[u8], key: &[u8]) -> bool {
    match kind {
        Kind::Legacy(layout) => layout.query(bytes, bloom_hash(key)),
        kind => query(kind, bytes, hash64(key)),
    }
}

/// Starts loading `LINES` cache lines from the byte `at` of `bytes` on; they may lie after its end.
#[inline(always)]
pub(crate) fn prefetch<const LINES: usize>(bytes: &[u8], at: usize) {
    memory::prefetch::<LINES>(bytes.as_ptr().wrapping_add(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_matches_and_what_is_empty_does_not() {
        let filled = |tail: [u8; 5]| [vec![0; 64], tail.to_vec()].concat();
        for short in [vec![], vec![0; 3], vec![0; 5]] {
            assert!(!Filter::parse(short).may_match(b"k"));
        }
        let always = [
            vec![0; 6],
            filled([0, 0, 0, 0, 0]),
            filled([0x80, 0, 6, 0, 0]),
            filled([0xfd, 0, 6, 0, 0]),
            filled([0xff, 1, 6, 0, 0]),
            filled([0xff, 0, 0, 0, 0]),
            filled([0xff, 0, 31, 0, 0]),
            filled([0xff, 0, 0x26, 0, 0]),
            filled([0xff, 0, 6, 1, 0]),
            filled([6, 0, 0, 0, 0]),
            filled([6, 3, 0, 0, 0]),
            filled([0xfe, 0, 1, 0, 0]),
            vec![0, 0xff, 0, 6, 0, 0],
        ];
        for bytes in always {
            assert!(Filter::parse(bytes.clone()).may_match(b"k"), "{bytes:?}");
        }
        assert!(!Filter::parse(filled([0xff, 0, 6, 0, 0])).may_match(b"k"));
        assert!(!Filter::parse(filled([0xff, 0, 30, 0, 0])).may_match(b"k"));
        let legacy = Filter::parse(filled([6, 1, 0, 0, 0]));
        assert!(!legacy.may_match(b"k"));
        assert!(!legacy.is_asked_by_hash() && legacy.may_match_hash(1));
    }
}
