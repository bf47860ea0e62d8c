//! `db verify`: every checksum of a directory, without opening the database.
//!
//! Checked: CURRENT; every record of the MANIFEST and that it decodes; every table it names: there,
//! of the recorded size, with the recorded unique id, the checksum of every block; every record of
//! every live log and that its batch decodes. All findings are listed, not only the first. A torn
//! last record of the newest log is a note: a crash leaves that, and recovery cuts it.

use super::info::{finding_json, place};
use crate::fail::{At, shell_word};
use crate::inventory::{Family, Finding, Grade, Inventory};
use crate::places::{FileFlags, Places};
use crate::term::{self, Paint, bytes, counted};
use clap::Args;
use serde_json::json;
use spanlith::version::{FileKind, NewFile, filenames, parse_file_name};
use spanlith::{Comparator, Error, ErrorKind, Result, UserComparator};
use spanlith_env::Env;
use spanlith_table::format::{BlockHandle, BlockKind, TRAILER_LEN};
use spanlith_table::{ReaderOptions, TableReader};
use spanlith_wal::{BatchIter, LogReader, ReadEvent};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Checks a directory.
#[derive(Debug, Args)]
pub struct Verify {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Only the tables of this column family; MANIFEST and logs are shared and checked all the same
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
    /// Also compares the order of keys, index, filter and properties with the entries
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    files: FileFlags,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// What was checked and what was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Findings of all grades.
    pub findings: Vec<Finding>,
    /// Tables checked.
    pub tables: u64,
    /// Blocks whose checksum was compared.
    pub blocks: u64,
    /// Entries of tables that were compared, with `deep`.
    pub entries: u64,
    /// Logs read.
    pub logs: u64,
    /// Values in blob files checked.
    pub blobs: u64,
    /// Log records checked.
    pub records: u64,
    /// MANIFEST records checked.
    pub edits: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Report {
    /// Whether nothing is damaged and nothing was left out.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|f| f.grade == Grade::Note)
    }
}

