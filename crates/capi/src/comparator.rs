//! `rocksdb_comparator_t`: orders of keys written in C.

use crate::ffi::{boxed, text};
use libc::{c_char, c_void};
use spanlith_base::{Comparator, UserComparator};
use std::cmp::Ordering;
use std::sync::Arc;

/// An order of keys; shared with the options and databases that use it.
pub struct rocksdb_comparator_t(pub(crate) Comparator);

/// Compares two keys: negative, zero, positive.
pub type CompareFn =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> i32;
/// Ends the life of a state.
pub type DestructorFn = unsafe extern "C" fn(*mut c_void);
/// Name of an object.
pub type NameFn = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// A state of the C program, ended by its destructor.
pub(crate) struct State {
    pub(crate) state: *mut c_void,
    destructor: Option<DestructorFn>,
}

// SAFETY: The C API demands that callbacks may be called from any thread, several at once.
unsafe impl Send for State {}
// SAFETY: As above.
unsafe impl Sync for State {}

impl State {
    pub(crate) fn new(state: *mut c_void, destructor: Option<DestructorFn>) -> Self {
        Self { state, destructor }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: Runs once, when nobody uses the state any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Compares two keys, which have timestamps or not, without them.
pub type CompareWithoutTimestampFn =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, u8, *const c_char, usize, u8) -> i32;

struct CComparator {
    state: State,
    compare: CompareFn,
    name: String,
    timestamps: Option<Timestamps>,
}

struct Timestamps {
    size: usize,
    compare: CompareFn,
    compare_without: Option<CompareWithoutTimestampFn>,
}

impl CComparator {
    fn call(&self, compare: CompareFn, a: &[u8], b: &[u8]) -> Ordering {
        let (pa, pb) = (a.as_ptr().cast(), b.as_ptr().cast());
        // SAFETY: The pointers are valid for their lengths; the function is the C program's.
        unsafe { compare(self.state.state, pa, a.len(), pb, b.len()) }.cmp(&0)
    }
}

impl UserComparator for CComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.call(self.compare, a, b)
    }

    fn timestamp_size(&self) -> usize {
        self.timestamps.as_ref().map_or(0, |t| t.size)
    }

    fn compare_without_timestamp(&self, a: &[u8], a_has: bool, b: &[u8], b_has: bool) -> Ordering {
        let Some(compare) = self.timestamps.as_ref().and_then(|t| t.compare_without) else {
            return self.compare(a, b);
        };
        let (pa, pb) = (a.as_ptr().cast(), b.as_ptr().cast());
        let (a_has, b_has) = (a_has.into(), b_has.into());
        // SAFETY: As in `call`.
        unsafe { compare(self.state.state, pa, a.len(), a_has, pb, b.len(), b_has) }.cmp(&0)
    }

    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.timestamps {
            Some(t) => self.call(t.compare, a, b),
            None => Ordering::Equal,
        }
    }
}

c_api! {
    /// An order by callbacks. `destructor` runs when the handle and all its users are gone.
    fn rocksdb_comparator_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        compare: CompareFn,
        name: NameFn,
    ) -> *mut rocksdb_comparator_t {
        let name = text(name(state)).into_owned();
        let state = State::new(state, destructor);
        let comparator = CComparator { state, compare, name, timestamps: None };
        boxed(rocksdb_comparator_t(Comparator::User(Arc::new(comparator))))
    }

    /// An order by callbacks of keys that end in timestamps of `timestamp_size` bytes.
    fn rocksdb_comparator_with_ts_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        compare: CompareFn,
        compare_ts: CompareFn,
        compare_without_ts: Option<CompareWithoutTimestampFn>,
        name: NameFn,
        timestamp_size: usize,
    ) -> *mut rocksdb_comparator_t {
        let name = text(name(state)).into_owned();
        let state = State::new(state, destructor);
        let timestamps = Some(Timestamps {
            size: timestamp_size,
            compare: compare_ts,
            compare_without: compare_without_ts,
        });
        let comparator = CComparator { state, compare, name, timestamps };
        boxed(rocksdb_comparator_t(Comparator::User(Arc::new(comparator))))
    }
}

destroyers! {
    rocksdb_comparator_destroy(rocksdb_comparator_t);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::unbox;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    unsafe extern "C" fn by_length(
        _: *mut c_void,
        _: *const c_char,
        alen: usize,
        _: *const c_char,
        blen: usize,
    ) -> i32 {
        alen as i32 - blen as i32
    }

    unsafe extern "C" fn name(_: *mut c_void) -> *const c_char {
        c"test.Length".as_ptr()
    }

    unsafe extern "C" fn count(state: *mut c_void) {
        // SAFETY: The test's state is a counter.
        unsafe { &*state.cast::<AtomicUsize>() }.fetch_add(1, Relaxed);
    }

    #[test]
    fn the_destructor_runs_once_when_the_last_user_is_gone() {
        let ended = AtomicUsize::new(0);
        let state = (&raw const ended).cast_mut().cast();
        // SAFETY: The callbacks fit, the state outlives the comparator.
        let handle = unsafe { rocksdb_comparator_create(state, Some(count), by_length, name) };
        // SAFETY: The handle was just made.
        let shared = unsafe { &*handle }.0.clone();
        assert_eq!(shared.name(), "test.Length");
        assert_eq!(shared.compare(b"zz", b"aaa"), Ordering::Less);
        assert_eq!(shared.compare(b"zz", b"aa"), Ordering::Equal);
        // SAFETY: The handle is not used again.
        drop(unsafe { unbox(handle) });
        assert_eq!(ended.load(Relaxed), 0);
        drop(shared);
        assert_eq!(ended.load(Relaxed), 1);
    }
}
