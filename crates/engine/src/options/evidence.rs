//! Options that RocksDB does not have: what is recorded as evidence of durability, and what an open
//! makes of it.
//!
//! They are not written to OPTIONS files, whose readers refuse names they do not know; whoever opens a
//! database says them each time, or gets the defaults.

use super::enums::{OrphanFiles, SyncedLogDamage};

options! {
    /// Evidence of durability, and what follows from it.
    pub struct EvidenceOptions {
        /// Records in logs and MANIFEST what was durable when, in places that RocksDB skips, and judges
        /// by it at open. Without it files hold RocksDB's records only, and opens decide as RocksDB does.
        fixed evidence: bool = true;
        /// What an open does when bytes of a log are damaged or missing that had been synced: refuse,
        /// or drop what follows, as RocksDB does.
        fixed synced_log_damage: SyncedLogDamage = SyncedLogDamage::Refuse;
        /// What happens at open to tables and blob files that the MANIFEST does not name and nothing
        /// explains: they are kept in `lost/`, or deleted as by RocksDB.
        fixed orphan_files: OrphanFiles = OrphanFiles::Keep;
        /// Bytes that `lost/` may hold, and that one open copies there; 0 means a tenth of the database,
        /// but at least 64 MiB.
        fixed lost_files_max_bytes: u64 = 0;
        /// Seconds that a file stays in `lost/`.
        fixed lost_files_max_age: u64 = 7 * 24 * 60 * 60;
        /// Bytes of log between two witnesses. Fewer witnesses leave more at the end of a log unproven
        /// after a crash; more cost space.
        fixed witness_spacing: u64 = 8192;
    }
    ignored {}
}
