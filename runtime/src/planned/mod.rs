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
mod run;

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nnburst_hal::process::{self, Origin};
use nnburst_hal::{
    AllowUnspecifiedOutput, Direction, ExecutionCallback, ExecutionOptions, ExecutionResult,
    FencedExecution, HalError, Memory, MemoryError, Model, Operand, PreparedModel, Request, Result,
    Version, validate_request,
};

pub(crate) use call::{InTurn, StepCall};

use crate::device::Device;
use crate::memory::StepRole;

/// The steps of a plan and the values between them.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The model that was compiled.
    pub(crate) model: Arc<Model>,
    /// Told by their places.
    pub(crate) steps: Vec<Step>,
    /// The inputs and outputs of the model first.
    pub(crate) slots: Vec<Slot>,
    /// The memory of [`Home::Constant`].
    pub(crate) constants: Option<Memory>,
    /// The size of [`Home::Arena`], in bytes.
    pub(crate) arena_bytes: u64,
}

/// One value that goes in or out of steps.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) operand: Operand,
    pub(crate) home: Home,
}

/// The memory of a value.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// The model's input at this position.
    Input(usize),
    /// The model's output at this position.
    Output(usize),
    Arena {
        offset: u32,
        length: u32,
    },
    Constant {
        offset: u32,
        length: u32,
    },
    /// A constant in a memory of the model.
    Pool {
        memory: Memory,
        offset: u32,
        length: u32,
    },
    /// Bound by the interpreter, each time anew.
    Bound,
    /// Left out.
    Nowhere,
}

/// A step. Slots and steps are told by their places.
#[derive(Debug)]
pub(crate) enum Step {
    Execution(Box<ExecutionStep>),
    If(Branch),
    While(Box<LoopStep>),
    Goto(usize),
    /// A step that had nothing to say.
    Nothing,
}

/// Operations that one device runs.
pub(crate) struct ExecutionStep {
    // Before the device: the model goes first, its driver's process after it.
    pub(crate) prepared: Arc<dyn PreparedModel>,
    pub(crate) device: Device,
    pub(crate) model: Arc<Model>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// The same model on the reference device, once it was needed.
    pub(crate) on_reference: OnceLock<Result<Arc<dyn PreparedModel>>>,
}

impl std::fmt::Debug for ExecutionStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutionStep")
            .field("device", &self.device)
            .field("operations", &self.model.main.operations.len())
            .finish_non_exhaustive()
    }
}

/// An IF.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) condition: usize,
    /// For each branch, which slot of its graph stands for which outside.
    pub(crate) bindings: [Vec<(usize, usize)>; 2],
    /// The place of the second branch's first step; those of the first begin behind this one.
    pub(crate) otherwise: usize,
}

impl Branch {
    fn uses(&self, slot: usize) -> bool {
        let mut bound = self.bindings.iter().flatten();
        self.condition == slot || bound.any(|&(_, outer)| outer == slot)
    }
}

/// A WHILE.
#[derive(Debug)]
pub(crate) struct LoopStep {
    /// The initial values of the loop's variables.
    pub(crate) variables: Vec<usize>,
    pub(crate) results: Vec<usize>,
    pub(crate) condition_inputs: Vec<usize>,
    /// The condition's output and where it is kept.
    pub(crate) verdict: (usize, Home),
    pub(crate) body_inputs: Vec<usize>,
    pub(crate) body_outputs: Vec<usize>,
    /// Two places for each of the body's outputs: what one round writes, the next one reads.
    pub(crate) buffers: Vec<[Home; 2]>,
    /// The place of the body's first step; those of the condition begin behind this one.
    pub(crate) body_at: usize,
    pub(crate) exit: usize,
}

impl LoopStep {
    fn uses(&self, slot: usize) -> bool {
        self.variables.contains(&slot) || self.results.contains(&slot)
    }
}

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
            main.operands.get(index).map(|operand| Slot { operand: operand.clone(), home })
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
        let result = run::Run::new(self, request, options, arena.clone()).go(call);
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
