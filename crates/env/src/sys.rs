//! System calls the standard library does not offer, each behind a safe function.
//!
//! A function takes what it needs by value or reference and turns the C convention (-1 and errno)
//! into `io::Result`; it keeps no state and knows nothing of databases. Where a call exists on Linux
//! only, elsewhere it does nothing and says so.
#![expect(unsafe_code, reason = "system calls without a wrapper in std")]

mod ticks;

pub use ticks::Ticks;

use crate::traits::Access;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Makes a call again while a signal interrupts it. Signals are the program's: a runtime that preempts its threads
/// by them interrupts every call on some network and user-space file systems.
pub(crate) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The same for a change of names, which may have been made when the call is interrupted: the next then fails with
/// `error`, which is none if `is_made` says so.
pub(crate) fn change_again(
    error: io::ErrorKind,
    is_made: impl FnOnce() -> bool,
    mut call: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut is_interrupted = false;
    let result = again(|| {
        let result = call();
        is_interrupted |= matches!(&result, Err(e) if e.kind() == io::ErrorKind::Interrupted);
        result
    });
    match result {
        Err(e) if is_interrupted && e.kind() == error && is_made() => Ok(()),
        other => other,
    }
}

fn offset(value: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Has `call` made in every child that `fork` makes from now on, once however often it is asked for. It may do
/// nothing but what a signal handler may.
pub(crate) fn in_children(call: extern "C" fn()) {
    static ASKED: OnceLock<()> = OnceLock::new();
    ASKED.get_or_init(|| {
        // SAFETY: The handler is a function of this library, which forgets it when it is unloaded. That there is
        // no memory for it is an error nobody can act on.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(call)) };
    });
}

/// Closes `file` and tells what the kernel says about it. An interrupted close has closed.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: `into_raw_fd` gives the descriptor away, so nobody else closes or uses it.
    let result = check(unsafe { libc::close(file.into_raw_fd()) });
    match result {
        Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(()),
        other => other,
    }
}

/// Reserves `[from, from + len)` without changing the size. Nothing happens outside Linux.
pub(crate) fn reserve(file: &File, from: u64, len: u64) -> io::Result<()> {
    let (from, len) = (offset(from)?, offset(len)?);
    #[cfg(target_os = "linux")]
    {
        // SAFETY: The descriptor is open while `file` is borrowed; the call touches no memory.
        check(unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, len) })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, from, len);
        Ok(())
    }
}

/// Starts write-back of `[from, from + len)` without waiting. Nothing happens outside Linux.
pub(crate) fn write_back(file: &File, from: u64, len: u64) -> io::Result<()> {
    let (from, len) = (offset(from)?, offset(len)?);
    #[cfg(target_os = "linux")]
    {
        let flags = libc::SYNC_FILE_RANGE_WRITE;
        // SAFETY: The descriptor is open while `file` is borrowed; the call touches no memory.
        again(|| check(unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, flags) }))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, from, len);
        Ok(())
    }
}

/// Waits for the write-back of `[from, from + len)` asked for before and starts that of the same range. Nothing
/// happens outside Linux.
pub(crate) fn write_back_again(file: &File, from: u64, len: u64) -> io::Result<()> {
    let (from, len) = (offset(from)?, offset(len)?);
    #[cfg(target_os = "linux")]
    {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
        // SAFETY: The descriptor is open while `file` is borrowed; the call touches no memory.
        again(|| check(unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, flags) }))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, from, len);
        Ok(())
    }
}

/// Waits for the write-back of `[0, from + len)` asked for before and starts that of the whole range.
/// Nothing happens outside Linux.
pub(crate) fn write_back_strictly(file: &File, from: u64, len: u64) -> io::Result<()> {
    let len = offset(from.saturating_add(len))?;
    #[cfg(target_os = "linux")]
    {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
        // SAFETY: The descriptor is open while `file` is borrowed; the call touches no memory.
        again(|| check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, len, flags) }))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, len);
        Ok(())
    }
}

