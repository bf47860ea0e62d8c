//! Decides what a repair makes of what it found: the records of a new MANIFEST, and which files are no part of it.

use super::blobs::{BlobFile, relink};
use super::files::Files;
use super::known::{Known, KnownFamily};
use super::logs::Updates;
use super::place::{Placed, Reach, place};
use super::tables::{Described, Holes, describe};
use crate::version::edit::BlobFileGarbage;
use crate::version::{BlobFileAddition, FilePaths, NewFile, VersionEdit};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::{Comparator, Error, ErrorKind, Result};
use spanlith_env::{Env, FileSystem};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The error number of a device that cannot read what it should hold.
const EIO: i32 = 5;

/// A file that is no part of the database any more, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aside {
    pub path: PathBuf,
    pub why: String,
    /// Says that what it holds may be missing: it cannot be read, or does not fit.
    pub is_loss: bool,
    /// Only the present MANIFEST says that nobody needs it.
    pub goes_first: bool,
}

/// A family as it will be.
#[derive(Clone, Debug, Default)]
pub(super) struct FamilyPlan {
    pub name: String,
    /// Empty if nothing says it.
    pub comparator: String,
    pub files: Vec<NewFile>,
    /// Logs below this number are not replayed for it.
    pub log_number: u64,
    blobs: Vec<(BlobFileAddition, BlobFileGarbage)>,
    history_low: Option<Vec<u8>>,
    persists_timestamps: Option<bool>,
}

/// Describes what a repair will do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// By id.
    pub families: BTreeMap<u32, FamilyPlan>,
    pub aside: Vec<Aside>,
    /// Names what will be missing of which no file is left, for users.
    pub missing: Vec<String>,
    /// Names of families of which the MANIFEST does not fit the tables.
    pub doubted: Vec<String>,
    /// A table that the MANIFEST has in the fourth directory, or on a speed disk, and that is not there.
    pub far_away: Option<u64>,
    pub db_id: Option<Vec<u8>>,
    pub last_sequence: u64,
    /// A number that no file has and no MANIFEST has given out.
    pub next_file: u64,
    max_family: u32,
    /// Logs below this number are needed by nobody; 0 if nothing says it.
    min_log_number: u64,
    /// A MANIFEST was read to its end.
    pub has_manifest: bool,
}

/// How much is put up with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Says what becomes of tables with damaged blocks.
    pub holes: Holes,
    /// The MANIFEST is asked.
    pub asks_manifest: bool,
}

/// Families by name, with their orders, as the OPTIONS file lists them: in the order in which they were made.
pub(super) type NamedFamilies<'a> = &'a [(String, String)];

impl Plan {
    /// Reads all files and decides. Changes nothing.
    ///
    /// # Errors
    /// Of the file system, except for bytes of tables and blob files that a device cannot read: those are damage.
    /// `NotSupported` for a table that this build does not read, unless holes are tolerated.
    pub(super) fn make(
        env: &Env,
        dir: &Path,
        files: &Files,
        named: NamedFamilies<'_>,
        terms: Terms,
    ) -> Result<Self> {
        let known = match terms.asks_manifest {
            true => Known::read(env, dir, &files.manifests),
            false => None,
        };
        let needed = known.as_ref().map_or(0, |k| k.min_log_number);
        let updates = Updates::read(&*env.fs, &files.logs, needed)?;
        let mut plan = Self {
            far_away: known.as_ref().and_then(|k| k.far_away(files)),
            ..Self::default()
        };
        let reach = Reach::of(known.as_ref());
        let damaged = updates.damaged().iter();
        plan.missing = damaged
            .map(|log| format!("a part of log {log:06} that cannot be read"))
            .collect();
        plan.name_families(known.as_ref());
        let tables = plan.describe_tables(env, files, terms.holes)?;
        let mut by_family = plan.sort_tables(tables, files, known.as_ref());
        if known.is_none() {
            plan.name_families_of_logs(&updates, named, terms.holes == Holes::Tolerated);
        }
        let last_log = files.logs.keys().next_back().copied().unwrap_or(0);
        let mut placed = BTreeMap::new();
        for (&id, family) in &mut plan.families {
            let of_manifest = known.as_ref().and_then(|k| k.families.get(&id));
            let tables = by_family.remove(&id).unwrap_or_default();
            let from_log = of_manifest.map_or(0, |k| k.log_number);
            let done = place(&tables, of_manifest, reach, |numbers| {
                updates.cover(from_log, numbers)
            });
            let newest = done.files.iter().map(|f| f.largest_seqno).max();
            let newest = newest.unwrap_or(0);
            plan.last_sequence = plan.last_sequence.max(newest);
            family.log_number = match of_manifest {
                Some(k) if done.is_known || done.needs_logs => {
                    // The logs may still have what a table held that is gone: another family needed them.
                    let least = k.least_number(&done.missing);
                    let first = least.and_then(|least| {
                        updates.first_beyond(id, newest.max(least.saturating_sub(1)))
                    });
                    k.log_number.min(first.unwrap_or(u64::MAX))
                }
                // As a rule no merge operand counts twice. That takes the numbers as the tables have them: a family that was
                // compacted to zeros, while another one kept its logs, is replayed from the first of these.
                _ => updates
                    .first_beyond(id, newest)
                    .unwrap_or(last_log.saturating_add(1)),
            };
            family.files.clone_from(&done.files);
            placed.insert(id, done);
        }
        plan.tell(&placed, files);
        plan.take_blobs(env, files, known.as_ref(), (&placed, terms.holes))?;
        plan.count(known, files);
        Ok(plan)
    }

