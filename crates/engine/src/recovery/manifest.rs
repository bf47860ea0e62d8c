//! Replays a MANIFEST into a version.
//!
//! A torn last record is ignored; every other damage is `Corruption` (`docs/formats/manifest.md`).
//! Torn is also a record whose end was never written, although the file has its full length: RocksDB
//! refuses to open that, because the zeros it finds there do not fit the checksum.
//! What looks torn although a mark, here or further on, says that it was durable is damage
//! ([`super::evidence`]).

use super::best_efforts::PointInTime;
use super::evidence;
use super::timestamps;
use crate::core::{Family, FamilyRequest, PurgeQueue, family_paths};
use crate::options::STATS_FAMILY;
use crate::version::{
    PurgeSink, TableIo, TableIoOptions, Version, VersionBuilder, VersionEdit, filenames,
};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_base::{Error, MAX_SEQUENCE, Result};
use spanlith_env::Env;
use spanlith_wal::record::HEADER_SIZE;
use spanlith_wal::{LogReader, ReadEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Describes what a MANIFEST says of a family that is opened.
pub(super) struct RecoveredFamily {
    pub id: u32,
    pub request: FamilyRequest,
    pub version: Version,
    /// Where the files of `version` report.
    pub sink: Arc<dyn PurgeSink>,
    pub log_number: u64,
    /// Tables that an edit of this MANIFEST removed, and blob files that one named: explained if they
    /// are still there and not part of `version`.
    pub deleted: BTreeSet<u64>,
}

/// Describes what a MANIFEST says.
pub(super) struct Recovered {
    /// By ascending id.
    pub families: Vec<RecoveredFamily>,
    /// Requested, but not there.
    pub missing: Vec<FamilyRequest>,
    pub max_family: u32,
    pub db_id: Option<String>,
    pub min_log_number: u64,
    pub next_file: u64,
    pub last_sequence: u64,
    /// Tracked logs and how many bytes of them were synced.
    pub tracked_logs: BTreeMap<u64, Option<u64>>,
    /// Families that open with less than the MANIFEST says (`best_efforts_recovery`).
    pub curtailed: Vec<String>,
    /// Where a torn append was dropped.
    pub torn_at: Option<u64>,
    /// Size of the MANIFEST if it ends with a whole record that needs no other: then it can be
    /// continued.
    pub whole_len: Option<u64>,
    /// Bytes of the snapshot that it begins with; 0 if it does not say.
    pub compact_size: u64,
    /// Bytes of the MANIFEST that were read and replayed.
    pub read_len: u64,
    /// Some record says how much of the MANIFEST was durable: it is ours.
    pub is_marked: bool,
    /// Logs that a recovery cut, and where.
    pub log_cuts: BTreeMap<u64, u64>,
    /// Logs that do not grow any more and may still be needed, and their synced bytes.
    pub log_ends: BTreeMap<u64, u64>,
    /// The oldest log that recovery needs, by the last record that says it; 0 if none does.
    pub oldest_log: u64,
}

/// Describes what the caller expects to find.
pub(super) struct Expectation<'a> {
    /// The families the caller opens.
    pub families: &'a [FamilyRequest],
    /// Other families may be left out.
    pub read_only: bool,
    /// Open with the newest point in time whose files are there.
    pub best_efforts: bool,
    /// Records that say what was durable count.
    pub evidence: bool,
    pub dir: &'a Path,
    pub purge: &'a Arc<PurgeQueue>,
}

/// Adds what RocksDB adds to every complaint about a MANIFEST.
fn in_manifest(e: &Error, path: &Path) -> Error {
    Error::new(
        e.kind(),
        format!(
            "{}  The file {} may be corrupted.",
            e.message(),
            path.display()
        ),
    )
    .with_path(path)
    .with_offset(e.offset().unwrap_or(0))
}

/// Reads MANIFEST `number`.
pub(super) fn read_manifest(env: &Env, number: u64, expect: &Expectation<'_>) -> Result<Recovered> {
    let path = expect.dir.join(filenames::manifest_file_name(number));
    let (replay, end) = replay_manifest(env, &path, expect)?;
    let recovered = replay.finish().map_err(|e| match e.kind() {
        spanlith_base::ErrorKind::Corruption => in_manifest(&e, &path),
        spanlith_base::ErrorKind::NotSupported => e.with_path(&path),
        // Clients split the list of families in this text: nothing may follow it.
        _ => e,
    })?;
    Ok(Recovered {
        torn_at: end.torn_at,
        whole_len: end.whole_len,
        read_len: end.read_len,
        ..recovered
    })
}

