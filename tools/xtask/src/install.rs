//! `cargo xtask install`: the command, the C libraries (of networks and of the queue), the LADSPA
//! plugin, TFLite's delegate and what belongs to them, where packages put them.
//!
//! ```text
//!   PREFIX/bin/nnburst                           PREFIX/share/man/man1/nnburst*.1
//!   PREFIX/LIBDIR/libneuralnetworks.so           PREFIX/lib/systemd/user/nnburst@.{service,socket}
//!   PREFIX/LIBDIR/libnnburst_fmq_c.so            PREFIX/include/{,android,extensions}/*.h
//!   PREFIX/LIBDIR/libnnburst_tflite.so           PREFIX/lib/ladspa/nnburst.so
//!   PREFIX/LIBDIR/pkgconfig/{neuralnetworks,nnburst-fmq}.pc
//!   PREFIX/share/{bash-completion/completions/nnburst,zsh/site-functions/_nnburst}
//!   PREFIX/share/fish/vendor_completions.d/nnburst.fish
//! ```
//!
//! A release is built in a folder of its own, without the paths of this machine in it, and
//! stripped.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{Cargo, Outcome, root, target_folder};
use crate::workspace;

const USAGE: &str = "usage: cargo xtask install [--prefix DIR] [--destdir DIR] [--libdir DIR] [--target TARGET] [--debug | --as-tested]
  --prefix     where programs will find it [default: /usr/local]
  --destdir    a root that packages are made under [default: /]
  --libdir     the library's folder below the prefix [default: lib, lib64 or lib/TRIPLET, as the system has it]
  --target     build for another machine
  --debug      install what `cargo build` makes: not optimised, not stripped, with paths
  --as-tested  likewise, out of the build of the workspace's tests";

/// The C libraries, with their pkg-config files.
const LIBRARIES: [(&str, &str); 2] = [
    ("libneuralnetworks.so", "ndk/neuralnetworks.pc"),
    ("libnnburst_fmq_c.so", "fmq/capi/nnburst-fmq.pc"),
];

/// The delegate that TFLite's interpreters load by its name or path.
const DELEGATE: &str = "libnnburst_tflite.so";

/// The LADSPA plugin as cargo builds it, its folder below the prefix and its name there: hosts look
/// in `/usr/lib/ladspa` and `/usr/local/lib/ladspa`, on every machine.
const LADSPA: (&str, &str, &str) = ("libnnburst_ladspa.so", "lib/ladspa", "nnburst.so");

/// Completions as they are generated, their folders below the prefix and their names there: where
/// bash-completion, zsh and fish look.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("nnburst.bash", "share/bash-completion/completions", "nnburst"),
    ("_nnburst", "share/zsh/site-functions", "_nnburst"),
    ("nnburst.fish", "share/fish/vendor_completions.d", "nnburst.fish"),
];

/// The options of an installation.
struct Options {
    prefix: PathBuf,
    destdir: PathBuf,
    libdir: Option<PathBuf>,
    target: Option<String>,
    build: Build,
}

/// The build that is installed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Build {
    Release,
    Debug,
    /// Likewise, out of the build of the workspace's tests.
    Tested,
}

