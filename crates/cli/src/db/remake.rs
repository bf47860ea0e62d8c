//! A MANIFEST made of the tables, blob files and logs that are there, where none can be read.
//!
//! Each table says of which family it is and how that orders its keys; its bounds and sequence numbers are read from its
//! entries. All tables go to level 0, which may overlap, the one with the newest entries first. Which of them
//! compactions had replaced only a MANIFEST says: an older value, or one that had been deleted, may come to light. Logs
//! are replayed from the first that has an update newer than all tables of a family, so that no merge operand counts
//! twice; that takes the numbers as the tables have them, and those of the deepest level are 0.
//!
//! Nothing below changes: the MANIFEST is in memory.

use super::mend::{each_record, rewrite};
use crate::inventory::Inventory;
use crate::overlay::Overlay;
use crate::term::count;
use spanlith::blob::{BlobFooter, BlobHeader, BlobIndex, FOOTER_LEN, HEADER_LEN, read_range};
use spanlith::version::{
    BlobFileAddition, FileKind, NewFile, VersionEdit, filenames, parse_file_name,
};
use spanlith::{Comparator, Result};
use spanlith_base::ValueType;
use spanlith_base::keys::{MAX_SEQUENCE, internal_key, split_internal, tag_sequence, tag_type};
use spanlith_env::{Env, FileSystem, IoActivity};
use spanlith_table::{TableIter, TableReader};
use spanlith_wal::BatchIter;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The id that tables name whose family is not known.
const UNKNOWN_FAMILY: u64 = i32::MAX as u64;

/// A family as its tables describe it.
#[derive(Debug, Default)]
struct Family {
    name: String,
    comparator: String,
    files: Vec<NewFile>,
    blobs: Vec<BlobFileAddition>,
    /// Newest sequence number in its tables.
    newest: u64,
}

/// Describes what was made.
pub struct Remade {
    /// The directory as the MANIFEST that was made describes it.
    pub inventory: Inventory,
    /// Files that could not be taken, and why.
    pub left_out: Vec<String>,
}

/// Makes a MANIFEST for a directory, of which `i` says what files there are. `None` if there are neither tables nor
/// logs.
///
/// # Errors
/// Of reading the directory.
pub fn remake(i: &Inventory) -> Result<Option<Remade>> {
    let mut families: BTreeMap<u32, Family> = BTreeMap::new();
    let mut left_out = Vec::new();
    for name in i.listing.keys() {
        let Some(FileKind::Table(number)) = parse_file_name(name) else {
            continue;
        };
        let taken = crate::dump::open_table(&i.dir.join(name))
            .and_then(|reader| take_table(&reader, number, &mut families));
        if let Err(e) = taken {
            left_out.push(format!("{name}: {e}"));
        }
    }
    if families.is_empty() && i.logs.values().all(|size| *size == 0) {
        return Ok(None);
    }
    families.entry(0).or_default();
    name_families_of_logs(i, &mut families);
    for name in i.listing.keys() {
        if let Some(FileKind::Blob(number)) = parse_file_name(name)
            && let Err(e) = take_blobs(&i.dir.join(name), number, &mut families)
        {
            left_out.push(format!("{name}: {e}"));
        }
    }
    let records = records(i, &mut families);
    let number = i
        .listing
        .keys()
        .filter_map(|name| parse_file_name(name)?.number());
    let number = number.max().unwrap_or(0) + 1;
    let name = filenames::manifest_file_name(number);
    let fs = Arc::new(Overlay::new(Env::system().fs));
    rewrite(&*fs, &i.dir.join(&name), 0, &records)?;
    let mut current = fs.create(&i.dir.join(filenames::CURRENT_FILE), IoActivity::Other)?;
    current.append(format!("{name}\n").as_bytes())?;
    current.close()?;
    let env = Env {
        fs,
        ..Env::system()
    };
    let wal_dir = (i.wal_dir != i.dir).then_some(i.wal_dir.as_path());
    let mut inventory = Inventory::read_on(&env, &i.dir, wal_dir)?;
    inventory.made = Some(records);
    Ok(Some(Remade {
        inventory,
        left_out,
    }))
}

