//! `cargo xtask fuzz driver_cache_files`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nnburst_driver::testing::fuzz_cache_files(bytes);
});
