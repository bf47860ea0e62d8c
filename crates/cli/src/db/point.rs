//! `db put`, `db get`, `db delete`: one key.

use super::Common;
use super::open::WriteFlags;
use crate::bytes::{self, parse, push, show};
use crate::fail::At;
use clap::Args;
use serde_json::json;
use spanlith::{ReadOptions, WriteOptions};
use std::io::Write;
use std::process::ExitCode;

/// Sets a key.
#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: WriteFlags,
    /// Returns only when the entry survives a power cut
    #[arg(long)]
    sync: bool,
    #[arg(allow_hyphen_values = true)]
    key: String,
    #[arg(allow_hyphen_values = true)]
    value: String,
}

/// Prints the value of a key.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    common: Common,
    #[arg(allow_hyphen_values = true)]
    key: String,
}

/// Removes a key.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: WriteFlags,
    /// Returns only when the removal survives a power cut
    #[arg(long)]
    sync: bool,
    #[arg(allow_hyphen_values = true)]
    key: String,
}

impl Put {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, json } = &self.common;
        let (key, value) = (parse(&self.key, *hex)?, parse(&self.value, *hex)?);
        let cf = target.open_read_write(&self.flags)?;
        let stored = target.stored(value);
        cf.put_opt(&key, &stored, &WriteOptions::new().sync(self.sync))
            .at(&target.db)?;
        let sequence = cf.db().latest_sequence_number();
        cf.db().clone().close().at(&target.db)?;
        if *json {
            let line = json!({ "key": bytes::json(&key, *hex), "sequence": sequence });
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Get {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, json } = &self.common;
        let key = parse(&self.key, *hex)?;
        let cf = target.open_read_only()?;
        let mut options = ReadOptions::new();
        let timestamp = cf.comparator().timestamp_size();
        if timestamp > 0 {
            // The latest there is.
            options.timestamp = Some(vec![0xff; timestamp]);
        }
        let value = cf.get_opt(&key, &options).at(&target.db)?;
        let mut out = std::io::stdout().lock();
        if *json {
            let shown = value.as_deref();
            let shown = shown.map(|v| bytes::json(target.value(v), *hex));
            let line = json!({
                "key": bytes::json(&key, *hex), "found": value.is_some(), "value": shown,
            });
            writeln!(out, "{line}")?;
        } else if let Some(value) = &value {
            let mut line = Vec::new();
            push(&mut line, target.value(value), *hex);
            line.push(b'\n');
            out.write_all(&line)?;
        } else {
            tell!(
                "NotFound: no entry for {}; spanlith db scan --db {} --limit 10 shows some",
                match key.is_empty() {
                    true => "the empty key".to_string(),
                    false => show(&key, *hex),
                },
                crate::fail::shell_word(&target.db)
            );
        }
        out.flush()?;
        Ok(if value.is_some() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl Delete {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Common { target, hex, json } = &self.common;
        let key = parse(&self.key, *hex)?;
        let cf = target.open_read_write(&self.flags)?;
        cf.delete_opt(&key, &WriteOptions::new().sync(self.sync))
            .at(&target.db)?;
        let sequence = cf.db().latest_sequence_number();
        cf.db().clone().close().at(&target.db)?;
        if *json {
            let line = json!({ "key": bytes::json(&key, *hex), "sequence": sequence });
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
