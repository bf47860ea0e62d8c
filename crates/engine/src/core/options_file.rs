//! Writes OPTIONS files and keeps the two newest.
//!
//! A file names all families, and each creation and removal of one makes a new file, as in RocksDB: its size grows with
//! the number of families. The text of a family is made once. Of more than a MiB not even the bytes are written again
//! for each family that is made or dropped: the older of the two files, which would be deleted now, says the same but
//! for the last changes. It gets the temporary name, comments in place of the sections of families that are gone, and
//! the sections of new families at its end, and is the newest file once it is synced. The other file is whole all the time.
//! A file that is half comments is written anew.

use super::state::rank;
use super::{Catalog, Components, Families, FamilySet, Lsm};
use crate::info_log::InfoLog;
use crate::options::sidecar::SIDECAR_FILE;
use crate::options::{DbOptions, FamilyText, Sidecar, options_file_head};
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::sync::{ArcCell, Mutex};
use spanlith_base::{ErrorKind, Result, SubCode};
use spanlith_env::{IoActivity, WritableFile};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Writes and deletes OPTIONS files of a database.
pub(crate) struct OptionsWriter<'a> {
    components: &'a Components,
    catalog: &'a Catalog,
    log: &'a InfoLog,
    files: &'a OptionsFiles,
    families: &'a Families,
    options: &'a ArcCell<DbOptions>,
}

impl<'a> OptionsWriter<'a> {
    /// Writes the options in force, which are read once it is this writer's turn.
    pub(super) fn new(lsm: &'a Lsm, files: &'a OptionsFiles) -> Self {
        Self {
            components: &lsm.c,
            catalog: &lsm.catalog,
            log: lsm.reporter.log(),
            files,
            families: &lsm.families,
            options: lsm.options_cell(),
        }
    }

    /// Writes what is in force: temporary file, sync, rename, directory sync; two numbers, as RocksDB.
    ///
    /// # Errors
    /// Of the file system.
    pub(crate) fn write(&self) -> Result<()> {
        let mut written = self.files.0.lock();
        let families = self.families.load_full();
        let (mut texts, mut is_newer) = (Vec::with_capacity(families.len()), false);
        for family in families.iter() {
            let settings = family.settings();
            let text = settings.text(texts.last().map(|(_, text)| text)).clone();
            is_newer |= text.is_newer;
            texts.push((family.id, text));
        }
        let mut new = Content {
            head: options_file_head(&self.options.load(), is_newer),
            families: texts,
            places: Vec::with_capacity(families.len()),
            bytes: 0,
            blank: 0,
        };
        let temp = self.components.dir.join(filenames::options_temp_file_name(
            self.catalog.new_file_number(),
        ));
        let fs = &self.components.env.fs;
        let begun = match self.take_older_options(&mut written, &new, &temp)? {
            Some((old, gone)) => self.begin_with_older(&temp, old, &gone, &mut new)?,
            None => None,
        };
        let mut file = match begun {
            Some(file) => file,
            None => {
                let mut file = fs.create(&temp, IoActivity::Other)?;
                let head = bytes_of_text(&new.head);
                file.append(&head)?;
                new.bytes = head.len() as u64;
                file
            }
        };
        let there = new.places.len();
        let mut sections = Vec::new();
        for (family, (_, text)) in families.iter().zip(&new.families).skip(there) {
            let mut section = String::new();
            text.push(&family.name, &mut section);
            let section = bytes_of_text(&section);
            new.places.push((new.bytes, section.len() as u64));
            new.bytes += section.len() as u64;
            sections.extend_from_slice(&section);
        }
        file.append(&sections)?;
        file.sync()?;
        file.close()?;
        let number = self.catalog.new_file_number();
        fs.rename(
            &temp,
            &self
                .components
                .dir
                .join(filenames::options_file_name(number)),
        )?;
        self.components.dirs.sync(&self.components.dir)?;
        self.write_sidecar(&filenames::options_file_name(number), &families, &new)?;
        written.add(number, new);
        self.delete_old_options(&mut written);
        Ok(())
    }

