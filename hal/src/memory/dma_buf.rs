//! dma-bufs: memory of devices, whose caches may hold other bytes than the processor's.
//!
//! Whoever reads or writes a mapped dma-buf says when that begins and when it has ended
//! (`DMA_BUF_IOCTL_SYNC` of <linux/dma-buf.h>): at the beginning the kernel waits for devices that
//! are at work on it, which by its rules takes a finite time, and makes what they wrote visible; at
//! the end it makes visible to them what the processor wrote.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::error::MemoryError;
use super::mapping::Access;

/// `struct dma_buf_sync`.
#[repr(C)]
struct DmaBufSync {
    flags: u64,
}

/// Moments of an access: `DMA_BUF_SYNC_START` and `DMA_BUF_SYNC_END`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Moment {
    Start = 0,
    End = 1 << 2,
}

/// `DMA_BUF_SYNC_READ` and `DMA_BUF_SYNC_RW`.
fn flags(access: Access, moment: Moment) -> u64 {
    let access = match access {
        Access::Read => 1,
        Access::ReadWrite => 3,
    };
    access | moment as u64
}

mod ioctl {
    use super::DmaBufSync;
    nix::ioctl_write_ptr!(dma_buf_sync, b'b', 0, DmaBufSync);
}

/// A dma-buf that is mapped, for as long as its mapping.
#[derive(Debug)]
pub(super) struct DmaBuf(OwnedFd);

impl DmaBuf {
    /// The dma-buf of a descriptor, by a descriptor of its own.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Result<Self, MemoryError> {
        let errno =
            |error: std::io::Error| error.raw_os_error().map_or(Errno::EMFILE, Errno::from_raw);
        let own = fd.try_clone_to_owned().map_err(errno);
        own.map(Self).map_err(MemoryError::system("dup"))
    }

    /// Says that an access by the processor begins or has ended.
    ///
    /// # Errors
    /// The buffer's device refused.
    pub(super) fn sync(&self, access: Access, moment: Moment) -> Result<(), MemoryError> {
        let sync = DmaBufSync { flags: flags(access, moment) };
        loop {
            // SAFETY: the descriptor is open, and the kernel reads the structure during the call.
            match unsafe { ioctl::dma_buf_sync(self.0.as_raw_fd(), &raw const sync) } {
                Ok(_) => return Ok(()),
                // A signal came while it waited for a device.
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(errno) => {
                    return Err(MemoryError::System { what: "DMA_BUF_IOCTL_SYNC", errno });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::eventfd::{EfdFlags, EventFd};

    use super::*;
    use crate::memory::Memory;
    use crate::memory::backing::is_dma_buf;

    #[test]
    fn flags_are_those_of_the_kernel() {
        let all = [Moment::Start, Moment::End]
            .map(|moment| [Access::Read, Access::ReadWrite].map(|access| flags(access, moment)));
        assert_eq!(all, [[1, 3], [5, 7]]);
        assert_eq!(size_of::<DmaBufSync>(), 8);
    }

    #[test]
    fn a_memfd_is_no_dma_buf_and_the_kernel_says_so_too() {
        let memory = Memory::ashmem(4096).unwrap();
        assert!(!is_dma_buf(memory.fd()));
        let buffer = DmaBuf::of(memory.fd()).unwrap();
        let error = buffer.sync(Access::Read, Moment::Start).unwrap_err();
        assert!(error.to_string().starts_with("DMA_BUF_IOCTL_SYNC: "), "{error}");
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
        assert!(!is_dma_buf(event.as_fd()));
    }
}
