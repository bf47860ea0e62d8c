//! The parts of an open database. [`Lsm`] holds those of the trees and of the work on them; [`Engine`] adds those of the
//! way that writes take.
//!
//! Work is done by types of the modules that own it (`flush`, `compaction`, `write`), which borrow the parts that they need.

mod adaptive;
mod background_error;
mod bounds;
mod catalog;
mod compaction_turn;
mod company;
mod covered_bytes;
mod current_log;
mod directories;
mod disk_watch;
#[cfg(test)]
mod double;
mod engine;
mod families;
mod family;
mod flush_turn;
mod free_space;
mod hiding;
mod history;
mod identity;
mod install;
mod jobs;
mod level0_shape;
mod lifecycle;
mod log_files;
mod log_list;
mod log_set;
mod lsm;
mod manifest;
mod mem_charge;
mod new_table;
mod news;
mod notes;
mod options_file;
mod outstanding;
mod owner;
mod pacer;
mod periodic;
mod progress;
mod purge;
mod raise;
mod recheck;
mod reporter;
mod request;
mod resources;
mod retired;
mod schedule;
mod seqno_times;
mod settings;
mod snapshots;
mod space_room;
mod spare;
mod speed;
mod stall;
mod state;
mod state_mutex;
mod stats;
mod stripped;
mod superversion;
mod switches;
mod timers;
mod times;
mod tracing;
mod transactions;
mod urgent;
mod wakeup;
mod warm;
mod witness;
mod write_gate;
mod write_times;

pub(crate) use history::StatsHistory;
pub use history::StatsSlice;
pub(crate) use level0_shape::{count_reads, plan_shape};
pub(crate) use log_files::FollowedLog;
pub use log_files::LogFile;
pub use snapshots::{Snapshot, SnapshotList};
pub(crate) use spanlith_pace::{StallCondition, StallInput, stall_condition};
pub(crate) use spare::watch_spare;
pub use speed::SpeedSource;
pub(crate) use speed::{Speed, TableDir, path_of_flush, path_of_output, settle_move};
pub use superversion::SuperVersion;
pub(crate) use write_times::{Part, Parts, WaitCause, WriteTimeNumbers};

pub(crate) use adaptive::{SizeTally, TreeFacts};
pub(crate) use background_error::{Place, is_lack, is_no_space};
pub(crate) use bounds::FileBounds;
pub(crate) use catalog::{Catalog, ManifestLogs};
pub(crate) use compaction_turn::CompactionTurn;
pub(crate) use company::Company;
pub(crate) use covered_bytes::CoveredBytes;
pub(crate) use current_log::CurrentLog;
pub(crate) use directories::{Directories, create_dir};
pub(crate) use disk_watch::DiskWatch;
pub(crate) use engine::Engine;
pub(crate) use families::{FamilyChanges, FamilyRequest, family_paths};
pub(crate) use family::{Families, Family, FamilySet, FamilySettings};
pub(crate) use flush_turn::FlushTurn;
pub(crate) use free_space::{RESERVE_FILE, ShortDirs, min_free_bytes};
pub(crate) use identity::{host_name, new_session_id};
pub(crate) use install::{FamilyEdit, stall_input, wait_would_help, worst_stall};
pub(crate) use jobs::{Jobs, Together};
pub(crate) use lifecycle::Lifecycle;
pub(crate) use log_list::LogList;
pub(crate) use log_set::{DroppedRecords, LogSet};
pub(crate) use lsm::{BackgroundWork, Components, Lsm, LsmParts};
pub(crate) use manifest::write_current;
pub(crate) use new_table::NewTable;
pub(crate) use notes::{
    MARK, MARK_AT, ManifestExtent, Note, NotePlace, Opening, Witness, repeated_mark,
};
pub(crate) use options_file::OptionsWriter;
pub(crate) use outstanding::Outstanding;
pub(crate) use owner::Owner;
pub(crate) use pacer::PaceControl;
pub use pacer::WriteClass;
pub(crate) use progress::CompactionProgress;
pub(crate) use purge::PurgeQueue;
pub(crate) use recheck::Recheck;
pub(crate) use reporter::Reporter;
pub(crate) use request::{Mark, Payload, Request, TrackedKey, TransactionWrite};
pub use resources::DefaultCache;
pub(crate) use resources::Resources;
pub(crate) use retired::LogRetirement;
pub(crate) use schedule::{is_merge_beside_due, panicked};
pub(crate) use seqno_times::{RESERVED, SeqnoTimes};
pub(crate) use settings::{
    blob_compression_options, bottommost_compression_options, codec_choice, compression_options,
    level_options, reader_options, table_options, table_read_options,
};
pub(crate) use stall::{Throttle, ThrottleSettings};
pub(crate) use state::{
    DbState, FamilyState, Immutable, LeaderState, Leadership, MemSlot, PreparedSection, rank,
    slot_of,
};
pub(crate) use state_mutex::StateMutex;
pub(crate) use stats::{
    DbCounters, FamilyCounters, FamilyNumbers, FamilyReport, JobNumbers, StallCounts, WriteNumbers,
};
pub(crate) use stripped::{each_timestamp, strips_timestamps};
pub(crate) use times::{JobTimes, KeptTimes};
pub(crate) use tracing::{TraceControl, Tracing, Watchers};
pub(crate) use transactions::Transactions;
pub(crate) use urgent::{is_flush_urgent, is_level0_urgent};
pub(crate) use warm::WrittenBy;
pub(crate) use witness::Voucher;
pub(crate) use write_gate::{WriteGate, gate};
