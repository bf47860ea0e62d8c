//! The newest OPTIONS file of a database directory, as `LoadLatestOptions` reads it.

use super::ini::{ParsedOptions, parse_options_file_with};
use super::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::Env;
use std::path::{Path, PathBuf};

/// Largest OPTIONS file that is read, in bytes; ten thousand families need about 60 MB.
const BYTES_MAX: u64 = 256 << 20;

/// One column family's options: its name, its options, and those of its tables.
pub type FamilySection = (String, CfOptions, BlockBasedTableOptions);

/// Options of a database and all its families, as an OPTIONS file holds them.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionsFile {
    /// Options of the database.
    pub db: DbOptions,
    /// Families in the order of the file; the first is `default`.
    pub families: Vec<FamilySection>,
}

impl OptionsFile {
    /// Path of the newest OPTIONS file in `dir`.
    ///
    /// # Errors
    /// `NotFound` if there is none; what listing the directory fails with.
    pub fn find_newest(env: &Env, dir: &Path) -> Result<PathBuf> {
        // A directory that is not there holds none.
        let names = match env.fs.list(dir) {
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Vec::new(),
            names => names?,
        };
        let number = |name: &str| -> Option<u64> {
            let digits = name.strip_prefix("OPTIONS-")?;
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok())?
        };
        let newest = names.iter().filter_map(|name| Some((number(name)?, name)));
        match newest.max() {
            Some((_, name)) => Ok(dir.join(name)),
            None => Err(Error::not_found(format!(
                "No options files found in the DB directory.: {}",
                dir.display()
            ))
            .with_subcode(SubCode::PathNotFound)),
        }
    }

    /// Reads the newest OPTIONS file in `dir`.
    ///
    /// # Errors
    /// As [`Self::find_newest`] and [`Self::read`].
    pub fn load(env: &Env, dir: &Path) -> Result<Self> {
        Self::read(env, &Self::find_newest(env, dir)?, false)
    }

    /// Reads the OPTIONS file at `path`. `ignore_unknown` skips unknown names if the file claims a
    /// newer RocksDB than this build's.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidArgument` or `Corruption` if it is no OPTIONS file.
    pub fn read(env: &Env, path: &Path, ignore_unknown: bool) -> Result<Self> {
        let bytes = env.fs.read_all(path, BYTES_MAX)?;
        Ok(parse_options_file_with(&text_of_bytes(&bytes), ignore_unknown)?.into())
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        super::write_options_file(&self.db, &self.families)
    }
}

impl From<ParsedOptions> for OptionsFile {
    fn from(parsed: ParsedOptions) -> Self {
        let families = parsed.cfs.into_iter();
        Self {
            db: parsed.db,
            families: families.map(|cf| (cf.name, cf.options, cf.table)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{ManualExecutor, MemFs, SeededRng, VirtualClock};
    use std::sync::Arc;

    fn env(fs: MemFs) -> Env {
        Env {
            fs: Arc::new(fs),
            clock: Arc::new(VirtualClock::at(0)),
            executor: Arc::new(ManualExecutor::new()),
            rng: Arc::new(SeededRng::new(1)),
        }
    }

    #[test]
    fn the_file_with_the_highest_number_is_loaded_with_all_families() {
        let fs = MemFs::new();
        let mut wanted = OptionsFile {
            db: DbOptions::new().max_open_files(77),
            families: Vec::new(),
        };
        for (name, size) in [("default", 1u64 << 20), ("two", 3 << 20)] {
            let cf = CfOptions::new().write_buffer_size(size);
            let table = BlockBasedTableOptions::new().block_size(size / 1024);
            wanted.families.push((name.to_string(), cf, table));
        }
        let old = OptionsFile {
            db: DbOptions::new(),
            families: wanted.families[..1].to_vec(),
        };
        for (name, file) in [
            ("OPTIONS-000009", &old),
            ("OPTIONS-1000000", &wanted),
            ("OPTIONS-000012.dbtmp", &old),
        ] {
            let path = Path::new("/db").join(name);
            fs.write_file(&path, file.to_text().as_bytes()).unwrap();
        }
        assert_eq!(
            OptionsFile::load(&env(fs), Path::new("/db")).unwrap(),
            wanted
        );
    }

    #[test]
    fn a_directory_without_options_says_so_in_rocksdbs_words() {
        let fs = MemFs::new();
        fs.write_file(Path::new("/db/CURRENT"), b"x").unwrap();
        assert_eq!(
            OptionsFile::load(&env(fs), Path::new("/db"))
                .unwrap_err()
                .to_string(),
            "NotFound: No such file or directory: No options files found in the DB directory.: /db"
        );
    }
}
