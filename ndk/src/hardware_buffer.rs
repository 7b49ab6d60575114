//! `AHardwareBuffer` for Linux: a description, and a memfd or dma-buf for the bytes.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;
use nnburst::hal::{self, Access, Mapping, wait_for_fence};

use crate::c::{HardwareBufferDesc as Desc, Out, duplicate};
use crate::error::{number, quietly};
use crate::handle::{Handle, object};

/// `AHARDWAREBUFFER_FORMAT_BLOB`: a run of `width` bytes.
const BLOB: u32 = 0x21;
/// Formats of pictures, and the bytes of a pixel.
const FORMATS: [(u32, u64); 6] = [(1, 4), (2, 4), (3, 3), (4, 2), (0x16, 8), (0x2b, 4)];

/// `AHardwareBuffer`. C counts references through one handle; memories have references of their
/// own.
#[derive(Debug)]
pub(crate) struct HardwareBuffer {
    bytes: Arc<Shared>,
    references: u64,
}

object!(HardwareBuffer, "hardware buffer", 4);

/// The part that outlives the handle in memories made from it.
#[derive(Debug)]
struct Shared {
    desc: Desc,
    /// As drivers get it.
    memory: hal::Memory,
    /// The same bytes for whoever locks the buffer.
    bytes: hal::Memory,
    mapping: OnceLock<Option<Mapping>>,
}

/// To C errors are the system's numbers, negated.
type Result<T> = std::result::Result<T, Errno>;

impl HardwareBuffer {
    /// The buffer as a memory of executions and models.
    pub(crate) fn memory(&self) -> hal::Memory {
        self.bytes.memory.clone()
    }

    fn new(mut desc: Desc, fd: Option<OwnedFd>) -> Result<Self> {
        let size = size(&desc).ok_or(Errno::EINVAL)?;
        desc.stride = desc.width;
        let fd = match fd {
            Some(fd) => fd,
            None => hal::Memory::ashmem(size)
                .and_then(|memory| {
                    memory
                        .fd()
                        .try_clone_to_owned()
                        .map_err(|_| hal::MemoryError::TooLarge { size })
                })
                .map_err(|_| Errno::ENOMEM)?,
        };
        let for_drivers = fd.try_clone().map_err(|_| Errno::EMFILE)?;
        let bytes = hal::Memory::from_fd(fd, 0, size, true).map_err(|_| Errno::EINVAL)?;
        let memory = if desc.format == BLOB {
            hal::Memory::from_handle("hardware_buffer_blob", vec![for_drivers], Vec::new(), size)
        } else {
            let [low, high] = [desc.usage, desc.usage >> 32]
                .map(|half| u32::try_from(half & u64::from(u32::MAX)).unwrap_or(0).cast_signed());
            let shape = [desc.width, desc.height, desc.layers, desc.format, desc.stride];
            let ints = shape.map(u32::cast_signed).into_iter().chain([low, high]).collect();
            hal::Memory::from_handle("hardware_buffer", vec![for_drivers], ints, 0)
        };
        let memory = memory.map_err(|_| Errno::EINVAL)?;
        let bytes = Arc::new(Shared { desc, memory, bytes, mapping: OnceLock::new() });
        Ok(Self { bytes, references: 1 })
    }
}

/// Bytes of a buffer; `None` for what can't be one.
fn size(desc: &Desc) -> Option<u64> {
    let pixels = [desc.width, desc.height, desc.layers].map(u64::from);
    if pixels.contains(&0) || desc.rfu0 != 0 || desc.rfu1 != 0 {
        return None;
    }
    if desc.format == BLOB {
        return (desc.height == 1 && desc.layers == 1).then_some(u64::from(desc.width));
    }
    let (_, bytes) = FORMATS.iter().find(|(format, _)| *format == desc.format)?;
    pixels.iter().try_fold(*bytes, |size, &extent| size.checked_mul(extent))
}

fn with<R>(
    buffer: Handle<HardwareBuffer>,
    work: impl FnOnce(&mut HardwareBuffer) -> Result<R>,
) -> Result<R> {
    buffer.with(|buffer| Ok(work(buffer))).map_err(|_| Errno::EINVAL)?
}

