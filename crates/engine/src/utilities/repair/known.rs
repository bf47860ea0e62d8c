//! Reads what a MANIFEST says, if it can be read to its end.
//!
//! A MANIFEST of which anything cannot be read says nothing here: a file that it names may have been replaced, and one
//! that it does not name may have replaced it. So does one that has lost its end, which ours tell by their marks. A torn
//! last record is none: what it would have said never counted.

use super::files::Files;
use crate::recovery::{of_manifest, read_current};
use crate::version::edit::BlobFileGarbage;
use crate::version::{BlobFileAddition, NewFile, SPEED_PATH, VersionEdit, filenames};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_base::{Error, Result};
use spanlith_env::Env;
use spanlith_wal::{LogReader, ReadEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A family as a MANIFEST describes it.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownFamily {
    pub name: String,
    pub comparator: String,
    /// Logs below this number hold nothing that the family has not flushed.
    pub log_number: u64,
    /// Tables by number.
    pub files: BTreeMap<u64, NewFile>,
    /// Tables that an edit removed.
    pub deleted: BTreeSet<u64>,
    /// Blob files by number, and what of them is garbage.
    pub blobs: BTreeMap<u64, (BlobFileAddition, BlobFileGarbage)>,
    pub history_low: Option<Vec<u8>>,
    pub persists_timestamps: Option<bool>,
}

/// A database as its MANIFEST describes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// By id.
    pub families: BTreeMap<u32, KnownFamily>,
    /// Ids of families that were dropped.
    pub dropped: BTreeSet<u32>,
    pub db_id: Option<Vec<u8>>,
    pub last_sequence: u64,
    pub next_file: u64,
    pub max_family: u32,
    pub min_log_number: u64,
}

impl Known {
    /// Reads the MANIFEST that CURRENT names, or the newest if CURRENT names none. `None` if it cannot be read to
    /// its end, or was longer.
    pub(super) fn read(env: &Env, dir: &Path, manifests: &BTreeSet<u64>) -> Option<Self> {
        let named = read_current(env, dir).ok();
        let number = named
            .filter(|n| manifests.contains(n))
            .or_else(|| manifests.last().copied())?;
        let path = dir.join(filenames::manifest_file_name(number));
        // Without a MANIFEST that reads to its end the tables decide; the file stays in `lost/`.
        Self::replay(env, &path).ok().flatten()
    }

    fn replay(env: &Env, path: &Path) -> Result<Option<Self>> {
        let mut reader = LogReader::new(env.fs.open_sequential(path)?, 0);
        let mut known = Self::default();
        let default = KnownFamily {
            name: "default".to_string(),
            ..KnownFamily::default()
        };
        known.families.insert(0, default);
        let (mut group, mut edits): (Vec<VersionEdit>, u64) = (Vec::new(), 0);
        let (mut torn_at, mut mark) = (None, None);
        loop {
            let before = reader.position();
            let event = reader.next_event()?;
            match event {
                ReadEvent::Eof => {
                    torn_at.get_or_insert(before);
                    break;
                }
                // Behind a torn record there is nothing.
                _ if torn_at.is_some() => return Ok(None),
                ReadEvent::Record { .. } => {
                    let edit = VersionEdit::decode(reader.record())?;
                    edits += 1;
                    mark = mark.max(edit.manifest_mark);
                    match edit.remaining_in_atomic_group {
                        Some(0) => {
                            group.push(edit);
                            let all = std::mem::take(&mut group);
                            all.into_iter().try_for_each(|e| known.apply(e))?;
                        }
                        Some(_) => group.push(edit),
                        None => known.apply(edit)?,
                    }
                }
                ReadEvent::Corruption { tail: true, .. } => torn_at = Some(before),
                _ => return Ok(None),
            }
        }
        let had_more = of_manifest(env, path, torn_at.unwrap_or(0), mark)?.is_damaged;
        let is_whole = edits > 0 && known.next_file > 0 && !had_more;
        Ok(is_whole.then_some(known))
    }