/// How a MANIFEST ends: see the fields of [`Recovered`].
#[derive(Default)]
struct End {
    torn_at: Option<u64>,
    whole_len: Option<u64>,
    read_len: u64,
}

/// Applies the records of a MANIFEST.
fn replay_manifest<'a>(
    env: &'a Env,
    path: &Path,
    expect: &'a Expectation<'a>,
) -> Result<(Replay<'a>, End)> {
    let file = env.fs.open_sequential(path)?;
    let mut reader = LogReader::new(file, 0);
    let mut replay = Replay::new(env, expect);
    let (mut ends, mut last_end, mut is_clean) = (End::default(), 0, true);
    loop {
        match reader.next_event().map_err(|e| e.with_path(path))? {
            ReadEvent::Record { offset, end } => {
                last_end = end;
                replay
                    .record(reader.record())
                    .map_err(|e| {
                        let plain = e.kind() == spanlith_base::ErrorKind::InvalidArgument;
                        if plain || e.offset().is_some() {
                            e
                        } else {
                            e.with_offset(offset)
                        }
                    })
                    .map_err(|e| match e.kind() {
                        spanlith_base::ErrorKind::Corruption => in_manifest(&e, path),
                        spanlith_base::ErrorKind::NotSupported => e.with_path(path),
                        _ => e,
                    })?;
            }
            // Of no MANIFEST, torn or not.
            ReadEvent::OldRecord { offset } if replay.is_judged() => {
                let e = Error::corruption("record of a log in a MANIFEST").with_offset(offset);
                return Err(in_manifest(&e, path));
            }
            ReadEvent::Corruption {
                tail: true, offset, ..
            } => {
                replay.refuse_damage(env, path, offset)?;
                is_clean = false;
            }
            ReadEvent::OldRecord { .. } => is_clean = false,
            ReadEvent::Corruption { offset, .. } if is_torn_append(env, path, offset)? => {
                replay.refuse_damage(env, path, offset)?;
                ends.torn_at = Some(offset);
                ends.read_len = last_end;
                return Ok((replay, ends));
            }
            e @ ReadEvent::Corruption { .. } => {
                let e = e
                    .into_error()
                    .unwrap_or_else(|| Error::corruption("MANIFEST"));
                return Err(in_manifest(&e, path));
            }
            ReadEvent::TimestampSizes(_) | ReadEvent::Predecessor { .. } => {
                return Err(
                    Error::corruption("log record of a write-ahead log in a MANIFEST")
                        .with_path(path),
                );
            }
            ReadEvent::Eof => break,
        }
    }
    replay.refuse_damage(env, path, reader.skipped_at().unwrap_or(last_end))?;
    ends.read_len = last_end;
    if is_clean && replay.group.is_empty() && env.fs.size(path)? == last_end {
        ends.whole_len = Some(last_end);
    }
    Ok((replay, ends))
}

/// Returns whether the unreadable record at `offset` is an append that a power loss cut short: the file has
/// its length, but from somewhere inside the record on it holds only zeros. An edit ends in a byte
/// that is not zero, so a whole record that was damaged later does not look like this.
fn is_torn_append(env: &Env, path: &Path, offset: u64) -> Result<bool> {
    let file = env.fs.open_random(path)?;
    let mut header = [0u8; HEADER_SIZE];
    file.read_at(offset, &mut header)?;
    let len = u64::from(u16::from_le_bytes([header[4], header[5]]));
    let record_end = offset + HEADER_SIZE as u64 + len;
    // End of the last byte that is not zero, looked for from the end of the file.
    let mut end = file.size();
    let mut buf = [0u8; 4096];
    while end > offset {
        let from = end.saturating_sub(buf.len() as u64).max(offset);
        let piece = &mut buf[..(end - from) as usize];
        let n = file.read_at(from, piece)?;
        if let Some(last) = piece[..n].iter().rposition(|&b| b != 0) {
            end = from + last as u64 + 1;
            break;
        }
        end = from;
    }
    Ok(end < file.size() && end < record_end)
}

/// A family that exists, while edits are replayed.
struct Replayed {
    name: String,
    /// `None` if it is not opened: its edits are parsed, its files ignored.
    opened: Option<Opened>,
    log_number: Option<u64>,
}

