//! RocksDB's `TtlMergeOperator`.

use super::format::{append_time, split_time};
use crate::merge::MergeOperator;
use spanlith_env::Clock;
use std::sync::Arc;

/// A merge operator over values with times: the user's sees them without, and what it makes gets the time of the merge.
pub struct TimedMerge {
    user: Arc<dyn MergeOperator>,
    clock: Arc<dyn Clock>,
}

impl TimedMerge {
    /// RocksDB's name, which tables have.
    pub const NAME: &'static str = "TtlMergeOperator";

    /// Wraps the user's operator.
    pub fn new(user: Arc<dyn MergeOperator>, clock: Arc<dyn Clock>) -> Self {
        Self { user, clock }
    }

    fn timed(&self, mut merged: Vec<u8>) -> Vec<u8> {
        append_time(&mut merged, self.clock.now_seconds());
        merged
    }
}

/// The operands without their times; `None` if one has none.
fn plain<'a>(operands: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    let plain = operands.iter().map(|&o| Some(split_time(o)?.0));
    plain.collect()
}

impl MergeOperator for TimedMerge {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn options_text(&self) -> String {
        let user = self.user.options_text();
        format!("{{id={};user_operator={user};}}", Self::NAME)
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let existing = match existing {
            Some(stored) => Some(split_time(stored)?.0),
            None => None,
        };
        let merged = self.user.full_merge(key, existing, &plain(operands)?)?;
        Some(self.timed(merged))
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let merged = self.user.partial_merge(key, &plain(operands)?)?;
        Some(self.timed(merged))
    }

    fn allow_single_operand(&self) -> bool {
        self.user.allow_single_operand()
    }

    fn should_merge(&self, newest_first: &[&[u8]]) -> bool {
        plain(newest_first).is_some_and(|operands| self.user.should_merge(&operands))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::StringAppend;
    use spanlith_env::{Env, MemFs};

    #[test]
    fn the_user_sees_no_times_and_the_result_has_that_of_the_merge() {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 1);
        let merge = TimedMerge::new(Arc::new(StringAppend::new(b",")), env.clock);
        let now = |merged: &[u8]| {
            let mut stored = merged.to_vec();
            append_time(&mut stored, clock.now_seconds());
            Some(stored)
        };
        let operands: [&[u8]; 2] = [b"b\x02\0\0\0", b"c\x03\0\0\0"];
        let base: &[u8] = b"a\x01\0\0\0";
        assert_eq!(merge.full_merge(b"k", Some(base), &operands), now(b"a,b,c"));
        clock.sleep(std::time::Duration::from_secs(7));
        assert_eq!(merge.full_merge(b"k", None, &operands), now(b"b,c"));
        assert_eq!(merge.partial_merge(b"k", &operands), now(b"b,c"));
        assert_eq!(merge.full_merge(b"k", Some(b"abc"), &operands), None);
        assert_eq!(merge.full_merge(b"k", None, &[b"abc"]), None);
        assert_eq!(merge.partial_merge(b"k", &[b"abc", operands[0]]), None);
    }
}
