//! Objects that belong to one process, and the threads that it starts.
//!
//! A child that was forked off has every object of its parent in its memory, but none of the
//! threads that serve them, and it shares the sockets and queues behind them with the parent. An
//! object of that kind notes its [`Origin`]: in a child its calls fail at once, before they lock or
//! send anything, and dropping it does nothing that the parent could notice. What is made anew in
//! the child works.

pub use nnburst_fmq::file::check_file_size;
#[cfg(not(loom))]
pub use nnburst_fmq::process::open_pidfd;
pub use nnburst_fmq::process::{
    PerProcess, begin_long_work, end_long_work, id, long_work, spawn, without_signals,
};

use crate::error::{HalError, Result};

/// Has the allocator give large blocks back to the system as they are freed, for programs that
/// serve others. By itself the C library's keeps up to 64 MiB for each thread that once freed as
/// much: memory that nobody is charged for.
pub fn keep_little_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const MOST_KEPT: i32 = 1 << 20;
        for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: the allocator's own option; what is allocated already stays as it is.
            unsafe { libc::mallopt(option, MOST_KEPT) };
        }
    }
}

/// Gives memory that was freed back to the system, as far as the allocator has any to give: takes
/// it some tenths of a millisecond, more after much was freed. Nothing where it can't be asked to.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator's own; it moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

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
