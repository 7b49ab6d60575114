//! Queues and their descriptors.

use std::os::fd::{BorrowedFd, IntoRawFd};

use nnburst_fmq::erased::Queue;
use nnburst_fmq::{Descriptor, DescriptorData, Grantor};

use crate::end::End;
use crate::{INVALID, OK, Status, hand_out, setup_status};

const MAX_GRANTORS: usize = 4;
const MAX_FDS: usize = 4;

/// `nnburst_fmq_descriptor`.
#[repr(C)]
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct CDescriptor {
    /// Where the parts lie.
    pub grantors: [Grantor; MAX_GRANTORS],
    /// How many of `grantors` count.
    pub grantor_count: u32,
    /// Bytes per item.
    pub quantum: u32,
    /// The flavour.
    pub flags: u32,
    /// How many of `fds` count.
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
    unsafe fn to_rust(&self) -> Option<Descriptor> {
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

    fn from_rust(descriptor: Descriptor) -> Option<Self> {
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

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_create(
    capacity: usize,
    quantum: usize,
    event_flag: bool,
    out: *mut *mut Queue,
) -> Status {
    match Queue::create(capacity, quantum, event_flag) {
        // SAFETY: the header asks for a valid pointer or null.
        Ok(queue) => unsafe { hand_out(queue, out) },
        Err(error) => setup_status(&error),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_attach(
    descriptor: *const CDescriptor,
    out: *mut *mut Queue,
) -> Status {
    // SAFETY: the header asks for a valid pointer or null.
    let Some(descriptor) = (unsafe { descriptor.as_ref() }) else { return INVALID };
    // SAFETY: the header asks for open files.
    let Some(descriptor) = (unsafe { descriptor.to_rust() }) else { return INVALID };
    match Queue::attach(descriptor) {
        // SAFETY: the header asks for a valid pointer or null.
        Ok(queue) => unsafe { hand_out(queue, out) },
        Err(error) => setup_status(&error),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_describe(
    queue: *const Queue,
    out: *mut CDescriptor,
) -> Status {
    // SAFETY: the header asks for a queue of ours or null.
    let Some(queue) = (unsafe { queue.as_ref() }) else { return INVALID };
    if out.is_null() {
        return INVALID;
    }
    let descriptor = match queue.descriptor() {
        Ok(descriptor) => descriptor,
        Err(error) => return setup_status(&error),
    };
    let Some(descriptor) = CDescriptor::from_rust(descriptor) else { return INVALID };
    // SAFETY: not null, and valid by the header.
    unsafe { out.write(descriptor) };
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_free(queue: *mut Queue) {
    if !queue.is_null() {
        // SAFETY: the header asks for a queue of ours, which is a box that was handed out.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_producer(queue: *mut Queue, out: *mut *mut End) -> Status {
    if queue.is_null() {
        return INVALID;
    }
    // SAFETY: the header asks for a queue of ours, which is a box that was handed out.
    let queue = unsafe { Box::from_raw(queue) };
    // SAFETY: the header asks for a valid pointer or null.
    unsafe { hand_out(End::Producer(queue.into_producer()), out) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_consumer(queue: *mut Queue, out: *mut *mut End) -> Status {
    if queue.is_null() {
        return INVALID;
    }
    // SAFETY: the header asks for a queue of ours, which is a box that was handed out.
    let queue = unsafe { Box::from_raw(queue) };
    // SAFETY: the header asks for a valid pointer or null.
    unsafe { hand_out(End::Consumer(queue.into_consumer()), out) }
}
