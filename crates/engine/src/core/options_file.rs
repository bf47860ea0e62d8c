//! Writes OPTIONS files and keeps the two newest.
//!
//! A file names all families, and each creation and removal of one writes a new file, as in RocksDB: its bytes grow with
//! the number of families, but nothing else does. The text of a family is made once.

use super::Engine;
use crate::options::sidecar::SIDECAR_FILE;
use crate::options::{FamilyText, OwnCfOptions, Sidecar, options_file_head};
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::{Result, SubCode};
use spanlith_env::IoActivity;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Temporary file, sync, rename, directory sync; two numbers, as RocksDB.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let mut written = self.options_file.lock();
        let (mut families, mut is_newer) = (String::new(), false);
        let mut before: Option<Arc<FamilyText>> = None;
        for family in self.families.load_full().iter() {
            let settings = family.settings();
            let of_family = settings.text(before.as_ref());
            of_family.push(&family.name, &mut families);
            is_newer |= of_family.is_newer;
            before = Some(of_family.clone());
        }
        let head = options_file_head(&self.options(), is_newer);
        let temp = self.path(filenames::options_temp_file_name(self.new_file_number()));
        let fs = &self.c.env.fs;
        let mut file = fs.create(&temp, IoActivity::Other)?;
        file.append(&bytes_of_text(&head))?;
        file.append(&bytes_of_text(&families))?;
        file.sync()?;
        file.close()?;
        let number = self.new_file_number();
        fs.rename(&temp, &self.path(filenames::options_file_name(number)))?;
        self.c.dirs.sync(&self.c.dir)?;
        self.write_sidecar(&filenames::options_file_name(number))?;
        written.add(number);
        self.delete_old_options(&mut written);
        Ok(())
    }

    /// Writes the options that RocksDB does not have, if they are not at their defaults or a file says
    /// otherwise. Requires: the turn of OPTIONS files.
    fn write_sidecar(&self, options_file: &str) -> Result<()> {
        let (env, dir) = (&self.c.env, &self.c.dir);
        let families = self.families.load_full();
        let plain = OwnCfOptions::default();
        let families = families.iter().filter_map(|f| {
            let settings = f.settings();
            let own = &settings.options.own;
            (*own != plain).then(|| (f.name.clone(), own.clone()))
        });
        let own = &self.options().own;
        let mut new = Sidecar::new(&self.c.db_id, options_file, own, families);
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
            Ok(Some(old)) if old.db_id == self.c.db_id => {
                // What a newer build wrote stays.
                new.version = new.version.max(old.version);
                new.unknown = old.unknown;
            }
            Ok(Some(old)) => {
                let (file, id) = (SIDECAR_FILE, &old.db_id);
                let log = &self.c.log;
                log.warn(format_args!("{file} of database {id} is replaced"));
            }
            Err(e) => self.c.log.warn(format_args!("replaced: {e}")),
        }
        new.store(env, dir, &*self.c.dirs.get(dir)?)
    }

    /// Deletes OPTIONS files that were kept while deletions were disabled.
    pub(crate) fn remove_old_options(&self) {
        let mut written = self.options_file.lock();
        self.delete_old_options(&mut written);
    }

    /// Keeps the two newest OPTIONS files, as RocksDB. What cannot be deleted goes with the next one. Requires: the
    /// turn of OPTIONS files.
    fn delete_old_options(&self, written: &mut OptionsFiles) {
        if self.c.purge.is_disabled() {
            return;
        }
        let fs = &self.c.env.fs;
        let numbers = written.0.get_or_insert_with(|| {
            let names = fs.list(&self.c.dir).unwrap_or_default();
            let numbers = names.iter().filter_map(|n| match parse_file_name(n) {
                Some(FileKind::Options(n)) => Some(n),
                _ => None,
            });
            numbers.collect()
        });
        while numbers.len() > 2
            && let Some(oldest) = numbers.pop_first()
        {
            let path = self.path(filenames::options_file_name(oldest));
            if let Err(e) = fs.delete(&path)
                && e.subcode() != Some(SubCode::PathNotFound)
            {
                // The next file looks at the directory again.
                written.0 = None;
                return;
            }
        }
    }
}

/// Numbers of the OPTIONS files in the directory, once somebody has looked.
#[derive(Default)]
pub(crate) struct OptionsFiles(Option<BTreeSet<u64>>);

impl OptionsFiles {
    fn add(&mut self, number: u64) {
        if let Some(numbers) = &mut self.0 {
            numbers.insert(number);
        }
    }
}
