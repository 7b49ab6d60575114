//! The dataflows that are shipped, run by dora with real processes: whole, and with some killed.
//!
//! They need dora's command (of PyPI: dora-rs-cli) as `NNBURST_DORA` or on `PATH`; `cargo xtask
//! doors dora` installs and runs it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod flow;
mod machines;
mod one_machine;
