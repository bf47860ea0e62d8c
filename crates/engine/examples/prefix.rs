//! A prefix extractor: filters over prefixes let a scan skip tables without the prefix.

use spanlith::options::BlockBasedTableOptions;
use spanlith::options::CfOptions;
use spanlith::{Db, FamilyOptions, ReadOptions, Result};

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-prefix-{}", std::process::id()));
    let family = FamilyOptions::new("default")
        .options(CfOptions::new().prefix_extractor("rocksdb.FixedPrefix.5".to_string()))
        .table_options(
            BlockBasedTableOptions::new().filter_policy("bloomfilter:10:false".to_string()),
        );
    let db = Db::builder(&dir)
        .create_if_missing(true)
        .family(family)
        .open()?;
    let cf = db.default_cf();
    for user in 0..100 {
        cf.put(format!("{user:05}/name"), "n")?;
        cf.put(format!("{user:05}/mail"), "m")?;
    }
    db.flush(true)?;
    let of_seven: Vec<_> = cf
        .iter_opt(ReadOptions::new().lower("00007").upper("00008"))
        .collect::<Result<_>>()?;
    assert_eq!(of_seven.len(), 2);
    db.close()?;
    Db::destroy(&dir)
}