    fn apply(&mut self, edit: VersionEdit) -> Result<()> {
        if edit.db_id.is_some() {
            self.db_id.clone_from(&edit.db_id);
        }
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        self.next_file = edit.next_file_number.unwrap_or(self.next_file);
        self.max_family = self.max_family.max(edit.max_column_family.unwrap_or(0));
        let kept = edit.min_log_number_to_keep.unwrap_or(0);
        self.min_log_number = self.min_log_number.max(kept);
        let id = edit.column_family;
        if edit.column_family_drop {
            self.families.remove(&id);
            self.dropped.insert(id);
            return Ok(());
        }
        if let Some(name) = &edit.column_family_add {
            self.max_family = self.max_family.max(id);
            let family = KnownFamily {
                name: text_of_bytes(name),
                ..KnownFamily::default()
            };
            self.families.insert(id, family);
        }
        let unknown = || Error::corruption("MANIFEST record referencing unknown column family");
        let family = self.families.get_mut(&id).ok_or_else(unknown)?;
        family.apply(edit);
        Ok(())
    }

    /// Returns whether the id was given to a family that is there no more, or may be: of a family that was dropped before
    /// this MANIFEST began it says nothing else.
    pub(super) fn gave_out(&self, family: u32) -> bool {
        family <= self.max_family && !self.families.contains_key(&family)
    }

    /// A table that it has in the fourth directory, or on a speed disk, and that is not among the files.
    pub(super) fn far_away(&self, files: &Files) -> Option<u64> {
        let tables = self.families.values().flat_map(|f| f.files.values());
        let mut far = tables.filter(|f| f.path_id == SPEED_PATH);
        far.find(|f| !files.tables.contains_key(&f.number))
            .map(|f| f.number)
    }

    /// The family that a table is of, if it names it or has replaced it. What the table says of itself may be another one:
    /// `import_cf` and an ingestion take in tables as they are.
    pub(super) fn owner(&self, table: &NewFile) -> Option<(u32, &KnownFamily)> {
        let number = table.number;
        let owns = |f: &KnownFamily| match f.files.get(&number) {
            Some(recorded) => is_same(table, recorded),
            None => f.deleted.contains(&number),
        };
        let mut families = self.families.iter().map(|(&id, f)| (id, f));
        families.find(|(_, f)| owns(f))
    }
}

/// Returns whether a table is the one that a MANIFEST means, as far as both say who it is.
pub(super) fn is_same(table: &NewFile, recorded: &NewFile) -> bool {
    let ids = [table.unique_id, recorded.unique_id];
    table.size == recorded.size && (ids.contains(&[0, 0]) || ids[0] == ids[1])
}

impl KnownFamily {
    fn apply(&mut self, edit: VersionEdit) {
        if let Some(name) = &edit.comparator {
            self.comparator = text_of_bytes(name);
        }
        self.log_number = self.log_number.max(edit.log_number.unwrap_or(0));
        self.history_low = edit.full_history_ts_low.or_else(|| self.history_low.take());
        self.persists_timestamps = edit
            .persist_user_defined_timestamps
            .or(self.persists_timestamps);
        for (_, number) in edit.deleted_files {
            self.files.remove(&number);
            self.deleted.insert(number);
        }
        for file in edit.new_files {
            self.deleted.remove(&file.number);
            self.files.insert(file.number, file);
        }
        for blob in edit.blob_file_additions {
            let none = BlobFileGarbage {
                number: blob.number,
                count: 0,
                bytes: 0,
            };
            self.blobs.insert(blob.number, (blob, none));
        }
        for more in edit.blob_file_garbages {
            if let Some((_, garbage)) = self.blobs.get_mut(&more.number) {
                garbage.count = garbage.count.saturating_add(more.count);
                garbage.bytes = garbage.bytes.saturating_add(more.bytes);
            }
        }
    }

    /// Smallest sequence number in some of its tables, if they have all of their numbers.
    pub(super) fn least_number(&self, tables: &[u64]) -> Option<u64> {
        let files = tables.iter().filter_map(|number| self.files.get(number));
        files.map(|f| f.smallest_seqno).min().filter(|&n| n > 0)
    }

    /// Newest sequence number in the tables that it names.
    pub(super) fn newest(&self) -> u64 {
        let numbers = self.files.values().map(|f| f.largest_seqno);
        numbers.max().unwrap_or(0)
    }
}
