//! The kinds of file that a memory may be: those whose pages come at once.
//!
//! A page of a mapping is fetched at the first access, by whoever makes that access. From a file
//! system in another process (FUSE) or on another machine (NFS) it comes when that peer likes, or
//! never, and the thread that waits can't be interrupted. Seals say nothing about such files, nor
//! about memfds of huge pages: those can be punched although they are sealed against shrinking, and
//! raise SIGBUS when the system has no huge page left.
//!
//! Asking may not block either, as `fstat` and `fstatfs` do on a file system in another process:
//! seals and `/proc` are answered by the kernel itself.

use std::fs::read_to_string;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::stat::SFlag;
use nix::sys::statfs::{Statfs, fstatfs};

use super::error::MemoryError;
use crate::FileStatus;
use crate::sys::seals;

/// `HUGETLBFS_MAGIC` of <linux/magic.h>.
const HUGETLBFS_MAGIC: u32 = 0x958458f6;

/// `DMA_BUF_MAGIC` of <linux/magic.h>.
const DMA_BUF_MAGIC: u32 = 0x444d4142;

/// File systems of this machine, in the kernel; by their names in `/proc/filesystems`.
const LOCAL: [&str; 24] = [
    "bcachefs", "btrfs", "cramfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs",
    "iso9660", "jfs", "nilfs2", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "squashfs",
    "tmpfs", "ubifs", "udf", "vfat", "xfs",
];

/// The source of a descriptor's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// Memory, a device's buffer or a local disk: pages come at once, or a fault says that they
    /// don't.
    Local,
    /// Pages come when somebody else likes, if at all.
    Elsewhere {
        /// The file system's name, as far as it is known.
        file_system: String,
    },
}

impl Backing {
    /// Returns the backing of a memory's descriptor, looked up without waiting for a file system.
    ///
    /// # Errors
    /// It is a memfd of huge pages, or no file that has pages; the system refused.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Result<Self, MemoryError> {
        match kind_of(fd)? {
            Kind::HugePages => Err(MemoryError::NoSuchFile { what: "a memfd of huge pages" }),
            // Objects of the kernel's: dma-bufs have bytes, others a size of 0.
            Kind::MemoryFile | Kind::Anonymous => Ok(Self::Local),
            Kind::Regular { device_major } => Ok(Self::of_regular(fd, device_major)),
            Kind::Other => {
                Err(MemoryError::NoSuchFile { what: "a device, pipe, socket or folder" })
            }
        }
    }

    fn of_regular(fd: BorrowedFd<'_>, device_major: u32) -> Self {
        let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
        let info = read_to_string(path).unwrap_or_default();
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim);
        let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
        match mount.and_then(|mount| file_system(&mounts, mount)) {
            Some(name) if LOCAL.contains(&name) => Self::Local,
            Some(name) => Self::Elsewhere { file_system: name.to_owned() },
            // Mounted for others alone, as in a container: what lies on a block device is mounted
            // by root.
            None if device_major != 0 => Self::Local,
            None => Self::Elsewhere { file_system: "a file system not mounted here".to_owned() },
        }
    }

    /// Refuses what a peer could make us wait for.
    ///
    /// # Errors
    /// [`MemoryError::Elsewhere`].
    pub(super) fn must_be_local(self) -> Result<(), MemoryError> {
        match self {
            Self::Local => Ok(()),
            Self::Elsewhere { file_system } => Err(MemoryError::Elsewhere { file_system }),
        }
    }
}

/// Refuses a peer's descriptor if reading, writing or polling it could wait for another process or
/// machine: files on FUSE and network file systems, and devices. Doesn't wait itself.
///
/// # Errors
/// [`MemoryError::Elsewhere`], [`MemoryError::NoSuchFile`]; the system refused.
pub fn check_prompt(fd: BorrowedFd<'_>) -> Result<(), MemoryError> {
    match kind_of(fd)? {
        Kind::MemoryFile | Kind::HugePages | Kind::Anonymous => Ok(()),
        Kind::Regular { device_major } => Backing::of_regular(fd, device_major).must_be_local(),
        Kind::Other => {
            let kind = status(fd)?.kind;
            match kind {
                SFlag::S_IFIFO | SFlag::S_IFSOCK => Ok(()),
                _ => Err(MemoryError::NoSuchFile { what: "a device or folder" }),
            }
        }
    }
}