    /// Begins with the families of the MANIFEST; the default one is always there.
    fn name_families(&mut self, known: Option<&Known>) {
        self.families.entry(0).or_default().name = "default".to_string();
        for (&id, family) in known.iter().flat_map(|k| &k.families) {
            let entry = self.families.entry(id).or_default();
            entry.name.clone_from(&family.name);
            entry.comparator.clone_from(&family.comparator);
            entry.history_low.clone_from(&family.history_low);
            entry.persists_timestamps = family.persists_timestamps;
        }
    }

    /// Reads the tables; those that cannot be read go aside.
    fn describe_tables(
        &mut self,
        env: &Env,
        files: &Files,
        holes: Holes,
    ) -> Result<BTreeMap<u64, Described>> {
        let mut tables = BTreeMap::new();
        for (&number, path) in &files.tables {
            match describe(env, path, number, holes) {
                Ok(Some(table)) => drop(tables.insert(number, table)),
                Ok(None) => self.put_aside(path.clone(), "nothing is in it"),
                Err(e) => self.lose(path.clone(), unreadable(e, path, holes)?),
            }
        }
        number_those_from_outside(&mut tables);
        for path in &files.doubles {
            self.lose(path.clone(), "another directory has a file of that number");
        }
        Ok(tables)
    }

    /// Gives each table to its family, which is made if need be.
    fn sort_tables(
        &mut self,
        tables: BTreeMap<u64, Described>,
        files: &Files,
        known: Option<&Known>,
    ) -> BTreeMap<u32, BTreeMap<u64, Described>> {
        let mut by_family: BTreeMap<u32, BTreeMap<u64, Described>> = BTreeMap::new();
        for (number, mut table) in tables {
            // The MANIFEST knows better of which family one is, and of which one without a name is.
            let by_number = || {
                let mut owners = known.iter().flat_map(|k| &k.families);
                let owner = owners.find(|(_, f)| f.files.contains_key(&number));
                owner.filter(|_| table.name.is_empty())
            };
            let owner = known.and_then(|k| k.owner(&table.file));
            if let Some((id, family)) = owner.or_else(|| by_number().map(|(&id, f)| (id, f))) {
                (table.family, table.name) = (id, family.name.clone());
            }
            let path = files.tables.get(&number).cloned().unwrap_or_default();
            if known.is_some_and(|k| k.dropped.contains(&table.family)) {
                self.put_obsolete(path, "its column family was dropped");
                continue;
            }
            if known.is_some_and(|k| k.gave_out(table.family)) {
                let id = table.family;
                let why = "which the MANIFEST has given out and does not name: it was dropped, most likely";
                self.lose(path, format!("it is of column family {id}, {why}"));
                continue;
            }
            match self.admit(&table) {
                Ok(()) => {
                    let all = by_family.entry(table.family).or_default();
                    all.insert(number, table);
                }
                Err(why) => self.lose(path, why),
            }
        }
        by_family
    }

