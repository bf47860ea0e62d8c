//! The records of a MANIFEST that has lost some, made to fit each other.
//!
//! An open refuses a MANIFEST that deletes what it has not added, or speaks of a family that it has not made.
//! Here such a part of a record is left out and named, so that the others count. What is left is what an open
//! takes: no record belongs to an atomic group any more, because of a group that lost one the others are
//! wanted, and none speaks of tracked logs.

use crate::term::counted;
use spanlith::version::VersionEdit;
use std::collections::{BTreeMap, BTreeSet};

/// Tables and blob files of a family.
#[derive(Debug, Default)]
struct Files {
    name: Vec<u8>,
    /// Levels by number.
    tables: BTreeMap<u64, u32>,
    /// Blobs and bytes that may still become garbage, by number.
    blobs: BTreeMap<u64, (u64, u64)>,
}

/// Describes what the records so far lead to.
#[derive(Debug)]
pub struct Edits {
    families: BTreeMap<u32, Files>,
    dropped: BTreeSet<u32>,
    /// The records that are left.
    pub records: Vec<Vec<u8>>,
    /// Says what was left out.
    pub left_out: Vec<String>,
    /// Records that do not decode.
    undecoded: u64,
}

impl Edits {
    /// Of a new database.
    pub fn new() -> Self {
        let default = Files {
            name: b"default".to_vec(),
            ..Files::default()
        };
        Self {
            families: BTreeMap::from([(0, default)]),
            dropped: BTreeSet::new(),
            records: Vec::new(),
            left_out: Vec::new(),
            undecoded: 0,
        }
    }

    /// Places that were left out.
    pub fn lost(&self) -> u64 {
        self.undecoded + self.left_out.len() as u64
    }

    /// Takes a record as far as it fits. What does not decode is no record.
    pub fn take(&mut self, record: &[u8]) {
        let Ok(mut edit) = VersionEdit::decode(record) else {
            self.undecoded += 1;
            return;
        };
        let id = edit.column_family;
        if let Some(name) = &edit.column_family_add {
            let is_known = self.families.values().any(|f| f.name == *name);
            if is_known || self.families.contains_key(&id) || self.dropped.contains(&id) {
                self.miss(format!("a record that makes family {id} once more"));
                return;
            }
            let files = Files {
                name: name.clone(),
                ..Files::default()
            };
            self.families.insert(id, files);
        } else if edit.column_family_drop {
            if self.families.remove(&id).is_none() {
                self.miss(format!("the drop of family {id}, which no record makes"));
                return;
            }
            self.dropped.insert(id);
        }
        edit.remaining_in_atomic_group = None;
        edit.wal_additions.clear();
        edit.wal_deletion = None;
        if !edit.column_family_drop {
            let Some(files) = self.families.get_mut(&id) else {
                let tables = counted(edit.new_files.len() as u64, "table");
                self.miss(format!(
                    "a record with {tables} of family {id}, which no record makes"
                ));
                return;
            };
            let strange = files.fit(&mut edit);
            strange.into_iter().for_each(|what| self.miss(what));
        }
        self.records.push(edit.encode());
    }

    fn miss(&mut self, what: String) {
        self.left_out.push(what);
    }
}

