//! `cargo xtask fuzz burst_answer_packet`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_burst::testing::answer_packet(bytes));
