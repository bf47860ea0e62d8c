//! Notes of ours in a log: what was durable when, and what came before.
//!
//! A note is a batch of no updates whose only content is log data, which RocksDB skips
//! (`docs/formats/evidence.md`):
//!
//! ```text
//!   mark     8 bytes  "spanlith"
//!   checksum fixed32  CRC-32C of the database id, for witnesses the place, and what follows
//!   kind     1 byte   1 opening, 2 witness, 3 closing, 5 a section that is repeated
//!   body
//! ```
//!
//! - The *opening record* names the log before. Logs that were not synced survive a power loss
//!   independently of each other: if the bytes of an older one are gone and those of a newer one are
//!   not, replaying the newer one would leave a hole (D3), and nothing in RocksDB's format tells.
//! - A *witness* says how much of its own log, and of the MANIFEST, was durable when it was built. What
//!   fails below was not torn by a power loss but damaged (D9). It is valid only where it was written:
//!   log number and offset go into its checksum, so that the image of a log inside a value proves
//!   nothing.
//! - The *closing record* is the witness that a clean close syncs.
//! - The mark of a *repeated section* follows a prepared section in its batch: it was written before, to a log that failed
//!   since, where it may be decided already.
//!
//! The checksum keeps notes of users, and logs copied from elsewhere, from being mistaken for ours.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use spanlith_base::checksum::{crc32c, crc32c_append};
use spanlith_base::coding::{Decoder, get_fixed32, get_fixed64};
use spanlith_base::coding::{put_fixed32, put_fixed64, put_varint64};
use spanlith_base::{FileNumber, Result, SequenceNumber};
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, WriteBatch};

/// Says what the log data of a note begins with.
pub(crate) const MARK: &[u8; 8] = b"spanlith";
/// Where the mark stands in the record of a note: after the batch header, the tag and the length.
pub(crate) const MARK_AT: usize = BATCH_HEADER_SIZE + 2;

const OPENING: u8 = 1;
const WITNESS: u8 = 2;
const CLOSING: u8 = 3;
const REPEATED: u8 = 5;
const BODY_AT: usize = 12;
const OPENING_LEN: usize = 1 + 24;

/// Bytes of a record with a witness, at most: batch header, tag, length, mark, checksum, kind, three
/// numbers.
pub(crate) const WITNESS_MAX: usize = BATCH_HEADER_SIZE + 2 + BODY_AT + 1 + 30;

/// Where a note stands: of which database, in which log, at which offset its record begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotePlace<'a> {
    pub db_id: &'a str,
    pub log: FileNumber,
    pub offset: u64,
}

/// Describes what a log knows of its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Number of the log before.
    pub number: FileNumber,
    /// Its bytes, all appended when this log began.
    pub size: u64,
    /// Last sequence number given out.
    pub sequence: SequenceNumber,
}

/// How much of a MANIFEST is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManifestExtent {
    /// Its number; CURRENT names it.
    pub number: FileNumber,
    /// Its durable bytes.
    pub size: u64,
}

/// Describes what was durable when a note was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    /// Durable bytes of the log that the note stands in.
    pub durable: u64,
    /// The MANIFEST, unless an earlier witness of the log said the same.
    pub manifest: Option<ManifestExtent>,
}

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Opening(Opening),
    /// A witness, or the closing record.
    Witness(Witness),
}

impl Opening {
    /// A batch of no updates that carries the record.
    pub(crate) fn to_batch(self, db_id: &str) -> Result<WriteBatch> {
        let mut body = vec![OPENING];
        put_fixed64(&mut body, self.number);
        put_fixed64(&mut body, self.size);
        put_fixed64(&mut body, self.sequence);
        let seed = crc32c(db_id.as_bytes());
        note_batch(seed, &body, self.sequence + 1)
    }
}

impl Witness {
    /// A batch of no updates that carries the witness at its place, after sequence number `sequence`.
    pub(crate) fn to_batch(
        self,
        place: &NotePlace<'_>,
        sequence: SequenceNumber,
        is_closing: bool,
    ) -> Result<WriteBatch> {
        let mut body = vec![if is_closing { CLOSING } else { WITNESS }];
        put_varint64(&mut body, place.offset.saturating_sub(self.durable));
        if let Some(manifest) = self.manifest {
            put_varint64(&mut body, manifest.number);
            put_varint64(&mut body, manifest.size);
        }
        note_batch(place_seed(place), &body, sequence + 1)
    }
}

/// The log data that follows a prepared section which was written before.
pub(crate) fn repeated_mark(db_id: &str) -> Vec<u8> {
    note_blob(crc32c(db_id.as_bytes()), &[REPEATED])
}

fn note_blob(seed: u32, body: &[u8]) -> Vec<u8> {
    let mut blob = MARK.to_vec();
    put_fixed32(&mut blob, crc32c_append(seed, body));
    blob.extend_from_slice(body);
    blob
}

fn note_batch(seed: u32, body: &[u8], sequence: SequenceNumber) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    batch.put_log_data(&note_blob(seed, body))?;
    batch.set_sequence(sequence);
    Ok(batch)
}

fn place_seed(place: &NotePlace<'_>) -> u32 {
    let seed = crc32c_append(crc32c(place.db_id.as_bytes()), &place.log.to_le_bytes());
    crc32c_append(seed, &place.offset.to_le_bytes())
}

