//! The whole of taking files in: prepare, flush what overlaps, place, install.

use super::external::External;
use super::options::IngestOptions;
use super::place::{Placed, Touch, place};
use super::take_in::Intake;
use super::touches::{Span, bounds_meet, level_holds, memtables_hold, output_meets};
use crate::core::{Engine, Family, FamilyEdit, FamilyState, LeaderState, Place};
use crate::db::{Cf, Db};
use crate::listener::{ExternalFileInfo, FlushReason};
use crate::options::{CompactionStyle, FlushOptions};
use crate::picker::RunningCompaction;
use crate::version::{FileKind, LevelTargets, NewFile, Version, VersionEdit, parse_file_name};
use crate::write::FlushCall;
use spanlith_base::keys::MAX_SEQUENCE;
use spanlith_base::stats::Histogram;
use spanlith_base::sync::MutexGuard;
use spanlith_base::{Error, ErrorKind, Result, SequenceNumber};
use spanlith_table::ReadActivity;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files that one family takes in.
#[derive(Clone)]
pub struct Ingestion {
    /// The family.
    pub cf: Cf,
    /// The files. Of those that overlap, later ones are newer.
    pub files: Vec<PathBuf>,
    /// How they are taken in.
    pub options: IngestOptions,
}

impl Cf {
    /// Takes in tables that were written outside ([`crate::SstWriter`]), all or none: what they hold is visible in one
    /// step, newer than what was written before, and durable when this returns. Of files that overlap each other,
    /// later ones are newer.
    ///
    /// Costs reading the files once, and copying them unless they are linked; a flush if memtables hold keys in their
    /// range. Nobody writes from that flush on until the files are there.
    ///
    /// # Errors
    /// `InvalidArgument` for no files, options that contradict each other or forbid what is needed, keys of another
    /// order; `Corruption` for a file that is damaged or was not made for this; `TryAgain` if the last level has no
    /// room and must be it; `NotSupported` of a database that was opened for reading; of the flush; the background
    /// error that stops writes; `Io`. Nothing is left of a call that failed, and the files are where they were. Only
    /// after an error of the MANIFEST the next open may find them taken in.
    pub fn ingest<P: AsRef<Path>>(
        &self,
        files: impl IntoIterator<Item = P>,
        options: &IngestOptions,
    ) -> Result<()> {
        let files = files.into_iter().map(|p| p.as_ref().to_path_buf());
        self.db().ingest(&[Ingestion {
            cf: self.clone(),
            files: files.collect(),
            options: *options,
        }])
    }
}

impl Db {
    /// As [`Cf::ingest`], into several families at once.
    ///
    /// # Errors
    /// As there; `InvalidArgument` for no families, or one that is named twice.
    pub fn ingest(&self, ingestions: &[Ingestion]) -> Result<()> {
        IngestJob {
            engine: self.engine(),
        }
        .run(ingestions)
    }
}

/// A file on its way.
struct Prepared {
    external: External,
    number: u64,
    /// Says what is known of it before it has a place.
    described: NewFile,
    /// Files with the same number do not overlap; those of a later one overlap one of an earlier.
    batch: usize,
}

/// The files of one family on their way.
struct Part {
    family: Arc<Family>,
    options: IngestOptions,
    files: Vec<Prepared>,
}

impl Part {
    fn files_overlap(&self) -> bool {
        self.files.last().is_some_and(|f| f.batch > 0)
    }
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

/// Takes back, at the latest when it goes, that ranges count as outputs, and lets refits go on.
struct Claims<'a> {
    engine: &'a Engine,
    ids: Vec<(u32, u64)>,
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        state.jobs.end_ingestion();
        let mut families = Vec::new();
        for (family, id) in &self.ids {
            if let Some(f) = state.family_mut(*family) {
                f.compaction.end(*id);
                families.push(*family);
            }
        }
        families.dedup();
        // A compaction that the ranges were in the way of may run now; none of them was installed.
        self.engine.retry_compactions(&mut state, &families);
        drop(state);
        self.engine.state.notify_all();
    }
}

