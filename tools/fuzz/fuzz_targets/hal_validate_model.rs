//! `cargo xtask fuzz hal_validate_model`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_hal::testing::fuzz_validate_model(bytes));
