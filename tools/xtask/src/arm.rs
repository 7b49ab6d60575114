//! `cargo xtask arm`: tests on emulated Arm machines; `cargo xtask cross`: whether everything
//! compiles for the other machines. Where a part of what that takes is missing they say so and
//! pass.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{Cargo, Outcome, target_folder};
use crate::symbols::is_installed;
use crate::workspace::Tests;

/// The target of CI beside its own machine's.
pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What it takes to build for a target and to run it here.
struct Machine {
    target: &'static str,
    /// Programs, each with its package of Debian.
    linker: (&'static str, &'static str),
    emulator: (&'static str, &'static str),
    /// The target's loader, and the folder of its libraries. Named to the emulator instead, that
    /// folder would also be looked into for every other file.
    loader: &'static str,
    libraries: &'static str,
    /// Arguments without the tests that can't be emulated: they start themselves as another
    /// program, look at huge pages, or meet limits of the emulator.
    not_emulated: &'static [&'static str],
    /// Crates whose unit tests are built.
    packages: &'static [&'static str],
    /// Random graphs, or graphs beside their references as well: tests of the executor.
    graphs: &'static [&'static str],
    /// How kernels are optimised.
    level: u8,
    processors: &'static [Processor],
}

/// A processor of the emulator's.
struct Processor {
    name: &'static str,
    /// Parts of the names of the kernels' tests that run on it; none for all tests there are.
    only: &'static [&'static str],
}

const AARCH64: Machine = Machine {
    target: TARGET,
    linker: ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    emulator: ("qemu-aarch64", "qemu-user"),
    loader: "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
    libraries: "/usr/aarch64-linux-gnu/lib",
    not_emulated: &[
        "--skip",
        "spans_beyond_the_limit_of_file_sizes",
        "--skip",
        "files_that_end_early_or_are_none_are_refused",
    ],
    packages: &["nnburst-kernels", WITH_SIZES[0], WITH_SIZES[1], WITH_SIZES[2]],
    graphs: &["--test", "graphs", "--test", "references"],
    // With less, what is emulated takes far longer than is saved: four to ten times as long with 1.
    level: 2,
    // With dot products and without: both kinds of the kernels that have two, and nothing else is
    // different.
    processors: &[
        Processor { name: "max", only: &[] },
        Processor { name: "cortex-a72", only: &["gemm_i8", "gemv_i8", "gemv_blocks_i4", "simd"] },
    ],
};

/// Queues, memories and models, the importer. The executor's unit tests are the same on every
/// machine, and compiling it a second time takes longer than all of the others.
const WITH_SIZES: [&str; 3] = ["nnburst-fmq", "nnburst-hal", "nnburst-tflite"];

/// 32 bits: addresses and sizes. Every kernel is plain Rust, which graphs run through.
const ARMV7: Machine = Machine {
    target: "armv7-unknown-linux-gnueabihf",
    linker: ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
    emulator: ("qemu-arm", "qemu-user"),
    loader: "/usr/arm-linux-gnueabihf/lib/ld-linux-armhf.so.3",
    libraries: "/usr/arm-linux-gnueabihf/lib",
    // The emulator gives a 32-bit program what memory it asks for until the machine has none, and
    // addresses of faults that are off by where it put the program.
    not_emulated: &[
        "--skip",
        "spans_beyond_the_limit_of_file_sizes",
        "--skip",
        "files_that_end_early_or_are_none_are_refused",
        "--skip",
        "what_there_is_no_memory",
        "--skip",
        "a_file_cut_short_under_a_mapping_costs_a_mark_and_no_process",
        "--skip",
        "more_memories_than_a_chunk_are_watched_at_once",
    ],
    packages: &WITH_SIZES,
    graphs: &["--test", "graphs"],
    // Half of it is compiling, which at 2 takes as much longer as less is emulated.
    level: 0,
    processors: &[Processor { name: "cortex-a7", only: &[] }],
};

/// The tests of the lower crates on emulated processors.
pub(crate) fn run() -> Outcome {
    for machine in [AARCH64, ARMV7] {
        if machine.is_complete()? {
            machine.processors.iter().try_for_each(|processor| machine.test(processor))?;
        }
    }
    Ok(())
}

