//! The one build of the whole workspace, with its tests, that chores share: with packages named to
//! cargo, their dependencies would have other features, and all be built a second time. The
//! GStreamer plugin belongs to it where the headers are installed.
//!
//! Unit tests of kernels and executor are left out of it: in them both crates are compiled once
//! more, and optimised that takes longer than all else together. They have a build without
//! optimisation, in which they run half a minute.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo::{Cargo, Outcome, root, target_folder};

/// The libraries that the GStreamer plugin and its tests are built with.
const GSTREAMER: [&str; 5] = [
    "gstreamer-video-1.0",
    "gstreamer-audio-1.0",
    "gstreamer-base-1.0",
    "gstreamer-allocators-1.0",
    "gstreamer-check-1.0",
];

/// The library of analytics metadata, since GStreamer 1.26.
const ANALYTICS: &str = "gstreamer-analytics-1.0";

/// The call that builds all libraries and programs beside the tests: those that no test links, too.
const BUILD: [&str; 4] = ["build", "--lib", "--bins", "--tests"];

/// The packages whose unit tests have a build of their own.
const APART: [&str; 2] = ["nnburst-kernels", "nnburst-executor"];

/// The one of them that has tests in a folder, too.
const EXECUTOR: &str = "nnburst-executor";

/// A call of cargo for the whole workspace: `verb` is `test`, `clippy` or `build`, with its first
/// options.
///
/// # Errors
/// A GStreamer plugin without anything in it can't be removed.
pub(crate) fn cargo(what: &str, verb: &[&str]) -> Result<Cargo, String> {
    let mut features: &[&str] = &[];
    if has_gstreamer() {
        remove_empty_plugin()?;
        // Analytics metadata, where these headers have it.
        features = if has_libraries(&[ANALYTICS]) {
            &["--features", "nnburst-gstreamer/testing,nnburst-gstreamer/v1_26"]
        } else {
            &["--features", "nnburst-gstreamer/testing"]
        };
    }
    Ok(Cargo::new(what).args(verb).arg("--workspace").args(features))
}

/// The same for all packages but [`APART`], whose libraries the others link.
fn without_apart(what: &str, verb: &[&str]) -> Result<Cargo, String> {
    Ok(cargo(what, verb)?.args(APART.iter().flat_map(|package| ["--exclude", *package])))
}

/// Builds all libraries and programs, with the features that the tests have, into the usual folder.
pub(crate) fn build_all(what: &str) -> Outcome {
    without_apart(what, &BUILD)?.run()
}

/// Builds all tests.
pub(crate) fn build_tests() -> Outcome {
    unit_tests_apart(&["--lib", "--no-run"])?;
    without_apart("tests", &["test", "--no-run"])?.run()?;
    executor_tests(&["test", "--no-run"])?.run()
}

/// Builds and runs all tests.
pub(crate) fn run_tests() -> Outcome {
    unit_tests_apart(&["--lib"])?;
    unit_tests_apart(&["--doc"])?;
    without_apart("tests", &["test"])?.run()?;
    // Other packages have tests of the same names.
    let tests = Tests { packages: &[EXECUTOR], ..Tests::default() };
    tests.run_from("tests of the executor", &[], || executor_tests(&["test", "--no-run"]))
}

/// Tests within the sources of the packages [`APART`].
fn unit_tests_apart(args: &[&str]) -> Outcome {
    let packages = APART.iter().flat_map(|package| ["--package", *package]);
    let cargo = Cargo::new("unit tests of kernels and executor").arg("test").args(packages);
    cargo.args(args).with_kernels_at(0).run()
}

/// The call for the tests in the executor's folder, with the features of all others.
fn executor_tests(verb: &[&str]) -> Result<Cargo, String> {
    let folder = root().join("executor/tests");
    let at = |error| format!("{}: {error}", folder.display());
    let mut chosen = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let is_test =
            path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").exists();
        if let (true, Some(name)) = (is_test, path.file_stem()) {
            chosen.extend(["--test".into(), name.to_os_string()]);
        }
    }
    Ok(cargo("tests of the executor", verb)?.args(chosen))
}

