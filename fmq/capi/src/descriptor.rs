//! `nnburst_fmq_descriptor` and back.

use std::os::fd::{BorrowedFd, IntoRawFd};

use nnburst_fmq::{Descriptor, DescriptorData, Grantor};

const MAX_GRANTORS: usize = 4;
const MAX_FDS: usize = 4;

/// `nnburst_fmq_descriptor`.
#[repr(C)]
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct CDescriptor {
    /// The places of the parts.
    pub grantors: [Grantor; MAX_GRANTORS],
    /// Number of `grantors` in use.
    pub grantor_count: u32,
    /// Bytes per item.
    pub quantum: u32,
    /// The flavour.
    pub flags: u32,
    /// Number of `fds` in use.
    pub fd_count: u32,
    /// The files.
    pub fds: [i32; MAX_FDS],
}

const _: () = assert!(size_of::<CDescriptor>() == 128);

impl CDescriptor {
    /// Duplicates what was described.
    ///
    /// # Safety
    /// The first `fd_count` of `fds` are open, or negative.
    pub(crate) unsafe fn to_rust(&self) -> Option<Descriptor> {
        let grantors = self.grantors.get(..self.grantor_count as usize)?.to_vec();
        let data = DescriptorData { grantors, quantum: self.quantum, flags: self.flags };
        let mut fds = Vec::new();
        for &fd in self.fds.get(..self.fd_count as usize)? {
            if fd < 0 {
                return None;
            }
            // SAFETY: open by the caller's word, and only used in this line.
            match unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned() {
                Ok(fd) => fds.push(fd),
                Err(_) => return None,
            }
        }
        Some(Descriptor { data, fds })
    }

    pub(crate) fn from_rust(descriptor: Descriptor) -> Option<Self> {
        let Descriptor { data, fds } = descriptor;
        let mut c = Self {
            grantors: Default::default(),
            grantor_count: u32::try_from(data.grantors.len()).ok()?,
            quantum: data.quantum,
            flags: data.flags,
            fd_count: u32::try_from(fds.len()).ok()?,
            fds: [-1; MAX_FDS],
        };
        c.grantors.get_mut(..data.grantors.len())?.copy_from_slice(&data.grantors);
        if fds.len() > MAX_FDS {
            return None;
        }
        for (slot, fd) in c.fds.iter_mut().zip(fds) {
            *slot = fd.into_raw_fd();
        }
        Some(c)
    }
}
