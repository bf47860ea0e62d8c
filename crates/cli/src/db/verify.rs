//! `db verify`: every checksum of a directory, without opening the database.
//!
//! Checked: CURRENT; every record of the MANIFEST and that it decodes; every table it names: there,
//! of the recorded size, with the recorded unique id, the checksum of every block; every record of
//! every live log and that its batch decodes; with `--level full` every entry. The checks are those of
//! [`spanlith::inspect`], which an open database uses too. All findings are listed, not only the first.
//! A torn last record of the newest log is a note, unless what was written down about durability proves
//! that it had been synced: a crash leaves that, and recovery cuts it.

use super::info::{finding_json, place};
use crate::fail::{At, shell_word};
use crate::inventory::{Family, Finding, Grade, Inventory};
use crate::places::{FileFlags, Places};
use crate::tables;
use crate::term::{self, Paint, bytes, counted};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use spanlith::inspect::{
    BlobsToVerify, FamilyToVerify, LogToVerify, TableToVerify, Verifier, Witnessed,
};
use spanlith::version::version::newest_first_by_epoch;
use spanlith::version::{FileKind, FileMeta, VersionEdit, filenames, parse_file_name};
use spanlith::{Comparator, Result, UserComparator};
use spanlith::{VerifyLevel, VerifyOptions, VerifyProgress, VerifyReport};
use spanlith_table::ReaderOptions;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

fn level(text: &str) -> std::result::Result<VerifyLevel, String> {
    let all = [
        VerifyLevel::Quick,
        VerifyLevel::Checksums,
        VerifyLevel::Full,
    ];
    let found = all.into_iter().find(|level| level.name() == text);
    found.ok_or_else(|| "quick, checksums or full".to_string())
}

