//! The library as programs see it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod c_programs;
mod common;
mod compound;
mod drivers;
mod linkers;
mod services;
mod symbols;
mod trust;
