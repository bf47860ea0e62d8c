//! Names of stores as the command line takes them, and how one is opened.

use super::rocksdb::RocksDb;
use super::slab::Slab;
use super::{Error, Ours, Result, Store, StoreOptions};
use spanlith::options::text::split_pairs;
use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions, OptionTable};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which store to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreName {
    /// This engine.
    Ours,
    /// RocksDB's C library, loaded at run time.
    RocksDb(PathBuf),
    /// LMDB, in builds with the feature `lmdb`.
    Lmdb,
    /// redb, in builds with the feature `redb`.
    Redb,
    /// fjall, in builds with the feature `fjall`.
    Fjall,
    /// Slabs without a log, a store to compare with.
    Slab,
}

/// How stores are named, for errors and help texts.
pub const NAMES: &str = "spanlith, rocksdb:PATH/librocksdb.so, lmdb, redb, fjall, slab";

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "spanlith" => Ok(Self::Ours),
            None if text == "lmdb" => Ok(Self::Lmdb),
            None if text == "redb" => Ok(Self::Redb),
            None if text == "fjall" => Ok(Self::Fjall),
            None if text == "slab" => Ok(Self::Slab),
            Some(("rocksdb", path)) if !path.is_empty() => Ok(Self::RocksDb(path.into())),
            _ if text == "rocksdb" || text == "rocksdb:" => {
                Err("rocksdb needs the library: rocksdb:PATH/librocksdb.so".to_string())
            }
            _ => Err(format!("unknown store '{text}': one of {NAMES}")),
        }
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours => f.write_str("spanlith"),
            Self::RocksDb(path) => write!(f, "rocksdb:{}", path.display()),
            Self::Lmdb => f.write_str("lmdb"),
            Self::Redb => f.write_str("redb"),
            Self::Fjall => f.write_str("fjall"),
            Self::Slab => f.write_str("slab"),
        }
    }
}

impl StoreName {
    /// A name for figures, without the path of a library: of that its directory's name is left.
    pub fn short(&self) -> String {
        match self {
            Self::RocksDb(path) => {
                let dir = path.parent().and_then(Path::file_name);
                match dir {
                    Some(dir) => format!("rocksdb {}", dir.to_string_lossy()),
                    None => "rocksdb".to_string(),
                }
            }
            other => other.to_string(),
        }
    }

    /// Returns whether the store is a log-structured tree with RocksDB's options and statistics.
    pub fn is_rocksdb_like(&self) -> bool {
        matches!(self, Self::Ours | Self::RocksDb(_))
    }

    /// Opens the store in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// Of the library, of the options, and of opening.
    pub fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Store>> {
        std::fs::create_dir_all(dir)
            .map_err(|e| Error::new(&self.to_string(), format!("{}: {e}", dir.display())))?;
        if *self != Self::Ours && !options.own.is_empty() {
            let text = format!("it does not have the options '{}'", options.own);
            return Err(Error::new(&self.to_string(), text));
        }
        let traces = &options.traces;
        if *self != Self::Ours && (traces.blocks.is_some() || traces.calls.is_some()) {
            let what = "traces of blocks and of calls";
            return Err(Error::unsupported(&self.to_string(), what));
        }
        let store = self.open_untraced(dir, options)?;
        if let Some(file) = &traces.requests {
            store.start_trace(file)?;
        }
        Ok(store)
    }

    fn open_untraced(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Store>> {
        Ok(match self {
            Self::Ours => Box::new(Ours::open(dir, options)?),
            Self::RocksDb(library) => Box::new(RocksDb::open(library, dir, options)?),
            Self::Slab => Box::new(Slab::open(dir, options)?),
            #[cfg(feature = "lmdb")]
            Self::Lmdb => Box::new(super::lmdb::Lmdb::open(dir, options)?),
            #[cfg(feature = "redb")]
            Self::Redb => Box::new(super::redb::Redb::open(dir, options)?),
            #[cfg(feature = "fjall")]
            Self::Fjall => Box::new(super::fjall::Fjall::open(dir, options)?),
            #[allow(
                unreachable_patterns,
                reason = "with all features every store has its arm above"
            )]
            absent => return Err(absent.not_built()),
        })
    }

    /// The error of a store whose feature the build does not have.
    fn not_built(&self) -> Error {
        let name = self.to_string();
        let text = format!(
            "this program was built without it: cargo build --release -p spanlith-cli --features {name} \
             (or stores, for all)"
        );
        Error::new(&name, text)
    }
}

/// Options of tables by their bare names become those of the table factory, where they belong. A text that is
/// no list of options comes back as it is: whoever applies it tells the error better.
pub fn nested(options: &str) -> String {
    let Ok(pairs) = split_pairs(options) else {
        return options.to_string();
    };
    let is_table = |name: &str| {
        let whole = name.split('.').next().unwrap_or(name);
        BlockBasedTableOptions::row(whole).is_some()
            && CfOptions::row(whole).is_none()
            && DbOptions::row(whole).is_none()
    };
    let (table, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|p| is_table(&p.0));
    let join = |pairs: Vec<(String, String)>| {
        let pairs = pairs.into_iter().map(|(name, value)| {
            match value.contains([';', '=']) && !value.starts_with('{') {
                true => format!("{name}={{{value}}}"),
                false => format!("{name}={value}"),
            }
        });
        pairs.collect::<Vec<_>>().join(";")
    };
    match table.is_empty() {
        true => options.to_string(),
        false => {
            let mut all = others;
            all.push(("block_based_table_factory".to_string(), join(table)));
            join(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for text in NAMES.split(", ") {
            assert_eq!(text.parse::<StoreName>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "rocksdb",
            "rocksdb:",
            "postgres",
            "spanlith:x",
            "lmdb:x",
        ] {
            assert!(bad.parse::<StoreName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn options_of_tables_are_told_from_others() {
        assert_eq!(nested("num_levels=3"), "num_levels=3");
        assert_eq!(
            nested("block_size=8;num_levels=3"),
            "num_levels=3;block_based_table_factory={block_size=8}"
        );
    }

    #[test]
    fn a_library_that_cannot_be_loaded_is_named() {
        let dir = spanlith_testkit::TempDir::new(spanlith_testkit::test_name!());
        let name: StoreName = "rocksdb:/nowhere/librocksdb.so".parse().unwrap();
        let Err(e) = name.open(&dir.join("db"), &StoreOptions::default()) else {
            panic!("opened");
        };
        let text = e.to_string();
        assert!(text.contains("/nowhere/librocksdb.so"), "{text}");
    }
}
