//! A record, and the comparison of records with search targets.

use crate::protection::checksum;
use spanlith_base::Comparator;
use spanlith_base::keys::{TAG_LEN, pack_tag, tag_sequence};
use spanlith_base::memory;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Fixed part of a record. Never handled as a reference: the bytes lie after it.
#[repr(C)]
pub(super) struct Record {
    /// Lets loom see a read of the bytes that is not ordered after their writing.
    #[cfg(loom)]
    written: loom::cell::UnsafeCell<()>,
    /// Length of the internal key.
    key_len: u32,
    value_len: u32,
}

/// More lines at once than a core asks for side by side only wait for each other.
const AHEAD_MAX: usize = 1024;

const _: () = assert!(align_of::<Record>() <= crate::arena::ALIGN);

/// Describes what a record is made of.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub(super) tag: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// Its first bytes lie after the value.
    pub(super) checksum: u64,
    /// Number of these bytes, at most 8.
    pub(super) checksum_len: usize,
}

/// A place in the order: before the first record that is not before it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    pub(super) tag: u64,
    /// Says whether a record of exactly this key and tag is before the place, too.
    pub(super) inclusive: bool,
}

/// A record that is initialised and lives at least for `'a`: its bytes may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRef<'a>(NonNull<Record>, PhantomData<&'a [u8]>);

impl<'a> RecordRef<'a> {
    /// Bytes that a record occupies.
    pub(super) fn size(content: &Content<'_>) -> usize {
        size_of::<Record>()
            + content.key.len()
            + TAG_LEN
            + content.value.len()
            + content.checksum_len
    }

    /// Writes a record into `memory`.
    ///
    /// # Safety
    /// `memory` has [`Self::size`] bytes, aligned for a record, nobody else uses them, and they stay
    /// valid and unmoved for `'a`.
    pub(super) unsafe fn write(memory: NonNull<u8>, content: &Content<'_>) -> Self {
        let key = content.key;
        let value = content.value;
        let key_len = u32::try_from(key.len() + TAG_LEN).expect("M1: key below 4 GiB");
        let value_len = u32::try_from(value.len()).expect("M1: value below 4 GiB");
        let record = memory.cast::<Record>();
        // SAFETY: Header, key, tag, value and checksum fill exactly the `size` bytes, in this order.
        unsafe {
            record.write(Record {
                #[cfg(loom)]
                written: loom::cell::UnsafeCell::new(()),
                key_len,
                value_len,
            });
            #[cfg(loom)]
            (*record.as_ptr()).written.with_mut(|_| ());
            let bytes = memory.add(size_of::<Record>()).as_ptr();
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            let at = bytes.add(key.len());
            at.copy_from_nonoverlapping(content.tag.to_le_bytes().as_ptr(), TAG_LEN);
            let at = at.add(TAG_LEN);
            at.copy_from_nonoverlapping(value.as_ptr(), value.len());
            if content.checksum_len != 0 {
                let sum = content.checksum.to_le_bytes();
                at.add(value.len())
                    .copy_from_nonoverlapping(sum.as_ptr(), content.checksum_len);
            }
        }
        Self(record, PhantomData)
    }

