//! The compute primitives, each with a plain scalar reference and SIMD forms beside it.
//!
//! A primitive has one function type and a table of forms; the plan takes the best form that the
//! machine has and the user allows, tests and benches run them all. No intrinsics outside this module.

pub(crate) mod isa;

pub use isa::{Isa, IsaError};
