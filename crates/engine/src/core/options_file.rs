//! Writes OPTIONS files and keeps the two newest.

use super::Engine;
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::Result;
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
        file.append(text.as_bytes())?;
        file.sync()?;
        file.close()?;
        let number = self.new_file_number();
        fs.rename(&temp, &self.path(filenames::options_file_name(number)))?;
        fs.sync_dir(&self.c.dir)?;
        self.remove_old_options();
        Ok(())
    }

    /// Keeps the two newest OPTIONS files, as RocksDB. What cannot be deleted goes with the next one.
    fn remove_old_options(&self) {
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
