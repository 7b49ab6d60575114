//! The arguments of a request: its arguments, held against what the model declares, and where
//! outputs go.

use std::sync::Arc;

use nnburst_hal::{Budget, Operand};
use nnburst_kernels::tensor::AlignedBytes;

use super::{Input, Output};
use crate::lowering::RunError;
use crate::lowering::extension::Types;
use crate::lowering::io::SlotMemory;
use crate::lowering::state::ArgumentShape;

/// The destination of outputs.
pub(super) enum Sink<'a> {
    /// Into the memory of the request.
    Given(&'a [Output<'a>]),
    /// Into memory that grows as needed.
    Owned(&'a mut [AlignedBytes]),
}

impl Sink<'_> {
    /// Returns the number of them.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Given(outputs) => outputs.len(),
            Self::Owned(buffers) => buffers.len(),
        }
    }

    /// Returns whether the request wants none of it.
    pub(super) fn is_omitted(&self, index: usize) -> bool {
        matches!(self, Self::Given(outputs) if matches!(outputs.get(index), Some(Output::NoValue)))
    }

    /// Returns the destination of one; an empty place where it is unknown or omitted.
    pub(super) fn slot(&mut self, index: usize) -> SlotMemory {
        match self {
            Self::Given(outputs) => match outputs.get(index) {
                Some(Output::Buffer { bytes, .. }) => SlotMemory::of(*bytes),
                _ => SlotMemory::EMPTY,
            },
            Self::Owned(buffers) => {
                buffers.get_mut(index).map_or(SlotMemory::EMPTY, |b| SlotMemory::of(b.view_mut()))
            }
        }
    }

    /// Makes room, where the memory is ours.
    pub(super) fn reserve(
        &mut self,
        index: usize,
        bytes: usize,
        budget: Option<&Arc<Budget>>,
    ) -> Result<(), RunError> {
        match self {
            Self::Owned(buffers) => match buffers.get_mut(index) {
                Some(buffer) => Ok(buffer.try_grow(bytes, budget)?),
                None => Ok(()),
            },
            Self::Given(_) => Ok(()),
        }
    }
}

/// Returns whether an argument has the shape that a path was compiled for.
pub(super) fn fits(input: &Input<'_>, known: &ArgumentShape, declared: &[u32]) -> bool {
    match (input, known) {
        (Input::NoValue, ArgumentShape::Omitted) => true,
        (Input::Value { dimensions, .. }, ArgumentShape::Known(known)) => {
            let asked = if dimensions.is_empty() { declared } else { dimensions };
            asked == &known[..]
        }
        _ => false,
    }
}

/// The shape an argument has, given what the model declares and what the request says.
pub(super) fn argument_shape(
    input: &Input<'_>,
    operand: &Operand,
    types: &Types,
) -> Result<ArgumentShape, String> {
    let Input::Value { bytes, dimensions } = input else { return Ok(ArgumentShape::Omitted) };
    let declared = &operand.dimensions[..];
    let refines = declared.is_empty()
        || dimensions.len() == declared.len()
            && declared.iter().zip(*dimensions).all(|(&d, &asked)| d == 0 || d == asked);
    if !dimensions.is_empty() && !refines {
        return Err(format!("is of {dimensions:?}, the model declares {declared:?}"));
    }
    let whole = if dimensions.is_empty() { declared } else { dimensions };
    if bytes.is_empty() && !whole.contains(&0) {
        return Err("has no bytes".to_owned());
    }
    if dimensions.is_empty() && whole.contains(&0) {
        return Err(format!("has extents that neither model nor request tell: {whole:?}"));
    }
    if whole.is_empty() && !types.is_scalar(operand.kind) {
        return Err("has no shape".to_owned());
    }
    Ok(ArgumentShape::Known(whole.to_vec()))
}

/// Where an argument lies, which must have `needed` bytes at least.
pub(super) fn input_slot(
    index: usize,
    input: &Input<'_>,
    shape: &ArgumentShape,
    needed: usize,
) -> Result<SlotMemory, RunError> {
    let (Input::Value { bytes, .. }, ArgumentShape::Known(dimensions)) = (input, shape) else {
        return Ok(SlotMemory::EMPTY);
    };
    if bytes.len() < needed {
        let what = format!("takes {needed} bytes for {dimensions:?}, given {}", bytes.len());
        return Err(RunError::Argument { direction: "input", index, what });
    }
    Ok(SlotMemory::of_input(*bytes))
}

/// The request has as many arguments as the model.
pub(super) fn check_count(
    direction: &'static str,
    given: usize,
    wanted: usize,
) -> Result<(), RunError> {
    if given == wanted {
        return Ok(());
    }
    let what = format!("{given} given, the model has {wanted}");
    Err(RunError::Argument { direction, index: given.min(wanted), what })
}
