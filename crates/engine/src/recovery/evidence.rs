//! How damage is told from a torn tail.
//!
//! Both look alike where reading fails. The difference is whether the bytes had been durable, and that
//! is written down: by witnesses in the log, by ends of logs and marks in the MANIFEST
//! (`docs/formats/evidence.md`). What the evidence proves durable and cannot be read any more was
//! damaged. About everything else it says nothing, and the recovery mode decides alone.
//!
//! Behind a failing record the rest of the file is searched. What is found there is counted and may
//! prove, but is never replayed. A witness counts with our mark, the identity of the database, the
//! number of its log and its own place in the file; so the image of a log inside a value proves
//! nothing, wherever it comes from.

use super::current::read_current;
use super::repeats::find_twin;
use crate::core::{Components, LogSet, MARK, MARK_AT, ManifestExtent, Note, NotePlace};
use crate::version::{VersionEdit, filenames};
use spanlith_base::coding::get_fixed64;
use spanlith_base::{Error, FileNumber, Result, SequenceNumber};
use spanlith_env::Env;
use spanlith_wal::record::{LAST, TYPE_OFFSET};
use spanlith_wal::{LogReader, ReadEvent, Search, is_whole_but_for_length, search_records};
use std::collections::BTreeMap;
use std::path::Path;

/// Records after a failure that are looked for in front of it.
const TWINS_MAX: usize = 4;

/// Longest rest of a file that may be a record with a changed length.
const RECORD_MAX: u64 = 32 << 10;

/// Describes what the MANIFEST tells about logs, and about itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Judge by evidence at all.
    pub is_used: bool,
    /// Damage to synced bytes ends the open.
    pub refuses: bool,
    /// The MANIFEST is ours and names the database: opening records can be told from those of others.
    pub names_database: bool,
    /// Logs that will not grow, and how many bytes of them were synced.
    pub ends: BTreeMap<FileNumber, u64>,
    /// Logs that a recovery cut, and where.
    pub cuts: BTreeMap<FileNumber, u64>,
    /// The oldest log that recovery needs, which was there when the MANIFEST said so.
    pub oldest_log: Option<FileNumber>,
    /// The MANIFEST, as far as it was read.
    pub manifest: ManifestExtent,
}

impl Known {
    /// Reports a MANIFEST that has lost what a witness says was durable.
    ///
    /// # Errors
    /// `Corruption` that says so.
    pub(super) fn check_manifest(&self, witnessed: ManifestExtent) -> Result<()> {
        let read = self.manifest;
        if witnessed.number > read.number {
            return Err(Error::corruption(format!(
                "CURRENT names MANIFEST {:06}, but the log says that MANIFEST {:06} had become \
                 current",
                read.number, witnessed.number
            )));
        }
        if witnessed.number == read.number && witnessed.size > read.size {
            return Err(Error::corruption(format!(
                "MANIFEST {:06} ends after {} bytes, but the log says that {} bytes of it had been \
                 synced: it was damaged or cut since",
                read.number, read.size, witnessed.size
            )));
        }
        Ok(())
    }
}

impl Known {
    /// Reports a MANIFEST that asks for a log which is gone although a later one is there: logs go only
    /// after an edit said so that this MANIFEST does not have. `logs` are those that recovery needs, in `dir`. A
    /// directory without any log is a copy that was made without them.
    ///
    /// # Errors
    /// `Corruption` that names the log.
    pub(super) fn check_oldest_log(
        &self,
        c: &Components,
        dir: &LogSet,
        logs: &[FileNumber],
    ) -> Result<()> {
        let Some(oldest) = self.oldest_log.filter(|n| !logs.contains(n)) else {
            return Ok(());
        };
        let later = logs.iter().find(|&&n| n > oldest);
        let (Some(later), true, true) = (later, self.is_used, self.refuses) else {
            return Ok(());
        };
        if self.has_moved_on(c) {
            return Ok(());
        }
        let manifest = self.manifest.number;
        Err(Error::corruption(format!(
            "log {oldest:06} is gone, which MANIFEST {manifest:06} says recovery needs, and log \
             {later:06} is there: the MANIFEST has lost its last records, or the log was taken away"
        ))
        .with_path(&dir.path(oldest)))
    }