    /// Takes a table into its family.
    ///
    /// # Errors
    /// Why it does not belong there.
    fn admit(&mut self, table: &Described) -> std::result::Result<(), String> {
        let id = table.family;
        let is_named = self.families.values().any(|f| f.name == table.name);
        if !self.families.contains_key(&id) && is_named {
            return Err(format!(
                "it is of column family {id} '{}', and another one has that name",
                table.name
            ));
        }
        let family = self.families.entry(id).or_insert_with(|| FamilyPlan {
            name: table.name.clone(),
            ..FamilyPlan::default()
        });
        if !table.name.is_empty() && table.name != family.name {
            return Err(format!(
                "inconsistent column family name: '{}', expected '{}' for column family {id}",
                table.name, family.name
            ));
        }
        if family.comparator.is_empty() {
            family.comparator.clone_from(&table.comparator);
        }
        let has_other_order = !table.comparator.is_empty()
            && table.comparator != family.comparator
            // Keys without timestamps are read in both orders.
            && table.file.user_defined_timestamps_persisted;
        match has_other_order {
            true => Err(format!(
                "its keys are ordered by {}, those of column family '{}' by {}",
                table.comparator, family.name, family.comparator
            )),
            false => Ok(()),
        }
    }

    /// Adds the families that only logs and OPTIONS know. With a MANIFEST there are no others than it names.
    fn name_families_of_logs(
        &mut self,
        updates: &Updates,
        named: NamedFamilies<'_>,
        invents: bool,
    ) {
        let known = self.families.iter().map(|(&id, f)| (id, f.name.clone()));
        let known: BTreeMap<u32, String> = known.collect();
        let mut unnamed = updates.families();
        unnamed.retain(|id| !known.contains_key(id));
        for (id, (name, comparator)) in names_by_order(&known, &unnamed, named) {
            unnamed.remove(&id);
            self.add_family(id, name, comparator);
        }
        let taken: BTreeSet<String> = self.families.values().map(|f| f.name.clone()).collect();
        let mut free = named.iter().filter(|(name, _)| !taken.contains(name));
        for id in unnamed {
            // Where OPTIONS lists all families, it is one that was dropped.
            if invents || named.is_empty() {
                let found = free.next().cloned();
                let (name, comparator) = found.unwrap_or((format!("family-{id}"), String::new()));
                self.add_family(id, &name, &comparator);
            } else {
                self.missing.push(format!(
                    "updates of column family {id} in the logs, which OPTIONS has no name for"
                ));
            }
        }
        let highest = self.families.keys().next_back().copied();
        let highest = highest.max(updates.families().last().copied());
        let next = highest.map_or(1, |id| id.saturating_add(1));
        for (id, (name, comparator)) in (next..).zip(free) {
            self.add_family(id, name, comparator);
        }
    }

    fn add_family(&mut self, id: u32, name: &str, comparator: &str) {
        let family = FamilyPlan {
            name: name.to_string(),
            comparator: comparator.to_string(),
            ..FamilyPlan::default()
        };
        self.families.insert(id, family);
    }

    /// Puts aside what was not placed, and names what is missing.
    fn tell(&mut self, placed: &BTreeMap<u32, Placed>, files: &Files) {
        for (id, done) in placed {
            for left in &done.left {
                let path = files.tables.get(&left.number).cloned().unwrap_or_default();
                match (left.is_loss, left.is_obsolete) {
                    (true, _) => self.lose(path, left.why),
                    (false, true) => self.put_obsolete(path, left.why),
                    (false, false) => self.put_aside(path, left.why),
                }
            }
            let name = self.families.get(id).map_or("", |f| f.name.as_str());
            if done.is_doubted {
                self.doubted.push(name.to_string());
            }
            let missing = done.missing.iter().map(|number| {
                format!("table {number:06} of column family '{name}', which the MANIFEST names")
            });
            self.missing.extend(missing);
        }
    }

