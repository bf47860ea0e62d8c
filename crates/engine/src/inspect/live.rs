//! Verification of an open database, while it is used.
//!
//! Tables and blob files are those of one superversion of each family, which keeps them (V5). Of the
//! current log and the MANIFEST, what had been written when the verification began is read. A log that
//! has gone meanwhile, because nobody needs it any more, is passed over.

use super::blobs::BlobsToVerify;
use super::log::LogToVerify;
use super::report::{Finding, VerifyOptions, VerifyReport};
use super::table::{FamilyToVerify, TableToVerify};
use super::verifier::{Progress, Verifier};
use crate::core::{
    Catalog, Components, Engine, Families, Family, Leadership, LogSet, ManifestExtent, StateMutex,
    SuperVersion,
};
use crate::info_log::InfoLog;
use crate::recovery::read_current;
use crate::version::filenames;
use spanlith_base::{Error, FileNumber, Result};
use spanlith_table::{CacheCharges, ReaderOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Looks at a MANIFEST that is replaced again and again.
const LOOKS: usize = 4;

/// A log of an open database.
struct LiveLog {
    number: FileNumber,
    /// Bytes of it that are known to be written; `None` if another process writes it, or did.
    written: Option<u64>,
    /// Where a recovery cut it.
    cut: Option<u64>,
}

/// The parts of an open database that a verification looks at.
pub(crate) struct LiveCheck<'a> {
    components: &'a Components,
    catalog: &'a Catalog,
    logs: &'a LogSet,
    families: &'a Families,
    leader: &'a Leadership,
    state: &'a StateMutex,
    log: &'a InfoLog,
}