/// Adds the families that only logs know, by their ids. The OPTIONS file has the names of all, in the order in which they
/// were made; where it says nothing, the id becomes the name.
fn name_families_of_logs(i: &Inventory, families: &mut BTreeMap<u32, Family>) {
    let of_logs: BTreeSet<u32> = newest_updates(i).keys().map(|(_, id)| *id).collect();
    let parsed = i.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
    let known: BTreeSet<String> = families.values().map(|f| f.name.clone()).collect();
    let is_free = |name: &str| name != "default" && !known.contains(name);
    let mut free = parsed
        .iter()
        .flat_map(|p| &p.cfs)
        .filter(|cf| is_free(&cf.name));
    for id in of_logs {
        families.entry(id).or_insert_with(|| match free.next() {
            Some(cf) => Family {
                name: cf.name.clone(),
                comparator: cf.options.comparator.clone(),
                ..Family::default()
            },
            None => Family {
                name: format!("family-{id}"),
                ..Family::default()
            },
        });
    }
}

/// Adds a table to its family.
fn take_table(
    reader: &Arc<TableReader>,
    number: u64,
    families: &mut BTreeMap<u32, Family>,
) -> Result<()> {
    let p = reader.properties();
    let id = match u32::try_from(p.column_family_id) {
        Ok(id) if p.column_family_id != UNKNOWN_FAMILY && !p.column_family_name.is_empty() => id,
        _ => 0,
    };
    let family = families.entry(id).or_default();
    if family.comparator.is_empty() {
        family.name.clone_from(&p.column_family_name);
        family.comparator.clone_from(&p.comparator_name);
    }
    let order = crate::db::verify::comparator_or_stand_in(&p.comparator_name);
    let mut seen = Seen::default();
    seen.walk(reader.iter(crate::tables::walk()))?;
    let Seen {
        mut first,
        mut last,
        mut least,
        mut most,
        oldest_blob,
    } = seen;
    for (begin, end, sequence) in reader.range_tombstones()? {
        (least, most) = (least.min(sequence), most.max(sequence));
        let tag = |sequence: u64| sequence << 8 | ValueType::RangeDeletion as u64;
        let bounds = (
            internal_key(&begin, tag(sequence)),
            internal_key(&end, tag(MAX_SEQUENCE)),
        );
        widen(&order, &mut first, &mut last, bounds);
    }
    let (Some(smallest), Some(largest)) = (first, last) else {
        // Nothing is in it.
        return Ok(());
    };
    let most = most.max(p.key_largest_seqno.unwrap_or(0));
    family.newest = family.newest.max(most);
    family.files.push(NewFile {
        level: 0,
        number,
        size: reader.file_size(),
        smallest,
        largest,
        smallest_seqno: least.min(most),
        largest_seqno: most,
        oldest_blob_file_number: oldest_blob.unwrap_or(0),
        unique_id: p.unique_id(),
        file_creation_time: p.file_creation_time,
        user_defined_timestamps_persisted: p.user_defined_timestamps_persisted != Some(0),
        ..NewFile::default()
    });
    Ok(())
}

/// Describes what the entries of a table say.
struct Seen {
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    least: u64,
    most: u64,
    oldest_blob: Option<u64>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            first: None,
            last: None,
            least: u64::MAX,
            most: 0,
            oldest_blob: None,
        }
    }
}

impl Seen {
    /// Walks from the first entry on, and from the last one back if a block in between cannot be read.
    fn walk(&mut self, mut entries: TableIter) -> Result<()> {
        entries.seek_to_first();
        if entries.valid() {
            self.first = Some(entries.key().to_vec());
        }
        while entries.valid() {
            self.take(&entries);
            self.last = Some(entries.key().to_vec());
            entries.next();
        }
        let Err(damage) = entries.status() else {
            return Ok(());
        };
        entries.seek_to_last();
        // Without both ends nobody can tell where the table belongs.
        if self.first.is_none() || !entries.valid() {
            return Err(damage);
        }
        self.last = Some(entries.key().to_vec());
        while entries.valid() {
            self.take(&entries);
            entries.prev();
        }
        Ok(())
    }

    fn take(&mut self, entries: &TableIter) {
        let Some((_, tag)) = split_internal(entries.key()) else {
            return;
        };
        let sequence = tag_sequence(tag);
        (self.least, self.most) = (self.least.min(sequence), self.most.max(sequence));
        if tag_type(tag) == ValueType::BlobIndex as u8
            && let Ok(BlobIndex::Blob(pointer)) = BlobIndex::decode(entries.value())
        {
            let oldest = self.oldest_blob.unwrap_or(u64::MAX);
            self.oldest_blob = Some(oldest.min(pointer.file));
        }
    }
}

/// Widens bounds of a table by those of a range tombstone.
fn widen(
    order: &Comparator,
    first: &mut Option<Vec<u8>>,
    last: &mut Option<Vec<u8>>,
    (begin, end): (Vec<u8>, Vec<u8>),
) {
    let is_less = |a: &[u8], b: &[u8]| order.compare_internal(a, b).is_lt();
    if first.as_ref().is_none_or(|f| is_less(&begin, f)) {
        *first = Some(begin);
    }
    if last.as_ref().is_none_or(|l| is_less(l, &end)) {
        *last = Some(end);
    }
}

