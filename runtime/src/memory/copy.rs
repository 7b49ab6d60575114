//! Copies between memories of all kinds.

use nnburst_hal::{Access, Buffer, HalError, Memory as HalMemory, MemoryError, MemoryKind};

use super::{Body, Domain, Memory, combine};
use crate::error::{Result, RuntimeError};

pub(super) fn copy(from: &Memory, to: &Memory) -> Result<()> {
    if from.is(to) {
        return Ok(());
    }
    let moved = check(from, to).and_then(|dimensions| {
        move_bytes(from, to, &dimensions)?;
        Ok(dimensions)
    });
    // What a copy failed to fill holds nothing any more, whatever it held before.
    to.written(moved.as_ref().ok().map(Vec::as_slice));
    moved.map(drop)
}

/// Returns whether the one fits into the other, and the shape that goes over.
fn check(from: &Memory, to: &Memory) -> Result<Vec<u32>> {
    let source = from.0.domain.as_ref();
    let target = to.0.domain.as_ref();
    let held = source.map(|domain| (domain, domain.content()));
    if held.as_ref().is_some_and(|(_, content)| !content.initialized) {
        return Err(mismatch("the source was never written"));
    }
    if from.is_image() || to.is_image() {
        return Err(MemoryError::NotMappable { kind: MemoryKind::HardwareBuffer.name() }.into());
    }
    match (held, target) {
        (Some((source, content)), Some(target)) => {
            if !same_kind(source, target) {
                return Err(mismatch("the memories are for operands of other types"));
            }
            combine(&target.operand.dimensions, &content.dimensions)
                .ok_or_else(|| mismatch("the memories are for other shapes"))
        }
        (Some((source, content)), None) => {
            fits(source, &content.dimensions, to)?;
            Ok(content.dimensions)
        }
        (None, Some(target)) => {
            let dimensions = target.operand.dimensions.clone();
            fits(target, &dimensions, from)?;
            Ok(dimensions)
        }
        (None, None) => {
            let (one, other) = (size(from), size(to));
            if one != other {
                return Err(mismatch(&format!("{one:?} bytes can't be copied to {other:?}")));
            }
            Ok(Vec::new())
        }
    }
}

fn size(memory: &Memory) -> Option<u64> {
    memory.shared().map(HalMemory::size)
}

fn same_kind(one: &Domain, other: &Domain) -> bool {
    let (one, other) = (&one.operand, &other.operand);
    one.kind == other.kind
        && one.scale.to_bits() == other.scale.to_bits()
        && one.zero_point == other.zero_point
        && (one.kind.is_extension() || one.extra_params == other.extra_params)
}

/// Returns whether a value of the domain takes exactly the shared memory.
fn fits(domain: &Domain, dimensions: &[u32], shared: &Memory) -> Result<()> {
    let shaped = nnburst_hal::Operand { dimensions: dimensions.to_vec(), ..domain.operand.clone() };
    let bytes = shaped.data_size().and_then(|bytes| u64::try_from(bytes).ok());
    let size = size(shared);
    if bytes.is_some() && bytes == size {
        Ok(())
    } else {
        Err(mismatch(&format!("a value of {bytes:?} bytes and a memory of {size:?}")))
    }
}

fn move_bytes(from: &Memory, to: &Memory, dimensions: &[u32]) -> Result<()> {
    match (&from.0.body, &to.0.body) {
        (Body::Shared(from), Body::Shared(to)) => move_shared(from, to),
        (Body::Device(buffer), Body::Shared(memory)) => {
            buffer.copy_to(memory).map_err(|error| failed(buffer.as_ref(), error))
        }
        (Body::Shared(memory), Body::Device(buffer)) => {
            buffer.copy_from(memory, dimensions).map_err(|error| failed(buffer.as_ref(), error))
        }
        (Body::Device(source), Body::Device(target)) => {
            through_memory(from, source.as_ref(), target.as_ref(), dimensions)
        }
    }
}

/// Copies as many bytes as both memories have.
pub(crate) fn move_shared(from: &HalMemory, to: &HalMemory) -> Result<()> {
    let (source, target) = (from.map(Access::Read)?, to.map(Access::ReadWrite)?);
    let bytes = source.len().min(target.len());
    if let (Some(source), Some(target)) = (source.view(0..bytes), target.view_mut(0..bytes)) {
        target.copy_from(source);
    }
    if source.lost_pages() || target.lost_pages() {
        return Err(mismatch("a memory was truncated by somebody"));
    }
    Ok(())
}

fn through_memory(
    from: &Memory,
    source: &dyn Buffer,
    target: &dyn Buffer,
    dimensions: &[u32],
) -> Result<()> {
    let operand = from.0.domain.as_ref().map(|domain| nnburst_hal::Operand {
        dimensions: dimensions.to_vec(),
        ..domain.operand.clone()
    });
    let bytes = operand.and_then(|operand| operand.data_size());
    let bytes = bytes.ok_or_else(|| mismatch("the size of what is to be copied is not known"))?;
    let between = HalMemory::ashmem(u64::try_from(bytes).unwrap_or(u64::MAX))?;
    source.copy_to(&between).map_err(|error| failed(source, error))?;
    target.copy_from(&between, dimensions).map_err(|error| failed(target, error))
}

/// A driver's death told from its refusal.
fn failed(buffer: &dyn Buffer, error: HalError) -> RuntimeError {
    if buffer.is_lost() { RuntimeError::DeviceDied(error) } else { error.into() }
}

fn mismatch(why: &str) -> RuntimeError {
    RuntimeError::Argument(why.to_owned())
}