/// Writers wait as long as it lives, though not for ever.
struct Hold<'a>(&'a Engine);

impl<'a> Hold<'a> {
    fn new(engine: &'a Engine) -> Self {
        engine.hold_writers(true);
        Self(engine)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.hold_writers(false);
    }
}

/// One call that takes files in.
struct IngestJob<'a> {
    engine: &'a Engine,
}

impl<'a> IngestJob<'a> {
    fn run(&self, ingestions: &[Ingestion]) -> Result<()> {
        self.engine.writable()?;
        self.check_ingestions(ingestions)?;
        let began = self.engine.c.env.clock.monotonic_nanos();
        let mut made = Made {
            engine: self.engine,
            tables: Vec::new(),
        };
        let mut parts = Vec::with_capacity(ingestions.len());
        for ingestion in ingestions {
            parts.push(self.prepare(ingestion, &mut made)?);
        }
        for part in &parts {
            self.engine.c.dirs.sync(part.family.cache.paths.dir(0))?;
        }
        let prepared = self.engine.c.env.clock.monotonic_nanos();
        self.install(&mut parts, &mut made)?;
        // They belong to the database now.
        made.tables.clear();
        drop(made);
        if let Some(s) = self.engine.reporter.statistics() {
            let ended = self.engine.c.env.clock.monotonic_nanos();
            let micros = |from, to: u64| to.saturating_sub(from) / 1000;
            let (preparing, running) = (micros(began, prepared), micros(prepared, ended));
            s.record_time(Histogram::IngestExternalFilePrepareMicros, preparing);
            s.record_time(Histogram::IngestExternalFileRunMicros, running);
        }
        for part in &parts {
            self.end_part(part);
        }
        self.engine.purge_obsolete();
        Ok(())
    }

    fn check_ingestions(&self, ingestions: &[Ingestion]) -> Result<()> {
        let refuse = |text: &str| Err(Error::invalid_argument(text));
        if ingestions.is_empty() {
            return refuse("ingestion arg list is empty");
        }
        for (at, i) in ingestions.iter().enumerate() {
            if !std::ptr::eq(&raw const **i.cf.db().engine(), self.engine) {
                return refuse("the column family is another database's");
            }
            let is_same = |other: &Ingestion| other.cf.id() == i.cf.id();
            if ingestions[..at].iter().any(is_same) {
                return refuse("ingestion args have duplicate CFs");
            }
        }
        for (at, i) in ingestions.iter().enumerate() {
            if i.files.is_empty() {
                let text = format!("external_files[{at}] is empty");
                return Err(Error::invalid_argument(text));
            }
            if i.options.ingest_behind {
                return refuse(
                    "Can't ingest_behind file in ColumnFamily %s with cf_allow_ingest_behind=false",
                );
            }
            if i.options.move_files && i.options.link_files {
                return refuse("`move_files` and `link_files` can not both be true.");
            }
            if i.options.move_files && i.files.iter().any(|path| self.may_be_own(path)) {
                return refuse("a table of the database cannot be moved into it");
            }
        }
        Ok(())
    }

    /// Returns whether a path leads to what may be a table of this database: its name must not go.
    fn may_be_own(&self, path: &Path) -> bool {
        let fs = &self.engine.c.env.fs;
        let name = path.file_name().and_then(|n| n.to_str());
        if !matches!(name.and_then(parse_file_name), Some(FileKind::Table(_))) {
            return false;
        }
        let path = fs.absolute(path);
        let families = self.engine.families.load();
        let mut dirs = families.iter().flat_map(|f| f.cache.paths.dirs());
        dirs.any(|dir| path.parent() == Some(&fs.absolute(dir)))
    }

