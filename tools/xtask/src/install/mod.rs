//! `cargo xtask install`: the command, the C libraries (of networks and of the queue), the LADSPA
//! plugin, TFLite's delegate and what belongs to them, where packages put them.
//!
//! ```text
//!   PREFIX/bin/nnburst                           PREFIX/share/man/man1/nnburst*.1
//!   PREFIX/LIBDIR/libneuralnetworks.so           PREFIX/lib/systemd/{user,system}/nnburst@.*
//!   PREFIX/LIBDIR/libnnburst_fmq_c.so            PREFIX/include/{,android,extensions}/*.h
//!   PREFIX/LIBDIR/libnnburst_tflite.so           PREFIX/lib/ladspa/nnburst.so
//!   PREFIX/LIBDIR/pkgconfig/{neuralnetworks,nnburst-fmq}.pc
//!   PREFIX/share/{bash-completion/completions/nnburst,zsh/site-functions/_nnburst}
//!   PREFIX/lib/sysusers.d/nnburst.conf           PREFIX/share/nnburst/grafana-dashboard.json
//!   PREFIX/LIBDIR/gstreamer-1.0/libgstnnburst.so with --gstreamer
//!   PREFIX/lib/debug/.build-id/                  with --symbols
//!   PREFIX/share/fish/vendor_completions.d/nnburst.fish
//! ```
//!
//! A release is built in a folder of its own, without the paths of this machine in it, and
//! stripped.

mod options;
mod paths;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cargo::{Cargo, Outcome, root, target_folder};
use crate::workspace;
pub(crate) use options::{Build, Options, triplet};
pub(crate) use paths::ask;

/// The C libraries, with their pkg-config files.
const LIBRARIES: [(&str, &str); 2] = [
    ("libneuralnetworks.so", "ndk/neuralnetworks.pc"),
    ("libnnburst_fmq_c.so", "fmq/capi/nnburst-fmq.pc"),
];

/// The delegate that TFLite's interpreters load by its name or path.
const DELEGATE: &str = "libnnburst_tflite.so";

/// The LADSPA plugin as cargo builds it, and its place below the prefix: hosts look in
/// `/usr/lib/ladspa` and `/usr/local/lib/ladspa`, on every machine.
const LADSPA: (&str, &str) = ("libnnburst_ladspa.so", "lib/ladspa/nnburst.so");

/// The GStreamer plugin, which GStreamer looks for in `gstreamer-1.0` beside its own library.
const GSTREAMER: &str = "libgstnnburst.so";

/// Completions as they are generated, their folders below the prefix and their names there: where
/// bash-completion, zsh and fish look.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("nnburst.bash", "share/bash-completion/completions", "nnburst"),
    ("_nnburst", "share/zsh/site-functions", "_nnburst"),
    ("nnburst.fish", "share/fish/vendor_completions.d", "nnburst.fish"),
];

/// Builds and installs.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    install(&options)?;
    println!("installed below {}", options.staged(&options.prefix).display());
    if options.destdir == Path::new("/") {
        let libdir = options.prefix.join(options.libdir());
        println!(
            "the loader finds the library after `ldconfig`, where {0} is among its\nfolders, else with LD_LIBRARY_PATH={0}",
            libdir.display()
        );
    }
    Ok(())
}

/// Builds everything and puts it where the options say.
pub(crate) fn install(options: &Options) -> Outcome {
    let built = build(options)?;
    for (file, to) in programs(options) {
        let folder = options.staged(to.parent().unwrap_or(&to));
        copy_as(&built.join(file), &folder, to.file_name().unwrap_or_default(), 0o755)?;
        if options.build == Build::Release {
            paths::strip(options, &to)?;
            paths::check(&options.staged(&to))?;
        }
    }
    pkg_config(options)?;
    headers(options)?;
    pages(options)?;
    services(options)
}

/// The files that are built and their places.
fn programs(options: &Options) -> Vec<(&'static str, PathBuf)> {
    let libdir = options.prefix.join(options.libdir());
    let mut all = vec![("nnburst", options.prefix.join("bin/nnburst"))];
    all.extend(LIBRARIES.map(|(library, _)| (library, libdir.join(library))));
    all.push((DELEGATE, libdir.join(DELEGATE)));
    all.push((LADSPA.0, options.prefix.join(LADSPA.1)));
    if options.has_gstreamer {
        all.push((GSTREAMER, libdir.join("gstreamer-1.0").join(GSTREAMER)));
    }
    all
}

/// The files by which compilers find the libraries.
fn pkg_config(options: &Options) -> Outcome {
    let libdir = options.prefix.join(options.libdir());
    for (_, pc) in LIBRARIES {
        let text = read(&root().join(format!("{pc}.in")))?
            .replace("@PREFIX@", &options.prefix.display().to_string())
            .replace("@LIBDIR@", &libdir.display().to_string())
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        let name = Path::new(pc).file_name().unwrap_or_default();
        write(&options.staged(&libdir.join("pkgconfig").join(name)), &text)?;
    }
    Ok(())
}

fn headers(options: &Options) -> Outcome {
    let (root, include) = (root(), options.prefix.join("include"));
    let folders = ["", "android", "extensions"];
    let folders =
        folders.map(|folder| (root.join("ndk/include").join(folder), include.join(folder)));
    for (from, to) in folders.into_iter().chain([(root.join("fmq/capi/include"), include)]) {
        copy_all(&files(&from, "h")?, &options.staged(&to))?;
    }
    Ok(())
}

