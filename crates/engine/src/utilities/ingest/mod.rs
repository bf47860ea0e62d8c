//! Taking in tables that were written outside of the database.
//!
//! ```text
//!   external   opens a file, reads it, finds it fit
//!   take_in    links or copies it into the database's directory, durable when it is done
//!   place      decides which level it goes to, and whether it needs a sequence number: pure
//!   touches    what of the database a range of keys touches
//!   import     makes a new family of the tables of another
//!   job        the whole of it: prepare, flush what overlaps, place, install
//! ```
//!
//! **What holds.** All files of a call, in all its families, become visible in one step, or none does. What was
//! written before is older than they are, and is durable before they are (D7); what is written later is newer.
//! Snapshots taken before do not see them, unless the options say so. A call that fails leaves the originals where
//! they were, and nothing of its own.
//!
//! **How.** The files are prepared while everybody goes on. Then the call leads: nobody writes. If memtables hold
//! keys in the range of a file they become tables first, for which it lets go of the lead and comes back. Files get
//! the deepest level above which nothing overlaps them. Where something
//! overlaps they get the next sequence numbers, which the MANIFEST knows and the file does not
//! (`rocksdb.external_sst_file.global_seqno` stays 0), and else none: 0. Until the edit is installed their ranges
//! count as outputs of running compactions, so that none takes their place.

mod external;
mod import;
mod job;
mod options;
mod place;
mod take_in;
mod touches;

pub use import::ImportOptions;
pub use job::Ingestion;
pub use options::IngestOptions;
