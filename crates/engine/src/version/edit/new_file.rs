//! Files that an edit adds: the description, and its forms in bytes.
//!
//! NewFile4 is written; it ends in custom fields, each length-prefixed, so that readers skip what they
//! do not know unless bit 64 of the tag forbids it. The three older forms are read.

use super::{bad, put_opt_bytes, put_opt_nested_u64, tag, take_internal_key, take_level};
use spanlith_base::Result;
use spanlith_base::coding::{
    Decoder, get_varint64, put_fixed64, put_length_prefixed, put_varint32, put_varint64,
};

/// Name of the checksum function of a file that has no whole-file checksum.
pub const UNKNOWN_CHECKSUM_FUNCTION: &[u8] = b"Unknown";

/// Greatest path id a MANIFEST can hold.
pub const MAX_PATH_ID: u32 = 3;

/// Unknown custom tags with this bit are refused.
pub(super) const NOT_SKIPPABLE: u32 = 1 << 6;

/// Custom tags of NewFile4.
mod custom {
    pub const TERMINATE: u32 = 1;
    pub const NEED_COMPACTION: u32 = 2;
    pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub const OLDEST_BLOB_FILE_NUMBER: u32 = 4;
    pub const OLDEST_ANCESTER_TIME: u32 = 5;
    pub const FILE_CREATION_TIME: u32 = 6;
    pub const FILE_CHECKSUM: u32 = 7;
    pub const FILE_CHECKSUM_FUNC_NAME: u32 = 8;
    pub const TEMPERATURE: u32 = 9;
    pub const MIN_TIMESTAMP: u32 = 10;
    pub const MAX_TIMESTAMP: u32 = 11;
    pub const UNIQUE_ID: u32 = 12;
    pub const EPOCH_NUMBER: u32 = 13;
    pub const COMPENSATED_RANGE_DELETION_SIZE: u32 = 14;
    pub const TAIL_SIZE: u32 = 15;
    pub const TIMESTAMPS_PERSISTED: u32 = 16;
    pub const FILE_OPEN_METADATA: u32 = 17;
    pub const PATH_ID: u32 = 65;
}

/// A table file that an edit adds to a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Level the file lies in.
    pub level: u32,
    /// File number.
    pub number: u64,
    /// Index into the family's list of paths.
    pub path_id: u32,
    /// Size of the file in bytes.
    pub size: u64,
    /// Smallest internal key, range tombstones included.
    pub smallest: Vec<u8>,
    /// Largest internal key; for a range tombstone an exclusive sentinel.
    pub largest: Vec<u8>,
    /// Smallest sequence number of all entries.
    pub smallest_seqno: u64,
    /// Largest sequence number of all entries.
    pub largest_seqno: u64,
    /// A table property collector asked for compaction.
    pub marked_for_compaction: bool,
    /// Oldest blob file the table refers to, 0 for none.
    pub oldest_blob_file_number: u64,
    /// Unix seconds of the oldest data, 0 for unknown.
    pub oldest_ancester_time: u64,
    /// Unix seconds when the file was made, 0 for unknown.
    pub file_creation_time: u64,
    /// Age rank among the files of level 0, 0 for unknown.
    pub epoch_number: u64,
    /// Whole-file checksum; empty for none.
    pub file_checksum: Vec<u8>,
    /// Name of the function that made the checksum; [`UNKNOWN_CHECKSUM_FUNCTION`] for none.
    pub file_checksum_func_name: Vec<u8>,
    /// Temperature byte, 0 for unknown.
    pub temperature: u8,
    /// Unique id of the table, zero for unknown.
    pub unique_id: [u64; 2],
    /// Bytes below that the range tombstones of the file cover, by estimate.
    pub compensated_range_deletion_size: u64,
    /// Bytes after the data blocks, 0 for unknown.
    pub tail_size: u64,
    /// Says whether keys in the file carry their user-defined timestamps.
    pub user_defined_timestamps_persisted: bool,
    /// Smallest user-defined timestamp; empty for none.
    pub min_timestamp: Vec<u8>,
    /// Largest user-defined timestamp; empty for none.
    pub max_timestamp: Vec<u8>,
    /// Says what a fast open needs to know of the table; empty for none.
    pub open_metadata: Vec<u8>,
}

