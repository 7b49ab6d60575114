//! `cargo xtask asan`, `miri` and `tsan`: checks that need the nightly toolchain. Where a part
//! of it is missing they say so and pass: whoever installs it gets them.

use crate::cargo::{Cargo, Outcome, target_folder};
use crate::doors;

/// The tests of the queue in private memory, which need no file.
const TESTS: [&str; 5] = ["test", "--package", "nnburst-fmq", "--test", "private_memory"];

/// Tests under Miri besides the queue's: a library and parts of names. Miri has no memfd, and takes
/// minutes for what computes much.
const PLAIN_TESTS: [(&str, &[&str]); 3] = [
    ("nnburst-burst", &["packet"]),
    (
        "nnburst-hal",
        &[
            "validate::arguments",
            "validate::extensions",
            "validate::tests::desc",
            "models::channel_scales",
            "models::control_flow",
            "models::graphs",
        ],
    ),
    (
        "nnburst-kernels",
        &["convolution::patches", "gemm::pack", "kernels::recurrent", "tensor::shape"],
    ),
];

/// The queue's tests under Miri, with both models of borrowing, and those of packets, validation
/// and scalar kernels with one.
pub(crate) fn miri() -> Outcome {
    if !Cargo::nightly("Miri").args(["miri", "--version"]).ask().is_ok_and(|(found, _)| found) {
        println!("left out: Miri is not installed (rustup component add miri --toolchain nightly)");
        return Ok(());
    }
    for model in ["", "-Zmiri-tree-borrows"] {
        let flags = format!("-Zmiri-disable-isolation {model}");
        let cargo = Cargo::nightly("Miri").args(["miri"]).args(TESTS);
        cargo.env("MIRIFLAGS", flags).run()?;
    }
    for (package, tests) in PLAIN_TESTS {
        let cargo = Cargo::nightly("Miri").args(["miri", "test", "--package", package, "--lib"]);
        let cargo = cargo.args(["--"]).args(tests.iter().copied());
        cargo
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            // Cases of each property: an interpreter is some hundred times as slow.
            .env("PROPTEST_CASES", "4")
            .run()?;
    }
    Ok(())
}

/// The tests under ThreadSanitizer, with a standard library built for it.
pub(crate) fn tsan() -> Outcome {
    let target = "x86_64-unknown-linux-gnu";
    let cargo = || {
        let build = ["-Zbuild-std", "--target", target];
        Cargo::nightly("ThreadSanitizer")
            .args(TESTS)
            .args(build)
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .env("CARGO_TARGET_DIR", target_folder().join("tsan"))
    };
    let (built, said) = cargo().args(["--no-run"]).ask().unwrap_or_else(|error| (false, error));
    if !built {
        let reason = said.lines().find(|line| line.contains("error")).unwrap_or(&said);
        println!(
            "left out: no standard library for ThreadSanitizer could be built here ({reason})"
        );
        return Ok(());
    }
    cargo().run()
}

/// TFLite's delegate under AddressSanitizer, in its host of C.
pub(crate) fn asan() -> Outcome {
    let (what, target) = ("AddressSanitizer", "x86_64-unknown-linux-gnu");
    let folder = target_folder().join("asan");
    let build = Cargo::nightly(what)
        .args(["build", "--target", target, "--package", "nnburst-tflite-delegate"])
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_TARGET_DIR", &folder)
        .with_kernels_at(0);
    let (built, said) = build.ask().unwrap_or_else(|error| (false, error));
    if !built {
        let reason = said.lines().find(|line| line.contains("error")).unwrap_or(&said);
        println!("left out: the delegate could not be built for AddressSanitizer ({reason})");
        return Ok(());
    }
    let library = folder.join(target).join("debug/libnnburst_tflite.so");
    let library = library.canonicalize().map_err(|error| format!("the delegate: {error}"))?;
    // A driver of its own is as it ships: what is checked is the library in its host.
    let driver = doors::built(what)?.program;
    // The library's checks are in a host that has the sanitizer's runtime, and in no other.
    let named = [("NNBURST_DELEGATE", library.as_os_str()), ("NNBURST_DRIVER", driver.as_os_str())];
    doors::delegate_host(what, &["address_sanitizer"], &named)
}
