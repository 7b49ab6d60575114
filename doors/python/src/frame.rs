//! Frames as Python objects: numpy arrays over the memory that the driver maps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst::hal::process::Origin;
use nnburst::hal::{Operand, RequestArgument};
use nnburst::{Argument, Compilation};
use nnburst_tflite::{Imported, StatePair};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::dtype::{self, ElementType};
use crate::error::{Error, OrRaise, wrong};
use crate::tensor::{PyTensor, TensorView};
use crate::wait::check_origin;

/// The arguments of a model, apart from its states.
#[derive(Debug)]
pub(crate) struct FrameLayout {
    pub(crate) inputs: Vec<ArgumentSlot>,
    pub(crate) outputs: Vec<ArgumentSlot>,
    pub(crate) states: Vec<StatePair>,
}

/// An argument: its tensor in the file, and its type.
#[derive(Debug)]
pub(crate) struct ArgumentSlot {
    pub(crate) tensor: usize,
    element: ElementType,
    /// True if the file's tensor has no dimension, where the model's has one of 1.
    is_scalar: bool,
}

impl FrameLayout {
    /// # Errors
    /// An argument of a type that arrays have not.
    pub(crate) fn of(imported: &Imported, scalars: &[bool]) -> Result<Arc<Self>, Error> {
        let slot = |info: &nnburst_tflite::TensorInfo| {
            let element = dtype::of_operand(info.kind).ok_or_else(|| {
                Error::Argument(format!("{}: no array has elements of {}", info.name, info.kind))
            })?;
            let is_scalar = scalars.get(info.tensor).copied().unwrap_or(false);
            Ok(ArgumentSlot { tensor: info.tensor, element, is_scalar })
        };
        Ok(Arc::new(Self {
            inputs: imported.inputs.iter().map(slot).collect::<Result<_, Error>>()?,
            outputs: imported.outputs.iter().map(slot).collect::<Result<_, Error>>()?,
            states: imported.states.clone(),
        }))
    }
}

impl ArgumentSlot {
    pub(crate) fn shape(&self, dimensions: &[u32]) -> Option<Vec<usize>> {
        if self.is_scalar && dimensions.iter().all(|&extent| extent == 1) {
            return Some(Vec::new());
        }
        dimensions.iter().map(|&extent| usize::try_from(extent).ok()).collect()
    }
}

/// The inputs and outputs of executions, in memory that the driver reads and writes in place.
///
/// Made by `Compilation.frame`. What the model keeps from one execution to the next is kept in the
/// frame.
#[pyclass(name = "Frame", frozen, module = "nnburst")]
pub(crate) struct PyFrame {
    /// `None` while a burst has it.
    here: Mutex<Option<nnburst::Frame>>,
    layout: Arc<FrameLayout>,
    compilation: Compilation,
    inputs: Vec<TensorView>,
    input_arrays: PyOnceLock<Py<PyTuple>>,
    origin: Origin,
}

