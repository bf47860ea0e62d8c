//! Regions: two mebibytes on their natural boundary, from the system or from those kept.
//!
//! A region that was asked for whole and is given back while others are taken stays mapped for the next taker, up to
//! [`KEPT_MAX`]: whoever takes it finds its pages there, without a fault and without their being
//! cleared. One that comes back when nobody fills a memtable, and a cache has taken regions since, goes to
//! the system at once. When nobody takes any for a while, the system is first told that it may take the pages of kept
//! regions when it needs them (`MADV_FREE`), so that they do not add to what a limit on memory has to hold,
//! and then given them ([`tend_spare`]).
//!
//! Contents of a region are whatever its last owner left, or zeros: initialised in any case.
#![expect(unsafe_code, reason = "maps and unmaps memory")]

use super::huge::{Huge, Way};
use super::{ahead, fork};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a region: a huge page of the common machines.
pub const REGION_BYTES: usize = 2 << 20;
/// Whole regions kept at most: the size of an ordinary memtable.
const KEPT_MAX: usize = 32;
/// So long after somebody took a whole one more are expected to be taken: a memtable that is filled so slowly that its
/// next region comes later gains nothing by one that is there.
const FILLING: Duration = Duration::from_millis(200);
/// Regions without pages that are mapped at once.
const CHUNK: usize = 8;
/// Other regions kept at most: enough that one who takes and gives back in turn asks the system rarely.
const PLAIN_KEPT_MAX: usize = 2;

/// Memory that is owned, of [`REGION_BYTES`], aligned to its size.
pub struct Region {
    base: NonNull<u8>,
    /// One that its owner fills soon.
    is_whole: bool,
    /// Its pages come as single ones, and whoever took it asks for them.
    lacks_pages: bool,
    /// It is kept, and the system may take its pages.
    is_offered: bool,
}

// SAFETY: A region is plain memory with one owner.
unsafe impl Send for Region {}
// SAFETY: Nothing is reached through a shared reference but the address.
unsafe impl Sync for Region {}

/// The lock, while the process forks.
pub(super) type Locked = MutexGuard<'static, Kept>;

pub(super) fn lock() -> Locked {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Kept {
    whole: Vec<Region>,
    plain: Vec<Region>,
    /// Whole ones to be, without pages.
    bare: Vec<Region>,
    huge: Huge,
    /// When a region was taken last.
    taken: Option<Instant>,
    /// Since then others were taken for a cache.
    is_cache_filling: bool,
}

impl Kept {
    /// Returns whether a memtable is being filled, so that whole regions will be taken.
    fn is_filling(&self) -> bool {
        self.taken.is_some_and(|at| at.elapsed() < FILLING)
    }

    /// Returns whether a whole region that comes back is kept: not if readers have followed writers.
    fn expects_whole(&self) -> bool {
        self.is_filling() || !self.is_cache_filling
    }
}

/// A leaf: nothing is locked while it is held.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    whole: Vec::new(),
    plain: Vec::new(),
    bare: Vec::new(),
    huge: Huge::new(),
    taken: None,
    is_cache_filling: false,
});

impl Region {
    /// A region that its owner fills soon: with all its pages, or as a huge page where these come fast, or without
    /// pages ([`Self::lacks_pages`]). `None` if the system refuses.
    pub fn whole() -> Option<Self> {
        let now = Instant::now();
        let (kept, way) = with(|kept| {
            kept.taken = Some(now);
            kept.is_cache_filling = false;
            match kept.whole.pop() {
                Some(region) => (Some(region), Way::Single),
                None => (None, kept.huge.next()),
            }
        });
        if kept.is_some() {
            return kept;
        }
        match way {
            Way::Huge => bare().map(Self::touched_huge),
            Way::Probed => {
                ahead::want();
                bare()
            }
            Way::Single => bare(),
        }
    }

    /// Somebody will ask for a whole one soon.
    pub fn expect_whole() {
        if with(|kept| kept.whole.is_empty() && kept.huge.wants_probe()) {
            ahead::want();
        }
    }

