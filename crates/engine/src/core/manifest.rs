//! Writing the MANIFEST: the durable truth about which files make up the database.

use super::background_error::Place;
use super::{Engine, ManifestExtent};
use crate::version::edit::WalAddition;
use crate::version::{CurrentMarks, Version, VersionEdit, filenames};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::stats::Histogram;
use spanlith_base::{Error, FileNumber, Result, SequenceNumber};
use spanlith_env::{Directory, Env, IoActivity};
use spanlith_wal::record::framed_len;
use spanlith_wal::{LogPlace, LogReader, LogWriter, ReadEvent};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Guarded by the manifest token.
pub(crate) struct ManifestState {
    /// `None`: the next edit starts a new file (at open, and after a failed write: E2).
    pub writer: Option<LogWriter>,
    /// Number of the file named by CURRENT.
    pub number: FileNumber,
    /// Bytes of the snapshot that it began with; 0 if it does not say.
    pub compact_size: u64,
    /// Its bytes when this process began with it.
    pub first_size: u64,
    /// Logs that it tracks, because they will not grow (evidence) or were synced
    /// (`track_and_verify_wals_in_manifest`), and their synced bytes.
    pub tracked: BTreeMap<FileNumber, u64>,
    /// Logs that are needed and that a recovery cut, and where.
    pub cuts: BTreeMap<FileNumber, u64>,
    /// Logs that do not grow any more and are not tracked, and their synced bytes.
    pub ends: BTreeMap<FileNumber, u64>,
    /// The oldest log that it says recovery needs; 0 if it does not say.
    pub oldest_log: FileNumber,
}

/// Describes who waits for an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A caller: families come and go, logs are synced.
    Foreground,
    /// A flush or a compaction.
    Background,
}

impl ManifestState {
    /// Logs below `kept_log` are gone from what is known of logs.
    pub(super) fn retain_logs(&mut self, kept_log: FileNumber) {
        for map in [&mut self.tracked, &mut self.cuts, &mut self.ends] {
            map.retain(|&n, _| n >= kept_log);
        }
    }

    /// Returns whether edits were appended since this process began with it.
    pub(crate) fn has_grown(&self) -> bool {
        let len = self.writer.as_ref().map_or(0, LogWriter::len);
        len > self.first_size
    }

    /// The record that says that tracked logs below `kept_log` are about to go, if there are any; a
    /// record of its own, never in one with files.
    pub(super) fn forget_logs(
        &self,
        kept_log: FileNumber,
        last_sequence: SequenceNumber,
    ) -> Option<VersionEdit> {
        self.tracked.range(..kept_log).next()?;
        Some(VersionEdit {
            wal_deletion: Some(kept_log),
            prev_log_number: Some(0),
            last_sequence: Some(last_sequence),
            ..VersionEdit::default()
        })
    }
}

/// Describes what a new MANIFEST says of one family.
pub(crate) struct FamilyFacts {
    pub id: u32,
    pub name: String,
    pub comparator: String,
    /// Tables keep timestamps, if there are any.
    pub persist_timestamps: bool,
    pub version: Arc<Version>,
    pub log_number: FileNumber,
}

/// Describes what a snapshot of the version set records.
pub(crate) struct SnapshotFacts {
    /// Recorded if the options say so.
    pub db_id: Option<String>,
    pub families: Vec<FamilyFacts>,
    pub max_family: u32,
    pub min_log_number: FileNumber,
    pub table_sequence: SequenceNumber,
    /// Tracked logs and their synced bytes.
    pub tracked: BTreeMap<FileNumber, u64>,
    /// Logs that a recovery cut, and where.
    pub cuts: BTreeMap<FileNumber, u64>,
    /// Logs that do not grow any more and are not tracked, and their synced bytes.
    pub ends: BTreeMap<FileNumber, u64>,
    /// The oldest log that recovery needs; 0 if that is not known.
    pub oldest_log: FileNumber,
}

