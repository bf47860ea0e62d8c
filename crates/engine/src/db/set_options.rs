//! Options changed while the database is open.
//!
//! A change is checked as a whole before anything happens, takes effect in memory, and is recorded in a
//! new OPTIONS file before the call returns, unless the database was opened for reading only. Jobs that run go on with the options they began with.

use super::{Cf, Db};
use crate::core::{
    Engine, Family, FamilySettings, Leadership, Lsm, OptionsWriter, ThrottleSettings,
    table_read_options,
};
use crate::options::objects::is_null;
use crate::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, FamilySection, OptionsFile, check_supported,
    keep_known_objects,
};
use spanlith_base::{Error, ErrorKind, Result, SliceTransform};
use spanlith_env::JobClass;
use spanlith_table::IndexType;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Refuses a change to what does not exist. What an object decides (a comparator of the application's)
/// was accepted when the database was opened, and cannot change.
fn check_change(
    (db, new_db): (&DbOptions, &DbOptions),
    cf: (&CfOptions, &BlockBasedTableOptions),
    new_cf: (&CfOptions, &BlockBasedTableOptions),
) -> Result<()> {
    let refused = |r: Result<()>| r.err().map(|e| e.to_string());
    let new = check_supported(new_db, new_cf.0, new_cf.1);
    let before = refused(check_supported(db, cf.0, cf.1));
    if refused(new.clone()) == before {
        return Ok(());
    }
    new
}

/// A change of options in force.
struct OptionsChange<'a> {
    lsm: &'a Lsm,
    leader: &'a Leadership,
    /// Records it.
    writer: OptionsWriter<'a>,
}

impl<'a> OptionsChange<'a> {
    fn of(engine: &'a Engine) -> Self {
        Self {
            lsm: engine.lsm(),
            leader: &engine.leader,
            writer: engine.options_writer(),
        }
    }

    /// Records a change. What was opened for reading only changes nothing in its directory, which may be another
    /// process's: there a change holds in memory.
    fn record_options(&self) -> Result<()> {
        match self.lsm.c.read_only {
            true => Ok(()),
            false => self.writer.write(),
        }
    }

    fn log_inputs<N: AsRef<str>, V: AsRef<str>>(&self, changes: &[(N, V)]) {
        for (name, value) in changes {
            let (name, value) = (name.as_ref(), value.as_ref());
            self.lsm
                .reporter
                .log()
                .info(format_args!("{name}: {value}"));
        }
    }

    /// Changes options of a family; recorded when this returns.
    fn set_in_family<N: AsRef<str>, V: AsRef<str>>(
        &self,
        family: &Arc<Family>,
        changes: &[(N, V)],
    ) -> Result<()> {
        let log = self.lsm.reporter.log();
        if changes.is_empty() {
            let name = &family.name;
            log.warn(format_args!(
                "SetOptions() on column family [{name}], empty input"
            ));
            return Err(Error::invalid_argument("empty input"));
        }
        let changed = self.change_family(family, changes);
        log.info(format_args!(
            "SetOptions() on column family [{}], inputs:",
            family.name
        ));
        self.log_inputs(changes);
        match &changed {
            Ok(()) => log.info(format_args!("[{}] SetOptions() succeeded", family.name)),
            Err(e) => {
                log.warn(format_args!("[{}] SetOptions() failed: {e}", family.name));
                return changed;
            }
        }
        self.record_options()
    }

    fn change_family<N: AsRef<str>, V: AsRef<str>>(
        &self,
        family: &Arc<Family>,
        changes: &[(N, V)],
    ) -> Result<()> {
        // Leadership orders changes among each other and keeps writers off the slot.
        let mut leader = self.leader.lock();
        if family.is_dropped() {
            return Err(Error::new(ErrorKind::ColumnFamilyDropped, ""));
        }
        let now = family.settings();
        let before = now.user_options();
        let (mut options, mut table) = before.with_changes(&now.table_options, changes)?;
        crate::options::sanitize_stops(&mut options);
        keep_known_objects((&mut options, &mut table), (&before, &now.table_options));
        let db = self.lsm.options().to_arc();
        check_change(
            (&db, &db),
            (&before, &now.table_options),
            (&options, &table),
        )?;
        // Tables and memtables have the one they began with; readers are told which is in use.
        let is_other = !is_same_extractor(&options.prefix_extractor, &now.options.prefix_extractor);
        if is_other {
            let extractor = SliceTransform::from_text(&options.prefix_extractor);
            options.prefix_extractor = extractor.map_or("nullptr".to_string(), |e| e.name());
        }
        let limit = options.write_buffer_size as usize;
        // Relaxed: an option on its own.
        family
            .cache
            .block_protection_bytes
            .store(options.block_protection_bytes_per_key, Ordering::Relaxed);
        family.cache.set_read_options(table_read_options(&table));
        let settings = FamilySettings::new(options, table, &family.cache.paths);
        let kept = now.prefix_extractor.clone().filter(|_| !is_other);
        let mut settings = settings.with_prefix_extractor(kept);
        if settings.prefix_extractor.is_none() && settings.table.index_type == IndexType::HashSearch
        {
            // RocksDB accepts that, too, and crashes when it writes the next table.
            settings.table.index_type = IndexType::BinarySearch;
        }
        family.cache.extractor.set(settings.extractor_id);
        settings.levels.has_compaction_filter = now.levels.has_compaction_filter;
        settings.levels.path_count = now.levels.path_count;
        if let Some(at) = leader.slot(family.id) {
            // Looked at after the next write to the family; that of the default family before every write.
            leader.slots[at].limit = limit;
        }
        let mut state = self.lsm.state.lock();
        if let Some(f) = state.family_mut(family.id) {
            f.settings = Arc::new(settings);
        }
        self.lsm.install_superversion(&mut state, family.id);
        drop(state);
        drop(leader);
        self.lsm.keep_times(false);
        self.lsm.start_age_timer();
        self.lsm.state.notify_all();
        self.lsm.reporter.tell_stalls();
        Ok(())
    }

