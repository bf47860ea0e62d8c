//! A new family made of tables that another database wrote ([`Cf::export`]), with their levels, sequence numbers and
//! ages.
//!
//! The family is made first, empty, and dropped again if something is wrong with a file; until the tables are in it, it
//! must stay empty.

use super::external::External;
use super::options::IngestOptions;
use super::take_in::Intake;
use crate::core::{Engine, Family, FamilyEdit, FamilyRequest, Place};
use crate::db::{Cf, Db, FamilyOptions};
use crate::utilities::ExportedFamily;
use crate::version::{NewFile, VersionEdit, is_range_sentinel};
use spanlith_base::{Comparator, Error, Result, SequenceNumber};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a family is imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Files are linked, and their own names go once they are taken in; what cannot be linked is copied.
    pub move_files: bool,
}

impl ImportOptions {
    /// Files are copied.
    pub fn new() -> Self {
        Self::default()
    }

    /// See the field.
    #[must_use]
    pub fn move_files(mut self, yes: bool) -> Self {
        self.move_files = yes;
        self
    }
}

/// A file on its way.
struct Imported {
    external: External,
    described: NewFile,
    /// Age as the exporting database had it; 0 if nobody says.
    told_age: u64,
}

impl Db {
    /// Creates a family of tables that [`Cf::export`] made of another, or RocksDB did. Costs reading the files once, and
    /// copying them unless they are moved.
    ///
    /// # Errors
    /// Those of [`Db::create_cf`]; `InvalidArgument` without files, for keys of another order, a level that the family
    /// does not have, or files of one level that overlap; `Corruption` for a file that is damaged or other than what is
    /// said of it; `NotSupported` for values in blob files; `Busy` if somebody writes to the family meanwhile. The
    /// family is not there then, and the files are where they were.
    pub fn import_cf(
        &self,
        family: FamilyOptions,
        exported: &ExportedFamily,
        options: ImportOptions,
    ) -> Result<Cf> {
        if exported.files.is_empty() {
            return Err(Error::invalid_argument("The list of files is empty"));
        }
        let fits = |request: &FamilyRequest| check_order(request, &exported.comparator);
        let cf = self.create_checked(family, fits)?;
        match take_in(self.engine(), cf.family(), exported, options) {
            Ok(()) => {
                self.engine().options_writer().write()?;
                Ok(cf)
            }
            Err(e) => {
                // The error is that of the import; a family that cannot be dropped either is empty.
                let _ = self.drop_cf(&cf);
                Err(e)
            }
        }
    }
}

fn check_order(request: &FamilyRequest, theirs: &str) -> Result<()> {
    let ours = request.comparator.name();
    if ours == theirs {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the comparator of the exported family is {theirs}, that of the new one {ours}"
    )))
}

/// Removes what was made unless it is kept.
struct Made<'a> {
    engine: &'a Engine,
    tables: Vec<(u64, PathBuf)>,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for (number, path) in &self.tables {
            self.engine.c.purge.discard(*number, path);
        }
    }
}

fn take_in(
    engine: &Engine,
    family: &Arc<Family>,
    exported: &ExportedFamily,
    options: ImportOptions,
) -> Result<()> {
    let how = IngestOptions {
        move_files: options.move_files,
        allow_db_generated_files: true,
        ..IngestOptions::default()
    };
    let levels = family.settings().options.num_levels.max(1) as usize;
    let now = engine.c.env.clock.now_seconds();
    let mut files = Vec::with_capacity(exported.files.len());
    for file in &exported.files {
        if file.level >= levels {
            return Err(Error::invalid_argument(format!(
                "a file of level {} for a family with {levels} levels",
                file.level
            ))
            .with_path(&file.path));
        }
        let external = External::examine(&engine.c, family, &file.path, &how)?;
        // A table that was taken in by the exporting database has its number from there.
        let mut described = external.describe(file.largest_seqno, now);
        described.level = file.level as u32;
        files.push(Imported {
            external,
            described,
            told_age: file.epoch_number,
        });
    }
    check_levels(&mut files, &family.comparator)?;
    set_ages(&mut files);
    let mut made = Made {
        engine,
        tables: Vec::new(),
    };
    let intake = Intake::new(engine, family, &how);
    for file in &mut files {
        let number = engine.catalog.new_file_number();
        made.tables.push((number, family.table_path(number, 0)));
        file.described.number = number;
        intake.take(&file.external, number, &mut file.described)?;
    }
    engine.c.dirs.sync(family.cache.paths.dir(0))?;
    install(engine, family, &files, &mut made)?;
    end(engine, family, &files, options);
    Ok(())
}

