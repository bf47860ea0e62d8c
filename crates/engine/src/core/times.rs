//! Keeps [`SeqnoTimes`] for families that ask for it (`preserve_internal_time_seconds`,
//! `preclude_last_level_data_seconds`).
//!
//! As in RocksDB the pairs are recorded a hundred times in the shortest span that a family asks for, and
//! kept for the longest. They live in memory and in tables; an open begins anew. A database that is new
//! reserves [`RESERVED`](super::seqno_times::RESERVED) numbers for the time before.

use super::seqno_times::{STEPS, SeqnoTimes};
use super::state::rank;
use super::{FamilySet, FamilySettings, SnapshotList};
use crate::info_log::InfoLog;
use crate::picker::CompactionPlan;
use crate::version::TableCache;
use spanlith_base::sync::Mutex;
use spanlith_base::{MAX_SEQUENCE, Result, SequenceNumber};
use spanlith_env::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Describes what a compaction does with times.
#[derive(Clone, Default)]
pub(crate) struct JobTimes {
    /// Pairs of its inputs; `None` if the family keeps none.
    pub times: Option<Arc<SeqnoTimes>>,
    /// Entries from this number on keep it at the bottom.
    pub keep_from: SequenceNumber,
    /// Entries after this number go to the proximal level, if the compaction has one.
    pub proximal_after: SequenceNumber,
}

/// The times that a database keeps. Its lock is a leaf.
pub(crate) struct KeptTimes {
    clock: Arc<dyn Clock>,
    snapshots: Arc<SnapshotList>,
    times: Mutex<SeqnoTimes>,
}

impl KeptTimes {
    /// Nothing is known yet; times are those of `clock`.
    pub(crate) fn new(clock: Arc<dyn Clock>, snapshots: Arc<SnapshotList>) -> Self {
        Self {
            clock,
            snapshots,
            times: Mutex::new(rank::LEAF, SeqnoTimes::default()),
        }
    }

    /// Records that `seqno` was assigned by now, as the options of the families say, or forgets everything if none
    /// wants to know. A database that was made just now knows by this when its first numbers were assigned. Returns how
    /// often it is to be recorded from now on. `seqno` is read before the call: what is written meanwhile is not older
    /// than said.
    pub(crate) fn begin(
        &self,
        families: &FamilySet,
        seqno: SequenceNumber,
        is_new: bool,
    ) -> Option<Duration> {
        let spans = || families.iter().map(|f| span_of(&f.settings()));
        let (shortest, longest) = (spans().filter(|&s| s > 0).min(), spans().max());
        let mut times = self.times.lock();
        let (Some(shortest), Some(longest)) = (shortest, longest) else {
            *times = SeqnoTimes::default();
            return None;
        };
        let now = self.clock.now_seconds();
        if times.is_empty() && is_new && seqno > 1 {
            *times = SeqnoTimes::spread(seqno, now.saturating_sub(longest), now);
        } else {
            times.record(seqno, now, longest);
        }
        Some(Duration::from_secs(shortest.div_ceil(STEPS)))
    }

    /// As [`Self::begin`], later.
    pub(crate) fn record(&self, families: &FamilySet, seqno: SequenceNumber) {
        let longest = families.iter().map(|f| span_of(&f.settings())).max();
        let now = self.clock.now_seconds();
        if let Some(span) = longest.filter(|&s| s > 0) {
            self.times.lock().record(seqno, now, span);
        }
    }

    /// Returns what is known now, for a table of a family; `None` if it keeps no times.
    pub(crate) fn of_table(&self, settings: &FamilySettings) -> Option<Arc<SeqnoTimes>> {
        (span_of(settings) > 0).then(|| Arc::new(self.times.lock().clone()))
    }

    /// The number from which on entries at the bottom keep theirs, as far as the database knows; no entry
    /// has so large a one if the family keeps no times.
    pub(crate) fn keep_from(&self, settings: &FamilySettings) -> SequenceNumber {
        match span_of(settings) {
            0 => MAX_SEQUENCE + 1,
            span => self.before(span) + 1,
        }
    }

