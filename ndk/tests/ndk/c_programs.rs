//! The C programs of this crate: compiled by two compilers without a warning, run, and run under
//! valgrind.

use std::process::Command;

use crate::common;

const PROGRAMS: &[&str] = &[
    "examples/add1.c",
    "tests/c/again.c",
    "tests/c/delegate.c",
    "tests/c/diagnostic.c",
    "tests/c/domains.c",
    "tests/c/fences.c",
    "tests/c/fork.c",
    "tests/c/handles.c",
    "tests/c/memories.c",
    "tests/c/runs.c",
    "tests/c/shapes.c",
    "tests/c/signals.c",
    "tests/c/stacks.c",
    "tests/c/states.c",
];

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
        let mut valgrind = common::valgrind();
        if source.ends_with("fork.c") {
            // What the parent's threads had on their stacks is lost to a child.
            valgrind.arg("--leak-check=no");
        }
        common::run(valgrind.arg(program));
    }
}

/// Accesses of the program's own memory: the library is told where to read and write.
#[test]
fn what_delegates_do_holds_under_address_sanitizer() {
    let Some(program) = common::compile("gcc -fsanitize=address", "c11", "tests/c/delegate.c")
    else {
        return;
    };
    common::run(&mut common::command(program));
}

#[test]
fn a_wrapper_in_cpp_works_and_leaves_nothing_behind() {
    for compiler in ["g++", "clang++"] {
        let Some(program) = common::compile(compiler, "c++17", "tests/c/wrapper.cc") else {
            continue;
        };
        common::run(&mut common::command(&program));
        if compiler == "g++" && common::is_installed("valgrind") {
            common::run(common::valgrind().arg(program));
        }
    }
}

/// A program that loads the library, computes and closes it keeps its own handler of SIGBUS.
#[test]
fn closing_the_library_leaves_the_program_its_handlers() {
    for compiler in ["gcc -Wl,--as-needed", "clang -Wl,--as-needed"] {
        let Some(program) = common::compile(compiler, "c11", "tests/c/unload.c") else { continue };
        common::run(&mut common::command(program));
    }
}

/// Each header by itself, in the oldest and the newest dialects that programs are written in.
#[test]
fn headers_stand_alone() {
    let headers = [
        "NeuralNetworks.h",
        "NeuralNetworksDiagnostic.h",
        "NeuralNetworksExtensions.h",
        "NeuralNetworksOEM.h",
        "android/NeuralNetworks.h",
        "android/hardware_buffer.h",
        "extensions/FibonacciExtension.h",
        "extensions/TfliteExtension.h",
    ];
    let dialects =
        [("gcc", "c99"), ("gcc", "c2x"), ("clang", "c11"), ("g++", "c++11"), ("clang++", "c++20")];
    for (compiler, standard) in dialects {
        if !common::is_installed(compiler) {
            continue;
        }
        for header in headers {
            let mut command = Command::new(compiler);
            command
                .args([&format!("-std={standard}"), "-pedantic", "-Wall", "-Wextra", "-Werror"])
                .args([
                    "-fsyntax-only",
                    "-x",
                    if compiler.contains("++") { "c++" } else { "c" },
                    "-include",
                ])
                .arg(common::here().join("include").join(header))
                .arg("-I")
                .arg(common::here().join("include"))
                .arg("/dev/null");
            common::run(&mut command);
        }
    }
}

/// A program that knows nothing of the library learns from its user's environment what went wrong,
/// and where time went.
#[test]
fn the_environment_asks_for_reasons_and_spans() {
    let Some(program) = common::compile("gcc", "c11", "tests/c/states.c") else { return };
    let spans = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("states-spans.json");
    // From an earlier run, perhaps.
    let _ = std::fs::remove_file(&spans);
    let quiet = common::command(&program).output().unwrap();
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");

    let mut asking = common::command(&program);
    let told = asking.env("NNBURST_LOG", "warn").env("NNBURST_TRACE", &spans).output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{said}");
    assert!(said.contains("BadState") && said.contains("UnexpectedNull"), "{said}");
    let written = std::fs::read_to_string(&spans).unwrap();
    assert!(written.contains("libneuralnetworks"), "{written}");
}

/// Nobody who asks for reasons pays for it with the program, where they can't be written.
#[test]
fn a_log_that_takes_nothing_is_done_without() {
    let Some(program) = common::compile("clang", "c11", "tests/c/states.c") else { return };
    for stderr in ["2>/dev/full", "2>&-"] {
        let mut shell = common::command("sh");
        shell.env("NNBURST_LOG", "warn").args(["-c", &format!("exec \"$0\" {stderr}")]);
        common::run(shell.arg(&program));
    }
}
