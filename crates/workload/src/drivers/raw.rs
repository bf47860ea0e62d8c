//! `raw`: the device below a store's directory alone, without a store: random reads and sequential writes of a file.
//!
//! Reads go through the cache of the system: a file larger than memory shows the device.

use super::load::client;
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::{Rng, Values};
use crate::store::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "raw",
    title: "the device alone: synced appends as of a log, and random reads, without a store",
    parameters: &[
        Parameter {
            name: "file_bytes",
            default: "67108864",
            what: "bytes of the file",
        },
        Parameter {
            name: "block",
            default: "4096",
            what: "bytes of a read, and of an append",
        },
        Parameter {
            name: "sync",
            default: "1",
            what: "1: each append is synced; 0: the system decides",
        },
    ],
    families: &[],
    transactions: false,
    run,
    check: None,
};

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let path = d.store.dir().join("raw");
    let failed = |e: std::io::Error| Error::new("raw", format!("{}: {e}", path.display()));
    let block = usize::try_from(s.whole("block", 1)?)
        .unwrap_or(1)
        .min(1 << 24);
    let blocks = (s.whole("file_bytes", 1)? / block as u64).max(1);
    let (sync, seed, load) = (s.word("sync", &["0", "1"])? == 1, s.seed()?, Load::of(s)?);
    let mut phases = Vec::new();
    let mut file = File::create(&path).map_err(failed)?;
    let mut values = Values::incompressible(block, seed);
    for _ in 0..blocks {
        file.write_all(values.next()).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    let file = Arc::new(File::open(&path).map_err(failed)?);
    let log = Arc::new(File::create(path.with_extension("log")).map_err(failed)?);
    phases.push(load.run("random reads", d.store, |thread| {
        let (file, mut buffer) = (Arc::clone(&file), vec![0; block]);
        let mut rng = Rng::new(seed.wrapping_add(thread << 8));
        Ok(client(move |_| {
            let at = rng.below(blocks) * block as u64;
            file.read_exact_at(&mut buffer, at)
                .map_err(|e| Error::new("raw", e))?;
            Ok(Some(Call::read("read", true, buffer.len())))
        }))
    })?);
    phases.push(load.run("appends", d.store, |thread| {
        let (log, mut values) = (
            Arc::clone(&log),
            Values::incompressible(block, seed ^ thread),
        );
        Ok(client(move |_| {
            let value = values.next();
            let write = (&*log).write_all(value);
            let synced = if sync { log.sync_data() } else { Ok(()) };
            write.and(synced).map_err(|e| Error::new("raw", e))?;
            Ok(Some(Call::wrote("append", value.len())))
        }))
    })?);
    for phase in &mut phases {
        phase.disk_bytes = blocks * block as u64;
    }
    for name in [&path, &path.with_extension("log")] {
        std::fs::remove_file(name).map_err(failed)?;
    }
    Ok(phases)
}
