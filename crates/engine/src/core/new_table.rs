//! A table that a job has written, as its writer hands it over: a version need not hold it for its properties
//! to be known, and may have lost it again when listeners hear of it.

use crate::version::NewFile;
use spanlith_table::TableProperties;
use std::sync::Arc;

/// A table that was written.
#[derive(Clone)]
pub(crate) struct NewTable {
    pub file: NewFile,
    pub properties: Arc<TableProperties>,
}
