//! Names the library and gives its symbols their versions, by whichever linker rustc uses.
//!
//! rustc hands the linker a version script of its own that has no name. gold, lld and mold join it
//! with ours; GNU ld refuses to join a nameless script with any other. There the build puts a
//! script in front of the linker that leaves rustc's out. A trial link with rustc shows which it
//! takes.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names that a compiler looks for when it wants a linker: by default, and for each `-fuse-ld`.
const LINKERS: [&str; 5] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"];

/// A library with one function, defined as those of `exports.rs` are: unknown to rustc.
const TRIAL: &str = r#"#![no_std]
core::arch::global_asm!(
    ".pushsection .text.nnburst_trial,\"ax\",%progbits",
    ".globl nnburst_trial",
    ".type nnburst_trial,%function",
    "nnburst_trial:",
    "nop",
    ".size nnburst_trial, . - nnburst_trial",
    ".popsection",
);
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;
const TRIAL_MAP: &str = "NNBURST_TRIAL {\n  global:\n    nnburst_trial;\n  local:\n    *;\n};\n";
const TRIAL_VERSION: &[u8] = b"NNBURST_TRIAL";

fn main() -> io::Result<()> {
    let map = Path::new(&variable("CARGO_MANIFEST_DIR")).join("libneuralnetworks.map");
    println!("cargo:rerun-if-changed={}", map.display());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PATH");
    let target = variable("TARGET").to_string_lossy().replace('-', "_").to_ascii_uppercase();
    println!("cargo:rerun-if-env-changed=CARGO_TARGET_{target}_LINKER");
    link_argument("-Wl,-soname,libneuralnetworks.so");
    // Threads, the SIGBUS handler and thread-local destructors of ours outlive a dlclose.
    link_argument("-Wl,-z,nodelete");

    let out = PathBuf::from(variable("OUT_DIR"));
    fs::write(out.join("trial.rs"), TRIAL)?;
    let trial_map = out.join("trial.map");
    fs::write(&trial_map, TRIAL_MAP)?;
    let filters = out.join("filters");
    write_filters(&filters, &[&map, &trial_map])?;
    let filter = format!("-B{}", filters.display());
    let joined = trial(&out, &[]);
    let filtered = if joined.is_ok() { Ok(()) } else { trial(&out, &[&filter]) };
    match (&joined, filtered) {
        (Err(_), Ok(())) => link_argument(&filter),
        (Err(error), Err(_)) => println!(
            "cargo:warning=a trial link failed, so libneuralnetworks.so will not link either: {error}"
        ),
        (Ok(()), _) => {}
    }
    link_argument(&version_script(&map));
    Ok(())
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_default()
}

fn link_argument(argument: &str) {
    println!("cargo:rustc-cdylib-link-arg={argument}");
}

fn version_script(map: &Path) -> String {
    format!("-Wl,--version-script={}", map.display())
}

/// Links a small library as rustc will link the large one, and looks for the version in it.
fn trial(out: &Path, arguments: &[&str]) -> Result<(), String> {
    let made = out.join("libtrial.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(out.join("trial.rs")).args(["--crate-type=cdylib", "--edition=2024"]);
    rustc.args(["-Cpanic=abort", "-Copt-level=1", "--cap-lints=allow", "--target"]);
    rustc.arg(variable("TARGET")).arg("-o").arg(&made);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    rustc.args(flags.to_string_lossy().split('\x1f').filter(|flag| !flag.is_empty()));
    let script = version_script(&out.join("trial.map"));
    for argument in arguments.iter().copied().chain([script.as_str()]) {
        rustc.arg(format!("-Clink-arg={argument}"));
    }
    let ended = rustc.output().map_err(|error| error.to_string())?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        // The linker's own words are the last line before rustc's closing remarks.
        let words =
            |line: &&str| line.contains("ld:") || line.contains("ld.") || line.contains("fatal");
        let why = said.lines().filter(words).find(|line| !line.contains("-Wl,"));
        return Err(why.or_else(|| said.lines().next()).unwrap_or_default().trim().to_owned());
    }
    let bytes = fs::read(&made).map_err(|error| error.to_string())?;
    let is_versioned = bytes.windows(TRIAL_VERSION.len()).any(|window| window == TRIAL_VERSION);
    is_versioned.then_some(()).ok_or_else(|| "the linker ignores version scripts".to_owned())
}

/// Writes a script for each linker's name that calls that linker with the version scripts `ours`
/// alone. A compiler looks in the folder that its option `-B` names before all others.
fn write_filters(dir: &Path, ours: &[&Path]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let kept: Vec<_> =
        ours.iter().map(|map| format!("--version-script={}", map.display())).collect();
    let kept: Vec<_> = kept.iter().map(|option| quoted(option)).collect();
    for name in LINKERS {
        let real = quoted(&linker_called(name).to_string_lossy());
        let script = format!(
            "#!/bin/sh\nfor argument do\n    shift\n    case $argument in\n        {}) ;;\n        \
             --version-script=*) continue ;;\n    esac\n    set -- \"$@\" \"$argument\"\ndone\nexec {real} \"$@\"\n",
            kept.join(" | ")
        );
        let path = dir.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The linker that the compiler runs under a name. Compilers for other machines know those of their
/// own binutils alone; the others are found by `PATH`.
fn linker_called(name: &str) -> PathBuf {
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(compiler).arg(format!("-print-prog-name={name}")).output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match said {
        Ok(path) if path.starts_with('/') => PathBuf::from(path),
        _ => {
            let dirs = variable("PATH");
            let found =
                env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file());
            found.unwrap_or_else(|| PathBuf::from(name))
        }
    }
}

/// A word for the shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
