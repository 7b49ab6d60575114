//! Memory for the arguments of executions: shared with whoever computes, or a device's own.
//!
//! ```text
//!   Memory::from_fd, new, hardware_buffer ─► shared: any offset and length, any use
//!   MemoryDescriptor (roles) ─► create ─► a device's own, if one device has all the roles
//!                                         else shared; either way only for the roles, and whole
//! ```

pub(crate) mod copy;
mod descriptor;
mod place;

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nnburst_hal::process::Origin;
use nnburst_hal::{
    Buffer, DataLocation, Direction, Mapping, Memory as HalMemory, MemoryKind, Operand, RequestPool,
};

pub use descriptor::MemoryDescriptor;

use crate::error::{Result, RuntimeError};

/// Memory for arguments of executions and constants. Clones are the same memory.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

/// A memory for as long as somebody else holds it.
#[derive(Debug)]
pub(crate) struct WeakMemory(Weak<Inner>);

impl WeakMemory {
    pub(crate) fn upgrade(&self) -> Option<Memory> {
        self.0.upgrade().map(Memory)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

struct Inner {
    body: Body,
    /// Its use, if it was made from a descriptor.
    domain: Option<Domain>,
    /// See [`Memory::stay_mapped`].
    mapping: Mutex<Option<Arc<Mapping>>>,
    /// The process that made it: in a forked child, threads of the parent's may hold its locks.
    origin: Origin,
}

enum Body {
    Shared(HalMemory),
    /// A driver's buffer, which its token stands for.
    Device(Arc<dyn Buffer>),
}

/// The use of a memory from a descriptor, and its contents.
#[derive(Debug)]
struct Domain {
    roles: Vec<Role>,
    /// Type, quantisation, and the shape as far as roles and descriptor settle it.
    operand: Operand,
    content: Mutex<Content>,
}

/// One use: a model's argument.
#[derive(Clone, Debug, PartialEq)]
struct Role {
    compilation: CompilationId,
    direction: Direction,
    index: usize,
}

/// The identity of a compilation, which it keeps alive.
#[derive(Clone)]
pub(crate) struct CompilationId(Arc<dyn Any + Send + Sync>);

impl CompilationId {
    pub(crate) fn of(compilation: Arc<impl Any + Send + Sync>) -> Self {
        Self(compilation)
    }
}

impl PartialEq for CompilationId {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl std::fmt::Debug for CompilationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CompilationId").field(&Arc::as_ptr(&self.0)).finish()
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    initialized: bool,
    /// The shape of what was written last.
    dimensions: Vec<u32>,
}

impl Memory {
    /// New shared memory, zeroed and sealed.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`] where there is none to be had.
    pub fn new(size: u64) -> Result<Self> {
        Ok(HalMemory::ashmem(size)?.into())
    }

    /// `size` bytes of a file from `offset` on; any file that can be mapped, at any offset, written
    /// to only if `writable`. The descriptor is this memory's own: hand over a duplicate.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`] if the file ends before the range does.
    pub fn from_fd(fd: OwnedFd, offset: u64, size: u64, writable: bool) -> Result<Self> {
        Ok(HalMemory::from_fd(fd, offset, size, writable)?.into())
    }

    /// A hardware buffer: what stands in for Android's `AHardwareBuffer` is a memfd or dma-buf. A
    /// `blob` is a run of bytes; other formats are for arguments alone, whole, on devices that know
    /// them.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`] if the file is shorter than `size`.
    pub fn from_hardware_buffer(fd: OwnedFd, size: u64, is_blob: bool) -> Result<Self> {
        let kind =
            if is_blob { MemoryKind::HardwareBufferBlob } else { MemoryKind::HardwareBuffer };
        Ok(HalMemory::from_handle(kind.name(), vec![fd], Vec::new(), size)?.into())
    }

    /// Returns the pool that stands for the memory in a request.
    pub fn pool(&self) -> RequestPool {
        match &self.0.body {
            Body::Shared(memory) => RequestPool::Memory(memory.clone()),
            Body::Device(buffer) => RequestPool::Token(buffer.token()),
        }
    }

    /// Returns whether a pool of a request is this memory.
    pub fn is_pool(&self, pool: &RequestPool) -> bool {
        match (&self.0.body, pool) {
            (Body::Shared(memory), RequestPool::Memory(pool)) => memory.id() == pool.id(),
            (Body::Device(buffer), RequestPool::Token(token)) => buffer.token() == *token,
            (Body::Shared(_), RequestPool::Token(_))
            | (Body::Device(_), RequestPool::Memory(_)) => false,
        }
    }

    /// The shared memory; `None` of a device's own.
    #[inline]
    pub fn shared(&self) -> Option<&HalMemory> {
        match &self.0.body {
            Body::Shared(memory) => Some(memory),
            Body::Device(_) => None,
        }
    }

    /// Has shared memory stay mapped in this process from now on, as long as it lives: for
    /// executions on devices of this process, each of which would map what can be cut short anew.
    /// Nothing happens where it can't be mapped.
    pub fn stay_mapped(&self) {
        let Some(shared) = self.shared().filter(|_| self.0.origin.is_here()) else { return };
        let mut mapping = self.0.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if mapping.as_ref().is_none_or(|mapping| mapping.lost_pages()) {
            *mapping = shared.mapped().ok();
        }
    }

    /// Returns whether it was made from a descriptor: then it is used whole, and for its roles
    /// alone.
    #[inline]
    pub fn has_roles(&self) -> bool {
        self.0.domain.is_some()
    }

    /// As [`Memory::place`], for a constant of a model.
    ///
    /// # Errors
    /// As for [`Memory::place`]; memories from descriptors and buffers with a format hold no
    /// constants.
    pub fn place_constant(&self, offset: u32, length: u32) -> Result<DataLocation> {
        self.0.origin.check()?;
        if self.is_image() || self.has_roles() {
            return Err(RuntimeError::Argument("such a memory holds no constants".into()));
        }
        self.check_range(offset, length)?;
        Ok(DataLocation { pool_index: 0, offset, length })
    }

    /// Returns whether it is a hardware buffer whose format only its devices know.
    fn is_image(&self) -> bool {
        self.shared().is_some_and(|memory| memory.kind() == MemoryKind::HardwareBuffer)
    }

    fn check_range(&self, offset: u32, length: u32) -> Result<()> {
        let size = self.shared().map_or(0, HalMemory::size);
        let end = u64::from(offset) + u64::from(length);
        if end > size || (offset, length) == (0, 0) {
            return Err(RuntimeError::Argument(format!(
                "bytes {offset}..{end} of a memory of {size}"
            )));
        }
        Ok(())
    }

    /// Before an execution reads it: the shape of what it holds, where it keeps count of that.
    /// `dimensions` are those that the execution was given, or empty.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` where nothing was ever written, or something of another shape.
    pub fn check_input(&self, dimensions: &[u32]) -> Result<Option<Vec<u32>>> {
        self.0.origin.check()?;
        let Some(domain) = &self.0.domain else { return Ok(None) };
        let content = domain.content();
        if !content.initialized {
            return Err(failure("an input's memory was never written"));
        }
        let open = dimensions.is_empty() || dimensions.contains(&0);
        if !open && !content.dimensions.is_empty() && content.dimensions != dimensions {
            return Err(failure(format!(
                "an input of shape {dimensions:?} is in a memory that holds {:?}",
                content.dimensions
            )));
        }
        Ok(Some(content.dimensions))
    }

    /// Before an execution writes it.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` where the shape doesn't fit the one it was made for.
    pub fn check_output(&self, dimensions: &[u32]) -> Result<()> {
        self.0.origin.check()?;
        let Some(domain) = &self.0.domain else { return Ok(()) };
        match combine(&domain.operand.dimensions, dimensions) {
            Some(_) => Ok(()),
            None => Err(failure(format!(
                "an output of shape {dimensions:?} in a memory made for {:?}",
                domain.operand.dimensions
            ))),
        }
    }

    /// After an execution: the shape that was written, or that it failed.
    pub fn written(&self, dimensions: Option<&[u32]>) {
        if let Some(domain) = self.0.domain.as_ref().filter(|_| self.0.origin.is_here()) {
            domain.set(dimensions.map(<[u32]>::to_vec));
        }
    }

    /// Copies all of a memory to another.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] where they don't fit one another, or the source was never
    /// written; [`RuntimeError::Memory`] for what can't be mapped.
    pub fn copy(from: &Self, to: &Self) -> Result<()> {
        from.0.origin.check()?;
        to.0.origin.check()?;
        copy::copy(from, to)
    }

    /// The driver's buffer behind a device's own memory.
    pub(crate) fn buffer(&self) -> Option<&Arc<dyn Buffer>> {
        match &self.0.body {
            Body::Shared(_) => None,
            Body::Device(buffer) => Some(buffer),
        }
    }

    /// The shape of what the memory holds, as far as that is known; empty if nothing is.
    pub(crate) fn held_dimensions(&self) -> Vec<u32> {
        let Some(domain) = self.0.domain.as_ref().filter(|_| self.0.origin.is_here()) else {
            return Vec::new();
        };
        let (content, made) = (domain.content(), &domain.operand.dimensions);
        combine(&content.dimensions, made).unwrap_or(content.dimensions)
    }

    /// The shape that the memory was made for, as far as roles and descriptor settle it.
    pub(crate) fn made_dimensions(&self) -> &[u32] {
        self.0
            .domain
            .as_ref()
            .map(|domain| domain.operand.dimensions.as_slice())
            .unwrap_or_default()
    }

    pub(crate) fn downgrade(&self) -> WeakMemory {
        WeakMemory(Arc::downgrade(&self.0))
    }

    /// Returns whether both are the same memory.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Domain {
    fn content(&self) -> Content {
        self.content.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, dimensions: Option<Vec<u32>>) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        *content = match dimensions {
            Some(dimensions) => Content { initialized: true, dimensions },
            None => Content::default(),
        };
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl From<HalMemory> for Memory {
    fn from(memory: HalMemory) -> Self {
        Self(Arc::new(Inner {
            body: Body::Shared(memory),
            domain: None,
            mapping: Mutex::default(),
            origin: Origin::here(),
        }))
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Memory");
        match &self.0.body {
            Body::Shared(memory) => debug.field("shared", memory),
            Body::Device(buffer) => debug.field("token", &buffer.token()),
        };
        debug.field("roles", &self.0.domain.as_ref().map(|domain| domain.roles.len())).finish()
    }
}

/// Two shapes in one, if they can be: what one leaves open (an extent of 0, or the rank) the other
/// settles.
pub(crate) fn combine(one: &[u32], other: &[u32]) -> Option<Vec<u32>> {
    match (one, other) {
        ([], shape) | (shape, []) => Some(shape.to_vec()),
        _ if one.len() != other.len() => None,
        _ => one
            .iter()
            .zip(other)
            .map(|(&one, &other)| match (one, other) {
                (0, extent) | (extent, 0) => Some(extent),
                (one, other) => (one == other).then_some(one),
            })
            .collect(),
    }
}

fn failure(why: impl Into<String>) -> RuntimeError {
    nnburst_hal::HalError::failure(why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_combine_where_neither_contradicts() {
        for (one, other, want) in [
            (&[][..], &[2, 3][..], Some(vec![2, 3])),
            (&[2, 0], &[0, 3], Some(vec![2, 3])),
            (&[2, 0], &[2, 0], Some(vec![2, 0])),
            (&[2, 3], &[2, 4], None),
            (&[2], &[2, 1], None),
        ] {
            assert_eq!(combine(one, other), want, "{one:?} {other:?}");
            assert_eq!(combine(other, one), want, "{other:?} {one:?}");
        }
    }

    #[test]
    fn ranges_of_shared_memory_are_checked() {
        let memory = Memory::new(64).unwrap();
        assert!(memory.place_constant(60, 4).is_ok());
        assert!(memory.place_constant(0, 0).is_err(), "no bytes");
        assert!(memory.place_constant(61, 4).is_err());
        assert!(memory.place_constant(u32::MAX, u32::MAX).is_err());
        assert_eq!(memory.check_input(&[1]).unwrap(), None, "it keeps no count");
        let fd = memory.shared().unwrap().fd().try_clone_to_owned().unwrap();
        let image = Memory::from_hardware_buffer(fd, 0, false).unwrap();
        assert!(image.place_constant(0, 4).is_err());
    }
}
