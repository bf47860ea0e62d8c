//! Reading what a damaged log, or MANIFEST, still holds.
//!
//! [`LogReader`] reports damage and goes on with the next block, since what follows in the same one cannot be trusted
//! while a database is opened. Whoever salvages wants it all the same: here the rest of the block is searched for
//! records with a right checksum. The cost grows with the size of the file only.

use crate::reader::{LogReader, ReadEvent};
use crate::search::{Search, search_records};
use spanlith_base::Result;
use spanlith_env::FileSystem;
use std::path::Path;

/// Describes what a reader meets in a log, or MANIFEST under the number 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Something could not be read.
    pub is_damaged: bool,
    /// There is more than records: sizes of timestamps.
    pub has_settings: bool,
    /// The file held an older log before: what cannot be read at its end is of that one.
    pub is_recycled: bool,
}

/// A record that can be read.
#[derive(Clone, Copy, Debug)]
pub struct Salvaged<'r> {
    /// Where it begins.
    pub offset: u64,
    /// Its contents.
    pub record: &'r [u8],
    /// Something in front of it cannot be read: an open may not come to it.
    pub is_behind_damage: bool,
}

/// Hands out all records that can be read, with where they begin, those after damage in its block too.
///
/// # Errors
/// Those of the file.
pub fn each_record(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
    take: &mut dyn FnMut(u64, &[u8]),
) -> Result<Met> {
    each_salvaged(fs, path, number, &mut |found| {
        take(found.offset, found.record);
    })
}

/// As [`each_record`], and says of each record whether there was damage in front of it.
///
/// # Errors
/// Those of the file.
pub fn each_salvaged(
    fs: &dyn FileSystem,
    path: &Path,
    number: u64,
    take: &mut dyn FnMut(Salvaged<'_>),
) -> Result<Met> {
    let mut take = |offset, record: &[u8], is_behind_damage| {
        take(Salvaged {
            offset,
            record,
            is_behind_damage,
        });
    };
    let mut reader = LogReader::new(fs.open_sequential(path)?, number);
    let mut met = Met::default();
    loop {
        match reader.next_event()? {
            ReadEvent::Eof => {
                met.is_recycled = reader.is_recycled();
                return Ok(met);
            }
            ReadEvent::Record { offset, .. } => take(offset, reader.record(), met.is_damaged),
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
                        take(at, record, true);
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
                    take(at, record, true);
                })?;
            }
            ReadEvent::Predecessor { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::{LogOptions, LogWriter};
    use spanlith_env::{FaultFs, FaultRule, IoActivity, MemFs, OpClass};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The rest of the file was searched after each damaged block.
    #[test]
    fn what_a_damaged_file_costs_grows_with_its_size_only() {
        const BLOCKS: u64 = 64;
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let path = Path::new("/log");
        let garbage = vec![3; usize::try_from(BLOCKS).unwrap() * (32 << 10)];
        let mut file = fs.create(path, IoActivity::Other).unwrap();
        file.append(&garbage).unwrap();
        file.close().unwrap();
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
            let options = LogOptions {
                recyclable,
                ..LogOptions::default()
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
            let mut reached = Vec::new();
            let mut take = |found: Salvaged<'_>| {
                reached.extend(Some(found.record[0]).filter(|_| !found.is_behind_damage));
            };
            each_salvaged(&fs, path, number, &mut take).unwrap();
            assert_eq!(reached, [0], "{number} {recyclable}");
        }
    }
}
