//! The sample drivers: their personalities, and the vendor extension.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that can't go on stops"
)]

mod fibonacci;
mod personalities;
mod support;
