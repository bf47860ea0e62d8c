//! `db dump --salvage`: what a damaged directory still holds.
//!
//! The directory is read through an [`Overlay`], in which it is repaired as far as reading needs: CURRENT
//! names the newest MANIFEST, MANIFEST and logs consist of the records that can be read, and tables that
//! cannot be opened are not part of it. Where a block of data cannot be
//! read, the entries that other tables hold in its range take its place, and where a value cannot be
//! read its key is left out. Nothing below changes, and everything that is missing is named.
//!
//! What is lost may have been newer than what is found: an older value, or one that had been deleted,
//! may come to light.

use super::dump::Lines;
use super::open::Target;
use super::verify::{self, Scope};
use crate::bytes::show_short;
use crate::fail::{At, Failure};
use crate::inventory::{Family, Inventory};
use crate::overlay::Overlay;
use crate::places::Places;
use crate::tables;
use crate::term;
use spanlith::version::{FileKind, NewFile, VersionEdit, filenames, parse_file_name};
use spanlith::{Cf, Comparator, ReadOptions};
use spanlith_base::keys::split_internal;
use spanlith_env::{Env, FileSystem, IoActivity};
use spanlith_wal::{BatchIter, LogReader, LogWriter, ReadEvent, Search, search_records};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Characters of a key that are shown.
const KEY: usize = 40;
/// Bytes that a MANIFEST can have lost at its end.
const LOST_MAX: u64 = 1 << 20;
/// Keys whose values are lost that are named.
const KEYS_NAMED: u64 = 10;

/// A data block that cannot be read.
#[derive(Debug)]
struct Gap {
    /// Name of the family.
    family: String,
    /// Number of the table.
    table: u64,
    /// No key of the block is above it.
    last: Vec<u8>,
}

/// A directory made readable.
pub struct Salvage {
    /// Families by name, in the order of their ids.
    pub families: Vec<String>,
    /// With all tables that open.
    whole: Env,
    /// Without those that have unreadable blocks, too; `None` if there are none.
    rest: Option<Env>,
    gaps: Vec<Gap>,
    /// Places that were left out.
    pub lost: u64,
}

impl Salvage {
    /// Looks for damage and works around it, and says what that leaves out.
    ///
    /// # Errors
    /// `Failure` if there is no MANIFEST, or none of its records can be read.
    pub fn prepare(target: &Target, places: &Places) -> anyhow::Result<Self> {
        let wal_dir = target.how.files.wal_dir.as_deref();
        let damaged = Inventory::read_leniently(&target.db, wal_dir).at(&target.db)?;
        let lost_manifest = || {
            Failure::new(
                format!(
                    "{}: no MANIFEST that says which files make up the database",
                    target.db.display()
                ),
                "restore MANIFEST and CURRENT from a backup; spanlith sst dump shows single tables",
            )
        };
        let damaged = damaged.ok_or_else(lost_manifest)?;
        let mut edits = Edits::Readable;
        let mut env = Env {
            fs: mend(&damaged, edits, &[], false).at(&target.db)?,
            ..Env::system()
        };
        let mut i = Inventory::read_on(&env, &target.db, wal_dir).at(&target.db)?;
        let is_cut = damaged.manifest_end < damaged.manifest_bytes;
        if is_cut && !fits(&i) {
            edits = Edits::Sound;
            env.fs = mend(&damaged, edits, &[], false).at(&target.db)?;
            i = Inventory::read_on(&env, &target.db, wal_dir).at(&target.db)?;
        }
        if i.edits == 0 {
            return Err(lost_manifest().into());
        }
        let progress = term::bar(0, "B", "looking for damage");
        let scope = Scope {
            level: spanlith::VerifyLevel::Checksums,
            all_of_logs: true,
            places: Some(places),
            ..Scope::default()
        };
        let report = verify::check(&i, scope, &progress);
        progress.finish_and_clear();
        let mut out = Self {
            families: i.families.values().map(|f| f.name.clone()).collect(),
            whole: env.clone(),
            rest: None,
            gaps: Vec::new(),
            lost: 0,
        };
        let mut is_told = false;
        for f in damaged.findings.iter().chain(report.problems()) {
            let kind = parse_file_name(&f.file);
            let is_manifest = matches!(kind, Some(FileKind::Manifest(_)));
            // What the first finding about it explains need not be said again.
            if matches!(kind, Some(FileKind::Log(_))) || (is_manifest && !is_told) {
                is_told |= is_manifest;
                let at = f.offset.map_or(String::new(), |o| format!(" at {o}"));
                // How much readers drop is not how much is lost here.
                let what = f.what.split(" (").next().unwrap_or_default();
                out.miss(&format!("some of {}{at}: {what}", f.file));
            }
        }
        let mut broken: Vec<(u32, u32, u64)> = Vec::new();
        let mut holed: Vec<(u32, u32, u64)> = Vec::new();
        for (id, family) in &i.families {
            for f in family.files.values() {
                if let Err(why) = check_table(&i, places, family, f) {
                    broken.push((*id, f.level, f.number));
                    out.miss(&format!(
                        "table {:06}, keys {} .. {} in level {} of family {}: {why}",
                        f.number,
                        show_short(tables::user(&f.smallest), KEY),
                        show_short(tables::user(&f.largest), KEY),
                        f.level,
                        family.name,
                    ));
                    continue;
                }
                let name = tables::path(&i, places, family, f);
                let in_table = report
                    .findings
                    .iter()
                    .filter(|finding| Path::new(&finding.file).file_name() == name.file_name());
                let before = out.gaps.len();
                for offset in in_table.filter_map(|finding| finding.offset) {
                    out.gaps.extend(gap(&i, places, family, f, offset));
                }
                if out.gaps.len() > before {
                    holed.push((*id, f.level, f.number));
                }
            }
        }
        let is_short = is_cut || is_told;
        if is_short {
            out.miss_strangers(&i);
        }
        env.fs = mend(&damaged, edits, &broken, is_short).at(&target.db)?;
        out.whole = env.clone();
        if !holed.is_empty() {
            broken.extend(holed);
            env.fs = mend(&damaged, edits, &broken, is_short).at(&target.db)?;
            out.rest = Some(env);
        }
        Ok(out)
    }