/// Returns whether the headers of the GStreamer plugin are installed; says so where they are not.
pub(crate) fn has_gstreamer() -> bool {
    let found = has_libraries(&GSTREAMER);
    if !found {
        let packages = "libgstreamer1.0-dev, libgstreamer-plugins-base1.0-dev";
        println!("left out: the door gstreamer, as its headers are missing ({packages})");
    }
    found
}

fn has_libraries(names: &[&str]) -> bool {
    let asked = Command::new("pkg-config").arg("--exists").args(names).status();
    asked.is_ok_and(|status| status.success())
}

/// Removes the plugin that a build without the feature leaves: an empty library of the same name,
/// which cargo would keep.
fn remove_empty_plugin() -> Outcome {
    let library = target_folder().join("debug/deps/libgstnnburst.so");
    let Ok(bytes) = std::fs::read(&library) else { return Ok(()) };
    let entry = b"gst_plugin_nnburst_get_desc";
    if bytes.windows(entry.len()).any(|window| window == entry) {
        return Ok(());
    }
    std::fs::remove_file(&library).map_err(|error| format!("{}: {error}", library.display()))
}

/// Tests of some packages, out of the workspace's build.
#[derive(Default)]
pub(crate) struct Tests<'a> {
    pub(crate) packages: &'a [&'a str],
    /// The only programs of tests to run (`lib` or the name of a test target); empty for all.
    pub(crate) targets: &'a [&'a str],
    /// Arguments of the programs.
    pub(crate) args: &'a [&'a str],
    /// Variables of the programs.
    pub(crate) variables: &'a [(&'a str, &'a OsStr)],
}

impl Tests<'_> {
    /// Builds the workspace's tests, where they aren't built already, and runs these.
    pub(crate) fn run(&self, what: &str) -> Outcome {
        self.run_from(what, &[], || without_apart(what, &["test", "--no-run"]))
    }

    /// Builds tests by a call of cargo, and runs these of them, in an emulator where one is named.
    pub(crate) fn run_from(
        &self,
        what: &str,
        emulator: &[&str],
        build: impl Fn() -> Result<Cargo, String>,
    ) -> Outcome {
        build()?.run()?;
        let messages = build()?.args(["--message-format", "json"]).stdout()?;
        let built: Vec<_> = messages.lines().filter_map(BuiltTest::parse).collect();
        let chosen: Vec<_> = built.iter().filter(|test| self.has(test)).collect();
        if chosen.is_empty() {
            return Err(format!("{what}: none of the workspace's tests was chosen"));
        }
        for test in chosen {
            println!("== {what}: {} {}", test.program.display(), self.args.join(" "));
            let line = emulator.iter().map(OsStr::new).chain([test.program.as_os_str()]);
            let line: Vec<_> = line.chain(self.args.iter().map(OsStr::new)).collect();
            let mut run = Command::new(line[0]);
            run.args(&line[1..]).current_dir(&test.folder).envs(self.variables.iter().copied());
            match run.status() {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("{}: {status}", test.program.display())),
                Err(error) => return Err(format!("{}: {error}", test.program.display())),
            }
        }
        Ok(())
    }

    fn has(&self, test: &BuiltTest) -> bool {
        let is_target = self.targets.is_empty() || self.targets.contains(&test.target.as_str());
        self.packages.contains(&test.package.as_str()) && is_target
    }
}

/// A program of tests and the folder of its package, where cargo would start it.
struct BuiltTest {
    package: String,
    /// `lib`, or the name of another target.
    target: String,
    program: PathBuf,
    folder: PathBuf,
}

impl BuiltTest {
    /// Reads a message of cargo; none if it tells of something else.
    fn parse(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["profile"]["test"].as_bool() != Some(true) {
            return None;
        }
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let target = &message["target"];
        let is_library =
            !matches!(target["kind"][0].as_str()?, "test" | "bin" | "example" | "bench");
        let target = if is_library { "lib" } else { target["name"].as_str()? };
        // `path+file:///folder#name@version`
        let id = message["package_id"].as_str()?;
        let package = id.rsplit('#').next()?.split('@').next()?;
        Some(Self {
            package: package.into(),
            target: target.into(),
            program: message["executable"].as_str()?.into(),
            folder: manifest.parent()?.into(),
        })
    }
}
