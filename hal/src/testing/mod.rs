//! The other side, for tests: drivers of every version, and models and requests with one thing
//! wrong.
//!
//! Behind the feature `testing`; nothing a driver or client ships needs it.

mod allocations;
mod fuzz;
mod mock_model;
mod model_mutations;
mod relu_driver;
mod request_mutations;
mod stopped;
mod tools;

pub use allocations::{Calls, CountingAllocator};
pub use fuzz::{fuzz_validate_model, fuzz_validate_request};
pub use mock_model::MockModel;
pub use model_mutations::{ModelMutation, model_mutations};
pub use relu_driver::{ReluDriver, relu_model, relu_request};
pub use request_mutations::{RequestMutation, request_mutations};
pub use stopped::{continue_process, stop_process};
pub use tools::{calls_between_marks, is_there, mark, traced_test};
