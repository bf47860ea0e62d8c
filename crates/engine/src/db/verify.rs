//! `Db::verify`.

use super::Db;
use crate::inspect::{LiveCheck, Progress, VerifyLevel, VerifyOptions, VerifyReport};
use spanlith_base::Result;
use std::ops::ControlFlow;

impl Db {
    /// Verifies what is on disk, while the database is used: tables, blob files, logs, the MANIFEST, as
    /// they are when this is called. Reads past all caches; see [`VerifyLevel`] for what is looked at.
    /// Whatever is wrong is a finding of the report, not an error.
    ///
    /// ```
    /// # fn main() -> spanlith::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("spanlith-verify-{}", std::process::id()));
    /// use spanlith::{Db, VerifyLevel};
    /// let db = Db::open(&dir)?;
    /// db.default_cf().put("k", "v")?;
    /// db.flush(true)?;
    /// let report = db.verify(VerifyLevel::Full)?;
    /// assert!(report.is_clean() && report.entries == 1);
    /// # drop(db);
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ShutdownInProgress` if the database is closed meanwhile; `Io` of listing directories.
    pub fn verify(&self, level: VerifyLevel) -> Result<VerifyReport> {
        self.verify_with(&VerifyOptions::new(level), &mut |_| {
            ControlFlow::Continue(())
        })
    }

    /// As [`Self::verify`], at a pace and of certain families; calls `progress` again and again, at
    /// least once for each file and about every MiB, which ends it by `Break`. The report then has
    /// what was found so far and says that it was called off.
    ///
    /// # Errors
    /// As [`Self::verify`]; `InvalidArgument` for an unknown family.
    pub fn verify_with(
        &self,
        options: &VerifyOptions,
        progress: Progress<'_>,
    ) -> Result<VerifyReport> {
        LiveCheck::of(self.engine()).run(options, progress)
    }
}
