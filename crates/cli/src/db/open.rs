//! Opens the database that the command line names.
//!
//! Comparator and merge operator come from the MANIFEST and the newest OPTIONS file unless flags
//! name them. For reading the other options are defaults, because they change no result; for writing
//! the OPTIONS file is followed, so that the tool does not change how the directory is written.

use crate::fail::{At, Failure, Usage};
use crate::inventory::Inventory;
use clap::Args;
use spanlith::options::{CfOptions, DbOptions, MergeOperatorChoice};
use spanlith::{Cf, Comparator, Db, ErrorKind, MergeOperator, OpenBuilder, StringAppend};
use std::path::PathBuf;
use std::sync::Arc;

/// Which database and family, and what a program would have to say to open it.
#[derive(Debug, Args)]
pub struct Target {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cf: String,
    /// Order of keys if not as the directory says: bytewise, reverse, or a full name
    #[arg(long, value_name = "NAME")]
    comparator: Option<String>,
    /// Merge operator if not as the directory says: uint64add, stringappend[:DELIMITER], none
    #[arg(long, value_name = "NAME")]
    merge_operator: Option<String>,
}

/// Flags of the verbs that write.
#[derive(Debug, Args)]
pub struct WriteFlags {
    /// Makes the database if there is none
    #[arg(long)]
    pub create: bool,
    /// Opens with default options instead of those in the OPTIONS file
    #[arg(long)]
    pub default_options: bool,
}

impl Target {
    /// Opens for reading; changes nothing on disk.
    pub fn open_read_only(&self) -> anyhow::Result<Cf> {
        let inventory = Inventory::read(&self.db).ok();
        self.check_family(inventory.as_ref())?;
        let mut cf_options = CfOptions::default();
        if let Some(cf) = options_of(inventory.as_ref()) {
            cf_options.num_levels = cf.num_levels;
        }
        let builder = Db::builder(&self.db).cf_options(cf_options);
        let builder = self.components(builder, inventory.as_ref())?;
        self.family(builder.open_read_only().at(&self.db)?)
    }

    /// Opens for reading and writing.
    pub fn open_read_write(&self, flags: &WriteFlags) -> anyhow::Result<Cf> {
        let inventory = Inventory::read(&self.db).ok();
        self.check_family(inventory.as_ref())?;
        let mut builder = Db::builder(&self.db);
        let mut followed = false;
        if !flags.default_options
            && let Some(file) = inventory.as_ref().and_then(|i| i.options.as_ref())
        {
            let parsed = file.parsed.as_ref().map_err(|e| {
                Failure::new(
                    format!("{}: {e}", file.name),
                    "--default-options opens without the OPTIONS file",
                )
            })?;
            let mut db = parsed.db.clone();
            db.error_if_exists = false;
            db.create_missing_column_families = false;
            builder = builder.options(db);
            if let Some(cf) = parsed.cf("default") {
                builder = builder
                    .cf_options(cf.options.clone())
                    .table_options(cf.table.clone());
            }
            followed = true;
        } else {
            builder = builder.options(DbOptions::default());
        }
        builder = builder.create_if_missing(flags.create);
        builder = self.components(builder, inventory.as_ref())?;
        if let Err(e) = builder.check()
            && followed
            && e.kind() == ErrorKind::NotSupported
        {
            return Err(Failure::new(
                e.to_string(),
                "the OPTIONS file asks for it; --default-options opens with defaults instead and \
                 writes a new OPTIONS file, which RocksDB then follows",
            )
            .into());
        }
        self.family(builder.open().at(&self.db)?)
    }

    /// Refuses a family the directory does not have.
    fn check_family(&self, inventory: Option<&Inventory>) -> anyhow::Result<()> {
        inventory.map_or(Ok(()), |i| known_family(i, &self.cf))
    }

    fn family(&self, db: Db) -> anyhow::Result<Cf> {
        let cf = db.default_cf();
        if cf.name() == self.cf {
            return Ok(cf);
        }
        Err(Failure::new(
            format!("Invalid argument: Column family not found: {}", self.cf),
            "leave --cf out for the default family",
        )
        .into())
    }

    fn components(
        &self,
        builder: OpenBuilder,
        inventory: Option<&Inventory>,
    ) -> anyhow::Result<OpenBuilder> {
        let comparator = match &self.comparator {
            Some(name) => parse_comparator(name)?,
            None => inventory
                .and_then(|i| Comparator::from_name(&i.family(&self.cf)?.comparator))
                .unwrap_or_default(),
        };
        let merge = match &self.merge_operator {
            Some(text) => parse_merge_operator(text)?,
            None => options_of(inventory)
                .and_then(|o| MergeOperatorChoice::parse(&o.merge_operator))
                .and_then(|choice| operator(&choice)),
        };
        let builder = builder.comparator(comparator);
        Ok(match merge {
            Some(m) => builder.merge_operator(m),
            None => builder,
        })
    }
}

/// Refuses a family that is not there, and names those that are.
pub fn known_family(inventory: &Inventory, name: &str) -> anyhow::Result<()> {
    if inventory.family(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = inventory
        .families
        .values()
        .map(|f| f.name.as_str())
        .collect();
    Err(Failure::new(
        format!("Invalid argument: Column family not found: {name}"),
        format!("families of this database: {}", names.join(", ")),
    )
    .into())
}

/// Options of the default family in the OPTIONS file.
fn options_of(inventory: Option<&Inventory>) -> Option<&CfOptions> {
    let parsed = inventory?.options.as_ref()?.parsed.as_ref().ok()?;
    Some(&parsed.cf("default")?.options)
}

fn operator(choice: &MergeOperatorChoice) -> Option<Arc<dyn MergeOperator>> {
    spanlith::operator_of(choice)
}

fn parse_comparator(name: &str) -> Result<Comparator, Usage> {
    match name {
        "bytewise" => Ok(Comparator::Bytewise),
        "reverse" => Ok(Comparator::ReverseBytewise),
        full => Comparator::from_name(full).ok_or_else(|| {
            Usage::new(
                format!("unknown comparator '{full}'"),
                "known: bytewise, reverse, leveldb.BytewiseComparator, \
                 rocksdb.ReverseBytewiseComparator",
            )
        }),
    }
}

fn parse_merge_operator(text: &str) -> Result<Option<Arc<dyn MergeOperator>>, Usage> {
    if text == "none" {
        return Ok(None);
    }
    if let Some(delimiter) = text.strip_prefix("stringappend:") {
        return Ok(Some(Arc::new(StringAppend::new(delimiter.as_bytes()))));
    }
    match MergeOperatorChoice::parse(text) {
        Some(choice) => Ok(operator(&choice)),
        None => Err(Usage::new(
            format!("unknown merge operator '{text}'"),
            "known: uint64add, stringappend, stringappend:DELIMITER, none",
        )),
    }
}
