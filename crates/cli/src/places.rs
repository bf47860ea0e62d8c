//! Where files are that are not in the database's directory: flags, because no file of a database says.

use crate::db::components::{parse_cf_paths, parse_paths};
use clap::Args;
use spanlith::DbPath;
use std::path::{Path, PathBuf};

/// Where tables are.
#[derive(Clone, Debug, Default, Args)]
pub struct TableFlags {
    /// Directories of the tables and their sizes in bytes, in the order the database was made with
    #[arg(long, value_name = "DIR:BYTES,…")]
    db_paths: Option<String>,
    /// The same for one column family (may be repeated)
    #[arg(long, value_name = "NAME=DIR:BYTES,…")]
    cf_paths: Vec<String>,
}

/// Where tables and logs are.
#[derive(Clone, Debug, Default, Args)]
pub struct FileFlags {
    /// Directory of the logs if they are neither in the database's nor where its options say
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,
    #[command(flatten)]
    pub tables: TableFlags,
}

/// Directories of tables.
#[derive(Debug, Default)]
pub struct Places {
    /// Of families that have none of their own.
    pub db: Vec<DbPath>,
    /// By family.
    pub families: Vec<(String, Vec<DbPath>)>,
}

impl TableFlags {
    /// Returns what the flags say.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(&self) -> anyhow::Result<Places> {
        let db = self.db_paths.as_deref().map(parse_paths).transpose()?;
        let families = self.cf_paths.iter().map(|text| parse_cf_paths(text));
        Ok(Places {
            db: db.unwrap_or_default(),
            families: families.collect::<Result<_, _>>()?,
        })
    }
}

impl Places {
    /// The directories that a family has of its own.
    pub fn of(&self, family: &str) -> Option<&Vec<DbPath>> {
        let own = self.families.iter().find(|f| f.0 == family);
        own.map(|f| &f.1)
    }

    /// The directory with that number of a family; `None` if nobody said.
    pub fn dir(&self, family: &str, path_id: u32) -> Option<&Path> {
        let paths = self.of(family).unwrap_or(&self.db);
        paths.get(path_id as usize).map(|p| p.dir.as_path())
    }
}