    /// Gives blob files to the families that refer to them.
    fn take_blobs(
        &mut self,
        env: &Env,
        files: &Files,
        known: Option<&Known>,
        (placed, holes): (&BTreeMap<u32, Placed>, Holes),
    ) -> Result<()> {
        for (&number, path) in &files.blobs {
            let blob = match BlobFile::describe(env, path, number) {
                Ok(blob) => blob,
                Err(e) => {
                    self.lose(path.clone(), unreadable(e, path, holes)?);
                    continue;
                }
            };
            let recorded = known
                .and_then(|k| k.families.get(&blob.family))
                .and_then(|f: &KnownFamily| f.blobs.get(&number));
            let is_known = placed.get(&blob.family).is_some_and(|p| p.is_known);
            let oldest = |f: &FamilyPlan| {
                let linked = f.files.iter().map(|f| f.oldest_blob_file_number);
                linked.filter(|&n| n > 0).min()
            };
            let family = self.families.get_mut(&blob.family);
            let family = family.filter(|f| oldest(f).is_some_and(|oldest| oldest <= number));
            match (recorded, family) {
                (Some((addition, garbage)), Some(family)) => {
                    family.blobs.push((addition.clone(), *garbage));
                }
                (None, Some(family)) if !is_known => {
                    let garbage = BlobFileGarbage {
                        number,
                        count: 0,
                        bytes: 0,
                    };
                    family.blobs.push((blob.addition, garbage));
                }
                _ => self.put_aside(path.clone(), "no table refers to it"),
            }
        }
        for family in self.families.values_mut() {
            let there: BTreeSet<u64> = family.blobs.iter().map(|b| b.0.number).collect();
            let lost = family.files.iter().map(|f| f.oldest_blob_file_number);
            let lost: BTreeSet<u64> = lost.filter(|n| *n > 0 && !there.contains(n)).collect();
            let missing = lost.iter().map(|number| {
                format!(
                    "blob file {number:06} of column family '{}', which tables refer to",
                    family.name
                )
            });
            self.missing.extend(missing);
            relink(&mut family.files, &there);
        }
        Ok(())
    }

    fn count(&mut self, known: Option<Known>, files: &Files) {
        self.next_file = files.highest.saturating_add(2);
        self.max_family = self.families.keys().next_back().copied().unwrap_or(0);
        if let Some(known) = known {
            self.has_manifest = true;
            self.min_log_number = known.min_log_number;
            self.db_id = known.db_id;
            self.last_sequence = self.last_sequence.max(known.last_sequence);
            self.next_file = self.next_file.max(known.next_file);
            self.max_family = self.max_family.max(known.max_family);
        }
    }

    /// Notes a file that nothing needs.
    fn put_aside(&mut self, path: PathBuf, why: impl Into<String>) {
        let why = why.into();
        self.aside.push(Aside {
            path,
            why,
            is_loss: false,
            goes_first: false,
        });
    }

    /// Notes a file that nothing needs, as long as the MANIFEST says so.
    fn put_obsolete(&mut self, path: PathBuf, why: impl Into<String>) {
        let why = why.into();
        self.aside.push(Aside {
            path,
            why,
            is_loss: false,
            goes_first: true,
        });
    }

    /// Notes a file that somebody may miss.
    fn lose(&mut self, path: PathBuf, why: impl Into<String>) {
        let why = why.into();
        self.aside.push(Aside {
            path,
            why,
            is_loss: true,
            goes_first: false,
        });
    }

    /// The logs that are replayed. One below what families need may hold a prepared transaction.
    pub(super) fn needed_logs(&self, files: &Files) -> BTreeMap<u64, PathBuf> {
        files.logs.clone().split_off(&self.min_log_number)
    }

    /// Takes the number of the new MANIFEST.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }

