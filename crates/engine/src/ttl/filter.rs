//! RocksDB's `TtlCompactionFilter` and its factory: what is too old goes, the user's filter decides over the rest.

use super::format::{append_time, split_time};
use crate::filter::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterSource,
    FilterValue, JobFilter, TableCreation,
};
use spanlith_env::Clock;
use std::sync::Arc;
use std::time::Duration;

/// How old a value may become. Zero: as old as it likes.
#[derive(Clone)]
struct Limit {
    seconds: u64,
    clock: Arc<dyn Clock>,
}

impl Limit {
    fn is_over(&self, time: u32) -> bool {
        let end = u64::from(time).saturating_add(self.seconds);
        self.seconds > 0 && end < self.clock.now_seconds()
    }
}

/// Drops what is too old and asks the user's filter about the rest, without times.
struct TimedFilter {
    name: String,
    limit: Limit,
    user: Option<JobFilter>,
}

impl CompactionFilter for TimedFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        let ask = |value| match &self.user {
            Some(user) => user.filter(level, key, value),
            None => FilterDecision::Keep,
        };
        let stored = match value {
            FilterValue::Value(stored) | FilterValue::Operand(stored) => stored,
            // Of a program that opened the database plainly: it has no time.
            FilterValue::Entity(_) => return ask(value),
        };
        // A value without a time is foreign, too; readers say so.
        let Some((plain, time)) = split_time(stored) else {
            return FilterDecision::Keep;
        };
        let decided = match value {
            FilterValue::Value(_) if self.limit.is_over(time) => return FilterDecision::Remove,
            FilterValue::Value(_) => ask(FilterValue::Value(plain)),
            // As in RocksDB operands do not become too old.
            _ => ask(FilterValue::Operand(plain)),
        };
        match decided {
            // As old as what it stands for.
            FilterDecision::ChangeValue(mut changed) => {
                append_time(&mut changed, time.into());
                FilterDecision::ChangeValue(changed)
            }
            other => other,
        }
    }
}

/// Makes [`TimedFilter`]s.
struct TimedFilters {
    name: String,
    limit: Limit,
    user: Option<Arc<dyn CompactionFilterFactory>>,
}

impl CompactionFilterFactory for TimedFilters {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, context: &FilterContext) -> Option<Box<dyn CompactionFilter>> {
        let user = self.user.as_ref();
        let user = user.filter(|user| user.should_filter(context.creation));
        let user = user.and_then(|user| user.create(context));
        let name = user.as_ref().map_or("nullptr", |user| user.name());
        Some(Box::new(TimedFilter {
            name: filter_text(name, self.limit.seconds),
            limit: self.limit.clone(),
            user: user.map(JobFilter::Own),
        }))
    }

    fn should_filter(&self, creation: TableCreation) -> bool {
        let user = self.user.as_ref();
        creation == TableCreation::Compaction || user.is_some_and(|u| u.should_filter(creation))
    }
}

/// Returns what the options file has for a filter.
fn filter_text(user: &str, seconds: u64) -> String {
    format!("{{id=TtlCompactionFilter;ttl={seconds};user_filter={user};}}")
}

/// A family's filters, which drop what is older than `limit`.
pub(crate) fn wrap_filters(
    user: FilterSource,
    limit: Duration,
    clock: &Arc<dyn Clock>,
) -> FilterSource {
    let limit = Limit {
        seconds: limit.as_secs(),
        clock: clock.clone(),
    };
    let seconds = limit.seconds;
    let filter = user.filter.map(|user| -> Arc<dyn CompactionFilter> {
        Arc::new(TimedFilter {
            name: filter_text(user.name(), seconds),
            limit: limit.clone(),
            user: Some(JobFilter::Shared(user)),
        })
    });
    // A shared filter goes before a factory in compactions.
    let needs_factory = filter.is_none() || user.factory.is_some();
    let factory = needs_factory.then(|| -> Arc<dyn CompactionFilterFactory> {
        let name = user.factory.as_ref().map_or("nullptr", |f| f.name());
        Arc::new(TimedFilters {
            name: format!(
                "{{id=TtlCompactionFilterFactory;user_filter_factory={name};ttl={seconds};}}"
            ),
            limit,
            user: user.factory.clone(),
        })
    });
    FilterSource { filter, factory }
}