    /// Opens the older file at `temp` with comments in place of the families `gone`, and notes in `new` what it holds of
    /// that. `None`: nothing can be written over in that file.
    fn begin_with_older(
        &self,
        temp: &Path,
        old: Content,
        gone: &[usize],
        new: &mut Content,
    ) -> Result<Option<Box<dyn WritableFile>>> {
        let mut file = self.components.env.fs.reopen(temp, IoActivity::Other)?;
        let mut blank = old.blank;
        for at in gone {
            let (offset, len) = old.places[*at];
            match file.write_over(offset, &comment(len)) {
                Err(e) if e.kind() == ErrorKind::NotSupported => return Ok(None),
                written => written?,
            }
            blank += len;
        }
        (new.bytes, new.blank) = (old.bytes, blank);
        let is_kept = |(at, _): &(usize, &(u64, u64))| !gone.contains(at);
        let kept = old.places.iter().enumerate().filter(is_kept);
        new.places.extend(kept.map(|(_, place)| *place));
        Ok(Some(file))
    }

    /// Gives the oldest OPTIONS file the name `temp` and returns its content, and which of its families are gone, if `new`
    /// otherwise only adds families to that and nobody else has the file. Requires: the turn of OPTIONS files.
    fn take_older_options(
        &self,
        written: &mut Written,
        new: &Content,
        temp: &Path,
    ) -> Result<Option<(Content, Vec<usize>)>> {
        let Some((number, gone)) = written
            .older(new)
            .filter(|_| !self.components.purge.is_disabled())
        else {
            return Ok(None);
        };
        let fs = &self.components.env.fs;
        let path = self
            .components
            .dir
            .join(filenames::options_file_name(number));
        let bytes = written.contents.get(&number).map(|content| content.bytes);
        // Others may have linked it, or written to it.
        if fs.link_count(&path).ok() != Some(1) || fs.size(&path).ok() != bytes {
            return Ok(None);
        }
        fs.rename(&path, temp)?;
        Ok(written.remove(number).map(|content| (content, gone)))
    }

    /// Writes the options that RocksDB does not have, if they are not at their defaults or a file says
    /// otherwise. Requires: the turn of OPTIONS files.
    fn write_sidecar(
        &self,
        options_file: &str,
        families: &FamilySet,
        content: &Content,
    ) -> Result<()> {
        let (env, dir) = (&self.components.env, &self.components.dir);
        let texts = families.iter().zip(&content.families);
        let others = texts.filter(|(_, (_, text))| !text.is_plain);
        let others = others.map(|(f, _)| (f.name.clone(), f.settings().options.own.clone()));
        let own = &self.options.load().own;
        let mut new = Sidecar::new(&self.components.db_id, options_file, own, others);
        let own_dir = env.fs.absolute(dir);
        for f in families.iter() {
            // Most families have all tables there, under the same name.
            if f.cache.paths.users().all(|d| d.as_os_str() == dir) {
                continue;
            }
            let dirs: Vec<_> = f.cache.paths.users().map(|d| env.fs.absolute(d)).collect();
            if dirs.iter().any(|d| *d != own_dir) {
                new.directories.push((f.name.clone(), dirs));
            }
        }
        match Sidecar::load(env, dir) {
            Ok(None) if !new.says_something() => return Ok(()),
            Ok(None) => {}
            Ok(Some(old)) if old.db_id == self.components.db_id => {
                // A file that a newer build wrote stays.
                new.version = new.version.max(old.version);
                new.unknown = old.unknown;
            }
            Ok(Some(old)) => {
                let (file, id) = (SIDECAR_FILE, &old.db_id);
                let log = self.log;
                log.warn(format_args!("{file} of database {id} is replaced"));
            }
            Err(e) => self.log.warn(format_args!("replaced: {e}")),
        }
        new.store(env, dir, &*self.components.dirs.get(dir)?)
    }

    /// Deletes OPTIONS files that were kept while deletions were disabled.
    pub(crate) fn remove_old(&self) {
        let mut written = self.files.0.lock();
        self.delete_old_options(&mut written);
    }

    /// Keeps the two newest OPTIONS files, as RocksDB. What cannot be deleted goes with the next one. Requires: the
    /// turn of OPTIONS files.
    fn delete_old_options(&self, written: &mut Written) {
        if self.components.purge.is_disabled() {
            return;
        }
        let fs = &self.components.env.fs;
        let numbers = written.numbers.get_or_insert_with(|| {
            let names = fs.list(&self.components.dir).unwrap_or_default();
            let numbers = names.iter().filter_map(|n| match parse_file_name(n) {
                Some(FileKind::Options(n)) => Some(n),
                _ => None,
            });
            numbers.collect()
        });
        while numbers.len() > 2
            && let Some(oldest) = numbers.pop_first()
        {
            let path = self
                .components
                .dir
                .join(filenames::options_file_name(oldest));
            if let Err(e) = fs.delete(&path)
                && e.subcode() != Some(SubCode::PathNotFound)
            {
                // The next file looks at the directory again.
                written.numbers = None;
                return;
            }
            written.contents.remove(&oldest);
        }
    }
}