pub(crate) extern "C" fn allocate(
    desc: Option<&Desc>,
    out: Out<'_, Handle<HardwareBuffer>>,
) -> c_int {
    number(|| {
        let (Some(desc), Some(out)) = (desc, out) else { return Err(Errno::EINVAL) };
        out.write(hand_out(HardwareBuffer::new(*desc, None)?)?);
        Ok(0)
    })
}

pub(crate) extern "C" fn from_fd(
    desc: Option<&Desc>,
    fd: c_int,
    out: Out<'_, Handle<HardwareBuffer>>,
) -> c_int {
    number(|| {
        let (Some(desc), Some(out)) = (desc, out) else { return Err(Errno::EINVAL) };
        let fd = duplicate(fd).map_err(|_| Errno::EBADF)?;
        out.write(hand_out(HardwareBuffer::new(*desc, Some(fd))?)?);
        Ok(0)
    })
}

fn hand_out(buffer: HardwareBuffer) -> Result<Handle<HardwareBuffer>> {
    Handle::new(buffer).map_err(|_| Errno::ENOMEM)
}

pub(crate) extern "C" fn get_fd(buffer: Handle<HardwareBuffer>) -> c_int {
    number(|| {
        let fd = with(buffer, |buffer| {
            buffer.bytes.bytes.fd().try_clone_to_owned().map_err(|_| Errno::EMFILE)
        })?;
        Ok(fd.into_raw_fd())
    })
}

pub(crate) extern "C" fn acquire(buffer: Handle<HardwareBuffer>) {
    quietly(|| {
        // Nobody to tell that the handle is stale.
        let _ = with(buffer, |buffer| {
            buffer.references = buffer.references.saturating_add(1);
            Ok(())
        });
    });
}

pub(crate) extern "C" fn release(buffer: Handle<HardwareBuffer>) {
    quietly(|| {
        let left = with(buffer, |buffer| {
            buffer.references = buffer.references.saturating_sub(1);
            Ok(buffer.references)
        });
        if left == Ok(0) {
            drop(buffer.free());
        }
    });
}

pub(crate) extern "C" fn describe(buffer: Handle<HardwareBuffer>, out: Out<'_, Desc>) {
    quietly(|| {
        if let (Ok(desc), Some(out)) = (with(buffer, |buffer| Ok(buffer.bytes.desc)), out) {
            out.write(desc);
        }
    });
}

pub(crate) extern "C" fn is_supported(desc: Option<&Desc>) -> c_int {
    c_int::from(desc.is_some_and(|desc| size(desc).is_some()))
}

/// `rect` and `usage` are hints that a mapping of all bytes has no use for. The fence is ours to
/// close.
pub(crate) extern "C" fn lock(
    buffer: Handle<HardwareBuffer>,
    _usage: u64,
    fence: c_int,
    _rect: *const c_void,
    out: Out<'_, *mut c_void>,
) -> c_int {
    number(|| {
        let fence =
            if fence >= 0 { Some(crate::c::adopt(fence).ok_or(Errno::EBADF)?) } else { None };
        let out = out.ok_or(Errno::EINVAL)?;
        let bytes = with(buffer, |buffer| Ok(Arc::clone(&buffer.bytes)))?;
        if let Some(fence) = fence {
            wait_for_fence(fence.as_fd(), None).map_err(|_| Errno::EINVAL)?;
        }
        // The mapping stays for the life of the buffer, so that the address does too.
        let mapping = bytes.mapping.get_or_init(|| bytes.bytes.map(Access::ReadWrite).ok());
        let view = mapping.as_ref().and_then(|mapping| mapping.view_mut(0..mapping.len()));
        out.write(view.ok_or(Errno::ENOMEM)?.as_mut_ptr().cast());
        Ok(0)
    })
}

pub(crate) extern "C" fn unlock(buffer: Handle<HardwareBuffer>, fence: Out<'_, i32>) -> c_int {
    number(|| {
        with(buffer, |_| Ok(()))?;
        if let Some(fence) = fence {
            // Nothing is underway.
            fence.write(-1);
        }
        Ok(0)
    })
}
