//! Checks of the tables of a family.

use super::blobs::BlobsToVerify;
use super::report::{Finding, VerifyLevel};
use super::verifier::Verifier;
use crate::blob::{BlobRead, BlobSource, ExpectedFamily, each_pointer};
use crate::version::FileMeta;
use spanlith_base::keys::{self, tag_sequence, user_key};
use spanlith_base::{Error, ErrorKind, Result, SubCode};
use spanlith_env::RandomAccessFile;
use spanlith_table::format::{BlockHandle, BlockKind, TRAILER_LEN};
use spanlith_table::{ReaderOptions, TableDump, TableReader};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of entries between two looks at whether the verification goes on.
const LOOK: u64 = 1 << 20;

/// Blob files that are open at a time.
const BLOBS_OPEN: usize = 64;

/// A table as the MANIFEST describes it, and where it is.
#[derive(Clone, Debug)]
pub struct TableToVerify {
    /// Its level.
    pub level: usize,
    /// As findings name it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its description.
    pub file: Arc<FileMeta>,
}

/// A family of which tables and blob files are verified.
pub struct FamilyToVerify {
    /// How its tables are opened; without a cache.
    pub readers: ReaderOptions,
    /// The comparator in `readers` is the family's, not a stand-in: entries can be compared.
    pub is_ordered: bool,
    /// Name of its order of keys, for messages.
    pub comparator: String,
    /// Its tables: by level, those of level 0 newest first, others by key.
    pub tables: Vec<TableToVerify>,
    /// Its number, which its blob files bear; `None` if it is not known.
    pub id: Option<u32>,
    /// Where its blob files are.
    pub blob_dir: PathBuf,
    /// Its blob files by number.
    pub blobs: BTreeMap<u64, BlobsToVerify>,
}

impl std::fmt::Debug for FamilyToVerify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyToVerify")
            .field("comparator", &self.comparator)
            .field("tables", &self.tables.len())
            .field("blobs", &self.blobs.len())
            .finish_non_exhaustive()
    }
}

/// Says what is said of a table that [`TableReader::has_misleading_hash_index`].
const MISLEADING_INDEX: &str = "its hash index names other data blocks than those that have the keys: RocksDB's gets \
    and prefix seeks miss keys, reads by this engine do not; a compaction rewrites it";