    /// Changes options of the database; recorded when this returns.
    fn set_in_database<N: AsRef<str>, V: AsRef<str>>(&self, changes: &[(N, V)]) -> Result<()> {
        let log = self.lsm.reporter.log();
        if changes.is_empty() {
            log.warn(format_args!("SetDBOptions(), empty input."));
            return Err(Error::invalid_argument("empty input"));
        }
        let changed = self.change_database(changes);
        log.info(format_args!("SetDBOptions(), inputs:"));
        self.log_inputs(changes);
        match &changed {
            Ok(()) => log.info(format_args!("SetDBOptions() succeeded")),
            Err(e) => {
                log.warn(format_args!("SetDBOptions failed: {e}"));
                return changed;
            }
        }
        self.record_options()
    }

    fn change_database<N: AsRef<str>, V: AsRef<str>>(&self, changes: &[(N, V)]) -> Result<()> {
        let leader = self.leader.lock();
        let now = self.lsm.options().to_arc();
        let new = Arc::new(now.with_changes(changes)?);
        let (cf, table) = (CfOptions::default(), BlockBasedTableOptions::default());
        check_change((&now, &new), (&cf, &table), (&cf, &table))?;
        // Parts keep copies for themselves. Readers may be closed: not under the state mutex.
        let io = &self.lsm.c.io;
        io.set_max_open_files(new.max_open_files);
        io.set_bytes_per_sync(new.bytes_per_sync, new.strict_bytes_per_sync);
        let mut state = self.lsm.state.lock();
        self.lsm.replace_options(new.clone());
        self.lsm
            .set_throttle(&mut state, ThrottleSettings::of(&new));
        drop(leader);
        let executor = &self.lsm.c.env.executor;
        executor.reserve(JobClass::High, self.lsm.max_flushes());
        executor.reserve(JobClass::Low, self.lsm.compaction_threads());
        self.lsm.schedule(&mut state);
        drop(state);
        self.lsm.start_reports(&now, &new);
        self.lsm.start_age_timer();
        Ok(())
    }
}

/// Returns whether two texts of an option mean the same extractor, or both none.
fn is_same_extractor(one: &str, other: &str) -> bool {
    let none = |text: &str| is_null(text).then_some(None);
    let known = |text: &str| none(text).or_else(|| SliceTransform::from_text(text).map(Some));
    one == other || known(one).is_some_and(|one| known(other) == Some(one))
}

impl Db {
    /// Changes options of the database by RocksDB's names; all of them or none. They are recorded in a
    /// new OPTIONS file when this returns.
    ///
    /// # Errors
    /// `InvalidArgument` for no change and for a bad value, `NotFound` for an option that does not
    /// exist or cannot be changed, `NotSupported` for a feature that does not exist; nothing is changed
    /// then. `Io` if the file could not be written: the change holds until the database is closed.
    pub fn set_options<N: AsRef<str>, V: AsRef<str>>(&self, changes: &[(N, V)]) -> Result<()> {
        OptionsChange::of(self.engine()).set_in_database(changes)
    }

    /// Starts automatic compactions of families that were opened without them: sets
    /// `disable_auto_compactions` to false.
    ///
    /// # Errors
    /// As [`Cf::set_options`]; families before the one that failed are changed.
    pub fn enable_auto_compaction(&self, cfs: &[&Cf]) -> Result<()> {
        let change = [("disable_auto_compactions", "false")];
        cfs.iter().try_for_each(|cf| cf.set_options(&change))
    }

    /// Options in force, of the database and all its families.
    pub fn options(&self) -> OptionsFile {
        let engine = self.engine();
        let families = engine.families.load_full();
        let families = families.iter().map(|f| -> FamilySection {
            let s = f.settings();
            (f.name.clone(), s.user_options(), s.table_options.clone())
        });
        OptionsFile {
            db: DbOptions::clone(&engine.options()),
            families: families.collect(),
        }
    }
}

impl Cf {
    /// Changes options of the family by RocksDB's names; all of them or none. They are recorded in a new
    /// OPTIONS file when this returns.
    ///
    /// # Errors
    /// `InvalidArgument` for no change, an unknown or fixed option, and a bad value; `NotSupported` for
    /// a feature that does not exist; nothing is changed then. `Io` as for [`Db::set_options`].
    pub fn set_options<N: AsRef<str>, V: AsRef<str>>(&self, changes: &[(N, V)]) -> Result<()> {
        OptionsChange::of(self.db.engine()).set_in_family(&self.family, changes)
    }

    /// Options in force.
    pub fn options(&self) -> CfOptions {
        self.family.settings().user_options()
    }

    /// Options in force of new tables.
    pub fn table_options(&self) -> BlockBasedTableOptions {
        self.family.settings().table_options.clone()
    }
}
