//! The sample drivers, in this process, over a socket, and in processes of their own.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::panic,
    reason = "a test that can't go on stops"
)]

mod buffers;
mod bursts;
mod caching;
mod executions;
mod fibonacci;
mod generated;
mod hostile;
mod preparations;
mod priorities;
mod processes;
mod steady;
mod support;
mod versions;