impl Verifier<'_> {
    /// Checks tables and blob files of a family.
    ///
    /// # Errors
    /// `Aborted` if the verification is called off.
    pub fn family(&mut self, family: &FamilyToVerify) -> Result<()> {
        let mut whole = Vec::new();
        for table in &family.tables {
            let before = self.report.problems().count();
            let reader = self.table(family, table)?;
            let is_whole = self.report.problems().count() == before;
            whole.extend(reader.filter(|_| is_whole).map(|r| (table, r)));
        }
        for (&number, &expected) in &family.blobs {
            self.blob_file(&family.blob_dir, number, expected)?;
        }
        if self.level() < VerifyLevel::Full || !family.is_ordered {
            return Ok(());
        }
        self.check_disjoint(family);
        // Where a table cannot be read, what lies above and below it cannot be compared.
        if whole.len() == family.tables.len() {
            self.check_places(family, whole)?;
        }
        Ok(())
    }

    fn table(
        &mut self,
        family: &FamilyToVerify,
        table: &TableToVerify,
    ) -> Result<Option<Arc<TableReader>>> {
        self.begin(&table.name)?;
        let size = match self.env.fs.size(&table.path) {
            Ok(size) => size,
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => {
                let what = format!("missing; the MANIFEST names it in level {}", table.level);
                self.add(of_file(table, Finding::damage(&table.name, None, what)));
                return Ok(None);
            }
            Err(e) => {
                self.add(Finding::from_error(&table.name, None, &e));
                return Ok(None);
            }
        };
        if size != table.file.size {
            let what = format!("{size} bytes, the MANIFEST says {}", table.file.size);
            let at = Some(size.min(table.file.size));
            self.add(of_file(table, Finding::damage(&table.name, at, what)));
        }
        self.report.tables += 1;
        let opened = match self.open_table(family, table, size) {
            Ok(reader) => reader,
            Err(e) => {
                self.add(of_file(table, Finding::from_error(&table.name, None, &e)));
                return self.step(table.file.size).map(|()| None);
            }
        };
        if self.level() == VerifyLevel::Quick {
            return Ok(Some(opened));
        }
        let before = self.report.problems().count();
        // A table without blocks has no checksums either: its records are looked at.
        let flat = opened.is_flat().then(|| opened.verify_checksums());
        match (flat, opened.dump()) {
            (Some(Ok(parts)), Ok(_)) => {
                self.report.blocks += parts;
                self.step(size)?;
            }
            (None, Ok(dump)) => self.blocks(table, size, &dump)?,
            (Some(Err(e)), _) | (_, Err(e)) => {
                self.add(of_file(table, Finding::from_error(&table.name, None, &e)));
            }
        }
        if self.report.problems().count() == before
            && opened.has_misleading_hash_index().unwrap_or(false)
        {
            self.add(of_file(
                table,
                Finding::damage(&table.name, None, MISLEADING_INDEX),
            ));
        }
        self.report.bytes += size;
        if self.level() == VerifyLevel::Full && self.report.problems().count() == before {
            self.contents(family, table, &opened)?;
        }
        Ok(Some(opened))
    }

    /// Opens a table; another one under its name is a finding, and is checked all the same.
    fn open_table(
        &mut self,
        family: &FamilyToVerify,
        table: &TableToVerify,
        size: u64,
    ) -> Result<Arc<TableReader>> {
        let f = &table.file;
        let file = self.open(&table.path)?;
        let options = ReaderOptions {
            cache: None,
            cache_id: None,
            verify_checksums: true,
            expected_unique_id: (f.unique_id != [0, 0]).then_some(f.unique_id),
            largest_seqno: f.largest_seqno,
            stripped_timestamps: !f.user_defined_timestamps_persisted,
            file_number: f.number,
            level: i32::try_from(table.level).unwrap_or(-1),
            ..family.readers.clone()
        };
        match TableReader::open(file.clone(), size, options.clone()) {
            Err(e) if e.kind() == ErrorKind::Corruption && e.message().contains("unique ID") => {
                self.add(of_file(table, Finding::from_error(&table.name, None, &e)));
                let options = ReaderOptions {
                    expected_unique_id: None,
                    ..options
                };
                TableReader::open(file, size, options)
            }
            other => other,
        }
    }

    /// The checksum of every block, also after damage.
    fn blocks(&mut self, table: &TableToVerify, size: u64, dump: &TableDump) -> Result<()> {
        let file = match self.open(&table.path) {
            Ok(file) => file,
            Err(e) => {
                self.add(Finding::from_error(&table.name, None, &e));
                return Ok(());
            }
        };
        let is_user_key = dump.index_keys_are_user_keys;
        let as_user_key = |separator: &'_ [u8]| match is_user_key {
            true => separator.to_vec(),
            false => user_key(separator).to_vec(),
        };
        let mut buffer = Vec::new();
        let mut first = table.file.smallest_user_key().to_vec();
        let metas = dump.metaindex.iter().map(|(n, h)| (*h, kind_of(n), None));
        let parts = dump.index_partitions.iter();
        let parts = parts.map(|(_, h)| (*h, BlockKind::Index, None));
        let filters = dump.filter_partitions.iter();
        let filters = filters.map(|(_, h)| (*h, BlockKind::Filter, None));
        let data = dump.index.iter();
        let data = data.map(|(key, h)| (*h, BlockKind::Data, Some(key)));
        let blocks = std::iter::once((dump.footer.metaindex, BlockKind::MetaIndex, None))
            .chain(metas)
            .chain(dump.footer.index.map(|h| (h, BlockKind::Index, None)))
            .chain(parts)
            .chain(filters)
            .chain(data);
        for (handle, kind, separator) in blocks {
            self.report.blocks += 1;
            let mut check = || {
                read_stored(&*file, handle, size, &mut buffer)?;
                let sum = &dump.footer.checksum;
                sum.open(&buffer, handle, true, kind, &table.path).map(drop)
            };
            let checked = match check() {
                Err(e) if e.kind() == ErrorKind::Corruption => match check() {
                    Ok(()) => {
                        let what = "a block read differently the second time";
                        let at = Some(handle.offset);
                        self.add(Finding::note(&table.name, at, what));
                        Ok(())
                    }
                    again => again,
                },
                checked => checked,
            };
            let last = separator.map(|key| as_user_key(key));
            if let Err(e) = checked {
                let finding = Finding::from_error(&table.name, Some(handle.offset), &e);
                self.add(match &last {
                    Some(last) => finding.with_keys(&first, last),
                    None => of_file(table, finding),
                });
            }
            first = last.unwrap_or(first);
            self.step(handle.size + TRAILER_LEN as u64)?;
        }
        Ok(())
    }

    /// Every entry.
    fn contents(
        &mut self,
        family: &FamilyToVerify,
        table: &TableToVerify,
        reader: &Arc<TableReader>,
    ) -> Result<()> {
        if !family.is_ordered {
            let what = format!("order of keys {}", family.comparator);
            let e = Error::not_supported(what);
            self.add(Finding::from_error(&table.name, None, &e));
            return Ok(());
        }
        let f = &*table.file;
        let fs = self.env.fs.clone();
        let expected = family.id.map_or(ExpectedFamily::Any, ExpectedFamily::Id);
        let values = BlobSource::new(fs, family.blob_dir.clone(), expected, BLOBS_OPEN);
        let comparator = &family.readers.comparator;
        let broken = |what: &str| Err(Error::corruption(what));
        let (mut unseen, mut lost) = (0, Vec::new());
        let read = reader.verify_contents_with(&mut |key, value| {
            unseen += (key.len() + value.len()) as u64;
            if unseen >= LOOK {
                let n = std::mem::take(&mut unseen);
                self.step(n)?;
            }
            if comparator.compare_internal(key, &f.smallest) == Ordering::Less
                || comparator.compare_internal(key, &f.largest) == Ordering::Greater
            {
                return broken("T1: an entry lies outside the bounds that the MANIFEST records");
            }
            let seqno = tag_sequence(keys::tag(key));
            if seqno < f.smallest_seqno || seqno > f.largest_seqno {
                return broken(
                    "T1: a sequence number lies outside those that the MANIFEST records",
                );
            }
            each_pointer(key, value, |pointer| {
                let found = pointer.and_then(|p| match p.file {
                    0 => Ok(()),
                    file if !family.blobs.contains_key(&file) => Err(Error::corruption(format!(
                        "G1: an entry refers to blob file {file}, which the MANIFEST does not name"
                    ))),
                    _ => values
                        .get(user_key(key), &p, BlobRead::default())
                        .map(|value| self.pace(value.len() as u64)),
                });
                if let Err(e) = found {
                    lost.push((user_key(key).to_vec(), e));
                }
            });
            Ok(())
        });
        for (key, e) in lost {
            let what = format!("a value cannot be read: {e}");
            self.add(Finding::damage(&table.name, None, what).with_keys(&key, &key));
        }
        match read {
            Ok(entries) => self.report.entries += entries,
            Err(e) if self.report.was_called_off => return Err(e),
            Err(e) => self.add(of_file(table, Finding::from_error(&table.name, None, &e))),
        }
        self.step(unseen)
    }
}

/// The same finding, concerning all keys of a table.
pub(super) fn of_file(table: &TableToVerify, finding: Finding) -> Finding {
    let f = &table.file;
    finding.with_keys(f.smallest_user_key(), f.largest_user_key())
}

fn kind_of(meta_block: &str) -> BlockKind {
    match meta_block {
        "rocksdb.properties" => BlockKind::Properties,
        "rocksdb.range_del" => BlockKind::RangeDeletion,
        "rocksdb.compression_dict" => BlockKind::CompressionDictionary,
        "rocksdb.index" | "rocksdb.hashindex.prefixes" | "rocksdb.hashindex.metadata" => {
            BlockKind::Index
        }
        _ => BlockKind::Filter,
    }
}

/// Reads a block with its trailer.
fn read_stored(
    file: &dyn RandomAccessFile,
    handle: BlockHandle,
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let fits = handle.end().is_some_and(|end| end <= size);
    let len = usize::try_from(handle.size).ok();
    let len = len.and_then(|n| n.checked_add(TRAILER_LEN));
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
