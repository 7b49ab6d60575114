//! Where the library is, and how C programs are built against it.

use std::path::{Path, PathBuf};
use std::process::Command;

use nnburst_hal::testing::is_there;

/// The crate's folder.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that `NNBURST_TEST_LIBRARY` names, else the one that cargo built beside this test.
pub(crate) fn library() -> PathBuf {
    if let Some(named) = std::env::var_os("NNBURST_TEST_LIBRARY") {
        return named.into();
    }
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let found = [deps, deps.parent().unwrap()].map(|dir| dir.join("libneuralnetworks.so"));
    let newest = found
        .iter()
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("no libneuralnetworks.so beside {}", exe.display())).clone()
}

/// Whether a program is there to be run.
pub(crate) fn is_installed(program: &str) -> bool {
    is_there(program, Command::new(program).arg("--version").output().is_ok())
}

/// Compiles a C or C++ program of this crate by a compiler, its name and perhaps an option; `None`
/// where it is not installed.
pub(crate) fn compile(compiler: &str, standard: &str, source: &str) -> Option<PathBuf> {
    let (program, option) = compiler.split_once(' ').unwrap_or((compiler, "-pedantic"));
    if !is_installed(program) {
        return None;
    }
    let name = Path::new(source).file_stem().unwrap().to_string_lossy();
    let made = format!("{name}-{program}{}", option.replace('=', "-"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(made);
    let library = library();
    let compiled = Command::new(program)
        .arg(option)
        .arg(format!("-std={standard}"))
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-I"])
        .arg(here().join("include"))
        .arg(here().join(source))
        .arg("-L")
        .arg(library.parent().unwrap())
        .args(["-lneuralnetworks", "-lpthread", "-o"])
        .arg(&out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{compiler} {source}: {said}");
    Some(out)
}

/// A command that finds the library.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library().parent().unwrap());
    // A service is slow to answer on a machine with other work, and would be left out.
    command.env("NNBURST_SERVICE_TIMEOUT", "60000");
    command
}

/// Runs to the end, which must be a good one; returns what was printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out
}

/// Valgrind, that takes errors and leaks for failures; a program and its arguments are to follow.
pub(crate) fn valgrind() -> Command {
    let mut valgrind = command("valgrind");
    valgrind
        .args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,possible"])
        .args(["--error-exitcode=99", "--num-callers=30"])
        // Threads of the library live until the program ends.
        .arg(concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/tests/valgrind.supp"))
        // valgrind knows no AVX-512.
        .env("NNBURST_ISA", "avx2")
        // For programs that have a part which is none for valgrind.
        .env("NNBURST_TEST_VALGRIND", "1");
    valgrind
}
