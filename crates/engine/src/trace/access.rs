//! Records of the other two traces: blocks looked up in the cache, calls of the file system.

use super::{RawRecord, kinds};
use spanlith_base::coding::Decoder;
use spanlith_base::{Error, Result};

/// The kind of block that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TracedBlock {
    Index,
    Filter,
    Data,
    CompressionDictionary,
    RangeDeletions,
}

impl TracedBlock {
    /// Words for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Filter => "filter",
            Self::Data => "data",
            Self::CompressionDictionary => "compression_dictionary",
            Self::RangeDeletions => "range_deletions",
        }
    }
}

/// On whose behalf a block was looked up: RocksDB's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCaller(pub u8);

impl BlockCaller {
    /// A get.
    pub const GET: Self = Self(1);
    /// A multi-get.
    pub const MULTI_GET: Self = Self(2);
    /// An iterator.
    pub const ITERATOR: Self = Self(3);
    /// A verification of checksums.
    pub const VERIFY_CHECKSUM: Self = Self(5);
    /// A table that is opened.
    pub const PREFETCH: Self = Self(9);
    /// A compaction.
    pub const COMPACTION: Self = Self(10);
    /// None of the others.
    pub const UNCATEGORIZED: Self = Self(14);

    /// Words for people; `unknown` for numbers that no release has written.
    pub fn name(self) -> &'static str {
        match self.0 {
            1 => "get",
            2 => "multi_get",
            3 => "iterator",
            4 => "approximate_size",
            5 => "verify_checksum",
            6 => "sst_dump",
            7 => "external_ingestion",
            8 => "repair",
            9 => "prefetch",
            10 => "compaction",
            11 => "compaction_refill",
            12 => "flush",
            13 => "sst_file_reader",
            14 => "uncategorized",
            _ => "unknown",
        }
    }

    fn refers_to_a_key(self) -> bool {
        self == Self::GET || self == Self::MULTI_GET
    }
}

/// The key for which a get looked a block up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReference<'a> {
    /// Number of the get, from 1 on.
    pub get_id: u64,
    /// Says whether it read from a snapshot of the caller.
    pub from_snapshot: bool,
    /// The key, with the eight bytes of sequence number and type.
    pub internal_key: &'a [u8],
    /// Of data blocks: bytes of the entry that was found, or 0; entries of the block; whether the key is there.
    pub found: Option<(u64, u64, bool)>,
}

/// A block was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAccess<'a> {
    /// Its kind.
    pub block: TracedBlock,
    /// Key in the cache.
    pub key: &'a [u8],
    /// Its size in bytes.
    pub size: u64,
    /// Id of the column family.
    pub cf: u64,
    /// Name of the column family.
    pub cf_name: &'a [u8],
    /// Level of the table.
    pub level: u32,
    /// Number of the table.
    pub file: u64,
    /// On whose behalf.
    pub caller: BlockCaller,
    /// It was in the cache.
    pub is_hit: bool,
    /// It was not to be put into the cache.
    pub no_insert: bool,
    /// Says what a get looked for.
    pub reference: Option<BlockReference<'a>>,
}

fn finish<T>(rest: &Decoder<'_>, value: T) -> Result<T> {
    match rest.is_empty() {
        true => Ok(value),
        false => Err(Error::corruption(
            "trace record: bytes behind the last field",
        )),
    }
}

impl<'a> BlockAccess<'a> {
    /// Takes a record apart that has one of the kinds of blocks.
    pub(super) fn decode(record: &RawRecord<'a>) -> Result<Self> {
        let block = match record.kind - kinds::BLOCK_FIRST {
            0 => TracedBlock::Index,
            1 => TracedBlock::Filter,
            2 => TracedBlock::Data,
            3 => TracedBlock::CompressionDictionary,
            _ => TracedBlock::RangeDeletions,
        };
        let mut rest = Decoder::new(record.payload, "trace of blocks");
        let mut access = Self {
            block,
            key: rest.length_prefixed("block key")?,
            size: rest.fixed64("block size")?,
            cf: rest.fixed64("column family id")?,
            cf_name: rest.length_prefixed("column family name")?,
            level: rest.fixed32("level")?,
            file: rest.fixed64("file number")?,
            caller: BlockCaller(rest.u8("caller")?),
            is_hit: rest.u8("hit")? != 0,
            no_insert: rest.u8("no insert")? != 0,
            reference: None,
        };
        if access.caller.refers_to_a_key() {
            access.reference = Some(BlockReference {
                get_id: rest.fixed64("get id")?,
                from_snapshot: rest.u8("snapshot")? != 0,
                internal_key: rest.length_prefixed("referenced key")?,
                found: match block {
                    TracedBlock::Data => Some((
                        rest.fixed64("referenced bytes")?,
                        rest.fixed64("keys in block")?,
                        rest.u8("key exists")? != 0,
                    )),
                    _ => None,
                },
            });
        }
        finish(&rest, access)
    }
}

/// The file system was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCall<'a> {
    /// Name of the method, such as `Append`.
    pub operation: &'a [u8],
    /// Nanoseconds it took.
    pub latency: u64,
    /// Says what it returned, as text.
    pub status: &'a [u8],
    /// Name of the file without its directory.
    pub file_name: &'a [u8],
    /// Size of the file, of calls that learn it.
    pub file_size: Option<u64>,
    /// Bytes to be read or written.
    pub length: Option<u64>,
    /// Where.
    pub offset: Option<u64>,
    /// Number of the request that the caller gave.
    pub request_id: Option<&'a [u8]>,
}

impl<'a> FileCall<'a> {
    /// Takes a record apart that is a call of the file system.
    pub(super) fn decode(record: &RawRecord<'a>) -> Result<Self> {
        let mut rest = Decoder::new(record.payload, "trace of calls");
        let unknown = |what| Error::corruption(format!("trace of calls: unknown {what}"));
        let fields = rest.fixed64("fields")?;
        if fields >> 3 != 0 {
            return Err(unknown("field").with("fields", format!("{fields:#x}")));
        }
        let mut call = Self {
            operation: rest.length_prefixed("operation")?,
            latency: rest.fixed64("latency")?,
            status: rest.length_prefixed("status")?,
            file_name: rest.length_prefixed("file name")?,
            file_size: None,
            length: None,
            offset: None,
            request_id: None,
        };
        let numbers = [&mut call.file_size, &mut call.length, &mut call.offset];
        for (bit, number) in numbers.into_iter().enumerate() {
            if fields >> bit & 1 != 0 {
                *number = Some(rest.fixed64("number")?);
            }
        }
        let more = rest.fixed64("fields of the request")?;
        if more >> 1 != 0 {
            return Err(unknown("field of the request").with("fields", format!("{more:#x}")));
        }
        if more == 1 {
            call.request_id = Some(rest.length_prefixed("request id")?);
        }
        finish(&rest, call)
    }
}
