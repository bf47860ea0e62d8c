//! Objects that options name by text: `Name`, `name:argument` or `{id=Name;property=value;}`.
//!
//! The text is kept in the options; here it is understood, for the few objects this build has.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::text::{split_outside_braces, split_pairs, strip_braces};
use spanlith_table::{Collectors, CompactOnDeletion, TablePropertiesCollectorFactory};
use std::sync::Arc;

/// Returns whether a memtable factory is one of those that find keys by prefix.
pub fn hashes_prefixes(factory: &str) -> bool {
    id(factory).is_some_and(|id| {
        matches!(
            id.split(':').next(),
            Some(
                "HashSkipListRepFactory"
                    | "prefix_hash"
                    | "HashLinkListRepFactory"
                    | "hash_linkedlist"
            )
        )
    })
}

/// The id in an object's text; `None` for an empty text or properties without an id.
pub fn id(text: &str) -> Option<&str> {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('{') else {
        return (!text.is_empty()).then_some(text);
    };
    let inner = inner.strip_suffix('}')?;
    let parts = split_outside_braces(inner, ';').ok()?;
    let (_, id) = parts
        .iter()
        .filter_map(|p| p.split_once('='))
        .find(|(n, _)| n.trim() == "id")?;
    Some(id.trim())
}

/// The factory of file checksums that a value of `file_checksum_gen_factory` names: empty for none;
/// `None` if there is no such factory.
pub fn file_checksum_factory(text: &str) -> Option<&str> {
    if is_null(text) {
        return Some("");
    }
    id(text).filter(|&id| id == "FileChecksumGenCrc32cFactory")
}

/// A property in an object's text.
pub fn property(text: &str, name: &str) -> Option<String> {
    if !text.trim().starts_with('{') {
        return None;
    }
    let pairs = split_pairs(text).ok()?;
    pairs
        .into_iter()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value)
}

/// Returns whether the text means "no object".
pub fn is_null(text: &str) -> bool {
    matches!(text.trim(), "" | "nullptr" | "{}")
}

/// Returns whether two texts name the same object with the same properties, in whatever form they were written.
pub fn same(a: &str, b: &str) -> bool {
    let properties = |text: &str| -> Vec<(String, String)> {
        let pairs = match text.trim().starts_with('{') {
            true => split_pairs(text).unwrap_or_default(),
            false => Vec::new(),
        };
        let mut pairs: Vec<_> = pairs.into_iter().filter(|(n, _)| n != "id").collect();
        pairs.sort();
        pairs
    };
    match (MergeOperatorChoice::parse(a), MergeOperatorChoice::parse(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => id(a) == id(b) && properties(a) == properties(b),
        _ => false,
    }
}

/// Text with its escapes resolved: `\\n`, `\\r`, and `\\` before anything else.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => c,
            },
            _ => c,
        });
    }
    out
}

/// A merge operator this build has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOperatorChoice {
    /// None set.
    None,
    /// The newest operand replaces all.
    Put,
    /// Adds 64-bit little-endian integers.
    UInt64Add,
    /// Joins with a delimiter.
    StringAppend {
        /// Says what stands between operands.
        delimiter: String,
    },
    /// Joins with a delimiter, never in part.
    StringAppendTest {
        /// Says what stands between operands.
        delimiter: String,
    },
    /// The largest, bytewise.
    Max,
    /// Exclusive or.
    BytesXor,
    /// Sorted lists of integers.
    SortList,
}

impl MergeOperatorChoice {
    /// Understands the text of `merge_operator`; `None` if this build has no such operator.
    pub fn parse(text: &str) -> Option<Self> {
        if is_null(text) {
            return Some(Self::None);
        }
        let delimiter = || property(text, "delimiter").map_or(",".to_string(), |d| unescape(&d));
        match id(text)? {
            "uint64add" | "UInt64AddOperator" => Some(Self::UInt64Add),
            "stringappend" | "StringAppendOperator" => Some(Self::StringAppend {
                delimiter: delimiter(),
            }),
            "stringappendtest" | "StringAppendTESTOperator" => Some(Self::StringAppendTest {
                delimiter: delimiter(),
            }),
            "put" | "put_v1" | "PutOperator" => Some(Self::Put),
            "max" | "MaxOperator" => Some(Self::Max),
            "bytesxor" | "BytesXOR" => Some(Self::BytesXor),
            "sortlist" | "MergeSortOperator" => Some(Self::SortList),
            _ => None,
        }
    }
}

/// Length of the prefix at which tables are cut, as the text of `sst_partitioner_factory` says;
/// `None` if it names no partitioner, or one this build does not have.
pub fn partition_prefix(text: &str) -> Option<usize> {
    if id(text)? != "SstPartitionerFixedPrefixFactory" {
        return None;
    }
    property(text, "length").map_or(Some(0), |len| len.parse().ok())
}

/// The factories that a value of `table_properties_collectors` names; `None` if it names one this
/// build does not have, or a setting that does not parse. An unknown setting is such.
pub fn collectors_of(text: &str) -> Option<Collectors> {
    let text = text.trim();
    if is_null(text) {
        return Some(Collectors::default());
    }
    // A single factory may stand without the braces of the list.
    let list = match strip_braces(text) {
        inner if inner.starts_with('{') || !inner.contains('=') => inner,
        _ => text,
    };
    let parts = split_outside_braces(list, ':').ok()?;
    let made: Option<Vec<Arc<dyn TablePropertiesCollectorFactory>>> =
        parts.into_iter().map(collector_of).collect();
    made.map(Collectors)
}

