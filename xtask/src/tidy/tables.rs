//! The tables that the rules work from. `docs/architecture.md` repeats the first two for readers,
//! and a rule compares them.

/// Each crate and what it may use, lowest tier first. Names are those of the folders in `crates/`.
pub const LAYERS: [(&str, &[&str]); 16] = [
    ("base", &[]),
    ("cache", &["base"]),
    ("env", &["base"]),
    ("memtable", &["base"]),
    ("pace", &[]),
    ("wal", &["base", "env"]),
    ("table", &["base", "env", "cache"]),
    ("testkit", &["base", "env"]),
    ("speed", &["base", "env", "cache", "wal"]),
    (
        "engine",
        &[
            "base", "env", "cache", "memtable", "pace", "table", "wal", "speed",
        ],
    ),
    (
        "workload",
        &[
            "base", "env", "pace", "cache", "table", "wal", "speed", "engine", "testkit",
        ],
    ),
    (
        "stress",
        &[
            "base", "env", "cache", "memtable", "table", "wal", "speed", "engine", "testkit",
        ],
    ),
    (
        "capi",
        &[
            "base", "env", "cache", "memtable", "table", "wal", "speed", "engine",
        ],
    ),
    (
        "cli",
        &[
            "base", "env", "cache", "memtable", "pace", "table", "wal", "speed", "engine",
            "workload", "stress",
        ],
    ),
    ("librocksdb", &["capi"]),
    ("librocksdb-sys", &["capi"]),
];

/// Crates that may have `testkit` as a development dependency besides those whose row names it.
pub const TESTKIT_IN_TESTS: [&str; 8] = [
    "cache", "memtable", "wal", "table", "speed", "engine", "capi", "cli",
];

/// The package name of a folder in `crates/`.
pub fn package(folder: &str) -> String {
    match folder {
        "engine" => "spanlith".to_string(),
        "librocksdb-sys" => folder.to_string(),
        _ => format!("spanlith-{folder}"),
    }
}

/// The modules of `crates/engine`, highest first. A module may use itself and what comes after it.
pub const MODULE_ORDER: [&str; 28] = [
    "api",
    "utilities",
    "txn",
    "requests",
    "db",
    "inspect",
    "recovery",
    "write",
    "read",
    "flush",
    "compaction",
    "output",
    "placement",
    "core",
    "picker",
    "iter",
    "blob",
    "version",
    "jobs",
    "ttl",
    "merge",
    "trace",
    "listener",
    "info_log",
    "options",
    "filter",
    "locks",
    "commit",
];

/// Crates whose root must forbid unsafe code.
pub const UNSAFE_FORBIDDEN: [&str; 6] = ["wal", "speed", "cli", "stress", "testkit", "librocksdb"];

/// Crates whose root must deny unsafe code, and the modules that may allow it.
pub const UNSAFE_DENIED: [(&str, &[&str]); 7] = [
    (
        "engine",
        &[
            "write/pipeline",
            "commit/pipeline",
            "read/get",
            "iter/merging",
        ],
    ),
    ("base", &["sync", "memory", "pinned", "crc32c", "simd"]),
    ("env", &["sys", "aligned", "uring"]),
    ("memtable", &["arena", "tree"]),
    ("cache", &["list", "handle"]),
    ("workload", &["store/rocksdb", "store/lmdb"]),
    (
        "table",
        &["filter/probe", "block/seek", "block/pin", "format/finalize"],
    ),
];

/// Crates in which unsafe code is allowed anywhere.
pub const UNSAFE_ALLOWED: [&str; 2] = ["capi", "librocksdb-sys"];

/// Says what `crates/engine` must not name outside its tests, and what to use instead.
pub const BANNED_IN_ENGINE: [(&str, &str); 9] = [
    ("std::fs", "files come from spanlith_env::FileSystem"),
    (
        "std::time::SystemTime",
        "time comes from spanlith_env::Clock",
    ),
    ("std::time::Instant", "time comes from spanlith_env::Clock"),
    ("SystemTime::now", "time comes from spanlith_env::Clock"),
    ("Instant::now", "time comes from spanlith_env::Clock"),
    (
        "std::thread::spawn",
        "threads come from spanlith_env::Executor",
    ),
    ("thread::spawn", "threads come from spanlith_env::Executor"),
    (
        "thread::Builder",
        "threads come from spanlith_env::Executor",
    ),
    ("rand::", "random numbers come from spanlith_env::Rng"),
];

/// Lines of a Rust file without its tests, from which a split is advised.
pub const LINES_ADVISED_MAX: usize = 800;

/// Lines of a Rust file, tests included unless they are files of their own, that are refused.
pub const LINES_MAX: usize = 1000;

/// Folders of the crates whose public functions need a user outside their file.
pub const LIBRARIES: [&str; 11] = [
    "base", "cache", "env", "memtable", "pace", "speed", "table", "wal", "testkit", "engine",
    "workload",
];

/// Public functions without a user outside their file: the end of the file's path, the name, and the reason.
pub const UNCALLED: [(&str, &str, &str); 8] = [
    (
        "base/src/error.rs",
        "is_retryable",
        "interface of users: a status that another attempt may cure",
    ),
    (
        "base/src/stats.rs",
        "histogram_text",
        "interface of users, as RocksDB's getHistogramString",
    ),
    (
        "base/src/stats.rs",
        "take_ticker",
        "interface of users, as RocksDB's getAndResetTickerCount",
    ),
    (
        "env/src/rate_limiter.rs",
        "set_single_burst_bytes",
        "interface of users, as RocksDB's SetSingleBurstBytes",
    ),
    (
        "engine/src/db/reads.rs",
        "put_entity_opt",
        "interface of users: put_entity with options",
    ),
    (
        "engine/src/txn/db.rs",
        "write_locked",
        "interface of users: a batch under locks",
    ),
    (
        "speed/src/fs.rs",
        "spilled",
        "interface of tests on real devices",
    ),
    (
        "pace/src/bucket.rs",
        "burst_seconds",
        "interface of programs that show a bucket",
    ),
];
