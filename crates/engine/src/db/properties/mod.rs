//! Properties of a database and its families, with RocksDB's names and forms.
//!
//! - [`integers`]: numbers, which also answer as text;
//! - [`aggregates`]: numbers over all families, each database-wide number counted once;
//! - [`texts`]: lists of levels and tables, by name;
//! - [`compactions`]: the statistics of a family's flushes and compactions;
//! - [`writes`]: the statistics of the database's writes;
//! - [`tables`]: what the properties of tables add up to;
//! - [`maps`]: the same as names and values.
//!
//! A property is looked at under the state mutex only as long as its facts are gathered.

mod aggregates;
mod compactions;
mod human;
mod integers;
mod maps;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod writes;

use super::{Cf, Db, WrittenBytes};
use crate::core::{
    Components, DbCounters, DiskWatch, Engine, Families, KeptTimes, LogSet, Outstanding, Reporter,
    StateMutex, Throttle, WriteGate,
};
use crate::options::DbOptions;

use std::collections::BTreeMap;
use std::sync::Arc;

/// The parts of an open database that properties are read from, borrowed for one question. Nothing in it changes the
/// database, but for the intervals of the counters.
pub(super) struct Properties<'a> {
    state: &'a StateMutex,
    components: &'a Components,
    /// Options in force when the question was asked.
    options: Arc<DbOptions>,
    counters: &'a DbCounters,
    families: &'a Families,
    logs: &'a LogSet,
    gate: &'a WriteGate,
    throttle: &'a Throttle,
    reporter: &'a Reporter,
    times: &'a KeptTimes,
    disk: &'a DiskWatch,
    requests: Option<&'a dyn Outstanding>,
}

impl<'a> Properties<'a> {
    /// The properties of a database.
    pub(super) fn of(engine: &'a Engine) -> Self {
        Self {
            state: &engine.state,
            components: &engine.c,
            options: engine.options().to_arc(),
            counters: &engine.counters,
            families: &engine.families,
            logs: &engine.logs,
            gate: &engine.gate,
            throttle: &engine.throttle,
            reporter: &engine.reporter,
            times: &engine.times,
            disk: &engine.disk,
            requests: engine.requests.get().map(|r| &**r),
        }
    }

    /// Monotonic nanoseconds.
    fn now(&self) -> u64 {
        self.components.env.clock.monotonic_nanos()
    }

    /// Bytes written to files since the open.
    pub(super) fn written_bytes(&self) -> WrittenBytes {
        WrittenBytes::of(self.now(), self.counters, &self.families.load_full())
    }
}

impl Db {
    /// An integer property of the default family by RocksDB's name (`rocksdb.…`).
    pub fn int_property(&self, name: &str) -> Option<u64> {
        self.default_cf().int_property(name)
    }

    /// A property of the default family by RocksDB's name, as text.
    pub fn property(&self, name: &str) -> Option<String> {
        self.default_cf().property(name)
    }

    /// An integer property summed up over all families; `None` if it is unknown.
    pub fn aggregated_int_property(&self, name: &str) -> Option<u64> {
        Properties::of(self.engine()).aggregated_integer(without_digits(name))
    }

    /// A property of the default family as names and values.
    pub fn map_property(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.default_cf().map_property(name)
    }
}

impl Cf {
    /// An integer property by RocksDB's name (`rocksdb.…`).
    pub fn int_property(&self, name: &str) -> Option<u64> {
        let properties = Properties::of(self.db.engine());
        properties.integer(&self.family, without_digits(name))
    }

    /// A property by RocksDB's name, as text.
    pub fn property(&self, name: &str) -> Option<String> {
        let properties = Properties::of(self.db.engine());
        properties.text(&self.family, without_digits(name))
    }

    /// A property as names and values; `None` if it has no such form.
    pub fn map_property(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let properties = Properties::of(self.db.engine());
        properties.map(&self.family, without_digits(name))
    }
}

/// The name without the digits it ends with, unless they say which level or temperature is meant: RocksDB
/// takes digits after any name for an argument, and most properties have none.
fn without_digits(name: &str) -> &str {
    match name.strip_prefix("rocksdb.").and_then(texts::split_number) {
        Some(_) => name,
        None => name.trim_end_matches(|c: char| c.is_ascii_digit()),
    }
}
