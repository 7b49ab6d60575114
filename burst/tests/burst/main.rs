//! Bursts within one process and between processes.
//!
//! The drivers and clients of other processes are this binary again, running one of the `*_process`
//! tests, which do nothing unless the environment gives them a part.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on stops")]

mod death;
mod fuzzing;
mod hostile;
mod idle;
mod in_process;
mod pipelining;
mod remote;
mod room;
mod soak;
mod steady_state;
mod stopped;
mod support;
mod validate;

use nnburst_hal::testing::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The driver's process, when [`remote::Driver`] starts it; else nothing.
#[test]
fn driver_process() {
    remote::serve_if_asked();
}
