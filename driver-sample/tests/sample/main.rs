//! The sample drivers: their personalities, and the vendor extension.
#![expect(clippy::unwrap_used, reason = "a test that can't go on stops")]

mod fibonacci;
mod personalities;
mod support;
