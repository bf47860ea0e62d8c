//! The MANIFEST of an open database, and the numbers of its files (V4).
//!
//! The catalog appends edits to the MANIFEST or begins a new one, and knows how much of it is durable. It installs no
//! version and schedules nothing: whoever writes edits holds the manifest token ([`Catalog::lock`]), which may be held
//! during I/O, and installs what they lead to afterwards (V3).

use super::manifest::{SnapshotFacts, whole_manifest, write_current};
use super::state::rank;
use super::{Directories, ManifestExtent, Reporter};
use crate::options::DbOptions;
use crate::version::{CurrentMarks, VersionEdit, filenames};
use spanlith_base::stats::Histogram;
use spanlith_base::sync::{Mutex, MutexGuard};
use spanlith_base::{FileNumber, Result, SequenceNumber};
use spanlith_env::{Env, IoActivity};
use spanlith_wal::LogWriter;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Describes who waits for an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A caller: families come and go, logs are synced.
    Foreground,
    /// A flush or a compaction.
    Background,
}

/// Describes what a MANIFEST says of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestLogs {
    /// Logs that it tracks, because they will not grow (evidence) or were synced
    /// (`track_and_verify_wals_in_manifest`), and their synced bytes.
    pub tracked: BTreeMap<FileNumber, u64>,
    /// Logs that are needed and that a recovery cut, and where.
    pub cuts: BTreeMap<FileNumber, u64>,
    /// Logs that do not grow any more and are not tracked, and their synced bytes.
    pub ends: BTreeMap<FileNumber, u64>,
    /// The oldest log that it says recovery needs; 0 if it does not say.
    pub oldest: FileNumber,
}

impl ManifestLogs {
    /// Logs below `kept` are gone from what is known of logs.
    fn retain(&mut self, kept: FileNumber) {
        for map in [&mut self.tracked, &mut self.cuts, &mut self.ends] {
            map.retain(|&n, _| n >= kept);
        }
    }

    /// Takes over what `records`, which are durable, say.
    fn note(&mut self, records: &[VersionEdit]) {
        for wal in records.iter().flat_map(|e| &e.wal_additions) {
            let size = wal.synced_size.unwrap_or(0);
            self.tracked.insert(wal.number, size);
        }
        let cuts = records.iter().flat_map(|e| &e.log_cuts);
        self.cuts.extend(cuts.copied());
        let ends = records.iter().flat_map(|e| &e.log_ends);
        self.ends.extend(ends.copied());
        let oldest = records.iter().filter_map(|e| e.oldest_log);
        self.oldest = oldest.fold(self.oldest, u64::max);
    }
}

/// The MANIFEST. Guarded by the manifest token.
pub(crate) struct ManifestState {
    /// `None`: the next edit starts a new file (at open, and after a failed write: E2).
    writer: Option<LogWriter>,
    /// Number of the file named by CURRENT.
    number: FileNumber,
    /// Bytes of the snapshot that it began with; 0 if it does not say.
    compact_size: u64,
    /// Its bytes when this process began with it.
    first_size: u64,
    logs: ManifestLogs,
}

impl ManifestState {
    /// The MANIFEST of that number, which the first edit replaces.
    fn of_number(number: FileNumber) -> Self {
        Self {
            writer: None,
            number,
            compact_size: 0,
            first_size: 0,
            // Logs that an earlier one told of were checked and replayed; they are gone when the next MANIFEST begins.
            logs: ManifestLogs::default(),
        }
    }

    /// Number of the file named by CURRENT.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Its bytes, if it is open.
    pub(crate) fn len(&self) -> Option<u64> {
        self.writer.as_ref().map(LogWriter::len)
    }

    /// Returns whether the next edit is appended to it.
    pub(crate) fn is_open(&self) -> bool {
        self.writer.is_some()
    }

    /// Returns whether all edits in it are durable, as far as this process writes it.
    pub(crate) fn is_durable(&self) -> bool {
        self.writer.as_ref().is_none_or(LogWriter::is_synced)
    }

    /// Returns whether edits were appended since this process began with it.
    pub(crate) fn has_grown(&self) -> bool {
        self.len().unwrap_or(0) > self.first_size
    }

    /// Returns what it says of logs.
    pub(crate) fn logs(&self) -> &ManifestLogs {
        &self.logs
    }