    /// Returns whether another process has written the MANIFEST, or another one, since it was read: a database
    /// that is opened for reading may be open for writing elsewhere, and what was read is only older.
    pub(super) fn has_moved_on(&self, c: &Components) -> bool {
        if !c.read_only {
            return false;
        }
        let (env, read) = (&c.env, self.manifest);
        let path = c.dir.join(filenames::manifest_file_name(read.number));
        let is_current = read_current(env, &c.dir).is_ok_and(|number| number == read.number);
        !is_current || whole_len(env, &path).is_ok_and(|len| len > read.size)
    }
}

/// Where the last record of a MANIFEST ends that can be read from its front.
fn whole_len(env: &Env, path: &Path) -> Result<u64> {
    let mut reader = LogReader::new(env.fs.open_sequential(path)?, 0);
    let mut len = 0;
    while let ReadEvent::Record { end, .. } = reader.next_event()? {
        len = end;
    }
    Ok(len)
}

/// A part of a log that is not replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Number of the log.
    pub log: FileNumber,
    /// Offset of its first byte.
    pub offset: u64,
    /// Its bytes, or 0 if the log may hold an older one there.
    pub bytes: u64,
    /// Records found in it, at least.
    pub records: u64,
    /// It reaches to the end of the log.
    pub is_tail: bool,
    /// Why.
    pub why: String,
}

/// Describes what is known of one log while it is read.
pub(crate) struct LogJudge<'a> {
    place: NotePlace<'a>,
    /// Bytes that had been durable.
    proven: u64,
    /// Reading has failed before.
    has_failed: bool,
    /// Records after the failure.
    records: u64,
    /// Says what witnesses after the failure say of the MANIFEST.
    manifest: Option<ManifestExtent>,
}

/// Describes what was found where reading fails.
pub(crate) struct Finding {
    /// The bytes that fail had been durable, as so many of the log.
    pub proven: Option<u64>,
    /// A record in front of the failure that was read from the wrong place, and its own place.
    pub twin: Option<(u64, u64)>,
}

impl Finding {
    const NOTHING: Self = Self {
        proven: None,
        twin: None,
    };

    /// Returns what proves damage, if anything does.
    pub(crate) fn proof(&self) -> Option<String> {
        match (self.proven, self.twin) {
            (Some(proven), _) => Some(synced_bytes(proven)),
            (None, Some((read, own))) => Some(format!(
                "the record at {read} belongs at {own}, where it stands once more"
            )),
            (None, None) => None,
        }
    }
}

/// The proof that so many bytes of a log had been durable.
pub(super) fn synced_bytes(proven: u64) -> String {
    format!("{proven} bytes of it had been synced")
}

impl<'a> LogJudge<'a> {
    /// Begins with a log of which `synced` bytes are known to have been durable.
    pub(crate) fn new(db_id: &'a str, log: FileNumber, synced: u64) -> Self {
        Self {
            place: NotePlace {
                db_id,
                log,
                offset: 0,
            },
            proven: synced,
            has_failed: false,
            records: 0,
            manifest: None,
        }
    }

    /// The note that the record at `offset` is, if it is one of ours.
    pub(crate) fn note(&mut self, record: &[u8], offset: u64) -> Option<Note> {
        let place = NotePlace {
            offset,
            ..self.place
        };
        let note = Note::of_batch(record, &place);
        if let Some(Note::Witness(witness)) = note {
            self.proven = self.proven.max(witness.durable);
        }
        note
    }

    /// Number of the log.
    pub(crate) fn log(&self) -> FileNumber {
        self.place.log
    }

    /// Returns what witnesses after the place where reading failed say of the MANIFEST.
    pub(crate) fn manifest(&self) -> Option<ManifestExtent> {
        self.manifest
    }