/// The records a new MANIFEST begins with (`docs/formats/manifest.md`, "snapshot").
pub(crate) fn snapshot_edits(f: &SnapshotFacts) -> Vec<VersionEdit> {
    let mut edits = Vec::new();
    if let Some(db_id) = &f.db_id {
        edits.push(VersionEdit {
            db_id: Some(db_id.as_str().into()),
            ..VersionEdit::default()
        });
    }
    if !f.tracked.is_empty() {
        let tracked = f.tracked.iter();
        let additions = tracked.map(|(&number, &size)| WalAddition {
            number,
            synced_size: Some(size),
        });
        edits.push(VersionEdit {
            wal_additions: additions.collect(),
            ..VersionEdit::default()
        });
    }
    if !f.cuts.is_empty() || !f.ends.is_empty() || f.oldest_log > 0 {
        edits.push(VersionEdit {
            log_cuts: f.cuts.iter().map(|(&n, &end)| (n, end)).collect(),
            log_ends: f.ends.iter().map(|(&n, &end)| (n, end)).collect(),
            oldest_log: (f.oldest_log > 0).then_some(f.oldest_log),
            ..VersionEdit::default()
        });
    }
    for c in &f.families {
        edits.push(VersionEdit {
            column_family: c.id,
            column_family_add: (c.id != 0).then(|| bytes_of_text(&c.name).into_owned()),
            comparator: Some(c.comparator.as_str().into()),
            persist_user_defined_timestamps: Some(c.persist_timestamps),
            ..VersionEdit::default()
        });
        let mut files = VersionEdit {
            column_family: c.id,
            log_number: Some(c.log_number),
            last_sequence: Some(f.table_sequence),
            ..c.version.to_edit()
        };
        files.strip_timestamps(c.version.comparator.timestamp_size());
        if c.id == 0 && f.min_log_number > 0 {
            files.min_log_number_to_keep = Some(f.min_log_number);
        }
        edits.push(files);
    }
    edits
}

/// Installs `CURRENT` naming MANIFEST `number`, and what stands on a speed disk: temporary file, sync, rename, sync of
/// `dir`, which is `open`.
pub(crate) fn write_current(
    env: &Env,
    dir: &Path,
    open: &dyn Directory,
    number: FileNumber,
    marks: &CurrentMarks,
) -> Result<()> {
    let temp = dir.join(filenames::temp_file_name(number));
    let mut file = env.fs.create(&temp, IoActivity::Manifest)?;
    file.append(filenames::marked_current_content(number, marks).as_bytes())?;
    file.sync()?;
    file.close()?;
    env.fs.rename(&temp, &dir.join(filenames::CURRENT_FILE))?;
    open.sync()
}

/// Reads the records of a MANIFEST.
///
/// # Errors
/// `Corruption` if one cannot be read; of the file.
fn read_to_end(env: &Env, path: &Path) -> Result<()> {
    let mut reader = LogReader::new(env.fs.open_sequential(path)?, 0);
    loop {
        match reader.next_event()? {
            ReadEvent::Record { .. } => VersionEdit::decode(reader.record()).map(drop)?,
            ReadEvent::Eof => return Ok(()),
            event => {
                let foreign = || Error::corruption("a record that does not belong there");
                return Err(event.into_error().unwrap_or_else(foreign));
            }
        }
    }
}

/// Takes over what `records`, which are durable, say about tracked logs.
pub(super) fn note_tracked(manifest: &mut ManifestState, records: &[VersionEdit]) {
    for wal in records.iter().flat_map(|e| &e.wal_additions) {
        let size = wal.synced_size.unwrap_or(0);
        manifest.tracked.insert(wal.number, size);
    }
    manifest
        .cuts
        .extend(records.iter().flat_map(|e| &e.log_cuts).copied());
    manifest
        .ends
        .extend(records.iter().flat_map(|e| &e.log_ends).copied());
    let oldest = records.iter().filter_map(|e| e.oldest_log);
    manifest.oldest_log = oldest.fold(manifest.oldest_log, u64::max);
}

