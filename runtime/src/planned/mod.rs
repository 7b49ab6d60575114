//! A model over several devices, or over one that may be stood in for: a prepared model like any
//! other.
//!
//! ```text
//!   request ─► Planned ─► Run: places of all values, step by step
//!                          ├ Execution ─► a device's prepared model     fails? ─► that step
//!                          │                                 │      on the reference device
//!                          │                                 └ fails again? ─► the whole model
//!                          ├ If, While, Goto ─► the interpreter
//!                          └ values between steps: an arena in shared memory, kept for later runs
//! ```
//!
//! A step's request refers to the caller's own memories for the model's inputs and outputs, and to
//! the arena for what goes from step to step, so nothing is copied but what a loop hands out at its
//! end.

mod call;
mod fallback;
mod fenced;
mod interpret;
mod places;
mod plan;
mod run;

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nnburst_hal::process::{self, Origin};
use nnburst_hal::{
    AllowUnspecifiedOutput, Direction, ExecutionCallback, ExecutionOptions, ExecutionResult,
    FencedExecution, HalError, Memory, MemoryError, Model, PreparedModel, Request, Result, Version,
    validate_request,
};

pub(crate) use call::{InTurn, StepCall};
pub(crate) use plan::{Branch, ExecutionStep, Home, LoopStep, Plan, Step, StepRole, StepValue};

use crate::device::Device;

/// Arenas that wait for the next run; more are dropped.
const SPARE_ARENAS: usize = 4;

/// A plan ready to run.
#[derive(Debug)]
pub(crate) struct Planned {
    plan: Plan,
    /// True if what fails on a device may run on the reference device.
    may_fall_back: bool,
    arenas: Mutex<Vec<Memory>>,
    whole: fallback::Whole,
    /// Arenas, their lock and the devices' models are of the process that compiled.
    origin: Origin,
}

impl Planned {
    pub(crate) fn new(plan: Plan, may_fall_back: bool) -> Self {
        let (arenas, whole) = (Mutex::default(), fallback::Whole::default());
        Self { plan, may_fall_back, arenas, whole, origin: Origin::here() }
    }

