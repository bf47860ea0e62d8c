//! Creates and drops column families, and raises the history that they keep.

use super::catalog::Urgency;
use super::directories::create_dir;
use super::family::{Family, FamilyParts, FamilySettings};
use super::state::{FamilyState, MemSlot};
use super::superversion::asks_in_turn;
use super::{Engine, SuperVersion, gate, worst_stall};
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

impl Engine {
    /// Puts a family together, with an empty memtable.
    pub(crate) fn new_family(
        c: &super::Components,
        reporter: &super::Reporter,
        id: u32,
        request: &FamilyRequest,
        version: Version,
        sink: Arc<dyn PurgeSink>,
        log_number: u64,
    ) -> FamilyState {
        let options = &request.options;
        let paths = family_paths(&c.dir, request);
        let settings = FamilySettings::new(options.clone(), request.table_options.clone(), &paths);
        let mut settings = settings.with_prefix_extractor(request.prefix_extractor.clone());
        settings.levels.has_compaction_filter = request.filters.is_set();
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
                ..super::reader_options(request, &c.io)
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
        let values = (request.blob_cache.clone())
            .map(|cache| BlobCache::new(cache, reporter.shared_statistics()));
        let reads = BlobReads::new(c.env.clock.clone());
        let blobs = blobs.with_statistics(reporter.shared_statistics());
        let blobs = Arc::new(blobs.with_cache(values).counting(reads));
        c.purge.close_in(&blobs);
        let mem = settings.new_memtable(&request.comparator);
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
            name: request.name.clone(),
            comparator: request.comparator.clone(),
            merge_operator: request.merge_operator.clone(),
            filters: request.filters.clone(),
            collectors: request.collectors.clone(),
            cache,
            blobs,
            superversion,
            times: request.times.clone(),
            sink,
        });
        FamilyState::new(family, settings, mem, version, log_number)
    }

    /// Raises the family's `full_history_ts_low`.
    pub(crate) fn increase_history_low(
        self: &Arc<Self>,
        family: &Arc<Family>,
        low: &[u8],
    ) -> Result<()> {
        self.writable()?;
        let c = &family.comparator;
        if c.timestamp_size() == 0 {
            let text = "Timestamp is not enabled in this column family";
            return Err(Error::invalid_argument(text));
        }
        if c.timestamp_size() != low.len() {
            return Err(Error::invalid_argument("ts_low size mismatch"));
        }
        let known = family.superversion.load().version.history_low.clone();
        if !known.is_empty() && c.compare_timestamp(low, &known).is_lt() {
            return Err(Error::invalid_argument(format!(
                "Current full_history_ts_low: {} is higher than provided ts: {}\n",
                c.timestamp_text(&known),
                c.timestamp_text(low)
            )));
        }
        let edit = VersionEdit {
            full_history_ts_low: Some(low.to_vec()),
            ..VersionEdit::default()
        };
        self.log_and_apply(family, edit, |state| {
            if let Some(f) = state.family_mut(family.id) {
                f.keeps_history_low = true;
            }
        })?;
        Ok(())
    }

    /// Creates a family; durable when this returns.
    pub(crate) fn create_family(self: &Arc<Self>, request: &FamilyRequest) -> Result<Arc<Family>> {
        self.writable()?;
        if request.name.is_empty() {
            return Err(Error::invalid_argument(
                "Column family name cannot be the empty string",
            ));
        }
        let mut leader = self.leader.lock();
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        if self.families.load().by_name(&request.name).is_some() {
            return Err(Error::invalid_argument("Column family already exists"));
        }
        for dir in family_paths(&self.c.dir, request).dirs() {
            if dir != self.c.dir {
                create_dir(&*self.c.env.fs, dir)?;
                self.c.dirs.hold(dir)?;
            }
        }
        let mut manifest = self.catalog.lock();
        let (id, log_number, sequence) = {
            let state = self.state.lock();
            let id = state.max_family.checked_add(1);
            let id = id.ok_or_else(|| Error::aborted("family ids are used up"))?;
            let log = state.logs.newest().unwrap_or(0);
            (id, log, state.table_sequence)
        };
        let levels = request.options.num_levels.max(1) as usize;
        let version = Version::empty(request.comparator.clone(), levels);
        let sink = Family::new_sink(&self.c.purge, family_paths(&self.c.dir, request));
        let mut made = Self::new_family(
            &self.c,
            &self.reporter,
            id,
            request,
            version,
            sink,
            log_number,
        );
        made.mem_since = self.visible();
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
        self.write_edits(&mut manifest, vec![edit], Urgency::Foreground)?;
        if family.comparator.timestamp_size() != 0 {
            self.logs.note_timestamps();
        }
        leader.log_room = 0;
        let budget = self.c.resources.write_buffers.as_ref();
        leader.slots.push(MemSlot::new(&made, budget));
        let mut state = self.state.lock();
        if super::engine::is_users(&family.comparator) {
            self.gate.set(gate::CALLS_BACK);
        }
        state.max_family = id;
        state.families.insert(id, made);
        let set = self.families.load().with(family.clone());
        let before = set.iter().count() - 1;
        self.families.replace(Arc::new(set));
        self.install_superversion(&mut state, id);
        drop(state);
        drop(manifest);
        drop(leader);
        self.reporter.describe_family(&family, before);
        let name = &family.name;
        self.reporter
            .log()
            .info(format_args!("Created column family [{name}] (ID {id})"));
        self.keep_times(false);
        self.start_age_timer();
        Ok(family)
    }

    /// Closes directories that only a dropped family has. Requires: leadership, so that no family that is
    /// being created takes them.
    fn release_dirs(&self, family: &Family) {
        let families = self.families.load();
        let is_needed = |dir: &Path| {
            let mut of_database = self.c.resources.paths.iter().map(|p| p.dir.as_path());
            let mut others = families.iter().flat_map(|f| f.cache.paths.dirs());
            dir == self.c.dir
                || dir == self.logs.dir()
                || of_database.any(|d| d == dir)
                || others.any(|d| d == dir)
        };
        for dir in family.cache.paths.dirs().filter(|d| !is_needed(d)) {
            self.c.dirs.release(dir);
        }
    }

    /// Drops a family; durable when this returns. Handles and iterators go on reading.
    pub(crate) fn drop_family(self: &Arc<Self>, family: &Arc<Family>) -> Result<()> {
        if family.id == 0 {
            return Err(Error::invalid_argument("Can't drop default column family"));
        }
        self.writable()?;
        let mut leader = self.leader.lock();
        if let Some(e) = self.refusal() {
            return Err(e);
        }
        let mut manifest = self.catalog.lock();
        let gone = || Error::invalid_argument("Column family already dropped!\n");
        let (max_family, sequence, kept_log) = {
            let state = self.state.lock();
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
        self.write_edits(&mut manifest, edits, Urgency::Foreground)?;
        manifest.retain_logs(kept_log);
        family.set_dropped();
        self.transactions.forget_family(family.id);
        leader.generation += 1;
        leader.slots.retain(|s| s.family.id != family.id);
        leader.log_room = 0;
        // Positions shifted: the next group looks at all slots.
        leader.touched = (1..leader.slots.len()).collect();
        let mut state = self.state.lock();
        let removed = state.families.remove(&family.id);
        state.logs.keep_from(kept_log);
        state.jobs.forget_family(family.id);
        let set = self.families.load().without(family.id);
        self.families.replace(Arc::new(set));
        self.leader.publish_generation(&leader);
        if let Some(f) = &removed {
            for (_, file) in f.version.file_iter() {
                file.mark_obsolete();
            }
            for file in f.version.blob_files.values() {
                file.mark_obsolete();
            }
        }
        self.set_gate(&state, worst_stall(&state));
        drop(state);
        drop(manifest);
        self.release_dirs(family);
        drop(leader);
        drop(removed);
        self.reporter
            .log()
            .info(format_args!("Dropped column family with id {}", family.id));
        self.state.notify_all();
        drop(self.retire_logs());
        self.c.purge.run();
        Ok(())
    }
}
