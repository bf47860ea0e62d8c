//! The options that RocksDB does not have, as rows: this file is the registry.
//!
//! A row gives name, type, default, bounds, documentation, and whether the option may be changed on an
//! open database. It makes the option known to the Rust builder, the C function, the command line, the file
//! `SPANLITH` and changes at run time ([`super::own`]); nothing else has to be edited. How a row is added:
//! `docs/howto/add-an-own-option.md`.
//!
//! Code reads `options.own.NAME`: of the database through the options that the engine holds, of a family
//! through its settings. Rows are grouped by subject; a new subject begins after the last one.

use super::device::DeviceOption;
use super::enums::{
    AsyncMode, CodecChoice, DynamicLevel0, KvsepGc, KvsepMode, OrphanFiles, SyncedLogDamage,
    WriteThrottlePolicy,
};
use super::kvsep_ranges::KvsepRanges;
use super::sd_placement::SdPlacement;

options! {
    /// Options of a database that RocksDB does not have.
    pub struct OwnDbOptions {
        // Evidence of durability.

        /// Records in logs and MANIFEST what was durable when, in places that RocksDB skips, and judges
        /// by it at open. Without it files hold RocksDB's records only, and opens decide as RocksDB does.
        fixed evidence: bool = true;
        /// Says what an open does when bytes of a log are damaged or missing that had been synced: refuse,
        /// or drop what follows, as RocksDB does.
        fixed synced_log_damage: SyncedLogDamage = SyncedLogDamage::Refuse;
        /// Says what happens at open to tables and blob files that the MANIFEST does not name and nothing
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
        // A disk that is nearly full or does not answer.

        /// Free bytes of a directory of tables below which background compactions that write to it are
        /// held back, so that flushes and the MANIFEST have room; 0 means room for one memtable of each
        /// family, but at most 64 MiB.
        mutable min_free_bytes: u64 = 0;
        /// Bytes of a file that reserves room, to be given up when the disk is full; 0 for none.
        fixed reserve_file_bytes: u64 = 0;
        /// Seconds after which a writing call to the disk that has not come back is reported, to
        /// listeners, the info log and the property `spanlith.disk-stalls`; 0 for never. A flush or
        /// compaction as a whole may take thirty times as long.
        fixed disk_stall_threshold: u64 = 10;
        // Speed disk.

        /// The speed disk for the logs: a file or device that `spanlith sd format` made one, or a part of a device as
        /// `PATH@OFFSET+SIZE`. Empty: the one that the database has, or none. It stays the database's until
        /// `spanlith db migrate --to-files`, and RocksDB refuses the directory meanwhile.
        fixed sd_path: String = String::new();
        /// Groups of synced writes that are on their way to the speed disk at a time. 1: one after the other. More make
        /// writers wait less for each other, and groups smaller, which takes more processor time. 0: 1 up to two cores, else 2.
        fixed sd_writes_in_flight: u64 = 0, in 0..=64;
        // Devices that are emulated.

        /// For experiments: the files take the time of this device: `H`, `S`, `N1`, `N2`, `O`, `H-RAID5` or `S-RAID5`,
        /// with `:cache=BYTES` for the host's page cache (64 MiB; 0 for none) and `:scale=PERCENT` for a share of the
        /// bandwidth. Nothing is synced to the real disk then: a loss of power loses data. Not kept in `SPANLITH`.
        fixed env_device: DeviceOption = DeviceOption::default();
        /// The same for the speed disk that `sd_path` names, which has no page cache.
        fixed sd_device: DeviceOption = DeviceOption::default();
        /// A directory on the speed disk for tables of the upper levels. Empty: the one that the database has, or none. It
        /// stays the database's until `spanlith db migrate --to-files`, and RocksDB refuses the database meanwhile. A
        /// directory that is not there is made for a database that has none yet.
        fixed sd_tables_path: String = String::new();
        /// Bytes that tables may take in `sd_tables_path`; 0 means what its file system has.
        mutable sd_tables_size: u64 = 0;
        /// Which new tables go to `sd_tables_path`: none (`pl`), those of flushes and of the N levels at the top (`lad:N`),
        /// or as many levels as space, bandwidth and the log allow (`auto`). A change moves no table.
        mutable sd_placement: SdPlacement = SdPlacement::default();
        /// Bytes per second that the disk of `sd_tables_path` reads and writes; 0 means that nobody knows. With `auto`,
        /// levels leave the disk above 65 % of it, and come below 40 %.
        mutable sd_tables_bandwidth: u64 = 0;
        // How writes are slowed down when flushes and compactions fall behind.

        /// By which rules: as RocksDB 11.8 (`rocksdb`) or 5.17 (`rocksdb_517`, for experiments), in two stages of
        /// which the first keeps a floor (`two_stage`), or paced by the measured capacity of the stage that is
        /// behind, each writer for itself and each family apart (`smooth`). Under `smooth` files of level 0 and
        /// pending bytes slow writes down and never stop them.
        mutable write_throttle_policy: WriteThrottlePolicy = WriteThrottlePolicy::Rocksdb;
        /// Bytes per second that writes keep in the first stage of `two_stage`, and under `smooth` while
        /// buffers are less than half full; 0 means `delayed_write_rate` for `two_stage` and no floor for `smooth`.
        /// More lets level 0 grow faster.
        mutable stage1_floor_rate: u64 = 0;
        /// By how much the threads of compactions give way to others on the processor: their `nice` value, 0 to leave it as it
        /// is. On few cores, readers and writers then wait less for compactions, which take longer while the processors are
        /// busy, so that writes are slowed down sooner. The threads are the process's: databases that are open together have
        /// the largest value, until the process ends. Linux only.
        fixed compaction_nice: u64 = 0, in 0..=19;
        /// Has a compaction that runs give way: where writers would soon be delayed because level 0 has as many files as
        /// `level0_slowdown_writes_trigger`, or stopped because one more full memtable has no room, and no thread is free for
        /// the compaction or the flush that would help, the thread of the running compaction does that first, at the end of a block, and then
        /// goes on. Compactions out of level 0 give way to flushes only, those that a caller waits for to nothing. Deep
        /// compactions hold their files for longer.
        mutable preemptible_compaction: bool = false;
        /// Under the policy `smooth`, while a compaction takes files out of level 0, has the files that come meanwhile merged within
        /// level 0 by one more thread than `max_background_jobs` gives to compactions. The next compaction out of level 0 takes in
        /// more by that, and an overload is carried at a higher rate. Leveled compaction only.
        mutable level0_merges_beside: bool = true;
        // Asynchronous requests.

        /// Says who carries out asynchronous requests: whoever waits for one, and few threads for the others (`inline`);
        /// threads that take whatever comes (`shared`); or one thread for writes and others for reads (`dedicated`).
        /// `auto` is `inline` up to 2 cores, `shared` up to 7, and `dedicated` from 8 on. Threads start with the first
        /// request that needs one and sleep when there is none.
        fixed async_mode: AsyncMode = AsyncMode::Auto;
        /// Most threads of a database for asynchronous requests, flushes that were asked for aside; 0 means 2 for
        /// `inline`, one less than cores for `shared`, and half of the cores and one for `dedicated`. One thread alone
        /// lets reads wait for writes that are stalled.
        fixed async_threads: u64 = 0, in 0..=256;
        /// Asynchronous writes that may be outstanding, and reads that may be queued. One more waits for room, or is
        /// refused with `Resource busy`, as its handle says. More let larger groups form, and wait longer.
        fixed async_queue_length: u64 = 4096, in 1..=1 << 20;
        /// Bytes of outstanding asynchronous writes, with the same effect. A write that is larger by itself waits until
        /// nothing else is outstanding.
        fixed async_queue_bytes: u64 = 64 << 20, in 1024..=1u64 << 40;
    }
    ignored {}
    at_open FixedOwnDbOptions
}

