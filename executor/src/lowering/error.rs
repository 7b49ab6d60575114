//! The errors of the executor: in an operation, while compiling, while running.

use nnburst_hal::{ErrorStatus, HalError, MemoryError};
use nnburst_kernels::tensor::poll::Halt;
use nnburst_kernels::tensor::{NoMemory, OpError};

/// Why a model has no plan, or why a run could not specialise it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// An operation breaks one of its rules.
    #[error("operation {index} ({name}): {error}")]
    Operation {
        /// Position in its graph.
        index: usize,
        /// Name of the interface.
        name: &'static str,
        /// The rule.
        error: OpError,
    },
    /// The model breaks a rule of the interface.
    #[error(transparent)]
    Invalid(#[from] nnburst_hal::ValidationError),
    /// What runs between inputs and outputs takes more memory than
    /// [`crate::CompileOptions::arena_limit`].
    #[error("{needed} bytes between inputs and outputs, of at most {limit}")]
    TooLarge {
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that it may take.
        limit: usize,
    },
    /// There is no implementation for the operation.
    #[error("operation {index}: {kind} is not implemented here")]
    Unsupported {
        /// Position in its graph.
        index: usize,
        /// The operation.
        kind: nnburst_hal::OperationType,
    },
    /// The model contradicts itself.
    #[error("{0}")]
    Model(String),
    /// A constant of the model could not be read.
    #[error("constant operand {operand}: {error}")]
    Constant {
        /// Position in its graph.
        operand: usize,
        /// The memory's error, or the range that is not there.
        error: String,
    },
    /// `NNBURST_ISA` or the option asks for what this machine or program doesn't have.
    #[error(transparent)]
    Isa(#[from] nnburst_kernels::simd::IsaError),
    /// The parts of a plan that was kept don't belong together, or are of another build.
    #[error("the cached plan doesn't fit its model")]
    Cache,
    /// There is no memory for the plan.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The stop flag was set.
    #[error("stopped")]
    Stopped,
    /// The deadline passed before all was compiled.
    #[error("the deadline has passed")]
    DeadlineMissed,
}

impl CompileError {
    pub(crate) fn memory(operand: usize, error: &MemoryError) -> Self {
        Self::Constant { operand, error: error.to_string() }
    }
}

/// Why a run gave no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An output's buffer is too small; [`crate::Session::output_shapes`] tells what is needed.
    #[error("output {index} takes {needed} bytes, its buffer has {given}")]
    InsufficientSize {
        /// The first output that doesn't fit.
        index: usize,
        /// Bytes it takes.
        needed: usize,
        /// Bytes its buffer has.
        given: usize,
    },
    /// An argument doesn't fit the model.
    #[error("{direction} argument {index}: {what}")]
    Argument {
        /// `input` or `output`.
        direction: &'static str,
        /// Position among the model's inputs or outputs.
        index: usize,
        /// The rule, with the figures.
        what: String,
    },
    /// An output came out in another shape than the one asked for.
    #[error("output {index} is of shape {computed:?}, asked for as {asked:?}")]
    OutputShape {
        /// Position among the model's outputs.
        index: usize,
        /// As it came out.
        computed: Vec<u32>,
        /// As the request has it; 0 is open.
        asked: Vec<u32>,
    },
    /// The shapes or values of this request don't fit the model.
    #[error(transparent)]
    Specialise(CompileError),
    /// An operation met a value that it can't compute with, such as an index out of range.
    #[error("operation {index} ({name}): {what}")]
    Operation {
        /// Position in its graph.
        index: usize,
        /// Name of the interface.
        name: &'static str,
        /// The rule, with the figures.
        what: String,
    },
    /// The stop flag was set.
    #[error("stopped")]
    Stopped,
    /// The deadline passed before all was computed.
    #[error("the deadline has passed")]
    DeadlineMissed,
    /// There is no memory for what the request needs.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// A helper thread ended in the middle of a step, and its share of the step with it.
    #[error("a helper thread was lost: {lost} of the {count} bands of a step did not run")]
    LostBands {
        /// Bands that did not run to their end.
        lost: usize,
        /// Bands of the step.
        count: usize,
    },
    /// A WHILE ran longer than it may.
    #[error("operation {index} (WHILE) ran longer than {timeout:?}")]
    LoopTimeout {
        /// Position in its graph.
        index: usize,
        /// The limit.
        timeout: std::time::Duration,
    },
}

impl From<Halt> for CompileError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Stopped => Self::Stopped,
            Halt::DeadlineMissed => Self::DeadlineMissed,
        }
    }
}

impl From<Halt> for RunError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Stopped => Self::Stopped,
            Halt::DeadlineMissed => Self::DeadlineMissed,
        }
    }
}

/// Runs compile what is new to them; being told to end means the same then.
impl From<CompileError> for RunError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Stopped => Self::Stopped,
            CompileError::DeadlineMissed => Self::DeadlineMissed,
            CompileError::NoMemory(error) => Self::NoMemory(error),
            error => Self::Specialise(error),
        }
    }
}

/// The status of the interface for each outcome.
impl From<CompileError> for HalError {
    fn from(error: CompileError) -> Self {
        let text = error.to_string();
        match error {
            CompileError::NoMemory(error) => error.into(),
            CompileError::Unsupported { .. }
            | CompileError::Isa(_)
            | CompileError::Cache
            | CompileError::Stopped => Self::failure(text),
            // However often it is tried.
            CompileError::TooLarge { .. } => {
                Self::new(ErrorStatus::ResourceExhaustedPersistent, text)
            }
            CompileError::DeadlineMissed => Self::new(ErrorStatus::MissedDeadlineTransient, text),
            _ => Self::invalid(text),
        }
    }
}

/// The status of the interface for each outcome.
impl From<RunError> for HalError {
    fn from(error: RunError) -> Self {
        let status = match &error {
            RunError::InsufficientSize { .. } => ErrorStatus::OutputInsufficientSize,
            RunError::Argument { .. } => ErrorStatus::InvalidArgument,
            RunError::NoMemory(error) => return error.clone().into(),
            RunError::Specialise(CompileError::TooLarge { .. }) => {
                ErrorStatus::ResourceExhaustedPersistent
            }
            RunError::DeadlineMissed | RunError::LoopTimeout { .. } => {
                ErrorStatus::MissedDeadlineTransient
            }
            _ => ErrorStatus::GeneralFailure,
        };
        Self::new(status, error.to_string())
    }
}
