//! Small requests over the connection, by copies: inputs are read out of the client's memory,
//! outputs are written into it.
//!
//! Each call brings its memories anew. Mapping and unmapping one takes the lock of the process's
//! address space, which waits for whatever other clients have mapped at that moment: milliseconds
//! where they send large models. Copying a few KiB takes less time than that and waits for nobody.

use std::sync::Arc;

use nnburst_executor::{Input, Output};
use nnburst_hal::{
    Budget, Charge, DataLocation, Memory, Model, OutputShape, Request, RequestArgument,
    RequestPool, Resource, Result, View, ViewMut,
};

use crate::arguments::{FEW, outside, room};

/// Bytes of the arguments of a request that is copied, at most: about where a mapping costs less.
const MOST: usize = 64 << 10;

/// The bytes of a request's arguments, in storage that is used again.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    /// The client's charge for the storage.
    charge: Option<Charge>,
}

impl Copies {
    /// Returns whether a request is for copies: it is small, the size of each output can be told
    /// from its shape, and all memories came with it.
    pub(crate) fn suit(request: &Request, model: &Model) -> bool {
        let is_copied = |pool: &RequestPool| match pool {
            RequestPool::Memory(memory) => memory.is_of_peer() && memory.is_for_copies(),
            RequestPool::Token(_) => false,
        };
        let mut arguments = request.inputs.iter().chain(&request.outputs);
        let total =
            arguments.try_fold(0usize, |sum, argument| sum.checked_add(length(argument, request)?));
        let mut outputs = 0..request.outputs.len();
        total.is_some_and(|total| total <= MOST)
            && outputs.all(|at| element_bytes(model, at).is_some())
            && request.pools.iter().all(is_copied)
    }

    /// Copies the inputs of a request that [`Copies::suit`] agreed to, and makes room for its
    /// outputs.
    ///
    /// # Errors
    /// An argument is not within its memory; there is no memory left, for this client or at all.
    pub(crate) fn read(&mut self, request: &Request, budget: Option<&Arc<Budget>>) -> Result<()> {
        let Self { inputs, outputs, charge } = self;
        let wanted = [total(&request.inputs, request), total(&request.outputs, request)];
        if let Some(budget) = budget {
            let charge = charge.get_or_insert_with(|| budget.empty());
            for (storage, wanted) in [&*inputs, &*outputs].into_iter().zip(wanted) {
                let more = wanted.saturating_sub(storage.capacity());
                charge.grow(Resource::Memory, u64::try_from(more).unwrap_or(u64::MAX))?;
            }
        }
        for (storage, wanted) in [&mut *inputs, outputs].into_iter().zip(wanted) {
            storage.try_reserve_exact(wanted.saturating_sub(storage.len()))?;
            storage.resize(wanted, 0);
        }
        let mut rest = inputs.as_mut_slice();
        for (at, argument) in request.inputs.iter().enumerate() {
            let Some((memory, offset)) = place(argument, request) else { continue };
            let bytes = take(&mut rest, argument, request).ok_or_else(|| outside("input", at))?;
            memory.read_at(offset, bytes)?;
        }
        Ok(())
    }

    /// Runs a session on the copies.
    pub(crate) fn with_arguments<R>(
        &mut self,
        request: &Request,
        act: impl FnOnce(&[Input<'_>], &[Output<'_>]) -> Result<R>,
    ) -> Result<R> {
        let (mut few_inputs, mut many_inputs) = ([Input::NoValue; FEW], Vec::new());
        let inputs = room(&mut few_inputs, &mut many_inputs, request.inputs.len(), Input::NoValue)?;
        let mut rest = self.inputs.as_slice();
        for (at, (slot, argument)) in inputs.iter_mut().zip(&request.inputs).enumerate() {
            if argument.has_no_value {
                continue;
            }
            let split = length(argument, request).and_then(|length| rest.split_at_checked(length));
            let (bytes, behind) = split.ok_or_else(|| outside("input", at))?;
            rest = behind;
            let bytes = View::of(bytes);
            *slot = Input::Value { bytes, dimensions: &argument.dimensions };
        }
        let (mut few_outputs, mut many_outputs) = ([Output::NoValue; FEW], Vec::new());
        let outputs =
            room(&mut few_outputs, &mut many_outputs, request.outputs.len(), Output::NoValue)?;
        let mut rest = self.outputs.as_mut_slice();
        for (at, (slot, argument)) in outputs.iter_mut().zip(&request.outputs).enumerate() {
            if argument.has_no_value {
                continue;
            }
            let bytes = take(&mut rest, argument, request).ok_or_else(|| outside("output", at))?;
            let bytes = ViewMut::of(bytes);
            *slot = Output::Buffer { bytes, dimensions: &argument.dimensions };
        }
        act(inputs, outputs)
    }

    /// Writes the outputs of a run that succeeded into the client's memory.
    ///
    /// # Errors
    /// The memory can't be written.
    pub(crate) fn write(
        &self,
        request: &Request,
        model: &Model,
        shapes: &[OutputShape],
    ) -> Result<()> {
        let mut rest = self.outputs.as_slice();
        for (at, argument) in request.outputs.iter().enumerate() {
            let Some((memory, offset)) = place(argument, request) else { continue };
            let split = length(argument, request).and_then(|length| rest.split_at_checked(length));
            let (bytes, behind) = split.ok_or_else(|| outside("output", at))?;
            rest = behind;
            // What lies behind a smaller output is the client's.
            let computed = shapes.get(at).and_then(|shape| bytes_of(model, at, shape));
            let computed = computed.and_then(|computed| bytes.get(..computed)).unwrap_or(bytes);
            memory.write_at(offset, computed)?;
        }
        Ok(())
    }
}

