//! The newest point in time whose files are all there (`best_efforts_recovery`).
//!
//! While a MANIFEST is replayed, every file it adds is looked for: a table that is missing, has
//! another size or does not open, or a blob file without sound header and footer, is *missing*. A
//! family is *sound* after an edit if no table is missing and every blob file it refers to is
//! younger than the youngest missing one. It is sound as well if only the newest tables of level 0
//! are missing: then the newest writes are lost, and what is left is still a point in time. Before an
//! edit that makes a family unsound its state is remembered, and what was remembered last is what it
//! opens with; nothing at all is an empty family.
//!
//! Edits of an atomic group promise that families stay together. From the group on, the families
//! there are move on only together, and the newest tables of a family that took part in one must not
//! be missing.
//!
//! The rules, and the order in which states are remembered, are those of RocksDB 11.8, so that the
//! outcome is the same (`fixtures/best-efforts`). MANIFESTs are tried from the highest number down,
//! CURRENT is not read, and logs are not replayed.

use super::manifest::{Expectation, Recovered, read_manifest};
use crate::blob::{BlobFileReader, ExpectedFamily};
use crate::core::{FamilyRequest, family_paths, reader_options};
use crate::version::{
    FileKind, FileMeta, FilePaths, NewFile, TableCache, TableIo, TableIoOptions, TableReadOptions,
    VersionBuilder, VersionEdit, parse_file_name,
};
use spanlith_base::slice_transform::{ExtractorCell, NO_EXTRACTOR};
use spanlith_base::sync::ArcCell;
use spanlith_base::{Error, ErrorKind, Result, SubCode};
use spanlith_env::Env;
use spanlith_table::ReaderOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Numbers of the MANIFESTs in a directory, highest first.
///
/// # Errors
/// Of the file system; none if there is no such directory.
pub(super) fn list_manifests(env: &Env, dir: &Path) -> Result<Vec<u64>> {
    if env.fs.entry(dir)?.is_none() {
        return Ok(Vec::new());
    }
    let names = env.fs.list(dir)?;
    let numbers = names.iter().filter_map(|name| match parse_file_name(name) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => None,
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// The first MANIFEST, from the highest number down, that can be read, and what it says.
///
/// # Errors
/// That of the last one tried.
pub(super) fn read_newest_manifest(
    env: &Env,
    expect: &Expectation<'_>,
) -> Result<(u64, Recovered)> {
    let none = format!("Cannot locate MANIFEST file in {}", expect.dir.display());
    let mut error = Error::corruption(none);
    for number in list_manifests(env, expect.dir)? {
        match read_manifest(env, number, expect) {
            Ok(recovered) => return Ok((number, recovered)),
            Err(e) => error = e,
        }
    }
    Err(error)
}

/// A state of a family: so many of its edits, without some of the tables they add to level 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Point {
    edits: usize,
    missing: Vec<u64>,
}

/// Looks for the files of one family.
struct FileCheck {
    tables: TableCache,
    env: Env,
    family: ExpectedFamily,
}

impl FileCheck {
    fn new(env: &Env, id: u32, request: &FamilyRequest, paths: FilePaths) -> Self {
        // Readers are thrown away, so they share neither the cache nor the limit of open files.
        let io = TableIo::new(env.fs.clone(), TableIoOptions::default());
        let readers = ReaderOptions {
            cache: None,
            ..reader_options(request, &io)
        };
        Self {
            tables: TableCache {
                io,
                paths,
                readers,
                read_options: ArcCell::new(Arc::new(TableReadOptions::default())),
                block_protection_bytes: AtomicU8::new(0),
                extractor: ExtractorCell::new(NO_EXTRACTOR),
                verify_unique_id: true,
                expects_hits: false,
                rows: None,
            },
            env: env.clone(),
            family: ExpectedFamily::Id(id),
        }
    }

    fn has_table(&self, file: &NewFile) -> Result<bool> {
        let meta = FileMeta::from_new_file(file, None);
        is_there(self.tables.reader(&meta).map(drop))
    }

    fn has_blob_file(&self, number: u64) -> Result<bool> {
        let path = self.tables.paths.blob(number);
        let file = self.env.fs.open_random(&path);
        is_there(file.and_then(|f| BlobFileReader::open(f, self.family).map(drop)))
    }
}

/// Returns whether a file opened; an error that says nothing about the file is passed on.
fn is_there(opened: Result<()>) -> Result<bool> {
    match opened {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::Corruption => Ok(false),
        Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Describes what is known of one family.
struct Tracked {
    check: FileCheck,
    edits: Vec<VersionEdit>,
    /// Tables that the edits lead to.
    tables: BTreeMap<u64, NewFile>,
    missing_level0: BTreeSet<u64>,
    missing_below: BTreeSet<u64>,
    /// Highest number of a missing blob file; 0 if none is.
    missing_blob: u64,
    /// Some edit was part of an atomic group.
    was_in_group: bool,
    is_sound: bool,
    /// Says what it opens with.
    point: Option<Point>,
}

impl Tracked {
    fn new(check: FileCheck) -> Self {
        Self {
            check,
            edits: Vec::new(),
            tables: BTreeMap::new(),
            missing_level0: BTreeSet::new(),
            missing_below: BTreeSet::new(),
            missing_blob: 0,
            was_in_group: false,
            is_sound: true,
            point: None,
        }
    }

    /// The present state.
    fn here(&self) -> Point {
        Point {
            edits: self.edits.len(),
            missing: self.missing_level0.iter().copied().collect(),
        }
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        self.was_in_group |= edit.remaining_in_atomic_group.is_some();
        for blob in &edit.blob_file_additions {
            if !self.check.has_blob_file(blob.number)? {
                self.missing_blob = self.missing_blob.max(blob.number);
            }
        }
        for (_, number) in &edit.deleted_files {
            self.tables.remove(number);
            self.missing_level0.remove(number);
            self.missing_below.remove(number);
        }
        for file in &edit.new_files {
            if !self.check.has_table(file)? {
                match file.level {
                    0 => self.missing_level0.insert(file.number),
                    _ => self.missing_below.insert(file.number),
                };
            }
            self.tables.insert(file.number, file.clone());
        }
        self.edits.push(edit.clone());
        self.is_sound = self.is_complete()
            || !self.was_in_group && self.missing_below.is_empty() && self.lacks_newest_only();
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let all_tables = self.missing_level0.is_empty() && self.missing_below.is_empty();
        all_tables && self.has_blob_files(self.tables.values())
    }

    /// Returns whether the tables refer to no blob file that may be missing.
    fn has_blob_files<'a>(&self, mut tables: impl Iterator<Item = &'a NewFile>) -> bool {
        self.missing_blob == 0
            || tables.all(|t| {
                t.oldest_blob_file_number == 0 || t.oldest_blob_file_number > self.missing_blob
            })
    }

    /// Returns whether the missing tables of level 0 are its newest.
    fn lacks_newest_only(&self) -> bool {
        let level0 = self.tables.values().filter(|t| t.level == 0);
        let mut level0: Vec<&NewFile> = level0.collect();
        let has_epochs = level0.iter().all(|t| t.epoch_number != 0);
        level0.sort_by_key(|t| {
            let epoch = if has_epochs { t.epoch_number } else { 0 };
            std::cmp::Reverse((epoch, t.largest_seqno, t.smallest_seqno, t.number))
        });
        let newest = level0.iter().take(self.missing_level0.len());
        let mut newest = newest.map(|t| t.number);
        let left = self.tables.values();
        let mut left = left.filter(|t| !self.missing_level0.contains(&t.number));
        newest.all(|n| self.missing_level0.contains(&n)) && self.has_blob_files(&mut left)
    }
}

/// The points in time of all families, while a MANIFEST is replayed.
pub(super) struct PointInTime<'a> {
    env: &'a Env,
    dir: &'a Path,
    families: BTreeMap<u32, Tracked>,
    /// Since an atomic group: the families of that time, and the points that those which got further
    /// reached. They are taken once every family has one.
    waiting: BTreeMap<u32, Option<Point>>,
    in_group: bool,
}

impl<'a> PointInTime<'a> {
    /// No families yet.
    pub fn new(env: &'a Env, dir: &'a Path) -> Self {
        Self {
            env,
            dir,
            families: BTreeMap::new(),
            waiting: BTreeMap::new(),
            in_group: false,
        }
    }

    /// A family that is opened begins.
    pub fn add(&mut self, id: u32, request: &FamilyRequest) {
        let check = FileCheck::new(self.env, id, request, family_paths(self.dir, request));
        self.families.insert(id, Tracked::new(check));
    }

    /// A family ends.
    pub fn drop_family(&mut self, id: u32) {
        self.families.remove(&id);
        if self.waiting.remove(&id).is_some() {
            self.settle();
        }
    }

    /// Takes in an edit of a family. `can_open` says that the edits so far name all counters.
    ///
    /// # Errors
    /// Of the file system, other than that files are missing.
    pub fn apply(&mut self, id: u32, edit: &VersionEdit, can_open: bool) -> Result<()> {
        let Some(family) = self.families.get_mut(&id) else {
            return Ok(());
        };
        let before = family.is_sound.then(|| family.here());
        family.apply(edit)?;
        if let Some(before) = before
            && !family.is_sound
            && can_open
            && !self.in_group
        {
            self.remember(id, before);
        }
        Ok(())
    }

    fn remember(&mut self, id: u32, point: Point) {
        if let Some(slot) = self.waiting.get_mut(&id) {
            *slot = Some(point);
            self.settle();
        } else if let Some(family) = self.families.get_mut(&id) {
            family.point = Some(point);
        }
    }

    /// Takes the points that waited for each other, once there are all.
    fn settle(&mut self) {
        if self.waiting.values().any(Option::is_none) {
            return;
        }
        for (id, point) in std::mem::take(&mut self.waiting) {
            if let Some(family) = self.families.get_mut(&id) {
                family.point = point;
            }
        }
    }

    fn remember_sound(&mut self, can_open: bool) {
        let sound = self.families.iter().filter(|(_, f)| f.is_sound && can_open);
        let sound: Vec<(u32, Point)> = sound.map(|(&id, f)| (id, f.here())).collect();
        for (id, point) in sound {
            self.remember(id, point);
        }
    }

    /// The edits of an atomic group follow.
    pub fn begin_group(&mut self, can_open: bool) {
        // The group may keep sound families from moving on: what they have is theirs.
        self.remember_sound(can_open);
        self.waiting = self.families.keys().map(|&id| (id, None)).collect();
        self.in_group = true;
    }

    /// All edits of the atomic group were taken in.
    ///
    /// # Errors
    /// `Corruption` if families came or went within.
    pub fn end_group(&mut self) -> Result<()> {
        self.in_group = false;
        if self.waiting.keys().eq(self.families.keys()) {
            Ok(())
        } else {
            Err(Error::corruption("unexpected CF change in AtomicGroup"))
        }
    }

    /// The MANIFEST ends, and it names all counters.
    pub fn end(&mut self) {
        self.remember_sound(true);
    }

    /// Makes `builder`, which holds no files, the version that the family opens with. The second
    /// value is whether that is less than the MANIFEST says.
    ///
    /// # Errors
    /// `Corruption` if the edits contradict each other.
    pub fn rebuild(&self, id: u32, builder: &mut VersionBuilder) -> Result<bool> {
        let Some(family) = self.families.get(&id) else {
            return Ok(false);
        };
        let point = family.point.clone().unwrap_or_default();
        for edit in &family.edits[..point.edits] {
            builder.apply(edit)?;
        }
        let mut without = VersionEdit::new();
        for &number in &point.missing {
            without.delete_file(0, number);
        }
        builder.apply(&without)?;
        Ok(point.edits < family.edits.len() || !point.missing.is_empty())
    }
}
