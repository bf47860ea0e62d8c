//! Wide-column entities: a value that is a list of named columns.
//!
//! ```text
//!   version 1   varint32 1, varint32 n, n × (length-prefixed name, varint32 value size),
//!               values back to back
//!   version 2   varint32 2, varint32 n, varint32 bytes of A, of B, of C, n × column type,
//!               A: n × varint32 name size, B: n × varint32 value size, C: names, values to the end
//! ```
//!
//! Names ascend strictly, bytewise. The column with the empty name is the *default column*: a plain
//! value is worth an entity with only that, and a plain read of an entity returns it. Version 2 is
//! written only when a column lies in a blob file; that column's value is a blob index then.
//!
//! [`WideColumns::decode`] checks everything once; what it hands out borrows from the input and
//! costs no allocation (B3).
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::coding::{Decoder, get_varint32, put_length_prefixed, put_varint32};
use crate::{Error, Result};

/// Name of the default column.
pub const DEFAULT_COLUMN: &[u8] = b"";

const VERSION_INLINE: u32 = 1;
const VERSION_BLOBS: u32 = 2;

/// Describes what the value of a column is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKind {
    /// The user's bytes.
    #[default]
    Inline,
    /// A blob index, which says where the user's bytes are.
    Blob,
}

impl ColumnKind {
    fn as_byte(self) -> u8 {
        match self {
            Self::Inline => 0x01,
            Self::Blob => 0x11,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0x01 => Some(Self::Inline),
            0x11 => Some(Self::Blob),
            _ => None,
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WideColumn<'a> {
    /// Its name; empty for the default column.
    pub name: &'a [u8],
    /// Its value, or blob index.
    pub value: &'a [u8],
    /// Which of the two.
    pub kind: ColumnKind,
}

impl<'a> WideColumn<'a> {
    /// A column with its value in place.
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            name,
            value,
            kind: ColumnKind::Inline,
        }
    }
}

/// Appends the entity of `columns`, which get sorted; version 1, or 2 if one is a blob.
///
/// # Errors
/// `Corruption` if two have the same name, `InvalidArgument` if something is 4 GiB or more; as
/// RocksDB. Nothing is appended then.
pub fn encode_entity(columns: &mut [WideColumn<'_>], out: &mut Vec<u8>) -> Result<()> {
    columns.sort_unstable_by(|a, b| a.name.cmp(b.name));
    encode_sorted(columns, out)
}

/// As [`encode_entity`], for columns that are in order.
///
/// # Errors
/// As there; columns out of order too.
pub fn encode_sorted(columns: &[WideColumn<'_>], out: &mut Vec<u8>) -> Result<()> {
    let fits = |n: usize| u32::try_from(n).ok();
    let count = fits(columns.len()).ok_or_else(|| invalid("Too many wide columns"))?;
    for c in columns {
        fits(c.name.len()).ok_or_else(|| invalid("Wide column name too long"))?;
        fits(c.value.len()).ok_or_else(|| invalid("Wide column value too long"))?;
    }
    let ordered = |a: &WideColumn<'_>, b: &WideColumn<'_>| a.name < b.name;
    if !columns.is_sorted_by(ordered) {
        return Err(Error::corruption("Wide columns out of order"));
    }
    if columns.iter().all(|c| c.kind == ColumnKind::Inline) {
        put_varint32(out, VERSION_INLINE);
        put_varint32(out, count);
        for c in columns {
            put_length_prefixed(out, c.name);
            put_varint32(out, c.value.len() as u32);
        }
    } else {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for c in columns {
            put_varint32(&mut names, c.name.len() as u32);
            put_varint32(&mut values, c.value.len() as u32);
        }
        let name_bytes = fits(columns.iter().map(|c| c.name.len()).sum())
            .ok_or_else(|| invalid("Wide column names too long"))?;
        let section =
            |bytes: &[u8]| fits(bytes.len()).ok_or_else(|| invalid("Too many wide columns"));
        let (a, b) = (section(&names)?, section(&values)?);
        for number in [VERSION_BLOBS, count, a, b, name_bytes] {
            put_varint32(out, number);
        }
        out.extend(columns.iter().map(|c| c.kind.as_byte()));
        out.extend_from_slice(&names);
        out.extend_from_slice(&values);
        columns.iter().for_each(|c| out.extend_from_slice(c.name));
    }
    columns.iter().for_each(|c| out.extend_from_slice(c.value));
    Ok(())
}

fn invalid(text: &str) -> Error {
    Error::invalid_argument(text)
}

/// The columns of an encoded entity, checked.
#[derive(Clone, Copy, Debug)]
pub struct WideColumns<'a> {
    start: WideColumnsIter<'a>,
}

/// Goes through columns in the order of their names.
#[derive(Clone, Copy, Debug)]
pub struct WideColumnsIter<'a> {
    left: u32,
    sizes: Sizes<'a>,
    values: &'a [u8],
}