    /// Examines the files of one family, and brings them into its directory.
    fn prepare(&self, ingestion: &Ingestion, made: &mut Made<'_>) -> Result<Part> {
        let options = ingestion.options;
        let family = ingestion.cf.family();
        let mut part = Part {
            family: family.clone(),
            options,
            files: Vec::new(),
        };
        for path in &ingestion.files {
            let external = External::examine(&self.engine.c, family, path, &options)?;
            part.files.push(Prepared {
                external,
                number: 0,
                described: NewFile::default(),
                batch: 0,
            });
        }
        part.assign_batches();
        check_overlaps(&part)?;
        let now = self.engine.c.env.clock.now_seconds();
        let intake = Intake::new(self.engine, family, &options);
        for file in &mut part.files {
            file.number = self.engine.catalog.new_file_number();
            let path = family.table_path(file.number, 0);
            made.tables.push((file.number, path));
            file.described = file.external.describe(0, now);
            file.described.number = file.number;
            let (external, described) = (&file.external, &mut file.described);
            intake.take(external, file.number, described)?;
        }
        Ok(part)
    }

    /// Makes the files part of the database, all in one step.
    fn install(&self, parts: &mut [Part], made: &mut Made<'_>) -> Result<()> {
        let (mut leader, mut claims) = self.lead_without_overlap(parts)?;
        // Entries that are older than the files must not be lost where the files are not (D7).
        if !leader.log.is_synced() || !self.engine.logs.are_closed_synced() {
            let synced = leader.log.sync(self.engine);
            synced.inspect_err(|e| self.engine.set_error(Place::Log, e))?;
        }
        // No snapshot may come between the decision about sequence numbers and the files: it would see them appear.
        let closed = self.engine.c.snapshots.close();
        let last = self.place_all(parts, !closed.is_empty(), &mut claims)?;
        let edits = parts.iter().map(Part::edit).collect();
        let ids = std::mem::take(&mut claims.ids);
        let installed = self.engine.log_and_apply_untold(edits, |state| {
            for (family, id) in &ids {
                if let Some(f) = state.family_mut(*family) {
                    f.compaction.end(*id);
                }
            }
            for family in parts.iter().map(|p| p.family.id) {
                // A reader that does not see the files must not hide what they hold, as soon as a state that is
                // installed later lets readers add range tombstones again. A memtable that comes later is newer.
                if let Some(f) = state.family(family) {
                    f.mem.refuse_conversions_below(last);
                }
            }
            // A reader that takes several families at once looks again.
            self.engine.ingestions.fetch_add(1, Ordering::SeqCst);
            // Before the files can be found: whoever finds some sees all.
            self.engine.order.publish_alone(last);
        });
        let installed = match installed {
            Ok(()) => {
                self.engine.ingestions.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            Err(e) => {
                claims.ids = ids;
                if e.may_be_written {
                    // The next open may find them, and their numbers in use (D6).
                    made.tables.clear();
                    self.engine.order.take(last);
                }
                Err(e.error)
            }
        };
        drop(closed);
        drop(claims);
        self.engine.let_go(leader);
        installed
    }

    /// Leads once no memtable has anything in the range of a file, and no refit is under way.
    fn lead_without_overlap(
        &self,
        parts: &[Part],
    ) -> Result<(MutexGuard<'a, LeaderState>, Claims<'a>)> {
        let mut hold = None;
        let mut rounds = 0;
        loop {
            let leader = self.engine.leader.lock();
            if let Some(e) = self.engine.refusal() {
                return Err(e);
            }
            let due: Vec<&Part> = parts.iter().filter(|p| p.overlaps_memtables()).collect();
            if due.is_empty() {
                let mut state = self.engine.state.lock();
                if state.life.is_canceled() {
                    return Err(Error::shutdown(""));
                }
                if !state.jobs.is_refitting() {
                    state.jobs.begin_ingestion();
                    drop(state);
                    let claims = Claims {
                        engine: self.engine,
                        ids: Vec::new(),
                    };
                    if parts.iter().any(Part::was_converted_into) {
                        continue;
                    }
                    return Ok((leader, claims));
                }
                drop(state);
                drop(leader);
                let mut state = self.engine.state.lock();
                while state.jobs.is_refitting() && !state.ends() {
                    state = self.engine.wait_changed(state);
                }
                continue;
            }
            drop(leader);
            if due.iter().any(|p| !p.options.allow_blocking_flush) {
                return Err(Error::invalid_argument("External file requires flush"));
            }
            rounds += 1;
            if rounds > 1 && !self.engine.c.env.executor.is_manual() {
                // Writers were faster once; the next time they stay away.
                hold.get_or_insert_with(|| Hold::new(self.engine));
            }
            let families: Vec<_> = due.iter().map(|p| p.family.clone()).collect();
            let reason = FlushReason::ExternalFileIngestion;
            FlushCall::new(self.engine, &self.engine.leader, reason, &families)
                .run(FlushOptions::AT_ONCE)?;
        }
    }

    /// Gives every file its level, sequence number and age, and registers the ranges. Returns the last sequence
    /// number then in use.
    fn place_all(
        &self,
        parts: &mut [Part],
        has_snapshots: bool,
        claims: &mut Claims<'_>,
    ) -> Result<SequenceNumber> {
        // As long as it is held no other version is installed.
        let _manifest = self.engine.catalog.lock();
        let _activity = ReadActivity::Unknown.enter();
        let mut touches = Vec::with_capacity(parts.len());
        for part in parts.iter() {
            let (version, base_level) = {
                let state = self.engine.state.lock();
                let f = state.alive(part.family.id)?;
                let targets = LevelTargets::compute(&f.version, &f.settings.levels);
                (f.version.clone(), targets.base_level)
            };
            touches.push((part.touches(&version)?, version, base_level));
        }
        let mut last = self.engine.visible();
        let mut state = self.engine.state.lock();
        for (part, (touches, version, base_level)) in parts.iter_mut().zip(touches) {
            let last_job = state.jobs.new_ids(part.files.len());
            let f = state
                .family_mut(part.family.id)
                .ok_or_else(|| Error::new(ErrorKind::ColumnFamilyDropped, ""))?;
            debug_assert!(Arc::ptr_eq(&f.version, &version), "V3: one edit at a time");
            let at = Placing {
                base_level,
                has_snapshots,
                first_job: last_job + 1,
            };
            part.place(f, touches, &at, &mut last, claims)?;
        }
        Ok(last)
    }

    /// Does what follows once the files of a family are taken in.
    fn end_part(&self, part: &Part) {
        let fs = &self.engine.c.env.fs;
        for file in &part.files {
            let (from, number) = (&file.external.path, file.number);
            let to = part.family.table_path(number, 0);
            let f = &file.described;
            self.engine.reporter.log().info(format_args!(
                "ingestion: {} is {number:06}.sst in level {} of [{}], sequence number {}",
                from.display(),
                f.level,
                part.family.name,
                f.largest_seqno,
            ));
            let o = &part.options;
            let amount = (f.size, file.external.properties.num_entries);
            let is_linked = o.move_files || o.link_files;
            part.family
                .counters
                .add_ingested(f.level as usize, amount, is_linked);
            if part.options.move_files
                && let Err(e) = fs.delete(from)
                // The same file twice in a call.
                && !matches!(fs.entry(from), Ok(None))
            {
                let from = from.display();
                self.engine
                    .reporter
                    .log()
                    .warn(format_args!("ingestion: {from} stays: {e}"));
            }
            self.engine
                .reporter
                .listeners()
                .on_external_file_ingested(|| ExternalFileInfo {
                    cf_name: part.family.name.clone(),
                    external_path: from.clone(),
                    internal_path: to,
                    global_seqno: file.external.own_seqnos.map_or(f.largest_seqno, |_| 0),
                    properties: file.external.properties.clone(),
                });
        }
    }
}

/// Describes what files need to know to be placed.
struct Placing {
    base_level: usize,
    has_snapshots: bool,
    /// Identity of the first that is registered.
    first_job: u64,
}

impl Part {
    /// Cuts the files into batches, in their order.
    fn assign_batches(&mut self) {
        let comparator = &self.family.comparator;
        let (mut batch, mut begin) = (0, 0);
        for at in 0..self.files.len() {
            let (before, rest) = self.files.split_at_mut(at);
            let mut others = before[begin..].iter();
            if others.any(|o| o.external.overlaps(&rest[0].external, comparator)) {
                (batch, begin) = (batch + 1, at);
            }
            rest[0].batch = batch;
        }
    }

