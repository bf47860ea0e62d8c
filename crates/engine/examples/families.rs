//! Column families: own options, one log, batches over several of them.

#![allow(clippy::disallowed_methods, reason = "threads of a user")]

use spanlith::options::{CfOptions, CompressionType};
use spanlith::{Cf, Db, FamilyOptions, Result, WriteBatch};

/// Handles have no lifetime: they can be stored next to each other and sent to threads.
struct Store {
    users: Cf,
    log: Cf,
}

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-families-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let cold = CfOptions::new()
        .compression(CompressionType::Zstd)
        .write_buffer_size(8u64 << 20);
    let store = Store {
        users: db.cf_or_create(FamilyOptions::new("users"))?,
        log: db.cf_or_create(FamilyOptions::new("log").options(cold))?,
    };
    let mut batch = WriteBatch::new();
    batch.put_cf(&store.users, "ann", "1");
    batch.put_cf(&store.log, "1", "ann came");
    db.write(&batch)?;

    let log = store.log.clone();
    let writer = std::thread::spawn(move || log.put("2", "ann left"));
    writer.join().expect("the thread ends")?;
    assert_eq!(store.log.iter().count(), 2);
    assert_eq!(store.users.get("ann")?.as_deref(), Some(&b"1"[..]));
    db.close()?;

    assert_eq!(
        Db::list_families(&dir, &spanlith_env::Env::system())?,
        ["default", "users", "log"]
    );
    // All families must be opened for writing; this takes their options from the directory.
    let db = Db::builder(&dir).all_families().open()?;
    db.drop_cf(&db.cf("log").expect("it was made"))?;
    db.close()?;
    Db::destroy(&dir)
}