/// Where names, kinds and sizes stand.
#[derive(Clone, Copy, Debug)]
enum Sizes<'a> {
    /// Names and value sizes take turns.
    Inline { heads: &'a [u8] },
    /// Each in its section.
    Blobs {
        kinds: &'a [u8],
        name_sizes: &'a [u8],
        value_sizes: &'a [u8],
        names: &'a [u8],
    },
}

impl<'a> WideColumns<'a> {
    /// The columns in `bytes`.
    ///
    /// # Errors
    /// `Corruption` for bytes that are not an entity from first to last, `NotSupported` for a later
    /// version.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut d = Decoder::new(bytes, "wide columns");
        let version = d
            .varint32("version")
            .map_err(|_| corrupt("Error decoding wide column version"))?;
        let count = |d: &mut Decoder<'a>| {
            d.varint32("columns")
                .map_err(|_| corrupt("Error decoding number of wide columns"))
        };
        let start = match version {
            0..=VERSION_INLINE => inline(count(&mut d)?, d.rest())?,
            VERSION_BLOBS => blobs(count(&mut d)?, d)?,
            _ => return Err(Error::not_supported("Unsupported wide column version")),
        };
        Ok(Self { start })
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.start.left as usize
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.start.left == 0
    }

    /// The columns, by name.
    pub fn iter(&self) -> WideColumnsIter<'a> {
        self.start
    }

    /// The column of a name. Looks at all before it.
    pub fn get(&self, name: &[u8]) -> Option<WideColumn<'a>> {
        self.iter()
            .take_while(|c| c.name <= name)
            .find(|c| c.name == name)
    }

    /// The default column, which comes first if there is one.
    #[inline]
    pub fn default_column(&self) -> Option<WideColumn<'a>> {
        self.iter().next().filter(|c| c.name == DEFAULT_COLUMN)
    }

    /// Returns whether a column lies in a blob file.
    pub fn has_blobs(&self) -> bool {
        match self.start.sizes {
            Sizes::Inline { .. } => false,
            Sizes::Blobs { kinds, .. } => kinds.contains(&ColumnKind::Blob.as_byte()),
        }
    }

    /// The entity with another value in the default column, which is added if it is missing.
    ///
    /// # Errors
    /// `InvalidArgument` if it becomes too large.
    pub fn with_default_value(&self, value: &[u8]) -> Result<Vec<u8>> {
        let others = self.iter().filter(|c| c.name != DEFAULT_COLUMN);
        let columns: Vec<_> = std::iter::once(WideColumn::new(DEFAULT_COLUMN, value))
            .chain(others)
            .collect();
        let mut out = Vec::new();
        encode_sorted(&columns, &mut out)?;
        Ok(out)
    }
}

impl<'a> IntoIterator for &WideColumns<'a> {
    type Item = WideColumn<'a>;
    type IntoIter = WideColumnsIter<'a>;
    fn into_iter(self) -> WideColumnsIter<'a> {
        self.iter()
    }
}

/// Names and value sizes one after the other, then the values: a first pass finds where these begin.
fn inline(count: u32, heads: &[u8]) -> Result<WideColumnsIter<'_>> {
    let mut d = Decoder::new(heads, "wide columns");
    let mut value_bytes = 0u64;
    let mut last: Option<&[u8]> = None;
    for _ in 0..count {
        let name = d
            .length_prefixed("name")
            .map_err(|_| corrupt("Error decoding wide column name"))?;
        if last.is_some_and(|last| last >= name) {
            return Err(corrupt("Wide columns out of order"));
        }
        last = Some(name);
        let size = d
            .varint32("value size")
            .map_err(|_| corrupt("Error decoding wide column value size"))?;
        value_bytes += u64::from(size);
    }
    let values = d.rest();
    if values.len() as u64 != value_bytes {
        return Err(corrupt("Error decoding wide column value payload")
            .with("expected", value_bytes)
            .with("available", values.len()));
    }
    Ok(WideColumnsIter {
        left: count,
        sizes: Sizes::Inline { heads },
        values,
    })
}

