//! Describes what a key may hold besides a plain value, and how the caller gets to see it.
//!
//! ```text
//!   blob      a reference into a blob file; the value is fetched when it is asked for
//!   entity    columns; a reader of values sees the default column, empty if there is none
//!   TimedPut  a value with a sequence number or write time after it, which nobody sees
//! ```
//!
//! Columns of an entity may themselves lie in blob files. Used by any thread.

use crate::blob::{BlobRead, BlobSource, resolve_columns};
use crate::core::Family;
use crate::merge::{MergeBase, MergeOperator, MergeResult, full_merge_onto};
use crate::ttl::shown;
use crate::version::Version;
use spanlith_base::wide_columns::{
    ColumnKind, DEFAULT_COLUMN, WideColumn, WideColumns, encode_sorted,
};
use spanlith_base::{Error, Pinned, Result, ValueType, keys};
use std::ops::Range;
use std::sync::Arc;

/// Where the blobs of a read are.
#[derive(Clone, Copy)]
pub(crate) struct Blobs<'a> {
    pub source: &'a BlobSource,
    pub version: &'a Version,
    pub how: BlobRead,
}

impl Blobs<'_> {
    fn fetch(&self, key: &[u8], index: &[u8]) -> Result<Pinned> {
        self.source.resolve(self.version, key, index, self.how)
    }
}

/// Describes what a key holds.
#[derive(Clone)]
pub(crate) enum Stored {
    /// The value itself.
    Value(Pinned),
    /// A blob index.
    Blob(Pinned),
    /// An encoded entity.
    Entity(Pinned),
}

impl Stored {
    /// Returns what an entry of that type says the key holds; `None` for entries that say something else.
    ///
    /// # Errors
    /// `Corruption` if a TimedPut is too short.
    pub(crate) fn of(kind: ValueType, bytes: Pinned) -> Result<Option<Self>> {
        Ok(Some(match kind {
            ValueType::Value => Self::Value(bytes),
            ValueType::BlobIndex => Self::Blob(bytes),
            ValueType::WideColumnEntity => Self::Entity(bytes),
            ValueType::ValuePreferredSeqno => {
                let end = timed_value(&bytes)?.len();
                Self::Value(bytes.slice(..end))
            }
            _ => return Ok(None),
        }))
    }

    /// Returns what a reader of values sees.
    ///
    /// # Errors
    /// Of the blob file; `Corruption` if it is not an entity.
    pub(crate) fn into_value(self, key: &[u8], blobs: Blobs<'_>) -> Result<Pinned> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Blob(index) => blobs.fetch(key, &index),
            Self::Entity(entity) => {
                let columns = WideColumns::decode(&entity)?;
                match columns.default_column() {
                    None => Ok(Pinned::default()),
                    Some(c) if c.kind == ColumnKind::Blob => blobs.fetch(key, c.value),
                    Some(c) => Ok(entity.slice(range_in(&entity, c.value))),
                }
            }
        }
    }

    /// Returns what a reader of entities sees.
    ///
    /// # Errors
    /// As [`Self::into_value`].
    pub(crate) fn into_entity(self, key: &[u8], blobs: Blobs<'_>) -> Result<Entity> {
        match self {
            Self::Entity(bytes) => Entity::resolved(bytes, key, blobs),
            plain => Entity::of_value(&plain.into_value(key, blobs)?),
        }
    }

    /// As [`Self::into_entity`], for the reader: a plain value of the family may have a time.
    ///
    /// # Errors
    /// As [`Self::into_value`]; `Corruption` if a time is missing.
    pub(super) fn into_shown_entity(
        self,
        key: &[u8],
        family: &Family,
        blobs: Blobs<'_>,
    ) -> Result<Entity> {
        match self {
            Self::Value(_) | Self::Blob(_) if family.times.is_some() => {
                Entity::of_value(&shown(self.into_value(key, blobs)?)?)
            }
            _ => self.into_entity(key, blobs),
        }
    }

    /// Applies operands, newest first, to what the key held before.
    ///
    /// # Errors
    /// `InvalidArgument` without an operator, `Corruption` if it gives up; of the blob file.
    pub(crate) fn merged(
        operator: Option<&Arc<dyn MergeOperator>>,
        key: &[u8],
        base: Option<Self>,
        newest_first: &[Pinned],
        blobs: Blobs<'_>,
    ) -> Result<Self> {
        let base = match base {
            Some(Self::Blob(index)) => Some(Self::Value(blobs.fetch(key, &index)?)),
            Some(Self::Entity(bytes)) => Some(Self::Entity(Entity::resolved(bytes, key, blobs)?.0)),
            plain => plain,
        };
        let onto = match &base {
            None => MergeBase::None,
            Some(Self::Entity(bytes)) => MergeBase::Entity(WideColumns::decode(bytes)?),
            Some(Self::Value(value) | Self::Blob(value)) => MergeBase::Value(value),
        };
        Ok(match full_merge_onto(operator, key, onto, newest_first)? {
            MergeResult::Value(value) => Self::Value(Pinned::from_vec(value)),
            MergeResult::Entity(bytes) => Self::Entity(Pinned::from_vec(bytes)),
        })
    }
}

