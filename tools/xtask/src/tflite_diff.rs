//! `cargo xtask tflite-diff`: files of one operator each, run here and by the interpreter.
//!
//! ```text
//!   cargo xtask tflite-diff --venv DIR [--cases N] [--seed N] [--folder DIR] [--only OPERATOR]..
//! ```
//!
//! `DIR` is a virtual environment with ai-edge-litert of PyPI. The files are written by the example
//! `tflite_diff` of `nnburst-tflite`, which runs them here; `compare.py` beside this file runs the
//! interpreter's reference kernels over them and prints a line per operator and type.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{Cargo, Outcome};

/// Writes the cases, runs both and compares; an error where any differs.
pub(crate) fn run(args: &[String]) -> Outcome {
    let (mut venv, mut cases, mut seed) = (None, "20000".to_owned(), "1".to_owned());
    let mut folder = PathBuf::from("target/tflite-diff");
    let mut only = Vec::new();
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("`{option}` lacks its value"))?;
        match option.as_str() {
            "--venv" => venv = Some(PathBuf::from(value)),
            "--cases" => cases.clone_from(value),
            "--seed" => seed.clone_from(value),
            "--folder" => folder = value.into(),
            "--only" => only.push(OsStr::new(value)),
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    let venv = venv.ok_or("--venv DIR is missing: where ai-edge-litert is installed")?;
    let example = ["run", "--release", "--package", "nnburst-tflite", "--example", "tflite_diff"];
    let mut arguments = vec![folder.as_os_str(), cases.as_ref(), seed.as_ref()];
    arguments.extend(only);
    Cargo::new("cases").args(example).args(["--"]).args(arguments).run()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compare.py");
    let status = Command::new(venv.join("bin/python")).arg(script).arg(&folder).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the comparison ended with {status}")),
        Err(error) => Err(format!("{}: {error}", venv.display())),
    }
}
