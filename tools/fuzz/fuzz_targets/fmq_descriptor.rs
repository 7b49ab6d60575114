//! `cargo xtask fuzz fmq_descriptor`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_fmq::testing::any_descriptor(bytes));
