//! Describes what no data file holds: how a named comparator orders and a named merge operator merges.
//!
//! A directory records names only. Names of RocksDB's own components are known; of others a flag
//! says which known component they behave like: `acme.Order=bytewise`.

use crate::fail::Usage;
use spanlith::options::{MergeOperatorChoice, objects};
use spanlith::ttl::TimedMerge;
use spanlith::{Comparator, DbPath, MergeOperator, StringAppend, UserComparator};
use spanlith_env::Env;
use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;

/// A comparator flag: `KIND` for the family asked for, or `NAME=KIND` for all families whose
/// comparator is recorded as NAME.
#[derive(Clone, Debug)]
pub struct ComparatorFlag {
    /// The recorded name; without one the family asked for is meant.
    pub recorded: Option<String>,
    kind: String,
}

/// A merge operator flag, of the same forms.
#[derive(Clone, Debug)]
pub struct MergeFlag {
    /// The recorded name; without one the family asked for is meant.
    pub recorded: Option<String>,
    kind: String,
}

/// A known order under another name.
struct Renamed {
    name: String,
    order: Comparator,
}

impl UserComparator for Renamed {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.order.compare(a, b)
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        self.order.shortest_separator(start, limit);
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        self.order.short_successor(key);
    }

    fn can_keys_with_different_bytes_be_equal(&self) -> bool {
        false
    }

    fn timestamp_size(&self) -> usize {
        self.order.timestamp_size()
    }

    fn compare_without_timestamp(&self, a: &[u8], a_has: bool, b: &[u8], b_has: bool) -> Ordering {
        self.order.compare_without_timestamp(a, a_has, b, b_has)
    }

    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.order.compare_timestamp(a, b)
    }
}

/// Splits `NAME=KIND`. A NAME may hold anything, so the first `=` after which there is a KIND is the one, and a
/// text that is a KIND as a whole has no NAME.
fn split(text: &str, is_kind: impl Fn(&str) -> bool) -> (Option<String>, &str) {
    if is_kind(text) {
        return (None, text);
    }
    let mut places = text.match_indices('=').map(|(at, _)| at);
    let at = places.find(|at| is_kind(&text[at + 1..]));
    // Where there is none, what stands after the last one is complained of.
    match at.or_else(|| text.rfind('=')) {
        Some(at) => (Some(text[..at].to_string()), &text[at + 1..]),
        None => (None, text),
    }
}

/// The order that a word or a full name stands for.
fn order(kind: &str) -> Option<Comparator> {
    match kind {
        "bytewise" => Some(Comparator::Bytewise),
        "reverse" => Some(Comparator::ReverseBytewise),
        full => Comparator::from_name(full),
    }
}

impl FromStr for ComparatorFlag {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let (recorded, kind) = split(text, |kind| order(kind).is_some());
        if order(kind).is_none() {
            return Err(Usage::new(
                format!("unknown comparator '{kind}'"),
                "known: bytewise, reverse, leveldb.BytewiseComparator, \
                 rocksdb.ReverseBytewiseComparator, each also with .u64ts; NAME=bytewise says how \
                 the comparator recorded as NAME orders",
            ));
        }
        let kind = kind.to_string();
        Ok(Self { recorded, kind })
    }
}

impl ComparatorFlag {
    /// The comparator; under the recorded name if there is one.
    pub fn comparator(&self) -> Comparator {
        let order = order(&self.kind).unwrap_or_default();
        match &self.recorded {
            Some(name) if name != order.name() => Comparator::User(Arc::new(Renamed {
                name: name.clone(),
                order,
            })),
            _ => order,
        }
    }
}

/// The operator of a flag: `none`, a name, or `stringappend:DELIMITER`.
fn operator(kind: &str) -> Option<Option<Arc<dyn MergeOperator>>> {
    if kind.is_empty() {
        return None;
    }
    if kind == "none" {
        return Some(None);
    }
    if let Some(delimiter) = kind.strip_prefix("stringappend:") {
        return Some(Some(Arc::new(StringAppend::new(delimiter.as_bytes()))));
    }
    MergeOperatorChoice::parse(kind).map(|choice| spanlith::operator_of(&choice))
}

