//! Writing the MANIFEST: the durable truth about which files make up the database.

use super::Lsm;
use super::background_error::Place;
use super::catalog::{ManifestLogs, ManifestState, Urgency};
use super::state::DbState;
use crate::version::edit::WalAddition;
use crate::version::{CurrentMarks, Version, VersionEdit, filenames};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::{Error, FileNumber, Result, SequenceNumber};
use spanlith_env::{Directory, Env, IoActivity};
use spanlith_wal::record::framed_len;
use spanlith_wal::{LogReader, ReadEvent};
use std::path::Path;
use std::sync::Arc;

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
#[derive(Default)]
pub(crate) struct SnapshotFacts {
    /// Recorded if the options say so.
    pub db_id: Option<String>,
    pub families: Vec<FamilyFacts>,
    pub max_family: u32,
    pub min_log_number: FileNumber,
    pub table_sequence: SequenceNumber,
    /// Says what it tells of logs.
    pub logs: ManifestLogs,
}

impl SnapshotFacts {
    /// The installed versions and counters.
    fn of(state: &DbState, manifest: &ManifestState, db_id: Option<String>) -> Self {
        let families = state.families.values().map(|f| FamilyFacts {
            id: f.family.id,
            name: f.family.name.clone(),
            comparator: f.family.comparator.name().to_string(),
            persist_timestamps: f.settings.options.persist_user_defined_timestamps,
            version: f.version.clone(),
            log_number: f.log_number,
        });
        Self {
            db_id,
            families: families.collect(),
            max_family: state.max_family,
            min_log_number: state.min_log_number(),
            table_sequence: state.table_sequence,
            logs: manifest.logs().clone(),
        }
    }
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
    if !f.logs.tracked.is_empty() {
        let tracked = f.logs.tracked.iter();
        let additions = tracked.map(|(&number, &size)| WalAddition {
            number,
            synced_size: Some(size),
        });
        edits.push(VersionEdit {
            wal_additions: additions.collect(),
            ..VersionEdit::default()
        });
    }
    if !f.logs.cuts.is_empty() || !f.logs.ends.is_empty() || f.logs.oldest > 0 {
        edits.push(VersionEdit {
            log_cuts: f.logs.cuts.iter().map(|(&n, &end)| (n, end)).collect(),
            log_ends: f.logs.ends.iter().map(|(&n, &end)| (n, end)).collect(),
            oldest_log: (f.logs.oldest > 0).then_some(f.logs.oldest),
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

/// The records of a new MANIFEST, encoded, and the size of the snapshot among them in bytes. Marked, the
/// first one says how large the file is when it becomes current.
pub(super) fn whole_manifest(
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

impl Lsm {
    /// Records that closed logs, number and bytes, were synced, if the options ask for it.
    ///
    /// # Errors
    /// Those of the MANIFEST, which is started anew by the next edit.
    pub(crate) fn track_synced_logs(&self, synced: &[(FileNumber, u64)]) -> Result<()> {
        let Some(&(newest, _)) = synced.last() else {
            // Of every synced write but the first after a switch of logs: no lock for it.
            return Ok(());
        };
        // Facts about a log, and all that is built on its records, must not outlive its name.
        self.settle_log_name(newest)?;
        if !self.c.options.track_and_verify_wals_in_manifest {
            if self.c.options.own.evidence {
                // Goes with the next edit: no sync of its own.
                let ends = synced.iter().copied().filter(|l| l.1 > 0);
                self.state.lock().logs.note_ends(ends);
            }
            return Ok(());
        }
        let mut manifest = self.catalog.lock();
        // A log that was flushed past before its sync is about to go: no open may ask for it.
        let kept_log = self.state.lock().logs.kept();
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
        manifest.note_tracked(synced);
        Ok(())
    }

    /// Starts a new MANIFEST with what is installed, if the one before failed.
    ///
    /// # Errors
    /// Those of the file system; the next edit tries again.
    pub(crate) fn renew_manifest(&self) -> Result<()> {
        let mut manifest = self.catalog.lock();
        if manifest.is_open() {
            return Ok(());
        }
        let edit = VersionEdit {
            prev_log_number: Some(0),
            last_sequence: Some(self.state.lock().table_sequence),
            ..VersionEdit::default()
        };
        self.write_edits(&mut manifest, vec![edit], Urgency::Background)
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
        let oldest = self.state.lock().logs.oldest_from(kept_log);
        let Some(oldest) = oldest.filter(|&n| n > manifest.logs().oldest) else {
            return Ok(());
        };
        // A new MANIFEST becomes current after the directory was synced.
        let begins =
            self.logs.dir() == self.c.dir && manifest.is_full(Urgency::Background, &self.options());
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
        let newest = || self.state.lock().logs.newest();
        self.logs.settle_name(number, newest)
    }

    /// Syncs a directory of tables. If logs are in it, too, their names are durable then.
    ///
    /// # Errors
    /// Of that sync.
    pub(crate) fn sync_tables_dir(&self, dir: &Path) -> Result<()> {
        let newest = self.state.lock().logs.newest();
        self.c.dirs.sync(dir)?;
        if dir == self.logs.dir() {
            self.logs.names_are_durable(newest.unwrap_or(0));
        }
        Ok(())
    }

    /// Records where logs end that a clean close has synced: `current`, if it is to be missed, and the
    /// older ones of which no edit has told it yet. The MANIFEST is not started anew for that.
    pub(crate) fn record_log_ends(&self, current: Option<(FileNumber, u64)>) -> Result<()> {
        if self.c.options.track_and_verify_wals_in_manifest {
            return self.track_synced_logs(current.as_slice());
        }
        let mut manifest = self.catalog.lock();
        if !manifest.is_open() {
            return Ok(());
        }
        let edit = {
            let mut state = self.state.lock();
            state.logs.note_ends(current);
            let sequence = state.table_sequence;
            state.logs.take_ends(&[], sequence)
        };
        let Some(edit) = edit else {
            return Ok(());
        };
        // RocksDB writes nothing here: the next open is to number its files as after RocksDB.
        let reporter = &self.reporter;
        let written = (self.catalog).append_as_they_are(&mut manifest, vec![edit], reporter);
        written.inspect_err(|e| self.set_error(Place::Manifest, e))
    }

    /// Reads the MANIFEST that was closed, and writes it anew from memory if a record of it cannot be
    /// read.
    ///
    /// # Errors
    /// Those of writing it anew.
    pub(crate) fn verify_manifest(&self, manifest: &mut ManifestState) -> Result<()> {
        let path = self.path(filenames::manifest_file_name(manifest.number()));
        let Err(e) = read_to_end(&self.c.env, &path) else {
            return Ok(());
        };
        self.reporter.log().error(format_args!(
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
        manifest.close()
    }

    /// Appends records to the MANIFEST and syncs it, or starts a new MANIFEST with them. Requires:
    /// the manifest token.
    ///
    /// # Errors
    /// Those of the MANIFEST, which are background errors: the next edit starts a new one (E2).
    pub(super) fn write_edits(
        &self,
        manifest: &mut ManifestState,
        mut records: Vec<VersionEdit>,
        urgency: Urgency,
    ) -> Result<()> {
        // In front: never between the records of an atomic group.
        let ends = {
            let mut state = self.state.lock();
            let sequence = state.table_sequence;
            state.logs.take_ends(&records, sequence)
        };
        if let Some(ends) = ends {
            records.insert(0, ends);
        }
        let written = match manifest.is_full(urgency, &self.options()) {
            false => {
                let appended = self.catalog.append(manifest, records, &self.reporter);
                appended.map(|()| None)
            }
            true => {
                let facts = |manifest: &ManifestState| self.snapshot_facts(manifest);
                let (marks, reporter) = (self.current_marks(), &self.reporter);
                self.catalog
                    .begin(manifest, facts, records, &marks, reporter)
            }
        };
        let old = written.inspect_err(|e| self.set_error(Place::Manifest, e))?;
        if let Some(path) = old {
            // The new MANIFEST is current.
            self.c.purge.delete_other(path);
        }
        Ok(())
    }

    fn snapshot_facts(&self, manifest: &ManifestState) -> SnapshotFacts {
        let db_id = (self.c.options.write_dbid_to_manifest).then(|| self.c.db_id.clone());
        SnapshotFacts::of(&self.state.lock(), manifest, db_id)
    }

    /// The lines of CURRENT about a speed disk.
    fn current_marks(&self) -> CurrentMarks {
        let (logs, tables) = (self.c.speed.as_ref(), self.c.resources.tables.as_ref());
        CurrentMarks {
            logs: logs.and_then(|s| s.mark.get()).cloned(),
            tables: tables.and_then(|t| t.mark.get()).cloned(),
        }
    }
}