    /// Tries a huge page, which is kept for who asks for a whole region, unless one lies there. Sees to it that there
    /// are regions without pages for those who ask meanwhile: nobody maps any while a page is cleared, and
    /// waits for it.
    pub(super) fn make_ready() {
        let (is_wanted, lacks_bare) = with(|kept| {
            let is_wanted = kept.whole.is_empty() && kept.huge.wants_probe();
            (is_wanted, kept.bare.len() < CHUNK)
        });
        if is_wanted && lacks_bare {
            map_chunk();
        }
        if is_wanted {
            drop(bare().map(Self::touched_huge));
        }
    }

    /// As a huge page, touched.
    fn touched_huge(mut self) -> Self {
        self.lacks_pages = false;
        let time = self.touch_huge();
        with(|kept| kept.huge.took(time));
        self
    }

    /// Asks for a huge page and touches it; tells the CPU time that took.
    fn touch_huge(&self) -> Duration {
        let begin = cpu_time();
        let base = self.base.as_ptr();
        // SAFETY: Advice about memory mapped and owned, and its first byte, which is zero before. A
        // refusal costs speed only, so it is ignored.
        unsafe {
            #[cfg(target_os = "linux")]
            libc::madvise(base.cast(), REGION_BYTES, libc::MADV_HUGEPAGE);
            base.write_volatile(0);
        }
        cpu_time().saturating_sub(begin)
    }

    /// A region that is filled bit by bit: one that is there already, else one whose pages come as they
    /// are asked for ([`Self::populate`]). `None` if the system refuses.
    pub(super) fn gradual() -> Option<Self> {
        with(|kept| {
            kept.is_cache_filling = true;
            kept.plain.pop().or_else(|| kept.whole.pop())
        })
        .or_else(map)
    }

    /// The same for who fills a part of one: whole ones are left to the memtable that is being filled, if one is.
    pub fn partial() -> Option<Self> {
        with(|kept| match kept.plain.pop() {
            None if !kept.is_filling() => kept.whole.pop(),
            plain => plain,
        })
        .or_else(map)
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its bytes: zeros, or what the last owner left.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: Mapped with this size, initialised in any case, and written through `&mut` alone by whoever calls this.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), REGION_BYTES) }
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: As above, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), REGION_BYTES) }
    }

    /// Returns whether its pages come one by one.
    pub(super) fn is_gradual(&self) -> bool {
        !self.is_whole
    }

    /// Returns whether its owner does well to ask for pages a little before it needs them ([`Self::populate`]).
    pub fn lacks_pages(&self) -> bool {
        self.lacks_pages
    }

    /// Asks the system for the pages of a part at once, which costs less than a fault for each: some 330 ns
    /// a page.
    pub fn populate(&self, at: usize, bytes: usize) {
        debug_assert!(at + bytes <= REGION_BYTES, "M1: part of a region");
        #[cfg(target_os = "linux")]
        // SAFETY: The part lies in this region; the call changes no contents. Systems that do not know
        // it refuse, and pages come by faults.
        unsafe {
            libc::madvise(
                self.base.as_ptr().add(at).cast(),
                bytes,
                libc::MADV_POPULATE_WRITE,
            );
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (at, bytes);
    }

    /// Lets the system take its pages while nobody uses it. They may become zeros from now on.
    fn offer(&mut self) {
        #[cfg(target_os = "linux")]
        // SAFETY: A kept region: the owner gave the contents up.
        unsafe {
            libc::madvise(self.base.as_ptr().cast(), REGION_BYTES, libc::MADV_FREE);
        }
        self.is_offered = true;
    }

    /// Gives it to the system, now.
    fn unmap(self) {
        let base = self.base;
        std::mem::forget(self);
        // SAFETY: The region was mapped with this size and its owner gave it up.
        let status = unsafe { libc::munmap(base.as_ptr().cast(), REGION_BYTES) };
        debug_assert_eq!(status, 0, "M1: unmapping a region");
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let mine = Self {
            base: self.base,
            is_whole: self.is_whole,
            // Most of them are there.
            lacks_pages: false,
            is_offered: false,
        };
        let surplus = with(|kept| {
            let is_wanted = !mine.is_whole || kept.expects_whole();
            let (list, most) = if mine.is_whole {
                (&mut kept.whole, KEPT_MAX)
            } else {
                (&mut kept.plain, PLAIN_KEPT_MAX)
            };
            if list.len() < most && is_wanted {
                list.push(mine);
                return None;
            }
            Some(mine)
        });
        if let Some(surplus) = surplus {
            surplus.unmap();
        }
    }
}