    /// The whole model on one device, which the reference device may stand in for.
    pub(crate) fn simple(
        model: &Arc<Model>,
        device: &Device,
        prepared: Arc<dyn PreparedModel>,
    ) -> Self {
        let main = &model.main;
        let slot = |&index: &u32, home| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            main.operands.get(index).map(|operand| StepValue { operand: operand.clone(), home })
        };
        let inputs = main.input_indexes.iter().enumerate();
        let outputs = main.output_indexes.iter().enumerate();
        let slots: Vec<_> = inputs
            .filter_map(|(position, index)| slot(index, Home::Input(position)))
            .chain(outputs.filter_map(|(position, index)| slot(index, Home::Output(position))))
            .collect();
        let step = ExecutionStep {
            prepared,
            device: device.clone(),
            model: Arc::clone(model),
            inputs: (0..main.input_indexes.len()).collect(),
            outputs: (main.input_indexes.len()..slots.len()).collect(),
            on_reference: OnceLock::new(),
        };
        let steps = vec![Step::Execution(Box::new(step))];
        let plan = Plan { model: Arc::clone(model), steps, slots, constants: None, arena_bytes: 0 };
        Self::new(plan, true)
    }

    /// The steps that devices run, with their places among all steps.
    pub(crate) fn executions(&self) -> impl Iterator<Item = (usize, &ExecutionStep)> {
        self.plan.steps.iter().enumerate().filter_map(|(at, step)| match step {
            Step::Execution(step) => Some((at, step.as_ref())),
            _ => None,
        })
    }

    /// The arguments of steps that one of the model's arguments is; `None` where control flow uses
    /// it.
    pub(crate) fn steps_of(
        &self,
        direction: Direction,
        index: usize,
    ) -> Option<Vec<(&Device, StepRole)>> {
        let inputs = self.plan.model.main.input_indexes.len();
        let slot = match direction {
            Direction::Input => index,
            Direction::Output => inputs + index,
        };
        let mut roles = Vec::new();
        for step in &self.plan.steps {
            match step {
                Step::Execution(step) => {
                    let sides =
                        [(Direction::Input, &step.inputs), (Direction::Output, &step.outputs)];
                    for (direction, slots) in sides {
                        if let Some(index) = slots.iter().position(|&one| one == slot) {
                            let model = Arc::clone(&step.prepared);
                            roles.push((&step.device, StepRole { model, direction, index }));
                        }
                    }
                }
                Step::If(branch) if branch.uses(slot) => return None,
                Step::While(step) if step.uses(slot) => return None,
                _ => {}
            }
        }
        Some(roles)
    }

    /// Returns whether what fails on a device may run on the reference device.
    pub(crate) fn may_fall_back(&self) -> bool {
        self.may_fall_back
    }

    fn is_compound(&self) -> bool {
        self.plan.steps.len() > 1
    }

    /// Returns whether all steps can be launched while fences are yet to signal: the interpreter
    /// decides by values, and models of older drivers wait where they are called.
    fn waits_in_background(&self) -> bool {
        self.plan.steps.iter().all(|step| match step {
            Step::Execution(step) => {
                step.prepared.waits_in_background() && step.device.version_of_hal() >= Version::V1_3
            }
            Step::Nothing => true,
            Step::If(_) | Step::While(_) | Step::Goto(_) => false,
        })
    }

    /// Checks a request and runs it, the devices being called by `call`.
    pub(crate) fn run(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        call: &mut dyn StepCall,
    ) -> ExecutionResult {
        self.check(request, AllowUnspecifiedOutput::Yes)?;
        let arena = self.arena().map_err(HalError::from)?;
        let result = self.start(request, options, arena.clone()).go(call);
        self.give_back(arena);
        match result {
            Ok(outcome) => Ok(outcome),
            Err(stop) if self.falls_back(&stop) => {
                tracing::warn!(target: "nnburst::execution", error = %stop.failure, "on the reference device");
                self.on_reference(request, options)
            }
            Err(stop) => Err(stop.failure),
        }
    }

    fn start<'p>(
        &'p self,
        request: &'p Request,
        options: &'p ExecutionOptions,
        arena: Option<Memory>,
    ) -> run::Run<'p> {
        run::Run::new(&self.plan, self.may_fall_back, request, options, arena)
    }

    fn falls_back(&self, stop: &run::Stop) -> bool {
        self.may_fall_back && stop.may_be_retried && self.is_compound()
    }

    fn check(&self, request: &Request, allow: AllowUnspecifiedOutput) -> Result<()> {
        self.origin.check()?;
        validate_request(request, &self.plan.model, Version::V1_3, allow)
            .map_err(|error| HalError::invalid(error.to_string()))
    }

    fn arena(&self) -> std::result::Result<Option<Memory>, MemoryError> {
        if self.plan.arena_bytes == 0 {
            return Ok(None);
        }
        let spare = self.arenas.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| Memory::ashmem(self.plan.arena_bytes), Ok).map(Some)
    }

    fn give_back(&self, arena: Option<Memory>) {
        let mut spare = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_ARENAS {
            spare.extend(arena);
        }
    }
}

/// [`Planned`] as the rest of the runtime sees it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedModel(pub(crate) Arc<Planned>);

impl PreparedModel for PlannedModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        self.0.run(request, &options, &mut InTurn)
    }

    /// In a thread of its own, as every execution that is started.
    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        let planned = Arc::clone(&self.0);
        let told = Arc::clone(&callback);
        let task = move || {
            callback.notify(planned.run(&request, &options, &mut InTurn));
        };
        process::spawn("nnburst-plan", task)
            .map(drop)
            .map_err(|error| HalError::failure(format!("no thread for the execution: {error}")))
            .inspect_err(|error| told.notify(Err(error.clone().into())))
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        self.0.check(&request, AllowUnspecifiedOutput::No)?;
        fenced::run(&self.0, &request, wait_for, options, duration)
    }

    fn waits_in_background(&self) -> bool {
        self.0.waits_in_background()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