/// Checks a directory.
#[derive(Debug, Args)]
pub struct Verify {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Only the tables of this column family; MANIFEST and logs are shared and checked all the same
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    /// How much: quick (files, sizes, identities), checksums (every block and record), full (every
    /// entry as well: order, bounds, counts, filters, values in blob files)
    #[arg(long, value_name = "LEVEL", default_value = "checksums", value_parser = level)]
    level: VerifyLevel,
    /// The same as --level full
    #[arg(long)]
    deep: bool,
    /// Reads at most so many bytes per second
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    bytes_per_second: u64,
    #[command(flatten)]
    files: FileFlags,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        let places = self.files.tables.parse()?;
        // A CURRENT that cannot be used is damage like any other.
        let inventory =
            Inventory::read_leniently_with_disk(&self.db, self.files.wal_dir.as_deref());
        let Some(inventory) = inventory.at(&self.db)? else {
            let none = Inventory::read(&self.db).at(&self.db);
            return none.map(|_| ExitCode::FAILURE);
        };
        let progress = term::bar(0, "B", "verifying");
        if let Some(name) = &self.cf {
            super::open::known_family(&inventory, name)?;
        }
        let scope = Scope {
            level: match self.deep {
                true => VerifyLevel::Full,
                false => self.level,
            },
            all_of_logs: false,
            family: self.cf.as_deref(),
            places: Some(&places),
            bytes_per_second: self.bytes_per_second,
        };
        let report = check(&inventory, scope, &progress);
        progress.finish_and_clear();
        let clean = report.is_clean();
        let seconds = start.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if self.json {
            let object = json!({
                "ok": clean, "level": report.level.name(), "tables": report.tables, "blocks": report.blocks,
                "entries": report.entries, "blob_files": report.blob_files, "blobs": report.blobs,
                "logs": report.logs, "log_records": report.log_records,
                "manifest_records": report.manifest_records, "bytes": report.bytes, "seconds": seconds,
                "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
            });
            writeln!(out, "{object}")?;
        } else {
            let paint = Paint::stdout();
            for f in &report.findings {
                let word = match f.grade {
                    Grade::Damage => paint.red("damage"),
                    Grade::Unchecked => paint.yellow("unchecked"),
                    Grade::Note => "note".to_string(),
                };
                writeln!(out, "{word}: {}{}: {}", f.file, place(f), f.what)?;
            }
            let verdict = if clean {
                paint.green("ok")
            } else {
                paint.red("not ok")
            };
            writeln!(out, "{verdict}: {} in {seconds:.2} s", summary(&report))?;
        }
        out.flush()?;
        if !clean {
            let dir = shell_word(&self.db);
            tell!(
                "next:  copy {dir} before anything else writes to it; spanlith doctor --db {dir} says what is at \
                 stake and the way out"
            );
        }
        Ok(if clean {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// One line about what was checked, and how many findings there are.
pub fn summary(r: &VerifyReport) -> String {
    let bad = r.problems().count();
    format!("{}; {}", checked(r), counted(bad as u64, "finding"))
}

/// One line about what was checked.
pub fn checked(r: &VerifyReport) -> String {
    format!(
        "{} of {}, {} of {}, {}, {}",
        counted(r.blocks, "block"),
        counted(r.tables, "table"),
        counted(r.log_records, "record"),
        counted(r.logs, "log"),
        counted(r.manifest_records, "MANIFEST record"),
        bytes(r.bytes),
    )
}

/// How much is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// Of tables and blob files.
    pub level: VerifyLevel,
    /// Of logs: every record, even if of tables less is checked.
    pub all_of_logs: bool,
    /// Only the tables of this family.
    pub family: Option<&'a str>,
    /// Where the tables are if not in the directory of the database.
    pub places: Option<&'a Places>,
    /// Bytes read per second, at most; 0 for no limit.
    pub bytes_per_second: u64,
}

/// Checks everything the inventory names, and tells `progress` how far it is.
pub fn check(i: &Inventory, scope: Scope<'_>, progress: &ProgressBar) -> VerifyReport {
    let options = VerifyOptions {
        bytes_per_second: scope.bytes_per_second,
        ..VerifyOptions::new(scope.level)
    };
    let mut tell = |p: &VerifyProgress<'_>| {
        progress.set_length(p.total_bytes);
        progress.set_position(p.done_bytes);
        ControlFlow::Continue(())
    };
    let mut verifier = Verifier::new(&crate::reading::env(), &options, &mut tell);
    for finding in &i.findings {
        verifier.add(finding.clone());
    }
    if let (Some(id), Some(file)) = (&i.db_id, &i.identity)
        && id != file
    {
        let what = format!("says {file}, the MANIFEST says {id}, which counts");
        verifier.add(Finding::note(filenames::IDENTITY_FILE, None, what));
    }
    let logs = i.live_logs().map(|l| l.1).sum::<u64>();
    verifier.expect(i.table_bytes(), i.blob_bytes() + logs);
    // Nobody calls it off.
    let _ = check_files(i, scope, &mut verifier);
    note_strangers(i, &mut verifier);
    let mut report = verifier.finish();
    // A file that nobody may read is not known to be damaged.
    for finding in &mut report.findings {
        if finding.grade == Grade::Damage && finding.what.contains("Permission denied") {
            finding.grade = Grade::Unchecked;
        }
    }
    report.manifest_records += i.edits;
    report.bytes += i.manifest_bytes;
    report
}

fn check_files(i: &Inventory, scope: Scope<'_>, verifier: &mut Verifier<'_>) -> Result<()> {
    let wanted = |f: &&Family| scope.family.is_none_or(|name| name == f.name);
    for family in i.families.values().filter(wanted) {
        let family = family_to_verify(i, family, scope, verifier);
        verifier.family(&family)?;
    }
    if scope.all_of_logs {
        verifier.set_level(scope.level.max(VerifyLevel::Checksums));
    }
    let logs: Vec<u64> = i.live_logs().map(|l| l.0).collect();
    let id = i.db_id.as_deref().or(i.identity.as_deref());
    let mut missing = i.log_ends.range(i.first_live_log()..);
    let newest = logs.last().copied();
    let gone = missing.by_ref().map(|l| *l.0).filter(|n| !logs.contains(n));
    let oldest = i.oldest_log;
    if oldest > 0 && oldest >= i.first_live_log() && !logs.contains(&oldest) {
        // A directory without any log is a copy that was made without them.
        if let Some(later) = logs.iter().find(|&&n| n > oldest) {
            let what = format!(
                "asks for log {oldest:06}, which is gone though log {later:06} is there: it has lost its \
                 last records, or the log was taken away"
            );
            verifier.add(Finding::damage(&i.manifest, Some(i.manifest_end), what));
        }
    }
    let mut told = None;
    for number in gone.collect::<Vec<_>>().into_iter().chain(logs.clone()) {
        let name = filenames::log_file_name(number);
        let log = LogToVerify {
            number,
            path: i.wal_dir.join(&name),
            name,
            db_id: id.unwrap_or_default(),
            synced: i.log_ends.get(&number).copied().unwrap_or(0),
            written: None,
            cut: i.log_cuts.get(&number).copied(),
            is_newest: Some(number) == newest,
        };
        told = told.max(verifier.log(&log)?);
    }
    if let Some(told) = told {
        compare_manifest(i, told, verifier);
    }
    Ok(())
}

/// Compares the MANIFEST with what a log says of it.
fn compare_manifest(i: &Inventory, told: Witnessed, verifier: &mut Verifier<'_>) {
    let Some(FileKind::Manifest(number)) = parse_file_name(&i.manifest) else {
        return;
    };
    if told.number > number {
        let what = format!(
            "names MANIFEST {number:06}, but a log says that MANIFEST {:06} had become current",
            told.number
        );
        verifier.add(Finding::damage(filenames::CURRENT_FILE, None, what));
    } else if told.number == number && told.size > i.manifest_end {
        let what = format!(
            "ends here, though a log says that {} bytes of it had been synced",
            told.size
        );
        let at = Some(i.manifest_end);
        verifier.add(Finding::damage(&i.manifest, at, what));
    }
}

/// Returns what is verified of a family; tables whose directory nobody named are findings.
fn family_to_verify(
    i: &Inventory,
    family: &Family,
    scope: Scope<'_>,
    verifier: &mut Verifier<'_>,
) -> FamilyToVerify {
    let comparator = comparator_or_stand_in(&family.comparator);
    let mut files: Vec<Arc<FileMeta>> = Vec::new();
    for f in family.files.values() {
        let mut edit = VersionEdit {
            new_files: vec![f.clone()],
            ..VersionEdit::default()
        };
        edit.pad_timestamps(comparator.timestamp_size());
        let described = edit.new_files.iter();
        files.extend(described.map(|f| Arc::new(FileMeta::from_new_file(f, None))));
    }
    // In the order in which a version holds them.
    files.sort_by(|a, b| {
        let in_level = match a.level {
            0 => newest_first_by_epoch(a, b),
            _ => comparator.compare_internal(&a.smallest, &b.smallest),
        };
        a.level.cmp(&b.level).then(in_level)
    });
    let mut tables = Vec::new();
    for file in files {
        let mut name = filenames::table_file_name(file.number);
        let legacy = filenames::legacy_table_file_name(file.number);
        let none = Places::default();
        let places = scope.places.unwrap_or(&none);
        let place = tables::place(i, places, family, file.path_id);
        let dir = place.unwrap_or(&i.dir);
        let is_there = |name: &str| match place {
            Some(dir) => dir.join(name).exists(),
            None => i.listing.contains_key(name),
        };
        if !is_there(&name) && is_there(&legacy) {
            name = legacy;
        } else if !is_there(&name) && place.is_none() && file.path_id != 0 {
            let what = format!(
                "in directory {} of its paths, which --db-paths or --cf-paths names",
                file.path_id
            );
            verifier.add(Finding::new(Grade::Unchecked, &name, None, what));
            continue;
        }
        let path = dir.join(&name);
        tables.push(TableToVerify {
            level: file.level as usize,
            name: match place {
                Some(_) => path.display().to_string(),
                None => name,
            },
            path,
            file,
        });
    }
    let blob_dir = scope.places.and_then(|p| p.dir(&family.name, 0));
    let mut known = i.families.iter().filter(|(_, f)| f.name == family.name);
    FamilyToVerify {
        is_ordered: Comparator::from_name(&family.comparator).is_some(),
        comparator: family.comparator.clone(),
        readers: ReaderOptions {
            comparator,
            ..ReaderOptions::default()
        },
        tables,
        id: known.next().map(|(&id, _)| id),
        blob_dir: blob_dir.unwrap_or(&i.dir).to_path_buf(),
        blobs: family
            .blobs
            .iter()
            .map(|(&n, b)| (n, BlobsToVerify::of(&b.added)))
            .collect(),
    }
}

/// Tables that are there and that nobody needs.
fn note_strangers(i: &Inventory, verifier: &mut Verifier<'_>) {
    let live: BTreeSet<u64> = i
        .families
        .values()
        .flat_map(|f| f.files.keys())
        .map(|k| k.1)
        .collect();
    for name in i.listing.keys() {
        if let Some(FileKind::Table(n)) = parse_file_name(name)
            && !live.contains(&n)
        {
            let what = "the MANIFEST does not name it; it is not part of the database";
            verifier.add(Finding::note(name, None, what));
        }
    }
}

/// An order of which only the name matters, because checksums need no order.
struct NameOnly(String);

impl UserComparator for NameOnly {
    fn name(&self) -> &str {
        &self.0
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// The comparator of that name, or a stand-in that can be used for everything but ordering.
pub fn comparator_or_stand_in(name: &str) -> Comparator {
    match Comparator::from_name(name) {
        Some(c) => c,
        None if name.is_empty() => Comparator::Bytewise,
        None => Comparator::User(Arc::new(NameOnly(name.to_string()))),
    }
}