impl FromStr for MergeFlag {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let (recorded, kind) = split(text, |kind| operator(kind).is_some());
        if operator(kind).is_none() {
            return Err(Usage::new(
                format!("unknown merge operator '{kind}'"),
                "known: uint64add, stringappend, stringappend:DELIMITER, stringappendtest, put, \
                 max, bytesxor, sortlist, none; NAME=uint64add says what the operator recorded as \
                 NAME does",
            ));
        }
        let kind = kind.to_string();
        Ok(Self { recorded, kind })
    }
}

impl MergeFlag {
    /// The operator; `None` means that the family has none.
    pub fn operator(&self) -> Option<Arc<dyn MergeOperator>> {
        operator(&self.kind).flatten()
    }
}

/// Describes what the recorded text of a merge operator stands for.
#[derive(Clone)]
pub enum Recorded {
    /// No operator is recorded.
    None,
    /// An operator that is built in, with all its settings.
    Known(Arc<dyn MergeOperator>),
    /// One that is built in; the delimiter is not recorded and taken for RocksDB's default.
    Guessed(Arc<dyn MergeOperator>),
    /// One that only its program has.
    Unknown,
}

impl Recorded {
    /// Returns what a text of an OPTIONS file, or a name in a table's properties, stands for; also the operator of a
    /// database with times to live, around that of its user.
    pub fn of(text: &str) -> Self {
        if objects::id(text) == Some(TimedMerge::NAME) {
            let timed = |user| -> Arc<dyn MergeOperator> {
                Arc::new(TimedMerge::new(user, Env::system().clock))
            };
            return match Self::of(&user_text(text)) {
                Self::Known(user) => Self::Known(timed(user)),
                Self::Guessed(user) => Self::Guessed(timed(user)),
                Self::None | Self::Unknown => Self::Unknown,
            };
        }
        let Some(choice) = MergeOperatorChoice::parse(text) else {
            return Self::Unknown;
        };
        let has_delimiter = matches!(
            choice,
            MergeOperatorChoice::StringAppend { .. } | MergeOperatorChoice::StringAppendTest { .. }
        );
        match spanlith::operator_of(&choice) {
            None => Self::None,
            Some(o) if has_delimiter && objects::property(text, "delimiter").is_none() => {
                Self::Guessed(o)
            }
            Some(o) => Self::Known(o),
        }
    }
}

/// The text of the user's operator in a text that may be that of a database with times to live.
pub fn user_text(text: &str) -> String {
    match objects::id(text) {
        Some(TimedMerge::NAME) => objects::property(text, "user_operator").unwrap_or_default(),
        _ => text.to_string(),
    }
}

/// `DIR:BYTES,DIR:BYTES…`: directories of tables and how much of them each should hold.
///
/// # Errors
/// A part without a size.
pub fn parse_paths(text: &str) -> Result<Vec<DbPath>, Usage> {
    let part = |part: &str| {
        let (dir, size) = part.rsplit_once(':')?;
        let size = size.parse().ok().filter(|_| !dir.is_empty())?;
        Some(DbPath::new(dir, size))
    };
    text.split(',')
        .map(|p| {
            part(p).ok_or_else(|| {
                Usage::new(
                    format!("'{p}' is no path with a size"),
                    "write DIR:BYTES,DIR:BYTES…, in the order the database was made with",
                )
            })
        })
        .collect()
}