/// Builds versions of a family from nothing.
fn new_builder(request: &FamilyRequest, sink: &Arc<dyn PurgeSink>) -> VersionBuilder {
    let levels = request.options.num_levels.max(1) as usize;
    let base = Arc::new(Version::empty(request.comparator.clone(), levels));
    VersionBuilder::new(&base).with_purge_sink(Arc::downgrade(sink))
}

struct Opened {
    request: FamilyRequest,
    builder: VersionBuilder,
    sink: Arc<dyn PurgeSink>,
    deleted: BTreeSet<u64>,
    /// Timestamps were switched on since: no table holds any.
    is_stripped: bool,
}

struct Replay<'a> {
    expect: &'a Expectation<'a>,
    point_in_time: Option<PointInTime<'a>>,
    /// Some edit named the log number of a family.
    has_log_number: bool,
    /// Families that exist now, by id.
    families: BTreeMap<u32, Replayed>,
    dropped: BTreeSet<u32>,
    group: Vec<VersionEdit>,
    db_id: Option<String>,
    max_family: u32,
    min_log_number: u64,
    next_file: Option<u64>,
    last_sequence: Option<u64>,
    compact_size: u64,
    /// Tracked logs and how much of them was synced.
    tracked_logs: BTreeMap<u64, Option<u64>>,
    /// Logs below this number are not tracked any more.
    untracked_below: u64,
    /// The largest size that a record says was durable; `None` if none says anything.
    mark: Option<u64>,
    /// Logs that a recovery cut, and where.
    log_cuts: BTreeMap<u64, u64>,
    log_ends: BTreeMap<u64, u64>,
    oldest_log: u64,
}

impl<'a> Replay<'a> {
    fn new(env: &'a Env, expect: &'a Expectation<'a>) -> Self {
        let point_in_time = expect
            .best_efforts
            .then(|| PointInTime::new(env, expect.dir));
        let mut me = Self {
            expect,
            point_in_time,
            has_log_number: false,
            families: BTreeMap::new(),
            dropped: BTreeSet::new(),
            group: Vec::new(),
            db_id: None,
            max_family: 0,
            min_log_number: 0,
            next_file: None,
            last_sequence: None,
            compact_size: 0,
            tracked_logs: BTreeMap::new(),
            untracked_below: 0,
            mark: None,
            log_cuts: BTreeMap::new(),
            log_ends: BTreeMap::new(),
            oldest_log: 0,
        };
        me.add_family(0, "default".to_string());
        me
    }

    fn add_family(&mut self, id: u32, name: String) {
        let wanted = self.expect.families.iter().find(|f| f.name == name);
        let request = match wanted {
            Some(r) => Some(r.clone()),
            None if name == STATS_FAMILY && !self.expect.read_only => Some(FamilyRequest {
                tables: self.expect.families.first().and_then(|f| f.tables.clone()),
                ..FamilyRequest::of_persistent_stats()
            }),
            None => None,
        };
        let opened = request.map(|request| {
            let paths = family_paths(self.expect.dir, &request);
            let sink = Family::new_sink(self.expect.purge, paths);
            if let Some(points) = &mut self.point_in_time {
                points.add(id, &request);
            }
            Opened {
                builder: new_builder(&request, &sink),
                request,
                sink,
                deleted: BTreeSet::new(),
                is_stripped: false,
            }
        });
        let family = Replayed {
            name,
            opened,
            log_number: None,
        };
        self.families.insert(id, family);
        self.max_family = self.max_family.max(id);
    }

    fn record(&mut self, bytes: &[u8]) -> Result<()> {
        let edit = VersionEdit::decode(bytes)?;
        self.mark = self.mark.max(edit.manifest_mark);
        match edit.remaining_in_atomic_group {
            Some(left) => {
                let expected = self.group.last().and_then(|e| e.remaining_in_atomic_group);
                if expected.is_some_and(|e| Some(e) != left.checked_add(1)) {
                    return Err(Error::corruption("corrupted atomic group"));
                }
                self.group.push(edit);
                if left == 0 {
                    let can_open = self.can_open();
                    if let Some(points) = &mut self.point_in_time {
                        points.begin_group(can_open);
                    }
                    for e in std::mem::take(&mut self.group) {
                        self.apply(&e)?;
                    }
                    if let Some(points) = &mut self.point_in_time {
                        points.end_group()?;
                    }
                }
                Ok(())
            }
            None if !self.group.is_empty() => Err(Error::corruption("corrupted atomic group")),
            None => self.apply(&edit),
        }
    }

    /// Returns whether the MANIFEST says what of it was durable, and that counts.
    fn is_judged(&self) -> bool {
        self.expect.evidence && !self.expect.best_efforts && self.mark.is_some()
    }