fn blobs<'a>(count: u32, mut d: Decoder<'a>) -> Result<WideColumnsIter<'a>> {
    let sections = |d: &mut Decoder<'a>| -> Result<_> {
        let mut length = || d.varint32("section").map(|n| n as usize);
        let (a, b, c) = (length()?, length()?, length()?);
        let kinds = d.bytes(count as usize, "types")?;
        Ok((
            kinds,
            d.bytes(a, "name sizes")?,
            d.bytes(b, "value sizes")?,
            d.bytes(c, "names")?,
        ))
    };
    let (kinds, name_sizes, value_sizes, names) =
        sections(&mut d).map_err(|_| corrupt("Error decoding wide column sections"))?;
    if kinds.iter().any(|&k| ColumnKind::from_byte(k).is_none()) {
        return Err(corrupt("Unsupported wide column type"));
    }
    let sum = |mut sizes: &[u8]| -> Option<u64> {
        let mut sum = 0;
        for _ in 0..count {
            let (size, rest) = get_varint32(sizes)?;
            sum += u64::from(size);
            sizes = rest;
        }
        sizes.is_empty().then_some(sum)
    };
    let values = d.rest();
    if sum(name_sizes) != Some(names.len() as u64) {
        return Err(corrupt("Error decoding wide column name"));
    }
    if sum(value_sizes) != Some(values.len() as u64) {
        return Err(corrupt("Error decoding wide column value payload"));
    }
    let columns = WideColumnsIter {
        left: count,
        sizes: Sizes::Blobs {
            kinds,
            name_sizes,
            value_sizes,
            names,
        },
        values,
    };
    let mut last: Option<&[u8]> = None;
    for c in columns {
        if last.is_some_and(|last| last >= c.name) {
            return Err(corrupt("Wide columns out of order"));
        }
        last = Some(c.name);
    }
    Ok(columns)
}

#[cold]
fn corrupt(text: &str) -> Error {
    Error::corruption(text)
}

impl<'a> WideColumnsIter<'a> {
    /// One column; `None` cannot happen in checked bytes.
    fn step(&mut self) -> Option<WideColumn<'a>> {
        let (kind, name, size) = match &mut self.sizes {
            Sizes::Inline { heads } => {
                let (len, rest) = get_varint32(heads)?;
                let (name, rest) = rest.split_at_checked(len as usize)?;
                let (size, rest) = get_varint32(rest)?;
                *heads = rest;
                (ColumnKind::Inline, name, size)
            }
            Sizes::Blobs {
                kinds,
                name_sizes,
                value_sizes,
                names,
            } => {
                let (&kind, kinds_rest) = kinds.split_first()?;
                let (len, name_sizes_rest) = get_varint32(name_sizes)?;
                let (size, value_sizes_rest) = get_varint32(value_sizes)?;
                let (name, names_rest) = names.split_at_checked(len as usize)?;
                (*kinds, *name_sizes) = (kinds_rest, name_sizes_rest);
                (*value_sizes, *names) = (value_sizes_rest, names_rest);
                (ColumnKind::from_byte(kind)?, name, size)
            }
        };
        let (value, values) = self.values.split_at_checked(size as usize)?;
        self.values = values;
        Some(WideColumn { name, value, kind })
    }
}

impl<'a> Iterator for WideColumnsIter<'a> {
    type Item = WideColumn<'a>;