/// The records of a new MANIFEST, encoded, and the size of the snapshot among them in bytes. Marked, the
/// first one says how large the file is when it becomes current.
fn whole_manifest(
    facts: &SnapshotFacts,
    edits: &[VersionEdit],
    is_marked: bool,
) -> (Vec<Vec<u8>>, u64) {
    let mut snapshot = snapshot_edits(facts);
    if snapshot.is_empty() {
        snapshot.push(VersionEdit::default());
    }
    let mut mark = is_marked.then_some(0);
    // The mark makes the file longer by its own digits: the second or third look agrees.
    let mut looks = 0;
    loop {
        looks += 1;
        snapshot[0].manifest_mark = mark;
        let mut records: Vec<Vec<u8>> = snapshot.iter().map(VersionEdit::encode).collect();
        let compact_size = framed_len(records.iter().map(Vec::len));
        let compacted = VersionEdit {
            last_compacted_manifest_file_size: Some(compact_size),
            ..VersionEdit::default()
        };
        records.push(compacted.encode());
        records.extend(edits.iter().map(VersionEdit::encode));
        let framed = framed_len(records.iter().map(Vec::len));
        match mark {
            Some(size) if framed != size => mark = (looks < 4).then_some(framed),
            _ => return (records, compact_size),
        }
    }
}

impl Engine {
    /// Records that closed logs, number and bytes, were synced, if the options ask for it.
    ///
    /// # Errors
    /// Those of the MANIFEST, which is started anew by the next edit.
    pub(crate) fn track_synced_logs(&self, synced: &[(FileNumber, u64)]) -> Result<()> {
        let Some(&(newest, _)) = synced.last() else {
            // Of every synced write but the first behind a switch of logs: no lock for it.
            return Ok(());
        };
        // What is said of a log, and what is built on its records, must not outlive its name.
        self.settle_log_name(newest)?;
        if !self.c.options.track_and_verify_wals_in_manifest {
            if self.c.options.own.evidence {
                // Goes with the next edit: no sync of its own.
                let ends = synced.iter().filter(|l| l.1 > 0);
                self.state.lock().log_ends.extend(ends);
            }
            return Ok(());
        }
        let mut manifest = self.manifest.lock();
        // A log that was flushed past before its sync is about to go: no open may ask for it.
        let kept_log = self.state.lock().kept_log;
        let synced = synced.iter().filter(|l| l.1 > 0 && l.0 >= kept_log);
        let synced: Vec<(FileNumber, u64)> = synced.copied().collect();
        if synced.is_empty() {
            return Ok(());
        }
        let additions = synced.iter().map(|&(number, size)| WalAddition {
            number,
            synced_size: Some(size),
        });
        let sequence = self.state.lock().table_sequence;
        let edit = VersionEdit {
            wal_additions: additions.collect(),
            prev_log_number: Some(0),
            last_sequence: Some(sequence),
            ..VersionEdit::default()
        };
        self.write_edits(&mut manifest, vec![edit], Urgency::Foreground)?;
        manifest.tracked.extend(synced);
        Ok(())
    }

    /// Starts a new MANIFEST with what is installed, if the one before failed.
    ///
    /// # Errors
    /// Those of the file system; the next edit tries again.
    pub(crate) fn renew_manifest(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if manifest.writer.is_some() {
            return Ok(());
        }
        let edit = VersionEdit {
            prev_log_number: Some(0),
            last_sequence: Some(self.state.lock().table_sequence),
            ..VersionEdit::default()
        };
        self.write_edits(&mut manifest, vec![edit], Urgency::Background)
    }

    /// The record that says which logs ended, and with how many synced bytes, if that was not said yet
    /// and they are still needed once `records` are written. Requires: the manifest token.
    pub(super) fn take_log_ends(&self, records: &[VersionEdit]) -> Option<VersionEdit> {
        let kept = records.iter().filter_map(|e| e.min_log_number_to_keep);
        let mut state = self.state.lock();
        let kept = kept.fold(state.kept_log, u64::max);
        let ends = std::mem::take(&mut state.log_ends);
        let needed = ends.into_iter().filter(|l| l.0 >= kept);
        let log_ends: Vec<_> = needed.collect();
        (!log_ends.is_empty()).then(|| VersionEdit {
            log_ends,
            prev_log_number: Some(0),
            last_sequence: Some(state.table_sequence),
            ..VersionEdit::default()
        })
    }

