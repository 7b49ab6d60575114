//! Packages of Debian, put together from an installation below a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::needs::Needs;
use super::packages::{PACKAGES, Package, owner};
use super::{Build, call};
use crate::cargo::{self, Outcome};
use crate::install::{at, copy_as, write};

/// The revision of the packaging, after the version of what is packaged.
const REVISION: &str = "-1";

/// Scripts of the package `nnburst`: it has the services.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../debian/nnburst.postinst")),
    ("prerm", include_str!("../../debian/nnburst.prerm")),
    ("postrm", include_str!("../../debian/nnburst.postrm")),
];

/// Makes every package that the installation has files of; returns their files.
pub(super) fn make(build: &Build) -> Result<Vec<PathBuf>, String> {
    let roots = build.work.join("debian");
    for file in build.installed()? {
        let package = owner(&file, &build.libdir)
            .ok_or_else(|| format!("/{} belongs to no package", file.display()))?;
        place(&build.root.join(&file), &roots.join(package.name), &file)?;
    }
    let made = PACKAGES.iter().filter(|package| roots.join(package.name).is_dir());
    made.map(|package| pack(build, package, &roots.join(package.name))).collect()
}

/// Puts a file where Debian's policy has it.
fn place(from: &Path, root: &Path, file: &Path) -> Outcome {
    let file = match file.strip_prefix("usr/share/zsh/site-functions") {
        Ok(name) => Path::new("usr/share/zsh/vendor-completions").join(name),
        Err(_) => file.to_path_buf(),
    };
    let to = root.join(&file);
    let folder = to.parent().unwrap_or(&to);
    let metadata = fs::metadata(from).map_err(at(&from.display()))?;
    // Libraries are not programs.
    let is_program = file.starts_with("usr/bin");
    let mode = if is_program { metadata.permissions().mode() } else { 0o644 };
    copy_as(from, folder, to.file_name().unwrap_or_default(), mode)?;
    if file.starts_with("usr/share/man") {
        call(Command::new("gzip").arg("-9n").arg(&to))?;
    }
    Ok(())
}

/// Adds the papers of a package to its files, and packs it.
fn pack(build: &Build, package: &Package, root: &Path) -> Result<PathBuf, String> {
    let version = format!("{}{REVISION}", build.version);
    papers(build, package, root, &version)?;
    let control = root.join("DEBIAN");
    write(&control.join("control"), &control_file(build, package, root, &version)?)?;
    if package.has_libraries {
        write(&control.join("triggers"), "activate-noawait ldconfig\n")?;
    }
    if package.name == "nnburst" {
        // For the administrator's settings.
        let settings = root.join("etc/nnburst");
        fs::create_dir_all(&settings).map_err(at(&settings.display()))?;
        for (name, text) in SCRIPTS {
            let script = control.join(name);
            write(&script, text)?;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&script, mode).map_err(at(&script.display()))?;
        }
    }
    write(&control.join("md5sums"), &sums(root)?)?;
    for folder in super::folders(root)? {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&folder, mode).map_err(at(&folder.display()))?;
    }
    let file = build.out.join(format!("{}_{version}_{}.deb", package.name, build.machine));
    let mut packing = Command::new("dpkg-deb");
    packing.args(["--root-owner-group", "-Zxz", "-z3", "--build"]).arg(root).arg(&file);
    call(packing.env("SOURCE_DATE_EPOCH", &build.date))?;
    Ok(file)
}

/// Licence, changes, and what lintian is told.
fn papers(build: &Build, package: &Package, root: &Path, version: &str) -> Outcome {
    let doc = root.join("usr/share/doc").join(package.name);
    let mit = cargo::root().join("LICENSE-MIT");
    let mit = fs::read_to_string(&mit).map_err(at(&mit.display()))?;
    let mut copyright = include_str!("../../debian/copyright.in").to_owned();
    copyright.push_str("License: MIT\n");
    for line in mit.lines().skip(1).skip_while(|line| !line.starts_with("Permission")) {
        copyright.push_str(&format!(" {}\n", if line.is_empty() { "." } else { line }));
    }
    write(&doc.join("copyright"), &copyright)?;
    let changes = doc.join("changelog.Debian");
    let text = format!(
        "nnburst ({version}) unstable; urgency=medium\n\n  * Packages of {}.\n\n -- {}  {}\n",
        build.version,
        maintainer(),
        build.written_date()?
    );
    write(&changes, &text)?;
    call(Command::new("gzip").arg("-9n").arg(&changes))?;
    if package.overrides.is_empty() {
        return Ok(());
    }
    let lines =
        package.overrides.iter().map(|(tag, why)| format!("# {why}\n{}: {tag}\n", package.name));
    write(&root.join("usr/share/lintian/overrides").join(package.name), &lines.collect::<String>())
}

/// `DEBFULLNAME <DEBEMAIL>`, as Debian's own tools take them.
fn maintainer() -> String {
    let given = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    format!(
        "{} <{}>",
        given("DEBFULLNAME", "nnburst developers"),
        given("DEBEMAIL", "packages@nnburst.dev")
    )
}

fn control_file(
    build: &Build,
    package: &Package,
    root: &Path,
    version: &str,
) -> Result<String, String> {
    let mut needs = Needs::default();
    let mut size = 0;
    for file in super::files(root)? {
        let path = root.join(&file);
        size += fs::metadata(&path).map_err(at(&path.display()))?.len().div_ceil(1024);
        let is_linked = file.extension().is_some_and(|extension| extension == "so");
        if is_linked || file.starts_with("usr/bin") {
            needs.add(&path)?;
        }
    }
    let mut depends = needs.list();
    depends.extend(package.depends.iter().map(|name| format!("{name} (= {version})")));
    let list = |name: &str, packages: &str| match packages {
        "" => String::new(),
        packages => format!("{name}: {packages}\n"),
    };
    Ok(format!(
        "Package: {}\nVersion: {version}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n{}{}Section: {}\nPriority: optional\nMulti-Arch: {}\nDescription: {}\n{}",
        package.name,
        build.machine,
        maintainer(),
        list("Depends", &depends.join(", ")),
        list("Recommends", &package.recommends.join(", ")),
        package.section,
        package.multi_arch,
        package.summary,
        wrapped(package.description)
    ))
}

/// Text in lines that begin with a space, as control files have it.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let is_full = lines.last().is_some_and(|line| line.len() + word.len() > 76);
        if is_full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// Checksums of a package's files, which `dpkg --verify` compares.
fn sums(root: &Path) -> Result<String, String> {
    let files = super::files(root)?;
    let files = files.iter().filter(|file| !file.starts_with("DEBIAN"));
    let output = Command::new("md5sum").current_dir(root).args(files).output();
    let output = output.map_err(|error| format!("md5sum: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("md5sum: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_wrapped() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().all(|line| line.starts_with(' ') && line.len() <= 80), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
    }
}