/// `NAME=DIR:BYTES,…`: the family and its directories.
///
/// # Errors
/// No name, or as [`parse_paths`].
pub fn parse_cf_paths(text: &str) -> Result<(String, Vec<DbPath>), Usage> {
    match text.split_once('=') {
        Some((name, paths)) => Ok((name.to_string(), parse_paths(paths)?)),
        None => Err(Usage::new(
            format!("'{text}' names no column family"),
            "write NAME=DIR:BYTES,DIR:BYTES…",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_names_a_kind_or_a_recorded_name_and_its_kind() {
        let c: ComparatorFlag = "acme.Order=reverse".parse().unwrap();
        assert_eq!(c.recorded.as_deref(), Some("acme.Order"));
        assert_eq!(c.comparator().name(), "acme.Order");
        assert_eq!(c.comparator().compare(b"a", b"b"), Ordering::Greater);
        let c: ComparatorFlag = "leveldb.BytewiseComparator.u64ts".parse().unwrap();
        assert_eq!(
            (c.recorded.is_none(), c.comparator().timestamp_size()),
            (true, 8)
        );
        let m: MergeFlag = "acme.Add=uint64add".parse().unwrap();
        assert_eq!(m.operator().unwrap().name(), "UInt64AddOperator");
        let m: MergeFlag = "stringappend:=".parse().unwrap();
        assert!(m.recorded.is_none());
        let joined = m.operator().unwrap().full_merge(b"k", Some(b"a"), &[b"b"]);
        assert_eq!(joined.as_deref(), Some(&b"a=b"[..]));
        assert!("none".parse::<MergeFlag>().unwrap().operator().is_none());
        let c: ComparatorFlag = "rev:acme=x.Order=reverse".parse().unwrap();
        assert_eq!(c.recorded.as_deref(), Some("rev:acme=x.Order"));
        let m: MergeFlag = "acme:Add=stringappend:x=y".parse().unwrap();
        assert_eq!(m.recorded.as_deref(), Some("acme:Add"));
        let joined = m.operator().unwrap().full_merge(b"k", Some(b"a"), &[b"b"]);
        assert_eq!(joined.as_deref(), Some(&b"ax=yb"[..]));
        assert!("acme.Add=".parse::<MergeFlag>().is_err());
        assert!("acme.Order=acme".parse::<ComparatorFlag>().is_err());
        assert!("sideways".parse::<MergeFlag>().is_err());
    }

    #[test]
    fn what_is_recorded_is_known_only_with_all_that_decides_the_result() {
        let joined = |text: &str| match Recorded::of(text) {
            Recorded::Known(o) => o.full_merge(b"k", Some(b"a\0\0\0\0"), &[b"b\0\0\0\0"]),
            _ => None,
        };
        let text = "{id=TtlMergeOperator;user_operator={id=StringAppendOperator;delimiter=-;};}";
        assert_eq!(&joined(text).unwrap()[..3], b"a-b");
        let is_unknown = |text| matches!(Recorded::of(text), Recorded::Unknown);
        assert!(is_unknown("shop.Append") && is_unknown("{id=TtlMergeOperator;user_operator=x;}"));
        // The name alone does not say what joins the operands.
        for bare in [
            "StringAppendOperator",
            "stringappendtest",
            "{id=stringappend;}",
        ] {
            assert!(matches!(Recorded::of(bare), Recorded::Guessed(_)), "{bare}");
        }
        assert!(matches!(
            Recorded::of("UInt64AddOperator"),
            Recorded::Known(_)
        ));
        assert!(matches!(Recorded::of("nullptr"), Recorded::None));
    }

    #[test]
    fn paths_have_sizes() {
        let paths = parse_paths("a:1,/b:c:20").unwrap();
        assert_eq!(paths, [DbPath::new("a", 1), DbPath::new("/b:c", 20)]);
        let (name, paths) = parse_cf_paths("x=y:5").unwrap();
        assert_eq!((name.as_str(), paths), ("x", vec![DbPath::new("y", 5)]));
        assert!(parse_paths("a").is_err() && parse_paths(":1").is_err());
        assert!(parse_cf_paths("y:5").is_err());
    }
}
