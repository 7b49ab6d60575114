//! System calls that `nix` lacks, each behind one safe function, and those of it that are given
//! 64-bit offsets here.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::stat::SFlag;
use nix::unistd::{SysconfVar, sysconf};

/// Bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    // Every Linux has pages and says of how many bytes.
    let known = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    known.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(4096)
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

/// The type in a file's mode; empty for what is of no file system.
pub(crate) fn file_type(mode: libc::mode_t) -> SFlag {
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT
}

/// The kernel's own knowledge of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStatus {
    /// See [`file_type`].
    pub(crate) kind: SFlag,
    /// 0 where there is no block device.
    pub(crate) device_major: u32,
}

/// Owner, mode and names of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOwner {
    pub(crate) uid: u32,
    /// Its type and permission bits.
    pub(crate) mode: libc::mode_t,
    /// The number of its names.
    pub(crate) links: u64,
}

/// Looks up whose a file is. (`fstat` of 32-bit machines fails with `EOVERFLOW` where the file's
/// number or size has more bits.)
pub(crate) fn file_owner(fd: impl AsFd) -> Result<FileOwner, Errno> {
    let mask = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_UID | libc::STATX_NLINK;
    let status = statx(fd.as_fd(), libc::AT_EMPTY_PATH, mask)?;
    let (uid, links) = (status.stx_uid, u64::from(status.stx_nlink));
    Ok(FileOwner { uid, mode: libc::mode_t::from(status.stx_mode), links })
}

/// The size of a file in bytes.
pub(crate) fn file_size(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(statx(fd, libc::AT_EMPTY_PATH, libc::STATX_SIZE)?.stx_size)
}

/// Looks a file up without asking its file system, which may be another process's.
pub(crate) fn file_status(fd: BorrowedFd<'_>) -> Result<FileStatus, Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let status = statx(fd, flags, libc::STATX_TYPE)?;
    let kind = file_type(libc::mode_t::from(status.stx_mode));
    Ok(FileStatus { kind, device_major: status.stx_dev_major })
}

fn statx(fd: BorrowedFd<'_>, flags: i32, mask: u32) -> Result<libc::statx, Errno> {
    // SAFETY: all zeros is a valid statx.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an empty string, and a structure that the call fills.
    let filled = unsafe { libc::statx(fd.as_raw_fd(), c"".as_ptr(), flags, mask, &raw mut status) };
    Errno::result(filled)?;
    Ok(status)
}

/// Since Linux 6.1; not every libc has the name.
const MADV_COLLAPSE: i32 = 25;

/// Gathers the pages of an address range in huge ones (`MADV_COLLAPSE`).
pub(crate) fn collapse_pages(start: *mut c_void, len: usize) -> Result<(), Errno> {
    // SAFETY: advice doesn't change content, wherever that may be.
    Errno::result(unsafe { libc::madvise(start, len, MADV_COLLAPSE) }).map(drop)
}
