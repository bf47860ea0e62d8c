//! A speed disk: a small fast device, or a file, that holds the logs of a database in pages.
//!
//! | module | |
//! |---|---|
//! | `layout`, `superblock`, `directory`, `page` | what stands where |
//! | `format` | finding a disk on a device, and making one |
//! | `scan` | recovery: which pages count |
//! | `disk`, `log`, `writer` | a disk that is open: its logs, the order of their pages, what is durable |
//! | `fs` | the file system whose logs are on it |
//! | `placement`, `tables`, `gate` | tables in a directory of the disk: which go there, how they give way to the log |
//! | `beside` | tables elsewhere on the same storage, which give way, too |
//! | `emulated` | devices in memory: as fast as real ones, and ones that lose power |
//!
//! The promises: bytes of a log are durable when its sync returned (E1, WAL1); after a power loss the pages of
//! all logs are recovered up to the first one that is missing, in the order in which they were begun, and
//! nothing behind it; durable pages that are damaged are told and not taken for the end. The bytes of a log
//! are those that its writer appended: nothing here knows what a record is.
#![forbid(unsafe_code)]

mod beside;
mod bytes;
mod calibrate;
pub mod crash;
mod directory;
mod disk;
pub mod emulated;
mod flight;
mod format;
mod fs;
mod gate;
mod layout;
mod log;
mod page;
mod placement;
mod plant;
mod scan;
mod superblock;
mod tables;
mod target;
mod writer;

pub use calibrate::{Calibration, NO_FLUSH_NANOS, calibrate, record_calibration};
pub use directory::{Directory, LogEnd, LogEntry};
pub use disk::{SpeedDisk, SpeedOptions, SpeedUsage};
pub use format::{FormatOptions, format_disk, read_superblock};
pub use fs::SpeedFs;
pub use gate::{LogGate, PIECE_BYTES};
pub use layout::{GROUP_BYTES_DEFAULT, GROUPS_MIN, Layout};
pub use log::Log;
pub use page::{PAGE_HEADER, PageHeader, decode_page, header_of, seal_page};
pub use placement::{Facts, Move, Placement, Pointer, Policy};
pub use scan::{FoundLog, Scan};
pub use superblock::{OWNER_MAX, SUPERBLOCK_BYTES, Superblock};
pub use tables::{NewTable, SpeedTables, TableBytes, TablesOptions, TablesUsage};
pub use target::{DevicePart, Target};
pub use writer::LogFile;
