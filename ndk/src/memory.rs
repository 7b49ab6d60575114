//! `ANeuralNetworksMemory`: files, hardware buffers, and what devices give for a descriptor.

use std::ffi::c_int;

use nnburst::Memory;

use crate::c::{Out, duplicate};
use crate::error::{Code, Error, call, quietly};
use crate::handle::{Handle, object};
use crate::hardware_buffer::HardwareBuffer;

// Models and executions that use a memory share it with the handle.
object!(Memory, "memory", 3);

const PROT_WRITE: c_int = 2;

pub(crate) extern "C" fn create_from_fd(
    size: usize,
    protection: c_int,
    fd: c_int,
    offset: usize,
    memory: Out<'_, Handle<Memory>>,
) -> c_int {
    call(|| {
        let memory = memory.ok_or_else(|| Error::null("memory"))?;
        memory.write(Handle::NULL);
        if size == 0 || fd < 0 {
            return Err(Error::data(format!("{size} bytes of descriptor {fd}")));
        }
        // The reference says so of a descriptor that can't be duplicated.
        let duplicate = duplicate(fd)
            .map_err(|error| Error::new(Code::UnexpectedNull, format!("{fd}: {error}")))?;
        let wide = |size| u64::try_from(size).unwrap_or(u64::MAX);
        let writable = protection & PROT_WRITE != 0;
        let made = Memory::from_fd(duplicate, wide(offset), wide(size), writable)
            .map_err(|error| Error::data(error.to_string()))?;
        memory.write(Handle::new(made)?);
        Ok(())
    })
}

pub(crate) extern "C" fn create_from_hardware_buffer(
    buffer: Handle<HardwareBuffer>,
    memory: Out<'_, Handle<Memory>>,
) -> c_int {
    call(|| {
        let memory = memory.ok_or_else(|| Error::null("memory"))?;
        memory.write(Handle::NULL);
        memory.write(Handle::new(buffer.with(|buffer| Ok(buffer.memory().into()))?)?);
        Ok(())
    })
}

pub(crate) extern "C" fn copy(source: Handle<Memory>, destination: Handle<Memory>) -> c_int {
    call(|| {
        let source = get(source)?;
        let copied = Memory::copy(&source, &get(destination)?);
        copied.map_err(|error| Error::from(error).of_buffer())
    })
}

pub(crate) extern "C" fn free(memory: Handle<Memory>) {
    quietly(|| drop(memory.free()));
}

/// The memory behind a handle.
///
/// # Errors
/// The handle is null or stands for nothing.
pub(crate) fn get(memory: Handle<Memory>) -> crate::error::Result<Memory> {
    memory.with(|memory| Ok(memory.clone()))
}
