//! Creates and drops column families.

use super::catalog::Urgency;
use super::directories::create_dir;
use super::family::{Family, FamilyParts, FamilySettings};
use super::state::{FamilyState, MemSlot};
use super::superversion::asks_in_turn;
use super::{
    Engine, Leadership, LogRetirement, Lsm, SuperVersion, Transactions, gate, worst_stall,
};
use crate::blob::{BlobCache, BlobReads, BlobSource, ExpectedFamily};
use crate::filter::FilterSource;
use crate::merge::MergeOperator;
use crate::options::{BlockBasedTableOptions, CfOptions, STATS_FAMILY, sanitize_cf};
use crate::ttl::ValueTimes;
use crate::version::{DbPath, FilePaths, PurgeSink, RowCache, TableCache, Version, VersionEdit};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::slice_transform::{ExtractorCell, SliceTransform};
use spanlith_base::sync::ArcCell;
use spanlith_base::{Comparator, Error, FileNumber, Result};
use spanlith_speed::SpeedTables;
use spanlith_table::{BlockCache, CacheUsageOptions, Collectors, ReadCounters, ReaderOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Blob files of a family that are kept open.
const BLOB_FILES_OPEN_MAX: usize = 256;

/// A family's name, options and components, as the caller gives them. Options are validated.
#[derive(Clone)]
pub(crate) struct FamilyRequest {
    pub name: String,
    pub options: CfOptions,
    pub table_options: BlockBasedTableOptions,
    pub comparator: Comparator,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// An extractor of the user's; `None` is what the options name.
    pub prefix_extractor: Option<SliceTransform>,
    pub filters: FilterSource,
    /// Set if its values have times; merge operator and filters are wrapped then.
    pub times: Option<ValueTimes>,
    /// Says who adds properties to its tables.
    pub collectors: Collectors,
    pub block_cache: Option<BlockCache>,
    /// Cache of values in blob files; may be the block cache.
    pub blob_cache: Option<BlockCache>,
    /// Which memory is charged to it.
    pub cache_usage: CacheUsageOptions,
    /// Directories of its tables; empty means the database directory.
    pub paths: Vec<DbPath>,
    /// The directory of tables on a speed disk.
    pub tables: Option<Arc<SpeedTables>>,
}

impl FamilyRequest {
    /// The family of persistent statistics.
    pub(crate) fn of_persistent_stats() -> Self {
        let mut options = CfOptions::of_persistent_stats();
        sanitize_cf(&mut options);
        Self {
            name: STATS_FAMILY.to_string(),
            options,
            table_options: BlockBasedTableOptions::default(),
            comparator: Comparator::default(),
            merge_operator: None,
            prefix_extractor: None,
            filters: FilterSource::default(),
            // Those of the user have times.
            times: None,
            collectors: Collectors::default(),
            block_cache: None,
            blob_cache: None,
            cache_usage: CacheUsageOptions::default(),
            paths: Vec::new(),
            tables: None,
        }
    }
}

/// Directories of a family's tables.
pub(crate) fn family_paths(dir: &Path, request: &FamilyRequest) -> FilePaths {
    let paths = match request.paths.is_empty() {
        true => FilePaths::one(dir),
        false => FilePaths::new(request.paths.clone()),
    };
    paths.with_speed(request.tables.clone())
}

impl FamilyRequest {
    /// Puts the family together, with an empty memtable.
    pub(crate) fn build(
        &self,
        c: &super::Components,
        reporter: &super::Reporter,
        id: u32,
        version: Version,
        sink: Arc<dyn PurgeSink>,
        log_number: u64,
    ) -> FamilyState {
        let options = &self.options;
        let paths = family_paths(&c.dir, self);
        let settings = FamilySettings::new(options.clone(), self.table_options.clone(), &paths);
        let mut settings = settings.with_prefix_extractor(self.prefix_extractor.clone());
        settings.levels.has_compaction_filter = self.filters.is_set();
        settings.levels.path_count = c.resources.paths.len().max(1);
        let settings = Arc::new(settings);
        let cache = Arc::new(TableCache {
            io: c.io.clone(),
            paths,
            readers: ReaderOptions {
                prefix_extractor: settings.prefix_extractor.clone(),
                levels: i32::try_from(version.num_levels()).unwrap_or(0),
                counters: Some(ReadCounters {
                    statistics: reporter.shared_statistics(),
                    clock: c.env.clock.clone(),
                    lookups: Some(c.watchers.blocks.switch().clone()),
                }),
                ..super::reader_options(self, &c.io)
            },
            read_options: ArcCell::new(Arc::new(super::table_read_options(
                &settings.table_options,
            ))),
            block_protection_bytes: AtomicU8::new(options.block_protection_bytes_per_key),
            extractor: ExtractorCell::new(settings.extractor_id),
            verify_unique_id: c.options.verify_sst_unique_id_in_manifest,
            expects_hits: options.optimize_filters_for_hits,
            rows: c.resources.row_cache.as_ref().map(|rows| {
                let statistics = reporter.shared_statistics();
                RowCache::new(rows.clone(), statistics)
            }),
        });
        for file in version.levels.iter().flat_map(|level| &level.files) {
            // A strict cache that has no room refuses the next file that is added.
            let _ = cache.charge_metadata(file);
        }
        let blobs = BlobSource::new(
            c.env.fs.clone(),
            cache.paths.dir(0).to_path_buf(),
            ExpectedFamily::Id(id),
            BLOB_FILES_OPEN_MAX,
        );
        let values = (self.blob_cache.clone())
            .map(|cache| BlobCache::new(cache, reporter.shared_statistics()));
        let reads = BlobReads::new(c.env.clock.clone());
        let blobs = blobs.with_statistics(reporter.shared_statistics());
        let blobs = blobs
            .with_cache(values)
            .with_pieces(self.block_cache.as_ref());
        let blobs = Arc::new(blobs.counting(reads));
        c.purge.close_in(&blobs);
        let mem = settings.new_memtable(&self.comparator);
        let version = Arc::new(version);
        let superversion = SuperVersion {
            mem: mem.clone(),
            imm: Vec::new(),
            version: version.clone(),
            settings: settings.clone(),
            history_low: version.history_low.clone(),
            number: 0,
            asks_in_turn: asks_in_turn(&cache, &settings),
        };
        let family = Family::new(FamilyParts {
            id,
            name: self.name.clone(),
            comparator: self.comparator.clone(),
            merge_operator: self.merge_operator.clone(),
            filters: self.filters.clone(),
            collectors: self.collectors.clone(),
            cache,
            blobs,
            superversion,
            times: self.times.clone(),
            sink,
        });
        FamilyState::new(family, settings, mem, version, log_number)
    }
}

/// Creates and drops families.
pub(crate) struct FamilyChanges<'a> {
    lsm: &'a Lsm,
    leader: &'a Leadership,
    transactions: &'a Transactions,
}

