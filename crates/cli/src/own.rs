//! `--set NAME=VALUE`: options that RocksDB does not have, on the command line.
//!
//! Every verb that opens a database for writing has the flag, and `bench` and `stress`. `ldb` and
//! `db_bench` do not: their command lines are RocksDB's.

use crate::fail::Usage;
use clap::Args;
use spanlith::OpenBuilder;
use spanlith::options::{OwnCfOptions, OwnDbOptions, apply_own};

/// Own options by name.
#[derive(Clone, Debug, Default, Args)]
pub struct OwnFlags {
    /// An option that RocksDB does not have, as in witness_spacing=16k (may be repeated);
    /// `spanlith db options --own` lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl OwnFlags {
    /// All of them in one text; empty if none is given.
    ///
    /// # Errors
    /// For an unknown name or a wrong value.
    pub fn text(&self) -> anyhow::Result<String> {
        let text = self.set.join(";");
        let (mut db, mut cf) = (OwnDbOptions::default(), OwnCfOptions::default());
        apply_own(&text, &mut db, &mut cf).map_err(|e| {
            Usage::new(
                e.to_string(),
                "--set takes name=value; spanlith db options --own lists names",
            )
        })?;
        Ok(text)
    }

    /// The builder with them.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn apply(&self, builder: OpenBuilder) -> anyhow::Result<OpenBuilder> {
        match self.text()?.as_str() {
            "" => Ok(builder),
            text => Ok(builder.set(text)?),
        }
    }
}
