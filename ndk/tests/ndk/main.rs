//! The library as programs see it.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod c_programs;
mod common;
mod drivers;
mod linkers;
mod services;
mod symbols;
mod trust;