impl Files {
    /// Applies an edit, without what contradicts the others, and says what that is.
    fn fit(&mut self, edit: &mut VersionEdit) -> Vec<String> {
        let mut strange = Vec::new();
        edit.deleted_files.retain(|(level, number)| {
            let is_known = self.tables.get(number) == Some(level);
            match is_known {
                true => drop(self.tables.remove(number)),
                false => strange.push(format!(
                    "the deletion of table {number:06} from level {level}, where no record puts it"
                )),
            }
            is_known
        });
        let mut moved = Vec::new();
        edit.new_files.retain(|f| {
            let before = self.tables.insert(f.number, f.level);
            match before {
                Some(level) if level == f.level => {
                    strange.push(format!("table {:06} in level {level} once more", f.number));
                    return false;
                }
                // The record that took it away from there is lost.
                Some(level) => moved.push((level, f.number)),
                None => {}
            }
            true
        });
        edit.deleted_files.extend(moved);
        edit.blob_file_additions.retain(|b| {
            let is_new = !self.blobs.contains_key(&b.number);
            match is_new {
                true => drop(self.blobs.insert(b.number, (b.total_count, b.total_bytes))),
                false => strange.push(format!("blob file {:06} once more", b.number)),
            }
            is_new
        });
        edit.blob_file_garbages.retain(|g| {
            let left = self.blobs.get(&g.number).and_then(|&(count, bytes)| {
                Some((count.checked_sub(g.count)?, bytes.checked_sub(g.bytes)?))
            });
            match left {
                Some(left) => drop(self.blobs.insert(g.number, left)),
                None => strange.push(format!(
                    "garbage in blob file {:06}, which no record adds, or more than it holds",
                    g.number
                )),
            }
            left.is_some()
        });
        strange
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith::version::{BlobFileAddition, BlobFileGarbage, NewFile};

    fn edit(change: impl FnOnce(&mut VersionEdit)) -> Vec<u8> {
        let mut edit = VersionEdit::default();
        change(&mut edit);
        edit.encode()
    }

    fn table(level: u32, number: u64) -> NewFile {
        NewFile {
            level,
            number,
            smallest: b"a\x01\0\0\0\0\0\0\0".to_vec(),
            largest: b"b\x01\0\0\0\0\0\0\0".to_vec(),
            ..NewFile::default()
        }
    }

    #[test]
    fn what_refers_to_lost_records_is_left_out_and_named_and_the_rest_stays() {
        let mut edits = Edits::new();
        edits.take(&edit(|e| {
            e.new_files = vec![table(0, 7), table(0, 8)];
            e.remaining_in_atomic_group = Some(1);
        }));
        edits.take(&edit(|e| {
            e.deleted_files = vec![(0, 7), (0, 9)];
            e.new_files = vec![table(0, 8), table(1, 10)];
        }));
        edits.take(&edit(|e| e.new_files = vec![table(2, 10)]));
        edits.take(&edit(|e| e.column_family = 3));
        edits.take(&edit(|e| {
            e.column_family = 3;
            e.column_family_drop = true;
        }));
        edits.take(&edit(|e| e.column_family_add = Some(b"default".to_vec())));
        edits.take(&edit(|e| {
            e.blob_file_additions = vec![BlobFileAddition {
                number: 5,
                total_count: 2,
                total_bytes: 20,
                ..BlobFileAddition::default()
            }];
            let garbage = |number, count| BlobFileGarbage {
                number,
                count,
                bytes: 10,
            };
            e.blob_file_garbages = vec![garbage(5, 1), garbage(5, 2), garbage(6, 1)];
        }));
        edits.take(b"no record");
        let left: Vec<VersionEdit> = edits
            .records
            .iter()
            .map(|r| VersionEdit::decode(r).unwrap())
            .collect();
        assert_eq!(left.len(), 4);
        assert_eq!(left[0].remaining_in_atomic_group, None);
        assert_eq!(left[1].deleted_files, [(0, 7)]);
        let numbers = |e: &VersionEdit| e.new_files.iter().map(|f| f.number).collect::<Vec<_>>();
        assert_eq!((numbers(&left[1]), numbers(&left[2])), (vec![10], vec![10]));
        assert_eq!(left[2].deleted_files, [(1, 10)], "moved");
        assert_eq!(left[3].blob_file_garbages.len(), 1);
        assert_eq!(
            edits.left_out,
            [
                "the deletion of table 000009 from level 0, where no record puts it",
                "table 000008 in level 0 once more",
                "a record with 0 tables of family 3, which no record makes",
                "the drop of family 3, which no record makes",
                "a record that makes family 0 once more",
                "garbage in blob file 000005, which no record adds, or more than it holds",
                "garbage in blob file 000006, which no record adds, or more than it holds",
            ]
        );
    }
}
