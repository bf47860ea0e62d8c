//! Keeps [`SeqnoTimes`] for families that ask for it (`preserve_internal_time_seconds`,
//! `preclude_last_level_data_seconds`).
//!
//! As in RocksDB the pairs are recorded a hundred times in the shortest span that a family asks for, and
//! kept for the longest. They live in memory and in tables; an open begins anew. A database that is new
//! reserves [`RESERVED`](super::seqno_times::RESERVED) numbers for the time before.

use super::seqno_times::{STEPS, SeqnoTimes};
use super::{Engine, FamilySettings};
use crate::picker::CompactionPlan;
use crate::version::TableCache;
use spanlith_base::{MAX_SEQUENCE, Result, SequenceNumber};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The timer that records, and its period in seconds.
pub(crate) type TimesTimer = Option<(u64, Box<dyn Send + Sync>)>;

/// Describes what a compaction does with times.
#[derive(Clone, Default)]
pub(crate) struct JobTimes {
    /// Pairs of its inputs; `None` if the family keeps none.
    pub times: Option<Arc<SeqnoTimes>>,
    /// Entries from this number on keep it at the bottom.
    pub keep_from: SequenceNumber,
    /// Entries behind this number go to the proximal level, if the compaction has one.
    pub proximal_after: SequenceNumber,
}

impl Engine {
    /// Begins to record, or ends, as the families' options say. To be called when a family comes or its
    /// options change; `is_new` when the database was created just now.
    pub(crate) fn keep_times(self: &Arc<Self>, is_new: bool) {
        if self.c.read_only {
            return;
        }
        let families = self.families.load_full();
        let spans = || families.iter().map(|f| span_of(&f.settings()));
        let (shortest, longest) = (spans().filter(|&s| s > 0).min(), spans().max());
        let mut timer = self
            .times_timer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (Some(shortest), Some(longest)) = (shortest, longest) else {
            *self.times.lock() = SeqnoTimes::default();
            // Waits for the thread, which takes no lock that is held here.
            *timer = None;
            return;
        };
        let seqno = self.visible();
        let now = self.c.env.clock.now_seconds();
        {
            let mut times = self.times.lock();
            if times.is_empty() && is_new && seqno > 1 {
                *times = SeqnoTimes::spread(seqno, now.saturating_sub(longest), now);
            } else {
                times.record(seqno, now, longest);
            }
        }
        let period = shortest.div_ceil(STEPS);
        if timer.as_ref().is_some_and(|t| t.0 == period) || self.stopping() {
            return;
        }
        let me = Arc::downgrade(self);
        let tick = Box::new(move || {
            let me = me.upgrade();
            me.inspect(|me| me.record_time()).is_some()
        });
        *timer = None;
        let executor = &self.c.env.executor;
        let started = executor.periodic("times", Duration::from_secs(period), tick);
        *timer = Some((period, started));
    }

    fn record_time(&self) {
        let families = self.families.load_full();
        let longest = families.iter().map(|f| span_of(&f.settings())).max();
        // The number first: what is written meanwhile is not older than said.
        let seqno = self.visible();
        let now = self.c.env.clock.now_seconds();
        if let Some(span) = longest.filter(|&s| s > 0) {
            self.times.lock().record(seqno, now, span);
        }
    }

    /// Returns what is known now, for a table of a family; `None` if it keeps no times.
    pub(crate) fn times_for(&self, settings: &FamilySettings) -> Option<Arc<SeqnoTimes>> {
        (span_of(settings) > 0).then(|| Arc::new(self.times.lock().clone()))
    }

    /// The number from which on entries at the bottom keep theirs, as far as the database knows; no entry
    /// has so large a one if the family keeps no times.
    pub(crate) fn keep_times_from(&self, settings: &FamilySettings) -> SequenceNumber {
        match span_of(settings) {
            0 => MAX_SEQUENCE + 1,
            span => {
                let oldest = self.c.env.clock.now_seconds().saturating_sub(span);
                self.times.lock().seqno_before(oldest) + 1
            }
        }
    }

    /// The number behind which entries are too young for the last level, as far as the database knows; `None`
    /// if the family keeps nothing out of it. As in RocksDB the first entry that may be young is left out.
    pub(crate) fn young_after(&self, settings: &FamilySettings) -> Option<SequenceNumber> {
        let span = settings.options.preclude_last_level_data_seconds;
        let oldest = self.c.env.clock.now_seconds().saturating_sub(span);
        (span > 0).then(|| self.times.lock().seqno_before(oldest) + 1)
    }

    /// Gathers the times of a compaction's inputs. A property that cannot be read tells nothing.
    ///
    /// # Errors
    /// Of opening an input.
    pub(crate) fn times_of_inputs(
        &self,
        settings: &FamilySettings,
        cache: &TableCache,
        plan: &CompactionPlan,
    ) -> Result<JobTimes> {
        let known = self.keep_times_from(settings);
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
                self.c.log.warn(format_args!("table {number}: {e}"));
            }
        }
        let now = self.c.env.clock.now_seconds();
        times.settle(now, span);
        // The database may know better than its tables. By its own knowledge the picker chooses tables
        // whose numbers are worth nothing any more: they then have to go.
        let after = |span: u64| times.seqno_before(now.saturating_sub(span)) + 1;
        let young = self.young_after(settings).map(|known| {
            let span = settings.options.preclude_last_level_data_seconds;
            known.max(after(span))
        });
        // What a snapshot sees is more likely to be read than other data, and what lies in the last level
        // stays there.
        let oldest_snapshot = self.c.snapshots.oldest().unwrap_or(MAX_SEQUENCE);
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
