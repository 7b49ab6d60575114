//! Running cargo, and saying so.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Builds sooner what is built for few runs: kernels with less optimisation than tests have,
    /// and no tables of lines.
    pub(crate) fn with_kernels_at(self, level: u8) -> Self {
        let kernels = ["kernels", "executor"].map(|package| {
            format!("--config=profile.dev.package.nnburst-{package}.opt-level={level}")
        });
        self.args(kernels).env("CARGO_PROFILE_DEV_DEBUG", "0")
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

    /// Runs it with its complaints thrown away, and returns what it wrote.
    pub(crate) fn stdout(mut self) -> Result<String, String> {
        let output = self.command.stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("{} could not start: {error}", self.what))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it quietly; whether it succeeded, and everything it said.
    pub(crate) fn ask(mut self) -> Result<(bool, String), String> {
        let output = self.command.output();
        let output = output.map_err(|error| format!("{} could not start: {error}", self.what))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    }
}

/// The folder that cargo builds into: `CARGO_TARGET_DIR`, else the workspace's `target`.
pub(crate) fn target_folder() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    given.unwrap_or_else(|| root().join("target"))
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map_or_else(PathBuf::new, Path::to_path_buf)
}