/// The value of a TimedPut.
fn timed_value(bytes: &[u8]) -> Result<&[u8]> {
    keys::timed_value(bytes)
        .ok_or_else(|| Error::corruption("a value with a preferred sequence number is too short"))
}

/// Where `part`, a slice of `whole`, is in it.
fn range_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    let range = start..start.wrapping_add(part.len());
    debug_assert_eq!(whole.get(range.clone()), Some(part));
    range
}

/// The columns of a key. A plain value is one column without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity(Pinned);

impl Entity {
    /// The encoded entity, with all columns in place of their blob indexes.
    fn resolved(bytes: Pinned, key: &[u8], blobs: Blobs<'_>) -> Result<Self> {
        let resolved = resolve_columns(&bytes, |index| blobs.fetch(key, index))?;
        Ok(Self(resolved.map_or(bytes, Pinned::from_vec)))
    }

    /// The entity that a plain value is.
    ///
    /// # Errors
    /// `InvalidArgument` if the value is too large.
    pub(crate) fn of_value(value: &[u8]) -> Result<Self> {
        let mut bytes = Vec::with_capacity(value.len() + 16);
        encode_sorted(&[WideColumn::new(DEFAULT_COLUMN, value)], &mut bytes)?;
        Ok(Self(Pinned::from_vec(bytes)))
    }

    /// The columns, by name.
    ///
    /// # Errors
    /// None for an entity that a read returned.
    pub fn columns(&self) -> Result<WideColumns<'_>> {
        WideColumns::decode(&self.0)
    }

    /// RocksDB's representation: all values in place.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_column_is_found_within_the_entity() {
        let mut bytes = Vec::new();
        let columns = [
            WideColumn::new(b"", b"default"),
            WideColumn::new(b"a", b"other"),
        ];
        encode_sorted(&columns, &mut bytes).unwrap();
        let decoded = WideColumns::decode(&bytes).unwrap();
        let default = decoded.default_column().unwrap();
        assert_eq!(&bytes[range_in(&bytes, default.value)], b"default");
        let entity = Entity(Pinned::from_vec(bytes.clone()));
        assert_eq!(entity.columns().unwrap().len(), 2);
    }

    #[test]
    fn a_timed_put_without_its_number_is_damage() {
        assert_eq!(timed_value(b"v12345678").unwrap(), b"v");
        assert!(timed_value(b"1234567").is_err());
        let kept = Stored::of(
            ValueType::ValuePreferredSeqno,
            Pinned::from_static(b"v12345678"),
        );
        match kept.unwrap() {
            Some(Stored::Value(v)) => assert_eq!(&*v, b"v"),
            _ => panic!("a TimedPut is a value"),
        }
        assert!(
            Stored::of(ValueType::Deletion, Pinned::default())
                .unwrap()
                .is_none()
        );
    }
}
