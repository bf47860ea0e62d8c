//! `db families`: the column families of a directory and how they differ from the defaults.

use super::info::{changed_options, file_totals};
use crate::fail::At;
use crate::inventory::Inventory;
use crate::term::{bytes, count};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Lists families.
#[derive(Debug, Args)]
pub struct Families {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Families {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let inventory = Inventory::read_with_disk(&self.db, None).at(&self.db)?;
        let mut out = std::io::stdout().lock();
        for (id, family) in &inventory.families {
            let (files, size) = file_totals(family);
            let options = changed_options(&inventory, &family.name);
            if self.json {
                let options: BTreeMap<_, _> = options.into_iter().collect();
                let object = json!({
                    "id": id, "name": family.name, "comparator": family.comparator,
                    "tables": files, "bytes": size, "options": options,
                });
                writeln!(out, "{object}")?;
                continue;
            }
            let name = crate::bytes::show(family.name.as_bytes(), false);
            let files = count(files);
            let order = &family.comparator;
            writeln!(
                out,
                "{name}\tid={id}\ttables={files}\tsize={}\tcomparator={order}",
                bytes(size)
            )?;
            for (name, value) in options {
                writeln!(out, "\toption\t{name}={value}")?;
            }
        }
        out.flush()?;
        Ok(inventory.exit_code())
    }
}
