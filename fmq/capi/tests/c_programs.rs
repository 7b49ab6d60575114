//! Compiles the C programs of this crate against the header and the libraries, and runs them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, static (`a`) or shared (`so`), that cargo built beside this test.
fn library(extension: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let mut found: Vec<PathBuf> = [deps, deps.parent().unwrap()]
        .into_iter()
        .flat_map(|dir| std::fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libnnburst_fmq_c")
                && path.extension().is_some_and(|found| found == extension)
        })
        .collect();
    found.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    found.pop().unwrap_or_else(|| panic!("no .{extension} beside {}", exe.display()))
}

/// Compiles a program against a library; returns where it is.
fn compiled(source: &str, library: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = Path::new(source).file_stem().unwrap();
    let kind = library.extension().unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension(kind);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let compiled = Command::new(compiler)
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(here.join("include"))
        .arg(here.join(source))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&out)
        .status()
        .unwrap();
    assert!(compiled.success(), "{source} does not compile");
    out
}

fn succeed(program: &mut Command) {
    let ran = program.status().unwrap();
    assert!(ran.success(), "{program:?}: {ran}; the code is the line, modulo 255");
}

fn compile_and_run(source: &str) {
    succeed(&mut Command::new(compiled(source, &library("a"))));
}

#[test]
fn every_function_of_the_header_does_what_it_says() {
    compile_and_run("tests/functions.c");
}

#[test]
fn the_options_of_creating_and_attaching_are_kept() {
    compile_and_run("tests/options.c");
}

#[test]
fn the_unsynchronised_flavour_works_between_processes() {
    compile_and_run("tests/unsynchronised.c");
}

#[test]
fn event_flags_work_over_any_word_from_any_thread_and_process() {
    compile_and_run("tests/flags.c");
}

#[test]
fn what_libfmqs_unit_tests_ask_for_can_be_said() {
    compile_and_run("tests/libfmq_groups.c");
}

#[test]
fn the_example_echoes_between_two_processes() {
    compile_and_run("examples/echo.c");
}

#[test]
fn a_program_finds_the_shared_library_by_its_name_wherever_it_was_linked() {
    let place = |name: &str| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    };
    let (linked, found) = (place("linked"), place("found"));
    let there = linked.join("libnnburst_fmq_c.so");
    std::fs::copy(library("so"), &there).unwrap();
    let program = compiled("examples/echo.c", &there);
    std::fs::rename(&there, found.join("libnnburst_fmq_c.so")).unwrap();
    succeed(Command::new(program).env("LD_LIBRARY_PATH", found));
}

#[test]
fn a_program_that_closes_the_library_keeps_it() {
    succeed(Command::new(compiled("tests/unload.c", &library("a"))).arg(library("so")));
}
