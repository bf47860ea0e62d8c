//! Reads logical records back from a log file, and names what is wrong with it.
//!
//! The reader pulls one block at a time and returns a stream of [`ReadEvent`]s. It knows no recovery
//! mode: whatever RocksDB 11.8 reports, in any mode, is an event, and those that only
//! `kAbsoluteConsistency` and `kPointInTimeRecovery` report carry `tail: true`. So
//!
//! | mode | an event with `tail` | an event without |
//! |---|---|---|
//! | tolerate corrupted tail (and MANIFEST) | skip | fail; end of log if [`LogReader::is_recycled`] and [`CorruptionKind::ends_recycled`] |
//! | absolute consistency | fail | fail |
//! | point in time | stop replaying | stop replaying |
//! | skip any | skip | skip |
//!
//! After a bad checksum or length nothing up to the next block is believed.
//!
//! Differences from RocksDB 11.8, each on the safe side: a record of an older log number ends the
//! log in every mode; a recyclable record after legacy ones is believed if its number is right
//! (11.8 never returns there); fragments on both sides of a foreign record are never joined.
//!
//! Invariants: B3, WAL2. Every call consumes bytes or ends, so a loop over events ends. Read errors are final.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation
)]

mod events;
mod resume;

pub use events::{CorruptionKind, ReadEvent};

use crate::compression::{Decompressor, ZSTD_TYPE};
use crate::record::{
    BLOCK_SIZE, FIRST, FULL, HEADER_SIZE, LAST, MIDDLE, PREDECESSOR_WAL_INFO, RECYCLABLE_FIRST,
    RECYCLABLE_FULL, RECYCLABLE_HEADER_SIZE, RECYCLABLE_LAST, RECYCLABLE_MIDDLE,
    RECYCLABLE_PREDECESSOR_WAL_INFO, RECYCLABLE_TIMESTAMP_SIZE, SAFE_TO_IGNORE,
    SET_COMPRESSION_TYPE, TIMESTAMP_SIZE, TYPE_OFFSET, ZERO, is_recyclable,
};
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::{Error, Result};

use spanlith_env::SequentialFile;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// One physical record, or why there is none.
enum Physical {
    Data {
        record_type: u8,
        payload: Range<usize>,
    },
    Eof,
    TruncatedHeader {
        dropped: usize,
    },
    Zero,
    BadLength {
        dropped: usize,
    },
    BadChecksum {
        dropped: usize,
    },
    Old,
}

/// Where the bytes of the last [`ReadEvent::Record`] are.
enum Current {
    None,
    Block(Range<usize>),
    Fragments,
}

/// Longest record of a MANIFEST.
const MANIFEST_RECORD_MAX: usize = 1 << 30;
/// Longest record of a compressed log, which may be far longer than the file.
pub const COMPRESSED_RECORD_MAX: usize = u32::MAX as usize;