impl PyFrame {
    pub(crate) fn new(
        compilation: &Compilation,
        layout: &Arc<FrameLayout>,
        open_bytes: usize,
    ) -> Result<Self, Error> {
        let argument = |length| Argument { dimensions: Vec::new(), length };
        let bytes = compilation.input_bytes().iter().enumerate();
        let inputs = bytes.map(|(at, &bytes)| {
            let why = || format!("input {at} has no known size: give it a shape (Model.resize)");
            bytes.map(argument).ok_or_else(|| Error::Argument(why()))
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outputs = compilation.output_bytes().iter();
        let outputs: Vec<_> = outputs.map(|bytes| argument(bytes.unwrap_or(open_bytes))).collect();
        let mut frame = compilation.frame_with(&inputs, &outputs)?;
        reset(&mut frame, &layout.states)?;
        let views = layout.inputs.iter().enumerate().map(|(at, slot)| {
            let operand = compilation.inputs().get(at);
            let argument = frame.request().inputs.get(at);
            view(&frame, slot, argument, operand.map_or(&[], |operand| &operand.dimensions))
        });
        let inputs = views.collect::<Result<_, Error>>()?;
        Ok(Self {
            inputs,
            here: Mutex::new(Some(frame)),
            layout: Arc::clone(layout),
            compilation: compilation.clone(),
            input_arrays: PyOnceLock::new(),
            origin: Origin::here(),
        })
    }

    /// Takes the frame for an execution by a burst of `compilation`.
    pub(crate) fn take(
        &self,
        py: Python<'_>,
        compilation: &Compilation,
    ) -> PyResult<nnburst::Frame> {
        if !self.compilation.is(compilation) {
            return Err(wrong(py, "the frame is of another compilation than the burst"));
        }
        self.lock(py)?.take().ok_or_else(|| in_flight(py))
    }

    /// Puts the frame back as it was taken.
    pub(crate) fn put(&self, frame: nnburst::Frame) {
        *self.here.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame);
    }

    /// Puts the frame back after an execution that succeeded: its new states are those of the next.
    pub(crate) fn put_computed(&self, mut frame: nnburst::Frame) -> Result<(), Error> {
        let mut states = self.layout.states.iter();
        let exchanged = states.try_for_each(|state| frame.exchange(state.output, state.input));
        self.put(frame);
        Ok(exchanged?)
    }

    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<nnburst::Frame>>> {
        check_origin(py, self.origin)?;
        Ok(self.here.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn output_view(&self, py: Python<'_>, index: usize) -> PyResult<TensorView> {
        let here = self.lock(py)?;
        let frame = here.as_ref().ok_or_else(|| in_flight(py))?;
        let slot = self.layout.outputs.get(index).ok_or_else(|| {
            wrong(py, format!("output {index} asked for, the model has {}", self.output_count()))
        })?;
        let declared = self.compilation.outputs().get(index);
        let declared = declared.map_or(&[][..], |operand: &Operand| &operand.dimensions);
        let computed = frame.output_shapes().get(index).map(|shape| &*shape.dimensions);
        let dimensions = computed.filter(|shape| !shape.is_empty()).unwrap_or(declared);
        view(frame, slot, frame.request().outputs.get(index), dimensions).or_raise(py)
    }

    fn output_count(&self) -> usize {
        self.layout.outputs.len()
    }
}

#[pymethods]
impl PyFrame {
    /// The inputs as numpy arrays, to be written in place: `frame.inputs[0][...] = picture`.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let make = || arrays(py, self.inputs.iter().cloned().map(Ok));
        self.input_arrays.get_or_try_init(py, make).map(|arrays| arrays.clone_ref(py))
    }

    /// The outputs as numpy arrays in place. Their values are those of the last execution until the
    /// next begins: copy what is to stay (`frame.outputs[0].copy()`).
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        arrays(py, (0..self.output_count()).map(|at| self.output_view(py, at)))
    }

    /// An input in place.
    fn input(&self, py: Python<'_>, index: usize) -> PyResult<PyTensor> {
        let view = self.inputs.get(index).cloned().ok_or_else(|| {
            let known = self.inputs.len();
            wrong(py, format!("input {index} asked for, the model has {known}"))
        })?;
        Ok(view.into())
    }

    /// An output in place, of the shape that came out of the last execution.
    fn output(&self, py: Python<'_>, index: usize) -> PyResult<PyTensor> {
        Ok(self.output_view(py, index)?.into())
    }

    /// Gives what the model keeps between executions its first values again.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let mut here = self.lock(py)?;
        let frame = here.as_mut().ok_or_else(|| in_flight(py))?;
        reset(frame, &self.layout.states).or_raise(py)
    }

    /// The values that the model keeps between executions: the tensor's index in the file, and its
    /// bytes.
    fn states(&self, py: Python<'_>) -> PyResult<Vec<(usize, Vec<u8>)>> {
        let mut here = self.lock(py)?;
        let frame = here.as_mut().ok_or_else(|| in_flight(py))?;
        let states = self.layout.states.iter().map(|state| {
            Ok((state.info.tensor, frame.input(state.input).or_raise(py)?.as_view().to_vec()))
        });
        states.collect()
    }

    /// Gives a variable another value, by its tensor's index in the file.
    fn set_state(&self, py: Python<'_>, tensor: usize, value: &[u8]) -> PyResult<()> {
        let mut here = self.lock(py)?;
        let frame = here.as_mut().ok_or_else(|| in_flight(py))?;
        let state = self.layout.states.iter().find(|state| state.info.tensor == tensor);
        let state = state.ok_or_else(|| wrong(py, format!("tensor {tensor} is no variable")))?;
        frame.write_bytes(state.input, value).or_raise(py)
    }