    fn next(&mut self) -> Option<WideColumn<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.step()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for WideColumnsIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(columns: &[WideColumn<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_entity(&mut columns.to_vec(), &mut out).unwrap();
        out
    }

    fn blob<'a>(name: &'a [u8], value: &'a [u8]) -> WideColumn<'a> {
        WideColumn {
            kind: ColumnKind::Blob,
            ..WideColumn::new(name, value)
        }
    }

    fn error(bytes: &[u8]) -> String {
        WideColumns::decode(bytes).unwrap_err().to_string()
    }

    #[test]
    fn the_bytes_are_those_rocksdb_writes() {
        // Written by RocksDB 7.8.3 and 11.8.1 alike.
        let columns = [
            WideColumn::new(b"c2", b"eeexxx"),
            WideColumn::new(b"", b"default-value"),
            WideColumn::new(b"c1", b"1"),
        ];
        let expected = b"\x01\x03\x00\x0d\x02c1\x01\x02c2\x06default-value1eeexxx";
        assert_eq!(encode(&columns), expected);
        let decoded = WideColumns::decode(expected).unwrap();
        assert_eq!(decoded.len(), 3);
        assert_eq!(decoded.default_column().unwrap().value, b"default-value");
        assert_eq!(decoded.get(b"c2").unwrap().value, b"eeexxx");
        assert_eq!(decoded.get(b"c11"), None);
        assert!(!decoded.has_blobs());
        assert_eq!(encode(&[]), b"\x01\x00");
        assert!(WideColumns::decode(b"\x01\x00").unwrap().is_empty());
    }

    #[test]
    fn a_blob_column_makes_it_version_two() {
        let columns = [
            WideColumn::new(b"", b"d"),
            blob(b"big", b"\x01\x0a\x40\x0c\x04"),
            WideColumn::new(b"z", b""),
        ];
        let bytes = encode(&columns);
        assert_eq!(
            bytes,
            b"\x02\x03\x03\x03\x04\x01\x11\x01\x00\x03\x01\x01\x05\x00bigzd\x01\x0a\x40\x0c\x04"
        );
        let decoded = WideColumns::decode(&bytes).unwrap();
        assert!(decoded.has_blobs());
        assert_eq!(decoded.iter().collect::<Vec<_>>(), columns);
    }

    #[test]
    fn every_cut_and_every_tail_is_refused() {
        for bytes in [
            encode(&[WideColumn::new(b"", b"x"), WideColumn::new(b"ab", b"yy")]),
            encode(&[WideColumn::new(b"", b"x"), blob(b"ab", b"yy")]),
        ] {
            for cut in 0..bytes.len() {
                assert!(error(&bytes[..cut]).starts_with("Corruption: "), "{cut}");
            }
            let tail = [&bytes[..], b"x"].concat();
            assert_eq!(
                error(&tail).split(": expected").next(),
                Some("Corruption: Error decoding wide column value payload")
            );
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let seed = 0x5eed_u64;
        println!("seed {seed:#x}");
        let mut state = seed;
        let valid = encode(&[WideColumn::new(b"", b"x"), blob(b"ab", b"yy")]);
        for _ in 0..20_000 {
            let mut bytes = valid.clone();
            for _ in 0..2 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 55) as u8;
            }
            if let Ok(columns) = WideColumns::decode(&bytes) {
                assert_eq!(columns.iter().count(), columns.len());
            }
        }
    }

    #[test]
    fn wrong_entities_get_rocksdbs_texts() {
        assert_eq!(error(b""), "Corruption: Error decoding wide column version");
        assert_eq!(
            error(b"\x03\x00"),
            "Not implemented: Unsupported wide column version"
        );
        assert_eq!(
            error(b"\x01\x02\x01b\x00\x01a\x00"),
            "Corruption: Wide columns out of order"
        );
        assert_eq!(
            error(b"\x02\x01\x01\x01\x01\x02\x01\x00a"),
            "Corruption: Unsupported wide column type"
        );
        // A count far beyond the input.
        assert!(error(b"\x01\xff\xff\xff\xff\x0f").contains("wide column name"));
        let twice = &mut [WideColumn::new(b"a", b"1"), WideColumn::new(b"a", b"2")];
        let mut out = Vec::new();
        let e = encode_entity(twice, &mut out).unwrap_err();
        assert_eq!(e.to_string(), "Corruption: Wide columns out of order");
        assert!(out.is_empty());
    }

    #[test]
    fn the_default_column_can_be_replaced_or_added() {
        let bytes = encode(&[WideColumn::new(b"", b"x"), blob(b"ab", b"yy")]);
        let entity = WideColumns::decode(&bytes).unwrap();
        let changed = entity.with_default_value(b"new").unwrap();
        assert_eq!(
            changed,
            encode(&[WideColumn::new(b"", b"new"), blob(b"ab", b"yy")])
        );
        let bytes = encode(&[WideColumn::new(b"k", b"v")]);
        let added = WideColumns::decode(&bytes)
            .unwrap()
            .with_default_value(b"d")
            .unwrap();
        assert_eq!(
            added,
            encode(&[WideColumn::new(b"", b"d"), WideColumn::new(b"k", b"v")])
        );
    }
}
