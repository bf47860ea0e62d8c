//! Writes OPTIONS files and keeps the two newest.

use super::Engine;
use crate::options::Sidecar;
use crate::options::sidecar::SIDECAR_FILE;
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::Result;
use spanlith_base::byte_text::bytes_of_text;
use spanlith_env::IoActivity;

impl Engine {
    /// Temporary file, sync, rename, directory sync; two numbers, as RocksDB.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let _turn = self.options_file.lock();
        let families = self.families.load_full();
        let families = families.iter().map(|f| {
            let s = f.settings();
            (f.name.clone(), s.options.clone(), s.table_options.clone())
        });
        let families: Vec<_> = families.collect();
        let text = crate::options::write_options_file(&self.options(), &families);
        let temp = self.path(filenames::options_temp_file_name(self.new_file_number()));
        let fs = &self.c.env.fs;
        let mut file = fs.create(&temp, IoActivity::Other)?;
        file.append(&bytes_of_text(&text))?;
        file.sync()?;
        file.close()?;
        let number = self.new_file_number();
        fs.rename(&temp, &self.path(filenames::options_file_name(number)))?;
        self.c.dirs.sync(&self.c.dir)?;
        self.write_sidecar(&filenames::options_file_name(number))?;
        self.delete_old_options();
        Ok(())
    }

    /// Writes the options that RocksDB does not have, if they are not at their defaults or a file says
    /// otherwise. Requires: the turn of OPTIONS files.
    fn write_sidecar(&self, options_file: &str) -> Result<()> {
        let (env, dir) = (&self.c.env, &self.c.dir);
        let families = self.families.load_full();
        let families = families.iter();
        let families = families.map(|f| (f.name.clone(), f.settings().options.own.clone()));
        let own = &self.options().own;
        let mut new = Sidecar::new(&self.c.db_id, options_file, own, families);
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
        let _turn = self.options_file.lock();
        self.delete_old_options();
    }

    /// Keeps the two newest OPTIONS files, as RocksDB. What cannot be deleted goes with the next one. Requires: the
    /// turn of OPTIONS files.
    fn delete_old_options(&self) {
        if self.c.purge.is_disabled() {
            return;
        }
        let fs = &self.c.env.fs;
        let names = fs.list(&self.c.dir).unwrap_or_default();
        let numbers = names.iter().filter_map(|n| match parse_file_name(n) {
            Some(FileKind::Options(n)) => Some(n),
            _ => None,
        });
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        for n in numbers.iter().rev().skip(2) {
            let _ = fs.delete(&self.path(filenames::options_file_name(*n)));
        }
    }
}