/// Refuses files of one level, other than level 0, that overlap. Leaves them by level and key.
fn check_levels(files: &mut [Imported], comparator: &Comparator) -> Result<()> {
    files.sort_by(|a, b| {
        let level = a.described.level.cmp(&b.described.level);
        let (a, b) = (&a.described.smallest, &b.described.smallest);
        level.then_with(|| comparator.compare_internal(a, b))
    });
    for pair in files.windows(2) {
        let [a, b] = pair else { continue };
        let level = a.described.level;
        if level != b.described.level || level == 0 {
            continue;
        }
        let order =
            comparator.compare_without_timestamp(a.external.last(), true, b.external.first(), true);
        // One key may lie on both sides of a cut, its newer versions first.
        let cut = comparator.compare_internal(&a.described.largest, &b.described.smallest);
        let is_apart = order.is_lt()
            || order.is_eq() && (cut.is_lt() || is_range_sentinel(&a.described.largest));
        if !is_apart {
            return Err(
                Error::invalid_argument(format!("files of level {level} overlap"))
                    .with_path(&b.external.path),
            );
        }
    }
    Ok(())
}

/// Gives files their ages: as they are told, or by level and, in level 0, sequence number.
fn set_ages(files: &mut [Imported]) {
    let is_told = files.iter().all(|f| f.told_age != 0);
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|&at| {
        let d = &files[at].described;
        let told = if is_told { files[at].told_age } else { 0 };
        (told, u32::MAX - d.level, d.largest_seqno, d.smallest_seqno)
    });
    let mut age = 0;
    let mut before = None;
    for at in order {
        let (level, told) = (files[at].described.level, files[at].told_age);
        // Files of a deeper level share one.
        if level == 0 || before != Some((level, told)) {
            age += 1;
        }
        before = Some((level, told));
        files[at].described.epoch_number = age;
    }
}

/// Makes the files part of the family, all in one step.
fn install(
    engine: &Engine,
    family: &Arc<Family>,
    files: &[Imported],
    made: &mut Made<'_>,
) -> Result<()> {
    let mut leader = engine.leader.lock();
    if let Some(e) = engine.refusal() {
        return Err(e);
    }
    {
        let state = engine.state.lock();
        if state.life.is_canceled() {
            return Err(Error::shutdown(""));
        }
        let f = state.alive(family.id)?;
        // While it leads nobody writes, so that nothing is flushed or compacted either.
        let is_empty = f.mem.is_empty() && f.imm.is_empty() && f.compaction.running().is_empty();
        if !is_empty || f.version.file_iter().next().is_some() {
            return Err(Error::busy(
                "the family was written to while it was imported",
            ));
        }
    }
    if !leader.log.is_synced() || !engine.logs.are_closed_synced() {
        let synced = leader.log.sync(engine);
        synced.inspect_err(|e| engine.set_error(Place::Log, e))?;
    }
    let largest = files.iter().map(|f| f.described.largest_seqno).max();
    let last: SequenceNumber = engine.visible().max(largest.unwrap_or(0));
    let edit = FamilyEdit {
        family: family.clone(),
        edit: VersionEdit {
            new_files: files.iter().map(|f| f.described.clone()).collect(),
            ..VersionEdit::default()
        },
    };
    let closed = engine.c.snapshots.close();
    let installed = engine.log_and_apply_untold(vec![edit], |_| {
        engine.ingestions.fetch_add(1, Ordering::SeqCst);
        engine.order.publish_alone(last);
    });
    drop(closed);
    let installed = match installed {
        Ok(()) => {
            engine.ingestions.fetch_add(1, Ordering::SeqCst);
            made.tables.clear();
            Ok(())
        }
        Err(e) => {
            if e.may_be_written {
                // The next open may find them, and their numbers in use.
                made.tables.clear();
                engine.order.take(last);
            }
            Err(e.error)
        }
    };
    engine.let_go(leader);
    installed
}

fn end(engine: &Engine, family: &Family, files: &[Imported], options: ImportOptions) {
    let fs = &engine.c.env.fs;
    for file in files {
        let (from, d) = (&file.external.path, &file.described);
        engine.reporter.log().info(format_args!(
            "import: {} is {:06}.sst in level {} of [{}]",
            from.display(),
            d.number,
            d.level,
            family.name,
        ));
        let amount = (d.size, file.external.properties.num_entries);
        family
            .counters
            .add_ingested(d.level as usize, amount, options.move_files);
        if options.move_files
            && let Err(e) = fs.delete(from)
        {
            let from = from.display();
            engine
                .reporter
                .log()
                .warn(format_args!("import: {from} stays: {e}"));
        }
    }
}