    /// Reports that reading ends at `offset` although bytes after it had been durable. Without proof it is
    /// a torn append.
    fn refuse_damage(&self, env: &Env, path: &Path, offset: u64) -> Result<()> {
        if !self.expect.evidence || self.expect.best_efforts {
            return Ok(());
        }
        let facts = evidence::of_manifest(env, path, offset, self.mark)?;
        match facts.is_damaged {
            false => Ok(()),
            true => Err(in_manifest(
                &Error::corruption(format!(
                    "MANIFEST cannot be read from offset {offset} on, though {} bytes of it had been \
                     synced: it was damaged or cut since",
                    facts.proven
                ))
                .with_offset(offset),
                path,
            )),
        }
    }

    /// Returns whether the edits so far name all counters that an open needs.
    fn can_open(&self) -> bool {
        self.has_log_number && self.next_file.is_some() && self.last_sequence.is_some()
    }

    /// Takes in what an edit says about tracked logs.
    fn track(&mut self, e: &VersionEdit) -> Result<()> {
        for wal in &e.wal_additions {
            // Additions below a deletion, also of an earlier record, do not matter.
            if wal.number < self.untracked_below {
                continue;
            }
            match (self.tracked_logs.get(&wal.number), wal.synced_size) {
                (Some(_), None) => {
                    let text = format!("WAL {} is created more than once", wal.number);
                    return Err(Error::corruption(text));
                }
                (Some(&known), size) if size <= known => {}
                (_, size) => {
                    self.tracked_logs.insert(wal.number, size);
                }
            }
        }
        if let Some(below) = e.wal_deletion {
            self.untracked_below = self.untracked_below.max(below);
            self.tracked_logs.retain(|&n, _| n >= below);
        }
        Ok(())
    }