impl Default for NewFile {
    fn default() -> Self {
        Self {
            level: 0,
            number: 0,
            path_id: 0,
            size: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_seqno: 0,
            largest_seqno: 0,
            marked_for_compaction: false,
            oldest_blob_file_number: 0,
            oldest_ancester_time: 0,
            file_creation_time: 0,
            epoch_number: 0,
            file_checksum: Vec::new(),
            file_checksum_func_name: UNKNOWN_CHECKSUM_FUNCTION.to_vec(),
            temperature: 0,
            unique_id: [0; 2],
            compensated_range_deletion_size: 0,
            tail_size: 0,
            user_defined_timestamps_persisted: true,
            min_timestamp: Vec::new(),
            max_timestamp: Vec::new(),
            open_metadata: Vec::new(),
        }
    }
}

/// Appends the NewFile4 of a file; the first of an edit repeats its smallest log number to keep.
pub(super) fn put_new_file(out: &mut Vec<u8>, f: &NewFile, min_log: Option<u64>) {
    put_varint32(out, tag::NEW_FILE4);
    put_varint32(out, f.level);
    put_varint64(out, f.number);
    put_varint64(out, f.size);
    put_length_prefixed(out, &f.smallest);
    put_length_prefixed(out, &f.largest);
    put_varint64(out, f.smallest_seqno);
    put_varint64(out, f.largest_seqno);

    put_opt_nested_u64(
        out,
        custom::OLDEST_ANCESTER_TIME,
        Some(f.oldest_ancester_time),
    );
    put_opt_nested_u64(out, custom::FILE_CREATION_TIME, Some(f.file_creation_time));
    put_opt_nested_u64(out, custom::EPOCH_NUMBER, Some(f.epoch_number));
    if f.file_checksum_func_name != UNKNOWN_CHECKSUM_FUNCTION {
        put_opt_bytes(out, custom::FILE_CHECKSUM, Some(&f.file_checksum));
        put_opt_bytes(
            out,
            custom::FILE_CHECKSUM_FUNC_NAME,
            Some(&f.file_checksum_func_name),
        );
    }
    if f.path_id != 0 {
        let id = u8::try_from(f.path_id).unwrap_or(u8::MAX);
        debug_assert!(f.path_id <= MAX_PATH_ID);
        put_opt_bytes(out, custom::PATH_ID, Some(&[id]));
    }
    if f.temperature != 0 {
        put_opt_bytes(out, custom::TEMPERATURE, Some(&[f.temperature]));
    }
    if f.marked_for_compaction {
        put_opt_bytes(out, custom::NEED_COMPACTION, Some(&[1]));
    }
    if let Some(min_log) = min_log {
        let mut body = Vec::with_capacity(8);
        put_fixed64(&mut body, min_log);
        put_opt_bytes(out, custom::MIN_LOG_NUMBER_TO_KEEP, Some(&body));
    }
    let nonzero = |v: u64| (v != 0).then_some(v);
    put_opt_nested_u64(
        out,
        custom::OLDEST_BLOB_FILE_NUMBER,
        nonzero(f.oldest_blob_file_number),
    );
    if f.unique_id != [0; 2] {
        let mut body = Vec::with_capacity(16);
        for half in f.unique_id {
            put_fixed64(&mut body, half);
        }
        put_opt_bytes(out, custom::UNIQUE_ID, Some(&body));
    }
    put_opt_nested_u64(
        out,
        custom::COMPENSATED_RANGE_DELETION_SIZE,
        nonzero(f.compensated_range_deletion_size),
    );
    put_opt_nested_u64(out, custom::TAIL_SIZE, nonzero(f.tail_size));
    if !f.user_defined_timestamps_persisted {
        put_opt_bytes(out, custom::TIMESTAMPS_PERSISTED, Some(&[0]));
    }
    let nonempty = |v: &'_ [u8]| !v.is_empty();
    for (tag, value) in [
        (custom::MIN_TIMESTAMP, &f.min_timestamp),
        (custom::MAX_TIMESTAMP, &f.max_timestamp),
        (custom::FILE_OPEN_METADATA, &f.open_metadata),
    ] {
        if nonempty(value) {
            put_opt_bytes(out, tag, Some(value));
        }
    }
    put_varint32(out, custom::TERMINATE);
}

