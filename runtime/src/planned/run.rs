//! One run of a plan.

use std::collections::HashMap;

use nnburst_hal::{
    ErrorStatus, ExecutionFailure, ExecutionOptions, ExecutionOutcome, HalError, Memory,
    OutputShape, Request, Result, TimePoint, Timing,
};

use super::call::StepCall;
use super::interpret::LoopState;
use super::places::{self, ValuePlace};
use super::plan::{ExecutionStep, Home, Plan, Step, StepValue};

/// Why a run ended early.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) failure: ExecutionFailure,
    /// True if the reference device may try.
    pub(super) may_be_retried: bool,
}

impl Stop {
    pub(super) fn for_good(failure: impl Into<ExecutionFailure>) -> Self {
        Self { failure: failure.into(), may_be_retried: false }
    }
}

/// Failures of a driver's step, or of moving values, which the reference device may retry.
impl From<HalError> for Stop {
    fn from(error: HalError) -> Self {
        Self { failure: error.into(), may_be_retried: true }
    }
}

/// The values of a run, and how far it is.
pub(super) struct Run<'p> {
    plan: &'p Plan,
    /// True if what fails on a device may run on the reference device.
    may_fall_back: bool,
    request: &'p Request,
    pub(super) options: &'p ExecutionOptions,
    arena: Option<Memory>,
    /// One per slot.
    pub(super) places: Vec<ValuePlace>,
    /// The loops under way, by their steps.
    pub(super) loops: HashMap<usize, LoopState>,
    timing: Timing,
}

impl<'p> Run<'p> {
    pub(super) fn new(
        plan: &'p Plan,
        may_fall_back: bool,
        request: &'p Request,
        options: &'p ExecutionOptions,
        arena: Option<Memory>,
    ) -> Self {
        let place = |slot: &StepValue| {
            ValuePlace::of(&slot.home, &slot.operand, plan, request, arena.as_ref())
        };
        let places = plan.slots.iter().map(place).collect();
        let (loops, timing) = (HashMap::new(), Timing::NONE);
        Self { plan, may_fall_back, request, options, arena, places, loops, timing }
    }

    pub(super) fn go(
        mut self,
        call: &mut dyn StepCall,
    ) -> std::result::Result<ExecutionOutcome, Stop> {
        let mut at = 0;
        while let Some(step) = self.plan.steps.get(at) {
            at = match step {
                Step::Execution(step) => {
                    self.check_deadline()?;
                    self.execute(at, step, call)?;
                    at + 1
                }
                Step::If(branch) => {
                    call.settle()?;
                    self.branch(at, branch)?
                }
                Step::While(step) => {
                    call.settle()?;
                    self.repeat(at, step)?
                }
                Step::Goto(target) => *target,
                Step::Nothing => at + 1,
            };
        }
        Ok(ExecutionOutcome { output_shapes: self.shapes(), timing: self.timing })
    }

    fn execute(
        &mut self,
        at: usize,
        step: &ExecutionStep,
        call: &mut dyn StepCall,
    ) -> std::result::Result<(), Stop> {
        let request = self.request_of(step);
        let mut result = call.call(at, &step.prepared, &request, self.options);
        let mut told = self.take_shapes(step, &mut result);
        if let Err(failure) = &told
            && failure.error.status != ErrorStatus::OutputInsufficientSize
            && self.may_fall_back
            && call.may_mix()
            && !step.device.is_reference()
        {
            tracing::warn!(
                target: "nnburst::execution", error = %failure, step = at,
                "{} failed, the reference device stands in", step.device.name(),
            );
            let mut again = step.run_on_reference(&request, self.options);
            told = self.take_shapes(step, &mut again);
        }
        told.map_err(|failure| {
            let is_size = failure.error.status == ErrorStatus::OutputInsufficientSize;
            Stop { failure, may_be_retried: !is_size }
        })
    }

    fn request_of(&self, step: &ExecutionStep) -> Request {
        let argument = |&slot: &usize, index: &u32| {
            let index = usize::try_from(*index).ok()?;
            Some((self.places.get(slot)?, step.model.main.operands.get(index)?))
        };
        let main = &step.model.main;
        places::request(
            step.inputs.iter().zip(&main.input_indexes).filter_map(|(slot, at)| argument(slot, at)),
            step.outputs
                .iter()
                .zip(&main.output_indexes)
                .filter_map(|(slot, at)| argument(slot, at)),
        )
    }

    /// Notes what a step's answer says of shapes.
    fn take_shapes(
        &mut self,
        step: &ExecutionStep,
        result: &mut nnburst_hal::ExecutionResult,
    ) -> std::result::Result<(), ExecutionFailure> {
        let (shapes, failure) = match result {
            Ok(outcome) => {
                self.timing = outcome.timing;
                (&outcome.output_shapes, None)
            }
            Err(failure) if failure.error.status == ErrorStatus::OutputInsufficientSize => {
                (&failure.output_shapes, Some(&failure.error))
            }
            Err(failure) => return Err(failure.error.clone().into()),
        };
        if shapes.is_empty() && failure.is_none() {
            return Ok(());
        }
        if shapes.len() != step.outputs.len() {
            let (told, outputs) = (shapes.len(), step.outputs.len());
            let why = format!("the driver reports {told} output shapes, expected {outputs}");
            return Err(HalError::failure(why).into());
        }
        let mut short = vec![false; self.request.outputs.len()];
        for (&slot, shape) in step.outputs.iter().zip(shapes) {
            let Some(place) = self.places.get_mut(slot) else { continue };
            place.dimensions = places::merge(&place.dimensions, shape)?;
            if shape.is_sufficient {
                continue;
            }
            match (failure, place.output.and_then(|at| short.get_mut(at))) {
                (Some(_), Some(short)) => *short = true,
                _ => {
                    let why = "a value between steps is larger than its known shape";
                    return Err(HalError::failure(why).into());
                }
            }
        }
        match failure {
            None => Ok(()),
            Some(error) => {
                let mut output_shapes = self.shapes();
                for (shape, short) in output_shapes.iter_mut().zip(short) {
                    shape.is_sufficient = !short;
                }
                Err(ExecutionFailure { error: error.clone(), output_shapes })
            }
        }
    }

    /// The shapes of the model's outputs, as far as they are known.
    fn shapes(&self) -> Vec<OutputShape> {
        let first = self.plan.model.main.input_indexes.len();
        let outputs = self.places.iter().skip(first).take(self.request.outputs.len());
        outputs
            .map(|place| OutputShape { dimensions: place.dimensions.clone(), is_sufficient: true })
            .collect()
    }

    /// A place in the arena, for values that the interpreter keeps.
    pub(super) fn place_of(&self, home: &Home, slot: usize) -> ValuePlace {
        self.plan
            .slots
            .get(slot)
            .map(|slot| {
                ValuePlace::of(home, &slot.operand, self.plan, self.request, self.arena.as_ref())
            })
            .unwrap_or_default()
    }

    fn check_deadline(&self) -> Result<()> {
        if self.options.deadline.is_some_and(TimePoint::has_passed) {
            let status = ErrorStatus::MissedDeadlineTransient;
            return Err(HalError::new(status, "the deadline passed between two steps"));
        }
        Ok(())
    }
}
