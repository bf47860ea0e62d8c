//! Tables that lie somewhere else from now on: a MANIFEST is written again with other path ids.
//!
//! The records stay as they are, except for the path ids of the tables that move. So no comparator, no option and no log is
//! needed, and what the old MANIFEST said the new one says too. The new one becomes current in one step, together with
//! what CURRENT says of speed disks; until then the old one counts, and every table that it names is where it says.

use super::evidence::of_manifest;
use crate::core::write_current;
use crate::version::{CurrentMarks, SPEED_PATH, VersionEdit, filenames, parse_file_name};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, FileNumber, Result};
use spanlith_env::{Env, IoActivity, SequentialFile, WritableFile};
use spanlith_wal::record::framed_len;
use spanlith_wal::{LogReader, LogWriter, ReadEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table that the MANIFEST names.
#[derive(Clone, Debug)]
pub(super) struct LiveTable {
    /// Id of its family.
    pub family: u32,
    pub level: u32,
    pub number: u64,
    pub size: u64,
    pub path_id: u32,
}

/// Holds what a MANIFEST says of tables.
pub(super) struct Tables {
    /// Its records.
    edits: Vec<VersionEdit>,
    /// By number: a number is that of one table.
    live: BTreeMap<u64, LiveTable>,
    /// Names of the families that exist, by id.
    families: BTreeMap<u32, String>,
    next_file: u64,
}

impl Tables {
    /// Reads MANIFEST `number`.
    ///
    /// # Errors
    /// `Corruption` if it is damaged; a torn end is none. Those of the file.
    pub(super) fn read(env: &Env, dir: &Path, number: u64) -> Result<Self> {
        let path = dir.join(filenames::manifest_file_name(number));
        let file = env.fs.open_sequential(&path)?;
        let (me, torn_at, mark) = Self::replay(file, number, &path)?;
        if of_manifest(env, &path, torn_at, mark)?.is_damaged {
            let text = "the MANIFEST is damaged: what had been durable cannot be read";
            return Err(Error::corruption(text)
                .with_path(&path)
                .with_offset(torn_at));
        }
        Ok(me)
    }

    /// The records of a MANIFEST, where they end, and how many bytes they say had been durable.
    fn replay(
        file: Box<dyn SequentialFile>,
        number: u64,
        path: &Path,
    ) -> Result<(Self, u64, Option<u64>)> {
        let mut me = Self {
            edits: Vec::new(),
            live: BTreeMap::new(),
            families: BTreeMap::from([(0, "default".to_string())]),
            next_file: number + 1,
        };
        let mut reader = LogReader::new(file, 0);
        let mut mark = None;
        let mut group = Vec::new();
        let torn_at = loop {
            let before = reader.position();
            match reader.next_event().map_err(|e| e.with_path(path))? {
                ReadEvent::Record { offset, .. } => {
                    let edit = VersionEdit::decode(reader.record());
                    let edit = edit.map_err(|e| e.with_offset(offset).with_path(path))?;
                    mark = mark.max(edit.manifest_mark);
                    let is_last = edit.remaining_in_atomic_group.is_none_or(|left| left == 0);
                    group.push(edit);
                    if is_last {
                        std::mem::take(&mut group)
                            .into_iter()
                            .for_each(|e| me.add(e));
                    }
                }
                ReadEvent::Eof | ReadEvent::Corruption { tail: true, .. } => break before,
                event => {
                    let foreign = || Error::corruption("a record that belongs into a log");
                    let e = event.into_error().unwrap_or_else(foreign);
                    return Err(e.with_path(path));
                }
            }
        };
        me.live.retain(|_, t| me.families.contains_key(&t.family));
        Ok((me, torn_at, mark))
    }

    fn add(&mut self, edit: VersionEdit) {
        let family = edit.column_family;
        if let Some(name) = &edit.column_family_add {
            self.families.insert(family, text_of_bytes(name));
        }
        if edit.column_family_drop {
            self.families.remove(&family);
        }
        for (_, number) in &edit.deleted_files {
            self.live.remove(number);
        }
        for f in &edit.new_files {
            let table = LiveTable {
                family,
                level: f.level,
                number: f.number,
                size: f.size,
                path_id: f.path_id,
            };
            self.live.insert(f.number, table);
        }
        self.next_file = self.next_file.max(edit.next_file_number.unwrap_or(0));
        self.edits.push(edit);
    }

    /// The tables of all families, by number.
    pub(super) fn live(&self) -> impl Iterator<Item = &LiveTable> {
        self.live.values()
    }

    /// Names of the families that exist.
    pub(super) fn families(&self) -> impl Iterator<Item = &str> {
        self.families.values().map(String::as_str)
    }

    /// Name of a family.
    pub(super) fn family(&self, id: u32) -> &str {
        self.families.get(&id).map_or("", String::as_str)
    }

    /// How many levels above `table` have tables in its family, level 0 among them.
    pub(super) fn rank(&self, table: &LiveTable) -> u32 {
        let above = self.live().filter(|t| t.family == table.family);
        let levels: BTreeSet<u32> = above
            .map(|t| t.level)
            .filter(|&level| level > 0 && level < table.level)
            .collect();
        let rank = levels.len() + usize::from(table.level > 0);
        u32::try_from(rank).unwrap_or(u32::MAX)
    }

    /// Writes a MANIFEST in which every table that `places` names has that path id, and that knows nothing of the tables
    /// `lost`, and makes it current with `marks`.
    ///
    /// # Errors
    /// Of the file system; the old MANIFEST is current then, unless only the last sync failed.
    pub(super) fn relocate(
        self,
        env: &Env,
        dir: &Path,
        places: &BTreeMap<u64, u32>,
        lost: &BTreeSet<u64>,
        marks: &CurrentMarks,
    ) -> Result<()> {
        self.rewrite(env, dir, marks, |edit| {
            edit.new_files.retain(|f| !lost.contains(&f.number));
            edit.deleted_files.retain(|d| !lost.contains(&d.1));
            for f in &mut edit.new_files {
                if let Some(path_id) = places.get(&f.number) {
                    f.path_id = *path_id;
                }
            }
        })
    }

    fn rewrite(
        mut self,
        env: &Env,
        dir: &Path,
        marks: &CurrentMarks,
        change: impl Fn(&mut VersionEdit),
    ) -> Result<()> {
        let numbers = env.fs.list(dir)?.into_iter();
        let numbers = numbers.filter_map(|name| parse_file_name(&name)?.number());
        let number = numbers.fold(self.next_file, |next, n| next.max(n.saturating_add(1)));
        let records = self.records(number, change);
        let path = dir.join(filenames::manifest_file_name(number));
        let mut writer = LogWriter::new(env.fs.create(&path, IoActivity::Manifest)?, 0);
        for record in &records {
            writer.add_record(record)?;
        }
        writer.sync()?;
        writer.close()?;
        let open = env.fs.open_dir(dir)?;
        open.sync()?;
        write_current(env, dir, &*open, number, marks)
    }
}

impl Tables {
    /// The records of a MANIFEST `number` that says the same, but for what `change` changes.
    fn records(&mut self, number: u64, change: impl Fn(&mut VersionEdit)) -> Vec<Vec<u8>> {
        self.edits.push(VersionEdit {
            next_file_number: Some(number.saturating_add(1)),
            ..VersionEdit::default()
        });
        self.edits.iter_mut().for_each(change);
        encode(&mut self.edits)
    }
}

/// A MANIFEST for a copy of a database, which has the tables of its speed disk among the others: the first `len` bytes of
/// MANIFEST `number` with other path ids, as MANIFEST `new`. RocksDB looks up the directory of a path id when it deletes
/// a table, and must not find one that is not there.
///
/// # Errors
/// As of reading it.
pub(crate) fn manifest_of_copy(
    env: &Env,
    dir: &Path,
    (number, len): (FileNumber, u64),
    new: FileNumber,
) -> Result<Vec<u8>> {
    let path = dir.join(filenames::manifest_file_name(number));
    let file = env.fs.open_sequential(&path)?;
    let front = Box::new(Front { file, left: len });
    let (mut tables, _, _) = Tables::replay(front, number, &path)?;
    let records = tables.records(new, |edit| {
        for f in &mut edit.new_files {
            if f.path_id == SPEED_PATH {
                f.path_id = 0;
            }
        }
    });
    let bytes = Arc::new(Mutex::new(RANK, Vec::new()));
    let file = InMemory(bytes.clone(), path);
    let mut writer = LogWriter::new(Box::new(file), 0);
    for record in &records {
        writer.add_record(record)?;
    }
    writer.close()?;
    let bytes = std::mem::take(&mut *bytes.lock());
    Ok(bytes)
}

/// The first bytes of a file that may grow.
struct Front {
    file: Box<dyn SequentialFile>,
    left: u64,
}

impl SequentialFile for Front {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let n = self.file.read(buf.get_mut(..most).unwrap_or_default())?;
        self.left -= n as u64;
        Ok(n)
    }
}