impl Verify {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        let places = self.files.tables.parse()?;
        let inventory = Inventory::read_with_logs(&self.db, self.files.wal_dir.as_deref());
        let inventory = inventory.at(&self.db)?;
        let total = inventory.table_bytes() + inventory.live_logs().map(|l| l.1).sum::<u64>();
        let progress = term::bar(total, "B", "verifying");
        if let Some(name) = &self.cf {
            super::open::known_family(&inventory, name)?;
        }
        let scope = Scope {
            deep: self.deep,
            family: self.cf.as_deref(),
            places: Some(&places),
            meta_only: false,
        };
        let report = check(&inventory, scope, &mut |done| progress.set_position(done));
        progress.finish_and_clear();
        let clean = report.is_clean();
        let seconds = start.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if self.json {
            let object = json!({
                "ok": clean, "tables": report.tables, "blocks": report.blocks,
                "entries": report.entries, "blobs": report.blobs, "logs": report.logs, "log_records": report.records,
                "manifest_records": report.edits, "bytes": report.bytes, "seconds": seconds,
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
            eprintln!(
                "next:  copy {} before anything else writes to it; tables that are named can be \
                 looked at with spanlith sst dump",
                shell_word(&self.db)
            );
        }
        Ok(if clean {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// One line about what was checked.
pub fn summary(r: &Report) -> String {
    let bad = r.findings.iter().filter(|f| f.grade != Grade::Note).count();
    format!(
        "{} of {}, {} of {}, {}, {}; {}",
        counted(r.blocks, "block"),
        counted(r.tables, "table"),
        counted(r.records, "record"),
        counted(r.logs, "log"),
        counted(r.edits, "MANIFEST record"),
        bytes(r.bytes),
        counted(bad as u64, "finding"),
    )
}

/// How much is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// Compare the entries of tables with index, filter and properties.
    pub deep: bool,
    /// Only the tables of this family.
    pub family: Option<&'a str>,
    /// Where the tables are if not in the directory of the database.
    pub places: Option<&'a Places>,
    /// Leave out the blocks of tables and the contents of blob files.
    pub meta_only: bool,
}

/// Checks everything the inventory names; `progress` receives the bytes done.
pub fn check(i: &Inventory, scope: Scope<'_>, progress: &mut dyn FnMut(u64)) -> Report {
    let mut report = Report {
        findings: i.findings.clone(),
        edits: i.edits,
        bytes: i.manifest_bytes,
        ..Report::default()
    };
    if let (Some(id), Some(file)) = (&i.db_id, &i.identity)
        && id != file
    {
        let what = format!("says {file}, the MANIFEST says {id}, which counts");
        report
            .findings
            .push(Finding::note(filenames::IDENTITY_FILE, None, what));
    }
    let mut done = 0;
    let wanted = |f: &&Family| scope.family.is_none_or(|name| name == f.name);
    for family in i.families.values().filter(wanted) {
        for f in family.files.values() {
            check_table(i, family, f, scope, &mut report);
            done += f.size;
            progress(done);
        }
        for &number in family.blobs.keys() {
            check_blobs(i, family, number, scope, &mut report);
        }
    }
    let logs: Vec<(u64, u64)> = i.live_logs().collect();
    for (n, &(number, size)) in logs.iter().enumerate() {
        check_log(i, number, n + 1 == logs.len(), &mut report);
        done += size;
        progress(done);
    }
    note_strangers(i, &mut report);
    report
}

/// Checks a blob file, which lies in the first directory of its family's tables.
fn check_blobs(i: &Inventory, family: &Family, number: u64, scope: Scope<'_>, report: &mut Report) {
    let name = filenames::blob_file_name(number);
    let place = scope.places.and_then(|p| p.dir(&family.name, 0));
    let path = place.unwrap_or(&i.dir).join(&name);
    let size = Env::system().fs.size(&path);
    let Ok(size) = size else {
        let what = "missing; the MANIFEST names it";
        report.findings.push(Finding::damage(&name, None, what));
        return;
    };
    if scope.meta_only {
        return;
    }
    report.bytes += size;
    match crate::dump::verify_blobs(&path) {
        Ok(blobs) => report.blobs += blobs,
        Err(e) => report.findings.push(Finding::from_error(&name, None, &e)),
    }
}

/// Tables that are there and that nobody needs.
fn note_strangers(i: &Inventory, report: &mut Report) {
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
            report.findings.push(Finding::note(name, None, what));
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

/// Checks a table in a directory that the flags name.
fn check_table_in(
    dir: &Path,
    family: &Family,
    f: &NewFile,
    scope: Scope<'_>,
    report: &mut Report,
) -> Result<()> {
    let mut name = filenames::table_file_name(f.number);
    let fs = &Env::system().fs;
    let mut size = fs.size(&dir.join(&name));
    if size.is_err() {
        let legacy = filenames::legacy_table_file_name(f.number);
        if let Ok(found) = fs.size(&dir.join(&legacy)) {
            (name, size) = (legacy, Ok(found));
        }
    }
    let path = dir.join(&name);
    let size = match size {
        Ok(size) => size,
        Err(e) => {
            let what = format!("missing; the MANIFEST names it in level {} ({e})", f.level);
            let shown = path.display().to_string();
            report.findings.push(Finding::damage(&shown, None, what));
            return Ok(());
        }
    };
    let shown = path.display().to_string();
    note_size(&shown, size, f, report);
    report.tables += 1;
    check_blocks(&path, &shown, size, family, f, scope, report)
}

/// Notes a table whose size is not that of the MANIFEST.
fn note_size(name: &str, size: u64, f: &NewFile, report: &mut Report) {
    if size != f.size {
        let what = format!("{size} bytes, the MANIFEST says {}", f.size);
        let at = Some(size.min(f.size));
        report.findings.push(Finding::damage(name, at, what));
    }
}

fn check_table(i: &Inventory, family: &Family, f: &NewFile, scope: Scope<'_>, report: &mut Report) {
    let mut name = filenames::table_file_name(f.number);
    let place = scope.places.and_then(|p| p.dir(&family.name, f.path_id));
    if let Some(dir) = place {
        if let Err(e) = check_table_in(dir, family, f, scope, report) {
            report.findings.push(Finding::from_error(&name, None, &e));
        }
        return;
    }
    if !i.listing.contains_key(&name) {
        let legacy = filenames::legacy_table_file_name(f.number);
        if i.listing.contains_key(&legacy) {
            name = legacy;
        } else if f.path_id != 0 {
            report.findings.push(Finding {
                grade: Grade::Unchecked,
                file: name,
                offset: None,
                what: format!(
                    "in directory {} of its paths, which --db-paths or --cf-paths names",
                    f.path_id
                ),
            });
            return;
        } else {
            let what = format!("missing; the MANIFEST names it in level {}", f.level);
            report.findings.push(Finding::damage(&name, None, what));
            return;
        }
    }
    let size = i.listing.get(&name).copied().unwrap_or(0);
    note_size(&name, size, f, report);
    report.tables += 1;
    if let Err(e) = check_blocks(&i.dir.join(&name), &name, size, family, f, scope, report) {
        report.findings.push(Finding::from_error(&name, None, &e));
    }
}

fn check_blocks(
    path: &Path,
    name: &str,
    size: u64,
    family: &Family,
    f: &NewFile,
    scope: Scope<'_>,
    report: &mut Report,
) -> Result<()> {
    let file = Env::system().fs.open_random(path)?;
    let options = ReaderOptions {
        comparator: comparator_or_stand_in(&family.comparator),
        expected_unique_id: Some(f.unique_id),
        largest_seqno: f.largest_seqno,
        file_number: f.number,
        level: i32::try_from(f.level).unwrap_or(-1),
        ..ReaderOptions::default()
    };
    let reader = match TableReader::open(file.clone(), size, options.clone()) {
        Err(e) if e.kind() == ErrorKind::Corruption && e.message().contains("unique ID") => {
            // Another table under this name: said, and its blocks are checked all the same.
            report.findings.push(Finding::from_error(name, None, &e));
            let options = ReaderOptions {
                expected_unique_id: None,
                ..options
            };
            TableReader::open(file.clone(), size, options)?
        }
        other => other?,
    };
    if scope.meta_only {
        return Ok(());
    }
    let dump = reader.dump()?;
    let mut blocks: Vec<(BlockHandle, BlockKind)> =
        vec![(dump.footer.metaindex, BlockKind::MetaIndex)];
    blocks.extend(dump.metaindex.iter().map(|(name, handle)| {
        let kind = match name.as_str() {
            "rocksdb.properties" => BlockKind::Properties,
            "rocksdb.index" => BlockKind::Index,
            _ => BlockKind::Filter,
        };
        (*handle, kind)
    }));
    blocks.extend(dump.footer.index.map(|handle| (handle, BlockKind::Index)));
    blocks.extend(
        dump.index
            .iter()
            .map(|(_, handle)| (*handle, BlockKind::Data)),
    );
    let mut buffer = Vec::new();
    let before = report.findings.len();
    for (handle, kind) in blocks {
        report.blocks += 1;
        let checked = read_stored(&*file, handle, size, &mut buffer).and_then(|()| {
            dump.footer
                .checksum
                .open(&buffer, handle, true, kind, path)
                .map(drop)
        });
        if let Err(e) = checked {
            report
                .findings
                .push(Finding::from_error(name, Some(handle.offset), &e));
        }
    }
    report.bytes += size;
    if scope.deep && report.findings.len() == before {
        if Comparator::from_name(&family.comparator).is_none() {
            return Err(Error::not_supported(format!(
                "order of keys {}",
                family.comparator
            )));
        }
        report.entries += reader.verify_contents()?;
    }
    Ok(())
}

/// Reads a block with its trailer.
fn read_stored(
    file: &dyn spanlith_env::RandomAccessFile,
    handle: BlockHandle,
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let fits = handle.end().is_some_and(|end| end <= size);
    let len = usize::try_from(handle.size)
        .ok()
        .and_then(|n| n.checked_add(TRAILER_LEN));
    let Some(len) = len.filter(|_| fits) else {
        return Err(
            Error::corruption("block reaches beyond the end of the file")
                .with_offset(handle.offset)
                .with("size", handle.size),
        );
    };
    buffer.resize(len, 0);
    let n = file.read_at(handle.offset, buffer)?;
    buffer.truncate(n);
    Ok(())
}

fn check_log(i: &Inventory, number: u64, newest: bool, report: &mut Report) {
    let name = filenames::log_file_name(number);
    let file = match Env::system().fs.open_sequential(&i.wal_dir.join(&name)) {
        Ok(file) => file,
        Err(e) => return report.findings.push(Finding::from_error(&name, None, &e)),
    };
    report.logs += 1;
    let mut reader = LogReader::new(file, number);
    loop {
        match reader.next_event() {
            Ok(ReadEvent::Record { offset, .. }) => {
                report.records += 1;
                let walked = BatchIter::new(reader.record())
                    .and_then(|batch| batch.into_iter().try_for_each(|op| op.map(drop)));
                if let Err(e) = walked {
                    report
                        .findings
                        .push(Finding::from_error(&name, Some(offset), &e));
                }
            }
            Ok(ReadEvent::Corruption {
                offset,
                dropped,
                kind,
                tail,
            }) => {
                let what = format!("{kind} ({dropped} bytes dropped)");
                report.findings.push(if tail && newest {
                    Finding::note(
                        &name,
                        Some(offset),
                        format!("torn end, as after a crash: {what}"),
                    )
                } else {
                    Finding::damage(&name, Some(offset), what)
                });
            }
            Ok(ReadEvent::Eof) => break,
            Ok(_) => {}
            Err(e) => {
                let at = reader.position();
                report
                    .findings
                    .push(Finding::from_error(&name, Some(at), &e));
                break;
            }
        }
    }
    report.bytes += reader.position();
}