    /// Records in which of its family's directories each table lies; `dirs` are those of the families in their order.
    /// Files that lie elsewhere go aside.
    pub(super) fn find_paths(&mut self, fs: &dyn FileSystem, files: &Files, dirs: &[FilePaths]) {
        let mut strays = Vec::new();
        for (family, dirs) in self.families.values_mut().zip(dirs) {
            let place = |path: Option<&PathBuf>| {
                let dir = fs.absolute(path?.parent()?);
                let mut all = (0u32..).zip(dirs.dirs());
                all.find(|(_, d)| fs.absolute(d) == dir).map(|(id, _)| id)
            };
            family.files.retain_mut(|f| {
                let path = files.tables.get(&f.number);
                match place(path) {
                    Some(id) => f.path_id = id,
                    None => strays.extend(path.cloned()),
                }
                place(path).is_some()
            });
            family.blobs.retain(|(blob, _)| {
                let path = files.blobs.get(&blob.number);
                let is_there = place(path) == Some(0);
                if !is_there {
                    strays.extend(path.cloned());
                }
                is_there
            });
            let there = family.blobs.iter().map(|b| b.0.number).collect();
            relink(&mut family.files, &there);
        }
        for path in strays {
            self.lose(path, "its column family has no such directory");
        }
    }

    /// The records of the MANIFEST: one that makes each family, then its files.
    pub(super) fn records(&self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for (&id, family) in &self.families {
            let mut edit = VersionEdit {
                column_family: id,
                ..VersionEdit::default()
            };
            if id == 0 {
                edit.db_id.clone_from(&self.db_id);
            } else {
                edit.column_family_add = Some(bytes_of_text(&family.name).into_owned());
            }
            let comparator = match family.comparator.as_str() {
                "" => Comparator::Bytewise.name(),
                name => name,
            };
            edit.comparator = Some(bytes_of_text(comparator).into_owned());
            let stripped = |f: &NewFile| !f.user_defined_timestamps_persisted;
            edit.persist_user_defined_timestamps = match family.files.iter().any(stripped) {
                true => Some(false),
                false => family.persists_timestamps,
            };
            out.push(edit.encode());
            let blobs = family.blobs.iter();
            let garbage = blobs.clone().map(|b| b.1).filter(|g| g.count > 0);
            let files = VersionEdit {
                column_family: id,
                log_number: Some(family.log_number),
                new_files: family.files.clone(),
                blob_file_additions: blobs.map(|b| b.0.clone()).collect(),
                blob_file_garbages: garbage.collect(),
                full_history_ts_low: family.history_low.clone(),
                ..VersionEdit::default()
            };
            out.push(files.encode());
        }
        let counters = VersionEdit {
            prev_log_number: Some(0),
            next_file_number: Some(self.next_file),
            last_sequence: Some(self.last_sequence),
            max_column_family: Some(self.max_family),
            min_log_number_to_keep: Some(self.min_log_number).filter(|&n| n > 0),
            ..VersionEdit::default()
        };
        out.push(counters.encode());
        out
    }
}

/// Numbers tables that were taken in and do not say when: after everything that was in tables by then. What was
/// in the memtables and overlapped was flushed first.
fn number_those_from_outside(tables: &mut BTreeMap<u64, Described>) {
    let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
    for table in tables.values_mut() {
        let newest = newest.entry(table.family).or_default();
        if table.is_unnumbered {
            table.renumber(*newest);
        }
        *newest = table.file.largest_seqno.max(*newest);
    }
}

/// Names for the families that only logs know, between those that tables know: OPTIONS lists all that there are in the order
/// of their ids. `known` are those of tables, `ids` the others. Where an id may be that of a family that was dropped, it
/// gets none.
fn names_by_order<'n>(
    known: &BTreeMap<u32, String>,
    ids: &BTreeSet<u32>,
    named: NamedFamilies<'n>,
) -> BTreeMap<u32, &'n (String, String)> {
    let mut found = BTreeMap::new();
    let place = |name: &str| named.iter().position(|n| n.0 == *name);
    // Ids and places of the families that both know; without order nothing follows from it.
    let anchors: Vec<(u32, usize)> = known
        .iter()
        .filter_map(|(&id, name)| Some((id, place(name)?)))
        .collect();
    if !anchors.is_sorted_by_key(|a| a.1) {
        return found;
    }
    let ends = anchors.iter().skip(1).map(|&(id, at)| (Some(id), at));
    let ends = ends.chain([(None, named.len())]);
    for (&(from, at), (upto, end)) in anchors.iter().zip(ends) {
        let names = named.get(at + 1..end).unwrap_or_default();
        let inside = |id: &&u32| **id > from && upto.is_none_or(|upto| **id < upto);
        let logged: Vec<u32> = ids.iter().filter(inside).copied().collect();
        let slots = upto.map(|upto| upto - from - 1);
        let all: Vec<u32> = match slots {
            // Every id in between has its name.
            Some(slots) if slots as usize == names.len() => (from + 1..from + 1 + slots).collect(),
            _ if logged.len() == names.len() => logged,
            _ => continue,
        };
        found.extend(all.into_iter().zip(names));
    }
    found
}