impl Machine {
    /// Whether everything is there; what is missing is said.
    fn is_complete(&self) -> Result<bool, String> {
        let (emulator, package) = self.emulator;
        Ok(is_installed(emulator, package)? && self.can_link()?)
    }

    /// Whether programs can be built: with a cross compiler and Rust's library.
    fn can_link(&self) -> Result<bool, String> {
        let (linker, package) = self.linker;
        Ok(is_installed(linker, package)? && has_library(self.target))
    }

    fn test(&self, processor: &Processor) -> Outcome {
        let what = format!("{} {}", self.target, processor.name);
        let emulator = [self.emulator.0, self.loader, "--library-path", self.libraries];
        let variables = &[("QEMU_CPU", processor.name.as_ref())];
        let args = &[processor.only, self.not_emulated].concat()[..];
        let run = |packages: &[&str], verb: &[&str], beside: &[&str]| {
            let tests = Tests { packages, args, variables, ..Tests::default() };
            tests.run_from(&what, &emulator, || Ok(self.cargo(&what, verb, beside)))
        };
        let unit = ["test", "--no-run", "--lib"];
        if !processor.only.is_empty() {
            return run(&["nnburst-kernels"], &unit, &[]);
        }
        run(self.packages, &unit, &[])?;
        let graphs = [&["test", "--no-run"], self.graphs].concat();
        run(&["nnburst-executor"], &graphs, &["nnburst-executor"])
    }

    /// A call for the target: of the machine's packages and those `beside` them, so that
    /// dependencies have the same features in each. Whole models take minutes in the emulator; the
    /// kernels' tests and the random graphs reach every form.
    fn cargo(&self, what: &str, verb: &[&str], beside: &[&str]) -> Cargo {
        let target = self.target.replace('-', "_").to_ascii_uppercase();
        let packages = self.packages.iter().chain(["nnburst-ndk"].iter()).chain(beside);
        Cargo::new(what)
            .args(verb)
            .args(packages.flat_map(|package| ["--package", *package]))
            .args(["--target", self.target])
            .with_kernels_at(self.level)
            .env(&format!("CARGO_TARGET_{target}_LINKER"), self.linker.0)
    }
}

/// Adds Rust's library for a target; does nothing where it is there already.
fn has_library(target: &str) -> bool {
    let added = Command::new("rustup").args(["target", "add", target]).output();
    let is_there = added.is_ok_and(|said| said.status.success());
    if !is_there {
        println!("left out: no standard library (rustup target add {target})");
    }
    is_there
}

/// Whether programs for [`TARGET`] can be built here.
pub(crate) fn can_link() -> Result<bool, String> {
    AARCH64.can_link()
}

/// Builds the C library for [`TARGET`].
pub(crate) fn library() -> Result<PathBuf, String> {
    // With the tests, whose features it then has.
    let build = [&["build", "--lib"], AARCH64.graphs].concat();
    AARCH64.cargo("library", &build, &["nnburst-executor"]).run()?;
    Ok(target_folder().join(TARGET).join("debug/libneuralnetworks.so"))
}

/// What applications link, on machines that no test runs on here.
const CHECKED: [&str; 7] = [
    "nnburst",
    "nnburst-tflite",
    "nnburst-denoise",
    "nnburst-cli",
    "nnburst-ndk",
    "nnburst-ladspa",
    "nnburst-tflite-delegate",
];

/// The other machines, and what is not made for them: TFLite's structs are known for 64 bits.
const TARGETS: [(&str, &[&str]); 4] = [
    ("armv7-unknown-linux-gnueabihf", &["nnburst-tflite-delegate"]),
    ("riscv64gc-unknown-linux-gnu", &[]),
    ("x86_64-unknown-linux-musl", &[]),
    ("aarch64-linux-android", &[]),
];

/// Checks that everything compiles for the other machines, without a linker.
pub(crate) fn cross() -> Outcome {
    for (target, without) in TARGETS {
        if has_library(target) {
            let packages = CHECKED.iter().filter(|package| !without.contains(package));
            let packages = packages.flat_map(|package| ["--package", package]);
            let check = ["check", "--target", target];
            let check = Cargo::new(target).args(check).args(packages);
            check.env("RUSTFLAGS", "-D warnings").run()?;
        }
    }
    Ok(())
}