fn collector_of(text: &str) -> Option<Arc<dyn TablePropertiesCollectorFactory>> {
    if id(text)? != CompactOnDeletion::NAME {
        return None;
    }
    let mut made = CompactOnDeletion::default();
    if text.trim().starts_with('{') {
        for (name, value) in split_pairs(text).ok()? {
            match name.as_str() {
                "id" => {}
                "window_size" => made.window_size = value.parse().ok()?,
                "deletion_trigger" => made.deletion_trigger = value.parse().ok()?,
                "deletion_ratio" => made.deletion_ratio = value.parse().ok()?,
                "min_file_size" => made.min_file_size = value.parse().ok()?,
                _ => return None,
            }
        }
    }
    Some(Arc::new(made))
}

/// A filter policy this build has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterPolicyChoice {
    /// No filters.
    None,
    /// Bloom filters.
    Bloom {
        /// Bits per key.
        bits_per_key: f64,
    },
    /// Ribbon filters.
    Ribbon {
        /// Bits per key of the Bloom filter with the same rate of false positives.
        bits_per_key: f64,
        /// Bloom filters in levels below this one; a flush counts as -1.
        bloom_before_level: i32,
    },
}

/// Bits per key that RocksDB takes at most.
const BITS_MAX: f64 = 100.0;

impl FilterPolicyChoice {
    /// Understands the text of `filter_policy`; `None` if this build has no such policy.
    pub fn parse(text: &str) -> Option<Self> {
        if is_null(text) {
            return Some(Self::None);
        }
        let name = id(text)?;
        let (kind, arguments) = name.split_once(':').unwrap_or((name, ""));
        let mut arguments = arguments.split(':').filter(|a| !a.is_empty());
        let ribbon = match kind {
            "bloomfilter" | "rocksdb.BloomFilter" => false,
            "ribbonfilter" | "rocksdb.RibbonFilter" => true,
            _ => return None,
        };
        let bits = match arguments.next() {
            Some(bits) => bits.to_string(),
            None => property(text, "bits_per_key")?,
        };
        // As RocksDB 11.8 takes what makes no sense: too few bits are no filter, what is no number is very many.
        let bits_per_key: f64 = match bits.parse().ok()? {
            bits if bits < 0.0 => 0.0,
            bits if f64::is_finite(bits) => bits,
            _ => BITS_MAX,
        };
        if !ribbon {
            return Some(Self::Bloom { bits_per_key });
        }
        let level = match arguments.next() {
            Some(level) => Some(level.to_string()),
            None => property(text, "bloom_before_level"),
        };
        Some(Self::Ribbon {
            bits_per_key,
            bloom_before_level: match level {
                Some(level) => level.parse().ok()?,
                None => 0,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_understood_as_rocksdb_prints_them() {
        let one = "{id=CompactOnDeletionCollector;min_file_size=4096;deletion_ratio=0.250000;\
                   deletion_trigger=70;window_size=1000;}";
        let plain = "{id=CompactOnDeletionCollector;min_file_size=0;deletion_ratio=0.000000;\
                     deletion_trigger=0;window_size=0;}";
        let listed = format!("{{{one}}}");
        let both = format!("{{{plain}:{one}}}");
        let of_plain = format!("{{{plain}}}");
        let cases = [
            ("", Some("")),
            ("nullptr", Some("")),
            (one, Some(listed.as_str())),
            (&listed, Some(&listed)),
            (&both, Some(&both)),
            ("CompactOnDeletionCollector", Some(&of_plain)),
            ("{CompactOnDeletionCollector}", Some(&of_plain)),
            ("{id=Other;}", None),
            ("{{id=CompactOnDeletionCollector;colour=1;}}", None),
            ("{{id=CompactOnDeletionCollector;window_size=x;}}", None),
            ("{", None),
        ];
        for (text, want) in cases {
            let found = collectors_of(text).map(|c| c.options_text());
            assert_eq!(found.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn filter_policies_of_both_kinds_are_understood() {
        let ribbon = |bits_per_key, bloom_before_level| {
            Some(FilterPolicyChoice::Ribbon {
                bits_per_key,
                bloom_before_level,
            })
        };
        let cases = [
            ("nullptr", Some(FilterPolicyChoice::None)),
            (
                "bloomfilter:9.5:false",
                Some(FilterPolicyChoice::Bloom { bits_per_key: 9.5 }),
            ),
            (
                "rocksdb.BloomFilter:10",
                Some(FilterPolicyChoice::Bloom { bits_per_key: 10.0 }),
            ),
            ("ribbonfilter:10", ribbon(10.0, 0)),
            ("ribbonfilter:12.5:-1", ribbon(12.5, -1)),
            ("rocksdb.RibbonFilter:10:2147483647", ribbon(10.0, i32::MAX)),
            (
                "{id=ribbonfilter;bits_per_key=8;bloom_before_level=2;}",
                ribbon(8.0, 2),
            ),
            ("ribbonfilter:10:x", None),
            ("plainfilter:10", None),
        ];
        for (text, want) in cases {
            assert_eq!(FilterPolicyChoice::parse(text), want, "{text}");
        }
    }
}
