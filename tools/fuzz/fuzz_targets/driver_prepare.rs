//! `cargo xtask fuzz driver_prepare`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nnburst_driver::testing::fuzz_prepare(bytes);
});
