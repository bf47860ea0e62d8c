//! Opens a database, writes, reads, closes.

use spanlith::{Db, Result};

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-open-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let items = db.default_cf();
    items.put("apple", "red")?;
    items.put("pear", "green")?;
    assert_eq!(items.get("apple")?.as_deref(), Some(&b"red"[..]));
    items.delete("apple")?;
    assert!(items.get("apple")?.is_none());
    // Survives a power cut from here on.
    db.sync()?;
    db.close()?;

    // The entry is there again.
    let items = Db::open(&dir)?.default_cf();
    assert_eq!(items.get("pear")?.as_deref(), Some(&b"green"[..]));
    items.db().clone().close()?;
    Db::destroy(&dir)
}
