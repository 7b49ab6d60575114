//! Models spread over devices: plans, control flow, what happens when a device fails, and random
//! graphs.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod choices;
mod control_flow;
mod devices;
mod domains;
mod failing;
mod own_memory;
mod plans;
mod random;
