//! The merge operators that RocksDB ships, with its names.
//!
//! | name | nick name | result |
//! |---|---|---|
//! | `PutOperator` | `put`, `put_v1` | the newest operand |
//! | `UInt64AddOperator` | `uint64add` | sum of little-endian integers; wrong sizes count as zero |
//! | `StringAppendOperator` | `stringappend` | all, joined by a delimiter |
//! | `StringAppendTESTOperator` | `stringappendtest` | the same, never merged in part |
//! | `MaxOperator` | `max` | the largest, bytewise |
//! | `BytesXOR` | `bytesxor` | exclusive or; the longer one's tail stays |
//! | `MergeSortOperator` | `sortlist` | sorted integers, separated by commas |

use super::MergeOperator;
use crate::options::MergeOperatorChoice;
use std::sync::Arc;

/// `put`: the newest operand replaces all.
#[derive(Debug, Default)]
pub struct Put;

impl MergeOperator for Put {
    fn name(&self) -> &str {
        "PutOperator"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|o| o.to_vec())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
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

/// The text of an operator with a delimiter, as RocksDB writes it.
fn delimited(name: &str, delimiter: &[u8]) -> String {
    let delimiter = String::from_utf8_lossy(delimiter);
    let escaped = crate::options::ini::escape(&delimiter, true);
    format!("{{id={name};delimiter={escaped};}}")
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

    fn options_text(&self) -> String {
        delimited(self.name(), &self.delimiter)
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

/// `stringappendtest`: as [`StringAppend`], but operands stay apart until their base is known.
#[derive(Debug)]
pub struct StringAppendTest(StringAppend);

impl StringAppendTest {
    /// Joins with `delimiter` (RocksDB's default is a comma).
    pub fn new(delimiter: &[u8]) -> Self {
        Self(StringAppend::new(delimiter))
    }
}

impl MergeOperator for StringAppendTest {
    fn name(&self) -> &str {
        "StringAppendTESTOperator"
    }

    fn options_text(&self) -> String {
        delimited(self.name(), &self.0.delimiter)
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        self.0.full_merge(key, existing, operands)
    }
}

/// `max`: the largest of all, bytewise.
#[derive(Debug, Default)]
pub struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = existing.into_iter().chain(operands.iter().copied());
        Some(all.max().unwrap_or_default().to_vec())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// `bytesxor`: exclusive or, byte by byte.
#[derive(Debug, Default)]
pub struct BytesXor;

impl MergeOperator for BytesXor {
    fn name(&self) -> &str {
        "BytesXOR"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut out = existing.unwrap_or_default().to_vec();
        for operand in operands {
            // A missing byte counts as zero.
            out.resize(out.len().max(operand.len()), 0);
            out.iter_mut().zip(*operand).for_each(|(o, b)| *o ^= b);
        }
        Some(out)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// `sortlist`: lists of decimal integers, separated by commas, merge into one sorted list.
///
/// RocksDB ends the process at text that is no such list, and reads past the end of those that no
/// zero byte follows; here the merge fails, and the end is the end.
#[derive(Debug, Default)]
pub struct SortList;

fn parse_list(text: &[u8], out: &mut Vec<i32>) -> Option<()> {
    // Programs written for RocksDB end their lists with a zero byte.
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    for number in std::str::from_utf8(text).ok()?.split(',') {
        out.push(number.trim_start().parse().ok()?);
    }
    Some(())
}

impl MergeOperator for SortList {
    fn name(&self) -> &str {
        "MergeSortOperator"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut numbers = Vec::new();
        let existing = existing.filter(|e| !e.is_empty());
        for list in existing.into_iter().chain(operands.iter().copied()) {
            parse_list(list, &mut numbers)?;
        }
        numbers.sort_unstable();
        let texts: Vec<String> = numbers.iter().map(i32::to_string).collect();
        Some(texts.join(",").into_bytes())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// The built-in operator that an option's text names: by name or nick name, alone or with
/// properties, as `{id=StringAppendOperator;delimiter=,;}`. `None` for "no operator" and for names
/// this build does not have.
pub fn operator_by_name(text: &str) -> Option<Arc<dyn MergeOperator>> {
    operator_of(&MergeOperatorChoice::parse(text)?)
}

/// The operator of a choice; `None` for none.
pub fn operator_of(choice: &MergeOperatorChoice) -> Option<Arc<dyn MergeOperator>> {
    Some(match choice {
        MergeOperatorChoice::None => return None,
        MergeOperatorChoice::Put => Arc::new(Put),
        MergeOperatorChoice::UInt64Add => Arc::new(UInt64Add),
        MergeOperatorChoice::StringAppend { delimiter } => {
            Arc::new(StringAppend::new(delimiter.as_bytes()))
        }
        MergeOperatorChoice::StringAppendTest { delimiter } => {
            Arc::new(StringAppendTest::new(delimiter.as_bytes()))
        }
        MergeOperatorChoice::Max => Arc::new(Max),
        MergeOperatorChoice::BytesXor => Arc::new(BytesXor),
        MergeOperatorChoice::SortList => Arc::new(SortList),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Existing value and operands to result; as measured with RocksDB 7.8.3 and 11.8.1, except for
    /// `sortlist`.
    #[test]
    fn results_are_rocksdbs() {
        let one = 1u64.to_le_bytes();
        let max = u64::MAX.to_le_bytes();
        type Case<'a> = (&'a str, Option<&'a [u8]>, &'a [&'a [u8]], &'a [u8]);
        let cases: &[Case<'_>] = &[
            ("put", Some(b"a"), &[b"b", b"c"], b"c"),
            ("put_v1", None, &[b"x", b""], b""),
            ("uint64add", Some(b"xyz"), &[&one], &one),
            ("uint64add", None, &[&max, &one, &one, b"bad"], &one),
            ("stringappend", None, &[b"x", b"", b"z"], b"x,,z"),
            ("stringappend", Some(b""), &[b"q"], b",q"),
            ("stringappendtest", Some(b"a"), &[b"b", b"c"], b"a,b,c"),
            ("{id=stringappend;delimiter=}", Some(b"a"), &[b"b"], b"ab"),
            (
                r"{id=StringAppendOperator;delimiter=\:\:}",
                None,
                &[b"x", b"z"],
                b"x::z",
            ),
            ("max", Some(b""), &[b"a\xff", b"b", b"a"], b"b"),
            ("max", None, &[b""], b""),
            ("bytesxor", Some(b"abc"), &[b"AB"], b"  c"),
            ("bytesxor", Some(b"abc"), &[b"AB", b"ABCDE"], b"ab DE"),
            (
                "sortlist",
                Some(b"9,5"),
                &[b"3,7\0", b"-1,4"],
                b"-1,3,4,5,7,9",
            ),
        ];
        for (name, existing, operands, expected) in cases {
            let operator = operator_by_name(name).unwrap();
            let merged = operator.full_merge(b"k", *existing, operands).unwrap();
            assert_eq!(&merged, expected, "{name}");
            // Merging a part of the operands first changes nothing.
            if operands.len() > 1
                && let Some(part) = operator.partial_merge(b"k", &operands[..2])
            {
                let fewer: Vec<&[u8]> = std::iter::once(&part[..])
                    .chain(operands[2..].iter().copied())
                    .collect();
                let again = operator.full_merge(b"k", *existing, &fewer).unwrap();
                assert_eq!(&again, expected, "{name}, in parts");
            }
        }
    }

    #[test]
    fn every_operator_is_found_by_name_and_nick_name() {
        for (nick, name) in [
            ("put", "PutOperator"),
            ("put_v1", "PutOperator"),
            ("uint64add", "UInt64AddOperator"),
            ("stringappend", "StringAppendOperator"),
            ("stringappendtest", "StringAppendTESTOperator"),
            ("max", "MaxOperator"),
            ("bytesxor", "BytesXOR"),
            ("sortlist", "MergeSortOperator"),
        ] {
            assert_eq!(operator_by_name(nick).unwrap().name(), name);
            assert_eq!(operator_by_name(name).unwrap().name(), name);
            let text = format!("{{id={name};}}");
            assert_eq!(operator_by_name(&text).unwrap().name(), name);
        }
        for none in ["nullptr", "", "int64add", "cassandra", "Max"] {
            assert!(operator_by_name(none).is_none(), "{none}");
        }
    }

    #[test]
    fn what_must_not_merge_in_part_does_not() {
        let operator = operator_by_name("stringappendtest").unwrap();
        assert_eq!(operator.partial_merge(b"k", &[b"a", b"b"]), None);
    }

    #[test]
    fn lists_that_are_none_fail_the_merge() {
        for bad in [&b"1,x"[..], b"", b"1,,2", b"99999999999"] {
            assert_eq!(SortList.full_merge(b"k", None, &[bad]), None);
        }
    }
}
