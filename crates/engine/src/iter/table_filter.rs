//! Describes what decides which tables an iterator reads.

use spanlith_table::{TableProperties, TableReader};
use std::fmt;
use std::sync::Arc;

type Decide = dyn Fn(&TableProperties) -> bool + Send + Sync;

/// Says of a table, by its properties, whether an iterator is to read its point entries.
#[derive(Clone)]
pub struct TableFilter(Arc<Decide>);

impl TableFilter {
    /// A filter that asks `decide`; called by the threads that iterate.
    pub fn new(decide: impl Fn(&TableProperties) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Returns whether the table is to be read.
    pub(crate) fn takes(&self, reader: &TableReader) -> bool {
        (self.0)(reader.properties())
    }
}

impl fmt::Debug for TableFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableFilter")
    }
}
