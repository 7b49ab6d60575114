//! `cargo xtask fuzz fmq_lying_consumer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_fmq::testing::lying_consumer(bytes));
