//! The CPU driver, in this process, over a socket, and in processes of its own.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::panic,
    reason = "a test that can't go on stops"
)]

mod attack;
mod budgets;
mod buffers;
mod bursts;
mod caching;
mod deaths;
mod executions;
mod floods;
mod generated;
mod hostile;
mod idle;
mod loops;
mod nested;
mod preparations;
mod priorities;
mod processes;
mod sandbox;
mod steady;
mod stopped;
mod support;
mod time;
mod truncations;
mod versions;
