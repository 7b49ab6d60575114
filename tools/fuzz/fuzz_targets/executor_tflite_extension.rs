//! `cargo xtask fuzz executor_tflite_extension`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nnburst_executor::testing::fuzz_extension(bytes);
});
