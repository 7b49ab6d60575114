//! `cargo xtask fuzz fmq_lying_producer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nnburst_fmq::testing::lying_producer(bytes));