    /// Names the tables that a MANIFEST without all its records does not name.
    fn miss_strangers(&mut self, i: &Inventory) {
        let named = i.families.values().flat_map(|f| f.files.keys());
        let named: BTreeSet<u64> = named.map(|key| key.1).collect();
        for name in i.listing.keys() {
            if let Some(FileKind::Table(n)) = parse_file_name(name)
                && !named.contains(&n)
                && let Ok(reader) = crate::dump::open_table(&i.dir.join(name))
            {
                let p = reader.properties();
                self.miss(&format!(
                    "{name}, {} entries of family {}, which no record names; it may be obsolete: spanlith sst dump \
                     shows it",
                    term::count(p.num_entries),
                    p.column_family_name,
                ));
            }
        }
    }

    fn miss(&mut self, what: &str) {
        self.lost += 1;
        eprintln!("left out: {what}");
    }

    /// Writes all that can be read of a family.
    ///
    /// # Errors
    /// Of opening it, and of writing.
    pub fn family(&mut self, target: &Target, lines: &mut Lines) -> anyhow::Result<()> {
        let cf = target.open_damaged(&self.whole)?;
        lines.family(&cf)?;
        let rest = match &self.rest {
            Some(env) => Some(target.open_damaged(env)?),
            None => None,
        };
        let is_bytewise = cf.comparator().name() == Comparator::Bytewise.name();
        let mut values_lost = 0u64;
        let mut from: Option<Vec<u8>> = None;
        loop {
            let (last, error) = match walk(&cf, target, from.as_deref(), None, lines)? {
                Stop::End => break,
                Stop::Value(key, why) => {
                    values_lost += 1;
                    if values_lost <= KEYS_NAMED {
                        let key = show_short(&key, KEY);
                        self.miss(&format!("value of {key} in family {}: {why}", target.cf));
                    } else {
                        self.lost += 1;
                    }
                    from = Some(behind(key));
                    continue;
                }
                Stop::Broken(last, why) => (last, why),
            };
            let last = last.or_else(|| from.clone());
            let gaps = self.gaps.iter().filter(|g| g.family == target.cf);
            let next = gaps
                .filter(|g| last.as_ref().is_none_or(|last| g.last > *last))
                .min_by(|a, b| a.last.cmp(&b.last));
            let (Some(gap), Some(rest), true) = (next, &rest, is_bytewise) else {
                let key = last.map_or("the first key".to_string(), |k| show_short(&k, KEY));
                self.miss(&format!("family {} from {key} on: {error}", target.cf));
                break;
            };
            let text = format!(
                "a block of table {:06}, keys up to {} in family {}: {error}",
                gap.table,
                show_short(&gap.last, KEY),
                target.cf
            );
            let end = behind(gap.last.clone());
            let begin = last.map(behind);
            // What fails there as well is told by what follows.
            let _ = walk(rest, target, begin.as_deref(), Some(&end), lines)?;
            from = Some(end);
            self.miss(&text);
        }
        if values_lost > KEYS_NAMED {
            eprintln!(
                "left out: {} more values of family {}",
                term::count(values_lost - KEYS_NAMED),
                target.cf
            );
        }
        Ok(())
    }
}