impl<'a> LiveCheck<'a> {
    /// A verification of a database.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            components: &engine.c,
            catalog: &engine.catalog,
            logs: &engine.logs,
            families: &engine.families,
            leader: &engine.leader,
            state: &engine.state,
            log: engine.reporter.log(),
        }
    }

    /// Verifies the database at the level that `options` say.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown family; `ShutdownInProgress` if the database is closed.
    pub(crate) fn run(
        &self,
        options: &VerifyOptions,
        progress: Progress<'_>,
    ) -> Result<VerifyReport> {
        let families = self.families_to_verify(&options.families)?;
        let mut look = |p: &super::report::VerifyProgress<'_>| match self.ends() {
            true => ControlFlow::Break(()),
            false => progress(p),
        };
        let mut verifier = Verifier::new(&self.components.env, options, &mut look);
        let logs = self.logs_to_verify()?;
        let all = families.iter().flat_map(|f| &f.1.tables);
        let tables: u64 = all.map(|t| t.file.size).sum();
        let blobs: u64 = families
            .iter()
            .flat_map(|f| f.1.blobs.values())
            .map(|b| b.size)
            .sum();
        let written: u64 = logs.iter().filter_map(|l| l.written).sum();
        verifier.expect(tables, blobs + written);
        // It ends early only when it is called off, which the report says.
        let _ = self.verify_all(&mut verifier, &families, &logs);
        let report = verifier.finish();
        if report.was_called_off && self.ends() {
            return Err(Error::shutdown(""));
        }
        let bad = report.problems().count();
        let level = report.level.name();
        let text = format!(
            "verification ({level}): {} tables, {} blob files, {} logs, {} bytes; {bad} problems",
            report.tables, report.blob_files, report.logs, report.bytes
        );
        match bad {
            0 => self.log.info(format_args!("{text}")),
            _ => self.log.warn(format_args!("{text}")),
        }
        for f in report.problems() {
            let at = f.offset.map_or_else(String::new, |o| format!(" at {o}"));
            let (file, what) = (&f.file, &f.what);
            self.log
                .warn(format_args!("verification: {file}{at}: {what}"));
        }
        Ok(report)
    }

    fn ends(&self) -> bool {
        self.state.lock().life.is_closing()
    }

    fn verify_all(
        &self,
        verifier: &mut Verifier<'_>,
        families: &[(Arc<SuperVersion>, FamilyToVerify)],
        logs: &[LiveLog],
    ) -> Result<()> {
        for _ in 0..LOOKS {
            let extent = self.extent_to_verify(verifier);
            if verifier.live_manifest(&self.components.dir, extent)? {
                break;
            }
            // Another one becomes current at this moment: wait until that is done.
            drop(self.catalog.lock());
        }
        for (_, family) in families {
            verifier.family(family)?;
        }
        for live in logs {
            let number = live.number;
            let path = self.logs.path(number);
            if self.is_gone(number)? {
                continue;
            }
            let log = LogToVerify {
                number,
                name: filenames::log_file_name(number),
                path,
                db_id: &self.components.db_id,
                synced: 0,
                written: live.written,
                cut: live.cut,
                // The open of the database took the part that it could not read for a torn end.
                is_newest: true,
            };
            let before = verifier.findings();
            verifier.log(&log)?;
            if verifier.findings() > before && self.is_gone(number)? {
                // It went while it was read, and may be in use for something else.
                verifier.report.findings.truncate(before);
            }
        }
        Ok(())
    }

    /// How much of which MANIFEST is durable.
    fn extent_to_verify(&self, verifier: &mut Verifier<'_>) -> ManifestExtent {
        let known = self.catalog.extent();
        if known.number != 0 {
            return known;
        }
        // Opened for reading, or nothing was recorded yet: what CURRENT names.
        let number = match read_current(&self.components.env, &self.components.dir) {
            Ok(number) => number,
            Err(e) => {
                let name = filenames::CURRENT_FILE;
                verifier.add(Finding::from_error(name, None, &e));
                self.catalog.manifest_number()
            }
        };
        ManifestExtent { number, size: 0 }
    }

    /// Returns whether nobody needs a log any more.
    fn is_gone(&self, number: FileNumber) -> Result<bool> {
        if self.components.read_only {
            return Ok(self
                .components
                .env
                .fs
                .entry(&self.logs.path(number))?
                .is_none());
        }
        Ok(!self.state.lock().logs.contains(number))
    }

    fn logs_to_verify(&self) -> Result<Vec<LiveLog>> {
        if self.components.read_only {
            let least = self.state.lock().min_log_number();
            let all = self.logs.numbers(self.state)?.into_iter();
            let live = all.filter(|&(n, is_archived)| !is_archived && n >= least);
            let live = live.map(|(number, _)| LiveLog {
                number,
                written: None,
                cut: None,
            });
            return Ok(live.collect());
        }
        let current = {
            let leader = self.leader.lock();
            let log = leader.log.writer();
            log.map(|log| (log.log_number(), log.len() - log.buffered()))
        };
        let cuts = self.catalog.lock().logs().cuts.clone();
        let state = self.state.lock();
        let of = |number: FileNumber| {
            let written = match (state.logs.closed_size(number), current) {
                (Some(_), _) if !state.logs.is_own(number) => None,
                (Some(size), _) => Some(size),
                (None, Some((n, written))) if number == n => Some(written),
                // It came since.
                _ => return None,
            };
            Some(LiveLog {
                number,
                written,
                cut: cuts.get(&number).copied(),
            })
        };
        Ok(state.logs.iter().filter_map(of).collect())
    }

    fn families_to_verify(
        &self,
        names: &[String],
    ) -> Result<Vec<(Arc<SuperVersion>, FamilyToVerify)>> {
        let all = self.families.load_full();
        if let Some(name) = names.iter().find(|name| all.by_name(name).is_none()) {
            let text = format!("Column family not found: {name}");
            return Err(Error::invalid_argument(text));
        }
        let wanted = all
            .iter()
            .filter(|f| names.is_empty() || names.contains(&f.name));
        Ok(wanted.map(to_verify).collect())
    }
}

/// The superversion that keeps the files, and what is verified of them.
fn to_verify(family: &Arc<Family>) -> (Arc<SuperVersion>, FamilyToVerify) {
    let superversion = family.superversion.load_full();
    let paths = &family.cache.paths;
    let files = superversion.version.file_iter();
    let tables = files.map(|(level, f)| TableToVerify {
        level,
        name: filenames::table_file_name(f.number),
        path: paths.table(f.number, f.path_id),
        file: f.clone(),
    });
    let blobs = superversion.version.blob_files.iter();
    let to_verify = FamilyToVerify {
        readers: ReaderOptions {
            cache: None,
            charges: CacheCharges::default(),
            rate_limiter: None,
            counters: None,
            ..family.cache.reader_options()
        },
        is_ordered: true,
        comparator: family.comparator.name().to_string(),
        tables: tables.collect(),
        id: Some(family.id),
        blob_dir: paths.dir(0).to_path_buf(),
        blobs: blobs
            .map(|(&n, b)| (n, BlobsToVerify::of(&b.file)))
            .collect(),
    };
    (superversion, to_verify)
}
