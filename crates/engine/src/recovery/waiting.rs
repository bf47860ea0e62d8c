//! Entries of several batches that are inserted together: a memtable that searches for many at once waits
//! for memory once, not for each ([`MemTable::add_many`]).

use spanlith_base::{Error, Result, SequenceNumber, ValueType};
use spanlith_memtable::{Entry, MemTable};

/// Entries inserted at once.
const MANY: usize = 32;
/// A key and value of more bytes are not worth a copy: writing them waits for memory longer than the search.
const SMALL: usize = 512;

/// An entry whose bytes are kept.
struct Kept {
    seqno: SequenceNumber,
    kind: ValueType,
    /// Where its key begins, and its value, behind the key.
    at: usize,
    value_at: usize,
    end: usize,
}

/// Entries that are to be inserted into one memtable. What is there when it is dropped is not inserted.
#[derive(Default)]
pub(super) struct Waiting {
    bytes: Vec<u8>,
    entries: Vec<Kept>,
}

impl Waiting {
    /// Has an entry inserted into `mem`, now or with those that follow.
    ///
    /// # Errors
    /// `Corruption` if the key and sequence number of one of them are taken.
    pub(super) fn add(
        &mut self,
        mem: &MemTable,
        (seqno, kind): (SequenceNumber, ValueType),
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if key.len() + value.len() > SMALL {
            return match mem.add(seqno, kind, key, value) {
                true => Ok(()),
                false => Err(taken(seqno)),
            };
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value_at = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.entries.push(Kept {
            seqno,
            kind,
            at,
            value_at,
            end: self.bytes.len(),
        });
        match self.entries.len() {
            MANY => self.insert(mem),
            _ => Ok(()),
        }
    }

    /// Inserts what waits.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) fn insert(&mut self, mem: &MemTable) -> Result<()> {
        let mut many = [Entry {
            seqno: 0,
            kind: ValueType::Value,
            key: &[],
            value: &[],
        }; MANY];
        let bytes = &self.bytes[..];
        for (entry, kept) in many.iter_mut().zip(&self.entries) {
            *entry = Entry {
                seqno: kept.seqno,
                kind: kept.kind,
                key: &bytes[kept.at..kept.value_at],
                value: &bytes[kept.value_at..kept.end],
            };
        }
        let refused = mem.add_many(&many[..self.entries.len()]);
        self.entries.clear();
        self.bytes.clear();
        match refused {
            None => Ok(()),
            Some(seqno) => Err(taken(seqno)),
        }
    }
}

/// Two entries of the logs have one sequence number.
pub(super) fn taken(seqno: SequenceNumber) -> Error {
    Error::corruption("the log holds one sequence number twice").with("seqno", seqno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::Comparator;

    #[test]
    fn all_that_waits_is_inserted_and_a_number_twice_is_told() {
        let mem = MemTable::new(Comparator::Bytewise, 1 << 20);
        let mut waiting = Waiting::default();
        let large = vec![7; SMALL + 1];
        for i in 0..200u64 {
            let value = if i % 50 == 49 { &large[..] } else { b"v" };
            let key = (i * 37 % 200).to_be_bytes();
            waiting
                .add(&mem, (i + 1, ValueType::Value), &key, value)
                .unwrap();
        }
        assert!(mem.len() < 200, "some of them wait");
        waiting.insert(&mem).unwrap();
        assert_eq!(mem.len(), 200);
        waiting.insert(&mem).unwrap();
        assert_eq!(mem.len(), 200, "nothing is inserted twice");
        let key = (3 * 37u64).to_be_bytes();
        waiting
            .add(&mem, (4, ValueType::Value), &key, b"other")
            .unwrap();
        let error = waiting.insert(&mem).unwrap_err();
        assert!(error.to_string().contains("twice"), "{error}");
        let error = waiting.add(&mem, (4, ValueType::Value), &key, &large);
        assert!(error.unwrap_err().to_string().contains("twice"));
    }
}
