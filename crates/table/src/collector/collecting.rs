//! The interface of collectors, and those of one table at work.
//!
//! Threads: factories are called from several jobs at once, a collector from one.

use crate::options::BuilderOptions;
use crate::properties::TableProperties;
use spanlith_base::{SequenceNumber, ValueType, keys};
use std::fmt;
use std::sync::Arc;

/// An entry of a table, as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct CollectedEntry<'a> {
    /// User key; where a range tombstone begins. With its timestamp, if the table keeps timestamps.
    pub key: &'a [u8],
    /// Value or operand; where a range tombstone ends.
    pub value: &'a [u8],
    /// Says what the entry is.
    pub kind: ValueType,
    /// Its sequence number.
    pub seqno: SequenceNumber,
    /// Bytes of the finished blocks in front of it.
    pub file_size: u64,
}

/// Sees the entries of one table.
pub trait TablePropertiesCollector: Send {
    /// Takes in the next entry: those of data blocks in the order of their keys, then range
    /// tombstones.
    fn add(&mut self, entry: &CollectedEntry<'_>);

    /// Names and values of properties to add to the table, after the last entry. Names the table
    /// has already are left out.
    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    /// The same as people read it; asked after [`Self::finish`]. Only who writes the table hears of it: listeners
    /// of flushes and compactions.
    fn readable(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns whether the table is to be compacted soon; asked after [`Self::finish`].
    fn needs_compaction(&self) -> bool {
        false
    }
}

/// Describes what a collector is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorContext {
    /// Id of the family.
    pub column_family_id: u32,
    /// Level the table is written to.
    pub level: i32,
}

/// Makes a collector for each table.
pub trait TablePropertiesCollectorFactory: Send + Sync {
    /// Name recorded in tables and OPTIONS.
    fn name(&self) -> &str;

    /// Returns what OPTIONS says of it: `{id=name;…}` if it has settings.
    fn options_text(&self) -> String {
        self.name().to_string()
    }

    /// Returns what the info log says of it.
    fn log_text(&self) -> String {
        self.name().to_string()
    }

    /// A collector for one table; `None`: none for this one.
    fn create(&self, context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>>;
}

/// The factories of a family, in order.
#[derive(Clone, Default)]
pub struct Collectors(pub Vec<Arc<dyn TablePropertiesCollectorFactory>>);

impl Collectors {
    /// Their names as the property lists them.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|f| f.name()).collect();
        format!("[{}]", names.join(","))
    }

    /// The value of RocksDB's option `table_properties_collectors`; empty for none.
    pub fn options_text(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|f| f.options_text()).collect();
        match texts.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", texts.join(":")),
        }
    }
}

impl Collectors {
    /// Returns what the info log says of them.
    pub fn log_text(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|f| f.log_text()).collect();
        texts.join("; ")
    }
}

impl fmt::Debug for Collectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names())
    }
}

/// The collectors of one table.
pub(crate) struct Collecting(Vec<Box<dyn TablePropertiesCollector>>);

impl Collecting {
    /// `None` if nobody collects.
    pub(crate) fn of(options: &BuilderOptions) -> Option<Box<Self>> {
        let context = CollectorContext {
            column_family_id: options.column_family_id,
            level: options.filter_level.max(0),
        };
        let all = &options.collectors.0;
        let made: Vec<_> = all.iter().filter_map(|f| f.create(&context)).collect();
        (!made.is_empty()).then(|| Box::new(Self(made)))
    }

    /// Shows an entry to all. `file_size` is where its block will begin, or the next if that is cut.
    #[inline(never)]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8], file_size: u64) {
        let Some((key, tag)) = keys::split_internal(internal_key) else {
            return;
        };
        let Some(kind) = ValueType::from_byte(keys::tag_type(tag)) else {
            return;
        };
        let entry = CollectedEntry {
            key,
            value,
            kind,
            seqno: keys::tag_sequence(tag),
            file_size,
        };
        for collector in &mut self.0 {
            collector.add(&entry);
        }
    }

    /// Adds what was collected; whether the table is to be compacted.
    pub(crate) fn finish(mut self, properties: &mut TableProperties) -> bool {
        for collector in &mut self.0 {
            for (name, value) in collector.finish() {
                properties.user_collected.entry(name).or_insert(value);
            }
            for (name, text) in collector.readable() {
                properties.readable.entry(name).or_insert(text);
            }
        }
        self.0.iter().any(|c| c.needs_compaction())
    }
}
