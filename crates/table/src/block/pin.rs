//! Values that keep their block alive.
#![expect(
    unsafe_code,
    reason = "a slice of a block and the count that keeps the block alive"
)]

use super::Block;
use spanlith_base::Pinned;
use std::sync::Arc;

impl Block {
    /// `bytes`, a part of this block, with a share in the block. Bytes that lie elsewhere are
    /// copied.
    pub fn pin(self: &Arc<Self>, bytes: &[u8]) -> Pinned {
        let own = self.data.as_ptr_range();
        let part = bytes.as_ptr_range();
        if bytes.is_empty() || part.start < own.start || part.end > own.end {
            return Pinned::copy_of(bytes);
        }
        // SAFETY: `bytes` lies inside `self.data`, which is neither moved nor changed while a
        // shared reference to the block exists: the only mutating methods need `&mut Block`, which
        // an `Arc` gives out to a sole owner only, and the `Pinned` holds another count.
        unsafe { Pinned::from_owner(bytes, self.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_value_outlives_every_other_reference_to_its_block() {
        let block = Arc::new(Block::raw(b"0123456789".to_vec()));
        let inside = block.pin(&block.bytes()[3..6]);
        assert_eq!(Arc::strong_count(&block), 2);
        let outside = block.pin(b"elsewhere");
        assert_eq!(Arc::strong_count(&block), 2);
        drop(block);
        assert_eq!((&*inside, &*outside), (&b"345"[..], &b"elsewhere"[..]));
    }
}