    /// Has the edit among `records` that gives up logs below `kept_log` say which is the oldest that stays:
    /// should the MANIFEST lose a later edit, the log that it then asks for is gone, and that is seen. The
    /// name of that log is made durable first. Requires: the manifest token.
    ///
    /// # Errors
    /// Of syncing the directory of logs.
    pub(super) fn name_oldest_log(
        &self,
        manifest: &ManifestState,
        records: &mut [VersionEdit],
        kept_log: FileNumber,
    ) -> Result<()> {
        let mut giving_up = records
            .iter_mut()
            .filter(|e| e.min_log_number_to_keep.is_some());
        let Some(edit) = giving_up.next().filter(|_| self.c.options.own.evidence) else {
            return Ok(());
        };
        let oldest = {
            let state = self.state.lock();
            state.logs.iter().copied().find(|&n| n >= kept_log)
        };
        let Some(oldest) = oldest.filter(|&n| n > manifest.oldest_log) else {
            return Ok(());
        };
        // A new MANIFEST becomes current after the directory was synced.
        let begins =
            self.c.wal_dir == self.c.dir && self.is_manifest_full(manifest, Urgency::Background);
        if !begins {
            self.settle_log_name(oldest)?;
        }
        edit.oldest_log = Some(oldest);
        Ok(())
    }

    /// Syncs the directory of logs unless the name of log `number`, which is in it, is durable.
    ///
    /// # Errors
    /// Of that sync.
    pub(crate) fn settle_log_name(&self, number: FileNumber) -> Result<()> {
        // Relaxed: see below.
        if self.durable_log_names.load(Ordering::Relaxed) >= number {
            return Ok(());
        }
        let newest = self.state.lock().logs.back().copied();
        self.c.logs.sync_names(LogPlace::Live)?;
        self.log_names_are_durable(newest.map_or(number, |n| n.max(number)));
        Ok(())
    }

    /// The directory of logs was synced, and log `newest` had been in it before.
    pub(crate) fn log_names_are_durable(&self, newest: FileNumber) {
        // Relaxed: at worst a directory is synced once more.
        self.durable_log_names.fetch_max(newest, Ordering::Relaxed);
    }

    /// Records where logs end that a clean close has synced: `current`, if it is to be missed, and the
    /// older ones of which no edit has told it yet. The MANIFEST is not started anew for that.
    pub(crate) fn record_log_ends(&self, current: Option<(FileNumber, u64)>) -> Result<()> {
        if self.c.options.track_and_verify_wals_in_manifest {
            return self.track_synced_logs(current.as_slice());
        }
        let mut manifest = self.manifest.lock();
        if manifest.writer.is_none() {
            return Ok(());
        }
        self.state.lock().log_ends.extend(current);
        let Some(edit) = self.take_log_ends(&[]) else {
            return Ok(());
        };
        // RocksDB writes nothing here: the next open is to number its files as after RocksDB.
        self.append_records(&mut manifest, vec![edit])
    }

    /// Says how much of the MANIFEST is durable now. Requires: the manifest token.
    pub(super) fn note_manifest_extent(&self, manifest: &ManifestState) {
        let Some(writer) = &manifest.writer else {
            return;
        };
        *self.manifest_extent.lock() = ManifestExtent {
            number: manifest.number,
            size: writer.synced_len(),
        };
    }

    /// Appends records to the present MANIFEST and syncs it. Requires: the manifest token, and that
    /// there is a MANIFEST.
    pub(super) fn append_edits(
        &self,
        manifest: &mut ManifestState,
        mut records: Vec<VersionEdit>,
    ) -> Result<()> {
        let next_file = self.next_file.load(Ordering::Relaxed);
        for edit in &mut records {
            edit.next_file_number = Some(next_file);
        }
        self.append_records(manifest, records)
    }

    /// As [`Self::append_edits`], without the number of the next file.
    fn append_records(
        &self,
        manifest: &mut ManifestState,
        mut records: Vec<VersionEdit>,
    ) -> Result<()> {
        let Some(writer) = &mut manifest.writer else {
            return Ok(());
        };
        let durable = writer.synced_len();
        let mark = (self.c.options.own.evidence && durable > 0).then_some(durable);
        for edit in &mut records {
            edit.manifest_mark = mark;
        }
        let written = records
            .iter()
            .try_for_each(|edit| writer.add_record(&edit.encode()))
            .and_then(|()| {
                let began = self.timed();
                let synced = writer.sync();
                self.record_since(began, Histogram::ManifestFileSyncMicros);
                synced
            });
        written.inspect_err(|e| {
            manifest.writer = None;
            self.set_error(Place::Manifest, e);
        })?;
        self.note_manifest_extent(manifest);
        note_tracked(manifest, &records);
        Ok(())
    }

