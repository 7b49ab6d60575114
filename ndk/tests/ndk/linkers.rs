//! The library's names and versions by every linker that is installed, for each target of CI.
//!
//! The build script and the map are the library's own; the functions are empty, so that a link
//! takes a second. `cargo xtask symbols` looks at whole libraries.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::symbols::{exported, mapped};

const MANIFEST: &str = r#"[package]
name = "linked"
edition = "2024"

[lib]
name = "neuralnetworks"
crate-type = ["cdylib"]

[profile.dev]
panic = "abort"

[workspace]
"#;

/// A compiler that links for a target; the default linker is the one that is called no name.
struct Toolchain {
    target: &'static str,
    /// The value of cargo's variable for the target's linker.
    compiler: &'static str,
}

const TOOLCHAINS: [Toolchain; 3] = [
    Toolchain { target: "x86_64-unknown-linux-gnu", compiler: "cc" },
    Toolchain { target: "x86_64-unknown-linux-gnu", compiler: "clang" },
    Toolchain { target: "aarch64-unknown-linux-gnu", compiler: "aarch64-linux-gnu-gcc" },
];
const LINKERS: [&str; 5] = ["", "bfd", "gold", "lld", "mold"];

/// Writes the package that is linked: the library's map and build script, a function for each name.
fn package(dir: &Path) {
    let mut code = String::from("#![no_std]\ncore::arch::global_asm!(\n");
    for name in mapped().into_values().flatten() {
        let _ = write!(
            code,
            "\".pushsection .text.{name},\\\"ax\\\",%progbits\", \".globl {name}\",\n\
             \".type {name},%function\", \"{name}: nop\", \".size {name}, . - {name}\", \".popsection\",\n"
        );
    }
    code.push_str(
        ");\n#[panic_handler]\nfn panicked(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n",
    );
    std::fs::create_dir_all(dir.join("src")).unwrap();
    std::fs::write(dir.join("Cargo.toml"), MANIFEST).unwrap();
    std::fs::write(dir.join("src/lib.rs"), code).unwrap();
    for file in ["build.rs", "libneuralnetworks.map"] {
        std::fs::copy(common::here().join(file), dir.join(file)).unwrap();
    }
}

/// Builds the package; the library that came of it.
fn link(dir: &Path, toolchain: &Toolchain, linker: &str) -> PathBuf {
    let &Toolchain { target, compiler } = toolchain;
    let built = dir.join(format!("target-{compiler}-{linker}"));
    let variable = format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase());
    let flags =
        if linker.is_empty() { String::new() } else { format!("-Clink-arg=-fuse-ld={linker}") };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--target", target]).current_dir(dir);
    cargo.env("CARGO_TARGET_DIR", &built).env(variable, compiler).env("RUSTFLAGS", flags);
    common::run(cargo.env_remove("CARGO_ENCODED_RUSTFLAGS"));
    built.join(target).join("debug/libneuralnetworks.so")
}

/// Whether Rust's own library for the target is there.
fn has_core(target: &str) -> bool {
    let asked =
        Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let found = asked
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir());
    nnburst_hal::testing::is_there(target, found)
}

#[test]
fn every_linker_exports_what_the_map_lists_under_its_versions() {
    if !common::is_installed("nm") {
        return;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("linkers");
    package(&dir);
    let mut wrong = BTreeMap::new();
    for toolchain in TOOLCHAINS {
        if !common::is_installed(toolchain.compiler) || !has_core(toolchain.target) {
            continue;
        }
        for linker in LINKERS {
            if !linker.is_empty() && !common::is_installed(&format!("ld.{linker}")) {
                continue;
            }
            let names = exported(&link(&dir, &toolchain, linker));
            if names != mapped() {
                wrong.insert((toolchain.compiler, linker), names);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
