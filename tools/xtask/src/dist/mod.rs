//! `cargo xtask dist`: what is handed to those who install nnburst without a toolchain.
//!
//! ```text
//!   target/dist/*.deb                        packages of Debian (and its debug symbols)
//!   target/dist/nnburst-VERSION-TARGET.tar.xz  for other systems, with install.sh
//!   target/dist/nnburst-VERSION-*.whl        the Python package
//!   target/dist/nnburst-VERSION.cdx.json     what is in them (CycloneDX)
//!   target/dist/SHA256SUMS
//! ```
//!
//! Times in the archives are those of the last commit, or of `SOURCE_DATE_EPOCH`.

mod deb;
mod needs;
mod packages;
mod sbom;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{Outcome, root, target_folder};
use crate::install::{self, Options, at, write};
use crate::wheels::Wheels;

const USAGE: &str = "usage: cargo xtask dist [--target TARGET] [--out DIR] [--debug] [--without-wheel] [--without-gstreamer]
  --target             build for another machine (aarch64-unknown-linux-gnu)
  --out                where the packages go [default: target/dist]
  --debug              pack what `cargo build` makes, for tests
  --without-wheel      no Python package
  --without-gstreamer  no GStreamer plugin, which takes its headers (of the other machine)";

/// What packages are made from.
struct Build {
    /// cargo's name of the machine, and Debian's.
    target: String,
    machine: &'static str,
    version: String,
    /// Seconds since 1970, which files in archives have.
    date: String,
    /// The installation, and the folder of its libraries from there.
    root: PathBuf,
    libdir: PathBuf,
    /// A folder for things between, and the one of the results.
    work: PathBuf,
    out: PathBuf,
}

impl Build {
    /// The installed files, by their paths from the root.
    fn installed(&self) -> Result<Vec<PathBuf>, String> {
        files(&self.root)
    }

    /// The date as changelogs of Debian have it.
    fn written_date(&self) -> Result<String, String> {
        let date = format!("--date=@{}", self.date);
        let said = install::ask("date", &["-u".as_ref(), "-R".as_ref(), date.as_ref()])?;
        Ok(said.trim().to_owned())
    }
}

struct Choice {
    target: Option<String>,
    out: PathBuf,
    is_debug: bool,
    has_wheel: bool,
    has_gstreamer: bool,
}

impl Choice {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut choice = Self {
            target: None,
            out: target_folder().join("dist"),
            is_debug: false,
            has_wheel: true,
            has_gstreamer: true,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().cloned().ok_or_else(|| format!("`{arg}` wants a value\n{USAGE}"));
            match arg.as_str() {
                "--target" => choice.target = Some(value()?),
                "--out" => choice.out = value()?.into(),
                "--debug" => choice.is_debug = true,
                "--without-wheel" => choice.has_wheel = false,
                "--without-gstreamer" => choice.has_gstreamer = false,
                _ => return Err(format!("`{arg}` is no option\n{USAGE}")),
            }
        }
        Ok(choice)
    }
}

/// Builds, installs below a folder, and packs.
pub(crate) fn run(args: &[String]) -> Outcome {
    let choice = Choice::parse(args)?;
    let build = prepare(&choice)?;
    install::install(&Options {
        prefix: "/usr".into(),
        destdir: build.root.clone(),
        libdir: Some(build.libdir.strip_prefix("usr").unwrap_or(&build.libdir).to_path_buf()),
        target: choice.target.clone(),
        has_gstreamer: choice.has_gstreamer,
        has_symbols: !choice.is_debug,
        build: if choice.is_debug { install::Build::Debug } else { install::Build::Release },
    })?;
    let list = build.out.join(format!("nnburst-{}.cdx.json", build.version));
    sbom::make(&build, &list)?;
    let mut made = vec![list];
    made.extend(deb::make(&build)?);
    made.push(tarball::make(&build)?);
    if choice.has_wheel {
        made.extend(wheel(&build, &choice)?);
    }
    write(&build.out.join("SHA256SUMS"), &sums(&build.out)?)?;
    for file in made {
        println!("{}", file.display());
    }
    Ok(())
}