    /// Goes on with the file that is there, of which `first_size` bytes are from before.
    pub(crate) fn go_on(
        &mut self,
        writer: LogWriter,
        first_size: u64,
        compact_size: u64,
        logs: ManifestLogs,
    ) {
        self.first_size = first_size;
        self.compact_size = compact_size;
        self.logs = logs;
        self.writer = Some(writer);
    }

    /// Closes it; the next edit starts a new file.
    ///
    /// # Errors
    /// Of closing the file.
    pub(crate) fn close(&mut self) -> Result<()> {
        match self.writer.take() {
            Some(mut writer) => writer.close(),
            None => Ok(()),
        }
    }

    /// These logs are synced, and it says so.
    pub(super) fn note_tracked(&mut self, synced: Vec<(FileNumber, u64)>) {
        self.logs.tracked.extend(synced);
    }

    /// Logs below `kept_log` are gone from what is known of logs.
    pub(super) fn retain_logs(&mut self, kept_log: FileNumber) {
        self.logs.retain(kept_log);
    }

    /// The record that says that tracked logs below `kept_log` are about to go, if there are any; a
    /// record of its own, never in one with files.
    pub(super) fn forget_logs(
        &self,
        kept_log: FileNumber,
        last_sequence: SequenceNumber,
    ) -> Option<VersionEdit> {
        self.logs.tracked.range(..kept_log).next()?;
        Some(VersionEdit {
            wal_deletion: Some(kept_log),
            prev_log_number: Some(0),
            last_sequence: Some(last_sequence),
            ..VersionEdit::default()
        })
    }

    /// Bytes beyond which it is written anew: what the options say, or a multiple of the
    /// snapshot that it began with. Somebody waits for an edit in the foreground, so a quarter is
    /// added there and the work is left to background jobs, as in RocksDB.
    fn limit(&self, urgency: Urgency, o: &DbOptions) -> u64 {
        let growth = u128::from(o.max_manifest_space_amp_pct.max(0).unsigned_abs());
        let wanted = u128::from(self.compact_size) * (100 + growth) / 100;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let limit = o.max_manifest_file_size.max(wanted);
        match urgency {
            Urgency::Background => limit,
            Urgency::Foreground => limit.saturating_add(limit / 4),
        }
    }

    /// Returns whether the next edit starts a new file.
    pub(super) fn is_full(&self, urgency: Urgency, options: &DbOptions) -> bool {
        let len = self.len();
        len.is_none_or(|len| len > self.limit(urgency, options))
    }
}

/// See the head of the module.
pub(crate) struct Catalog {
    env: Env,
    dir: PathBuf,
    dirs: Arc<Directories>,
    /// Records say how much before them is durable.
    has_evidence: bool,
    manifest: Mutex<ManifestState>,
    /// Copy of `ManifestState::number` for those who do not wait for the token. Relaxed: a hint.
    number: AtomicU64,
    /// How much of the MANIFEST is durable.
    extent: Mutex<ManifestExtent>,
    /// The next unused file number (V4). Relaxed: that no number is given twice is all that counts.
    next_file: AtomicU64,
}

impl Catalog {
    /// The catalog in `dir`, whose CURRENT names MANIFEST `number`; files get numbers from `next_file` on.
    pub(crate) fn new(
        env: Env,
        dir: PathBuf,
        dirs: Arc<Directories>,
        has_evidence: bool,
        (number, next_file): (FileNumber, FileNumber),
    ) -> Self {
        Self {
            env,
            dir,
            dirs,
            has_evidence,
            manifest: Mutex::new(rank::MANIFEST, ManifestState::of_number(number)),
            number: AtomicU64::new(number),
            extent: Mutex::new(rank::LEAF, ManifestExtent::default()),
            next_file: AtomicU64::new(next_file),
        }
    }