    /// Ends the addition of redundant range tombstones to the memtable, and returns whether one came into the range
    /// of a file since [`Self::overlaps_memtables`] was asked. Requires: an ingestion is counted, so that no new state
    /// of the family begins it anew.
    fn was_converted_into(&self) -> bool {
        self.family.superversion.load().mem.convert_for(0);
        self.overlaps_memtables()
    }

    fn overlaps_memtables(&self) -> bool {
        let sv = self.family.superversion.load_full();
        let mut files = self.files.iter();
        files.any(|f| memtables_hold(&self.family, &sv, f.span()))
    }

    /// Returns what each file touches in each level, outputs left out.
    fn touches(&self, version: &Version) -> Result<Vec<Vec<Touch>>> {
        let mut all = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let mut touches = Vec::with_capacity(version.num_levels());
            for level in 0..version.num_levels() {
                let bounds = bounds_meet(version, level, file.span());
                let fill = self.options.fill_cache;
                let keys = bounds && level_holds(&self.family, version, level, file.span(), fill)?;
                touches.push(Touch {
                    keys,
                    bounds,
                    output: false,
                });
                if keys {
                    break;
                }
            }
            all.push(touches);
        }
        Ok(all)
    }

    fn place(
        &mut self,
        f: &mut FamilyState,
        touches: Vec<Vec<Touch>>,
        at: &Placing,
        last: &mut SequenceNumber,
        claims: &mut Claims<'_>,
    ) -> Result<()> {
        let levels = f.version.num_levels();
        let all_need_numbers =
            self.files_overlap() || self.options.snapshot_consistency && at.has_snapshots;
        // A flush that began before may take the next.
        let first_epoch = f.version.max_epoch_number() + 2;
        let comparator = self.family.comparator.clone();
        // FIFO compaction has its data in level 0, where age is told apart.
        let is_fifo = f.settings.levels.style == CompactionStyle::Fifo;
        let (mut batch, mut above, mut highest) = (0, is_fifo.then_some(0), levels);
        let mut claimed = Vec::new();
        for (nth, (file, mut touches)) in self.files.iter_mut().zip(touches).enumerate() {
            if file.batch != batch {
                (batch, above) = (file.batch, Some(highest));
            }
            for (level, touch) in touches.iter_mut().enumerate() {
                touch.output =
                    output_meets(&comparator, f.compaction.running(), level, file.span());
            }
            let Placed { level, overlaps } = place(at.base_level, &touches, above);
            highest = highest.min(level);
            if self.options.fail_if_not_bottommost_level && level + 1 < levels {
                return Err(not_bottommost());
            }
            let needs_number = all_need_numbers || overlaps;
            let seqno = file.number_it(needs_number, &self.options, last)?;
            let d = &mut file.described;
            *d = NewFile {
                number: d.number,
                level: level as u32,
                epoch_number: first_epoch + nth as u64,
                file_checksum: std::mem::take(&mut d.file_checksum),
                file_checksum_func_name: std::mem::take(&mut d.file_checksum_func_name),
                ..file.external.describe(seqno, d.file_creation_time)
            };
            claimed.push(RunningCompaction {
                id: at.first_job + nth as u64,
                output_level: level,
                smallest: file.external.first().to_vec(),
                largest: file.external.last().to_vec(),
                input_levels: Vec::new(),
                proximal: None,
            });
        }
        let id = self.family.id;
        claims.ids.extend(claimed.iter().map(|c| (id, c.id)));
        f.compaction.claim(claimed);
        Ok(())
    }

