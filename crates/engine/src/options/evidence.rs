//! Options that RocksDB does not have: what is recorded as evidence of durability, what an open makes of
//! it, and what is done about a disk that is nearly full or does not answer.
//!
//! They are not written to OPTIONS files, whose readers refuse names they do not know, but to the file
//! `SPANLITH` beside them ([`super::Sidecar`]). As with OPTIONS, whoever opens a database says them each
//! time, or gets the defaults.

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
        /// Free bytes of a directory of tables below which background compactions that write to it are
        /// held back, so that flushes and the MANIFEST have room; 0 means room for one memtable of each
        /// family, but at most 64 MiB.
        fixed min_free_bytes: u64 = 0;
        /// Bytes of a file that reserves room, to be given up when the disk is full; 0 for none.
        fixed reserve_file_bytes: u64 = 0;
        /// Seconds after which a writing call to the disk that has not come back is reported, to
        /// listeners, the info log and the property `spanlith.disk-stalls`; 0 for never. A flush or
        /// compaction as a whole may take thirty times as long.
        fixed disk_stall_threshold: u64 = 10;
    }
    ignored {}
}
