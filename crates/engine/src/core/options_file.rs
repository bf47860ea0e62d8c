//! Writes OPTIONS files and keeps the two newest.
//!
//! A file names all families, and each creation and removal of one makes a new file, as in RocksDB: its size grows with
//! the number of families. The text of a family is made once. Of more than a MiB not even the bytes are written again
//! for each family that is made: the older of the two files, which would be deleted now, says the same but for the
//! newest families. It gets the temporary name and their sections, and is the newest file once it is synced. The
//! other file is whole all the time.

use super::state::rank;
use super::{Catalog, Components, Families, Lsm};
use crate::info_log::InfoLog;
use crate::options::sidecar::SIDECAR_FILE;
use crate::options::{DbOptions, FamilyText, OwnCfOptions, Sidecar, options_file_head};
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::sync::{ArcCell, Mutex};
use spanlith_base::{Result, SubCode};
use spanlith_env::IoActivity;
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
            bytes: 0,
        };
        let temp = self.components.dir.join(filenames::options_temp_file_name(
            self.catalog.new_file_number(),
        ));
        let fs = &self.components.env.fs;
        let begun = self.take_older_options(&mut written, &new, &temp)?;
        let mut file = match begun {
            Some(_) => fs.reopen(&temp, IoActivity::Other)?,
            None => fs.create(&temp, IoActivity::Other)?,
        };
        let (there, bytes) = begun.map_or((0, 0), |old| (old.families.len(), old.bytes));
        new.bytes = bytes;
        let mut append = |text: &str| {
            let text = bytes_of_text(text);
            new.bytes += text.len() as u64;
            file.append(&text)
        };
        if there == 0 {
            append(&new.head)?;
        }
        let mut sections = String::new();
        for (family, (_, text)) in families.iter().zip(&new.families).skip(there) {
            text.push(&family.name, &mut sections);
        }
        append(&sections)?;
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
        self.write_sidecar(&filenames::options_file_name(number))?;
        written.add(number, new);
        self.delete_old_options(&mut written);
        Ok(())
    }

    /// Gives the oldest OPTIONS file the name `temp` and returns its content, if `new` only adds families to that and
    /// nobody else has the file. Requires: the turn of OPTIONS files.
    fn take_older_options(
        &self,
        written: &mut Written,
        new: &Content,
        temp: &Path,
    ) -> Result<Option<Content>> {
        let Some(number) = written
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
        Ok(written.remove(number))
    }

    /// Writes the options that RocksDB does not have, if they are not at their defaults or a file says
    /// otherwise. Requires: the turn of OPTIONS files.
    fn write_sidecar(&self, options_file: &str) -> Result<()> {
        let (env, dir) = (&self.components.env, &self.components.dir);
        let families = self.families.load_full();
        let plain = OwnCfOptions::default();
        let families = families.iter().filter_map(|f| {
            let settings = f.settings();
            let own = &settings.options.own;
            (*own != plain).then(|| (f.name.clone(), own.clone()))
        });
        let own = &self.options.load().own;
        let mut new = Sidecar::new(&self.components.db_id, options_file, own, families);
        let own_dir = env.fs.absolute(dir);
        for f in self.families.load_full().iter() {
            // Most families have all tables there, under the same name.
            if f.cache.paths.users().all(|d| d == dir) {
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

/// Says what an OPTIONS file holds: its head, and sections of families in their order.
struct Content {
    head: String,
    /// Numbers of families, which no other family ever has, and their texts.
    families: Vec<(u32, Arc<FamilyText>)>,
    /// Size of the file.
    bytes: u64,
}

impl Content {
    /// Returns whether `self` is the beginning of `new`.
    fn begins(&self, new: &Self) -> bool {
        let mut pairs = self.families.iter().zip(&new.families);
        self.families.len() <= new.families.len()
            && self.head == new.head
            && pairs.all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(&old.1, &new.1))
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

    /// The oldest file, if there is a newer one and `new` only adds to it.
    fn older(&self, new: &Content) -> Option<u64> {
        let numbers = self.numbers.as_ref().filter(|numbers| numbers.len() > 1)?;
        let oldest = numbers.first()?;
        let content = self.contents.get(oldest)?;
        content.begins(new).then_some(*oldest)
    }

    fn remove(&mut self, number: u64) -> Option<Content> {
        if let Some(numbers) = &mut self.numbers {
            numbers.remove(&number);
        }
        self.contents.remove(&number)
    }
}
