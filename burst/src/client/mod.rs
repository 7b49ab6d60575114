//! The client's end of a burst: [`BurstController`] sends requests and gets answers.

mod controller;
mod error;
mod frame;
mod scratch;
mod slots;

pub use controller::{BurstController, ControllerOptions, Rejected};
pub use error::{BurstError, Closed, Fallback, SubmitError};
pub use frame::BurstFrame;
pub use scratch::LastRequest;
