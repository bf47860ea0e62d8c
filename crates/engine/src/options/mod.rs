//! Options: plain data, one row per option, in RocksDB's names, defaults and OPTIONS syntax.
//!
//! - [`table`]: the `options!` macro, rows, lookup by name;
//! - [`values`], [`enums`], [`nested`]: how values are printed and parsed;
//! - [`DbOptions`], [`CfOptions`], [`BlockBasedTableOptions`]: the rows, with RocksDB 11.8.1's
//!   defaults;
//! - [`ini`], [`text`]: the OPTIONS file and the one-line form `a=b;c={d=e;}`;
//! - [`objects`]: the few objects that are named by text (merge operator, filter policy …);
//! - `changes`: options of an open database, changed by name;
//! - [`OptionsFile`]: the newest OPTIONS file of a directory;
//! - [`own`]: options that RocksDB does not have, by name, and [`Sidecar`], the file they are kept in;
//! - [`sanitize`]: the corrections RocksDB makes at open;
//! - [`unsupported`]: what this build refuses.
//!
//! Nothing here is consulted by name at run time. Threads: plain data.

#[macro_use]
pub mod table;
pub mod block_based;
pub mod cf;
mod changes;
pub mod db;
pub(crate) mod device;
mod display;
pub mod enums;
mod file;
mod flush;
pub mod ini;
mod kvsep_ranges;
pub mod nested;
pub mod objects;
mod order;
pub mod own;
mod own_rows;
pub mod sanitize;
mod sd_placement;
pub mod sidecar;
mod stats_family;
pub mod table_factory;
#[cfg(test)]
mod tests;
pub mod text;
pub mod unsupported;
pub mod values;

pub use block_based::BlockBasedTableOptions;
pub use cf::CfOptions;
pub use changes::{off_peak, seconds_to_next_off_peak};
pub use db::{DbOptions, FixedDbOptions};
pub use device::DeviceOption;
pub use enums::*;
pub use file::{FamilySection, OptionsFile};
pub use flush::FlushOptions;
pub(crate) use ini::{FamilyText, options_file_head};
pub use ini::{ParsedOptions, parse_options_file, write_options_file};
pub use kvsep_ranges::KvsepRanges;
pub use nested::{
    CompressionOptions, FifoCompactionOptions, FileTemperatureAge, FileTemperatureAges,
    MetadataCacheOptions, UniversalCompactionOptions,
};
pub use objects::{FilterPolicyChoice, MergeOperatorChoice, collectors_of, partition_prefix};
pub(crate) use objects::{file_checksum_factory, id as object_id, is_null as is_null_object};
pub use own::{OptionScope, OwnOption, apply_own, get_own, own_options, own_text};
pub use own_rows::{FixedOwnDbOptions, OwnCfOptions, OwnDbOptions};
pub use sanitize::{sanitize_cf, sanitize_db, sanitize_stops, sanitize_table, sanitize_wal_dir};
pub use sd_placement::SdPlacement;
pub use sidecar::Sidecar;
pub(crate) use stats_family::STATS_FAMILY;
pub use table::{AtOpen, ChangesWhileOpen, OptionRow, OptionTable};
pub use text::{apply_options_string, set_cf_option, set_db_option};
pub use unsupported::{check_supported, keep_known_objects};