/// Returns whether a descriptor is a dma-buf's, without waiting for any other file system.
pub(super) fn is_dma_buf(fd: BorrowedFd<'_>) -> bool {
    matches!(kind_of(fd), Ok(Kind::Anonymous))
        && fstatfs(fd).is_ok_and(|system| is_of(system, DMA_BUF_MAGIC))
}

enum Kind {
    /// A memfd, or a file of tmpfs.
    MemoryFile,
    HugePages,
    /// Of no file system: an eventfd, a sync_file, a dma-buf.
    Anonymous,
    Regular {
        /// 0 where there is no block device.
        device_major: u32,
    },
    Other,
}

/// Returns whether a file system is of this type, a number of 32 bits: of a signed word on 32-bit
/// machines.
fn is_of(system: Statfs, magic: u32) -> bool {
    system.filesystem_type().0.to_le_bytes().first_chunk() == Some(&magic.to_le_bytes())
}

fn kind_of(fd: BorrowedFd<'_>) -> Result<Kind, MemoryError> {
    // Only memory files have seals, whether any is set or not.
    if seals(fd).is_ok() {
        let system = fstatfs(fd).map_err(MemoryError::system("fstatfs"))?;
        let is_huge = is_of(system, HUGETLBFS_MAGIC);
        return Ok(if is_huge { Kind::HugePages } else { Kind::MemoryFile });
    }
    let status = status(fd)?;
    Ok(match status.kind {
        SFlag::S_IFREG => Kind::Regular { device_major: status.identity.major },
        kind if kind.is_empty() => Kind::Anonymous,
        _ => Kind::Other,
    })
}

fn status(fd: BorrowedFd<'_>) -> Result<FileStatus, MemoryError> {
    FileStatus::remembered(fd).map_err(MemoryError::system("statx"))
}

/// The type of the mount with this number, out of `/proc/self/mountinfo`: the first word after the
/// dash.
fn file_system<'a>(mounts: &'a str, mount: &str) -> Option<&'a str> {
    let is_it = |line: &&str| line.split(' ').next() == Some(mount);
    let (_, rest) = mounts.lines().find(is_it)?.split_once(" - ")?;
    rest.split(' ').next()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::errno::Errno;
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    #[test]
    fn memory_and_local_files_are_taken() {
        let memfd = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
        assert_eq!(Backing::of(memfd.as_fd()).unwrap(), Backing::Local);
        let shm = std::fs::File::open("/dev/shm").unwrap();
        let error = Backing::of(shm.as_fd());
        assert!(
            matches!(error, Ok(Backing::Local) | Err(MemoryError::NoSuchFile { .. })),
            "{error:?}"
        );
        let own = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Backing::of(own.as_fd()).unwrap(), Backing::Local);
    }

    #[test]
    fn devices_and_what_the_kernel_makes_up_are_not() {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        assert!(matches!(Backing::of(zero.as_fd()), Err(MemoryError::NoSuchFile { .. })));
        let status = std::fs::File::open("/proc/self/status").unwrap();
        let Backing::Elsewhere { file_system } = Backing::of(status.as_fd()).unwrap() else {
            panic!("/proc is no disk");
        };
        assert_eq!(file_system, "proc");
    }

    #[test]
    fn fences_and_queues_are_prompt_and_devices_and_made_up_files_are_not() {
        let (pipe, _) = std::io::pipe().unwrap();
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
        let memfd = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
        check_prompt(pipe.as_fd()).unwrap();
        check_prompt(event.as_fd()).unwrap();
        check_prompt(memfd.as_fd()).unwrap();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        check_prompt(zero.as_fd()).unwrap_err();
        let status = std::fs::File::open("/proc/self/status").unwrap();
        check_prompt(status.as_fd()).unwrap_err();
    }

    /// A memfd of huge pages can be made also where the system has none; it is only mapped in vain.
    #[test]
    fn memfds_of_huge_pages_are_refused() {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_HUGETLB;
        let huge = match memfd_create(c"huge", flags) {
            Ok(huge) => huge,
            // A kernel without huge pages has none to refuse.
            Err(errno) => return assert_eq!(errno, Errno::ENOSYS),
        };
        let error = Backing::of(huge.as_fd()).unwrap_err();
        assert_eq!(error, MemoryError::NoSuchFile { what: "a memfd of huge pages" });
    }

    #[test]
    fn mounts_are_read() {
        let mounts = "22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n\
                      31 28 0:40 / /mnt/a\\040b rw - fuse.sshfs peer:/ rw,user_id=1000\n";
        assert_eq!(file_system(mounts, "31"), Some("fuse.sshfs"));
        assert_eq!(file_system(mounts, "2"), None);
    }
}