/// Whether all tables that a MANIFEST names are there: it may lack the records that removed them.
fn fits(i: &Inventory) -> bool {
    let mut files = i.families.values().flat_map(|f| f.files.keys());
    i.edits > 0 && files.all(|key| i.listing.contains_key(&tables::name(i, key.1)))
}

/// Where a walk ended.
enum Stop {
    End,
    /// At a value that cannot be read.
    Value(Vec<u8>, String),
    /// Behind this key.
    Broken(Option<Vec<u8>>, String),
}

/// The key next to `key` in the bytewise order.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// Writes the entries of a range until something cannot be read.
fn walk(
    cf: &Cf,
    target: &Target,
    from: Option<&[u8]>,
    upto: Option<&[u8]>,
    lines: &mut Lines,
) -> anyhow::Result<Stop> {
    let mut options = ReadOptions::new().fill_cache(false);
    options.allow_unprepared_value = true;
    options.upper = upto.map(<[u8]>::to_vec);
    let mut cursor = cf.cursor(options);
    let mut last = None;
    let mut on = match from {
        Some(key) => cursor.seek(key),
        None => cursor.seek_to_first(),
    };
    loop {
        match on {
            Ok(true) => {}
            Ok(false) => return Ok(Stop::End),
            Err(e) => return Ok(Stop::Broken(last, e.to_string())),
        }
        let key = cursor.key().to_vec();
        if let Err(e) = cursor.prepare_value() {
            return Ok(Stop::Value(key, e.to_string()));
        }
        lines.entry(&key, target.value(cursor.value()))?;
        last = Some(key);
        on = cursor.next();
    }
}

/// Which records of a damaged MANIFEST count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edits {
    /// All that can be read.
    Readable,
    /// Those in front of the damage.
    Sound,
}

/// The directory with a CURRENT, a MANIFEST and logs that can be read to their ends, and without some
/// tables: family, level, number.
fn mend(
    i: &Inventory,
    edits: Edits,
    left_out: &[(u32, u32, u64)],
    is_short: bool,
) -> spanlith::Result<Arc<Overlay>> {
    let fs = Arc::new(Overlay::new(Env::system().fs));
    let manifest = i.dir.join(&i.manifest);
    let current = format!("{}\n", i.manifest);
    write(
        &*fs,
        &i.dir.join(filenames::CURRENT_FILE),
        current.as_bytes(),
    )?;
    if i.manifest_end < i.manifest_bytes {
        match (edits, readable_records(&*fs, &manifest, 0)?) {
            (Edits::Readable, Some(records)) => rewrite(&*fs, &manifest, 0, &records)?,
            _ => {
                let bytes = fs.read_all(&manifest, u64::MAX)?;
                let sound = usize::try_from(i.manifest_end).unwrap_or(usize::MAX);
                write(&*fs, &manifest, bytes.get(..sound).unwrap_or(&bytes))?;
            }
        }
    }
    // Of a MANIFEST that was cut older logs may be needed than it says now.
    for &number in i.logs.keys() {
        let log = i.wal_dir.join(filenames::log_file_name(number));
        if let Some(records) = readable_records(&*fs, &log, number)? {
            rewrite(&*fs, &log, number, &records)?;
        }
    }
    let file = fs.reopen(&manifest, IoActivity::Other)?;
    let mut manifest = LogWriter::new(file, 0);
    if is_short {
        manifest.add_record(&counters(i).encode())?;
    }
    // What was written down about its size holds: empty edits take the place of lost ones.
    while is_short && manifest.next_offset() < i.manifest_bytes.saturating_add(LOST_MAX) {
        manifest.add_record(&VersionEdit::default().encode())?;
    }
    let families: BTreeSet<u32> = left_out.iter().map(|t| t.0).collect();
    for id in families {
        let of_family = left_out.iter().filter(|t| t.0 == id);
        let edit = VersionEdit {
            column_family: id,
            deleted_files: of_family.map(|t| (t.1, t.2)).collect(),
            ..VersionEdit::default()
        };
        manifest.add_record(&edit.encode())?;
    }
    Ok(fs)
}

