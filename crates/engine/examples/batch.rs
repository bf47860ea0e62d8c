//! A batch is applied whole or not at all, and can be taken back in part before it is written.

use spanlith::{Db, FamilyOptions, Result, WriteBatch, WriteOptions};

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-batch-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let accounts = db.cf_or_create(FamilyOptions::new("accounts"))?;
    let journal = db.default_cf();
    let mut batch = WriteBatch::new();
    batch
        .put_cf(&accounts, "ann", "90")
        .put_cf(&accounts, "bob", "110")
        .put("42", "ann>bob 10");
    batch.set_save_point();
    batch.delete_cf(&accounts, "ann");
    batch.rollback_to_save_point()?;
    assert_eq!(batch.len(), 3);
    db.write_opt(&batch, &WriteOptions::new().sync(true))?;
    assert_eq!(accounts.get("ann")?.as_deref(), Some(&b"90"[..]));
    assert_eq!(journal.get("42")?.as_deref(), Some(&b"ann>bob 10"[..]));
    // The bytes are RocksDB's, as in its log.
    assert_eq!(WriteBatch::from_bytes(batch.as_bytes())?.len(), 3);
    db.close()?;
    Db::destroy(&dir)
}