    /// The manifest token.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ManifestState> {
        self.manifest.lock()
    }

    /// A file number nobody has used (V4).
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of the next file.
    pub(crate) fn next_file(&self) -> FileNumber {
        self.next_file.load(Ordering::Relaxed)
    }

    /// Number of the MANIFEST that CURRENT names, without the token.
    pub(crate) fn manifest_number(&self) -> FileNumber {
        self.number.load(Ordering::Relaxed)
    }

    /// How much of which MANIFEST is durable.
    pub(crate) fn extent(&self) -> ManifestExtent {
        *self.extent.lock()
    }

    fn note_extent(&self, manifest: &ManifestState) {
        if let Some(writer) = &manifest.writer {
            *self.extent.lock() = ManifestExtent {
                number: manifest.number,
                size: writer.synced_len(),
            };
        }
    }

    /// Appends records to the present MANIFEST and syncs it; nothing happens if none is open.
    ///
    /// # Errors
    /// Of the file: the next edit starts a new one (E2).
    pub(super) fn append(
        &self,
        manifest: &mut ManifestState,
        mut records: Vec<VersionEdit>,
        reporter: &Reporter,
    ) -> Result<()> {
        let next_file = self.next_file();
        for edit in &mut records {
            edit.next_file_number = Some(next_file);
        }
        self.append_as_they_are(manifest, records, reporter)
    }

    /// As [`Self::append`], without the number of the next file.
    pub(super) fn append_as_they_are(
        &self,
        manifest: &mut ManifestState,
        mut records: Vec<VersionEdit>,
        reporter: &Reporter,
    ) -> Result<()> {
        let Some(writer) = &mut manifest.writer else {
            return Ok(());
        };
        let durable = writer.synced_len();
        let mark = (self.has_evidence && durable > 0).then_some(durable);
        for edit in &mut records {
            edit.manifest_mark = mark;
        }
        debug_assert!(
            (records.iter()).all(|edit| VersionEdit::decode(&edit.encode()).is_ok()),
            "V3: an edit that is recorded reads back"
        );
        let written = records
            .iter()
            .try_for_each(|edit| writer.add_record(&edit.encode()))
            .and_then(|()| sync(writer, reporter));
        if let Err(e) = written {
            manifest.writer = None;
            return Err(e);
        }
        debug_assert!(
            manifest.is_durable(),
            "V3: an edit is durable once it is recorded"
        );
        self.note_extent(manifest);
        manifest.logs.note(&records);
        Ok(())
    }

    /// Begins a new MANIFEST with a snapshot of what is installed, and `records` after it, synced, and makes it current.
    /// `facts` gathers the snapshot after the number of the file was given away. Returns the path of the one before, which is
    /// obsolete.
    ///
    /// # Errors
    /// Of the file system: the next edit tries again.
    pub(super) fn begin(
        &self,
        manifest: &mut ManifestState,
        facts: impl FnOnce(&ManifestState) -> SnapshotFacts,
        mut records: Vec<VersionEdit>,
        marks: &CurrentMarks,
        reporter: &Reporter,
    ) -> Result<Option<PathBuf>> {
        let number = self.new_file_number();
        let next_file = self.next_file();
        for edit in &mut records {
            edit.next_file_number = Some(next_file);
        }
        let facts = facts(manifest);
        if let Some(first) = records.first_mut()
            && facts.max_family > 0
        {
            // Ids of families that were dropped are not used again.
            let max = first.max_column_family.unwrap_or(0).max(facts.max_family);
            first.max_column_family = Some(max);
        }
        let rolled = self.roll(number, &facts, &records, marks, reporter);
        let (writer, compact_size) = rolled.inspect_err(|_| manifest.writer = None)?;
        let old = std::mem::replace(&mut manifest.number, number);
        manifest.compact_size = compact_size;
        manifest.first_size = writer.len();
        manifest.writer = Some(writer);
        self.number.store(number, Ordering::Relaxed);
        self.note_extent(manifest);
        manifest.logs.note(&records);
        let is_other = old != number && old != 0;
        Ok(is_other.then(|| self.dir.join(filenames::manifest_file_name(old))))
    }

    /// Writes MANIFEST `number` and makes it current. The second value is the size of the snapshot in bytes.
    fn roll(
        &self,
        number: FileNumber,
        facts: &SnapshotFacts,
        edits: &[VersionEdit],
        marks: &CurrentMarks,
        reporter: &Reporter,
    ) -> Result<(LogWriter, u64)> {
        let path = self.dir.join(filenames::manifest_file_name(number));
        let mut writer = LogWriter::new(self.env.fs.create(&path, IoActivity::Manifest)?, 0);
        let (records, compact_size) = whole_manifest(facts, edits, self.has_evidence);
        for record in &records {
            writer.add_record(record)?;
        }
        sync(&mut writer, reporter)?;
        let dir = self.dirs.get(&self.dir)?;
        dir.sync()?;
        debug_assert!(
            writer.is_synced(),
            "E1: CURRENT names a MANIFEST whose bytes and name are durable"
        );
        write_current(&self.env, &self.dir, &*dir, number, marks)?;
        Ok((writer, compact_size))
    }
}

