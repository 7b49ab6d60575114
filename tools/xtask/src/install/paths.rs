//! What a release has in it of the machine that built it: paths of sources, and debug symbols.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Options, at, triplet};
use crate::cargo::{Outcome, root};

/// Folders of this machine that sources lie in, and what stands for them.
fn origins() -> Vec<(PathBuf, &'static str)> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(home.clone()?.join(".cargo")));
    let mut all = vec![(root(), "/nnburst")];
    all.extend(cargo.map(|cargo| (cargo, "/cargo")));
    all.extend(home.map(|home| (home, "/home")));
    all.retain(|(path, _)| path.is_absolute() && path.components().count() > 1);
    // Of several that fit the last one counts: the longest.
    all.sort_by_key(|(path, _)| path.as_os_str().len());
    all
}

/// Flags by which sources have the same names in all builds.
pub(super) fn flags() -> String {
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    for (path, name) in origins() {
        flags.push_str(&format!(" --remap-path-prefix={}={name}", path.display()));
    }
    flags
}

/// Fails where a file names a folder of this machine.
pub(super) fn check(file: &Path) -> Outcome {
    let bytes = fs::read(file).map_err(at(&file.display()))?;
    for (path, _) in origins() {
        let name = format!("{}/", path.display());
        if bytes.windows(name.len()).any(|window| window == name.as_bytes()) {
            return Err(format!("{} has the path {name} in it", file.display()));
        }
    }
    Ok(())
}

/// Takes names and lines of functions out, which only debuggers read; with `--symbols` they are
/// kept where debuggers find them, by the file's build-id. `file` is its place in the installed
/// system.
pub(super) fn strip(options: &Options, file: &Path) -> Outcome {
    let staged = options.staged(file);
    if options.has_symbols {
        let kept = options.staged(&options.prefix.join("lib/debug")).join(symbols(&staged)?);
        let dir = kept.parent().unwrap_or(&kept);
        fs::create_dir_all(dir).map_err(at(&dir.display()))?;
        tool(options, "objcopy", &["--only-keep-debug".as_ref(), &staged, &kept])?;
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o644))
            .map_err(at(&kept.display()))?;
    }
    tool(options, "strip", &["--strip-unneeded".as_ref(), &staged])
}

/// The place of a file's symbols below `/usr/lib/debug`.
fn symbols(file: &Path) -> Result<PathBuf, String> {
    let notes = ask("readelf", &["--notes".as_ref(), file])?;
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    let id = id.and_then(|id| id.split_at_checked(2));
    let (first, rest) = id.ok_or_else(|| format!("{} has no build-id", file.display()))?;
    Ok(Path::new(".build-id").join(first).join(format!("{rest}.debug")))
}

/// Runs a tool of binutils, of the machine that is built for.
fn tool(options: &Options, name: &str, args: &[&Path]) -> Outcome {
    let cross = options.target.is_some().then(|| format!("{}-{name}", triplet(options)));
    ask(&cross.unwrap_or_else(|| name.into()), args).map(drop)
}

/// Runs a program and returns what it prints.
pub(crate) fn ask(program: &str, args: &[&Path]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} of {args:?}: {}: {}", output.status, said.trim()))
}
