//! The database handle: opening, verbs, properties, closing.

mod background;
mod builder;
mod changes;
mod close;
mod compact;
mod cursor;
mod cursor_moves;
mod destroy;
mod family_options;
mod files;
mod handle;
mod level_metrics;
mod metrics;
mod numbers;
mod properties;
mod reads;
mod repair;
mod reports;
mod residency;
mod secondary;
mod set_options;
mod stats_family;
mod timed;
mod traces;
mod trim;
mod ttl;
mod verbs;
mod verify;
mod written;

pub(crate) use compact::compact_range;
pub(crate) use destroy::gone;
pub(crate) use repair::RepairPlaces;

pub use builder::OpenBuilder;
pub use changes::{Change, Changes, LogFile};
pub use cursor::{Cursor, Iter};
pub use family_options::FamilyOptions;
pub use files::{LiveFile, SizeOf};
pub use handle::{Cf, Db, WeakDb};
pub use level_metrics::LevelMetric;
pub use metrics::{MemoryOwner, Metrics, PaceMetric, StallMetric, WriteMetric};
pub use reads::ValueRange;
pub use residency::IndexResidency;
pub use secondary::Secondary;
pub use timed::TimedValue;
pub use written::WrittenBytes;