/// Gives the regions that nobody uses to the system; those without pages take up addresses only, and stay.
fn release_spare() {
    let (whole, plain) = with(|kept| {
        (
            std::mem::take(&mut kept.whole),
            std::mem::take(&mut kept.plain),
        )
    });
    whole.into_iter().chain(plain).for_each(Region::unmap);
}

/// Looks after the regions that nobody uses: whoever fills regions will want more, so nothing is done until
/// no whole one was taken for `offered_after`; then the system may take their pages, and after
/// `released_after` it gets them. Says whether none is left.
pub fn tend_spare(offered_after: Duration, released_after: Duration) -> bool {
    let idle = with(|kept| kept.taken.map_or(Duration::MAX, |at| at.elapsed()));
    if idle >= released_after {
        release_spare();
        return true;
    }
    if idle >= offered_after {
        // One after the other: nobody waits for the lock longer than for one.
        while with(|kept| {
            let next = kept.whole.iter_mut().find(|region| !region.is_offered);
            next.map(Region::offer).is_some()
        }) {}
    }
    false
}

/// CPU time of this thread: other than the time of the day, it does not count waits for a core.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: Writes the structure it is given. If it fails, all times are zero: none is slow.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn with<R>(f: impl FnOnce(&mut Kept) -> R) -> R {
    f(&mut lock())
}

/// A whole region to be, without pages.
fn bare() -> Option<Region> {
    let take = || with(|kept| kept.bare.pop());
    take().or_else(|| {
        map_chunk();
        take()
    })
}

/// Maps regions without pages, which come as single ones if nobody asks otherwise, also where the system's
/// habit is another.
fn map_chunk() {
    let Some(first) = map_aligned(CHUNK * REGION_BYTES) else {
        return;
    };
    #[cfg(target_os = "linux")]
    // SAFETY: Advice about memory mapped and owned; a refusal costs speed only, so it is ignored.
    unsafe {
        libc::madvise(
            first.as_ptr().cast(),
            CHUNK * REGION_BYTES,
            libc::MADV_NOHUGEPAGE,
        );
    }
    with(|kept| {
        // Handed out from the lowest address on.
        kept.bare.extend((0..CHUNK).rev().map(|i| Region {
            // SAFETY: Inside the mapping.
            base: unsafe { first.add(i * REGION_BYTES) },
            is_whole: true,
            lacks_pages: true,
            is_offered: false,
        }));
    });
}

/// A fresh mapping on its natural boundary.
fn map() -> Option<Region> {
    // The system tends to place mappings below the previous one, so the first try often fits.
    let mut base = map_bytes(REGION_BYTES)?;
    if !base.as_ptr().addr().is_multiple_of(REGION_BYTES) {
        // SAFETY: Made just above and unused.
        unsafe { libc::munmap(base.as_ptr().cast(), REGION_BYTES) };
        base = map_aligned(REGION_BYTES)?;
    }
    Some(Region {
        base,
        is_whole: false,
        lacks_pages: false,
        is_offered: false,
    })
}

/// A fresh mapping of whole regions, on their natural boundary.
fn map_aligned(bytes: usize) -> Option<NonNull<u8>> {
    let wide = map_bytes(bytes + REGION_BYTES)?;
    let head = wide.as_ptr().addr().next_multiple_of(REGION_BYTES) - wide.as_ptr().addr();
    let tail = REGION_BYTES - head;
    // SAFETY: Head, regions and tail partition the mapping made above; the first and the last part are
    // given back unused. There is always a tail: the head is shorter than a region.
    unsafe {
        let base = wide.add(head);
        if head > 0 {
            libc::munmap(wide.as_ptr().cast(), head);
        }
        libc::munmap(base.add(bytes).as_ptr().cast(), tail);
        Some(base)
    }
}