    fn edit(&self) -> FamilyEdit {
        FamilyEdit {
            family: self.family.clone(),
            edit: VersionEdit {
                new_files: self.files.iter().map(|f| f.described.clone()).collect(),
                ..VersionEdit::default()
            },
        }
    }
}

impl Prepared {
    fn span(&self) -> Span<'_> {
        Span {
            first: self.external.first(),
            last: self.external.last(),
        }
    }

    /// The sequence number of all its entries; 0 if they need none, or have their own.
    fn number_it(
        &self,
        is_needed: bool,
        options: &IngestOptions,
        last: &mut SequenceNumber,
    ) -> Result<SequenceNumber> {
        if let Some((_, largest)) = self.external.own_seqnos {
            if is_needed {
                return Err(Error::invalid_argument(
                    "An ingested file overlaps with existing data in the DB and has been assigned a \
                     non-zero sequence number, which is not allowed when \
                     'allow_db_generated_files' is enabled.",
                ));
            }
            // They are to be seen.
            *last = (*last).max(largest);
            return Ok(0);
        }
        if !is_needed {
            return Ok(0);
        }
        if !options.allow_global_seqno {
            return Err(Error::invalid_argument(
                "Global seqno is required, but disabled",
            ));
        }
        if *last + 1 >= MAX_SEQUENCE {
            return Err(Error::invalid_argument("sequence numbers are used up"));
        }
        *last += 1;
        Ok(*last)
    }
}