    /// # Safety
    /// `raw` is null, or a record whose writing happened before and that lives for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw(raw: *mut Record) -> Option<Self> {
        NonNull::new(raw).map(|p| Self(p, PhantomData))
    }

    #[inline(always)]
    pub(super) fn raw(self) -> *mut Record {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn key_len(self) -> usize {
        #[cfg(loom)]
        // SAFETY: An initialised record that lives for 'a.
        unsafe {
            (*self.raw()).written.with(|_| ());
        }
        // SAFETY: An initialised record that lives for 'a (the type's promise). M1: never changes.
        unsafe { (&raw const (*self.raw()).key_len).read() as usize }
    }

    #[inline(always)]
    fn value_len(self) -> usize {
        // SAFETY: As in `key_len`.
        unsafe { (&raw const (*self.raw()).value_len).read() as usize }
    }

    #[inline(always)]
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: Callers stay inside key, tag, value and checksum, which `write` put after the header.
        unsafe {
            let start = self.0.cast::<u8>().add(size_of::<Record>() + at);
            std::slice::from_raw_parts(start.as_ptr(), len)
        }
    }

    /// User key and tag.
    #[inline(always)]
    pub(super) fn internal_key(self) -> &'a [u8] {
        self.bytes(0, self.key_len())
    }

    #[inline(always)]
    pub(super) fn user_key(self) -> &'a [u8] {
        self.bytes(0, self.key_len() - TAG_LEN)
    }

    #[inline(always)]
    pub(super) fn tag(self) -> u64 {
        let at = size_of::<Record>() + self.key_len() - TAG_LEN;
        // SAFETY: `write` put the eight bytes of the tag there; an array needs no alignment.
        let bytes = unsafe { self.0.cast::<u8>().add(at).cast::<[u8; TAG_LEN]>().read() };
        u64::from_le_bytes(bytes)
    }

    #[inline(always)]
    pub(super) fn value(self) -> &'a [u8] {
        self.bytes(self.key_len(), self.value_len())
    }

    /// Returns whether the entry is what was added. Requires: written with that many bytes of checksum.
    pub(super) fn is_intact(self, checksum_len: usize) -> bool {
        let kept = self.bytes(self.key_len() + self.value_len(), checksum_len);
        let sum = checksum(self.tag(), self.user_key(), self.value()).to_le_bytes();
        sum.starts_with(kept)
    }

    /// Asks for the record's first line.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        prefetch(self.raw());
    }

    /// Asks for as many bytes after the record as it has itself, up to [`AHEAD_MAX`], where the next one
    /// will be written.
    #[inline(always)]
    pub(super) fn prefetch_next(self, size: usize) {
        let end = self.raw().cast::<u8>().wrapping_add(size);
        for at in (0..size.min(AHEAD_MAX)).step_by(64) {
            prefetch(end.wrapping_add(at));
        }
    }

    /// [`Self::is_before`], with one wait for memory: a record that begins near the end of a line has
    /// its key in the next.
    #[inline(always)]
    pub(super) fn is_before_asked(self, target: &Target<'_>, comparator: &Comparator) -> bool {
        let end = size_of::<Record>() + target.key.len();
        prefetch(self.raw().cast::<u8>().wrapping_add(end));
        self.is_before(target, comparator)
    }

    /// Returns whether the record comes before `target`.
    #[inline]
    pub(super) fn is_before(self, target: &Target<'_>, comparator: &Comparator) -> bool {
        match comparator.compare(self.user_key(), target.key) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                // Newer records come first (B1).
                let tag = self.tag();
                tag > target.tag || target.inclusive && tag == target.tag
            }
        }
    }

    /// Returns whether the record has the user key of `target`.
    #[inline]
    pub(super) fn has_key_of(self, target: &Target<'_>, comparator: &Comparator) -> bool {
        comparator.equal(self.user_key(), target.key)
    }

    /// The place of the record.
    #[inline]
    pub(super) fn place(self) -> Target<'a> {
        Target {
            key: self.user_key(),
            tag: self.tag(),
            inclusive: false,
        }
    }
}

impl<'a> Target<'a> {
    /// Place of the newest record of `key` whose tag is at most `tag`.
    #[inline]
    pub(super) fn new(key: &'a [u8], tag: u64) -> Self {
        Self {
            key,
            tag,
            inclusive: false,
        }
    }

    /// Place of a new record: before all records of the same key and sequence number, whatever their
    /// type, so that the record found there tells whether the pair is taken (M2).
    #[inline]
    pub(super) fn for_insert(key: &'a [u8], sequence: u64) -> Self {
        Self::new(key, pack_tag(sequence, 0xff))
    }

    /// Place after the record at this place.
    #[inline]
    pub(super) fn behind(self) -> Self {
        Self {
            inclusive: true,
            ..self
        }
    }

    /// Returns whether `record`, the first not before the target, has its key and sequence number.
    #[inline]
    pub(super) fn is_taken_by(&self, record: RecordRef<'_>, comparator: &Comparator) -> bool {
        tag_sequence(record.tag()) == tag_sequence(self.tag) && record.has_key_of(self, comparator)
    }
}

/// The comparator's word for what of `key` lies after its first `skip` bytes.
#[inline(always)]
pub(super) fn word(comparator: &Comparator, key: &[u8], skip: usize) -> u64 {
    // A key that does not belong into the node (the search will notice) may be shorter.
    comparator.prefix(key.get(skip..).unwrap_or_default())
}

/// Bytes that all keys between `low` and `high` have in common.
pub(super) fn common_prefix(comparator: &Comparator, low: &[u8], high: &[u8]) -> usize {
    match comparator {
        Comparator::Bytewise | Comparator::ReverseBytewise => {
            low.iter().zip(high).take_while(|(a, b)| a == b).count()
        }
        Comparator::User(_) => 0,
    }
}

/// Asks for the line at `at`.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    memory::prefetch::<1>(at.cast());
}
