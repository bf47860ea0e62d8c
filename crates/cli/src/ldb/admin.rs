//! Commands about the database as a whole.

use super::{Ldb, Stop};
use crate::db::open::WriteFlags;
use crate::db::repair::repair;
use spanlith::{BottommostCompaction, CompactRangeOptions, Db, FamilyOptions};
use spanlith_env::Env;
use std::io::Write;

impl Ldb {
    pub(super) fn compact(&mut self) -> Result<(), Stop> {
        let (from, to) = (self.args.key_option("from")?, self.args.key_option("to")?);
        let (_, cf) = self.open_to_write()?;
        let options = CompactRangeOptions {
            bottommost: BottommostCompaction::ForceOptimized,
            ..CompactRangeOptions::default()
        };
        cf.compact_range_opt(from.as_deref(), to.as_deref(), &options)?;
        self.close(cf)
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), Stop> {
        let dir = self.args.path("checkpoint_dir").unwrap_or_default();
        let (_, cf) = self.open_to_write()?;
        cf.db().checkpoint(dir)?;
        self.close(cf)?;
        self.ok()
    }

    /// With `--verbose` what was put aside is named on standard error.
    pub(super) fn repair(&mut self) -> Result<(), Stop> {
        let target = self.target()?;
        let report = repair(&target, &WriteFlags::plain(), Env::system())?;
        if self.args.is("verbose") {
            for file in &report.lost {
                tell!("{}: {}", file.path.display(), file.why);
            }
            for what in &report.missing {
                tell!("missing: {what}");
            }
        }
        self.ok()
    }

    pub(super) fn get_property(&mut self) -> Result<(), Stop> {
        let [name] = &self.args.words[..] else {
            return Err(Stop::failed("property name must be specified"));
        };
        let name = name.clone();
        let (_, cf) = self.open_to_read()?;
        if let Some(map) = cf.map_property(&name) {
            for (key, value) in map {
                writeln!(self.out, "{name}.{key}: {value}")?;
            }
            return Ok(());
        }
        match cf.property(&name) {
            Some(value) => Ok(writeln!(self.out, "{name}: {value}")?),
            None => Err(Stop::failed(format!("failed to get property: {name}"))),
        }
    }

    pub(super) fn list_families(&mut self) -> Result<(), Stop> {
        let dir = self.dir()?;
        let names = Db::list_families(&dir, &Env::system())?;
        writeln!(self.out, "Column families in {}: ", dir.display())?;
        writeln!(self.out, "{{{}}}", names.join(", "))?;
        Ok(())
    }

    pub(super) fn create_family(&mut self) -> Result<(), Stop> {
        let [name] = &self.args.words[..] else {
            return Err(Stop::failed("new column family name must be specified"));
        };
        let name = name.clone();
        let (_, cf) = self.open_to_write()?;
        let made = cf.db().create_cf(FamilyOptions::new(&name));
        made.map_err(|e| Stop::failed(format!("Fail to create new column family: {e}")))?;
        self.close(cf)?;
        self.ok()
    }

    pub(super) fn drop_family(&mut self) -> Result<(), Stop> {
        let [name] = &self.args.words[..] else {
            return Err(Stop::failed(
                "The name of column family to drop must be specified",
            ));
        };
        let name = name.clone();
        let (_, cf) = self.open_to_write()?;
        let Some(dropped) = cf.db().cf(&name) else {
            let text = format!("Column family: {name} doesn't exist in db.");
            return Err(Stop::failed(text));
        };
        cf.db().drop_cf(&dropped)?;
        drop(dropped);
        self.close(cf)?;
        self.ok()
    }

    /// Takes everything down or up into the levels that are left, then records their number in the
    /// OPTIONS file by opening with it.
    pub(super) fn reduce_levels(&mut self) -> Result<(), Stop> {
        let levels = self
            .args
            .number("new_levels")?
            .filter(|n| (1..=63).contains(n));
        let Some(levels) = levels else {
            let text = "new_levels must be specified and lie between 1 and 63";
            return Err(Stop::failed(text));
        };
        let levels = usize::try_from(levels).unwrap_or(1);
        let (target, cf) = self.open_to_write()?;
        let used = cf
            .live_files()
            .iter()
            .map(|f| f.level + 1)
            .max()
            .unwrap_or(1);
        if self.args.is("print_old_levels") {
            writeln!(self.out, "The old number of levels in use is {used}")?;
        }
        if used > levels {
            let options = CompactRangeOptions {
                change_level: true,
                target_level: Some(levels - 1),
                bottommost: BottommostCompaction::ForceOptimized,
                ..CompactRangeOptions::default()
            };
            cf.compact_range_opt(None, None, &options)?;
        }
        let now = cf
            .live_files()
            .iter()
            .map(|f| f.level + 1)
            .max()
            .unwrap_or(1);
        self.close(cf)?;
        if now > levels {
            let text = format!(
                "Not implemented: tables of level {} cannot be moved up",
                now - 1
            );
            return Err(Stop::failed(text));
        }
        let levels = i32::try_from(levels).unwrap_or(1);
        target.open_with_levels(levels)?.db().clone().close()?;
        Ok(())
    }
}