    /// The installed versions and counters.
    pub(super) fn snapshot_facts(&self, manifest: &ManifestState) -> SnapshotFacts {
        let state = self.state.lock();
        let families = state.families.values().map(|f| FamilyFacts {
            id: f.family.id,
            name: f.family.name.clone(),
            comparator: f.family.comparator.name().to_string(),
            persist_timestamps: f.settings.options.persist_user_defined_timestamps,
            version: f.version.clone(),
            log_number: f.log_number,
        });
        SnapshotFacts {
            db_id: (self.c.options.write_dbid_to_manifest).then(|| self.c.db_id.clone()),
            families: families.collect(),
            max_family: state.max_family,
            min_log_number: state.min_log_number(),
            table_sequence: state.table_sequence,
            tracked: manifest.tracked.clone(),
            cuts: manifest.cuts.clone(),
            ends: manifest.ends.clone(),
            oldest_log: manifest.oldest_log,
        }
    }

    /// Bytes beyond which the MANIFEST is written anew: what the options say, or a multiple of the
    /// snapshot that it began with. Somebody waits for an edit in the foreground, so a quarter is
    /// added there and the work is left to background jobs, as in RocksDB.
    fn manifest_limit(&self, manifest: &ManifestState, urgency: Urgency) -> u64 {
        let o = self.options();
        let growth = u128::from(o.max_manifest_space_amp_pct.max(0).unsigned_abs());
        let wanted = u128::from(manifest.compact_size) * (100 + growth) / 100;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let limit = o.max_manifest_file_size.max(wanted);
        match urgency {
            Urgency::Background => limit,
            Urgency::Foreground => limit.saturating_add(limit / 4),
        }
    }

    /// Returns whether the next edit starts a new MANIFEST.
    pub(super) fn is_manifest_full(&self, manifest: &ManifestState, urgency: Urgency) -> bool {
        let writer = manifest.writer.as_ref();
        writer.is_none_or(|w| w.len() > self.manifest_limit(manifest, urgency))
    }

    /// Reads the MANIFEST that was closed, and writes it anew from memory if a record of it cannot be
    /// read.
    ///
    /// # Errors
    /// Those of writing it anew.
    pub(crate) fn verify_manifest(&self, manifest: &mut ManifestState) -> Result<()> {
        let path = self.path(filenames::manifest_file_name(manifest.number));
        let Err(e) = read_to_end(&self.c.env, &path) else {
            return Ok(());
        };
        self.c.log.error(format_args!(
            "MANIFEST content verification on Close failed, filename {}, rewriting manifest: {e}",
            path.display()
        ));
        let sequence = self.state.lock().table_sequence;
        let edit = VersionEdit {
            prev_log_number: Some(0),
            last_sequence: Some(sequence),
            ..VersionEdit::default()
        };
        self.write_edits(manifest, vec![edit], Urgency::Foreground)?;
        match manifest.writer.take() {
            Some(mut writer) => writer.close(),
            None => Ok(()),
        }
    }

    /// Starts MANIFEST `number` with a snapshot of the installed versions and `edits`, synced, and
    /// makes it current. The second value is the size of the snapshot in bytes.
    pub(super) fn roll_manifest(
        &self,
        number: FileNumber,
        facts: &SnapshotFacts,
        edits: &[VersionEdit],
    ) -> Result<(LogWriter, u64)> {
        let env = &self.c.env;
        let path = self.path(filenames::manifest_file_name(number));
        let mut writer = LogWriter::new(env.fs.create(&path, IoActivity::Manifest)?, 0);
        let (records, compact_size) = whole_manifest(facts, edits, self.c.options.own.evidence);
        for record in &records {
            writer.add_record(record)?;
        }
        let began = self.timed();
        writer.sync()?;
        self.record_since(began, Histogram::ManifestFileSyncMicros);
        let dir = self.c.dirs.get(&self.c.dir)?;
        dir.sync()?;
        let (logs, tables) = (self.c.speed.as_ref(), self.c.resources.tables.as_ref());
        let marks = CurrentMarks {
            logs: logs.and_then(|s| s.mark.get()).cloned(),
            tables: tables.and_then(|t| t.mark.get()).cloned(),
        };
        write_current(env, &self.c.dir, &*dir, number, &marks)?;
        Ok((writer, compact_size))
    }
}
