//! The option `kvsep_ranges`: from which size on values are separated, by ranges of keys.
//!
//! ```text
//!   ranges = range, ranges | range
//!   range  = FROM..TO:SIZE
//! ```
//!
//! FROM and TO are user keys in hexadecimal digits; FROM is part of the range, TO is not, and either may be left
//! out. SIZE is a number of bytes, or `inline` for values that never go to blob files. The first range that a key lies in
//! decides, by the order of the family's comparator; keys in none follow `kvsep_mode`.

use super::text::strip_braces;
use super::values::{OptionValue, ValueError};
use spanlith_base::{Comparator, Error};
use std::fmt;

/// Values of keys in this range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KvsepRange {
    from: Vec<u8>,
    /// `None`: no end.
    to: Option<Vec<u8>>,
    /// `None`: they stay in tables.
    min_size: Option<u64>,
}

impl KvsepRange {
    fn contains(&self, comparator: &Comparator, user_key: &[u8]) -> bool {
        let with_time = comparator.timestamp_size() > 0;
        let compare =
            |bound: &[u8]| comparator.compare_without_timestamp(user_key, with_time, bound, false);
        (self.from.is_empty() || compare(&self.from).is_ge())
            && self.to.as_deref().is_none_or(|to| compare(to).is_lt())
    }
}

/// From which size on values are separated, by ranges of keys; empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvsepRanges(Vec<KvsepRange>);

impl KvsepRanges {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From which size on the value of a user key (with its timestamp) is separated: `u64::MAX` for never, `None` if
    /// no range says.
    pub fn min_size(&self, comparator: &Comparator, user_key: &[u8]) -> Option<u64> {
        let mut ranges = self.0.iter();
        let found = ranges.find(|r| r.contains(comparator, user_key))?;
        Some(found.min_size.unwrap_or(u64::MAX))
    }
}

impl fmt::Display for KvsepRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, key: &[u8]| {
            key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        for (n, range) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            hex(f, &range.from)?;
            f.write_str("..")?;
            hex(f, range.to.as_deref().unwrap_or_default())?;
            match range.min_size {
                Some(size) => write!(f, ":{size}")?,
                None => f.write_str(":inline")?,
            }
        }
        Ok(())
    }
}

fn key(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
        }
        _ => None,
    };
    pairs.map(byte).collect()
}

fn range(text: &str) -> Option<KvsepRange> {
    let (ends, size) = text.trim().split_once(':')?;
    let (from, to) = ends.split_once("..")?;
    Some(KvsepRange {
        from: key(from)?,
        to: Some(key(to)?).filter(|to| !to.is_empty()),
        min_size: match size {
            "inline" => None,
            size => Some(size.parse().ok()?),
        },
    })
}

impl OptionValue for KvsepRanges {
    fn print(&self) -> String {
        self.to_string()
    }

    fn parse_into(&mut self, text: &str) -> Result<(), ValueError> {
        let text = strip_braces(text);
        self.0 = match text.is_empty() {
            true => Vec::new(),
            false => {
                let parse = |part: &str| {
                    range(part).ok_or_else(|| {
                        ValueError::Other(Error::invalid_argument(format!(
                            "kvsep_ranges: {part}: not FROM..TO:SIZE with keys in hexadecimal digits and a size in \
                             bytes or inline"
                        )))
                    })
                };
                text.split(',').map(parse).collect::<Result<_, _>>()?
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KvsepRanges, ValueError> {
        let mut ranges = KvsepRanges::default();
        ranges.parse_into(text).map(|()| ranges)
    }

    #[test]
    fn ranges_are_read_printed_and_asked() {
        let text = "61..62:10,6263..:inline,..30:0";
        let ranges = parse(text).unwrap();
        assert_eq!(ranges.to_string(), text);
        assert_eq!(parse(&format!("{{{text}}}")).unwrap(), ranges);
        let bytewise = Comparator::Bytewise;
        for (key, expected) in [
            ("a", Some(10)),
            ("azz", Some(10)),
            ("b", None),
            ("bc", Some(u64::MAX)),
            ("zz", Some(u64::MAX)),
            ("0", None),
            ("", Some(0)),
        ] {
            let found = ranges.min_size(&bytewise, key.as_bytes());
            assert_eq!(found, expected, "{key}");
        }
        // The first range decides, and the order is the family's.
        let reverse = Comparator::ReverseBytewise;
        let ranges = parse("62..61:5,..:7").unwrap();
        for (key, expected) in [("b", 5), ("a", 7), ("c", 7)] {
            assert_eq!(ranges.min_size(&reverse, key.as_bytes()), Some(expected));
        }
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_range_is_refused_by_name() {
        for text in [
            "61", "61..62", "61..62:", "6..62:1", "6g..:1", "..:-1", "..:1,", "..:1k",
        ] {
            let e = parse(text).unwrap_err().into_error("kvsep_ranges", text);
            assert!(e.to_string().contains("kvsep_ranges"), "{text}: {e}");
        }
    }
}
