//! The C programs of this crate: compiled by two compilers without a warning, run, and run under valgrind.

use std::process::Command;

use crate::common;

const PROGRAMS: &[&str] = &["examples/add1.c", "tests/c/states.c", "tests/c/memories.c"];

#[test]
fn programs_compile_without_a_warning_and_run() {
    for compiler in ["gcc", "clang"] {
        for source in PROGRAMS {
            let Some(program) = common::compile(compiler, "c11", source) else { continue };
            common::run(&mut common::command(program));
        }
    }
}

#[test]
fn programs_run_under_valgrind_without_errors_or_leaks() {
    if !common::is_installed("valgrind") {
        return;
    }
    for source in PROGRAMS {
        let Some(program) = common::compile("gcc", "c11", source) else { continue };
        common::run(valgrind().arg(program));
    }
}

fn valgrind() -> Command {
    let mut valgrind = common::command("valgrind");
    valgrind
        .args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,possible"])
        .args(["--error-exitcode=99", "--num-callers=30"])
        // valgrind knows no AVX-512.
        .env("NNBURST_ISA", "avx2");
    valgrind
}

#[test]
fn a_wrapper_in_cpp_works_and_leaves_nothing_behind() {
    for compiler in ["g++", "clang++"] {
        let Some(program) = common::compile(compiler, "c++17", "tests/c/wrapper.cc") else {
            continue;
        };
        common::run(&mut common::command(&program));
        if compiler == "g++" && common::is_installed("valgrind") {
            common::run(valgrind().arg(program));
        }
    }
}

/// An installation as a package would make it, used through pkg-config.
#[test]
fn pkg_config_finds_headers_and_library() {
    if !common::is_installed("pkg-config") || !common::is_installed("cc") {
        return;
    }
    let prefix = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
    for dir in ["include/android", "lib/pkgconfig"] {
        std::fs::create_dir_all(prefix.join(dir)).unwrap();
    }
    let include = common::here().join("include");
    for header in ["NeuralNetworks.h", "android/hardware_buffer.h"] {
        std::fs::copy(include.join(header), prefix.join("include").join(header)).unwrap();
    }
    let pc = prefix.join("lib/pkgconfig");
    std::fs::copy(common::here().join("neuralnetworks.pc"), pc.join("neuralnetworks.pc")).unwrap();
    std::fs::copy(common::library(), prefix.join("lib/libneuralnetworks.so")).unwrap();

    let mut asked = Command::new("pkg-config");
    asked.env("PKG_CONFIG_PATH", &pc).args(["--cflags", "--libs", "neuralnetworks"]);
    let flags = common::run(&mut asked);
    let out = prefix.join("add1");
    let mut cc = Command::new("cc");
    cc.arg(common::here().join("examples/add1.c")).args(flags.split_whitespace());
    common::run(cc.arg("-o").arg(&out));
    common::run(Command::new(out).env("LD_LIBRARY_PATH", prefix.join("lib")));
}

#[test]
fn the_package_has_the_version_of_the_library() {
    let pc = std::fs::read_to_string(common::here().join("neuralnetworks.pc")).unwrap();
    assert!(pc.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))));
}
