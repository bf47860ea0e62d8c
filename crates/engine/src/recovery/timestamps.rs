//! Says whether a family may be opened with the comparator given: timestamps may be switched on and off as
//! long as no table holds any.

use spanlith_base::timestamp::name_without_timestamps;
use spanlith_base::{Comparator, Error, Result};

/// Describes what a family is opened with.
pub(super) struct Given<'a> {
    pub comparator: &'a Comparator,
    /// `persist_user_defined_timestamps`.
    pub persists: bool,
}

/// Compares with what the MANIFEST records: the name of the comparator, and whether timestamps are
/// persisted. True if timestamps are switched on, so that tables hold none whatever their records say.
///
/// # Errors
/// `InvalidArgument`, in RocksDB's words.
pub(super) fn check(given: &Given<'_>, recorded: &str, persisted: bool) -> Result<bool> {
    let ours = given.comparator.name();
    let refuse = |what: &str| Err(Error::invalid_argument(what));
    if ours == recorded {
        if given.comparator.timestamp_size() != 0 && persisted != given.persists {
            return refuse(
                "Cannot toggle the persist_user_defined_timestamps flag for a column family with \
                 user-defined timestamps feature enabled.",
            );
        }
        return Ok(false);
    }
    if name_without_timestamps(ours) == Some(recorded) {
        if given.persists {
            return refuse(
                "Cannot open a column family and enable user-defined timestamps feature without \
                 setting persist_user_defined_timestamps flag to false.",
            );
        }
        return Ok(true);
    }
    if name_without_timestamps(recorded) == Some(ours) {
        if persisted {
            return refuse(
                "Cannot open a column family and disable user-defined timestamps feature if its \
                 existing persist_user_defined_timestamps flag is not false.",
            );
        }
        return Ok(false);
    }
    Err(Error::invalid_argument(format!(
        "{ours}: does not match existing comparator {recorded}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_switched_only_where_no_table_holds_any() {
        let plain = "leveldb.BytewiseComparator";
        let timed = "leveldb.BytewiseComparator.u64ts";
        let ask = |ours: &str, persists, recorded, persisted| {
            let comparator = Comparator::from_name(ours).unwrap();
            let given = Given {
                comparator: &comparator,
                persists,
            };
            check(&given, recorded, persisted).ok()
        };
        assert_eq!(ask(plain, true, plain, false), Some(false));
        assert_eq!(ask(timed, false, timed, false), Some(false));
        assert_eq!(ask(timed, false, timed, true), None);
        assert_eq!(ask(timed, true, plain, true), None);
        assert_eq!(ask(timed, false, plain, true), Some(true));
        assert_eq!(ask(plain, true, timed, false), Some(false));
        assert_eq!(ask(plain, true, timed, true), None);
        assert_eq!(
            ask("rocksdb.ReverseBytewiseComparator", true, plain, true),
            None
        );
    }
}