/// A leaf among the engine's locks.
const RANK: u8 = 90;

/// A file that is kept in memory, called as the one that it is made of.
struct InMemory(Arc<Mutex<Vec<u8>>>, PathBuf);

impl WritableFile for InMemory {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.0.lock().extend_from_slice(data);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.lock().len() as u64
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.1
    }
}

/// The records as bytes. If there were marks, the first record has the only one: the size of the file.
fn encode(edits: &mut [VersionEdit]) -> Vec<Vec<u8>> {
    let is_marked = edits.iter().any(|e| e.manifest_mark.is_some());
    for edit in edits.iter_mut() {
        edit.manifest_mark = None;
    }
    let mut mark = is_marked.then_some(0);
    // The mark makes the file longer by its own digits: the second or third look agrees.
    for _ in 0..4 {
        if let Some(first) = edits.first_mut() {
            first.manifest_mark = mark;
        }
        let records: Vec<Vec<u8>> = edits.iter().map(VersionEdit::encode).collect();
        let size = framed_len(records.iter().map(Vec::len));
        if mark.is_none_or(|mark| mark == size) {
            return records;
        }
        mark = Some(size);
    }
    if let Some(first) = edits.first_mut() {
        first.manifest_mark = None;
    }
    edits.iter().map(VersionEdit::encode).collect()
}
