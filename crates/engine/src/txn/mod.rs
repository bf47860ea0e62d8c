//! Isolation on top of snapshots and batches.

mod cursor;
mod db;
mod indexed_batch;
mod options;
mod overlay;
mod tracked;
mod transaction;

pub use cursor::TxnCursor;
pub use indexed_batch::{Below, Found, IndexedBatch};
pub use options::TxnOptions;
pub use overlay::{Overlay, OverlayParts};
pub use transaction::{Transaction, TxnState};

#[cfg(test)]
mod tests;
