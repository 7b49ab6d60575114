//! `cargo xtask fuzz hal_ipc_wire`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nnburst_hal_ipc::testing::fuzz_wire(bytes);
});
