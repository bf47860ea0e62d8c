//! The merge operator interface and the built-in operators of RocksDB that milestone 1 carries.

use std::sync::Arc;

/// Folds operands into a value. Must be deterministic: it runs in reads, flushes and compactions.
pub trait MergeOperator: Send + Sync {
    /// Name recorded in OPTIONS and tables.
    fn name(&self) -> &str;

    /// The value after applying `operands`, oldest first, to `existing` (`None` if the key was
    /// absent or deleted). `None` fails the read with `Corruption: Merge operator failed`.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;

    /// One operand equal to `operands`, oldest first, or `None` to keep them apart.
    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

/// `uint64add`: values and operands are little-endian u64; wrong sizes count as zero.
#[derive(Debug, Default)]
pub struct UInt64Add;

fn decode_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl MergeOperator for UInt64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let base = existing.map_or(0, decode_u64);
        let sum = operands
            .iter()
            .fold(base, |sum, o| sum.wrapping_add(decode_u64(o)));
        Some(sum.to_le_bytes().to_vec())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// `stringappend`: joins with a delimiter.
#[derive(Debug)]
pub struct StringAppend {
    delimiter: Vec<u8>,
}

impl StringAppend {
    /// Joins with `delimiter` (RocksDB's default is a comma).
    pub fn new(delimiter: &[u8]) -> Self {
        Self {
            delimiter: delimiter.to_vec(),
        }
    }
}

impl MergeOperator for StringAppend {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let parts: Vec<&[u8]> = existing
            .into_iter()
            .chain(operands.iter().copied())
            .collect();
        Some(parts.join(&self.delimiter[..]))
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// The built-in operator of a name as it stands in OPTIONS files, or of a nick name.
pub fn operator_by_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    match name {
        "UInt64AddOperator" | "uint64add" => Some(Arc::new(UInt64Add)),
        "StringAppendOperator" | "stringappend" => Some(Arc::new(StringAppend::new(b","))),
        _ => None,
    }
}
