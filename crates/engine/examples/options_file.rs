//! Options as structs, as text, and as the OPTIONS file of a directory.

use spanlith::options::{CfOptions, DbOptions, OptionTable, OptionsFile};
use spanlith::{Db, FamilyOptions, Result};

pub(crate) fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-options-{}", std::process::id()));
    // Chaining setters, or text by RocksDB's names.
    let options = DbOptions::new().max_background_jobs(4);
    let family: CfOptions = "write_buffer_size=8388608;num_levels=5".parse()?;
    assert_eq!(family.changed(), ["write_buffer_size", "num_levels"]);
    let db = Db::builder(&dir)
        .options(options)
        .create_if_missing(true)
        .family(FamilyOptions::new("default").options(family))
        .open()?;
    db.close()?;

    let env = spanlith_env::Env::system();
    let file = OptionsFile::load(&env, &dir)?;
    assert_eq!(file.db.max_background_jobs, 4);
    assert_eq!(file.families[0].1.num_levels, 5);
    assert!(file.to_text().contains("write_buffer_size=8388608"));
    Db::destroy(&dir)
}