/// A mapping of zeros, of pages that come when they are touched.
pub(super) fn map_bytes(bytes: usize) -> Option<NonNull<u8>> {
    fork::prepare();
    // SAFETY: A fresh private anonymous mapping touches no existing memory.
    let base = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        None
    } else {
        NonNull::new(base.cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_lies_on_its_boundary_and_is_whole() {
        let regions: Vec<Region> = (0..5).filter_map(|_| Region::whole()).collect();
        assert_eq!(regions.len(), 5);
        for (i, region) in regions.iter().enumerate() {
            assert!(region.base().as_ptr().addr().is_multiple_of(REGION_BYTES));
            // SAFETY: The region is owned here and initialised.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(region.base().as_ptr(), REGION_BYTES) };
            bytes.fill(i as u8);
        }
        for (i, region) in regions.iter().enumerate() {
            // SAFETY: As above.
            let bytes = unsafe { std::slice::from_raw_parts(region.base().as_ptr(), REGION_BYTES) };
            assert!(bytes.iter().all(|&b| b == i as u8));
        }
    }

    #[test]
    fn spare_regions_go_when_nobody_takes_any() {
        const HOUR: Duration = Duration::from_secs(3600);
        drop(Region::whole());
        assert!(!tend_spare(HOUR, 2 * HOUR));
        // Other tests of this process take regions, too.
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < Duration::from_secs(60));
            drop(Region::whole());
            std::thread::sleep(Duration::from_millis(2));
            assert!(!tend_spare(Duration::from_millis(1), HOUR));
            if with(|kept| kept.whole.iter().any(|region| region.is_offered)) {
                break;
            }
        }
        while !tend_spare(HOUR, Duration::from_millis(1)) {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_region_that_comes_back_while_a_cache_fills_and_no_memtable_does_is_not_kept() {
        let long_ago = Instant::now().checked_sub(2 * FILLING);
        for (taken, is_cache_filling, is_kept) in [
            (Some(Instant::now()), false, true),
            (Some(Instant::now()), true, true),
            (long_ago, false, true),
            (long_ago, true, false),
            (None, true, false),
        ] {
            let kept = Kept {
                whole: Vec::new(),
                plain: Vec::new(),
                bare: Vec::new(),
                huge: Huge::new(),
                taken,
                is_cache_filling,
            };
            assert_eq!(
                kept.expects_whole(),
                is_kept,
                "{taken:?} {is_cache_filling}"
            );
        }
    }

    /// Other tests of this process take and drop regions, so one is looked for until it is there.
    #[test]
    fn a_huge_page_is_made_ready_for_the_next_taker() {
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < Duration::from_secs(60));
            with(|kept| kept.huge = Huge::new());
            Region::expect_whole();
            std::thread::sleep(Duration::from_millis(2));
            let Some(region) = with(|kept| kept.whole.pop()) else {
                continue;
            };
            assert!(!region.lacks_pages);
            // SAFETY: The region is owned here and initialised.
            if unsafe { region.base.as_ptr().add(REGION_BYTES - 1).read() == 0 } {
                break;
            }
            // One that somebody dropped.
        }
        for _ in 0..3 * CHUNK {
            let region = bare().expect("memory");
            assert!(region.lacks_pages && region.is_whole);
            assert!(region.base.as_ptr().addr().is_multiple_of(REGION_BYTES));
        }
    }

    #[test]
    fn only_so_many_regions_are_kept() {
        let regions: Vec<Region> = (0..KEPT_MAX + 8).filter_map(|_| Region::whole()).collect();
        drop(regions);
        assert!(with(|kept| kept.whole.len()) <= KEPT_MAX);
        let gradual: Vec<Region> = (0..KEPT_MAX + 8)
            .filter_map(|_| Region::gradual())
            .collect();
        drop(gradual);
        assert!(with(|kept| kept.plain.len()) <= PLAIN_KEPT_MAX);
    }
}