/// Refuses files that overlap each other where they must not.
fn check_overlaps(part: &Part) -> Result<()> {
    if !part.files_overlap() {
        return Ok(());
    }
    if part.family.comparator.timestamp_size() > 0 {
        return Err(Error::not_supported(
            "Files with overlapping ranges cannot be ingested to column family with user-defined \
             timestamp enabled.",
        ));
    }
    if !part.options.allow_global_seqno {
        return Err(Error::invalid_argument(
            "Global seqno is required, but disabled (because external files key range overlaps).",
        ));
    }
    Ok(())
}

fn not_bottommost() -> Error {
    Error::new(
        ErrorKind::TryAgain,
        "Files cannot be ingested to Lmax. Please make sure key range of Lmax and ongoing compaction's \
         output to Lmax does not overlap with files to ingest. Input files overlapping with each other \
         can cause some file to be assigned to non Lmax level.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CfOptions;
    use crate::{Db, FamilyOptions};
    use spanlith_env::{Env, MemFs};

    /// It waited for the next flush.
    #[test]
    fn a_compaction_that_files_were_in_the_way_of_runs_when_they_are_not_taken_in() {
        let (env, executor, _) = Env::test(Arc::new(MemFs::new()), 1);
        let family = FamilyOptions::new("default").options(CfOptions {
            level0_file_num_compaction_trigger: 2,
            ..CfOptions::default()
        });
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.family(family).no_info_log().open().unwrap();
        let cf = db.default_cf();
        for value in ["1", "2"] {
            cf.put("a", value).unwrap();
            cf.put("b", value).unwrap();
            cf.flush(true).unwrap();
        }
        let engine = db.engine();
        {
            let mut state = engine.state.lock();
            state.jobs.begin_ingestion();
            let claimed = RunningCompaction {
                id: 77,
                output_level: 6,
                smallest: b"a".to_vec(),
                largest: b"z".to_vec(),
                input_levels: Vec::new(),
                proximal: None,
            };
            state.family_mut(0).unwrap().compaction.claim([claimed]);
        }
        executor.run_until_idle();
        assert_eq!(cf.live_files().len(), 2, "nothing can run");
        let ids = vec![(0, 77)];
        drop(Claims { engine, ids });
        executor.run_until_idle();
        assert_eq!(cf.live_files().len(), 1);
        db.close().unwrap();
    }
}
