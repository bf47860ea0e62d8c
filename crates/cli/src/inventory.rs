//! Describes what a database directory holds, read without opening the database.
//!
//! Reads CURRENT, the MANIFEST, IDENTITY and the newest OPTIONS file, and lists the directory.
//! Understands more than the engine executes (families, blob files), so that it can describe a
//! directory that the engine refuses. Damage of the MANIFEST is collected, not fatal: what stands
//! before it is shown. Nothing is locked and nothing is written.

use crate::term::Paint;
use spanlith::inspect::judge_manifest;
use spanlith::options::ini::parse_options_file_with;
use spanlith::options::{ParsedOptions, objects};
use spanlith::version::{
    BlobFileAddition, FileKind, NewFile, VersionEdit, filenames, parse_file_name,
};
use spanlith::{Comparator, Error, ErrorKind, Result, SubCode};
pub use spanlith::{Finding, Grade};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_env::{EntryKind, Env};
use spanlith_table::TableProperties;
use spanlith_wal::{LogReader, ReadEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longest CURRENT, IDENTITY or OPTIONS file that is read.
const SMALL_FILE_MAX: u64 = 16 << 20;

/// Tables of a family that are asked for the merge operator; a program that opens a database without it writes
/// tables that name none.
const TABLES_ASKED: usize = 16;

/// A blob file as the MANIFEST describes it.
#[derive(Clone, Debug)]
pub struct Blobs {
    /// Says what was said when it was added.
    pub added: BlobFileAddition,
    /// Blobs that nothing refers to any more.
    pub garbage_count: u64,
    /// Bytes of their records.
    pub garbage_bytes: u64,
}

/// One column family as the MANIFEST describes it.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// Name of its comparator.
    pub comparator: String,
    /// Logs of a smaller number hold nothing the family has not flushed.
    pub log_number: u64,
    /// Its tables by level and number.
    pub files: BTreeMap<(u32, u64), NewFile>,
    /// Its blob files.
    pub blobs: BTreeMap<u64, Blobs>,
    /// Where compactions of a level go on, as internal keys.
    pub compact_cursors: BTreeMap<u32, Vec<u8>>,
    /// Keys in its tables were written without their timestamps.
    pub is_stripped: bool,
}

impl Family {
    /// Bytes of the records of its blob files.
    pub fn blob_bytes(&self) -> u64 {
        self.blobs.values().map(|b| b.added.total_bytes).sum()
    }

    /// Number of files and bytes of each level that has files.
    pub fn levels(&self) -> BTreeMap<u32, (u64, u64)> {
        let mut out = BTreeMap::new();
        for f in self.files.values() {
            let level: &mut (u64, u64) = out.entry(f.level).or_default();
            level.0 += 1;
            level.1 += f.size;
        }
        out
    }
}

/// The newest OPTIONS file.
#[derive(Debug)]
pub struct OptionsFile {
    /// Its name.
    pub name: String,
    /// Says what it says, or why it cannot be understood.
    pub parsed: Result<ParsedOptions>,
}

/// Describes what a directory holds.
#[derive(Debug)]
pub struct Inventory {
    /// The directory.
    pub dir: PathBuf,
    /// Where the logs are.
    pub wal_dir: PathBuf,
    /// The directory on a speed disk that has the tables with its path id.
    pub tables_dir: Option<PathBuf>,
    /// Where they should be and are not: they are nowhere.
    pub missing_wal_dir: Option<PathBuf>,
    /// Name of the live MANIFEST.
    pub manifest: String,
    /// Records of the MANIFEST.
    pub edits: u64,
    /// Bytes of the MANIFEST.
    pub manifest_bytes: u64,
    /// Where its last record that can be read from the front ends.
    pub manifest_end: u64,
    /// Logs that do not grow any more, and how many bytes of them were synced.
    pub log_ends: BTreeMap<u64, u64>,
    /// Logs that a recovery cut, and where.
    pub log_cuts: BTreeMap<u64, u64>,
    /// The oldest log that recovery needs, which was there when the MANIFEST said so; 0 if it does not say.
    pub oldest_log: u64,
    /// Families by id; always holds the default one.
    pub families: BTreeMap<u32, Family>,
    /// Ids of dropped families.
    pub dropped: BTreeSet<u32>,
    /// Id of the database according to the MANIFEST.
    pub db_id: Option<String>,
    /// Id of the database according to IDENTITY.
    pub identity: Option<String>,
    /// Next unused file number.
    pub next_file: u64,
    /// Highest sequence number that has reached tables.
    pub last_sequence: u64,
    /// Logs of a smaller number are needed by nobody.
    pub min_log_number: u64,
    /// Sizes of files of the directory, by name.
    pub listing: BTreeMap<String, u64>,
    /// Sizes of the logs, by number.
    pub logs: BTreeMap<u64, u64>,
    /// The newest OPTIONS file.
    pub options: Option<OptionsFile>,
    /// Says what is wrong with the files read here.
    pub findings: Vec<Finding>,
    /// The records of the MANIFEST if it was made of the tables, because none can be read.
    pub made: Option<Vec<Vec<u8>>>,
}