    /// The number after which entries stay out of the last level: that of [`Self::young_after`], or of the oldest
    /// snapshot if that is less, since data that a snapshot sees is more likely to be read than other data.
    pub(crate) fn above_after(&self, settings: &FamilySettings) -> Option<SequenceNumber> {
        let oldest = || self.snapshots.oldest().unwrap_or(MAX_SEQUENCE);
        self.young_after(settings).map(|young| young.min(oldest()))
    }

    /// The oldest snapshot if it keeps entries out of the last level that are old enough for it; else the largest number.
    pub(super) fn held_by_snapshot(&self, settings: &FamilySettings) -> SequenceNumber {
        let oldest = self.snapshots.oldest();
        match (self.young_after(settings), oldest) {
            (Some(young), Some(oldest)) if oldest < young => oldest,
            _ => MAX_SEQUENCE,
        }
    }

    /// The number after which entries are too young for the last level, as far as the database knows; `None`
    /// if the family keeps nothing out of it. As in RocksDB the first entry that may be young is left out.
    fn young_after(&self, settings: &FamilySettings) -> Option<SequenceNumber> {
        let span = settings.options.preclude_last_level_data_seconds;
        (span > 0).then(|| self.before(span) + 1)
    }

    /// The largest number that is known to be older than `span` seconds.
    fn before(&self, span: u64) -> SequenceNumber {
        let oldest = self.clock.now_seconds().saturating_sub(span);
        self.times.lock().seqno_before(oldest)
    }

    /// Gathers the times of a compaction's inputs; `oldest_snapshot` is the largest number without a snapshot. A
    /// property that cannot be read tells nothing.
    ///
    /// # Errors
    /// Of opening an input.
    pub(crate) fn of_inputs(
        &self,
        settings: &FamilySettings,
        cache: &TableCache,
        plan: &CompactionPlan,
        oldest_snapshot: SequenceNumber,
        log: &InfoLog,
    ) -> Result<JobTimes> {
        let known = self.keep_from(settings);
        let span = span_of(settings);
        if span == 0 {
            return Ok(JobTimes {
                times: None,
                keep_from: known,
                proximal_after: MAX_SEQUENCE,
            });
        }
        let mut times = SeqnoTimes::default();
        for file in plan.input_files() {
            let reader = cache.reader(file)?;
            let encoded = &reader.properties().seqno_to_time_mapping;
            if let Err(e) = times.add_encoded(encoded) {
                let number = file.number;
                log.warn(format_args!("table {number}: {e}"));
            }
        }
        let now = self.clock.now_seconds();
        times.settle(now, span);
        // The database may know better than its tables. By its own knowledge the picker chooses tables
        // whose numbers are worth nothing any more: they then have to go.
        let after = |span: u64| times.seqno_before(now.saturating_sub(span)) + 1;
        let young = self.young_after(settings).map(|known| {
            let span = settings.options.preclude_last_level_data_seconds;
            known.max(after(span))
        });
        // Data that a snapshot sees is more likely to be read than other data, and data in the last level
        // stays there.
        let young = young.unwrap_or(MAX_SEQUENCE).min(oldest_snapshot);
        let proximal_after = match &plan.proximal {
            Some(proximal) => young.max(proximal.last_level_through),
            None => MAX_SEQUENCE,
        };
        Ok(JobTimes {
            keep_from: known.max(after(span)),
            proximal_after,
            times: Some(Arc::new(times)),
        })
    }
}

/// Seconds for which a family keeps times; 0 for none.
fn span_of(settings: &FamilySettings) -> u64 {
    settings.options.kept_time_seconds()
}

impl FamilySettings {
    /// Returns whether the family asks for times.
    pub(crate) fn keeps_times(&self) -> bool {
        span_of(self) > 0
    }
}
