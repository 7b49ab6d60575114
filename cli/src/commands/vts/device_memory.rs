//! Arguments in buffers that the driver manages: inputs copied in before, outputs copied out after.

use nnburst::hal::{self, Access, DataLocation, Direction, Request, RequestArgument, RequestPool};
use nnburst::{Compilation, Memory, MemoryDescriptor, RuntimeError};
use nnburst_conformance::{Case, CaseRequest};

use super::Verdict;
use super::attempt::Attempt;

/// A request over driver-managed buffers. Arguments without a value or a known size stay where they
/// were.
pub(super) struct DeviceMemory {
    request: Request,
    /// Per output, its buffer, its shape, and how many bytes that has.
    outputs: Vec<Option<(Memory, Vec<u32>, usize)>>,
    /// Kept until the execution is over.
    _inputs: Vec<Memory>,
}

impl DeviceMemory {
    /// Allocates a buffer for every argument that can have one, and fills those of the inputs.
    pub(super) fn new(
        case: &Case,
        compilation: &Compilation,
        shared: &CaseRequest,
    ) -> Result<Self, Attempt> {
        let mut request = shared.request.clone();
        let mut inputs = Vec::new();
        for (index, value) in case.inputs.iter().enumerate() {
            if value.bytes.is_empty() {
                continue;
            }
            let fill = || -> Result<Memory, RuntimeError> {
                let buffer = allocate(compilation, Direction::Input, index)?;
                Memory::copy(&memory_of(&value.bytes)?.into(), &buffer)?;
                Ok(buffer)
            };
            let buffer = fill().map_err(lost_or_wrong)?;
            put(&mut request.inputs, &mut request.pools, index, &buffer);
            inputs.push(buffer);
        }
        let mut outputs = Vec::new();
        for (index, operand) in compilation.outputs().iter().enumerate() {
            let Some(size) = operand.data_size().filter(|&size| size > 0) else {
                outputs.push(None);
                continue;
            };
            let buffer = allocate(compilation, Direction::Output, index).map_err(lost_or_wrong)?;
            put(&mut request.outputs, &mut request.pools, index, &buffer);
            outputs.push(Some((buffer, operand.dimensions.clone(), size)));
        }
        Ok(Self { request, outputs, _inputs: inputs })
    }

    /// Returns the request to execute.
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the contents of an output's buffer once the execution succeeded; `None` for an
    /// output that has none.
    pub(super) fn output(&self, index: usize) -> Option<Result<Vec<u8>, Attempt>> {
        let (buffer, shape, size) = self.outputs.get(index)?.as_ref()?;
        let read = || -> Result<Vec<u8>, RuntimeError> {
            let mut bytes = vec![0; *size];
            let memory = memory_of(&bytes)?;
            buffer.written(Some(shape));
            Memory::copy(buffer, &memory.clone().into())?;
            memory.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        Some(read().map_err(lost_or_wrong))
    }
}

/// A memory for one argument of one model.
fn allocate(
    compilation: &Compilation,
    direction: Direction,
    index: usize,
) -> Result<Memory, RuntimeError> {
    let mut descriptor = MemoryDescriptor::new();
    descriptor.add_role(compilation, direction, index, 1.0)?;
    descriptor.finish()?;
    descriptor.create_memory()
}

/// Points an argument at a buffer; of one that is shared, drivers are told the length.
fn put(
    arguments: &mut [RequestArgument],
    pools: &mut Vec<RequestPool>,
    index: usize,
    buffer: &Memory,
) {
    let pool_index = u32::try_from(pools.len()).unwrap_or(u32::MAX);
    pools.push(buffer.pool());
    let length = buffer.shared().map_or(0, |memory| u32::try_from(memory.size()).unwrap_or(0));
    if let Some(argument) = arguments.get_mut(index) {
        argument.location = DataLocation { pool_index, offset: 0, length };
    }
}

fn memory_of(bytes: &[u8]) -> Result<hal::Memory, RuntimeError> {
    let memory = hal::Memory::ashmem(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    let mapping = memory.map(Access::ReadWrite)?;
    if let Some(view) = mapping.view_mut(0..bytes.len()) {
        view.copy_from_slice(bytes);
    }
    Ok(memory)
}

fn lost_or_wrong(error: RuntimeError) -> Attempt {
    if error.is_device_lost() {
        Attempt::Lost(error.into())
    } else {
        Attempt::Wrong(Verdict::Failed(error.to_string()))
    }
}
