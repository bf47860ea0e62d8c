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

use super::{Cf, Db};
use std::collections::BTreeMap;

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
        self.engine().aggregated_int_property(without_digits(name))
    }

    /// A property of the default family as names and values.
    pub fn map_property(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.default_cf().map_property(name)
    }
}

impl Cf {
    /// An integer property by RocksDB's name (`rocksdb.…`).
    pub fn int_property(&self, name: &str) -> Option<u64> {
        self.db
            .engine()
            .int_property(&self.family, without_digits(name))
    }

    /// A property by RocksDB's name, as text.
    pub fn property(&self, name: &str) -> Option<String> {
        self.db
            .engine()
            .property(&self.family, without_digits(name))
    }

    /// A property as names and values; `None` if it has no such form.
    pub fn map_property(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.db
            .engine()
            .map_property(&self.family, without_digits(name))
    }
}

/// The name without the digits it ends with, unless they say which level or temperature is meant: RocksDB
/// takes digits behind any name for an argument, and most properties have none.
fn without_digits(name: &str) -> &str {
    match name.strip_prefix("rocksdb.").and_then(texts::split_number) {
        Some(_) => name,
        None => name.trim_end_matches(|c: char| c.is_ascii_digit()),
    }
}
