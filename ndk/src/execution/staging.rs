//! Memory for arguments that are pointers: a driver can't reach those, so they travel through here.

use nnburst::hal::{self, RequestArgument, RequestPool};

use super::call::{Argument, ArgumentPlace, Call};
use super::kept::ALIGNMENT;
use crate::error::{Error, Result};

impl Call {
    /// Writes the request: memories become pools, and inputs that are pointers are copied.
    pub(super) fn fill_request(&mut self) -> Result<()> {
        let Self { inputs, outputs, staging, request, .. } = self;
        request.pools.clear();
        let size = pointer_bytes(inputs).saturating_add(pointer_bytes(outputs));
        if size > 0 {
            let (memory, _) = staging.reserve(size)?;
            request.pools.push(RequestPool::Memory(memory.clone()));
        }
        let mut next = 0;
        fill(inputs, &mut request.inputs, &mut request.pools, &mut next)?;
        fill(outputs, &mut request.outputs, &mut request.pools, &mut next)?;
        self.copy_inputs();
        Ok(())
    }

    /// Copies inputs that are pointers to where the request has them.
    pub(super) fn copy_inputs(&self) {
        let Some(mapping) = self.staging.mapping() else { return };
        for (input, argument) in self.inputs.iter().zip(&self.request.inputs) {
            if let ArgumentPlace::Pointer { bytes, length } = &input.source {
                let start = widen(argument.location.offset);
                let length = widen(*length);
                if let Some(view) = mapping.view_mut(start..start.saturating_add(length)) {
                    view.copy_from(bytes.view(length));
                }
            }
        }
    }

    /// Copies outputs that are pointers to where they point.
    pub(super) fn copy_outputs(&self) {
        let Some(mapping) = self.staging.mapping() else { return };
        for (output, argument) in self.outputs.iter().zip(&self.request.outputs) {
            if let ArgumentPlace::Pointer { bytes, length } = &output.source {
                let start = widen(argument.location.offset);
                let length = widen(*length);
                if let Some(view) = mapping.view(start..start.saturating_add(length)) {
                    bytes.view_mut(length).copy_from(view);
                }
            }
        }
    }

    /// Has the memories of arguments stay mapped for executions to come, in this process.
    pub(super) fn keep_memories_mapped(&self) {
        let inputs = self.inputs.iter().filter_map(|input| input.source.memory());
        let outputs = self.outputs.iter().filter_map(|output| output.source.memory());
        inputs.chain(outputs).for_each(nnburst::Memory::stay_mapped);
    }

    /// Returns whether an output is a pointer.
    pub(crate) fn has_pointer_output(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output.source, ArgumentPlace::Pointer { .. }))
    }
}

fn fill<P>(
    arguments: &[Argument<P>],
    request: &mut Vec<RequestArgument>,
    pools: &mut Vec<RequestPool>,
    next: &mut usize,
) -> Result<()> {
    request.resize_with(arguments.len(), RequestArgument::default);
    for (argument, filled) in arguments.iter().zip(request) {
        filled.has_no_value =
            matches!(argument.source, ArgumentPlace::Omitted | ArgumentPlace::Unset);
        filled.dimensions.clear();
        filled.location = hal::DataLocation::default();
        match &argument.source {
            ArgumentPlace::Unset | ArgumentPlace::Omitted => continue,
            ArgumentPlace::Pointer { length, .. } => {
                filled.location.offset = narrow(*next)?;
                filled.location.length = *length;
                *next = next.saturating_add(widen(*length)).next_multiple_of(ALIGNMENT);
            }
            ArgumentPlace::Memory { memory, place } => {
                let at = pools.iter().position(|pool| memory.is_pool(pool)).unwrap_or_else(|| {
                    pools.push(memory.pool());
                    pools.len() - 1
                });
                filled.location = hal::DataLocation {
                    pool_index: narrow(at)?,
                    offset: place.offset,
                    length: place.length,
                };
            }
        }
        // Most are empty, and the C library's copy of no bytes may cost 80 ns, as its comparison
        // does.
        if !argument.dimensions.is_empty() {
            filled.dimensions.extend_from_slice(&argument.dimensions);
        }
    }
    Ok(())
}

/// Room that the pointers among arguments take.
fn pointer_bytes<P>(arguments: &[Argument<P>]) -> usize {
    let lengths = arguments.iter().map(|argument| match &argument.source {
        ArgumentPlace::Pointer { length, .. } => widen(*length).next_multiple_of(ALIGNMENT),
        _ => 0,
    });
    lengths.fold(0, usize::saturating_add)
}

fn widen(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn narrow(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::data("the pointers of an execution exceed 4 GiB"))
}
