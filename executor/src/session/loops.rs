//! WHILE: a condition and a body that are graphs of their own, run until the condition is false.
//!
//! State goes from one iteration to the next between two sets of buffers. Shapes may grow with
//! every iteration; the body's runner then specialises for the new ones.

use std::time::Instant;

use nnburst_hal::View;
use nnburst_kernels::tensor::{AlignedBytes, Shape, poll};

use super::arguments::Sink;
use super::runner::{Runner, view_of};
use super::{Input, Orders};
use crate::lowering::context::Context;
use crate::lowering::io::SlotMemory;
use crate::lowering::{CompileError, DynamicOutput, RunError};
use crate::plan::LoopTail;

/// The runners of a WHILE and its state.
#[derive(Debug)]
pub(super) struct Loop {
    condition: Runner,
    body: Runner,
    /// Written by the body.
    fresh: Vec<AlignedBytes>,
    /// Read by condition and body.
    current: Vec<AlignedBytes>,
    /// Shapes of what is current.
    shapes: Vec<Vec<u32>>,
}

impl Loop {
    pub(super) fn new(context: &Context, tail: &LoopTail) -> Self {
        let states = context.graphs[tail.body].outputs.len();
        let buffers = || (0..states).map(|_| AlignedBytes::zeroed(0)).collect();
        Self {
            condition: Runner::new(context, tail.condition, None),
            body: Runner::new(context, tail.body, None),
            fresh: buffers(),
            current: buffers(),
            shapes: Vec::new(),
        }
    }

    /// The values of the WHILE's outputs.
    pub(super) fn run(
        &mut self,
        context: &Context,
        tail: &LoopTail,
        slots: &[SlotMemory],
        orders: &mut Orders<'_>,
    ) -> Result<Vec<DynamicOutput>, RunError> {
        let start = Instant::now();
        // SAFETY: slots stay mapped, and the plan's constants stay, for the whole of the outer run,
        // which this is part of; the views go when it returns.
        let view = |place| unsafe { view_of(place, slots) };
        let initial: Vec<View<'_>> = tail.inputs.iter().map(|(place, _)| view(place)).collect();
        self.shapes = tail.inputs.iter().map(|(_, dimensions)| dimensions.clone()).collect();
        let mut has_run = false;
        let states = self.current.len();
        let control = orders.control;
        loop {
            control.check()?;
            let inputs: Vec<Input<'_>> = initial
                .iter()
                .zip(&self.shapes)
                .enumerate()
                .map(|(index, (&given, dimensions))| {
                    let bytes = match self.current.get(index) {
                        Some(state) if has_run => state.view(),
                        _ => given,
                    };
                    Input::Value { bytes, dimensions }
                })
                .collect();
            let mut go_on = [AlignedBytes::zeroed(1)];
            self.condition.run(context, &inputs, &mut Sink::Owned(&mut go_on), orders)?;
            if go_on[0].as_slice().first().is_none_or(|&byte| byte == 0) {
                break;
            }
            if start.elapsed() > control.loop_timeout {
                let timeout = control.loop_timeout;
                return Err(RunError::LoopTimeout { index: tail.index, timeout });
            }
            self.body.run(context, &inputs, &mut Sink::Owned(&mut self.fresh), orders)?;
            drop(inputs);
            std::mem::swap(&mut self.fresh, &mut self.current);
            for (shape, made) in self.shapes.iter_mut().zip(self.body.shapes()) {
                shape.clone_from(&made.dimensions);
            }
            has_run = true;
        }
        debug_assert!(states >= tail.outputs.len());
        self.results(context, tail, &initial, has_run)
    }

    fn results(
        &self,
        context: &Context,
        tail: &LoopTail,
        initial: &[View<'_>],
        has_run: bool,
    ) -> Result<Vec<DynamicOutput>, RunError> {
        let result = |index: usize| {
            let shape = Shape::from_u32(&self.shapes[index])
                .map_err(|error| CompileError::Model(error.to_string()))?;
            // Buffers grow and never shrink; the value may be shorter by now.
            let whole = if has_run { self.current[index].view() } else { initial[index] };
            let len = result_bytes(context, tail, index, &shape).min(whole.len());
            let mut bytes = AlignedBytes::charged(len, context.budget.as_ref())?;
            poll::copy(whole, bytes.view_mut());
            poll::halted()?;
            Ok(DynamicOutput { shape, bytes })
        };
        (0..tail.outputs.len()).map(result).collect()
    }
}

/// Bytes of a result, by the type that the body gives it.
fn result_bytes(context: &Context, tail: &LoopTail, index: usize, shape: &Shape) -> usize {
    let body = &context.graphs[tail.body];
    let kind = body.operands[body.outputs[index]].kind;
    let element = context.types.element_bytes(kind).unwrap_or(0);
    shape.elements().saturating_mul(element)
}
