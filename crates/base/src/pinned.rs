//! Bytes that keep alive what they point into.
#![expect(
    unsafe_code,
    reason = "a slice and the owner of its bytes travel together"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

/// Describes what may own the bytes of a [`Pinned`]: a cached block, a blob, a memtable.
pub trait PinOwner: Send + Sync {}
impl<T: Send + Sync> PinOwner for T {}

enum Owner {
    Boxed,
    Shared(Arc<dyn PinOwner>),
    Static,
}

/// Immutable bytes that keep alive what they point into (a cache block, or a buffer of their own).
pub struct Pinned {
    ptr: *const u8,
    len: usize,
    owner: Owner,
}

// SAFETY: The bytes are immutable and their owner is Send + Sync.
unsafe impl Send for Pinned {}
// SAFETY: As above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Bytes in a buffer of their own.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let b = bytes.into_boxed_slice();
        let len = b.len();
        let ptr = Box::into_raw(b).cast::<u8>().cast_const();
        Self {
            ptr,
            len,
            owner: Owner::Boxed,
        }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::from_vec(bytes.to_vec())
    }

    /// Bytes that live for the whole program.
    pub fn from_static(bytes: &'static [u8]) -> Self {
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
            owner: Owner::Static,
        }
    }

    /// `bytes`, kept alive by `owner`.
    ///
    /// # Safety
    /// `bytes` must stay valid and unchanged for as long as `owner` or a clone of it exists.
    #[inline]
    pub unsafe fn from_owner(bytes: &[u8], owner: Arc<dyn PinOwner>) -> Self {
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
            owner: Owner::Shared(owner),
        }
    }

    /// A part of the bytes; a copy if they lie in a buffer of their own.
    ///
    /// # Panics
    /// If the range is not within the bytes.
    pub fn slice(&self, range: impl std::slice::SliceIndex<[u8], Output = [u8]>) -> Self {
        let part = &self[range];
        match &self.owner {
            Owner::Boxed => Self::copy_of(part),
            Owner::Shared(owner) => Self {
                ptr: part.as_ptr(),
                len: part.len(),
                owner: Owner::Shared(owner.clone()),
            },
            Owner::Static => Self {
                ptr: part.as_ptr(),
                len: part.len(),
                owner: Owner::Static,
            },
        }
    }

    /// The bytes; copied unless they are in a buffer of their own.
    pub fn into_vec(self) -> Vec<u8> {
        if !matches!(self.owner, Owner::Boxed) {
            return self.to_vec();
        }
        let pin = ManuallyDrop::new(self);
        let slice = std::ptr::slice_from_raw_parts_mut(pin.ptr.cast_mut(), pin.len);
        // SAFETY: `from_vec` leaked a box of exactly this slice, and `pin`, which would free it, is never dropped.
        unsafe { Box::from_raw(slice) }.into_vec()
    }
}

impl Drop for Pinned {
    #[inline]
    fn drop(&mut self) {
        if let Owner::Boxed = self.owner {
            let slice = std::ptr::slice_from_raw_parts_mut(self.ptr.cast_mut(), self.len);
            // SAFETY: `from_vec` leaked a box of exactly this slice; nobody else frees it.
            drop(unsafe { Box::from_raw(slice) });
        }
    }
}

impl Deref for Pinned {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: The owner keeps `len` bytes at `ptr` alive and unchanged.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Pinned {
    fn default() -> Self {
        Self::from_static(&[])
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        match &self.owner {
            Owner::Shared(o) => Self {
                ptr: self.ptr,
                len: self.len,
                owner: Owner::Shared(o.clone()),
            },
            Owner::Static => Self {
                ptr: self.ptr,
                len: self.len,
                owner: Owner::Static,
            },
            Owner::Boxed => Self::copy_of(self),
        }
    }
}

impl PartialEq for Pinned {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for Pinned {}
impl PartialOrd for Pinned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Pinned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}
impl std::hash::Hash for Pinned {
    fn hash<H: std::hash::Hasher>(&self, h: &mut H) {
        (**self).hash(h);
    }
}
impl std::borrow::Borrow<[u8]> for Pinned {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_outlives_the_block_it_came_from() {
        let block: Arc<Vec<u8>> = Arc::new(b"hello world".to_vec());
        // SAFETY: The bytes live in the vector that the owner keeps.
        let p = unsafe { Pinned::from_owner(&block[6..], block.clone()) };
        drop(block);
        let q = p.clone();
        drop(p);
        assert_eq!(&*q, b"world");
        assert_eq!(Pinned::from_vec(Vec::new()).clone().len(), 0);
        assert_eq!(q.into_vec(), b"world");
    }

    #[test]
    fn a_buffer_of_its_own_is_handed_back_and_not_copied() {
        let bytes = b"hello".to_vec().into_boxed_slice().into_vec();
        let at = bytes.as_ptr();
        let back = Pinned::from_vec(bytes).into_vec();
        assert_eq!((back.as_ptr(), &back[..]), (at, &b"hello"[..]));
        assert_eq!(Pinned::from_vec(Vec::new()).into_vec(), b"");
        assert_eq!(Pinned::from_static(b"x").into_vec(), b"x");
    }
}
