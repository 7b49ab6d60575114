//! What `cargo xtask install` is asked for.

use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask install [--prefix DIR] [--destdir DIR] [--libdir DIR] [--target TARGET] [--gstreamer] [--symbols] [--debug | --as-tested]
  --prefix     where programs will find it [default: /usr/local]
  --destdir    a root that packages are made under [default: /]
  --libdir     the library's folder below the prefix [default: lib, lib64 or lib/TRIPLET, as the system has it]
  --target     build for another machine
  --gstreamer  also the GStreamer plugin, which takes its headers to build
  --symbols    keep the debug symbols that are stripped, below PREFIX/lib/debug, where debuggers look
  --debug      install what `cargo build` makes: not optimised, not stripped, with paths
  --as-tested  likewise, out of the build of the workspace's tests";

/// The options of an installation.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) prefix: PathBuf,
    pub(crate) destdir: PathBuf,
    pub(crate) libdir: Option<PathBuf>,
    pub(crate) target: Option<String>,
    /// Also the GStreamer plugin.
    pub(crate) has_gstreamer: bool,
    /// Debug symbols in files of their own.
    pub(crate) has_symbols: bool,
    pub(crate) build: Build,
}

/// The build that is installed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Build {
    Release,
    Debug,
    /// Likewise, out of the build of the workspace's tests.
    Tested,
}

/// The options for builds that are no release.
const BUILDS: [(&str, Build); 2] = [("--debug", Build::Debug), ("--as-tested", Build::Tested)];

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            prefix: "/usr/local".into(),
            destdir: "/".into(),
            libdir: None,
            target: None,
            has_gstreamer: false,
            has_symbols: false,
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
            match name {
                "--gstreamer" => options.has_gstreamer = true,
                "--symbols" => options.has_symbols = true,
                _ => {
                    let value = joined.or_else(|| args.next().cloned());
                    options.set(name, value.ok_or_else(|| wants_value(name))?)?;
                }
            }
        }
        if !options.prefix.is_absolute() {
            return Err(format!("--prefix {} is not absolute", options.prefix.display()));
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--prefix" => self.prefix = value.into(),
            "--destdir" => self.destdir = value.into(),
            "--libdir" => self.libdir = Some(value.into()),
            "--target" => self.target = Some(value),
            _ => return Err(format!("`{name}` is no option\n{USAGE}")),
        }
        Ok(())
    }

    /// The library's folder as a path below the prefix, or as it was given.
    pub(crate) fn libdir(&self) -> PathBuf {
        let given = self.libdir.clone();
        given.unwrap_or_else(|| usual_libdir(&self.prefix, Path::new("/usr"), &triplet(self)))
    }

    /// Returns the staged place of a path of the installed system.
    pub(crate) fn staged(&self, path: &Path) -> PathBuf {
        self.destdir.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn wants_value(name: &str) -> String {
    format!("`{name}` wants a value\n{USAGE}")
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
pub(crate) fn triplet(options: &Options) -> String {
    if let Some(target) = &options.target {
        return target.replace("-unknown", "");
    }
    let asked = Command::new("cc").arg("-print-multiarch").output();
    asked.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
