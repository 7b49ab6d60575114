//! Executions on the program's own pointers, where the device is in this process: nothing is
//! copied.

use std::ops::Range;

use nnburst::hal::{ExecutionOutcome, View, ViewMut};
use smallvec::SmallVec;

use super::call::{Argument, ArgumentPlace, Call};
use crate::c::{Bytes, BytesMut};
use crate::compiled::Compiled;
use crate::error::Result;

/// Calls with as many inputs and outputs as this need no allocation; those with more are copied.
const FEW: usize = 8;

type Few<T> = SmallVec<[T; FEW]>;

impl Call {
    /// Runs and waits; `None` where an argument is no pointer to a whole value of the model's
    /// shape, or an output overlaps with another argument: programs may give one buffer for both.
    pub(super) fn run_in_place(&mut self, ready: &Compiled) -> Option<Result<()>> {
        if !ready.is_here || self.inputs.len().max(self.outputs.len()) > FEW {
            return None;
        }
        let mut in_place = match self.in_place.take() {
            Some(in_place) => in_place,
            None => ready.compilation.in_place()?,
        };
        let options = self.options();
        let computed = views(ready, &self.inputs, &self.outputs)
            .map(|(inputs, outputs)| in_place.compute_with(&inputs, &outputs, &options));
        self.in_place = Some(in_place);
        // What the model says of shapes need not be told.
        let outcome =
            computed?.map(|timing| ExecutionOutcome { output_shapes: Vec::new(), timing });
        Some(self.settle(ready, outcome))
    }
}

/// The arguments where they lie.
fn views<'a>(
    ready: &Compiled,
    inputs: &'a [Argument<Bytes>],
    outputs: &'a [Argument<BytesMut>],
) -> Option<(Few<View<'a>>, Few<ViewMut<'a>>)> {
    let (mut read, mut written) = (Few::new(), Few::new());
    for (input, &bytes) in inputs.iter().zip(ready.compilation.input_bytes()) {
        read.push(pointer(input, bytes)?.view(bytes?));
    }
    for (output, &bytes) in outputs.iter().zip(ready.compilation.output_bytes()) {
        written.push(pointer(output, bytes)?.view_mut(bytes?));
    }
    let (reads, writes) = (read.iter().map(of_view), written.iter().map(of_view_mut));
    for (at, output) in writes.clone().enumerate() {
        let mut others = reads.clone().chain(writes.clone().skip(at + 1));
        if others.any(|other| other.start < output.end && output.start < other.end) {
            return None;
        }
    }
    Some((read, written))
}

/// The pointer of an argument, if it is one to so many bytes.
fn pointer<P>(argument: &Argument<P>, bytes: Option<usize>) -> Option<&P> {
    match &argument.source {
        ArgumentPlace::Pointer { bytes: pointer, length } => {
            (usize::try_from(*length).ok() == bytes).then_some(pointer)
        }
        ArgumentPlace::Unset | ArgumentPlace::Omitted | ArgumentPlace::Memory { .. } => None,
    }
}

/// The addresses of a view.
fn of_view(view: &View<'_>) -> Range<usize> {
    let start = view.as_ptr().addr();
    start..start.saturating_add(view.len())
}

/// As [`of_view`].
fn of_view_mut(view: &ViewMut<'_>) -> Range<usize> {
    let start = view.as_mut_ptr().addr();
    start..start.saturating_add(view.len())
}