/// Size in bytes from which on a file is taken over instead of written anew.
const TAKEN_OVER_BYTES_MIN: u64 = 1 << 20;
/// Families at most that are written over in a file that is taken over.
const GONE_MAX: usize = 64;

/// A line of comment of `len` bytes, which begins and ends with a line break.
fn comment(len: u64) -> Vec<u8> {
    let mut bytes = vec![b' '; len as usize];
    for (at, byte) in b"\n# A family that was dropped.".iter().enumerate() {
        if let Some(place) = bytes.get_mut(at) {
            *place = *byte;
        }
    }
    if let Some(last) = bytes.last_mut() {
        *last = b'\n';
    }
    bytes
}

/// Says what an OPTIONS file holds: its head, and sections of families in their order.
struct Content {
    head: String,
    /// Numbers of families, which no other family ever has, and their texts.
    families: Vec<(u32, Arc<FamilyText>)>,
    /// Offset and length of the sections of each of them.
    places: Vec<(u64, u64)>,
    /// Size of the file.
    bytes: u64,
    /// Bytes of it that were sections of families that are gone.
    blank: u64,
}

impl Content {
    /// The families of `self` that `new` lacks, if `self` without them is the beginning of `new`, and writing them over
    /// leaves a file that is not half comments.
    fn gone_in(&self, new: &Self) -> Option<Vec<usize>> {
        if self.head != new.head {
            return None;
        }
        let (mut gone, mut blank) = (Vec::new(), self.blank);
        let mut others = new.families.iter().peekable();
        for (at, (id, text)) in self.families.iter().enumerate() {
            match others.peek() {
                Some(other) if other.0 == *id => {
                    if !Arc::ptr_eq(&other.1, text) {
                        return None;
                    }
                    others.next();
                }
                // Numbers rise, so that the next one is beyond this one.
                _ => {
                    gone.push(at);
                    blank += self.places[at].1;
                }
            }
        }
        let last = self.families.last().map(|(id, _)| *id);
        debug_assert!(others.all(|(id, _)| Some(*id) > last), "families by number");
        (gone.len() <= GONE_MAX && blank <= self.bytes / 2).then_some(gone)
    }
}

/// The OPTIONS files, and whose turn it is: who holds the lock writes what is in force.
pub(crate) struct OptionsFiles(Mutex<Written>);

impl Default for OptionsFiles {
    fn default() -> Self {
        Self(Mutex::new(rank::OPTIONS, Written::default()))
    }
}

impl OptionsFiles {
    /// No OPTIONS file comes or goes until the result is dropped.
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.0.lock()
    }
}

/// Describes the OPTIONS files in the directory.
#[derive(Default)]
struct Written {
    /// Their numbers, once somebody has looked.
    numbers: Option<BTreeSet<u64>>,
    /// Contents of those that this database has written and that are large.
    contents: BTreeMap<u64, Content>,
}

impl Written {
    fn add(&mut self, number: u64, content: Content) {
        if let Some(numbers) = &mut self.numbers {
            numbers.insert(number);
        }
        if content.bytes >= TAKEN_OVER_BYTES_MIN {
            self.contents.insert(number, content);
        }
    }

    /// The oldest file, and which of its families are gone, if there is a newer one and `new` otherwise only adds to it.
    fn older(&self, new: &Content) -> Option<(u64, Vec<usize>)> {
        let numbers = self.numbers.as_ref().filter(|numbers| numbers.len() > 1)?;
        let oldest = numbers.first()?;
        let content = self.contents.get(oldest)?;
        content.gone_in(new).map(|gone| (*oldest, gone))
    }

    fn remove(&mut self, number: u64) -> Option<Content> {
        if let Some(numbers) = &mut self.numbers {
            numbers.remove(&number);
        }
        self.contents.remove(&number)
    }
}