/// Says what is wrong with a file that cannot be read.
///
/// # Errors
/// The error itself if it says nothing of the file: it may be read at another time, by another user, or by a build that
/// knows its format.
fn unreadable(e: Error, path: &Path, holes: Holes) -> Result<String> {
    let is_damage = match e.kind() {
        ErrorKind::Io => e.os_error() == Some(EIO),
        ErrorKind::NotSupported => holes == Holes::Tolerated,
        _ => true,
    };
    match is_damage {
        true => Ok(e.to_string()),
        false => Err(e.with_path(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<(String, String)> {
        let pairs = names.iter().map(|n| (n.to_string(), String::new()));
        pairs.collect()
    }

    fn found(known: &[(u32, &str)], ids: &[u32], all: &[&str]) -> Vec<(u32, String)> {
        let known = known.iter().map(|(id, name)| (*id, name.to_string()));
        let (known, named) = (known.collect(), named(all));
        let found = names_by_order(&known, &ids.iter().copied().collect(), &named);
        found.into_iter().map(|(id, n)| (id, n.0.clone())).collect()
    }

    fn pairs(pairs: &[(u32, &str)]) -> Vec<(u32, String)> {
        pairs
            .iter()
            .map(|(id, name)| (*id, name.to_string()))
            .collect()
    }

    #[test]
    fn families_of_logs_get_the_names_between_those_of_tables() {
        let default = (0, "default");
        // Nothing was dropped.
        let all = ["default", "a", "b", "c"];
        assert_eq!(
            found(&[default], &[1, 2, 3], &all),
            pairs(&[(1, "a"), (2, "b"), (3, "c")])
        );
        assert_eq!(
            found(&[default, (2, "b")], &[3], &all),
            pairs(&[(1, "a"), (3, "c")])
        );
        // Of 1 and 2 one was dropped, and only one of them is in the logs: it may be either.
        assert_eq!(
            found(&[default, (3, "c")], &[1, 2], &["default", "a", "c"]),
            []
        );
        assert_eq!(found(&[default], &[1], &["default"]), []);
        assert_eq!(found(&[default], &[1, 2], &["default", "b"]), []);
        // Tables contradict the order.
        assert_eq!(
            found(
                &[default, (1, "b"), (2, "a")],
                &[3],
                &["default", "a", "b", "c"]
            ),
            []
        );
    }

    #[test]
    fn a_table_from_outside_is_behind_what_was_in_tables_when_it_came() {
        let table = |number: u64, seqnos: (u64, u64)| Described {
            family: 0,
            name: String::new(),
            comparator: String::new(),
            is_unnumbered: seqnos.1 == 0,
            file: NewFile {
                number,
                smallest: spanlith_base::keys::internal_key(b"a", 1),
                largest: spanlith_base::keys::internal_key(b"b", 1),
                smallest_seqno: seqnos.0,
                largest_seqno: seqnos.1,
                ..NewFile::default()
            },
        };
        let all = [
            table(4, (1, 9)),
            table(5, (0, 0)),
            table(6, (10, 12)),
            table(7, (0, 0)),
        ];
        let mut tables: BTreeMap<u64, Described> =
            all.into_iter().map(|t| (t.file.number, t)).collect();
        number_those_from_outside(&mut tables);
        let seqnos: Vec<u64> = tables.values().map(|t| t.file.largest_seqno).collect();
        assert_eq!(seqnos, [9, 9, 12, 12]);
        let (user, tag) = spanlith_base::keys::split_internal(&tables[&7].file.smallest).unwrap();
        assert_eq!((user, tag), (&b"a"[..], 12 << 8 | 1));
    }
}
