//! Opening with a time to live.

use super::{FamilyOptions, OpenBuilder};
use crate::options::{CfOptions, object_id, objects};
use crate::ttl::TimedMerge;
use std::time::Duration;

impl OpenBuilder {
    /// Opens as RocksDB's `DBWithTTL`: values and merge operands get the time they are written at, four bytes that
    /// readers of a database opened like this do not see, and compactions drop values of the default family that are
    /// older than `ttl`, counted in seconds. With zero nothing is dropped. Until a compaction comes along what is
    /// too old is read as ever.
    ///
    /// All families of the database have times then; [`FamilyOptions::with_ttl`] says how old values of others may become. A
    /// database must be opened like this from its first write on, or plainly: values that have no time are
    /// `Corruption` here, and values with times are four bytes longer there. Entities cannot be written.
    ///
    /// ```
    /// use spanlith::Db;
    /// use std::time::Duration;
    /// # fn main() -> spanlith::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("spanlith-ttl-{}", std::process::id()));
    /// let builder = Db::builder(&dir).create_if_missing(true);
    /// let db = builder.with_ttl(Duration::from_secs(24 * 60 * 60)).open()?;
    /// let sessions = db.default_cf();
    /// sessions.put("token", "user")?;
    /// assert_eq!(sessions.get("token")?.as_deref(), Some(&b"user"[..]));
    /// // Drops what was written more than a day ago.
    /// sessions.compact_all()?;
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_ttl(self, ttl: Duration) -> Self {
        self.change_default(|family| family.with_ttl(ttl))
    }
}

impl FamilyOptions {
    /// How old values of the family may become, in seconds; zero, as without: as old as they like. Any family with this makes
    /// the open one as by [`OpenBuilder::with_ttl`].
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// Puts the user's objects in the place of those that wrap them in the options file of a database with times to live; its time
/// to live.
pub(super) fn unwrap_ttl(options: &mut CfOptions) -> Option<Duration> {
    let mut ttl = None;
    for (text, wrapper, user) in [
        (
            &mut options.merge_operator,
            TimedMerge::NAME,
            "user_operator",
        ),
        (
            &mut options.compaction_filter,
            "TtlCompactionFilter",
            "user_filter",
        ),
        (
            &mut options.compaction_filter_factory,
            "TtlCompactionFilterFactory",
            "user_filter_factory",
        ),
    ] {
        if object_id(text) != Some(wrapper) {
            continue;
        }
        let seconds = objects::property(text, "ttl").and_then(|t| t.parse().ok());
        ttl = ttl.or(seconds.map(Duration::from_secs));
        *text = objects::property(text, user).unwrap_or_else(|| "nullptr".into());
    }
    ttl
}
