//! Running cargo, and saying so.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The result of a task: nothing, or what went wrong in one line.
pub(crate) type Outcome = Result<(), String>;

/// One call of cargo.
pub(crate) struct Cargo {
    what: String,
    command: Command,
}

impl Cargo {
    /// A call with the cargo that runs us.
    pub(crate) fn new(what: &str) -> Self {
        Self { what: what.into(), command: Command::new(env!("CARGO")) }
    }

    /// A call with the nightly toolchain's cargo, through rustup.
    pub(crate) fn nightly(what: &str) -> Self {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]);
        Self { what: what.into(), command }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs it, with its output on the terminal.
    pub(crate) fn run(mut self) -> Outcome {
        let args: Vec<_> = self.command.get_args().map(OsStr::to_string_lossy).collect();
        println!("== {}: cargo {}", self.what, args.join(" "));
        match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{} failed: {status}", self.what)),
            Err(error) => Err(format!("{} could not start: {error}", self.what)),
        }
    }

    /// Runs it with messages as JSON, and returns the tests of packages that it built.
    fn built_tests(mut self, packages: &[&str]) -> Result<Vec<BuiltTest>, String> {
        let output = self.command.stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("{} could not start: {error}", self.what))?;
        let messages = String::from_utf8_lossy(&output.stdout);
        Ok(messages.lines().filter_map(|line| BuiltTest::parse(line, packages)).collect())
    }

    /// Runs it quietly; whether it succeeded, and everything it said.
    pub(crate) fn ask(mut self) -> Result<(bool, String), String> {
        let output = self.command.output();
        let output = output.map_err(|error| format!("{} could not start: {error}", self.what))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    }
}

/// Runs the tests of packages, but builds those of the whole workspace: with packages named to
/// cargo, their dependencies would have other features, and all be built a second time. `named` are
/// variables of the tests.
pub(crate) fn test_packages(
    what: &str,
    packages: &[&str],
    options: &[&str],
    named: &[(&str, &OsStr)],
) -> Outcome {
    let build = ["test", "--workspace", "--no-run"];
    Cargo::new(what).args(build).args(options).run()?;
    let list = Cargo::new(what).args(build).args(options);
    for test in list.args(["--message-format", "json"]).built_tests(packages)? {
        println!("== {what}: {}", test.program.display());
        let mut run = Command::new(&test.program);
        let ended = run.current_dir(&test.folder).envs(named.iter().copied()).status();
        match ended {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("{}: {status}", test.program.display())),
            Err(error) => return Err(format!("{}: {error}", test.program.display())),
        }
    }
    Ok(())
}

/// A program of tests and the folder of its package, where cargo would start it.
struct BuiltTest {
    program: PathBuf,
    folder: PathBuf,
}

impl BuiltTest {
    /// Reads a message of cargo; none if it tells of something else.
    fn parse(message: &str, packages: &[&str]) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let is_test = message["profile"]["test"].as_bool() == Some(true);
        let program = message["executable"].as_str()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let id = message["package_id"].as_str()?;
        // `path+file:///folder#name@version`
        let name = id.rsplit('#').next()?.split('@').next()?;
        let folder = manifest.parent()?.to_path_buf();
        (is_test && packages.contains(&name)).then(|| Self { program: program.into(), folder })
    }
}

/// The folder that cargo builds into: `CARGO_TARGET_DIR`, else the workspace's `target`.
pub(crate) fn target_folder() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    given.unwrap_or_else(|| workspace().join("target"))
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map_or_else(PathBuf::new, Path::to_path_buf)
}
