//! Collectors of table properties: code that sees every entry of a table while it is written, adds
//! properties to it, and may ask for it to be compacted.
//!
//! - [`TablePropertiesCollectorFactory`], [`TablePropertiesCollector`]: what users implement;
//! - [`Collectors`]: the factories of a family;
//! - [`CompactOnDeletion`]: RocksDB's collector that finds many deletions close together.

mod collecting;
mod on_deletion;

pub(crate) use collecting::Collecting;
pub use collecting::{
    CollectedEntry, CollectorContext, Collectors, TablePropertiesCollector,
    TablePropertiesCollectorFactory,
};
pub use on_deletion::CompactOnDeletion;
