//! A damaged directory made readable in memory: CURRENT, MANIFEST and logs that can be read to their ends.

use super::edits::Edits;
use super::log_order::arrange_logs;
use crate::inventory::Inventory;
use crate::overlay::Overlay;
use spanlith::version::{FileKind, VersionEdit, filenames, parse_file_name};
use spanlith_env::{Env, FileSystem, IoActivity};
use spanlith_wal::{BatchIter, LogWriter, each_record};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Bytes that a MANIFEST can have lost at its end.
const LOST_MAX: u64 = 1 << 20;

/// Which records of a damaged MANIFEST count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// All that can be read and fit the others.
    Readable,
    /// Those in front of the damage.
    Sound,
}

/// In which order logs are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By their numbers.
    Numbers,
    /// By their updates.
    Updates,
}

/// How a directory is made readable.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub records: Records,
    pub order: Order,
}

/// Describes what was done.
pub struct Mended {
    pub fs: Arc<Overlay>,
    /// Says what was left out of MANIFEST and logs.
    pub left_out: Vec<String>,
    /// The MANIFEST was written anew.
    pub is_rewritten: bool,
}

/// The directory with a CURRENT, a MANIFEST and logs that can be read to their ends, and without some
/// tables: family, level, number. With `is_short` the MANIFEST gets the counters that it may have lost.
///
/// # Errors
/// Those of the files.
pub fn mend(
    i: &Inventory,
    way: Way,
    left_out: &[(u32, u32, u64)],
    is_short: bool,
) -> spanlith::Result<Mended> {
    let fs = Arc::new(Overlay::new(Env::system().fs));
    let mut said = Vec::new();
    let manifest = i.dir.join(&i.manifest);
    let current = format!("{}\n", i.manifest);
    write(
        &*fs,
        &i.dir.join(filenames::CURRENT_FILE),
        current.as_bytes(),
    )?;
    let mut is_rewritten = false;
    if let Some(records) = &i.made {
        rewrite(&*fs, &manifest, 0, records)?;
    }
    match way.records {
        Records::Readable => {
            if let Some(edits) = readable_edits(&*fs, &manifest)? {
                rewrite(&*fs, &manifest, 0, &edits.records)?;
                let of = |what| format!("of {}: {what}", i.manifest);
                said.extend(edits.left_out.into_iter().map(of));
                is_rewritten = true;
            }
        }
        Records::Sound if i.manifest_end < i.manifest_bytes => {
            let bytes = fs.read_all(&manifest, u64::MAX)?;
            let sound = usize::try_from(i.manifest_end).unwrap_or(usize::MAX);
            write(&*fs, &manifest, bytes.get(..sound).unwrap_or(&bytes))?;
            is_rewritten = true;
        }
        Records::Sound => {}
    }
    // Of a MANIFEST that was cut older logs may be needed than it says now.
    for &number in i.logs.keys() {
        let log = i.wal_dir.join(filenames::log_file_name(number));
        let cut = i.log_cuts.get(&number).copied();
        match readable_records(&*fs, &log, number, cut) {
            Ok(None) => {}
            Ok(Some(records)) => rewrite(&*fs, &log, number, &records)?,
            Err(e) => {
                said.push(format!("log {number:06}: {e}"));
                rewrite(&*fs, &log, number, &[])?;
            }
        }
    }
    if way.order == Order::Updates {
        let logs: Vec<u64> = i.logs.keys().copied().collect();
        said.extend(arrange_logs(&*fs, i, &logs)?);
    }
    let file = fs.reopen(&manifest, IoActivity::Other)?;
    let mut manifest = LogWriter::new(file, 0);
    if is_short {
        manifest.add_record(&counters(i).encode())?;
    }
    // Its recorded size holds: empty edits take the place of lost ones.
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
    Ok(Mended {
        fs,
        left_out: said,
        is_rewritten,
    })
}

/// Returns what every MANIFEST must say, from what is there.
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
///
/// # Errors
/// Those of the file.
pub fn rewrite(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
    records: &[Vec<u8>],
) -> spanlith::Result<()> {
    let mut log = LogWriter::new(fs.create(path, IoActivity::Other)?, number);
    records.iter().try_for_each(|record| log.add_record(record))
}

/// All records of a log that can be read; `None` if they need more than themselves.
///
/// # Errors
/// Those of the file.
pub fn records_of(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
) -> spanlith::Result<Option<Vec<Vec<u8>>>> {
    let mut records = Vec::new();
    let met = each_record(fs, path, number, &mut |_, r| records.push(r.to_vec()))?;
    Ok((!met.has_settings).then_some(records))
}

/// The records of a damaged log that can be replayed: after a `cut` that a recovery made there are none. `None` of a log without damage, and of one whose records
/// need more than themselves (timestamps of other sizes).
fn readable_records(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
    cut: Option<u64>,
) -> spanlith::Result<Option<Vec<Vec<u8>>>> {
    let (mut records, mut newest) = (Vec::new(), None);
    let met = each_record(fs, path, number, &mut |offset, record| {
        if cut.is_none_or(|cut| offset < cut)
            && let Some((first, last)) = last_sequence(record)
            && newest.is_none_or(|n| first > n)
        {
            newest = Some(last);
            records.push(record.to_vec());
        }
    })?;
    Ok((met.is_damaged && !met.has_settings).then_some(records))
}

/// The records of a MANIFEST that can be read and fit each other. `None` if those are all of them.
fn readable_edits(fs: &dyn FileSystem, path: &Path) -> spanlith::Result<Option<Edits>> {
    let mut edits = Edits::new();
    let met = each_record(fs, path, 0, &mut |_, record| edits.take(record))?;
    Ok((met.is_damaged || edits.lost() > 0).then_some(edits))
}

/// Returns whether a MANIFEST has a record that can be read.
pub fn has_records(i: &Inventory) -> bool {
    if i.made.is_some() {
        return true;
    }
    let edits = readable_edits(&*Env::system().fs, &i.dir.join(&i.manifest));
    i.edits > 0 || edits.is_ok_and(|edits| edits.is_some_and(|e| !e.records.is_empty()))
}

/// First and last sequence number of a batch that is whole.
fn last_sequence(record: &[u8]) -> Option<(u64, u64)> {
    let batch = BatchIter::new(record).ok()?;
    let (first, updates) = (batch.sequence(), u64::from(batch.header_count()));
    let whole = batch.into_iter().all(|op| op.is_ok());
    (whole && updates > 0).then(|| (first, first.saturating_add(updates - 1)))
}
