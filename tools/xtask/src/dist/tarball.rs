//! An archive with a script that installs it, for systems without packages of ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Build, call};
use crate::install::{at, copy_as, write};

/// Files whose paths the script sets.
const WITH_PATHS: [&str; 3] = ["pc", "service", "socket"];

pub(super) fn make(build: &Build) -> Result<PathBuf, String> {
    let name = format!("nnburst-{}-{}", build.version, build.target);
    let root = build.work.join(&name);
    for file in build.installed()?.iter().filter(|file| !file.starts_with("usr/lib/debug")) {
        let from = build.root.join(file);
        let to = root.join("files").join(place(file, &build.libdir));
        let folder = to.parent().unwrap_or(&to);
        if file.extension().is_some_and(|found| WITH_PATHS.iter().any(|with| found == *with)) {
            let text = fs::read_to_string(&from).map_err(at(&from.display()))?;
            let libdir = format!("/{}", build.libdir.display());
            write(&to, &text.replace(&libdir, "@PREFIX@/lib").replace("/usr", "@PREFIX@"))?;
        } else {
            let mode = fs::metadata(&from).map_err(at(&from.display()))?.permissions().mode();
            copy_as(&from, folder, to.file_name().unwrap_or_default(), mode)?;
        }
    }
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy_as(&crate::cargo::root().join(file), &root, file.as_ref(), 0o644)?;
    }
    let script = root.join("install.sh");
    write(&script, include_str!("install.sh"))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&script, mode).map_err(at(&script.display()))?;
    let archive = build.out.join(format!("{name}.tar.xz"));
    let mut packing = Command::new("tar");
    packing.args([
        "--create",
        "--use-compress-program=xz -3 -T0",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    packing.arg(format!("--mtime=@{}", build.date)).arg("--file").arg(&archive);
    call(packing.arg("--directory").arg(&build.work).arg(&name))?;
    Ok(archive)
}

/// The place of a file below a prefix: without `usr`, and without Debian's folder of the machine.
fn place(file: &Path, libdir: &Path) -> PathBuf {
    let below = file.strip_prefix(libdir).map(|below| Path::new("lib").join(below));
    below.unwrap_or_else(|_| file.strip_prefix("usr").unwrap_or(file).to_path_buf())
}