    fn apply(&mut self, e: &VersionEdit) -> Result<()> {
        if let Some(id) = &e.db_id {
            self.db_id = Some(String::from_utf8_lossy(id).into_owned());
        }
        self.next_file = e.next_file_number.or(self.next_file);
        self.last_sequence = e.last_sequence.or(self.last_sequence);
        self.compact_size = e
            .last_compacted_manifest_file_size
            .unwrap_or(self.compact_size);
        // Never back: what was below it may be gone.
        let kept = e.min_log_number_to_keep.unwrap_or(0);
        self.min_log_number = self.min_log_number.max(kept);
        self.track(e)?;
        self.log_cuts.extend(e.log_cuts.iter().copied());
        self.log_ends.extend(e.log_ends.iter().copied());
        self.oldest_log = e.oldest_log.unwrap_or(self.oldest_log);
        self.has_log_number |= e.log_number.is_some();
        let can_open = self.can_open();
        self.max_family = e.max_column_family.unwrap_or(0).max(self.max_family);
        let id = e.column_family;
        if let Some(name) = &e.column_family_add {
            let name = text_of_bytes(name);
            let known = self.families.values().any(|f| f.name == name);
            if self.families.contains_key(&id) || known || self.dropped.contains(&id) {
                return Err(Error::corruption(
                    "MANIFEST adding the same column family twice",
                ));
            }
            self.add_family(id, name);
        } else if e.column_family_drop {
            if self.families.remove(&id).is_none() {
                return Err(Error::corruption(
                    "MANIFEST - dropping non-existing column family",
                ));
            }
            self.dropped.insert(id);
            if let Some(points) = &mut self.point_in_time {
                points.drop_family(id);
            }
            return Ok(());
        }
        let Some(family) = self.families.get_mut(&id) else {
            return Err(Error::corruption(
                "MANIFEST record referencing unknown column family",
            ));
        };
        if let Some(log) = e.log_number {
            family.log_number = Some(family.log_number.unwrap_or(0).max(log));
        }
        let Some(opened) = &mut family.opened else {
            return Ok(());
        };
        let request = &opened.request;
        if let Some(name) = &e.comparator {
            let given = timestamps::Given {
                comparator: &request.comparator,
                persists: request.options.persist_user_defined_timestamps,
            };
            let persisted = e.persist_user_defined_timestamps.unwrap_or(true);
            let name = String::from_utf8_lossy(name);
            opened.is_stripped = timestamps::check(&given, &name, persisted)?;
        }
        opened.deleted.extend(e.deleted_files.iter().map(|d| d.1));
        // A blob file that was named and is not part of the version has left it.
        let blobs = e.blob_file_additions.iter().map(|b| b.number);
        if !self.expect.best_efforts {
            opened.deleted.extend(blobs);
        }
        let size = request.comparator.timestamp_size();
        let padded = (size != 0 && !e.new_files.is_empty()).then(|| {
            let mut e = e.clone();
            if opened.is_stripped {
                let files = e.new_files.iter_mut();
                files.for_each(|f| f.user_defined_timestamps_persisted = false);
            }
            e.pad_timestamps(size);
            e
        });
        let e = padded.as_ref().unwrap_or(e);
        opened.builder.apply(e)?;
        match &mut self.point_in_time {
            Some(points) => points.apply(id, e, can_open),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<Recovered> {
        let log_number = self.families.get(&0).and_then(|f| f.log_number);
        let (Some(_), Some(next_file), Some(last_sequence)) =
            (log_number, self.next_file, self.last_sequence)
        else {
            let missing: Vec<&str> = [
                (log_number.is_none(), "log_file_number"),
                (self.next_file.is_none(), "next_file_number"),
                (self.last_sequence.is_none(), "last_sequence"),
            ]
            .iter()
            .filter(|m| m.0)
            .map(|m| m.1)
            .collect();
            return Err(Error::corruption(format!(
                "no {} entry in MANIFEST",
                missing.join(", ")
            )));
        };
        let logs = self.families.values().filter_map(|f| f.log_number);
        let numbers = logs.chain([next_file, self.min_log_number]).max();
        let too_large = match numbers {
            _ if last_sequence > MAX_SEQUENCE => Some("sequence number"),
            Some(n) if n > filenames::FILE_NUMBER_MAX => Some("file number"),
            _ => None,
        };
        if let Some(what) = too_large {
            let text = format!("a {what} in the MANIFEST is out of range");
            return Err(Error::corruption(text));
        }
        let left_out = self.families.values().filter(|f| f.opened.is_none());
        // RocksDB's map mostly lists the newest first.
        let left_out: Vec<&str> = left_out.map(|f| f.name.as_str()).rev().collect();
        if !left_out.is_empty() && !self.expect.read_only {
            return Err(Error::invalid_argument(format!(
                "Column families not opened: {}",
                left_out.join(", ")
            )));
        }
        let there = |name: &str| self.families.values().any(|f| f.name == name);
        let wanted = self.expect.families.iter();
        let missing = wanted.filter(|f| !there(&f.name)).cloned().collect();
        if let Some(points) = &mut self.point_in_time {
            points.end();
        }
        let (mut families, mut curtailed) = (Vec::new(), Vec::new());
        for (id, f) in self.families {
            let Some(mut o) = f.opened else {
                continue;
            };
            if let Some(points) = &self.point_in_time {
                // Also where nothing is left out: deeper levels than there are, for one, matter only
                // if they are used.
                o.builder = new_builder(&o.request, &o.sink);
                if points.rebuild(id, &mut o.builder)? {
                    curtailed.push(f.name);
                }
            }
            families.push(RecoveredFamily {
                id,
                request: o.request,
                version: o.builder.build()?,
                sink: o.sink,
                log_number: f.log_number.unwrap_or(0),
                deleted: o.deleted,
            });
        }
        Ok(Recovered {
            families,
            missing,
            max_family: self.max_family,
            db_id: self.db_id,
            min_log_number: self.min_log_number,
            next_file,
            last_sequence,
            tracked_logs: self.tracked_logs,
            curtailed,
            torn_at: None,
            whole_len: None,
            compact_size: self.compact_size,
            read_len: 0,
            is_marked: self.mark.is_some(),
            log_cuts: self.log_cuts,
            // Of those below, nothing says whether they went.
            log_ends: self.log_ends.split_off(&self.min_log_number),
            oldest_log: self.oldest_log,
        })
    }
}

/// Names of the families a MANIFEST holds, in the order of their creation.
pub(super) fn read_family_names(env: &Env, dir: &Path, number: u64) -> Result<Vec<String>> {
    let purge = Arc::new(PurgeQueue::new(
        TableIo::new(env.fs.clone(), TableIoOptions::default()),
        None,
    ));
    let expect = Expectation {
        families: &[],
        read_only: true,
        best_efforts: false,
        evidence: false,
        dir,
        purge: &purge,
    };
    let path = dir.join(filenames::manifest_file_name(number));
    let (replay, _) = replay_manifest(env, &path, &expect)?;
    Ok(replay.families.into_values().map(|f| f.name).collect())
}
