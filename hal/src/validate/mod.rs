//! The rules: what a model, a request and a memory descriptor have to be, per version of the HAL.
//!
//! ```text
//!   validate_model    operands ► operations ► lists ► graph, per graph ► pools ► cycles
//!   validate_request  counts ► pools ► arguments against the model's inputs and outputs
//!   validate_memory_desc  roles ► one combined operand
//! ```
//!
//! Everything here comes from another process, so sizes are computed in 64 bits, nothing is
//! allocated by a number that was not checked against what is there, nothing recurses, and nothing
//! panics. A failure names the operand or operation and the rule, with the figures; at the HAL's
//! boundary it is `INVALID_ARGUMENT`.
//!
//! Where the reference's validator is more lenient than its own documentation, the doc comments
//! here say what was decided and why.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod arguments;
mod control_flow;
mod error;
mod extensions;
mod graph;
mod memory_desc;
mod model;
mod operand;
mod operation;
mod polls;
mod request;

pub use arguments::{validate_preference, validate_priority};
pub use error::{Direction, GraphId, LoopOperand, Place, Rule, ValidationError};
pub use extensions::validate_extensions;
pub use memory_desc::{MemoryRole, MemoryRoles, validate_memory_desc};
pub use model::{
    MAX_SUBGRAPH_DEPTH, ValidationMode, validate_model, validate_model_in, validate_model_polled,
    validate_operation, validate_pool,
};
pub use operand::{validate_channel_quant, validate_operand_type};
pub use operation::operation_since;
pub use request::{AllowUnspecifiedOutput, validate_request};

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that panics has failed, as it should")]
mod tests;
