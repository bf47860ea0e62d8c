//! Looking at a database without changing it: verification in three levels.
//!
//! [`Verifier`] checks files one by one and collects what it finds; who calls it says which files. An
//! open database is walked by [`crate::Db::verify`], a directory that nobody has opened by the command
//! line. Everything is read past all caches, so that what is judged is what the disk holds.

mod blobs;
mod live;
mod log;
mod manifest;
mod order;
mod report;
mod table;
mod verifier;

pub use blobs::BlobsToVerify;
pub(crate) use live::LiveCheck;
pub use log::{LogOrigin, LogToVerify, Witnessed, log_origin};
pub use manifest::judge_manifest;
pub use report::{Finding, Grade, VerifyLevel, VerifyOptions, VerifyProgress, VerifyReport};
pub use table::{FamilyToVerify, TableToVerify};
pub use verifier::{Progress, Verifier};
