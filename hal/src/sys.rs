//! System calls that `nix` lacks, each behind one safe function, and those of it that are given
//! 64-bit offsets here.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::unistd::{SysconfVar, sysconf};

/// Bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    // Every Linux has pages and says of how many bytes.
    let known = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    known.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(4096)
}

/// Nanoseconds of `CLOCK_MONOTONIC`. A request of a burst has four readings: this is inlined down
/// to the library's call, and `nix`'s is not.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // Every Linux has this clock, which starts at boot and is never negative.
    // SAFETY: `now` is writable; zeros are a time, too, if nothing were written.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    let [seconds, rest] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// Repeats a call for as long as signals interrupt it.
pub(crate) fn retry_on_intr<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// Reads from a place in a file, and returns how many bytes it had.
pub(crate) fn pread(fd: impl AsFd, bytes: &mut [u8], at: u64) -> Result<usize, Errno> {
    nix::sys::uio::pread(fd, bytes, offset(at)?)
}

/// Writes to a place in a file, and returns how many bytes it took.
pub(crate) fn pwrite(fd: impl AsFd, bytes: &[u8], at: u64) -> Result<usize, Errno> {
    nix::sys::uio::pwrite(fd, bytes, offset(at)?)
}

pub(crate) fn offset(at: u64) -> Result<libc::off_t, Errno> {
    libc::off_t::try_from(at).map_err(|_| Errno::EINVAL)
}

/// The seals of a file; an error for files that can't have any.
pub(crate) fn seals(fd: impl AsFd) -> Result<SealFlag, Errno> {
    fcntl(fd, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate)
}

/// Since Linux 6.1; not every libc has the name.
const MADV_COLLAPSE: i32 = 25;

/// Gathers the pages of an address range in huge ones (`MADV_COLLAPSE`).
pub(crate) fn collapse_pages(start: *mut c_void, len: usize) -> Result<(), Errno> {
    // SAFETY: advice doesn't change content, wherever that may be.
    Errno::result(unsafe { libc::madvise(start, len, MADV_COLLAPSE) }).map(drop)
}
