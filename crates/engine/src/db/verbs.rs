//! Verbs of the Rust interface that are made of others.

use super::{Cf, Db, FamilyOptions};
use crate::compaction::TableRemoval;
use spanlith_base::{ErrorKind, Result};

impl Db {
    /// The column family of that name; creates it if it is missing, only then with these options.
    ///
    /// # Errors
    /// As [`Self::create_cf`].
    pub fn cf_or_create(&self, family: FamilyOptions) -> Result<Cf> {
        if let Some(cf) = self.cf(family.name()) {
            return Ok(cf);
        }
        let name = family.name().to_string();
        match self.create_cf(family) {
            // Somebody else was faster.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => self.cf(&name).ok_or(e),
            made => made,
        }
    }

    /// Deletes the table of that file name (`/000012.sst` or `000012.sst`) with all its entries,
    /// whatever snapshots see in them. Only a table below which nothing older lies may go: one of the
    /// deepest level that has tables, or the oldest of level 0 if no deeper level has any.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such table or its place is another one, `Io`.
    pub fn delete_table_file(&self, name: &str) -> Result<()> {
        TableRemoval::new(self.engine()).delete_table_file(name)
    }
}

impl Cf {
    /// Compacts everything.
    ///
    /// # Errors
    /// As [`Self::compact_range`].
    pub fn compact_all(&self) -> Result<()> {
        self.compact_range(None, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenBuilder;
    use crate::version::DbPath;
    use spanlith_testkit::TempDir;

    #[test]
    fn a_family_is_made_once() {
        let temp = TempDir::new("once");
        let open = |b: OpenBuilder| b.open();
        let db = open(Db::builder(temp.path()).create_if_missing(true)).unwrap();
        let made = db.cf_or_create(FamilyOptions::new("a")).unwrap();
        made.put("k", "v").unwrap();
        let again = db.cf_or_create(FamilyOptions::new("a")).unwrap();
        assert!(made == again);
        made.compact_all().unwrap();
        assert_eq!(again.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        let err = Db::builder(temp.join("none")).open().unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_plain_open_takes_all_families_with_their_recorded_options() {
        let temp = TempDir::new("recorded");
        let options = |bytes: u64| crate::options::CfOptions::new().write_buffer_size(bytes);
        let family = |name: &str, bytes| FamilyOptions::new(name).options(options(bytes));
        let db = Db::builder(temp.path()).create_if_missing(true);
        let db = db.family(family("default", 1 << 20)).open().unwrap();
        let made = db.cf_or_create(family("a", 2 << 20)).unwrap();
        made.put("k", "v").unwrap();
        drop((made, db));
        let db = Db::open(temp.path()).unwrap();
        let cf = db.cf("a").unwrap();
        assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        for (cf, bytes) in [(db.default_cf(), 1 << 20), (cf, 2 << 20)] {
            assert_eq!(cf.family.settings().options.write_buffer_size, bytes);
        }
    }

    /// As RocksDB counts them, which matters for moves of several tables at once: those of the database, not of
    /// the family.
    #[test]
    fn level_options_count_the_directories_of_the_database() {
        let temp = TempDir::new("counted-paths");
        let paths = |names: &[&str]| {
            let of = names.iter().map(|n| DbPath::new(temp.join(n), 1 << 20));
            of.collect::<Vec<_>>()
        };
        for (name, of_db, of_family, counted) in [
            ("x", vec![], paths(&["a", "b"]), 1),
            ("y", paths(&["c", "d"]), paths(&["e"]), 2),
            ("z", paths(&["f", "g"]), vec![], 2),
        ] {
            let family = FamilyOptions::new("default").paths(of_family);
            let builder = Db::builder(temp.join(name)).create_if_missing(true);
            let db = builder.db_paths(of_db).family(family).open().unwrap();
            let cf = db.default_cf();
            assert_eq!(cf.family.settings().levels.path_count, counted);
            cf.set_options(&[("write_buffer_size", "1000000")]).unwrap();
            assert_eq!(cf.family.settings().levels.path_count, counted);
        }
    }
}
