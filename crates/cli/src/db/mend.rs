//! A damaged directory made readable in memory: CURRENT, MANIFEST and logs that can be read to their ends.

use super::edits::Edits;
use super::log_order::arrange_logs;
use crate::inventory::Inventory;
use crate::overlay::Overlay;
use spanlith::version::{FileKind, VersionEdit, filenames, parse_file_name};
use spanlith_env::{Env, FileSystem, IoActivity};
use spanlith_wal::{BatchIter, LogReader, LogWriter, ReadEvent, Search, search_records};
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

/// Describes what a reader meets in a log, or MANIFEST under the number 0.
#[derive(Default)]
pub struct Met {
    /// Something could not be read.
    is_damaged: bool,
    /// There is more than records: sizes of timestamps.
    has_settings: bool,
}

/// Hands out all records that can be read, with where they begin, those behind damage in its block too.
///
/// # Errors
/// Those of the file.
pub fn each_record(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
    take: &mut dyn FnMut(u64, &[u8]),
) -> spanlith::Result<Met> {
    let mut reader = LogReader::new(fs.open_sequential(path)?, number);
    let mut met = Met::default();
    loop {
        match reader.next_event()? {
            ReadEvent::Eof => return Ok(met),
            ReadEvent::Record { offset, .. } => take(offset, reader.record()),
            ReadEvent::Corruption {
                offset, dropped, ..
            } => {
                met.is_damaged = true;
                let end = offset.saturating_add(dropped);
                let search = Search {
                    from: offset + 1,
                    until: end,
                    log_number: number,
                    recycled: false,
                    mark: None,
                };
                let file = fs.open_random(path)?;
                search_records(&*file, &search, &mut |at, record| {
                    if at < end {
                        take(at, record);
                    }
                })?;
            }
            ReadEvent::TimestampSizes(_) => met.has_settings = true,
            // Or a header that is damaged just so: the reader goes no further.
            ReadEvent::OldRecord { offset } => {
                let is_recycled = number > 0 && reader.is_recycled();
                let search = Search {
                    from: offset + 1,
                    until: u64::MAX,
                    log_number: number,
                    recycled: is_recycled,
                    mark: None,
                };
                met.is_damaged |= !is_recycled;
                let file = fs.open_random(path)?;
                search_records(&*file, &search, &mut |at, record| {
                    met.is_damaged = true;
                    take(at, record);
                })?;
            }
            ReadEvent::Predecessor { .. } => {}
        }
    }
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

/// The records of a damaged log that can be replayed: behind a `cut` that a recovery made there are none. `None` of a log without damage, and of one whose records
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

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{FaultFs, FaultRule, MemFs, OpClass};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The rest of the file was searched behind each damaged block.
    #[test]
    fn what_a_damaged_file_costs_grows_with_its_size_only() {
        const BLOCKS: u64 = 64;
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let path = Path::new("/log");
        let garbage = vec![3; usize::try_from(BLOCKS).unwrap() * (32 << 10)];
        write(&fs, path, &garbage).unwrap();
        let reads = Arc::new(AtomicU64::new(0));
        let seen = reads.clone();
        let counts = move |_: &Path| {
            seen.fetch_add(1, Ordering::Relaxed);
            false
        };
        fs.add(FaultRule::fail(OpClass::Read, 1, 5).when(counts));
        let met = each_record(&fs, path, 3, &mut |_, _| panic!("a record in garbage")).unwrap();
        assert!(met.is_damaged);
        let reads = reads.load(Ordering::Relaxed);
        assert!(reads < 8 * BLOCKS, "{reads} reads");
    }

    /// Everything that followed was passed over as the rest of an older log.
    #[test]
    fn a_record_that_seems_to_be_of_an_older_log_hides_nothing_behind_it() {
        let fs = MemFs::new();
        let path = Path::new("/log");
        // Plain headers in a log and in a MANIFEST; and headers with the number of the log.
        for (number, recyclable, at) in [(3, false, 6), (0, false, 6), (3, true, 7)] {
            let options = spanlith_wal::LogOptions {
                recyclable,
                ..spanlith_wal::LogOptions::default()
            };
            let file = fs.create(path, IoActivity::Other).unwrap();
            let mut log = LogWriter::new_with(file, number, options).unwrap();
            let mut starts = Vec::new();
            for n in 0..5 {
                starts.push(usize::try_from(log.next_offset()).unwrap());
                log.add_record(&[n; 20]).unwrap();
            }
            log.flush().unwrap();
            let mut bytes = fs.read_file(path).unwrap();
            bytes[starts[1] + at] ^= 4;
            fs.write_file(path, &bytes).unwrap();
            let mut found = Vec::new();
            let mut take = |_: u64, record: &[u8]| found.push(record[0]);
            let met = each_record(&fs, path, number, &mut take).unwrap();
            assert!(met.is_damaged);
            assert_eq!(found, [0, 2, 3, 4], "{number} {recyclable}");
        }
    }
}