/// The log data of a batch that may be a note: the mark stands in it, and nothing beside it.
fn blob_of(rep: &[u8]) -> Option<&[u8]> {
    // A look at the mark first: most batches are no notes.
    if !rep.get(MARK_AT..)?.starts_with(MARK) {
        return None;
    }
    let mut iter = BatchIter::new(rep).ok()?;
    let Some(Ok(BatchOp::LogData { blob })) = iter.next() else {
        return None;
    };
    iter.next().is_none().then_some(blob)
}

impl Note {
    /// The note that the batch `rep` is, if it is one of this database, at this place.
    pub(crate) fn of_batch(rep: &[u8], place: &NotePlace<'_>) -> Option<Self> {
        Self::parse(blob_of(rep)?, place)
    }

    /// Returns whether a batch is the opening record of a log, but of another database's. The record of the log
    /// has a checksum of its own, so that damage does not look so.
    pub(crate) fn opens_another(rep: &[u8], db_id: &str) -> bool {
        let body = blob_of(rep).and_then(|blob| blob.get(BODY_AT..));
        let is_opening =
            body.is_some_and(|b| b.len() == OPENING_LEN && b.first() == Some(&OPENING));
        let place = NotePlace {
            db_id,
            log: 0,
            offset: 0,
        };
        is_opening && Self::of_batch(rep, &place).is_none()
    }

    /// Returns whether a batch is built like a note, of whatever database and place.
    pub(crate) fn looks_like(rep: &[u8]) -> bool {
        blob_of(rep).is_some()
    }

    /// The note in log data.
    fn parse(blob: &[u8], place: &NotePlace<'_>) -> Option<Self> {
        let rest = blob.strip_prefix(MARK)?;
        let sum = get_fixed32(rest, 0)?;
        let body = blob.get(BODY_AT..)?;
        let (&kind, fields) = body.split_first()?;
        match kind {
            OPENING => {
                let expected = crc32c_append(crc32c(place.db_id.as_bytes()), body);
                (sum == expected && body.len() == OPENING_LEN).then_some(())?;
                Some(Self::Opening(Opening {
                    number: get_fixed64(fields, 0)?,
                    size: get_fixed64(fields, 8)?,
                    sequence: get_fixed64(fields, 16)?,
                }))
            }
            WITNESS | CLOSING => {
                (sum == crc32c_append(place_seed(place), body)).then_some(())?;
                let mut d = Decoder::new(fields, "witness");
                let distance = d.varint64("distance").ok()?;
                let durable = place.offset.checked_sub(distance)?;
                let manifest = match d.is_empty() {
                    true => None,
                    false => Some(ManifestExtent {
                        number: d.varint64("MANIFEST number").ok()?,
                        size: d.varint64("MANIFEST size").ok()?,
                    }),
                };
                d.is_empty()
                    .then_some(Self::Witness(Witness { durable, manifest }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: NotePlace<'_> = NotePlace {
        db_id: "id",
        log: 12,
        offset: 40_000,
    };

    fn opening() -> Opening {
        Opening {
            number: 7,
            size: 1 << 40,
            sequence: 99,
        }
    }

    fn witness(manifest: bool) -> Witness {
        Witness {
            durable: 39_000,
            manifest: manifest.then_some(ManifestExtent {
                number: 5,
                size: 4711,
            }),
        }
    }

    #[test]
    fn only_a_whole_note_of_this_database_at_its_place_is_recognised() {
        let batches = [
            (Note::Opening(opening()), opening().to_batch("id").unwrap()),
            (
                Note::Witness(witness(true)),
                witness(true).to_batch(&PLACE, 99, false).unwrap(),
            ),
            (
                Note::Witness(witness(false)),
                witness(false).to_batch(&PLACE, 99, true).unwrap(),
            ),
        ];
        for (note, batch) in batches {
            let rep = batch.as_bytes();
            assert_eq!((batch.sequence(), batch.count()), (100, 0));
            assert!(rep.len() <= WITNESS_MAX);
            assert_eq!(Note::of_batch(rep, &PLACE), Some(note));
            let other = NotePlace {
                db_id: "other",
                ..PLACE
            };
            assert_eq!(Note::of_batch(rep, &other), None);
            for cut in 0..rep.len() {
                assert_eq!(Note::of_batch(&rep[..cut], &PLACE), None);
            }
            for at in BATCH_HEADER_SIZE..rep.len() {
                let mut changed = rep.to_vec();
                changed[at] ^= 1;
                assert_eq!(Note::of_batch(&changed, &PLACE), None, "byte {at}");
            }
        }
    }

    #[test]
    fn a_witness_means_nothing_at_another_place() {
        let batch = witness(true).to_batch(&PLACE, 99, false).unwrap();
        for (log, offset) in [(13, 40_000), (12, 40_001), (12, 0)] {
            let place = NotePlace {
                log,
                offset,
                ..PLACE
            };
            assert_eq!(Note::of_batch(batch.as_bytes(), &place), None);
        }
    }

    #[test]
    fn a_note_of_a_user_is_none_of_ours() {
        let mut batch = WriteBatch::new();
        batch.put_log_data(b"a user's note").unwrap();
        assert_eq!(Note::of_batch(batch.as_bytes(), &PLACE), None);
        let mut batch = opening().to_batch("id").unwrap();
        batch.put(b"k", b"v").unwrap();
        assert_eq!(Note::of_batch(batch.as_bytes(), &PLACE), None, "not alone");
    }
}
