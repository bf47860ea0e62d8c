//! `logger`: a log in pages on a device, without a store: each logger overwrites pages of its own part of a file, as the loggers
//! of a speed disk do ([SPAN] §4.4), and as a file that grows does.
//!
//! The first phases write pages in place, in a file whose blocks are there, so that a sync writes no metadata; one phase for
//! each number of loggers. The last appends to a new file with one logger, as a log of a file system.

use super::load::client;
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::Values;
use crate::store::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "logger",
    title: "the device alone under 1 to N loggers: synced pages in place, and synced appends of one",
    parameters: &[
        Parameter {
            name: "loggers",
            default: "1,2,4",
            what: "numbers of threads that write pages, a phase for each",
        },
        Parameter {
            name: "page",
            default: "4096",
            what: "bytes of a page",
        },
        Parameter {
            name: "pages",
            default: "1024",
            what: "pages of the part of each logger, which are written round and round",
        },
        Parameter {
            name: "ops",
            default: "2000",
            what: "pages of a phase, of all loggers together",
        },
    ],
    families: &[],
    transactions: false,
    run,
    check: None,
};

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::new("logger", format!("{}: {e}", path.display()))
}

/// Pages in place.
fn in_place(
    d: &Drive<'_>,
    file: &Arc<File>,
    load: Load,
    (page, pages): (usize, u64),
) -> Result<Phase> {
    let seed = d.settings.seed()?;
    load.run(format!("{} loggers", load.threads), d.store, |thread| {
        let file = Arc::clone(file);
        let mut values = Values::incompressible(page, seed ^ thread);
        let mut next = 0;
        Ok(client(move |_| {
            let at = (thread * pages + next % pages) * page as u64;
            next += 1;
            let written = file.write_all_at(values.next(), at);
            let synced = written.and_then(|()| file.sync_data());
            synced.map_err(|e| Error::new("logger", e))?;
            Ok(Some(Call::wrote("page", page)))
        }))
    })
}

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let path = d.store.dir().join("logger");
    let page = usize::try_from(s.whole("page", 1)?)
        .unwrap_or(1)
        .min(1 << 24);
    let pages = s.whole("pages", 1)?.min(1 << 20);
    let loggers = s.list("loggers")?;
    let most = loggers.iter().copied().max().unwrap_or(1).min(1024);
    // The blocks are written once, so that they are there.
    let mut file = File::options();
    let file = file.read(true).write(true).create_new(true).open(&path);
    let file = Arc::new(file.map_err(failed(&path))?);
    let zeros = vec![0; page];
    for n in 0..most * pages {
        file.write_all_at(&zeros, n * page as u64)
            .map_err(failed(&path))?;
    }
    file.sync_all().map_err(failed(&path))?;
    let mut phases = Vec::new();
    for threads in loggers {
        let load = Load {
            threads: threads.min(1024),
            ..Load::of(s)?
        };
        phases.push(in_place(d, &file, load, (page, pages))?);
    }
    let grows = path.with_extension("log");
    let log = Arc::new(File::create(&grows).map_err(failed(&grows))?);
    let load = Load {
        threads: 1,
        ..Load::of(s)?
    };
    phases.push(load.run("appends", d.store, |_| {
        let log = Arc::clone(&log);
        let mut values = Values::incompressible(page, 7);
        Ok(client(move |_| {
            let written = (&*log).write_all(values.next());
            let synced = written.and_then(|()| log.sync_data());
            synced.map_err(|e| Error::new("logger", e))?;
            Ok(Some(Call::wrote("append", page)))
        }))
    })?);
    for name in [&path, &grows] {
        std::fs::remove_file(name).map_err(failed(name))?;
    }
    for phase in &mut phases {
        phase.disk_bytes = most * pages * page as u64;
    }
    Ok(phases)
}
