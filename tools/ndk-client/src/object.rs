//! Objects of the library's, freed when they are dropped.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use nnburst::RuntimeError;
use nnburst::hal;

use crate::api::{Api, Object};

/// An object, and the function that frees it.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) api: Arc<Api>,
    pub(crate) object: Object,
    free: unsafe extern "C" fn(Object),
}

impl Owned {
    /// Returns the object that a constructor made.
    pub(crate) fn make(
        api: &Arc<Api>,
        free: unsafe extern "C" fn(Object),
        create: impl FnOnce(*mut Object) -> i32,
    ) -> Result<Self, RuntimeError> {
        let mut object = std::ptr::null_mut();
        api.check(create(&raw mut object))?;
        Ok(Self { api: Arc::clone(api), object, free })
    }

    /// A part of a memory as one of the library's.
    pub(crate) fn memory(
        api: &Arc<Api>,
        memory: &hal::Memory,
        offset: u64,
        length: u64,
    ) -> Result<Self, RuntimeError> {
        const READ: i32 = 1;
        const READ_WRITE: i32 = 3;
        let narrow = |size| usize::try_from(size).unwrap_or(usize::MAX);
        let protection = if memory.is_writable() { READ_WRITE } else { READ };
        let (fd, from) = (memory.fd().as_raw_fd(), memory.offset().saturating_add(offset));
        let create = api.ANeuralNetworksMemory_createFromFd;
        Self::make(api, api.ANeuralNetworksMemory_free, |made| {
            // SAFETY: the descriptor is open, the result outlives the call.
            unsafe { create(narrow(length), protection, fd, narrow(from), made) }
        })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: ours alone, made by the library whose function this is.
        unsafe { (self.free)(self.object) };
    }
}