    /// Records known to lie after the place where reading failed first.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Reading ends, at `offset`, which may be that of the end of the file.
    pub(crate) fn end(&self, offset: u64) -> Finding {
        Finding {
            proven: (self.proven > offset && !self.has_failed).then_some(self.proven),
            twin: None,
        }
    }

    /// Reading fails, or stops, at `offset`: looks what is there and after it. Only the first failure
    /// of a log is looked at.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn fail(
        &mut self,
        env: &Env,
        path: &Path,
        (offset, recycled): (u64, bool),
        from_sequence: SequenceNumber,
    ) -> Result<Finding> {
        if self.has_failed {
            return Ok(Finding::NOTHING);
        }
        let file = env.fs.open_random(path)?;
        let search = Search {
            from: offset,
            until: u64::MAX,
            log_number: self.place.log,
            recycled,
            mark: Some((MARK, MARK_AT)),
        };
        let (mut proven, mut manifest, place) = (self.proven, self.manifest, self.place);
        let mut replayed = Vec::new();
        let mut visit = |offset: u64, payload: &[u8]| {
            let note = Note::of_batch(payload, &NotePlace { offset, ..place });
            let sequence = get_fixed64(payload, 0);
            let follows = sequence.is_some_and(|s| s >= from_sequence);
            if sequence.is_some() && !follows && replayed.len() < TWINS_MAX {
                replayed.push(offset);
            }
            if let Some(Note::Witness(witness)) = note.filter(|_| follows) {
                proven = proven.max(witness.durable);
                manifest = manifest.max(witness.manifest);
            }
        };
        self.records = search_records(&*file, &search, &mut visit)?;
        (self.proven, self.manifest) = (proven, manifest);
        let mut finding = self.end(offset);
        self.has_failed = true;
        if finding.proven.is_none() {
            for own in replayed {
                if let Some(read) = find_twin(&*file, own, offset)? {
                    finding.twin = Some((read, own));
                    break;
                }
            }
        }
        Ok(finding)
    }
}

/// Describes what a MANIFEST that cannot be read beyond some point was.
pub(crate) struct ManifestFinding {
    /// It was longer, or whole.
    pub is_damaged: bool,
    /// Bytes of it that had been durable.
    pub proven: u64,
}

/// Judges a MANIFEST that ends, or fails, at `offset`; its records up to there say that `mark` bytes
/// were durable, or nothing.
///
/// # Errors
/// Those of the file.
pub(crate) fn of_manifest(
    env: &Env,
    path: &Path,
    offset: u64,
    mark: Option<u64>,
) -> Result<ManifestFinding> {
    let file = env.fs.open_random(path)?;
    let size = file.size();
    let mut marked = mark;
    if size > offset {
        let search = Search {
            from: offset + 1,
            until: u64::MAX,
            log_number: 0,
            recycled: false,
            mark: None,
        };
        let mut visit = |at: u64, payload: &[u8]| {
            let edit = VersionEdit::decode(payload).ok();
            let mark = edit.and_then(|e| e.manifest_mark);
            marked = marked.max(mark.filter(|&mark| mark <= at));
        };
        search_records(&*file, &search, &mut visit)?;
    }
    let proven = marked.unwrap_or(0);
    if marked.is_none() || proven > offset || size <= offset || size - offset > RECORD_MAX {
        return Ok(ManifestFinding {
            is_damaged: proven > offset,
            proven,
        });
    }
    // The last record, whole but for its length or its type? A torn one lacks bytes, or they are zero.
    let mut rest = vec![0; usize::try_from(size - offset).unwrap_or(0)];
    let n = file.read_at(offset, &mut rest)?;
    rest.truncate(n);
    Ok(ManifestFinding {
        is_damaged: is_whole_but_for_length(&rest)
            || rest.get(TYPE_OFFSET).is_some_and(|&t| t > LAST),
        proven: size,
    })
}
