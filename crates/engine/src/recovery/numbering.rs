//! Which sequence numbers the entries of a log get.
//!
//! By default each entry of a batch takes one. Under the policy write-prepared a batch takes one for
//! all its entries, and one more each time it writes a key again; a batch without entries takes one,
//! too. A prepared section keeps the numbers it took, and its commit makes it visible: such a section
//! is inserted where it was prepared. Conflicting transactions wait for each other, so the numbers of
//! one key rise in the order of the commits.

use spanlith_base::SequenceNumber;
use std::collections::HashSet;

/// Gives out sequence numbers within one batch.
pub(super) struct Numbering {
    /// Keys of the present part of the batch, if all its entries share a number.
    part: Option<HashSet<(u32, Vec<u8>)>>,
}

impl Numbering {
    /// One number an entry, or one number a part of a batch.
    pub(super) fn new(per_batch: bool) -> Self {
        Self {
            part: per_batch.then(HashSet::new),
        }
    }

    /// Another batch begins.
    pub(super) fn begin(&mut self) {
        if let Some(part) = &mut self.part {
            part.clear();
        }
    }

    /// The number of an entry, where `next` is the first that is free, or that of the present part.
    pub(super) fn take(
        &mut self,
        cf: u32,
        key: &[u8],
        next: &mut SequenceNumber,
    ) -> SequenceNumber {
        let Some(part) = &mut self.part else {
            let own = *next;
            *next += 1;
            return own;
        };
        if !part.insert((cf, key.to_vec())) {
            part.clear();
            part.insert((cf, key.to_vec()));
            *next += 1;
        }
        *next
    }

    /// The batch ends: moves `next` past it.
    pub(super) fn end(&self, next: &mut SequenceNumber) {
        *next += u64::from(self.part.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_batch_share_a_number_until_a_key_comes_again() {
        let keys = [b"a", b"b", b"a", b"b", b"b"];
        for (per_batch, want, end) in [(false, [7, 8, 9, 10, 11], 12), (true, [7, 7, 8, 8, 9], 10)]
        {
            let mut numbering = Numbering::new(per_batch);
            let mut next = 7;
            numbering.begin();
            let got = keys.map(|key| numbering.take(0, key, &mut next));
            numbering.end(&mut next);
            assert_eq!((got, next), (want, end));
        }
        let (numbering, mut next) = (Numbering::new(true), 7);
        numbering.end(&mut next);
        assert_eq!(next, 8, "a commit takes a number");
    }
}