impl Inventory {
    /// Reads the directory.
    ///
    /// # Errors
    /// Of listing the directory and of CURRENT; everything else becomes a finding.
    pub fn read(dir: &Path) -> Result<Self> {
        Self::read_with_logs(dir, None)
    }

    /// As [`Self::read`]; the logs are in `wal_dir` if it is given.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_with_logs(dir: &Path, wal_dir: Option<&Path>) -> Result<Self> {
        refuse_speed_disk(dir)?;
        Self::read_on(&Env::system(), dir, wal_dir)
    }

    /// As [`Self::read_with_logs`], with the logs that are on a speed disk: files are read by way of
    /// [`crate::reading::env`] then.
    ///
    /// # Errors
    /// As [`Self::read`], and of the disk.
    pub fn read_with_disk(dir: &Path, wal_dir: Option<&Path>) -> Result<Self> {
        let damage = crate::reading::take_disk(dir)?;
        let mut i = Self::read_on(&crate::reading::env(), dir, wal_dir)?;
        i.findings.extend(damage);
        Ok(i)
    }

    /// As [`Self::read_leniently`], with the logs that are on a speed disk.
    ///
    /// # Errors
    /// Of listing the directory, and of the disk.
    pub fn read_leniently_with_disk(dir: &Path, wal_dir: Option<&Path>) -> Result<Option<Self>> {
        let damage = crate::reading::take_disk(dir)?;
        let mut i = Self::read_leniently_on(&crate::reading::env(), dir, wal_dir)?;
        if let Some(i) = &mut i {
            i.findings.extend(damage);
        }
        Ok(i)
    }

    /// As [`Self::read_leniently_with_disk`]; if the disk cannot be used, without its logs, and with the error.
    ///
    /// # Errors
    /// Of listing the directory.
    pub fn read_leniently_despite_disk(
        dir: &Path,
        wal_dir: Option<&Path>,
    ) -> Result<(Option<Self>, Option<Error>)> {
        let (damage, error) = match crate::reading::take_disk(dir) {
            Ok(damage) => (damage, None),
            Err(e) => (None, Some(e)),
        };
        let mut i = Self::read_leniently_on(&crate::reading::env(), dir, wal_dir)?;
        if let Some(i) = &mut i {
            i.findings.extend(damage);
        }
        Ok((i, error))
    }

    /// As [`Self::read_with_logs`], of a directory on another file system.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_on(env: &Env, dir: &Path, wal_dir: Option<&Path>) -> Result<Self> {
        let listing = sizes(env, dir)?;
        let number = current(env, dir)?;
        Ok(Self::read_from(env, dir, wal_dir, listing, number))
    }

    /// As [`Self::read_with_logs`]; if CURRENT cannot be used, that is a finding and the newest MANIFEST
    /// is read, and if there is none, that is a finding too. `None` if no file of a database is there.
    ///
    /// # Errors
    /// Of listing the directory.
    pub fn read_leniently(dir: &Path, wal_dir: Option<&Path>) -> Result<Option<Self>> {
        refuse_speed_disk(dir)?;
        Self::read_leniently_on(&Env::system(), dir, wal_dir)
    }

    fn read_leniently_on(env: &Env, dir: &Path, wal_dir: Option<&Path>) -> Result<Option<Self>> {
        let listing = sizes(env, dir)?;
        let newest = listing
            .keys()
            .filter_map(|name| match parse_file_name(name) {
                Some(FileKind::Manifest(n)) => Some(n),
                _ => None,
            });
        let newest = newest.max();
        let is_there = |n: &u64| listing.contains_key(&filenames::manifest_file_name(*n));
        let named = current(env, dir).and_then(|n| match newest {
            Some(_) if !is_there(&n) => Err(Error::corruption(format!(
                "names {}, which is not there",
                filenames::manifest_file_name(n)
            ))),
            _ => Ok(n),
        });
        Ok(match (named, newest) {
            (Ok(number), _) => Some(Self::read_from(env, dir, wal_dir, listing, number)),
            (Err(_), None) if !crate::fail::holds_remains(dir) => None,
            (Err(e), None) => Some(Self::without_manifest(env, dir, wal_dir, listing, &e)),
            (Err(e), Some(number)) => {
                let mut i = Self::read_from(env, dir, wal_dir, listing, number);
                let name = filenames::CURRENT_FILE;
                i.findings
                    .insert(0, Finding::damage(name, None, e.to_string()));
                Some(i)
            }
        })
    }

    /// Of a directory that has tables, blob files or logs, and neither a CURRENT that can be used nor a MANIFEST.
    fn without_manifest(
        env: &Env,
        dir: &Path,
        wal_dir: Option<&Path>,
        listing: BTreeMap<String, u64>,
        current: &Error,
    ) -> Self {
        let numbers = listing
            .keys()
            .filter_map(|name| parse_file_name(name)?.number());
        let number = numbers.max().unwrap_or(0) + 1;
        let mut i = Self::read_from(env, dir, wal_dir, listing, number);
        // No file of that name was ever there.
        let name = std::mem::replace(&mut i.manifest, "MANIFEST".to_string());
        i.findings.retain(|f| f.file != name);
        let missing = "missing: nothing says which files make up the database";
        let mut found = vec![Finding::damage(&i.manifest, None, missing)];
        let what = match current.subcode() {
            Some(SubCode::PathNotFound) => "missing: nothing names the MANIFEST".to_string(),
            _ => current.to_string(),
        };
        found.push(Finding::damage(filenames::CURRENT_FILE, None, what));
        i.findings.splice(0..0, found);
        i
    }

    /// Returns what a MANIFEST says, whether CURRENT names it or not.
    ///
    /// # Errors
    /// Of a name that is none of a MANIFEST, and of reading the file.
    pub fn read_manifest_file(dir: &Path, name: &str) -> Result<Self> {
        let Some(FileKind::Manifest(number)) = parse_file_name(name) else {
            return Err(Error::invalid_argument(format!("{name} is no MANIFEST")));
        };
        let env = Env::system();
        env.fs.size(&dir.join(name))?;
        let listing = sizes(&env, dir)?;
        Ok(Self::read_from(&env, dir, None, listing, number))
    }

    fn read_from(
        env: &Env,
        dir: &Path,
        wal_dir: Option<&Path>,
        listing: BTreeMap<String, u64>,
        number: u64,
    ) -> Self {
        let manifest = filenames::manifest_file_name(number);
        let mut inventory = Self {
            dir: dir.to_path_buf(),
            wal_dir: dir.to_path_buf(),
            tables_dir: tables_dir(env, dir),
            missing_wal_dir: None,
            manifest_bytes: listing.get(&manifest).copied().unwrap_or(0),
            manifest,
            manifest_end: 0,
            log_ends: BTreeMap::new(),
            log_cuts: BTreeMap::new(),
            oldest_log: 0,
            edits: 0,
            families: BTreeMap::from([(
                0,
                Family {
                    name: "default".to_string(),
                    ..Family::default()
                },
            )]),
            dropped: BTreeSet::new(),
            db_id: None,
            identity: None,
            next_file: 0,
            last_sequence: 0,
            min_log_number: 0,
            listing,
            logs: BTreeMap::new(),
            options: None,
            findings: Vec::new(),
            made: None,
        };
        inventory.read_identity(env);
        inventory.read_options(env);
        inventory.read_manifest(env);
        inventory.find_logs(env, wal_dir);
        inventory.expect_a_log();
        inventory.complete_comparators();
        inventory
    }

    /// A MANIFEST need not name a comparator; then the OPTIONS file does, or it is the default.
    fn complete_comparators(&mut self) {
        let parsed = self.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
        for family in self
            .families
            .values_mut()
            .filter(|f| f.comparator.is_empty())
        {
            family.comparator = match parsed.and_then(|p| p.cf(&family.name)) {
                Some(cf) => cf.options.comparator.clone(),
                None => Comparator::Bytewise.name().to_string(),
            };
        }
    }

    /// The family called `name`.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.values().find(|f| f.name == name)
    }

    /// Properties of a family's newest table that can be read.
    pub fn table_properties(&self, family: &str) -> Option<TableProperties> {
        let mut files: Vec<&NewFile> = self.family(family)?.files.values().collect();
        files.sort_by_key(|f| std::cmp::Reverse(f.number));
        files.into_iter().find_map(|f| {
            let path = self.dir.join(filenames::table_file_name(f.number));
            let reader = crate::dump::open_table(&path).ok()?;
            Some(reader.properties().clone())
        })
    }

    /// Text of a family's merge operator: as the OPTIONS file has it or, where that names none, as the newest
    /// tables do, which know the name only. Empty if nobody says.
    pub fn merge_operator(&self, family: &str) -> String {
        let parsed = self.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
        if let Some(cf) = parsed.and_then(|p| p.cf(family))
            && !objects::is_null(&cf.options.merge_operator)
        {
            return cf.options.merge_operator.clone();
        }
        let Some(family) = self.family(family) else {
            return String::new();
        };
        let mut files: Vec<&NewFile> = family.files.values().collect();
        files.sort_by_key(|f| std::cmp::Reverse(f.number));
        let names = files.into_iter().take(TABLES_ASKED).filter_map(|f| {
            let path = self.dir.join(crate::tables::name(self, f.number));
            let reader = crate::dump::open_table(&path).ok()?;
            Some(reader.properties().merge_operator_name.clone())
        });
        let mut named = names.filter(|name| !objects::is_null(name));
        named.next().unwrap_or_default()
    }

    /// Number of the oldest log that recovery reads.
    pub fn first_live_log(&self) -> u64 {
        let families = self.families.values().map(|f| f.log_number).min();
        families.unwrap_or(0).max(self.min_log_number)
    }

    /// The logs that recovery reads, with their sizes.
    pub fn live_logs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.logs
            .range(self.first_live_log()..)
            .map(|(&n, &size)| (n, size))
    }

    /// Bytes of all live tables.
    pub fn table_bytes(&self) -> u64 {
        self.families
            .values()
            .flat_map(|f| f.files.values())
            .map(|f| f.size)
            .sum()
    }

    /// Bytes of the records of all blob files.
    pub fn blob_bytes(&self) -> u64 {
        self.families.values().map(Family::blob_bytes).sum()
    }

    /// The release that wrote the newest OPTIONS file.
    pub fn writer(&self) -> Option<String> {
        let parsed = self.options.as_ref()?.parsed.as_ref().ok()?;
        let [major, minor, patch] = parsed.rocksdb_version;
        (major > 0).then(|| format!("{major}.{minor}.{patch}"))
    }

    /// Damage of the files read here, as lines.
    pub fn damage(&self) -> impl Iterator<Item = String> + '_ {
        let damage = self.findings.iter().filter(|f| f.grade != Grade::Note);
        damage.map(|f| format!("{}: {}", f.file, f.what))
    }

    /// The exit code of a verb that shows what is here. Damage is told first: what the MANIFEST does not
    /// say any more looks as if it were not part of the database.
    pub fn exit_code(&self) -> ExitCode {
        let mut code = ExitCode::SUCCESS;
        for line in self.damage() {
            code = ExitCode::FAILURE;
            tell!("{} {line}", Paint::stderr().red("unread:"));
        }
        if code != ExitCode::SUCCESS {
            let dir = crate::fail::shell_word(&self.dir);
            tell!(
                "next:  spanlith doctor --db {dir} says what is at stake; delete nothing until then"
            );
        }
        code
    }

    fn read_identity(&mut self, env: &Env) {
        let path = self.dir.join(filenames::IDENTITY_FILE);
        match env.fs.read_all(&path, SMALL_FILE_MAX) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).trim_end().to_string();
                self.identity = (!text.is_empty()).then_some(text);
            }
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => {}
            Err(e) => {
                self.findings
                    .push(Finding::from_error(filenames::IDENTITY_FILE, None, &e));
            }
        }
    }

    fn read_options(&mut self, env: &Env) {
        let newest = self
            .listing
            .keys()
            .filter_map(|name| match parse_file_name(name) {
                Some(FileKind::Options(n)) => Some((n, name.clone())),
                _ => None,
            })
            .max();
        let Some((_, name)) = newest else { return };
        let parsed = env
            .fs
            .read_all(&self.dir.join(&name), SMALL_FILE_MAX)
            .and_then(|bytes| {
                let text = String::from_utf8(bytes)
                    .map_err(|_| Error::corruption("OPTIONS file is not text"))?;
                parse_options_file_with(&text, true)
            });
        if let Err(e) = &parsed {
            self.findings
                .push(Finding::note(&name, None, e.to_string()));
        }
        self.options = Some(OptionsFile { name, parsed });
    }

    /// The logs are where the caller says, else in the directory, else where the options say: a
    /// directory that was copied with its logs may name the place of the original.
    fn find_logs(&mut self, env: &Env, told: Option<&Path>) {
        if let Some(dir) = told {
            return self.take_logs(env, dir);
        }
        for (name, &size) in &self.listing {
            if let Some(FileKind::Log(n)) = parse_file_name(name) {
                self.logs.insert(n, size);
            }
        }
        let elsewhere = self
            .options
            .as_ref()
            .and_then(|o| o.parsed.as_ref().ok())
            .map(|p| PathBuf::from(&p.db.wal_dir))
            .filter(|d| !d.as_os_str().is_empty() && *d != self.dir);
        let Some(dir) = elsewhere.filter(|_| self.live_logs().next().is_none()) else {
            return;
        };
        if dir.is_dir() {
            self.take_logs(env, &dir);
        } else {
            self.missing_wal_dir = Some(dir);
        }
    }

    /// A process that has a database open has a log, from the open on, whose number is not smaller than any that the MANIFEST
    /// says is needed. Only a copy that was made after a flush can do without.
    fn expect_a_log(&mut self) {
        let first = self.first_live_log();
        let is_there = self.live_logs().next().is_some();
        // Where it is written down how much of a log was synced, that proves more.
        let is_proven = self.log_ends.range(first..).any(|(_, &synced)| synced > 0);
        if first == 0 || is_there || is_proven || self.missing_wal_dir.is_some() {
            return;
        }
        let name = filenames::log_file_name(first);
        let missing = format!(
            "missing: the MANIFEST says that this log or a later one is needed, and {} has none",
            self.wal_dir.display()
        );
        self.findings.push(match self.listing.contains_key(filenames::LOCK_FILE) {
            true => Finding::damage(
                &name,
                None,
                format!(
                    "{missing}: it was deleted or moved, or is in another directory (wal_dir), and the writes since \
                     the last flush are in it"
                ),
            ),
            false => Finding::note(
                &name,
                None,
                format!(
                    "{missing}: a checkpoint or backup that was made behind a flush needs none; of any other copy \
                     the writes since the last flush are missing"
                ),
            ),
        });
    }

    fn take_logs(&mut self, env: &Env, dir: &Path) {
        self.wal_dir = dir.to_path_buf();
        match sizes(env, dir) {
            Ok(listing) => {
                for (name, size) in listing {
                    if let Some(FileKind::Log(n)) = parse_file_name(&name) {
                        self.logs.insert(n, size);
                    }
                }
            }
            Err(e) => {
                let name = dir.display().to_string();
                self.findings.push(Finding::from_error(&name, None, &e));
            }
        }
    }

    fn read_manifest(&mut self, env: &Env) {
        let name = self.manifest.clone();
        let file = match env.fs.open_sequential(&self.dir.join(&name)) {
            Ok(file) => file,
            Err(e) => return self.findings.push(Finding::from_error(&name, None, &e)),
        };
        let mut reader = LogReader::new(file, 0);
        let mut group: Vec<VersionEdit> = Vec::new();
        // The largest mark so far, and where reading failed first.
        let (mut mark, mut failed_at) = (None, None);
        loop {
            match reader.next_event() {
                Ok(ReadEvent::Record { offset, end }) => {
                    self.edits += 1;
                    if failed_at.is_none() {
                        self.manifest_end = end;
                    }
                    let edit = VersionEdit::decode(reader.record());
                    if let Ok(edit) = &edit
                        && failed_at.is_none()
                    {
                        mark = mark.max(edit.manifest_mark);
                    }
                    match edit {
                        Ok(edit) => match edit.remaining_in_atomic_group {
                            Some(left) => {
                                group.push(edit);
                                if left == 0 {
                                    group.drain(..).for_each(|e| self.apply(&e));
                                }
                            }
                            None => self.apply(&edit),
                        },
                        Err(e) => {
                            self.findings
                                .push(Finding::from_error(&name, Some(offset), &e));
                        }
                    }
                }
                Ok(ReadEvent::Corruption {
                    offset,
                    dropped,
                    kind,
                    tail,
                }) => {
                    let what = format!("{kind} ({dropped} bytes dropped)");
                    let is_first = failed_at.is_none();
                    failed_at.get_or_insert(offset);
                    if is_first && let Some(proven) = self.judge(env, offset, mark) {
                        let what = format!("{what}; {proven} bytes of it had been synced");
                        self.findings
                            .push(Finding::damage(&name, Some(offset), what));
                        continue;
                    }
                    self.findings.push(if tail {
                        Finding::note(
                            &name,
                            Some(offset),
                            format!("torn last record, as after a crash: {what}"),
                        )
                    } else {
                        Finding::damage(&name, Some(offset), what)
                    });
                }
                Ok(ReadEvent::OldRecord { .. } | ReadEvent::Eof) => break,
                Ok(ReadEvent::TimestampSizes(_) | ReadEvent::Predecessor { .. }) => {
                    let what = "a record that belongs into a write-ahead log";
                    self.findings
                        .push(Finding::damage(&name, Some(reader.position()), what));
                }
                Err(e) => {
                    self.findings
                        .push(Finding::from_error(&name, Some(reader.position()), &e));
                    break;
                }
            }
        }
        if failed_at.is_none()
            && let Some(proven) = self.judge(env, self.manifest_end, mark)
        {
            let at = Some(self.manifest_end);
            let what = format!("ends here, though {proven} bytes of it had been synced");
            self.findings.push(Finding::damage(&name, at, what));
        }
        if mark.is_none() {
            // Recorded by RocksDB, they mean what its option says.
            self.log_ends.clear();
        }
        self.log_ends = self.log_ends.split_off(&self.min_log_number);
        if !group.is_empty() {
            self.findings.push(Finding::note(
                &name,
                None,
                "the last atomic group is not complete; recovery ignores it",
            ));
        }
    }

    /// Returns what proves that the MANIFEST was damaged or cut at `offset`: bytes that had been durable.
    fn judge(&mut self, env: &Env, offset: u64, mark: Option<u64>) -> Option<u64> {
        let path = self.dir.join(&self.manifest);
        judge_manifest(env, &path, offset, mark).unwrap_or_else(|e| {
            let finding = Finding::from_error(&self.manifest, Some(offset), &e);
            self.findings.push(finding);
            None
        })
    }

    fn apply(&mut self, e: &VersionEdit) {
        for wal in &e.wal_additions {
            self.log_ends
                .insert(wal.number, wal.synced_size.unwrap_or(0));
        }
        if let Some(below) = e.wal_deletion {
            self.log_ends = self.log_ends.split_off(&below);
        }
        self.log_ends.extend(e.log_ends.iter().copied());
        self.log_cuts.extend(e.log_cuts.iter().copied());
        self.oldest_log = e.oldest_log.unwrap_or(self.oldest_log);
        if let Some(id) = &e.db_id {
            self.db_id = Some(String::from_utf8_lossy(id).into_owned());
        }
        self.next_file = e.next_file_number.unwrap_or(self.next_file);
        self.last_sequence = e.last_sequence.unwrap_or(self.last_sequence);
        self.min_log_number = e.min_log_number_to_keep.unwrap_or(self.min_log_number);
        let id = e.column_family;
        if e.column_family_drop {
            self.families.remove(&id);
            self.dropped.insert(id);
            return;
        }
        if let Some(name) = &e.column_family_add {
            let name = text_of_bytes(name);
            self.families.insert(
                id,
                Family {
                    name,
                    ..Family::default()
                },
            );
        }
        let Some(family) = self.families.get_mut(&id) else {
            return;
        };
        if let Some(name) = &e.comparator {
            family.comparator = String::from_utf8_lossy(name).into_owned();
            family.is_stripped = e.persist_user_defined_timestamps == Some(false);
        }
        family.log_number = e.log_number.unwrap_or(family.log_number);
        for key in &e.deleted_files {
            family.files.remove(key);
        }
        for f in &e.new_files {
            let mut f = f.clone();
            f.user_defined_timestamps_persisted &= !family.is_stripped;
            family.files.insert((f.level, f.number), f);
        }
        family
            .compact_cursors
            .extend(e.compact_cursors.iter().cloned());
        for added in &e.blob_file_additions {
            let blobs = Blobs {
                added: added.clone(),
                garbage_count: 0,
                garbage_bytes: 0,
            };
            family.blobs.insert(added.number, blobs);
        }
        for garbage in &e.blob_file_garbages {
            let Some(blobs) = family.blobs.get_mut(&garbage.number) else {
                continue;
            };
            blobs.garbage_count = blobs.garbage_count.saturating_add(garbage.count);
            blobs.garbage_bytes = blobs.garbage_bytes.saturating_add(garbage.bytes);
        }
        // A file of garbage that no table names as its oldest belongs to the family no more.
        let used: BTreeSet<u64> = family
            .files
            .values()
            .map(|f| f.oldest_blob_file_number)
            .collect();
        family
            .blobs
            .retain(|n, b| b.garbage_count < b.added.total_count || used.contains(n));
    }
}