/// Reads a write-ahead log or a MANIFEST.
pub struct LogReader {
    file: Box<dyn SequentialFile>,
    /// Low 32 bits, as in headers.
    log_number: u32,
    block: Box<[u8]>,
    /// Valid bytes of `block`.
    filled: usize,
    /// Bytes of `block` consumed.
    pos: usize,
    /// File offset of the first byte of `block`.
    block_start: u64,
    last_block: bool,
    done: bool,
    failed: Option<Error>,
    /// Fragments of the record being assembled, if `open`.
    fragments: Vec<u8>,
    open: bool,
    /// Offset of the first fragment.
    open_offset: u64,
    /// Says whether the bytes of `fragments` belong to a record already returned.
    returned: bool,
    current: Current,
    /// Second half of a finding that takes two events, and its `current`.
    pending: Option<(ReadEvent, Current)>,
    data_seen: bool,
    recycled: bool,
    skipped_at: Option<u64>,
    /// See [`Self::settings_end`].
    settings_end: u64,
    timestamped: BTreeSet<u32>,
    /// Set once the log said that its data is compressed.
    decompressor: Option<Decompressor>,
    /// Most bytes of a record.
    record_max: usize,
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogReader")
            .field("log_number", &self.log_number)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl LogReader {
    /// Reads `file` from its front. `log_number` is 0 for a MANIFEST.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "headers hold the low 32 bits"
    )]
    pub fn new(file: Box<dyn SequentialFile>, log_number: u64) -> Self {
        Self {
            file,
            log_number: log_number as u32,
            block: vec![0; BLOCK_SIZE].into_boxed_slice(),
            filled: 0,
            pos: 0,
            block_start: 0,
            last_block: false,
            done: false,
            failed: None,
            fragments: Vec::new(),
            open: false,
            open_offset: 0,
            returned: false,
            current: Current::None,
            pending: None,
            data_seen: false,
            recycled: false,
            skipped_at: None,
            settings_end: 0,
            timestamped: BTreeSet::new(),
            decompressor: None,
            record_max: match log_number {
                0 => MANIFEST_RECORD_MAX,
                _ => usize::MAX,
            },
        }
    }

    /// Takes no record of more than `bytes`.
    #[must_use]
    pub fn with_record_max(self, bytes: usize) -> Self {
        Self {
            record_max: bytes,
            ..self
        }
    }

    /// Reads up to the next event; a record's bytes replace the contents of `scratch`.
    ///
    /// # Errors
    /// As [`Self::next_event`].
    pub fn read(&mut self, scratch: &mut Vec<u8>) -> Result<ReadEvent> {
        let event = self.next_event()?;
        scratch.clear();
        if matches!(event, ReadEvent::Record { .. }) {
            scratch.extend_from_slice(self.record());
        }
        Ok(event)
    }

    /// The bytes of the record last returned; empty after any other event.
    pub fn record(&self) -> &[u8] {
        match &self.current {
            Current::None => &[],
            Current::Block(range) => self.block.get(range.clone()).unwrap_or_default(),
            Current::Fragments => &self.fragments,
        }
    }

    /// Returns whether the file was started as a recycled one.
    pub fn is_recycled(&self) -> bool {
        self.recycled
    }

    /// File offset of the first bytes that were passed over because they say they hold nothing: zeros
    /// up to the end of a block, which no event tells of.
    pub fn skipped_at(&self) -> Option<u64> {
        self.skipped_at
    }

    /// File offset after the last record that holds no data but says how to read them, or which log came
    /// before; 0 before the first.
    pub fn settings_end(&self) -> u64 {
        self.settings_end
    }

    /// File offset of the next byte to be looked at.
    pub fn position(&self) -> u64 {
        self.block_start + self.pos as u64
    }

    /// Reads up to the next event.
    ///
    /// # Errors
    /// Those of the file, which every later call repeats; `NotSupported` for a log whose data is
    /// compressed by a codec that RocksDB does not use for logs.
    pub fn next_event(&mut self) -> Result<ReadEvent> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if let Some((event, current)) = self.pending.take() {
            self.current = current;
            return Ok(event);
        }
        self.current = Current::None;
        if self.returned {
            self.returned = false;
            self.fragments.clear();
        }
        match self.advance() {
            Ok(event) => Ok(event),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<ReadEvent> {
        while !self.done {
            let offset = self.position();
            let (found, start) = self.physical()?;
            let start = start.unwrap_or(offset);
            let event = match found {
                Physical::Data {
                    record_type,
                    payload,
                } => self.data(record_type, payload, start)?,
                other => self.unusable(other, start),
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
        Ok(ReadEvent::Eof)
    }

    /// Takes in a sound physical record.
    fn data(
        &mut self,
        record_type: u8,
        payload: Range<usize>,
        offset: u64,
    ) -> Result<Option<ReadEvent>> {
        let len = payload.len() as u64;
        let report = |kind| {
            // WAL2: a record is handed out whole or not at all.
            Some(ReadEvent::Corruption {
                offset,
                dropped: len,
                kind,
                tail: false,
            })
        };
        Ok(match record_type {
            FULL | RECYCLABLE_FULL => {
                let broken = self.drop_open(CorruptionKind::PartialBeforeFull);
                self.data_seen = true;
                if self.decompressor.is_some() {
                    self.restart_frame();
                    if self.append(payload) != Some(true) {
                        let event = report(self.why_not_appended());
                        self.fragments.clear();
                        return Ok(event.and_then(|event| self.both(broken, event)));
                    }
                    self.returned = true;
                    self.current = Current::Fragments;
                } else {
                    self.current = Current::Block(payload);
                }
                let record = ReadEvent::Record {
                    offset,
                    end: self.position(),
                };
                self.both(broken, record)
            }
            FIRST | RECYCLABLE_FIRST => {
                let broken = self.drop_open(CorruptionKind::PartialBeforeFirst);
                self.open = true;
                self.open_offset = offset;
                self.restart_frame();
                if self.append(payload).is_none() {
                    let event = report(self.why_not_appended());
                    self.close_open();
                    return Ok(event.and_then(|event| self.both(broken, event)));
                }
                broken
            }
            MIDDLE | RECYCLABLE_MIDDLE if !self.open => report(CorruptionKind::MiddleWithoutFirst),
            MIDDLE | RECYCLABLE_MIDDLE => match self.append(payload) {
                Some(_) => None,
                None => {
                    let event = report(self.why_not_appended());
                    self.close_open();
                    event
                }
            },
            LAST | RECYCLABLE_LAST if !self.open => report(CorruptionKind::LastWithoutFirst),
            LAST | RECYCLABLE_LAST => {
                if self.append(payload) != Some(true) {
                    let event = report(self.why_not_appended());
                    self.close_open();
                    return Ok(event);
                }
                self.open = false;
                self.returned = true;
                self.data_seen = true;
                self.current = Current::Fragments;
                Some(ReadEvent::Record {
                    offset: self.open_offset,
                    end: self.position(),
                })
            }
            SET_COMPRESSION_TYPE => match self.fixed32(payload.start, payload.end) {
                None => report(CorruptionKind::BadCompressionRecord),
                Some(_) if self.data_seen || self.open => {
                    report(CorruptionKind::CompressionNotFirst)
                }
                Some(_) if self.decompressor.is_some() => report(CorruptionKind::CompressionTwice),
                Some(ZSTD_TYPE) => {
                    self.decompressor = Some(Decompressor::new()?);
                    self.record_max = self.record_max.min(COMPRESSED_RECORD_MAX);
                    self.settings_end = self.position();
                    None
                }
                Some(0) => {
                    self.settings_end = self.position();
                    None
                }
                Some(kind) => {
                    return Err(Error::not_supported("wal_compression other than ZSTD")
                        .with_offset(offset)
                        .with("type", kind));
                }
            },
            TIMESTAMP_SIZE | RECYCLABLE_TIMESTAMP_SIZE => {
                let broken = self.drop_open(CorruptionKind::TimestampSizesInside);
                let event = match self.timestamp_sizes(payload) {
                    Ok(sizes) => {
                        self.settings_end = self.position();
                        ReadEvent::TimestampSizes(sizes)
                    }
                    Err(kind) => ReadEvent::Corruption {
                        offset,
                        dropped: len,
                        kind,
                        tail: false,
                    },
                };
                self.both(broken, event)
            }
            PREDECESSOR_WAL_INFO | RECYCLABLE_PREDECESSOR_WAL_INFO => {
                match self.predecessor(payload) {
                    None => report(CorruptionKind::BadPredecessor),
                    told => {
                        self.settings_end = self.position();
                        told
                    }
                }
            }
            unknown if unknown & SAFE_TO_IGNORE != 0 => {
                self.drop_open(CorruptionKind::ErrorInMiddle)
            }
            unknown => {
                let dropped = len + self.fragments.len() as u64;
                self.close_open();
                let kind = CorruptionKind::UnknownType(unknown);
                Some(ReadEvent::Corruption {
                    offset,
                    dropped,
                    kind,
                    tail: false,
                })
            }
        })
    }

    /// Reacts to anything that is not a sound record.
    fn unusable(&mut self, found: Physical, offset: u64) -> Option<ReadEvent> {
        let report = |dropped: usize, kind, tail| {
            let dropped = dropped as u64;
            Some(ReadEvent::Corruption {
                offset,
                dropped,
                kind,
                tail,
            })
        };
        match found {
            Physical::Data { .. } => None,
            Physical::Eof => {
                self.done = true;
                self.open_at_end(CorruptionKind::OpenAtEnd)
            }
            Physical::TruncatedHeader { dropped } => {
                self.done = true;
                self.pending = self
                    .open_at_end(CorruptionKind::OpenAtEnd)
                    .map(|e| (e, Current::None));
                report(dropped, CorruptionKind::TruncatedHeader, true)
            }
            Physical::Zero => {
                // As many zeros as the longer header has bytes, less one, fill a block of a recycled log.
                if self.position() - offset >= RECYCLABLE_HEADER_SIZE as u64 {
                    self.skipped_at.get_or_insert(offset);
                }
                self.drop_open(CorruptionKind::ErrorInMiddle)
            }
            Physical::BadLength { dropped } if self.last_block => {
                self.done = true;
                self.close_open();
                report(dropped, CorruptionKind::TruncatedBody, true)
            }
            Physical::BadLength { dropped } => {
                self.pending = self
                    .drop_open(CorruptionKind::ErrorInMiddle)
                    .map(|e| (e, Current::None));
                report(dropped, CorruptionKind::BadLength, false)
            }
            Physical::BadChecksum { dropped } => {
                self.pending = self
                    .drop_open(CorruptionKind::ErrorInMiddle)
                    .map(|e| (e, Current::None));
                report(dropped, CorruptionKind::ChecksumMismatch, false)
            }
            Physical::Old => {
                self.done = true;
                if self.open {
                    let broken = self.open_at_end(CorruptionKind::OpenAtOldRecord);
                    self.both(broken, ReadEvent::OldRecord { offset })
                } else {
                    Some(ReadEvent::OldRecord { offset })
                }
            }
        }
    }

    /// `first`, then `second` with the next call; or `second` alone.
    fn both(&mut self, first: Option<ReadEvent>, second: ReadEvent) -> Option<ReadEvent> {
        match first {
            None => Some(second),
            first => {
                self.pending = Some((second, std::mem::replace(&mut self.current, Current::None)));
                first
            }
        }
    }

    /// Adds a fragment, decompressed, to the record being assembled. Says whether a record may end
    /// here; `None` for what does not decompress.
    fn append(&mut self, payload: Range<usize>) -> Option<bool> {
        let bytes = self.block.get(payload).unwrap_or_default();
        let most = self.record_max;
        match &mut self.decompressor {
            None => {
                self.fragments.extend_from_slice(bytes);
                (self.fragments.len() <= most).then_some(true)
            }
            Some(decompressor) => decompressor.fragment(bytes, &mut self.fragments, most),
        }
    }

    /// Why a fragment could not be added.
    fn why_not_appended(&self) -> CorruptionKind {
        match self.fragments.len() > self.record_max {
            true => CorruptionKind::TooLarge,
            false => CorruptionKind::BadCompressedData,
        }
    }

    fn restart_frame(&mut self) {
        if let Some(decompressor) = &mut self.decompressor {
            decompressor.reset();
        }
    }

    fn close_open(&mut self) {
        self.open = false;
        self.fragments.clear();
    }

    /// Drops open fragments. Silent if they are empty: old writers could leave an empty first
    /// fragment at the end of a block.
    fn drop_open(&mut self, kind: CorruptionKind) -> Option<ReadEvent> {
        let dropped = self.fragments.len() as u64;
        let worth_it = self.open && (dropped > 0 || kind == CorruptionKind::ErrorInMiddle);
        self.close_open();
        worth_it.then_some(ReadEvent::Corruption {
            offset: self.open_offset,
            dropped,
            kind,
            tail: false,
        })
    }

    /// Drops open fragments because the log ends.
    fn open_at_end(&mut self, kind: CorruptionKind) -> Option<ReadEvent> {
        let dropped = self.fragments.len() as u64;
        let open = self.open;
        self.close_open();
        open.then_some(ReadEvent::Corruption {
            offset: self.open_offset,
            dropped,
            kind,
            tail: true,
        })
    }

    fn fixed32(&self, start: usize, end: usize) -> Option<u32> {
        get_fixed32(self.block.get(start..end)?, 0)
    }

    fn timestamp_sizes(
        &mut self,
        payload: Range<usize>,
    ) -> Result<Vec<(u32, u16)>, CorruptionKind> {
        let bytes = self.block.get(payload).unwrap_or_default();
        let (entries, rest) = bytes.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(CorruptionKind::BadTimestampSizes);
        }
        let mut sizes = Vec::with_capacity(entries.len());
        for &[a, b, c, d, e, f] in entries {
            let (cf, size) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
            if size == 0 {
                return Err(CorruptionKind::ZeroTimestampSize);
            }
            if !self.timestamped.insert(cf) {
                return Err(CorruptionKind::RepeatedTimestampSize);
            }
            sizes.push((cf, size));
        }
        Ok(sizes)
    }

    fn predecessor(&self, payload: Range<usize>) -> Option<ReadEvent> {
        let bytes = self.block.get(payload)?;
        Some(ReadEvent::Predecessor {
            log_number: get_fixed64(bytes, 0)?,
            size: get_fixed64(bytes, 8)?,
            last_sequence: get_fixed64(bytes, 16)?,
        })
    }

    /// The next physical record, and its file offset unless that is where the caller stood.
    fn physical(&mut self) -> Result<(Physical, Option<u64>)> {
        let mut start = None;
        loop {
            let rest = self.block.get(self.pos..self.filled).unwrap_or_default();
            let left = rest.len();
            let header = rest.first_chunk::<HEADER_SIZE>();
            let recyclable = header.is_some_and(|h| is_recyclable(h[TYPE_OFFSET]));
            let header_size = if recyclable {
                RECYCLABLE_HEADER_SIZE
            } else {
                HEADER_SIZE
            };
            let Some(&[c0, c1, c2, c3, l0, l1, record_type]) =
                header.filter(|_| left >= header_size)
            else {
                if self.last_block {
                    self.pos = self.filled;
                    let found = match left {
                        0 => Physical::Eof,
                        dropped => Physical::TruncatedHeader { dropped },
                    };
                    return Ok((found, start));
                }
                // The rest is a trailer.
                self.fill()?;
                start = Some(self.position());
                continue;
            };
            if recyclable && !self.data_seen {
                self.recycled = true;
            }
            let size = header_size + usize::from(u16::from_le_bytes([l0, l1]));
            let Some(record) = rest.get(..size) else {
                self.pos = self.filled;
                return Ok((Physical::BadLength { dropped: left }, start));
            };
            if recyclable && get_fixed32(record, HEADER_SIZE) != Some(self.log_number) {
                return Ok((Physical::Old, start));
            }
            if record_type == ZERO && size == HEADER_SIZE {
                self.pos = self.filled;
                return Ok((Physical::Zero, start));
            }
            let actual = mask(crc32c(record.get(TYPE_OFFSET..).unwrap_or_default()));
            if actual != u32::from_le_bytes([c0, c1, c2, c3]) {
                self.pos = self.filled;
                return Ok((Physical::BadChecksum { dropped: left }, start));
            }
            let payload = self.pos + header_size..self.pos + size;
            self.pos = payload.end;
            return Ok((
                Physical::Data {
                    record_type,
                    payload,
                },
                start,
            ));
        }
    }

    /// Replaces the block by the next one; a short one is the last.
    fn fill(&mut self) -> Result<()> {
        self.block_start += self.filled as u64;
        self.pos = 0;
        self.filled = 0;
        while let Some(room) = self.block.get_mut(self.filled..)
            && !room.is_empty()
        {
            let room_len = room.len();
            let n = self.file.read(room)?.min(room_len);
            if n == 0 {
                self.last_block = true;
                break;
            }
            self.filled += n;
        }
        Ok(())
    }
}
