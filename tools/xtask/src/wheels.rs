//! Virtual environments with packages of PyPI, for tests in Python.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo::target_folder;

/// Packages of PyPI that tests need, in an environment of their own.
pub(crate) struct Wheels {
    /// The environment's name.
    pub(crate) name: &'static str,
    /// As `pip install` takes them.
    pub(crate) packages: &'static [&'static str],
    /// A module that is there once they are.
    pub(crate) module: &'static str,
    /// The programs of Python that there are wheels for, the best first.
    pub(crate) pythons: &'static [&'static str],
}

impl Wheels {
    /// The environment's Python, made where it isn't there; `None`, with a word, where it can't be.
    ///
    /// # Errors
    /// It can't be made, and `NNBURST_REQUIRE` names `wheels`.
    pub(crate) fn python(&self) -> Result<Option<PathBuf>, String> {
        let folder = target_folder().join("wheels").join(self.name);
        let python = folder.join("bin/python");
        let import = format!("import {}", self.module);
        let has_module = || succeeds(Command::new(&python).args(["-c", &import]));
        if has_module() {
            return Ok(Some(python));
        }
        for program in self.pythons {
            let mut venv = Command::new(program);
            venv.args(["-m", "venv", "--clear"]).arg(&folder);
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
            if succeeds(&mut venv) && succeeds(pip.args(self.packages)) && has_module() {
                return Ok(Some(python));
            }
        }
        let [pythons, packages] = [self.pythons, self.packages].map(|names| names.join(", "));
        let missing = format!("no Python of {pythons} could install {packages}");
        let required = std::env::var("NNBURST_REQUIRE").unwrap_or_default();
        if required.split(',').any(|name| name == "wheels") {
            return Err(missing);
        }
        println!("left out: {missing}");
        Ok(None)
    }
}

fn succeeds(command: &mut Command) -> bool {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}