/// Number of the MANIFEST that CURRENT names.
fn current(env: &Env, dir: &Path) -> Result<u64> {
    let current = dir.join(filenames::CURRENT_FILE);
    filenames::parse_marked_current(&env.fs.read_all(&current, SMALL_FILE_MAX)?)
        .map(|(number, _)| number)
        .map_err(|e| e.with_path(&current))
}

/// The directory on a speed disk that CURRENT names.
fn tables_dir(env: &Env, dir: &Path) -> Option<PathBuf> {
    let content = env
        .fs
        .read_all(&dir.join(filenames::CURRENT_FILE), SMALL_FILE_MAX);
    let (_, marks) = filenames::parse_marked_current(&content.ok()?).ok()?;
    let mark = marks.tables.filter(|mark| !mark.is_leaving)?;
    Some(PathBuf::from(mark.dir))
}

/// Refuses a database whose logs are on a speed disk, where only the engine finds them.
fn refuse_speed_disk(dir: &Path) -> Result<()> {
    let current = dir.join(filenames::CURRENT_FILE);
    let content = Env::system().fs.read_all(&current, SMALL_FILE_MAX);
    // Any other fault is found where it is read.
    let Ok(content) = content else {
        return Ok(());
    };
    match filenames::parse_marked_current(&content) {
        Ok((_, marks)) if marks.logs.is_some() => match filenames::parse_current(&content) {
            Err(e) => Err(e.with_path(&current)),
            Ok(_) => Ok(()),
        },
        Err(e) if e.kind() == ErrorKind::NotSupported => Err(e.with_path(&current)),
        _ => Ok(()),
    }
}

/// Names and sizes of the files in a directory.
fn sizes(env: &Env, dir: &Path) -> Result<BTreeMap<String, u64>> {
    let mut out = BTreeMap::new();
    for name in env.fs.list(dir)? {
        let path = dir.join(&name);
        match env.fs.entry(&path) {
            Ok(Some(EntryKind::File)) => {
                out.insert(name, env.fs.size(&path)?);
            }
            // Opening a pipe would wait for who writes into it.
            Ok(Some(EntryKind::Other)) if parse_file_name(&name).is_some() => {
                let text =
                    "neither a file nor a directory, though it is called like a file of a database";
                return Err(Error::io(text).with_path(&path));
            }
            // Why it cannot be looked at is told where it is needed.
            Err(_) => {
                out.insert(name, 0);
            }
            // The engine finds a link that leads nowhere by its name.
            Ok(None) if std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_symlink()) => {
                out.insert(name, 0);
            }
            _ => {}
        }
    }
    Ok(out)
}