/// Hints how the whole file is going to be read.
pub(crate) fn advise(file: &File, access: Access) {
    #[cfg(target_os = "linux")]
    {
        let advice = match access {
            Access::Normal => libc::POSIX_FADV_NORMAL,
            Access::Random => libc::POSIX_FADV_RANDOM,
            Access::Sequential => libc::POSIX_FADV_SEQUENTIAL,
            Access::NotNeeded => libc::POSIX_FADV_DONTNEED,
        };
        // SAFETY: The descriptor is open while `file` is borrowed; the call touches no memory. Its
        // result cannot matter, because it is a hint.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, access);
}

/// Flag that opens a file past the page cache.
#[cfg(target_os = "linux")]
pub(crate) const DIRECT: i32 = libc::O_DIRECT;
/// Elsewhere the page cache is always in between.
#[cfg(not(target_os = "linux"))]
pub(crate) const DIRECT: i32 = 0;

/// Hints that `[from, from + len)` will be read soon.
pub(crate) fn will_need(file: &File, from: u64, len: u64) {
    #[cfg(target_os = "linux")]
    if let (Ok(from), Ok(len)) = (offset(from), offset(len)) {
        // SAFETY: The descriptor is open while `file` is borrowed; the call touches no memory. Its
        // result cannot matter, because it is a hint.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), from, len, libc::POSIX_FADV_WILLNEED) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, from, len);
}

/// Flag with which a block device is nobody else's.
pub(crate) const EXCLUSIVE: i32 = libc::O_EXCL;

/// Returns whether an error says that the system does not know a call, or not for this file.
pub(crate) fn is_unknown(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL)
    )
}

/// Writes at an offset so that what was written is durable by itself; how many bytes it were.
pub(crate) fn write_durable(file: &File, data: &[u8], at: u64) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    {
        let part = libc::iovec {
            iov_base: data.as_ptr().cast_mut().cast(),
            iov_len: data.len(),
        };
        let (file, at) = (file.as_raw_fd(), offset(at)?);
        // SAFETY: The descriptor is open while `file` is borrowed; the one part is a slice that lives across
        // the call, which only reads it.
        let n = unsafe { libc::pwritev2(file, &raw const part, 1, at, libc::RWF_DSYNC) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, data, at);
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

/// Takes the write lock over `len` bytes from `from` on, to the end if `len` is 0, without waiting. It belongs to this
/// open file, not to the process.
pub(crate) fn lock_range(file: &File, from: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let mut lock = whole_file(libc::F_WRLCK as libc::c_int);
        (lock.l_start, lock.l_len) = (offset(from)?, offset(len)?);
        let file = file.as_raw_fd();
        // SAFETY: F_OFD_SETLK reads one `flock` from the pointer, which lives across the call.
        again(|| check(unsafe { libc::fcntl(file, libc::F_OFD_SETLK, &raw const lock) }))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (from, len);
        lock(file)
    }
}

/// Gives up whatever [`lock_range`] took by way of this open file.
pub(crate) fn unlock_range(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let lock = whole_file(libc::F_UNLCK as libc::c_int);
        let file = file.as_raw_fd();
        // SAFETY: F_OFD_SETLK reads one `flock` from the pointer, which lives across the call.
        again(|| check(unsafe { libc::fcntl(file, libc::F_OFD_SETLK, &raw const lock) }))
    }
    #[cfg(not(target_os = "linux"))]
    unlock(file)
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: `flock` is plain integers; all zeros is a valid value (the whole file from its start).
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Takes the write lock over the whole file without waiting.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    let lock = whole_file(libc::F_WRLCK as libc::c_int);
    // SAFETY: F_SETLK reads one `flock` from the pointer, which lives across the call.
    again(|| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) }))
}

/// Gives the lock up.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    let lock = whole_file(libc::F_UNLCK as libc::c_int);
    // SAFETY: F_SETLK reads one `flock` from the pointer, which lives across the call.
    again(|| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) }))
}

/// Describes who holds a lock that keeps us from the write lock over the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody (any more).
    None,
    /// This process id.
    Process(u32),
    /// Somebody the system does not name: another machine, container or an open-file lock.
    Unknown,
}

/// Asks who holds the lock.
pub(crate) fn lock_holder(file: &File) -> io::Result<Holder> {
    let mut lock = whole_file(libc::F_WRLCK as libc::c_int);
    // SAFETY: F_GETLK reads and writes the one `flock` at the pointer, which lives across the call.
    again(|| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) }))?;
    if libc::c_int::from(lock.l_type) == libc::F_UNLCK as libc::c_int {
        return Ok(Holder::None);
    }
    Ok(match u32::try_from(lock.l_pid) {
        Ok(pid) if pid > 0 => Holder::Process(pid),
        _ => Holder::Unknown,
    })
}

