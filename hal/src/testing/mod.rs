//! The other side, for tests: drivers of every version, and models and requests with one thing
//! wrong.
//!
//! Behind the feature `testing`; nothing a driver or client ships needs it.

mod allocations;
mod fuzz;
mod mock_model;
mod model_mutations;
mod one_operation;
mod relu_driver;
mod request_mutations;
mod stopped;
mod tell;
// The queue's doubles are not built under loom.
#[cfg(not(loom))]
mod tools;

pub use allocations::{Calls, CountingAllocator};
pub use fuzz::{fuzz_validate_model, fuzz_validate_request};
pub use mock_model::MockModel;
pub use model_mutations::{ModelMutation, model_mutations};
pub use one_operation::{
    add_one, add_one_to, argument, as_floats, floats, memory, one_operation, relu, request, tensor,
};
pub use relu_driver::{ReluDriver, relu_model, relu_request};
pub use request_mutations::{RequestMutation, request_mutations};
pub use stopped::{continue_process, stop_process};
pub use tell::{Tell, tell};
#[cfg(not(loom))]
pub use tools::{calls_between_marks, is_there, mark, traced_test};
