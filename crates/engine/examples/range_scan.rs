//! Scans: ranges, and the cursor that lends entries without copying.

use spanlith::{Db, Iter, ReadOptions, Result};

/// The iterator outlives the borrow of the database.
fn january(db: &Db) -> Iter {
    db.default_cf()
        .iter_opt(ReadOptions::new().lower("2026-01").upper("2026-02"))
}

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-scan-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let cf = db.default_cf();
    for day in ["2025-12-31", "2026-01-01", "2026-01-31", "2026-02-01"] {
        cf.put(day, "x")?;
    }
    let days: Vec<_> = january(&db).collect::<Result<_>>()?;
    assert_eq!(days.len(), 2);
    let from = ReadOptions::new().lower("2026-01-31");
    assert_eq!(cf.iter_opt(from).count(), 2);

    let mut cursor = cf.cursor(ReadOptions::new().fill_cache(false));
    let mut on = cursor.seek_for_prev(b"2026-01-15")?;
    let mut backwards = Vec::new();
    while let (true, Some((key, _))) = (on, cursor.entry()) {
        backwards.push(String::from_utf8_lossy(key).into_owned());
        on = cursor.prev()?;
    }
    assert_eq!(backwards, ["2026-01-01", "2025-12-31"]);

    // Removes a range in one step.
    cf.delete_range("2025", "2026-01-31")?;
    assert_eq!(cf.iter().count(), 2);
    drop(cursor);
    db.close()?;
    Db::destroy(&dir)
}