    /// The values of variables that operators know by a name, the same in all graphs of the file.
    fn variables(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<u8>)>> {
        let mut here = self.lock(py)?;
        let frame = here.as_mut().ok_or_else(|| in_flight(py))?;
        let named = self.layout.states.iter().filter_map(|state| {
            let name = state.variable.clone()?;
            let value = frame.input(state.input).or_raise(py);
            Some(value.map(|value| (name, value.as_view().to_vec())))
        });
        named.collect()
    }

    /// Gives variables other values, by their names; those that the model has not are left out.
    #[expect(clippy::needless_pass_by_value, reason = "as Python gives it")]
    fn set_variables(&self, py: Python<'_>, values: HashMap<String, Vec<u8>>) -> PyResult<()> {
        let mut here = self.lock(py)?;
        let frame = here.as_mut().ok_or_else(|| in_flight(py))?;
        for state in &self.layout.states {
            let value = state.variable.as_ref().and_then(|name| values.get(name));
            if let Some(value) = value {
                frame.write_bytes(state.input, value).or_raise(py)?;
            }
        }
        Ok(())
    }

    /// Takes over inputs and states of another frame of the same model.
    fn copy_from(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        if std::ptr::eq(self, other.get()) {
            return Ok(());
        }
        let mut from = other.get().lock(py)?;
        let mut to = self.lock(py)?;
        let (Some(from), Some(to)) = (from.as_mut(), to.as_mut()) else {
            return Err(in_flight(py));
        };
        for input in 0..self.compilation.inputs().len() {
            let bytes = from.input(input).or_raise(py)?.as_view().to_vec();
            to.write_bytes(input, &bytes).or_raise(py)?;
        }
        Ok(())
    }

    /// Microseconds that the last execution took, as the caller saw it.
    #[getter]
    fn latency_us(&self, py: Python<'_>) -> PyResult<f64> {
        let here = self.lock(py)?;
        let frame = here.as_ref().ok_or_else(|| in_flight(py))?;
        Ok(frame.latency().as_secs_f64() * 1e6)
    }

    /// Microseconds of it in the driver; `None` where that was not measured.
    #[getter]
    fn driver_us(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let here = self.lock(py)?;
        let frame = here.as_ref().ok_or_else(|| in_flight(py))?;
        Ok(frame.time_in_driver().map(|time| time.as_secs_f64() * 1e6))
    }

    /// True if a burst has the frame now, or was closed with it.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.lock(py)?.is_none())
    }

    fn __repr__(&self) -> String {
        format!("<nnburst.Frame {} inputs, {} outputs>", self.inputs.len(), self.output_count())
    }
}

fn reset(frame: &mut nnburst::Frame, states: &[StatePair]) -> Result<(), nnburst::RuntimeError> {
    states.iter().try_for_each(|state| frame.write_bytes(state.input, &state.initial))
}

/// The place of an argument, which lies in the frame's own memory.
fn view(
    frame: &nnburst::Frame,
    slot: &ArgumentSlot,
    argument: Option<&RequestArgument>,
    dimensions: &[u32],
) -> Result<TensorView, Error> {
    let outside = || Error::Argument(format!("tensor {} is not within its frame", slot.tensor));
    let memory = frame.request().pools.first().and_then(|pool| match pool {
        nnburst::hal::RequestPool::Memory(memory) => Some(memory),
        _ => None,
    });
    let mapping = memory.ok_or_else(outside)?.mapped().map_err(nnburst::RuntimeError::from)?;
    let offset = argument.map(|argument| usize::try_from(argument.location.offset));
    let offset = offset.and_then(Result::ok).ok_or_else(outside)?;
    let shape = slot.shape(dimensions).ok_or_else(outside)?;
    TensorView::new(mapping, offset, slot.element, shape).ok_or_else(outside)
}

fn arrays(
    py: Python<'_>,
    views: impl Iterator<Item = PyResult<TensorView>>,
) -> PyResult<Py<PyTuple>> {
    let asarray = py.import("numpy")?.getattr("asarray")?;
    let arrays = views.map(|view| asarray.call1((PyTensor::from(view?),)));
    Ok(PyTuple::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?.unbind())
}

fn in_flight(py: Python<'_>) -> PyErr {
    wrong(py, "the frame is in flight, or was lost with its burst: wait for it, or make another")
}