impl<'a> FamilyChanges<'a> {
    /// Those of a database.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            lsm: engine.lsm(),
            leader: &engine.leader,
            transactions: &engine.transactions,
        }
    }

    /// Creates a family; durable when this returns.
    pub(crate) fn create(&self, request: &FamilyRequest) -> Result<Arc<Family>> {
        let lsm = self.lsm;
        lsm.writable()?;
        if request.name.is_empty() {
            return Err(Error::invalid_argument(
                "Column family name cannot be the empty string",
            ));
        }
        let mut leader = self.leader.lock();
        if let Some(e) = lsm.refusal() {
            return Err(e);
        }
        if lsm.families.load().by_name(&request.name).is_some() {
            return Err(Error::invalid_argument("Column family already exists"));
        }
        for dir in family_paths(&lsm.c.dir, request).dirs() {
            if dir != lsm.c.dir {
                create_dir(&*lsm.c.env.fs, dir)?;
                lsm.c.dirs.hold(dir)?;
            }
        }
        let mut manifest = lsm.catalog.lock();
        let (id, log_number, sequence) = {
            let state = lsm.state.lock();
            let id = state.max_family.checked_add(1);
            let id = id.ok_or_else(|| Error::aborted("family ids are used up"))?;
            let log = state.logs.newest().unwrap_or(0);
            (id, log, state.table_sequence)
        };
        let levels = request.options.num_levels.max(1) as usize;
        let version = Version::empty(request.comparator.clone(), levels);
        let sink = Family::new_sink(&lsm.c.purge, family_paths(&lsm.c.dir, request));
        let mut made = request.build(&lsm.c, &lsm.reporter, id, version, sink, log_number);
        made.mem_since = lsm.visible();
        let family = made.family.clone();
        let edit = VersionEdit {
            column_family: id,
            column_family_add: Some(bytes_of_text(&request.name).into_owned()),
            comparator: Some(request.comparator.name().into()),
            log_number: Some(log_number),
            persist_user_defined_timestamps: Some(request.options.persist_user_defined_timestamps),
            max_column_family: Some(id),
            last_sequence: Some(sequence),
            ..VersionEdit::default()
        };
        lsm.write_edits(&mut manifest, vec![edit], Urgency::Foreground)?;
        if family.comparator.timestamp_size() != 0 {
            lsm.logs.note_timestamps();
        }
        leader.log.set_room(0);
        let budget = lsm.c.resources.write_buffers.as_ref();
        leader.slots.push(MemSlot::new(&made, budget));
        let mut state = lsm.state.lock();
        if super::lsm::is_users(&family.comparator) {
            lsm.gate.set(gate::CALLS_BACK);
        }
        state.max_family = id;
        state.families.insert(id, made);
        let set = lsm.families.load().with(family.clone());
        let before = set.iter().count() - 1;
        lsm.families.replace(Arc::new(set));
        lsm.publish_superversion(&mut state, id);
        drop(state);
        drop(manifest);
        drop(leader);
        lsm.reporter.describe_family(&family, before);
        let name = &family.name;
        lsm.reporter
            .log()
            .info(format_args!("Created column family [{name}] (ID {id})"));
        if family.settings().keeps_times() {
            lsm.keep_times(false);
        }
        lsm.start_age_timer();
        Ok(family)
    }

    /// Closes directories that only a dropped family has. Requires: leadership, so that no family that is
    /// being created takes them.
    fn release_dirs(&self, family: &Family) {
        let lsm = self.lsm;
        let families = lsm.families.load();
        let is_needed = |dir: &Path| {
            let mut of_database = lsm.c.resources.paths.iter().map(|p| p.dir.as_path());
            let mut others = families.iter().flat_map(|f| f.cache.paths.dirs());
            dir == lsm.c.dir
                || dir == lsm.logs.dir()
                || of_database.any(|d| d == dir)
                || others.any(|d| d == dir)
        };
        for dir in family.cache.paths.dirs().filter(|d| !is_needed(d)) {
            lsm.c.dirs.release(dir);
        }
    }

    /// Drops a family; durable when this returns. Handles and iterators go on reading.
    pub(crate) fn drop(&self, family: &Arc<Family>) -> Result<()> {
        let lsm = self.lsm;
        if family.id == 0 {
            return Err(Error::invalid_argument("Can't drop default column family"));
        }
        lsm.writable()?;
        let mut leader = self.leader.lock();
        if let Some(e) = lsm.refusal() {
            return Err(e);
        }
        let mut manifest = lsm.catalog.lock();
        let gone = || Error::invalid_argument("Column family already dropped!\n");
        let (max_family, sequence, kept_log) = {
            let state = lsm.state.lock();
            if !state.families.contains_key(&family.id) {
                return Err(gone());
            }
            let kept = state.min_log_without(|id| (id == family.id).then_some(FileNumber::MAX));
            (state.max_family, state.table_sequence, kept)
        };
        let edit = VersionEdit {
            column_family: family.id,
            column_family_drop: true,
            max_column_family: Some(max_family),
            last_sequence: Some(sequence),
            min_log_number_to_keep: Some(kept_log),
            ..VersionEdit::default()
        };
        let mut edits = vec![edit];
        edits.extend(manifest.forget_logs(kept_log, sequence));
        lsm.write_edits(&mut manifest, edits, Urgency::Foreground)?;
        manifest.retain_logs(kept_log);
        family.set_dropped();
        self.transactions.forget_family(family.id);
        leader.generation += 1;
        leader.slots.retain(|s| s.family.id != family.id);
        leader.log.set_room(0);
        // Positions shifted: the next group looks at all slots.
        leader.touched = (1..leader.slots.len()).collect();
        let mut state = lsm.state.lock();
        let removed = state.families.remove(&family.id);
        state.logs.keep_from(kept_log);
        state.jobs.forget_family(family.id);
        let set = lsm.families.load().without(family.id);
        lsm.families.replace(Arc::new(set));
        self.leader.publish_generation(leader.generation);
        if let Some(f) = &removed {
            for (_, file) in f.version.file_iter() {
                file.mark_obsolete();
            }
            for file in f.version.blob_files.values() {
                file.mark_obsolete();
            }
        }
        lsm.set_gate(&state, worst_stall(&state));
        drop(state);
        drop(manifest);
        self.release_dirs(family);
        drop(leader);
        drop(removed);
        lsm.reporter
            .log()
            .info(format_args!("Dropped column family with id {}", family.id));
        lsm.state.notify_all();
        drop(LogRetirement::new(lsm, self.leader).run());
        lsm.c.purge.run();
        Ok(())
    }
}
