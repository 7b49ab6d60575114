//! Arguments in buffers that the driver manages: inputs copied in before, outputs copied out after.

use std::sync::Arc;

use nnburst::hal::{
    Access, Buffer, BufferDesc, BufferRole, DataLocation, HalError, Memory, Request,
    RequestArgument, RequestPool,
};
use nnburst::{Compilation, RuntimeError};
use nnburst_conformance::{Case, CaseRequest};

use super::Verdict;
use super::attempt::Attempt;

/// A request over driver-managed buffers. Arguments without a value or a known size stay where they were.
pub(super) struct DeviceMemory {
    request: Request,
    /// Per output, its buffer and how many bytes that has.
    outputs: Vec<Option<(Arc<dyn Buffer>, usize)>>,
    /// Kept until the execution is over.
    _inputs: Vec<Arc<dyn Buffer>>,
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
            let buffer = allocate(compilation, index, true).map_err(lost_or_wrong)?;
            let source = memory_of(&value.bytes).map_err(lost_or_wrong)?;
            buffer.copy_from(&source, &[]).map_err(lost_or_wrong)?;
            put(&mut request.inputs, &mut request.pools, index, buffer.token());
            inputs.push(buffer);
        }
        let mut outputs = Vec::new();
        for (index, operand) in compilation.outputs().iter().enumerate() {
            let Some(size) = operand.data_size().filter(|&size| size > 0) else {
                outputs.push(None);
                continue;
            };
            let buffer = allocate(compilation, index, false).map_err(lost_or_wrong)?;
            put(&mut request.outputs, &mut request.pools, index, buffer.token());
            outputs.push(Some((buffer, size)));
        }
        Ok(Self { request, outputs, _inputs: inputs })
    }

    /// What to execute.
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// What an output's buffer has; `None` for an output that has none.
    pub(super) fn output(&self, index: usize) -> Option<Result<Vec<u8>, Attempt>> {
        let (buffer, size) = self.outputs.get(index)?.as_ref()?;
        let read = || -> Result<Vec<u8>, HalError> {
            let mut bytes = vec![0; *size];
            let memory = memory_of(&bytes)?;
            buffer.copy_to(&memory)?;
            memory.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        Some(read().map_err(lost_or_wrong))
    }
}

fn allocate(
    compilation: &Compilation,
    index: usize,
    is_input: bool,
) -> Result<Arc<dyn Buffer>, HalError> {
    let io_index = u32::try_from(index).unwrap_or(u32::MAX);
    let role = [BufferRole { model_index: 0, io_index, frequency: 1.0 }];
    let (input, output): (&[_], &[_]) = if is_input { (&role, &[]) } else { (&[], &role) };
    let models = [Arc::clone(compilation.prepared())];
    let [device, ..] = compilation.devices() else {
        return Err(HalError::failure("the model is on no device"));
    };
    device.hal().allocate(&BufferDesc::default(), &models, input, output)
}

/// Points an argument at a buffer.
fn put(arguments: &mut [RequestArgument], pools: &mut Vec<RequestPool>, index: usize, token: u32) {
    let pool_index = u32::try_from(pools.len()).unwrap_or(u32::MAX);
    pools.push(RequestPool::Token(token));
    if let Some(argument) = arguments.get_mut(index) {
        argument.location = DataLocation { pool_index, offset: 0, length: 0 };
    }
}

fn memory_of(bytes: &[u8]) -> Result<Memory, HalError> {
    let memory = Memory::ashmem(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    let mapping = memory.map(Access::ReadWrite)?;
    if let Some(view) = mapping.view_mut(0..bytes.len()) {
        view.copy_from_slice(bytes);
    }
    Ok(memory)
}

fn lost_or_wrong(error: HalError) -> Attempt {
    let error = RuntimeError::from(error);
    if error.is_device_lost() {
        Attempt::Lost(error.into())
    } else {
        Attempt::Wrong(Verdict::Failed(error.to_string()))
    }
}
