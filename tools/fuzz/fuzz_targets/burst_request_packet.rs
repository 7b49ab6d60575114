//! `cargo xtask fuzz burst_request_packet`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_burst::testing::request_packet(bytes));
