//! What the kernel says of a file, in as many bits everywhere: `fstat` of 32-bit machines fails
//! with `EOVERFLOW` where a file's size or number has more than 32.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::NixPath;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::SFlag;

/// The status of a file (`statx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStatus {
    /// Its type; empty for what is of no file system, such as an eventfd.
    pub kind: SFlag,
    /// The permission bits of its mode.
    pub mode: u32,
    /// The user it belongs to.
    pub owner: u32,
    /// The number of its names (hard links).
    pub links: u32,
    /// In bytes.
    pub size: u64,
    /// Which file it is.
    pub identity: FileIdentity,
}

/// The device of a file, and its number there: no two files have both in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FileIdentity {
    /// The number of the kind of device; 0 where there is no block device.
    pub major: u32,
    /// Which device of that kind.
    pub minor: u32,
    /// The number of the file there.
    pub inode: u64,
}

impl FileIdentity {
    /// The device's number as `fstat` gives it (`st_dev`).
    pub fn device(&self) -> libc::dev_t {
        libc::makedev(self.major, self.minor)
    }
}

impl FileStatus {
    /// Looks up an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: impl AsFd) -> Result<Self, Errno> {
        statx(file.as_fd(), c"", libc::AT_EMPTY_PATH)
    }

    /// Looks up the file of a name in a directory; a symbolic link itself, not what it leads to.
    ///
    /// # Errors
    /// The system's.
    pub fn of_name(dir: impl AsFd, name: &(impl NixPath + ?Sized)) -> Result<Self, Errno> {
        statx(dir.as_fd(), name, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// Looks up an open file as the kernel remembers it, without asking its file system, which may
    /// be another process's: kind and device are right, the others may be outdated.
    ///
    /// # Errors
    /// The system's.
    pub fn remembered(file: impl AsFd) -> Result<Self, Errno> {
        statx(file.as_fd(), c"", libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC)
    }
}

/// Returns whether the process may have a file of this size (`RLIMIT_FSIZE`). To be asked before a
/// file grows: going beyond ends the process by SIGXFSZ, whose disposition is the host program's
/// own.
///
/// # Errors
/// `EFBIG`.
pub fn check_file_size(size: u64) -> Result<(), Errno> {
    // Limits have 32 bits on some machines.
    let is_within =
        |limit: libc::rlim_t| libc::rlim_t::try_from(size).is_ok_and(|size| size <= limit);
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((limit, _)) if !is_within(limit) => Err(Errno::EFBIG),
        _ => Ok(()),
    }
}

fn statx(
    dir: BorrowedFd<'_>,
    name: &(impl NixPath + ?Sized),
    flags: i32,
) -> Result<FileStatus, Errno> {
    let (dir, mask) = (dir.as_raw_fd(), libc::STATX_BASIC_STATS);
    // SAFETY: all zeros is a valid statx.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let filled = name.with_nix_path(|name| {
        // SAFETY: a string that ends in a zero, and a structure that the call fills.
        unsafe { libc::statx(dir, name.as_ptr(), flags, mask, &raw mut status) }
    })?;
    Errno::result(filled)?;
    let mode = libc::mode_t::from(status.stx_mode);
    Ok(FileStatus {
        kind: SFlag::from_bits_truncate(mode) & SFlag::S_IFMT,
        mode: u32::from(status.stx_mode) & 0o7777,
        owner: status.stx_uid,
        links: status.stx_nlink,
        size: status.stx_size,
        identity: FileIdentity {
            major: status.stx_dev_major,
            minor: status.stx_dev_minor,
            inode: status.stx_ino,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use nix::sys::eventfd::{EfdFlags, EventFd};

    use super::*;

    #[test]
    fn files_are_what_std_says_they_are() {
        let path = std::env::current_exe().unwrap();
        let (known, file) = (path.symlink_metadata().unwrap(), File::open(&path).unwrap());
        let dir = File::open(path.parent().unwrap()).unwrap();
        let status = FileStatus::of(&file).unwrap();
        assert_eq!(FileStatus::of_name(&dir, path.file_name().unwrap()), Ok(status));
        assert_eq!(FileStatus::remembered(&file), Ok(status));
        assert_eq!(status.kind, SFlag::S_IFREG);
        assert_eq!(status.mode, known.mode() & 0o7777);
        assert_eq!((status.owner, u64::from(status.links)), (known.uid(), known.nlink()));
        assert_eq!(status.size, known.len());
        let found = (status.identity.device(), status.identity.inode);
        assert_eq!(found, (known.dev(), known.ino()));
    }

    #[test]
    fn sizes_may_have_more_than_32_bits() {
        let file = nix::sys::memfd::memfd_create(c"large", nix::sys::memfd::MFdFlags::empty());
        let file = File::from(file.unwrap());
        // Of no pages.
        file.set_len(5 << 30).unwrap();
        assert_eq!(FileStatus::of(&file).unwrap().size, 5 << 30);
    }

    #[test]
    fn names_are_not_followed_and_errors_are_the_systems() {
        let proc = File::open("/proc").unwrap();
        assert_eq!(FileStatus::of_name(&proc, "self").unwrap().kind, SFlag::S_IFLNK);
        assert_eq!(FileStatus::of_name(&proc, "no such name"), Err(Errno::ENOENT));
    }

    #[test]
    fn what_is_of_no_file_system_has_no_kind() {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
        assert!(FileStatus::of(&event).unwrap().kind.is_empty());
    }
}