/// The options for builds that are no release.
const BUILDS: [(&str, Build); 2] = [("--debug", Build::Debug), ("--as-tested", Build::Tested)];

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            prefix: "/usr/local".into(),
            destdir: "/".into(),
            libdir: None,
            target: None,
            build: Build::Release,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, joined) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            if let Some((_, build)) = BUILDS.iter().find(|(option, _)| *option == name) {
                options.build = *build;
                continue;
            }
            let value = joined.or_else(|| args.next().cloned());
            let value = value.ok_or_else(|| format!("`{name}` wants a value\n{USAGE}"))?;
            match name {
                "--prefix" => options.prefix = value.into(),
                "--destdir" => options.destdir = value.into(),
                "--libdir" => options.libdir = Some(value.into()),
                "--target" => options.target = Some(value),
                _ => return Err(format!("`{name}` is no option\n{USAGE}")),
            }
        }
        if !options.prefix.is_absolute() {
            return Err(format!("--prefix {} is not absolute", options.prefix.display()));
        }
        Ok(options)
    }

    /// The library's folder as a path below the prefix, or as it was given.
    fn libdir(&self) -> PathBuf {
        let given = self.libdir.clone();
        given.unwrap_or_else(|| usual_libdir(&self.prefix, Path::new("/usr"), &triplet(self)))
    }

    /// Returns the staged place of a path of the installed system.
    fn staged(&self, path: &Path) -> PathBuf {
        self.destdir.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// The folder of libraries below a prefix: Debian's folder of the machine in the system's own
/// prefix, `lib64` where the system has it beside `lib`, else `lib`.
fn usual_libdir(prefix: &Path, system: &Path, triplet: &str) -> PathBuf {
    let multiarch = Path::new("lib").join(triplet);
    if !triplet.is_empty() && system.join(&multiarch).is_dir() {
        // Other prefixes have no such folders there.
        return if prefix == system { multiarch } else { "lib".into() };
    }
    let lib64 = system.join("lib64");
    if lib64.is_dir() && !lib64.is_symlink() { "lib64".into() } else { "lib".into() }
}

/// Debian's name of the machine; empty where the compiler knows none.
fn triplet(options: &Options) -> String {
    if let Some(target) = &options.target {
        return target.replace("-unknown", "");
    }
    let asked = Command::new("cc").arg("-print-multiarch").output();
    asked.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// Builds and installs.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let built = build(&options)?;
    let (prefix, root) = (&options.prefix, root());
    let libdir = prefix.join(options.libdir());
    let bin = prefix.join("bin");
    let put = |from: &Path, dir: &Path, mode: u32| copy(from, &options.staged(dir), mode);
    put(&built.join("nnburst"), &bin, 0o755)?;
    for (library, _) in LIBRARIES {
        put(&built.join(library), &libdir, 0o755)?;
    }
    put(&built.join(DELEGATE), &libdir, 0o755)?;
    let (plugin, folder, name) = LADSPA;
    let plugin = (built.join(plugin), prefix.join(folder));
    copy_as(&plugin.0, &options.staged(&plugin.1), name.as_ref(), 0o755)?;
    if options.build == Build::Release {
        let libraries = LIBRARIES.iter().map(|(library, _)| libdir.join(library));
        let libraries = libraries.chain([plugin.1.join(name), libdir.join(DELEGATE)]);
        for file in std::iter::once(bin.join("nnburst")).chain(libraries) {
            let file = options.staged(&file);
            strip(&options, &file)?;
            check_paths(&file)?;
        }
    }
    for (_, pc) in LIBRARIES {
        let template = root.join(format!("{pc}.in"));
        let text = fs::read_to_string(&template).map_err(at(&template.display()))?;
        let text = text
            .replace("@PREFIX@", &prefix.display().to_string())
            .replace("@LIBDIR@", &libdir.display().to_string())
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        let name = Path::new(pc).file_name().unwrap_or_default();
        write(&options.staged(&libdir.join("pkgconfig").join(name)), &text)?;
    }
    for header in files(&root.join("fmq/capi/include"), "h")? {
        put(&header, &prefix.join("include"), 0o644)?;
    }
    for folder in ["", "android", "extensions"] {
        let to = prefix.join("include").join(folder);
        for header in files(&root.join("ndk/include").join(folder), "h")? {
            put(&header, &to, 0o644)?;
        }
    }
    for page in files(&root.join("cli/man"), "1")? {
        put(&page, &prefix.join("share/man/man1"), 0o644)?;
    }
    for (from, folder, name) in COMPLETIONS {
        let to = options.staged(&prefix.join(folder));
        copy_as(&root.join("cli/completions").join(from), &to, name.as_ref(), 0o644)?;
    }
    let units = root.join("driver/systemd");
    for unit in [files(&units, "service")?, files(&units, "socket")?].concat() {
        let text = fs::read_to_string(&unit).map_err(at(&unit.display()))?;
        let text = text.replace("/usr/bin/", &format!("{}/", bin.display()));
        let to = prefix.join("lib/systemd/user").join(unit.file_name().unwrap_or_default());
        write(&options.staged(&to), &text)?;
    }
    println!("installed below {}", options.staged(prefix).display());
    if options.destdir == Path::new("/") {
        println!(
            "the loader finds the library after `ldconfig`, where {} is among its",
            libdir.display()
        );
        println!("folders, else with LD_LIBRARY_PATH={}", libdir.display());
    }
    Ok(())
}

/// Builds the command and the library; returns the folder that they are in.
fn build(options: &Options) -> Result<PathBuf, String> {
    let packages = [
        "nnburst-cli",
        "nnburst-ndk",
        "nnburst-fmq-capi",
        "nnburst-ladspa",
        "nnburst-tflite-delegate",
    ];
    let packages = packages.into_iter().flat_map(|package| ["--package", package]);
    let target = options.target.iter().flat_map(|target| ["--target", target]);
    let cargo = Cargo::new("install").args(["build"]).args(packages).args(target);
    let usual = target_folder();
    let (folder, profile) = match options.build {
        Build::Debug => {
            cargo.run()?;
            (usual, "debug")
        }
        Build::Tested => {
            workspace::cargo("install", &workspace::BUILD)?.run()?;
            return Ok(usual.join("debug"));
        }
        Build::Release => {
            // Other flags build everything anew: not at the cost of the usual builds.
            let own = usual.join("install");
            let cargo = cargo.args(["--release"]).env("CARGO_TARGET_DIR", &own);
            cargo.env("RUSTFLAGS", flags()).run()?;
            (own, "release")
        }
    };
    Ok(options.target.iter().fold(folder, |folder, target| folder.join(target)).join(profile))
}

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

fn flags() -> String {
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    for (path, name) in origins() {
        flags.push_str(&format!(" --remap-path-prefix={}={name}", path.display()));
    }
    flags
}

/// Fails where a file names a folder of this machine.
fn check_paths(file: &Path) -> Outcome {
    let bytes = fs::read(file).map_err(at(&file.display()))?;
    for (path, _) in origins() {
        let name = format!("{}/", path.display());
        if bytes.windows(name.len()).any(|window| window == name.as_bytes()) {
            return Err(format!("{} has the path {name} in it", file.display()));
        }
    }
    Ok(())
}

/// Takes names and lines of functions out, which only debuggers read.
fn strip(options: &Options, file: &Path) -> Outcome {
    let cross = options.target.is_some().then(|| format!("{}-strip", triplet(options)));
    let program = cross.unwrap_or_else(|| "strip".into());
    match Command::new(&program).arg("--strip-unneeded").arg(file).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {}: {status}", file.display())),
        Err(error) => Err(format!("{program}: {error}")),
    }
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

fn copy(from: &Path, dir: &Path, mode: u32) -> Outcome {
    copy_as(from, dir, from.file_name().unwrap_or_default(), mode)
}

fn copy_as(from: &Path, dir: &Path, name: &OsStr, mode: u32) -> Outcome {
    fs::create_dir_all(dir).map_err(at(&dir.display()))?;
    let to = dir.join(name);
    // A program that runs from the file there keeps what it has.
    let made = dir.join(".nnburst-new");
    fs::copy(from, &made).map_err(at(&from.display()))?;
    fs::set_permissions(&made, fs::Permissions::from_mode(mode)).map_err(at(&to.display()))?;
    fs::rename(&made, &to).map_err(at(&to.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    let dir = path.parent().unwrap_or_else(|| Path::new("/"));
    fs::create_dir_all(dir).map_err(at(&dir.display()))?;
    fs::write(path, text).map_err(at(&path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(at(&path.display()))
}

/// Says which file an error is about.
fn at(what: &impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> String {
    let what = what.to_string();
    move |error| format!("{what}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_go_where_the_system_has_them() {
        let system = tempfile::tempdir().unwrap();
        let usual = |prefix: &Path, triplet: &str| usual_libdir(prefix, system.path(), triplet);
        let local = Path::new("/usr/local");
        assert_eq!(usual(system.path(), ""), Path::new("lib"));
        fs::create_dir_all(system.path().join("lib64")).unwrap();
        assert_eq!(usual(local, ""), Path::new("lib64"), "Fedora");
        fs::create_dir_all(system.path().join("lib/x86_64-linux-gnu")).unwrap();
        let debian = "x86_64-linux-gnu";
        assert_eq!(usual(system.path(), debian), Path::new("lib/x86_64-linux-gnu"), "Debian");
        assert_eq!(usual(local, debian), Path::new("lib"), "Debian, beside the system");
    }

    #[test]
    fn options_are_told_apart() {
        let parse = |line: &str| {
            Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let options = parse("--prefix=/usr --destdir /tmp/d --libdir lib32 --debug").unwrap();
        assert_eq!(
            options.staged(&options.prefix.join(options.libdir())),
            Path::new("/tmp/d/usr/lib32")
        );
        assert_eq!(options.build, Build::Debug);
        for wrong in ["--prefix", "--prefix here", "--nonsense x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
