//! How much of the blob files becomes garbage: what the inputs of a compaction refer to and its
//! outputs do not.

use crate::blob::each_reference;
use crate::version::edit::BlobFileGarbage;
use std::collections::BTreeMap;

/// Records of one blob file that are referred to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    count: u64,
    bytes: u64,
}

impl Flow {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Counts references by blob file, into and out of a compaction. An entry may be counted as output
/// before it is counted as input.
#[derive(Debug, Default)]
pub(crate) struct BlobMeter {
    inputs: BTreeMap<u64, Flow>,
    outputs: BTreeMap<u64, Flow>,
}

impl BlobMeter {
    /// Counts an entry of the inputs.
    pub(crate) fn take_in(&mut self, internal_key: &[u8], value: &[u8]) {
        each_reference(internal_key, value, |file, bytes| {
            self.inputs.entry(file).or_default().add(bytes);
        });
    }

    /// Counts an entry of the outputs.
    pub(crate) fn take_out(&mut self, internal_key: &[u8], value: &[u8]) {
        each_reference(internal_key, value, |file, bytes| {
            self.outputs.entry(file).or_default().add(bytes);
        });
    }

    /// Returns what became garbage.
    pub(crate) fn garbage(&self) -> Vec<BlobFileGarbage> {
        let left = self.inputs.iter().map(|(&number, input)| {
            let output = self.outputs.get(&number).copied().unwrap_or_default();
            BlobFileGarbage {
                number,
                count: input.count.saturating_sub(output.count),
                bytes: input.bytes.saturating_sub(output.bytes),
            }
        });
        left.filter(|g| g.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::BlobPointer;
    use spanlith_base::keys;

    fn index(file: u64, size: u64) -> Vec<u8> {
        let mut out = Vec::new();
        BlobPointer {
            file,
            offset: 70,
            size,
            compression: 0,
        }
        .encode(&mut out);
        out
    }

    #[test]
    fn what_goes_in_and_does_not_come_out_is_garbage() {
        let key = |user: &[u8]| keys::internal_key(user, keys::pack_tag(7, 0x11));
        let mut meter = BlobMeter::default();
        meter.take_in(&key(b"a"), &index(4, 100));
        meter.take_in(&key(b"bb"), &index(4, 10));
        // As the iterator does it: an entry goes out before the input moves on.
        meter.take_out(&key(b"c"), &index(5, 1));
        meter.take_in(&key(b"c"), &index(5, 1));
        meter.take_out(&key(b"a"), &index(4, 100));
        let garbage = meter.garbage();
        assert_eq!(garbage.len(), 1);
        let (number, count, bytes) = (garbage[0].number, garbage[0].count, garbage[0].bytes);
        assert_eq!((number, count, bytes), (4, 1, 10 + 2 + 32));
    }

    #[test]
    fn plain_values_and_damage_refer_to_nothing() {
        let mut meter = BlobMeter::default();
        let plain = keys::internal_key(b"a", keys::pack_tag(7, 0x01));
        meter.take_in(&plain, &index(4, 100));
        let blob = keys::internal_key(b"a", keys::pack_tag(7, 0x11));
        meter.take_in(&blob, b"\xff");
        assert!(meter.garbage().is_empty());
    }
}