/// The three forms before NewFile4.
pub(super) fn take_old_file(d: &mut Decoder<'_>, form: u32, what: &'static str) -> Result<NewFile> {
    let mut f = NewFile {
        level: take_level(d, what)?,
        number: d.varint64(what)?,
        ..NewFile::default()
    };
    if form == tag::NEW_FILE3 {
        f.path_id = d.varint32(what)?;
        if f.path_id > MAX_PATH_ID {
            return Err(bad(what).with("path_id", f.path_id));
        }
    }
    f.size = d.varint64(what)?;
    f.smallest = take_internal_key(d, what)?;
    f.largest = take_internal_key(d, what)?;
    if form != tag::NEW_FILE {
        f.smallest_seqno = d.varint64(what)?;
        f.largest_seqno = d.varint64(what)?;
    }
    Ok(f)
}

/// A file and, if the file carries it, the edit's smallest log number to keep.
pub(super) fn take_new_file4(d: &mut Decoder<'_>) -> Result<(NewFile, Option<u64>)> {
    let what = "new-file4 entry";
    let mut f = NewFile {
        level: take_level(d, what)?,
        number: d.varint64(what)?,
        size: d.varint64(what)?,
        smallest: take_internal_key(d, what)?,
        largest: take_internal_key(d, what)?,
        smallest_seqno: d.varint64(what)?,
        largest_seqno: d.varint64(what)?,
        ..NewFile::default()
    };
    let mut min_log = None;
    loop {
        let tag = d.varint32("new-file4 custom field")?;
        if tag == custom::TERMINATE {
            return Ok((f, min_log));
        }
        let value = d.length_prefixed("new-file4 custom field")?;
        if tag == custom::MIN_LOG_NUMBER_TO_KEEP {
            let bytes =
                <[u8; 8]>::try_from(value).map_err(|_| bad("invalid min log number to keep"))?;
            min_log = Some(u64::from_le_bytes(bytes));
        } else {
            take_custom_field(&mut f, tag, value)?;
        }
    }
}

fn take_custom_field(f: &mut NewFile, tag: u32, value: &[u8]) -> Result<()> {
    let number = |what: &'static str| match get_varint64(value) {
        Some((v, _)) => Ok(v),
        None => Err(bad(what)),
    };
    let byte = |what: &'static str| match value {
        [b] => Ok(*b),
        _ => Err(bad(what)),
    };
    match tag {
        custom::NEED_COMPACTION => {
            f.marked_for_compaction = byte("need_compaction field wrong size")? == 1;
        }
        custom::OLDEST_BLOB_FILE_NUMBER => {
            f.oldest_blob_file_number = number("invalid oldest blob file number")?;
        }
        custom::OLDEST_ANCESTER_TIME => {
            f.oldest_ancester_time = number("invalid oldest ancester time")?;
        }
        custom::FILE_CREATION_TIME => {
            f.file_creation_time = number("invalid file creation time")?;
        }
        custom::FILE_CHECKSUM => f.file_checksum = value.to_vec(),
        custom::FILE_CHECKSUM_FUNC_NAME => f.file_checksum_func_name = value.to_vec(),
        custom::TEMPERATURE => f.temperature = byte("temperature field wrong size")?,
        custom::MIN_TIMESTAMP => f.min_timestamp = value.to_vec(),
        custom::MAX_TIMESTAMP => f.max_timestamp = value.to_vec(),
        custom::UNIQUE_ID => match value.split_first_chunk::<8>() {
            Some((low, high)) => {
                let high = <[u8; 8]>::try_from(high).map_err(|_| bad("invalid unique id"))?;
                f.unique_id = [u64::from_le_bytes(*low), u64::from_le_bytes(high)];
            }
            None => return Err(bad("invalid unique id")),
        },
        custom::EPOCH_NUMBER => f.epoch_number = number("invalid epoch number")?,
        custom::COMPENSATED_RANGE_DELETION_SIZE => {
            f.compensated_range_deletion_size = number("invalid compensated range deletion size")?;
        }
        custom::TAIL_SIZE => f.tail_size = number("invalid tail start offset")?,
        custom::TIMESTAMPS_PERSISTED => {
            let persisted = byte("user-defined timestamps persisted field wrong size")?;
            f.user_defined_timestamps_persisted = persisted == 1;
        }
        custom::FILE_OPEN_METADATA => f.open_metadata = value.to_vec(),
        custom::PATH_ID => {
            f.path_id = u32::from(byte("path_id field wrong size")?);
            if f.path_id > MAX_PATH_ID {
                return Err(bad("path_id wrong value").with("path_id", f.path_id));
            }
        }
        unknown if unknown & NOT_SKIPPABLE != 0 => {
            return Err(bad("new-file4 custom field not supported").with("tag", unknown));
        }
        _ => {}
    }
    Ok(())
}
