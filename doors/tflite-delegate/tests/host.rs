//! The delegate in a host of C (`host.c`), torn down in any order, with AddressSanitizer as well.
//!
//! `NNBURST_DELEGATE` names the library, as `cargo xtask doors tflite-delegate` does once it is
//! built: no test links it, so that cargo doesn't build it for tests. With `NNBURST_DRIVER` a
//! driver in a process of its own is used, too.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that can't go on panics"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use nnburst_hal::testing::is_there;
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::TfliteFile;

const ORDERS: [&str; 6] =
    ["right", "delegate-first", "model-first", "nothing-freed", "threads", "pipeline"];

/// The library to load.
fn library() -> OsString {
    std::env::var_os("NNBURST_DELEGATE").expect("NNBURST_DELEGATE names the delegate")
}

/// A model whose tensors `host.c` finds by their names: `host_out = -max(host_in, host_least)`.
fn model(dir: &Path) -> PathBuf {
    let mut file = TfliteFile::new();
    let x = file.input("host_in", TensorKind::Float32, &[1, 4]);
    let least = file.float_constant("host_least", &[1], &[12345.625]);
    let [larger, out] =
        ["host_larger", "host_out"].map(|name| file.tensor(name, TensorKind::Float32, &[1, 4]));
    file.operator("MAXIMUM", &[x, least], &[larger]);
    file.operator("NEG", &[larger], &[out]);
    file.outputs(&[out]);
    let path = dir.join("model.tflite");
    std::fs::write(&path, file.build()).unwrap();
    path
}

/// Builds the host; `None`, with a word, without the compiler or what `flags` ask of it.
fn host(compiler: &str, flags: &[&str], dir: &Path) -> Option<PathBuf> {
    let host = dir.join("host");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host.c");
    let built = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-rdynamic"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&host)
        .args(["-ldl", "-lpthread", "-lm"])
        .output();
    let is_built = match &built {
        Ok(built) if !built.status.success() => {
            eprintln!("{}", String::from_utf8_lossy(&built.stderr));
            false
        }
        built => built.is_ok(),
    };
    is_there(compiler, is_built).then_some(host)
}

/// Runs the host with every order of the end on a device.
fn every_order(host: &Path, library: &OsString, model: &Path, device: &str) {
    for (order, mode) in ORDERS.into_iter().flat_map(|order| [(order, "auto"), (order, "burst")]) {
        let mut run = Command::new(host);
        run.args([library.as_os_str(), model.as_os_str(), order.as_ref()]);
        run.args(["device", device, "mode", mode, "log", "quiet"]);
        // What the library keeps for the next time it is used is no leak, nor what it is not
        // given the time to free.
        let leaks = if order == "nothing-freed" { "detect_leaks=0" } else { "detect_leaks=1" };
        // Optimised code has no frame pointers: followed by them, callers end somewhere on the
        // stack, and the sanitizer's symbolizer complains that this is no file.
        let options = format!("{leaks}:fast_unwind_on_malloc=0");
        let ended = run.env("ASAN_OPTIONS", options).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{order} on {device}, {mode}: {} {said}", ended.status);
        assert_eq!(said, "", "{order} on {device}, {mode}");
    }
}

/// Runs the host on a driver in its own process, and on one of its own where there is a program.
fn on_every_device(host: &Path, library: &OsString, model: &Path) {
    every_order(host, library, model, "embedded/nnburst-cpu");
    if std::env::var_os("NNBURST_DRIVER").is_some() {
        every_order(host, library, model, "spawn/nnburst-cpu");
    }
}

#[test]
#[ignore = "loads the library that NNBURST_DELEGATE names: cargo xtask doors tflite-delegate"]
fn any_order_of_the_end_is_sound() {
    let library = library();
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let Some(host) = host("cc", &[], dir.path()) else { return };
    on_every_device(&host, &library, &model);
}

#[test]
#[ignore = "loads the library that NNBURST_DELEGATE names: cargo xtask doors tflite-delegate"]
fn address_sanitizer_finds_nothing() {
    let library = library();
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let flags = ["-fsanitize=address", "-fno-omit-frame-pointer"];
    let Some(host) = host("clang", &flags, dir.path()) else { return };
    on_every_device(&host, &library, &model);
}
