//! The results of executions.

use serde::{Deserialize, Serialize};

use super::time::Timing;
use crate::error::HalError;

/// The shape an output had, or would have had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputShape {
    /// Extents; 0 where one stays unknown.
    pub dimensions: Vec<u32>,
    /// False where the buffer given was too small.
    pub is_sufficient: bool,
}

/// The result of a successful execution beside the outputs' bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionOutcome {
    /// One per output.
    pub output_shapes: Vec<OutputShape>,
    /// As far as measured.
    pub timing: Timing,
}

/// An execution that failed; with `OUTPUT_INSUFFICIENT_SIZE` come the shapes it would have had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
pub struct ExecutionFailure {
    /// Status and reason.
    pub error: HalError,
    /// One entry per output with `OUTPUT_INSUFFICIENT_SIZE`, else empty.
    pub output_shapes: Vec<OutputShape>,
}

impl From<HalError> for ExecutionFailure {
    fn from(error: HalError) -> Self {
        Self { error, output_shapes: Vec::new() }
    }
}

/// The result of an execution.
pub type ExecutionResult = Result<ExecutionOutcome, ExecutionFailure>;
