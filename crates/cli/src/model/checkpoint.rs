//! The checkpoint that a twin's original begins from (`twin --db`): looked at, and copied.
//!
//! The directory stays as it is: its tables and blob files are linked where the file system allows that, everything else is
//! copied, and the copy is opened with the options that the directory says. What it holds goes into the observation
//! ([`Observation::families`]), by a walk over the families that the trace names. Other families are carried along as they are; they count
//! for nothing, since nobody asks them.

use super::run::Base;
use crate::db::open::{How, Target};
use crate::fail::{At, Failure};
use crate::inventory::Inventory;
use anyhow::Context;
use spanlith::{Cf, FamilyOptions, ReadOptions};
use spanlith_workload::model::Observation;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The orders in which keys of a made trace can lie: that of their bytes, and from its end to its beginning.
const FORWARD: &str = "leveldb.BytewiseComparator";
const BACKWARD: &str = "rocksdb.ReverseBytewiseComparator";
/// Share of the keys that the trace's gets found which may be missing: a checkpoint may be a moment older than the trace.
const MISSING_MAX: f64 = 0.05;
/// Keys from which on shares say something.
const KEYS_MIN: u64 = 10;

/// A database that was as it is when the trace began.
pub struct Checkpoint {
    dir: PathBuf,
    wal_dir: PathBuf,
    /// By id.
    families: BTreeMap<u32, FamilyOptions>,
    /// Families that the trace names whose keys lie backward.
    backward: BTreeSet<u32>,
}

/// Calls `entry` for each entry of a family, in the order of the bytes of keys.
fn each(cf: &Cf, is_backward: bool, entry: &mut dyn FnMut(&[u8], &[u8])) -> spanlith::Result<()> {
    let mut cursor = cf.cursor(ReadOptions::default());
    let mut is_there = match is_backward {
        true => cursor.seek_to_last()?,
        false => cursor.seek_to_first()?,
    };
    while is_there {
        entry(cursor.key(), cursor.value());
        is_there = match is_backward {
            true => cursor.prev()?,
            false => cursor.next()?,
        };
    }
    Ok(())
}

impl Checkpoint {
    /// Looks at a directory, which must have the families of the trace.
    pub fn read(dir: &Path, how: &How, seen: &Observation) -> anyhow::Result<Self> {
        let inventory = Inventory::read(dir).at(dir)?;
        if inventory.tables_dir.is_some() {
            let text = format!("{}: some of its tables are on a speed disk", dir.display());
            let next = "spanlith db checkpoint makes a directory that has everything";
            return Err(Failure::new(text, next).into());
        }
        if let Some(missing) = seen
            .families
            .keys()
            .find(|id| !inventory.families.contains_key(id))
        {
            let text = format!(
                "{}: there is no family with the id {missing}, which the trace names",
                dir.display()
            );
            let next = "give the checkpoint that was made when the trace was begun; spanlith db families --db DIR lists ids";
            return Err(Failure::new(text, next).into());
        }
        let (mut families, mut backward) = (BTreeMap::new(), BTreeSet::new());
        for (&id, family) in &inventory.families {
            if seen.families.contains_key(&id) {
                match family.comparator.as_str() {
                    FORWARD => {}
                    BACKWARD => {
                        backward.insert(id);
                    }
                    other => return Err(of_another_order(dir, &family.name, other).into()),
                }
            }
            let target = Target {
                db: dir.to_path_buf(),
                cf: family.name.clone(),
                how: how.clone(),
            };
            families.insert(id, target.family_options()?);
        }
        Ok(Self {
            dir: dir.to_path_buf(),
            wal_dir: inventory.wal_dir.clone(),
            families,
            backward,
        })
    }

    /// The options of its families, by id.
    pub fn families(&self) -> &BTreeMap<u32, FamilyOptions> {
        &self.families
    }

    /// Copies it to a new directory, compacts the copy, and adds to the observation what it holds.
    pub fn copy(&self, to: &Path, seen: &mut Observation) -> anyhow::Result<Base> {
        std::fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
        self.copy_files(&self.dir, to)?;
        if self.wal_dir != self.dir {
            self.copy_files(&self.wal_dir, to)?;
        }
        let base = Base::existing(to, self.families.clone())?;
        let db = base.open(None)?;
        for cf in db.cfs() {
            if seen.families.contains_key(&cf.id()) {
                cf.compact_all().at(to)?;
            }
        }
        let is_told = seen.is_extended;
        let (mut expected, mut missing, mut present, mut accessed) = (0, 0, 0, 0);
        for (&id, family) in &mut seen.families {
            let Some(cf) = db.cfs().into_iter().find(|cf| cf.id() == id) else {
                continue;
            };
            accessed += family.keys.len() as u64;
            let mut walk = family.walk();
            let is_backward = self.backward.contains(&id);
            each(&cf, is_backward, &mut |key, value| {
                walk.add(key, value, is_told);
            })
            .at(to)?;
            let found = walk.finish(is_told);
            expected += found.expected;
            missing += found.missing;
            present += found.present;
        }
        let base = base.measured(&db, |id| seen.families.contains_key(&id));
        db.close().at(to)?;
        let is_other = match is_told {
            true => expected >= KEYS_MIN && missing as f64 > MISSING_MAX * expected as f64,
            false => accessed >= KEYS_MIN && present == 0,
        };
        if is_other {
            let text = match is_told {
                true => format!(
                    "{}: of {expected} keys that the trace's gets found it lacks {missing}",
                    self.dir.display()
                ),
                false => format!(
                    "{}: it has none of the {accessed} keys that the trace names",
                    self.dir.display()
                ),
            };
            let next =
                "it is of another database, or was made long before or after the trace was begun";
            return Err(Failure::new(text, next).into());
        }
        Ok(base)
    }

    /// Links what never changes, and copies the rest.
    fn copy_files(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let reading = || format!("copying {}", from.display());
        for entry in std::fs::read_dir(from).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let name = entry.file_name();
            let is_wanted = name != "LOCK" && !name.to_string_lossy().starts_with("LOG");
            if !is_wanted || !entry.file_type().with_context(reading)?.is_file() {
                continue;
            }
            let (old, new) = (entry.path(), to.join(&name));
            let is_fixed = old.extension().is_some_and(|e| e == "sst" || e == "blob");
            if is_fixed && std::fs::hard_link(&old, &new).is_ok() {
                continue;
            }
            std::fs::copy(&old, &new).with_context(|| format!("copying {}", old.display()))?;
        }
        Ok(())
    }
}

fn of_another_order(dir: &Path, family: &str, order: &str) -> Failure {
    let text = format!(
        "{}: the keys of the family '{family}' are in the order {order}",
        dir.display()
    );
    let next = "a twin's keys are in the order of their bytes or its reverse; leave --db out to begin with the accessed keys";
    Failure::new(text, next)
}