/// A number for the calling thread: its `pthread_self`.
pub fn thread_number() -> u64 {
    // SAFETY: The call has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

/// Gives the calling thread, and those that it starts, a lower priority for the processor: `nice` from 1 to 19. It keeps the
/// lower one of both and cannot have a higher one again. Nothing happens outside Linux, where it would hold for the process.
pub(crate) fn lower_cpu(nice: u8) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let nice = libc::c_int::from(nice.min(19)).max(thread_nice());
        // SAFETY: The call takes numbers; 0 is the calling thread.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = nice;
        Ok(())
    }
}

/// The `nice` value of the calling thread; 0 outside Linux.
pub(crate) fn thread_nice() -> libc::c_int {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: The call takes numbers; 0 is the calling thread, for which it does not fail.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// Has the disk serve the calling thread, and those that it starts, when nobody else wants it, as far as the scheduler of
/// the disk knows classes. Nothing happens outside Linux.
pub(crate) fn lower_io() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        /// `IOPRIO_WHO_PROCESS`: a thread.
        const THREAD: libc::c_int = 1;
        /// `IOPRIO_CLASS_IDLE`, in its place.
        const IDLE: libc::c_int = 3 << 13;
        // SAFETY: The call takes numbers; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0, IDLE) };
        check(if result == -1 { -1 } else { 0 })
    }
    #[cfg(not(target_os = "linux"))]
    {
        Ok(())
    }
}

/// Nanoseconds of processor time that the calling thread used; 0 if the system does not tell.
pub(crate) fn thread_cpu_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a `timespec` that lives across the call.
    let told = check(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) });
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    told.map_or(0, |()| seconds.saturating_mul(1_000_000_000) + nanos)
}

/// Bytes that `malloc` really gives for so many.
///
/// Allocators with size classes round up, always alike. That of glibc gives what is asked for but for a
/// few bytes, whose number depends on what was freed before: with it, and where the system does not
/// tell, the answer is `bytes`.
pub fn usable_size(bytes: u64) -> u64 {
    /// Of this size a class is further away than the bytes that glibc may add.
    const PROBE: usize = 20_001;
    const ADDED_MAX: usize = 64;
    static HAS_CLASSES: OnceLock<bool> = OnceLock::new();
    if !*HAS_CLASSES.get_or_init(|| allocated(PROBE) > PROBE + ADDED_MAX) {
        return bytes;
    }
    let usable = usize::try_from(bytes).map_or(0, allocated);
    bytes.max(usable as u64)
}

/// Size of a fresh allocation of so many bytes; 0 if there is no room or the system does not tell.
fn allocated(bytes: usize) -> usize {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: The pointer is null or that of a live allocation, which nobody else knows; asking and
        // freeing accept both.
        unsafe {
            let pointer = libc::malloc(bytes);
            let usable = libc::malloc_usable_size(pointer);
            libc::free(pointer);
            usable
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = bytes;
        0
    }
}

/// Says how large the file system of `path` is, and how full.
fn statvfs(path: &Path) -> io::Result<libc::statvfs> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `statvfs` is plain integers; all zeros is a valid value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` is a C string and `stat` a `statvfs`; both live across the call.
    again(|| check(unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) }))?;
    Ok(stat)
}

/// Bytes of the whole file system of `path`.
pub(crate) fn total_space(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    Ok((stat.f_blocks as u64).saturating_mul(stat.f_frsize as u64))
}

/// Bytes free for this process on the file system of `path`.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    // SAFETY: The call has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let blocks = if root { stat.f_bfree } else { stat.f_bavail };
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    Ok((blocks as u64).saturating_mul(stat.f_frsize as u64))
}

/// How many descriptors this process may have; `None` if there is no limit.
pub(crate) fn open_files_max() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives across the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let most = limit.rlim_cur;
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    (result == 0 && most != libc::RLIM_INFINITY).then_some(most as u64)
}

/// Fills `out` from the kernel's generator.
pub(crate) fn random(out: &mut [u8]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..).filter(|r| !r.is_empty()) {
            // SAFETY: The pointer and length are those of a slice we may write.
            let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
            match usize::try_from(n) {
                Ok(n) => filled += n,
                Err(_) => {
                    let e = io::Error::last_os_error();
                    if e.kind() != io::ErrorKind::Interrupted {
                        return Err(e);
                    }
                }
            }
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::io::Read;
        File::open("/dev/urandom")?.read_exact(out)
    }
}
