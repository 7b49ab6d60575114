//! Objects that belong to one process, and the threads that it starts.
//!
//! A child that was forked off has every object of its parent in its memory, but none of the
//! threads that serve them, and it shares the sockets and queues behind them with the parent. An
//! object of that kind notes its [`Origin`]: in a child its calls fail at once, before they lock or
//! send anything, and dropping it does nothing that the parent could notice. What is made anew in
//! the child works.

pub use nnburst_fmq::process::{PerProcess, id, spawn, without_signals};

use crate::error::{HalError, Result};

/// The process that made an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u64);

impl Origin {
    /// This process.
    pub fn here() -> Self {
        Self(id())
    }

    /// Returns whether this is still the process that made the object, not a child of it. Two loads
    /// and a comparison.
    #[inline]
    pub fn is_here(self) -> bool {
        self.0 == id()
    }

    /// Passes in the process that made the object.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` in a child of it.
    #[inline]
    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(forked()) }
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self::here()
    }
}

/// Why calls fail in a child that was forked off.
#[cold]
pub fn forked() -> HalError {
    HalError::failure(
        "the object belongs to the process that this one was forked from: make another here",
    )
}
