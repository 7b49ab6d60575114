//! The time of a model's steps.

use nnburst::DriverOptions;
use nnburst::profile::{Extent, Profile};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::Error;
use crate::model::{OpenFile, PyModel};
use crate::wait::in_background;

/// Runs a model `runs` times step by step in this process, without any device: `prepare_us`,
/// `whole_us` (the median of whole executions), and `steps` in their order, each with its
/// operation's name, kernel, instruction set, shapes, the median of its microseconds, the bytes of
/// its operands and its arithmetic operations.
#[pyfunction]
#[pyo3(signature = (model, *, runs=20, threads=1))]
pub(crate) fn profile<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyModel>,
    runs: usize,
    threads: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let file = model.get().file();
    let profile = in_background(py, move || measure(&file, runs, threads), || Ok(()))?;
    let microseconds = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let steps = profile.steps.iter().map(|step| {
        let entry = PyDict::new(py);
        entry.set_item("name", step.name)?;
        entry.set_item("kernel", step.label.kernel)?;
        entry.set_item("isa", format!("{:?}", step.label.form))?;
        entry.set_item("shape", step.label.shape.to_string())?;
        entry.set_item("us", microseconds(step.time))?;
        entry.set_item("bytes", step.bytes)?;
        entry.set_item("operations", step.label.operations)?;
        Ok(entry)
    });
    let all = PyDict::new(py);
    all.set_item("prepare_us", microseconds(profile.prepare))?;
    all.set_item("whole_us", microseconds(profile.whole))?;
    all.set_item("steps", PyList::new(py, steps.collect::<PyResult<Vec<_>>>()?)?)?;
    Ok(all)
}

fn measure(file: &OpenFile, runs: usize, threads: usize) -> Result<Profile, Error> {
    let imported = file.import(true, false)?;
    let zeros = imported.inputs.iter().map(|input| vec![0; input.byte_len().unwrap_or_default()]);
    let mut inputs: Vec<Vec<u8>> = zeros.collect();
    // The states follow the other inputs.
    for state in &imported.states {
        inputs.resize(inputs.len().max(state.input.saturating_add(1)), Vec::new());
        if let Some(input) = inputs.get_mut(state.input) {
            input.clone_from(&state.initial);
        }
    }
    let options = DriverOptions { threads, ..DriverOptions::default() };
    Ok(Profile::of(&imported.model, &inputs, &options, Extent::Runs(runs))?)
}