options! {
    /// Options of a column family that RocksDB does not have.
    pub struct OwnCfOptions {
        // Values in blob files.

        /// From which size on values are separated: from `min_blob_size` on, or from a size that the engine
        /// chooses by measured costs of writing and reading, and logs. Both need `enable_blob_files`.
        mutable kvsep_mode: KvsepMode = KvsepMode::Static;
        /// From which size on values are separated, by ranges of keys, whatever `kvsep_mode` says: `FROM..TO:SIZE`, joined by
        /// commas, with keys in hexadecimal digits and `inline` for never. The first range that a key
        /// lies in decides.
        mutable kvsep_ranges: KvsepRanges = KvsepRanges::default();
        /// How garbage in blob files is collected: as RocksDB does, by age and force threshold, or by a
        /// target of space, which empties the files first that give back most for each byte written and
        /// needs no `enable_blob_garbage_collection`. Tables then have the property `spanlith.blob.refs`.
        mutable kvsep_gc: KvsepGc = KvsepGc::Compat;
        /// With `kvsep_gc=budget`: share of the bytes of blob files that may be garbage before tables are
        /// rewritten for it. A smaller share costs more writes.
        mutable kvsep_space_target: f64 = 0.10, in 0.01..=0.9;
        /// With `kvsep_gc=budget`: share of garbage above which collection goes before all other
        /// compactions, and writers wait for it as long as one is to come.
        mutable kvsep_space_max: f64 = 0.22, in 0.01..=1.0;
        // Space.

        /// How the codec of a data block is chosen: the one of the options for all (`fixed`), or block by block what
        /// saves enough for its time (`adaptive`): in the last level the codec of the options where it needs 15 % less than
        /// LZ4, LZ4 where that shrinks blocks, and none where nothing does. Above it LZ4 or none, and none in the tables of
        /// flushes unless `compression_per_level` says otherwise; with levels of fixed sizes, and with universal
        /// compaction, the codec of the options where it needs 30 % less than LZ4. Estimates follow the data; one of 32
        /// blocks is tried with both. Zstandard then has level 1 unless the options name one. Any RocksDB that knows both
        /// codecs reads the tables.
        mutable codec_choice: CodecChoice = CodecChoice::Fixed;
        // The shape of level 0.

        /// Says whether number and size of the files of level 0 follow the measured load: as the options say (`off`); 24 small
        /// files, or 6 large ones while less than a quarter of the operations are writes (`paper`); as many as cost reads and
        /// writes together least time (`continuous`); or as `paper`, with few files made of four small memtables each
        /// (`merged`). The triggers of level 0, `write_buffer_size` and, for `merged`, the numbers of memtables are then
        /// the engine's; OPTIONS files keep what was set. Few files take up to four times the memory of memtables
        /// (`merged`: at least six memtables), and each read is counted (an asynchronous one that memory does not answer,
        /// twice). Only for leveled compaction.
        mutable dynamic_level0: DynamicLevel0 = DynamicLevel0::Off;
        /// Bytes that the files of level 0 come to when writes begin to be slowed down, by which the size of memtables is
        /// reckoned; 0 means 24 times `write_buffer_size`.
        mutable dynamic_level0_volume: u64 = 0, in 0..=1u64 << 44;
    }
    ignored {}
}
