//! Updates that can be read before they are written: what transactions are made of.

mod indexed_batch;
mod overlay;
#[cfg(test)]
mod tests;

pub use indexed_batch::{Below, Found, IndexedBatch};
pub use overlay::{Overlay, OverlayParts};
