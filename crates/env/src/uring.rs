//! Several reads at once through Linux's `io_uring`, one ring per thread.
//!
//! The ring is made at a thread's first use. A kernel or sandbox that refuses is asked once per process;
//! from then on callers are told to read one by one. Reads are submitted in groups of at most
//! [`ENTRIES`] and waited for before the call returns, so that no buffer is lent longer than the call.
//!
//! Threads: any; a ring belongs to its thread.
#![cfg_attr(
    all(target_os = "linux", feature = "io-uring"),
    expect(
        unsafe_code,
        reason = "the kernel writes into buffers it was given by address"
    )
)]

use crate::traits::ReadRequest;
use std::os::fd::BorrowedFd;

/// Reads in flight at most.
#[cfg(all(target_os = "linux", feature = "io-uring"))]
const ENTRIES: u32 = 64;

/// Makes all `requests`, each on the file that `file_of` names for its place. Results may be short, or errors without
/// words. Returns false, with nothing done, where there is no ring.
#[cfg(not(all(target_os = "linux", feature = "io-uring")))]
pub(crate) fn read_many<'f>(
    _file_of: impl Fn(usize) -> BorrowedFd<'f>,
    _requests: &mut [ReadRequest<'_>],
) -> bool {
    false
}

#[cfg(all(target_os = "linux", feature = "io-uring"))]
pub(crate) use ring::read_many;

#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod ring {
    use super::{BorrowedFd, ENTRIES, ReadRequest};
    use crate::process::Process;
    use io_uring::{IoUring, opcode, types};
    use spanlith_base::Error;
    use std::cell::RefCell;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Set once the kernel refused a ring or a read through it. Relaxed: a hint, found out again if
    /// missed.
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);

    thread_local! {
        /// With the process whose ring it is: a child of `fork` shares the queues of its parent's and must not touch them.
        static RING: RefCell<Option<(Process, IoUring)>> = const { RefCell::new(None) };
    }

    /// Makes all `requests`, each on the file that `file_of` names for its place. Results may be short, or errors
    /// without words. Returns false, with nothing done, where there is no ring.
    pub(crate) fn read_many<'f>(
        file_of: impl Fn(usize) -> BorrowedFd<'f>,
        requests: &mut [ReadRequest<'_>],
    ) -> bool {
        if IS_REFUSED.load(Ordering::Relaxed) {
            return false;
        }
        // A thread that is being torn down has no ring any more.
        RING.try_with(|slot| {
            let mut slot = slot.borrow_mut();
            if let Some((process, _)) = &*slot
                && !process.is_current()
            {
                *slot = None;
            }
            if slot.is_none() {
                match IoUring::new(ENTRIES) {
                    Ok(ring) if knows_reads(&ring) => *slot = Some((Process::current(), ring)),
                    _ => {
                        IS_REFUSED.store(true, Ordering::Relaxed);
                        return false;
                    }
                }
            }
            for (n, group) in requests.chunks_mut(ENTRIES as usize).enumerate() {
                let file_of = |at: usize| file_of(n * ENTRIES as usize + at);
                let is_usable = match slot.as_mut() {
                    Some((_, ring)) => read_group(ring, file_of, group),
                    None => false,
                };
                if !is_usable {
                    // Entries may be left in its queue: the kernel must never see them.
                    *slot = None;
                    for request in group {
                        request.result = Err(Error::io("io_uring"));
                    }
                }
            }
            true
        })
        .unwrap_or(false)
    }

    fn knows_reads(ring: &IoUring) -> bool {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).is_ok()
            && probe.is_supported(opcode::Read::CODE)
    }

    /// Submits the reads of one group and waits for all of them. False if the ring is not to be used
    /// again; whatever the kernel took has ended by then.
    fn read_group<'f>(
        ring: &mut IoUring,
        file_of: impl Fn(usize) -> BorrowedFd<'f>,
        group: &mut [ReadRequest<'_>],
    ) -> bool {
        let mut is_usable = true;
        let mut pushed = 0usize;
        for (index, request) in group.iter_mut().enumerate() {
            let len = u32::try_from(request.buf.len()).unwrap_or(u32::MAX);
            let fd = types::Fd(file_of(index).as_raw_fd());
            let entry = opcode::Read::new(fd, request.buf.as_mut_ptr(), len)
                .offset(request.offset)
                .build()
                .user_data(index as u64);
            // SAFETY: Address and length are those of a buffer that is borrowed mutably until this
            // function returns, and the descriptor's file is borrowed as long. The function returns only after every
            // entry that the kernel took has completed; entries that it did not take go with the ring,
            // which the caller then drops.
            let result = unsafe { ring.submission().push(&entry) };
            if result.is_err() {
                is_usable = false;
                break;
            }
            pushed += 1;
        }
        let mut done = 0usize;
        while done < pushed {
            // An interrupted or busy call has submitted what it could; the queues tell the rest.
            let submitted = ring.submit_and_wait(1);
            for completion in ring.completion() {
                done += 1;
                let index = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
                if let Some(request) = group.get_mut(index) {
                    request.result = match usize::try_from(completion.result()) {
                        Ok(n) => Ok(n),
                        Err(_) => Err(Error::io("io_uring")),
                    };
                }
            }
            if let Err(e) = submitted {
                let is_passing = matches!(
                    e.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                );
                let untaken = ring.submission().len();
                if !is_passing {
                    is_usable = false;
                    if done + untaken >= pushed {
                        break;
                    }
                }
                // The kernel finishes the reads that it took; leaving before would leave it writing.
                std::thread::yield_now();
            }
        }
        is_usable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn the_ring_reads_what_the_file_holds_or_says_that_there_is_none() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 253) as u8).collect();
        file.write_all(&bytes).unwrap();
        let mut bufs = vec![[0u8; 1000]; 200];
        let mut requests: Vec<_> = bufs
            .iter_mut()
            .enumerate()
            .map(|(i, buf)| ReadRequest::new(i as u64 * 1499, buf))
            .collect();
        if !read_many(|_| file.as_fd(), &mut requests) {
            println!("no ring here: callers read one by one");
            return;
        }
        for request in &requests {
            let n = *request.result.as_ref().unwrap();
            let from = request.offset as usize;
            assert!(n == 1000 || from + n == bytes.len(), "{from} {n}");
            assert!(request.buf[..n] == bytes[from..from + n], "{from}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_gives_every_request_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("f")).unwrap();
        let (mut a, mut b) = ([0; 10], [0; 10]);
        let mut requests = [ReadRequest::new(0, &mut a), ReadRequest::new(5, &mut b)];
        if read_many(|_| file.as_fd(), &mut requests) {
            assert!(requests.iter().all(|r| r.result.is_err()));
        }
    }
}
