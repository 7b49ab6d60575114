//! `cargo xtask fuzz executor_hostile_values`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nnburst_executor::testing::fuzz_hostile_values(bytes);
});
