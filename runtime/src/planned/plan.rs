//! The plan of a model: steps, and the values that go in and out of them.

use std::sync::{Arc, OnceLock};

use nnburst_hal::{Direction, Memory, Model, Operand, PreparedModel, Result};

use crate::device::Device;

/// The steps of a plan and the values between them.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The model that was compiled.
    pub(crate) model: Arc<Model>,
    /// Told by their places.
    pub(crate) steps: Vec<Step>,
    /// The inputs and outputs of the model first.
    pub(crate) slots: Vec<StepValue>,
    /// The memory of [`Home::Constant`].
    pub(crate) constants: Option<Memory>,
    /// The size of [`Home::Arena`], in bytes.
    pub(crate) arena_bytes: u64,
}

/// One value that goes in or out of steps.
#[derive(Debug)]
pub(crate) struct StepValue {
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
    pub(super) fn uses(&self, slot: usize) -> bool {
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
    pub(super) fn uses(&self, slot: usize) -> bool {
        self.variables.contains(&slot) || self.results.contains(&slot)
    }
}

/// A use of a step's argument.
pub(crate) struct StepRole {
    pub(crate) model: Arc<dyn PreparedModel>,
    pub(crate) direction: Direction,
    pub(crate) index: usize,
}
