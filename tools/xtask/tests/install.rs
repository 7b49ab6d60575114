//! An installation as a package makes it, and the README's C program built and run against it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nnburst_fmq::testing::is_there;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{command:?}: {}{}", said[0], said[1]);
    said[0].clone()
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    is_there(program, found)
}

/// Every file below a folder, by its path from there.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

#[test]
fn an_installation_has_everything_and_programs_build_against_it() {
    if !is_installed("pkg-config") || !is_installed("cc") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let destdir = tempfile::tempdir().unwrap();
    let staged = |path: &str| destdir.path().join(path);
    // As on Debian; the build is the one that this workspace's tests have made already.
    run(Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["install", "--as-tested", "--prefix", "/opt/nn", "--libdir", "lib/x86_64-linux-gnu"])
        .arg("--destdir")
        .arg(destdir.path()));

    let headers = files(&root.join("ndk/include"));
    for header in &headers {
        let name = header.strip_prefix(root.join("ndk")).unwrap();
        assert!(staged("opt/nn").join(name).is_file(), "{}", name.display());
    }
    let pages = files(&staged("opt/nn/share/man/man1"));
    assert!(pages.iter().any(|page| page.ends_with("nnburst.1")), "{pages:?}");
    for completion in [
        "share/bash-completion/completions/nnburst",
        "share/zsh/site-functions/_nnburst",
        "share/fish/vendor_completions.d/nnburst.fish",
    ] {
        let text = std::fs::read_to_string(staged("opt/nn").join(completion)).unwrap();
        assert!(text.contains("bench") && text.contains("no-sandbox"), "{completion}");
    }
    assert!(staged("opt/nn/lib/ladspa/nnburst.so").is_file());
    let unit = staged("opt/nn/lib/systemd/user/nnburst@.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.contains("ExecStart=/opt/nn/bin/nnburst serve"), "{unit}");
    for unit in [
        "user/nnburst@.socket",
        "system/nnburst@.service",
        "system/nnburst@.socket",
        "system/nnburst-metrics.service",
    ] {
        assert!(staged("opt/nn/lib/systemd").join(unit).is_file(), "{unit}");
    }
    assert!(staged("opt/nn/lib/sysusers.d/nnburst.conf").is_file());
    assert!(staged("opt/nn/share/nnburst/grafana-dashboard.json").is_file());
    let command = staged("opt/nn/bin/nnburst");
    assert_eq!(command.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    run(Command::new(command).arg("--version"));
    assert!(files(destdir.path()).iter().all(|path| !path.ends_with(".nnburst-new")));

    let libdir = staged("opt/nn/lib/x86_64-linux-gnu");
    assert!(libdir.join("libnnburst_tflite.so").is_file());
    let mut asked = Command::new("pkg-config");
    asked.env("PKG_CONFIG_SYSROOT_DIR", destdir.path());
    asked.env("PKG_CONFIG_PATH", libdir.join("pkgconfig"));
    let version = run(asked.args(["--modversion", "neuralnetworks"]));
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let mut asked = Command::new("pkg-config");
    asked.env("PKG_CONFIG_SYSROOT_DIR", destdir.path());
    asked.env("PKG_CONFIG_PATH", libdir.join("pkgconfig"));
    let flags = run(asked.args(["--cflags", "--libs", "neuralnetworks"]));
    builds_and_runs(destdir.path(), &libdir, &root.join("ndk/examples/add1.c"), &flags);

    assert!(staged("opt/nn/include/nnburst_fmq.h").is_file());
    let mut asked = Command::new("pkg-config");
    asked.env("PKG_CONFIG_SYSROOT_DIR", destdir.path());
    asked.env("PKG_CONFIG_PATH", libdir.join("pkgconfig"));
    let flags = run(asked.args(["--cflags", "--libs", "nnburst-fmq"]));
    let version = destdir.path().join("version.c");
    let text = "#include <nnburst_fmq.h>\nint main(void) { return nnburst_fmq_last_error == 0; }\n";
    std::fs::write(&version, text).unwrap();
    builds_and_runs(destdir.path(), &libdir, &version, &flags);
}

/// Builds a C program with the flags of pkg-config, and runs it.
fn builds_and_runs(dir: &Path, libdir: &Path, source: &Path, flags: &str) {
    let program = dir.join("program");
    let mut compiler = Command::new("cc");
    compiler.arg(source).args(flags.split_whitespace());
    run(compiler.arg("-o").arg(&program));
    run(Command::new(program).env("LD_LIBRARY_PATH", libdir));
}