/// Bytes of an output that has this shape.
fn bytes_of(model: &Model, output: usize, shape: &OutputShape) -> Option<usize> {
    let mut extents = shape.dimensions.iter();
    extents.try_fold(element_bytes(model, output)?, |bytes, &extent| {
        bytes.checked_mul(usize::try_from(extent).ok()?)
    })
}

/// Bytes of an element of an output.
fn element_bytes(model: &Model, output: usize) -> Option<usize> {
    let operand = usize::try_from(*model.main.output_indexes.get(output)?).ok()?;
    model.main.operands.get(operand)?.kind.element_bytes()
}

/// Bytes of arguments together.
fn total(arguments: &[RequestArgument], request: &Request) -> usize {
    let lengths = arguments.iter().filter_map(|argument| length(argument, request));
    lengths.fold(0usize, usize::saturating_add)
}

/// The memory of an argument and the argument's offset in it; `None` where it is left out.
fn place<'a>(argument: &RequestArgument, request: &'a Request) -> Option<(&'a Memory, u64)> {
    if argument.has_no_value {
        return None;
    }
    match request.pools.get(usize::try_from(argument.location.pool_index).ok()?)? {
        RequestPool::Memory(memory) => Some((memory, u64::from(argument.location.offset))),
        RequestPool::Token(_) => None,
    }
}

/// Bytes of an argument: offset 0 and length 0 stand for all of a pool. `None` where that is
/// outside its memory.
fn length(argument: &RequestArgument, request: &Request) -> Option<usize> {
    if argument.has_no_value {
        return Some(0);
    }
    let (memory, offset) = place(argument, request)?;
    let length = match argument.location {
        DataLocation { offset: 0, length: 0, .. } => memory.size(),
        location => u64::from(location.length),
    };
    let is_within = offset.checked_add(length).is_some_and(|end| end <= memory.size());
    usize::try_from(length).ok().filter(|_| is_within)
}

/// Splits an argument's bytes off the front.
fn take<'a>(
    rest: &mut &'a mut [u8],
    argument: &RequestArgument,
    request: &Request,
) -> Option<&'a mut [u8]> {
    let length = length(argument, request)?;
    let (bytes, behind) = std::mem::take(rest).split_at_mut_checked(length)?;
    *rest = behind;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use nnburst_hal::{Access, Amounts};

    use super::*;

    /// A memory as a client's call brings it.
    fn memory(size: u64, budget: &Arc<Budget>) -> Memory {
        Memory::ashmem(size).unwrap().charged_to(budget, budget.empty())
    }

    fn argument(pool_index: u32, offset: u32, length: u32) -> RequestArgument {
        let location = DataLocation { pool_index, offset, length };
        RequestArgument { has_no_value: false, location, dimensions: Vec::new() }
    }

    fn request(pools: Vec<Memory>, inputs: Vec<RequestArgument>) -> Request {
        let pools = pools.into_iter().map(RequestPool::Memory).collect();
        Request { inputs, outputs: vec![argument(0, 0, 8)], pools }
    }

    /// Returns whether a request to a model with one output is for copies.
    fn suits(request: &Request) -> bool {
        let mut model = Model::default();
        model.main.operands = vec![nnburst_hal::Operand::float32([2])];
        model.main.output_indexes = vec![0];
        Copies::suit(request, &model)
    }

    #[test]
    fn small_requests_of_peers_are_copied_and_others_are_not() {
        let budget = Budget::root("test", Amounts::UNLIMITED);
        let small = |size| request(vec![memory(size, &budget)], vec![argument(0, 8, 8)]);
        assert!(suits(&small(16)));
        assert!(!suits(&small(12)), "outside its memory, which mapping refuses");
        let large = request(vec![memory(1 << 20, &budget)], vec![argument(0, 0, 0)]);
        assert!(!suits(&large), "all of a large memory");
        let large = request(vec![memory(1 << 20, &budget)], vec![argument(0, 1 << 19, 8)]);
        assert!(suits(&large), "a little of a large memory");
        let own = request(vec![Memory::ashmem(16).unwrap()], vec![argument(0, 8, 8)]);
        assert!(!suits(&own), "stays mapped from call to call");
        let missing = request(vec![memory(16, &budget)], vec![argument(1, 8, 8)]);
        assert!(!suits(&missing));
    }

    #[test]
    fn storage_is_charged_once_and_used_again() {
        let budget = Budget::root("test", Amounts::UNLIMITED);
        let memory = memory(64, &budget);
        memory.map(Access::ReadWrite).unwrap().view_mut(8..16).unwrap().copy_from_slice(&[5; 8]);
        let left_out = RequestArgument { has_no_value: true, ..RequestArgument::default() };
        let request = request(vec![memory], vec![argument(0, 8, 8), left_out]);
        let mut copies = Copies::default();
        for _ in 0..3 {
            copies.read(&request, Some(&budget)).unwrap();
            copies
                .with_arguments(&request, |inputs, outputs| {
                    let [Input::Value { bytes, .. }, Input::NoValue] = inputs else {
                        panic!("a value and none")
                    };
                    let [Output::Buffer { bytes: output, .. }] = outputs else { panic!("one") };
                    output.copy_from(*bytes);
                    Ok(())
                })
                .unwrap();
            assert_eq!(copies.outputs, [5; 8]);
            assert_eq!(budget.used(Resource::Memory), 16);
        }
    }
}