/// Empties the folders that results and things between go to.
fn prepare(choice: &Choice) -> Result<Build, String> {
    let host = || {
        let said = install::ask(env!("CARGO"), &["-vV".as_ref()])?;
        let host = said.lines().find_map(|line| line.strip_prefix("host: "));
        host.map(str::to_owned).ok_or_else(|| "cargo -vV names no host".to_owned())
    };
    let target = choice.target.clone().map_or_else(host, Ok)?;
    let (machine, triplet) = match target.as_str() {
        "x86_64-unknown-linux-gnu" => ("amd64", "x86_64-linux-gnu"),
        "aarch64-unknown-linux-gnu" => ("arm64", "aarch64-linux-gnu"),
        _ => return Err(format!("no packages for {target}: x86_64 or aarch64-unknown-linux-gnu")),
    };
    let work = target_folder().join("install/dist").join(&target);
    for folder in [&work, &choice.out] {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", folder.display()));
            }
            _ => fs::create_dir_all(folder).map_err(at(&folder.display()))?,
        }
    }
    Ok(Build {
        target,
        machine,
        version: env!("CARGO_PKG_VERSION").into(),
        date: date()?,
        root: work.join("root"),
        libdir: Path::new("usr/lib").join(triplet),
        work,
        out: choice.out.clone(),
    })
}

/// The time that all files in archives have.
fn date() -> Result<String, String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let folder = root();
    let args =
        ["-C".as_ref(), folder.as_path(), "log".as_ref(), "-1".as_ref(), "--format=%ct".as_ref()];
    Ok(install::ask("git", &args)?.trim().to_owned())
}

/// The Python package, by pip, with the toolchain's maturin in an environment of its own.
fn wheel(build: &Build, choice: &Choice) -> Result<Option<PathBuf>, String> {
    const MATURIN: Wheels = Wheels {
        name: "maturin",
        packages: &["maturin>=1.16,<2"],
        module: "maturin",
        pythons: &["python3"],
    };
    let Some(python) = MATURIN.python()? else { return Ok(None) };
    let tools = python.parent().unwrap_or(&python);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "wheel", "--no-build-isolation"]);
    pip.args(["--quiet", "--no-deps", "--wheel-dir"]).arg(&build.out);
    pip.arg(root().join("doors/python"));
    pip.env("PATH", format!("{}:{path}", tools.display()));
    pip.env("NNBURST_PROFILE", if choice.is_debug { "dev" } else { "release" });
    if let Some(target) = &choice.target {
        pip.env("CARGO_BUILD_TARGET", target).envs(install::linker(target));
    }
    call(&mut pip)?;
    let is_wheel = |file: &PathBuf| file.extension().is_some_and(|found| found == "whl");
    Ok(files(&build.out)?.into_iter().find(is_wheel).map(|file| build.out.join(file)))
}

/// Checksums of all results.
fn sums(folder: &Path) -> Result<String, String> {
    let output = Command::new("sha256sum").current_dir(folder).args(files(folder)?).output();
    let output = output.map_err(|error| format!("sha256sum: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every file below a folder, by its path from there, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for dir in folders(folder)? {
        for path in entries(&dir)?.into_iter().filter(|path| !path.is_dir()) {
            found.push(path.strip_prefix(folder).unwrap_or(&path).to_path_buf());
        }
    }
    found.sort();
    Ok(found)
}

/// A folder and all below it.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![folder.to_path_buf()];
    let mut next = 0;
    while let Some(dir) = found.get(next).cloned() {
        found.extend(entries(&dir)?.into_iter().filter(|path| path.is_dir()));
        next += 1;
    }
    Ok(found)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(at(&dir.display()))?;
    entries.map(|entry| Ok(entry.map_err(at(&dir.display()))?.path())).collect()
}

/// Runs a program quietly; what it said is part of the error.
fn call(command: &mut Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&said).trim()))
}
