//! `cargo xtask fuzz tflite_import`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nnburst_tflite::testing::import_anything(bytes);
});