/// The command's manual pages and completions, and a dashboard of its metrics.
fn pages(options: &Options) -> Outcome {
    let root = root();
    let man = options.staged(&options.prefix.join("share/man/man1"));
    copy_all(&files(&root.join("cli/man"), "1")?, &man)?;
    let dashboards = options.staged(&options.prefix.join("share/nnburst"));
    copy_all(&[root.join("docs/grafana-dashboard.json")], &dashboards)?;
    for (from, folder, name) in COMPLETIONS {
        let to = options.staged(&options.prefix.join(folder));
        copy_as(&root.join("cli/completions").join(from), &to, name.as_ref(), 0o644)?;
    }
    Ok(())
}

/// What systemd needs: units of a user's own drivers, of drivers for all users, and the user that
/// the latter run as; and an example of the limits that services read.
fn services(options: &Options) -> Outcome {
    let (units, lib) = (root().join("driver/systemd"), options.prefix.join("lib"));
    let bin = format!("{}/", options.prefix.join("bin").display());
    for folder in ["user", "system"] {
        let from = units.join(folder);
        for unit in [files(&from, "service")?, files(&from, "socket")?].concat() {
            let text = read(&unit)?.replace("/usr/bin/", &bin);
            let to = lib.join("systemd").join(folder).join(unit.file_name().unwrap_or_default());
            write(&options.staged(&to), &text)?;
        }
    }
    let examples = options.staged(&options.prefix.join("share/doc/nnburst/examples"));
    copy_all(&files(&units, "toml")?, &examples)?;
    copy_all(&files(&units, "conf")?, &options.staged(&lib.join("sysusers.d")))
}

/// Builds the programs and libraries; returns the folder that they are in.
fn build(options: &Options) -> Result<PathBuf, String> {
    let mut packages = vec![
        "nnburst-cli",
        "nnburst-ndk",
        "nnburst-fmq-capi",
        "nnburst-ladspa",
        "nnburst-tflite-delegate",
    ];
    let mut features: &[&str] = &[];
    if options.has_gstreamer {
        packages.push("nnburst-gstreamer");
        features = &["--features", "nnburst-gstreamer/plugin"];
    }
    let packages = packages.into_iter().flat_map(|package| ["--package", package]);
    let target = options.target.iter().flat_map(|target| ["--target", target]);
    let cargo = Cargo::new("install").args(["build"]).args(packages).args(features).args(target);
    let linker = options.target.as_deref().and_then(linker);
    let cargo = linker.iter().fold(cargo, |cargo, (variable, linker)| cargo.env(variable, linker));
    let usual = target_folder();
    let (folder, profile) = match options.build {
        Build::Debug => {
            cargo.run()?;
            (usual, "debug")
        }
        Build::Tested => {
            workspace::build_all("install")?;
            return Ok(usual.join("debug"));
        }
        Build::Release => {
            // Other flags build everything anew: not at the cost of the usual builds.
            let own = usual.join("install");
            let cargo = cargo.args(["--release"]).env("CARGO_TARGET_DIR", &own);
            cargo.env("RUSTFLAGS", paths::flags()).run()?;
            (own, "release")
        }
    };
    Ok(options.target.iter().fold(folder, |folder, target| folder.join(target)).join(profile))
}

/// The variable by which cargo links for another machine with Debian's cross compiler, and that
/// compiler; `None` where it is not installed, or where the environment names another linker.
pub(crate) fn linker(target: &str) -> Option<(String, String)> {
    let variable = target.replace('-', "_").to_ascii_uppercase();
    let variable = format!("CARGO_TARGET_{variable}_LINKER");
    let linker = format!("{}-gcc", target.replace("-unknown", ""));
    let is_there = || std::process::Command::new(&linker).arg("--version").output().is_ok();
    (std::env::var_os(&variable).is_none() && is_there()).then_some((variable, linker))
}

/// The files of a folder with an extension, sorted.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(at(&dir.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    Ok(paths)
}

/// Copies files that everybody may read.
fn copy_all(files: &[PathBuf], dir: &Path) -> Outcome {
    files
        .iter()
        .try_for_each(|file| copy_as(file, dir, file.file_name().unwrap_or_default(), 0o644))
}

pub(crate) fn copy_as(from: &Path, dir: &Path, name: &OsStr, mode: u32) -> Outcome {
    fs::create_dir_all(dir).map_err(at(&dir.display()))?;
    let to = dir.join(name);
    // A program that runs from the file there keeps what it has.
    let made = dir.join(".nnburst-new");
    fs::copy(from, &made).map_err(at(&from.display()))?;
    fs::set_permissions(&made, fs::Permissions::from_mode(mode)).map_err(at(&to.display()))?;
    fs::rename(&made, &to).map_err(at(&to.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(at(&path.display()))
}

pub(crate) fn write(path: &Path, text: &str) -> Outcome {
    let dir = path.parent().unwrap_or_else(|| Path::new("/"));
    fs::create_dir_all(dir).map_err(at(&dir.display()))?;
    fs::write(path, text).map_err(at(&path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(at(&path.display()))
}

/// Says which file an error is about.
pub(crate) fn at(what: &impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> String {
    let what = what.to_string();
    move |error| format!("{what}: {error}")
}