/// Adds a blob file to the family that its header names.
fn take_blobs(path: &Path, number: u64, families: &mut BTreeMap<u32, Family>) -> Result<()> {
    let file = Env::system().fs.open_random(path)?;
    let header = BlobHeader::decode(&read_range(&file, 0, HEADER_LEN as u64)?)?;
    let end = file.size().saturating_sub(FOOTER_LEN as u64);
    let footer = BlobFooter::decode(&read_range(&file, end, FOOTER_LEN as u64)?)?;
    let Some(family) = families.get_mut(&header.column_family) else {
        // No table of the family refers to it.
        return Ok(());
    };
    family.blobs.push(BlobFileAddition {
        number,
        total_count: footer.blobs,
        total_bytes: end.saturating_sub(HEADER_LEN as u64),
        ..BlobFileAddition::default()
    });
    Ok(())
}

/// The records: one that makes each family, then its files.
fn records(i: &Inventory, families: &mut BTreeMap<u32, Family>) -> Vec<Vec<u8>> {
    let newest_update = newest_updates(i);
    let last_log = i.logs.keys().next_back().copied();
    let mut out = Vec::new();
    for (&id, family) in families.iter_mut() {
        let name = match (id, family.name.as_str()) {
            (0, _) => None,
            (_, name) => Some(name.as_bytes().to_vec()),
        };
        let is_stripped = family
            .files
            .iter()
            .any(|f| !f.user_defined_timestamps_persisted);
        let comparator = match family.comparator.as_str() {
            "" => Comparator::Bytewise.name(),
            name => name,
        };
        out.push(
            VersionEdit {
                column_family: id,
                column_family_add: name,
                comparator: Some(comparator.as_bytes().to_vec()),
                persist_user_defined_timestamps: is_stripped.then_some(false),
                ..VersionEdit::default()
            }
            .encode(),
        );
        // The newest of level 0 is asked first.
        family.files.sort_by_key(|f| (f.largest_seqno, f.number));
        for (epoch, f) in (1..).zip(&mut family.files) {
            f.epoch_number = epoch;
        }
        let is_needed = |log: &u64| {
            let newest = newest_update.get(&(*log, id));
            newest.is_some_and(|&newest| newest > family.newest)
        };
        let log = i
            .logs
            .keys()
            .find(|log| is_needed(log))
            .copied()
            .or(last_log);
        out.push(
            VersionEdit {
                column_family: id,
                log_number: log,
                new_files: std::mem::take(&mut family.files),
                blob_file_additions: std::mem::take(&mut family.blobs),
                ..VersionEdit::default()
            }
            .encode(),
        );
    }
    let last_sequence = families.values().map(|f| f.newest).max();
    let files = i
        .listing
        .keys()
        .filter_map(|name| parse_file_name(name)?.number());
    let last_file = files.chain(i.logs.keys().copied()).max().unwrap_or(0);
    out.push(
        VersionEdit {
            prev_log_number: Some(0),
            next_file_number: Some(last_file + 2),
            last_sequence,
            max_column_family: families.keys().next_back().copied(),
            ..VersionEdit::default()
        }
        .encode(),
    );
    out
}

/// The newest sequence number that each log has of each family.
fn newest_updates(i: &Inventory) -> BTreeMap<(u64, u32), u64> {
    let mut out: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for &log in i.logs.keys() {
        let path = i.wal_dir.join(filenames::log_file_name(log));
        let mut take = |_: u64, record: &[u8]| {
            let Ok(batch) = BatchIter::new(record) else {
                return;
            };
            let mut sequence = batch.sequence();
            for op in batch.into_iter().map_while(std::result::Result::ok) {
                if let Some(cf) = op.cf() {
                    let newest = out.entry((log, cf)).or_default();
                    *newest = sequence.max(*newest);
                }
                sequence += u64::from(op.is_counted());
            }
        };
        // The replay of a log reports the part that cannot be read.
        let _ = each_record(&*Env::system().fs, &path, log, &mut take);
    }
    out
}

/// One line about what a MANIFEST that was made cannot say.
pub fn caveat(i: &Inventory) -> String {
    let tables = i.families.values().map(|f| f.files.len() as u64).sum();
    format!(
        "which of the {} tables are obsolete, which only a MANIFEST says: what had been deleted or overwritten may come \
         to light",
        count(tables)
    )
}
