//! Many point reads at one consistent point.
//!
//! Keys are visited in sorted order, so that neighbours share blocks while they are hot in the
//! processor's caches; the answers come back in the caller's order.

use super::get::ReadContext;
use crate::core::SuperVersion;
use spanlith_base::{Pinned, Result, SequenceNumber};

impl SuperVersion {
    /// One result per key, in the order of `keys`.
    pub(crate) fn multi_get(
        &self,
        keys: &[&[u8]],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
    ) -> Vec<Result<Option<Pinned>>> {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by(|&a, &b| ctx.comparator.compare(keys[a as usize], keys[b as usize]));
        let mut out: Vec<Result<Option<Pinned>>> = keys.iter().map(|_| Ok(None)).collect();
        for i in order {
            out[i as usize] = self.get(keys[i as usize], snapshot, ctx);
        }
        out
    }
}
