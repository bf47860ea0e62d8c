//! Records of traces of queries.

use super::{RawRecord, kinds};
use spanlith_base::coding::Decoder;
use spanlith_base::{Error, Result};

/// Bits of the word that says which members a record has; they follow in this order.
pub(super) mod member {
    pub const WRITE_BATCH: u32 = 1;
    pub const GET_FAMILY: u32 = 2;
    pub const GET_KEY: u32 = 3;
    pub const ITERATOR_FAMILY: u32 = 4;
    pub const ITERATOR_KEY: u32 = 5;
    pub const LOWER_BOUND: u32 = 6;
    pub const UPPER_BOUND: u32 = 7;
    pub const MULTI_GET_SIZE: u32 = 8;
    pub const MULTI_GET_FAMILIES: u32 = 9;
    pub const MULTI_GET_KEYS: u32 = 10;
    pub const COUNT: u32 = 11;
}

/// Describes what a caller asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// A batch was written.
    Write {
        /// The batch as the caller made it; its sequence number means nothing.
        batch: &'a [u8],
    },
    /// A get.
    Get {
        /// Id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
    },
    /// An iterator was positioned.
    Seek {
        /// At or before the key, instead of at or after it.
        backward: bool,
        /// Id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The iterator's lower bound; a bound that is the empty key is not recorded.
        lower: Option<&'a [u8]>,
        /// Its upper bound.
        upper: Option<&'a [u8]>,
    },
    /// Several gets in one call.
    MultiGet(MultiGetKeys<'a>),
}

/// The keys of a multi-get with the ids of their families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiGetKeys<'a> {
    families: &'a [u8],
    keys: &'a [u8],
}

impl<'a> MultiGetKeys<'a> {
    /// Checks that there are `size` of both and nothing else.
    fn new(size: u32, families: &'a [u8], keys: &'a [u8]) -> Result<Self> {
        if families.len() as u64 != u64::from(size) * 4 {
            return Err(wrong("families of a multi-get"));
        }
        let mut rest = Decoder::new(keys, WHAT);
        for _ in 0..size {
            rest.length_prefixed("key of a multi-get")?;
        }
        match rest.is_empty() {
            true => Ok(Self { families, keys }),
            false => Err(wrong("keys of a multi-get")),
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.families.len() / 4
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Family and key of each.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let mut keys = Decoder::new(self.keys, WHAT);
        self.families.chunks_exact(4).map(move |family| {
            // Both were checked when this was made.
            let cf = family.try_into().map_or(0, u32::from_le_bytes);
            (cf, keys.length_prefixed("key").unwrap_or_default())
        })
    }
}

const WHAT: &str = "trace record";

fn wrong(what: &'static str) -> Error {
    Error::corruption(format!("{WHAT}: {what}"))
}

/// Members of a record as they were found.
#[derive(Default)]
struct Members<'a> {
    numbers: [Option<u32>; member::COUNT as usize],
    bytes: [Option<&'a [u8]>; member::COUNT as usize],
}

impl<'a> Members<'a> {
    fn decode(payload: &'a [u8]) -> Result<Self> {
        let mut rest = Decoder::new(payload, WHAT);
        let map = rest.fixed64("members")?;
        if map & 1 != 0 || map >> member::COUNT != 0 {
            return Err(wrong("unknown member").with("members", format!("{map:#x}")));
        }
        let mut found = Self::default();
        for bit in (1..member::COUNT).filter(|bit| map >> bit & 1 != 0) {
            match bit {
                member::GET_FAMILY | member::ITERATOR_FAMILY | member::MULTI_GET_SIZE => {
                    found.numbers[bit as usize] = Some(rest.fixed32("number")?);
                }
                _ => found.bytes[bit as usize] = Some(rest.length_prefixed("bytes")?),
            }
        }
        match rest.is_empty() {
            true => Ok(found),
            false => Err(wrong("bytes behind the last member")),
        }
    }

    fn number(&self, bit: u32) -> Result<u32> {
        self.numbers[bit as usize].ok_or_else(|| missing(bit))
    }

    fn bytes(&self, bit: u32) -> Result<&'a [u8]> {
        self.bytes[bit as usize].ok_or_else(|| missing(bit))
    }
}

fn missing(bit: u32) -> Error {
    wrong("a member is missing").with("member", bit)
}

impl<'a> Query<'a> {
    /// Takes a record apart that has one of the kinds of queries.
    pub(super) fn decode(record: &RawRecord<'a>, version: (u32, u32)) -> Result<Self> {
        if version < (0, 2) {
            return Self::decode_first(record);
        }
        if let Some(query) = Self::decode_common(record)? {
            return Ok(query);
        }
        let members = Members::decode(record.payload)?;
        Ok(match record.kind {
            kinds::WRITE => Self::Write {
                batch: members.bytes(member::WRITE_BATCH)?,
            },
            kinds::GET => Self::Get {
                cf: members.number(member::GET_FAMILY)?,
                key: members.bytes(member::GET_KEY)?,
            },
            kinds::MULTI_GET => Self::MultiGet(MultiGetKeys::new(
                members.number(member::MULTI_GET_SIZE)?,
                members.bytes(member::MULTI_GET_FAMILIES)?,
                members.bytes(member::MULTI_GET_KEYS)?,
            )?),
            kind => Self::Seek {
                backward: kind == kinds::SEEK_FOR_PREV,
                cf: members.number(member::ITERATOR_FAMILY)?,
                key: members.bytes(member::ITERATOR_KEY)?,
                lower: members.bytes[member::LOWER_BOUND as usize],
                upper: members.bytes[member::UPPER_BOUND as usize],
            },
        })
    }

    /// A get or a write with just the members that it must have, as almost all records are; others are left to
    /// [`Members`].
    #[inline]
    fn decode_common(record: &RawRecord<'a>) -> Result<Option<Self>> {
        const GET: u64 = 1 << member::GET_FAMILY | 1 << member::GET_KEY;
        const WRITE: u64 = 1 << member::WRITE_BATCH;
        let mut rest = Decoder::new(record.payload, WHAT);
        let query = match (record.kind, rest.fixed64("members")?) {
            (kinds::GET, GET) => Self::Get {
                cf: rest.fixed32("number")?,
                key: rest.length_prefixed("bytes")?,
            },
            (kinds::WRITE, WRITE) => Self::Write {
                batch: rest.length_prefixed("bytes")?,
            },
            _ => return Ok(None),
        };
        match rest.is_empty() {
            true => Ok(Some(query)),
            false => Err(wrong("bytes behind the last member")),
        }
    }

    /// Records of version 0.1: the bare batch, or family and key.
    fn decode_first(record: &RawRecord<'a>) -> Result<Self> {
        if record.kind == kinds::WRITE {
            return Ok(Self::Write {
                batch: record.payload,
            });
        }
        if record.kind == kinds::MULTI_GET {
            return Err(wrong("a multi-get in a trace of version 0.1"));
        }
        let mut rest = Decoder::new(record.payload, WHAT);
        let (cf, key) = (rest.fixed32("family")?, rest.length_prefixed("key")?);
        if !rest.is_empty() {
            return Err(wrong("bytes behind the key"));
        }
        Ok(match record.kind {
            kinds::GET => Self::Get { cf, key },
            kind => Self::Seek {
                backward: kind == kinds::SEEK_FOR_PREV,
                cf,
                key,
                lower: None,
                upper: None,
            },
        })
    }
}
