//! From a directory to a running database.

mod assemble;
mod best_efforts;
mod checks;
mod create;
mod current;
mod decide;
mod elsewhere;
mod enter;
mod evidence;
mod finish;
mod lost;
mod manifest;
mod numbering;
mod obsolete;
mod open;
mod open_tables;
mod plain;
mod prepared;
mod repeats;
mod replay;
mod request;
mod reuse;
mod runs;
mod speed;
mod timestamps;
mod wal_filter;
mod whose;

pub(crate) use current::{read_current, read_marked_current};
pub(crate) use evidence::{LogJudge, of_manifest};
pub(crate) use lost::{LOST_DIR, destroy_lost, free_name, put_aside};
pub(crate) use open::{list_families, open};
pub use request::OpenRequest;
pub use speed::{ToFiles, migrate_to_files};
pub(crate) use speed::{is_copy, release_destroyed};
pub use wal_filter::{WalFilter, WalVerdict};
