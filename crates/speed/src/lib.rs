//! A speed disk: a small fast device, or a file, that holds the logs of a database in pages, and perhaps tables.
//!
//! | module | |
//! |---|---|
//! | `layout`, `superblock`, `directory`, `page` | what stands where |
//! | `format` | finding a disk on a device, and making one |
//! | `scan`, `listing`, `kept` | recovery: which pages count, and what they hold |
//! | `disk`, `log`, `writer` | a disk that is open: its logs, the order of their pages, what is durable |
//! | `fs`, `spill` | the file system whose logs, and perhaps tables, are on it |
//! | `pointer`, `placement`, `meter` | which tables go to the disk: the rule, and what it is measured by |
//! | `tables` | tables on the disk: their figures |
//! | `top` | tables on a disk without a file system |
//! | `gate`, `yielding` | tables on the storage of the disk give way to its logs |
//! | `emulated` | devices in memory: as fast as real ones, and ones that lose power |
//!
//! The promises: bytes of a log are durable when its sync returned (E1, WAL1); after a power loss the pages of
//! all logs are recovered up to the first one that is missing, in the order in which they were begun, and
//! nothing after it; durable pages that are damaged are told and not taken for the end. The bytes of a log
//! are those that its writer appended: nothing here knows what a record is.
#![forbid(unsafe_code)]

mod bytes;
mod calibrate;
pub mod crash;
pub mod crash_tables;
mod directory;
mod disk;
pub mod emulated;
mod flight;
mod format;
mod fs;
mod gate;
mod kept;
mod layout;
mod listing;
mod log;
mod meter;
mod page;
mod placement;
mod plant;
mod pointer;
mod scan;
mod spill;
mod superblock;
mod tables;
mod target;
mod top;
mod usage;
mod verify;
mod writer;
mod yielding;

pub use calibrate::{Calibration, NO_FLUSH_NANOS, calibrate, record_calibration};
pub use directory::{Directory, LogEnd, LogEntry};
pub use disk::SpeedDisk;
pub use format::{FormatOptions, format_disk, read_superblock};
pub use fs::{SpeedFs, tables_dir};
pub use gate::{LogGate, PIECE_BYTES};
pub use layout::{GROUP_BYTES_DEFAULT, GROUPS_MIN, Layout, TablesArea};
pub use log::Log;
pub use page::{PAGE_HEADER, PageHeader, decode_page, header_of, seal_page};
pub use placement::{Asked, Facts, LogTime, Move, Placement};
pub use pointer::{Pointer, Policy};
pub use scan::{FoundLog, Scan};
pub use superblock::{OWNER_MAX, SUPERBLOCK_BYTES, Superblock};
pub use tables::{NewTable, SpeedTables, TableBytes, TablesOptions, TablesUsage};
pub use target::{DevicePart, Target};
pub use top::{Extent, StoredFile, TableRecord, TopUsage};
pub use usage::{LogReading, SpeedOptions, SpeedUsage};
pub use writer::LogFile;
