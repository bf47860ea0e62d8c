//! From a directory to a running database.

mod best_efforts;
mod create;
mod current;
mod decide;
mod evidence;
mod finish;
mod lost;
mod manifest;
mod numbering;
mod obsolete;
mod open;
mod open_tables;
mod prepared;
mod replay;
mod reuse;
mod timestamps;

pub(crate) use lost::destroy_lost;
pub use open::OpenRequest;
pub(crate) use open::{list_families, open};