/// What every MANIFEST must say, from what is there.
fn counters(i: &Inventory) -> VersionEdit {
    let named = i
        .listing
        .keys()
        .filter_map(|name| match parse_file_name(name)? {
            FileKind::Table(n) | FileKind::Log(n) | FileKind::Blob(n) | FileKind::Manifest(n) => {
                Some(n)
            }
            _ => None,
        });
    let last_file = named.chain(i.logs.keys().copied()).max().unwrap_or(0);
    let tables = i.families.values().flat_map(|f| f.files.values());
    let in_tables = tables.map(|f| f.largest_seqno).max().unwrap_or(0);
    VersionEdit {
        prev_log_number: Some(0),
        next_file_number: Some(i.next_file.max(last_file + 1)),
        last_sequence: Some(i.last_sequence.max(in_tables)),
        log_number: Some(i.families.get(&0).map_or(0, |f| f.log_number)),
        ..VersionEdit::default()
    }
}

fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> spanlith::Result<()> {
    let mut file = fs.create(path, IoActivity::Other)?;
    file.append(bytes)?;
    file.close()
}

/// Writes a log, or a MANIFEST under the number 0, anew with these records.
fn rewrite(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
    records: &[Vec<u8>],
) -> spanlith::Result<()> {
    let mut log = LogWriter::new(fs.create(path, IoActivity::Other)?, number);
    records.iter().try_for_each(|record| log.add_record(record))
}

/// All records of a damaged log, or MANIFEST under the number 0, that can be read, those behind the
/// damage in its block too. `None` of a file without damage, and of a log whose records need more than
/// themselves (timestamps of other sizes).
fn readable_records(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
) -> spanlith::Result<Option<Vec<Vec<u8>>>> {
    let mut reader = LogReader::new(fs.open_sequential(path)?, number);
    let (mut records, mut newest, mut is_damaged) = (Vec::new(), None, false);
    let take = |record: &[u8], records: &mut Vec<Vec<u8>>, newest: &mut Option<u64>| {
        let (is_sound, last) = match number {
            0 => (VersionEdit::decode(record).is_ok(), None),
            _ => last_sequence(record).map_or((false, None), |(first, last)| {
                (newest.is_none_or(|n| first > n), Some(last))
            }),
        };
        if is_sound {
            *newest = last;
            records.push(record.to_vec());
        }
    };
    loop {
        match reader.next_event()? {
            ReadEvent::Eof => break,
            ReadEvent::Record { .. } => take(reader.record(), &mut records, &mut newest),
            ReadEvent::Corruption {
                offset, dropped, ..
            } => {
                is_damaged = true;
                let end = offset.saturating_add(dropped);
                let search = Search {
                    from: offset + 1,
                    log_number: number,
                    recycled: false,
                    mark: None,
                };
                let file = fs.open_random(path)?;
                search_records(&*file, &search, &mut |at, record| {
                    if at < end {
                        take(record, &mut records, &mut newest);
                    }
                })?;
            }
            ReadEvent::TimestampSizes(_) => return Ok(None),
            ReadEvent::OldRecord { .. } | ReadEvent::Predecessor { .. } => {}
        }
    }
    Ok(is_damaged.then_some(records))
}

/// First and last sequence number of a batch that is whole.
fn last_sequence(record: &[u8]) -> Option<(u64, u64)> {
    let batch = BatchIter::new(record).ok()?;
    let (first, updates) = (batch.sequence(), u64::from(batch.header_count()));
    let whole = batch.into_iter().all(|op| op.is_ok());
    (whole && updates > 0).then(|| (first, first.saturating_add(updates - 1)))
}

/// Why a table cannot be part of a database that opens.
fn check_table(
    i: &Inventory,
    places: &Places,
    family: &Family,
    f: &NewFile,
) -> std::result::Result<(), String> {
    let path = tables::path(i, places, family, f);
    let size = Env::system().fs.size(&path).map_err(|e| e.to_string())?;
    if size != f.size {
        return Err(format!("{size} bytes, the MANIFEST says {}", f.size));
    }
    let reader = tables::open(i, places, family, f).map_err(|e| e.to_string())?;
    reader.dump().map(|_| ()).map_err(|e| e.to_string())
}

/// The data block of a table that begins at an offset.
fn gap(i: &Inventory, places: &Places, family: &Family, f: &NewFile, offset: u64) -> Option<Gap> {
    let dump = tables::open(i, places, family, f).ok()?.dump().ok()?;
    let (separator, _) = dump.index.iter().find(|(_, h)| h.offset == offset)?;
    let last = match dump.index_keys_are_user_keys {
        true => separator.clone(),
        false => split_internal(separator).map_or(separator.clone(), |(user, _)| user.to_vec()),
    };
    Some(Gap {
        family: family.name.clone(),
        table: f.number,
        last,
    })
}
