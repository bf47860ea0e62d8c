//! A snapshot is a point in time over all families.

use spanlith::{Db, ReadOptions, Result};

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-snapshots-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let cf = db.default_cf();
    cf.put("stock", "3")?;
    let before = db.snapshot();
    cf.put("stock", "2")?;
    cf.put("sold", "1")?;

    let then = ReadOptions::new().snapshot(&before);
    assert_eq!(cf.get_opt("stock", &then)?.as_deref(), Some(&b"3"[..]));
    assert_eq!(cf.iter_opt(then).count(), 1);
    assert_eq!(cf.iter().count(), 2);
    // Dropping the last clone lets compactions forget the old versions.
    drop(before);
    db.close()?;
    Db::destroy(&dir)
}
