//! Memory that is taken and given back in large amounts: regions of two mebibytes, and the bytes of
//! cached blocks in them.
//!
//! ```text
//!   region   2 MiB on their natural boundary; a few that were given back are kept for the next taker
//!   slab     slots of equal size in regions: what the bytes of cached blocks lie in
//!   ahead    a thread that tries huge pages while they may be slow
//!   huge     whether the next region is asked for as a huge page
//!   scratch  vectors of jobs
//!   held     bytes in a vector or in a slot
//!   fork     locks that a child of the process finds free
//!   prefetch lines asked for before they are read or written
//! ```
//!
//! Why not the allocator: a cache that fills takes blocks of some kilobytes by the thousand. Each first
//! touch of a page is a fault, and a heap of a thread other than the first grows by a system call per
//! block; together they cost more than reading, verifying and parsing the block. Memtables give back in
//! one go as much as a cache takes block by block, in pages that are there already.
//!
//! Under loom and shuttle, and where there is no `mmap`, everything comes from the allocator.

#[cfg(all(unix, not(any(loom, shuttle))))]
mod ahead;
#[cfg(all(unix, not(any(loom, shuttle))))]
mod fork;
mod held;
#[cfg(all(unix, not(any(loom, shuttle))))]
mod huge;
mod prefetch;
#[cfg(all(unix, not(any(loom, shuttle))))]
mod region;
mod scratch;
#[cfg(all(unix, not(any(loom, shuttle))))]
mod slab;

#[cfg(any(not(unix), loom, shuttle))]
mod absent;
#[cfg(any(not(unix), loom, shuttle))]
use absent as region;
#[cfg(any(not(unix), loom, shuttle))]
use absent as slab;

pub use held::HeldBytes;
pub use prefetch::{prefetch, prefetch_to_write};
pub use region::{REGION_BYTES, Region, tend_spare};
pub use scratch::Scratch;
