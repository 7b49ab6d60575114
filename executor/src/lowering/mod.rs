//! Lowering: the operations' view of a model, and the steps that they become.
//!
//! ```text
//!   OpBuilder ── looks at operands (State, Graph), states shapes ──► Draft: steps over values
//!   Io        ── a step's inputs, outputs and scratch memory when it runs
//! ```
//!
//! Operations know this layer and those below alone; a plan is made of what they leave here.

pub(crate) mod builder;
mod constant;
pub(crate) mod context;
mod control;
pub(crate) mod draft;
mod emit;
mod error;
pub(crate) mod extension;
pub(crate) mod graph;
pub(crate) mod io;
mod label;
mod lend;
pub(crate) mod part;
pub(crate) mod pieces;
pub(crate) mod recipe;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod walk;

pub use builder::{Lowered, OpBuilder, Stop};
pub(crate) use control::Helping;
pub use control::{Checkpoint, Control};
pub use error::{CompileError, RunError};
pub use extension::{ExtensionExecutor, ExtensionRegistry};
pub use io::Io;
pub use label::{Label, Words};
pub use step::DynamicOutput;