/// Syncs a MANIFEST, and records how long that took.
fn sync(writer: &mut LogWriter, reporter: &Reporter) -> Result<()> {
    let began = reporter.timed();
    let synced = writer.sync();
    reporter.record_since(began, Histogram::ManifestFileSyncMicros);
    synced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info_log::InfoLog;
    use spanlith_env::{FileSystem, MemFs};
    use std::path::Path;

    fn catalog() -> (Catalog, Reporter, Arc<MemFs>) {
        let fs = Arc::new(MemFs::new());
        fs.create_dir_if_missing(Path::new("/db")).unwrap();
        let env = Env::test(fs.clone(), 1).0;
        let dirs = Arc::new(Directories::new(env.fs.clone()));
        let reporter = Reporter::new(InfoLog::none(), Arc::default(), None, env.clock.clone());
        let catalog = Catalog::new(env, PathBuf::from("/db"), dirs, true, (0, 7));
        (catalog, reporter, fs)
    }

    fn nothing(_: &ManifestState) -> SnapshotFacts {
        SnapshotFacts::default()
    }

    fn edit(oldest_log: FileNumber) -> VersionEdit {
        VersionEdit {
            oldest_log: Some(oldest_log),
            ..VersionEdit::default()
        }
    }

    #[test]
    fn v4_a_number_is_given_once_and_a_new_manifest_takes_one() {
        let (catalog, reporter, fs) = catalog();
        let mut manifest = catalog.lock();
        assert!(manifest.is_full(Urgency::Background, &DbOptions::default()));
        let marks = CurrentMarks::default();
        let old = catalog.begin(&mut manifest, nothing, vec![edit(3)], &marks, &reporter);
        assert_eq!(old.unwrap(), None, "there was none before");
        assert_eq!((manifest.number(), catalog.manifest_number()), (7, 7));
        assert_eq!((catalog.new_file_number(), catalog.next_file()), (8, 9));
        assert_eq!(manifest.logs().oldest, 3);
        assert_eq!(catalog.extent().number, 7);
        assert!(!manifest.has_grown());

        let before = catalog.extent().size;
        catalog
            .append(&mut manifest, vec![edit(5)], &reporter)
            .unwrap();
        assert!(manifest.has_grown() && catalog.extent().size > before);
        assert_eq!(manifest.logs().oldest, 5);

        let old = catalog.begin(&mut manifest, nothing, vec![edit(4)], &marks, &reporter);
        assert_eq!(old.unwrap(), Some(PathBuf::from("/db/MANIFEST-000007")));
        assert_eq!((manifest.number(), catalog.next_file()), (9, 10));
        assert_eq!(manifest.logs().oldest, 5, "it only rises");
        let current = fs.size(Path::new("/db/CURRENT")).unwrap();
        assert_eq!(current, "MANIFEST-000009\n".len() as u64);
    }

    #[test]
    fn an_edit_without_an_open_manifest_writes_nothing() {
        let (catalog, reporter, fs) = catalog();
        let mut manifest = catalog.lock();
        catalog
            .append(&mut manifest, vec![edit(5)], &reporter)
            .unwrap();
        assert!(!manifest.is_open() && manifest.logs().oldest == 0);
        assert!(fs.list(Path::new("/db")).unwrap().is_empty());
    }

    #[test]
    fn logs_that_are_tracked_are_forgotten_in_a_record_of_its_own() {
        let mut manifest = ManifestState::of_number(1);
        manifest.note_tracked(vec![(3, 30), (5, 50)]);
        assert!(manifest.forget_logs(3, 9).is_none());
        let edit = manifest.forget_logs(4, 9).unwrap();
        assert_eq!((edit.wal_deletion, edit.last_sequence), (Some(4), Some(9)));
        manifest.retain_logs(4);
        assert!(manifest.forget_logs(5, 9).is_none());
        assert_eq!(manifest.logs().tracked.len(), 1);
    }
}
