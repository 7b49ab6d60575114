//! `cargo xtask fuzz burst_live_controller`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_burst::testing::live_controller(bytes));
