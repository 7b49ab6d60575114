//! Bursts as Python objects.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nnburst::{BurstOptions, CallOptions, Finished, Unsubmitted, Wait};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::compilation::{Made, PyCompilation};
use crate::error::{Error, OrRaise, wrong};
use crate::frame::PyFrame;
use crate::stats;
use crate::wait::{SLICE, Turn, in_background, seconds};

/// An open burst: executions by packets through queues in shared memory. Several threads may share
/// it, and take turns.
#[pyclass(name = "Burst", frozen, module = "nnburst")]
pub(crate) struct PyBurst {
    state: Turn<State>,
    made: Made,
    /// The frame of [`PyBurst::run`].
    own: PyOnceLock<Py<PyFrame>>,
}

#[derive(Debug)]
struct State {
    /// `None` once it is closed.
    burst: Option<nnburst::Burst>,
    /// Frames in flight, the oldest first.
    underway: VecDeque<Underway>,
}

#[derive(Debug)]
struct Underway {
    frame: Py<PyFrame>,
    /// A signal ended the call that waited for it: nobody takes the result.
    is_abandoned: bool,
}

/// The options of a burst, as keywords give them.
pub(crate) struct BurstArgs<'a> {
    pub(crate) wait: &'a str,
    pub(crate) depth: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) driver_cpus: Option<Vec<u32>>,
    pub(crate) realtime: bool,
}

impl BurstArgs<'_> {
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn options(self, py: Python<'_>) -> PyResult<BurstOptions> {
        let wait = Wait::from_name(self.wait).ok_or_else(|| {
            wrong(py, format!("wait is {:?}, expected auto, adaptive, spin or block", self.wait))
        })?;
        Ok(BurstOptions {
            wait,
            cpus: self.cpus.unwrap_or_default(),
            driver_cpus: self.driver_cpus.unwrap_or_default(),
            realtime: self.realtime,
            preference: None,
            timeout: self.timeout,
            loop_timeout: None,
            depth: self.depth,
        })
    }
}

impl PyBurst {
    pub(crate) fn open(py: Python<'_>, made: &Made, options: &BurstOptions) -> PyResult<Self> {
        let opened = py.detach(|| made.compilation.burst(options));
        let burst = opened.map_err(|error| made.device.error(error).raise(py))?;
        let state = State { burst: Some(burst), underway: VecDeque::new() };
        Ok(Self { state: Turn::new(state), made: made.clone(), own: PyOnceLock::new() })
    }

    /// Executes a frame and waits, after what signals left behind.
    fn compute_next(
        &self,
        py: Python<'_>,
        state: &mut State,
        frame: &Bound<'_, PyFrame>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        self.settle(py, state)?;
        if !state.underway.is_empty() {
            let count = state.underway.len();
            return Err(wrong(py, format!("{count} frames are in flight: wait for them first")));
        }
        self.submit_next(py, state, frame, timeout)?;
        match self.wait_next(py, state, None) {
            Ok(_) => Ok(()),
            Err(error) => {
                // Where a signal ended the wait, the frame is with the driver still.
                state.underway.iter_mut().for_each(|underway| underway.is_abandoned = true);
                Err(error)
            }
        }
    }

    /// Waits for the frames whose callers a signal called away.
    fn settle(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        while state.underway.front().is_some_and(|underway| underway.is_abandoned) {
            let left = state.underway.len();
            let waited = self.wait_next(py, state, None);
            if state.underway.len() == left {
                waited?;
            }
        }
        Ok(())
    }

    fn submit_next(
        &self,
        py: Python<'_>,
        state: &mut State,
        frame: &Bound<'_, PyFrame>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let burst = state.burst.as_mut().ok_or_else(|| closed(py))?;
        let call = CallOptions { timeout: seconds(py, timeout)?, ..CallOptions::default() };
        let inner = frame.get().take(py, &self.made.compilation)?;
        if let Err(Unsubmitted { frame: inner, error }) = burst.try_submit_with(inner, &call) {
            frame.get().put(inner);
            return Err(self.made.device.error(error).raise(py));
        }
        let frame = frame.clone().unbind();
        state.underway.push_back(Underway { frame, is_abandoned: false });
        Ok(())
    }

    /// The oldest frame in flight; `None` at the deadline.
    fn wait_next(
        &self,
        py: Python<'_>,
        state: &mut State,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Py<PyFrame>>> {
        let burst = state.burst.as_mut().ok_or_else(|| closed(py))?;
        let finished = loop {
            let now = Instant::now();
            let slice = now + SLICE;
            let until = deadline.map_or(slice, |deadline| deadline.min(slice));
            if let Some(finished) = py.detach(|| burst.wait_until(until)) {
                break finished;
            }
            py.check_signals()?;
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(None);
            }
        };
        self.take_back(py, state, finished).map(Some)
    }

    fn take_back(
        &self,
        py: Python<'_>,
        state: &mut State,
        finished: Finished,
    ) -> PyResult<Py<PyFrame>> {
        let Some(Underway { frame, .. }) = state.underway.pop_front() else {
            return Err(crate::error::panicked());
        };
        put_back(py, &self.made, frame.get(), finished)?;
        Ok(frame)
    }

    fn own_frame<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyFrame>> {
        let make = || {
            let compilation = PyCompilation { made: self.made.clone() };
            Py::new(py, compilation.frame(py, 1 << 20)?)
        };
        Ok(self.own.get_or_try_init(py, make)?.bind(py))
    }
}

#[pymethods]
impl PyBurst {
    /// Executes a frame and waits for it, within `timeout` seconds.
    #[pyo3(signature = (frame, *, timeout=None))]
    fn compute(
        &self,
        py: Python<'_>,
        frame: &Bound<'_, PyFrame>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let mut state = self.state.take(py)?;
        self.compute_next(py, state.get()?, frame, timeout)
    }

    /// Executes the model on these inputs, and returns copies of the outputs.
    #[pyo3(signature = (*inputs, timeout=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut state = self.state.take(py)?;
        let state = state.get()?;
        self.settle(py, state)?;
        let frame = self.own_frame(py)?;
        let arrays = frame.getattr("inputs")?;
        if arrays.len()? != inputs.len() {
            let (given, known) = (inputs.len(), arrays.len()?);
            return Err(wrong(py, format!("{given} inputs given, the model has {known}")));
        }
        let numpy = py.import("numpy")?;
        for (at, (array, input)) in arrays.try_iter()?.zip(inputs.iter()).enumerate() {
            let array = array?;
            let input = numpy.call_method1("asarray", (input,))?;
            let (shape, given) = (array.getattr("shape")?, input.getattr("shape")?);
            if !shape.eq(&given)? {
                let why = format!("input {at} has shape {given}, expected {shape}");
                return Err(wrong(py, why));
            }
            let casting = PyDict::new(py);
            casting.set_item("casting", "same_kind")?;
            numpy.call_method("copyto", (array, input), Some(&casting))?;
        }
        self.compute_next(py, state, frame, timeout)?;
        let outputs = frame.getattr("outputs")?;
        let copies = outputs.try_iter()?.map(|output| output?.call_method0("copy"));
        PyTuple::new(py, copies.collect::<PyResult<Vec<_>>>()?)
    }

    /// Sends a frame and returns at once; `wait` hands it back.
    #[pyo3(signature = (frame, *, timeout=None))]
    fn submit(
        &self,
        py: Python<'_>,
        frame: &Bound<'_, PyFrame>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let mut state = self.state.take(py)?;
        let state = state.get()?;
        self.settle(py, state)?;
        self.submit_next(py, state, frame, timeout)
    }

    /// Waits for the oldest frame in flight, for `timeout` seconds at most, and returns it; `None`
    /// where that time is over first, or nothing is in flight. Raises what its execution failed
    /// with: the frame is back then as well.
    #[pyo3(signature = (*, timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyFrame>>> {
        let timeout = seconds(py, timeout)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.take(py)?;
        let state = state.get()?;
        self.settle(py, state)?;
        if state.underway.is_empty() {
            return Ok(None);
        }
        self.wait_next(py, state, deadline)
    }

    /// Frames that may be in flight at once.
    #[getter]
    fn depth(&self, py: Python<'_>) -> PyResult<usize> {
        let mut state = self.state.take(py)?;
        let burst = state.get()?.burst.as_ref().ok_or_else(|| closed(py))?;
        Ok(burst.depth())
    }

    /// Frames that were submitted and not handed back.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.state.take(py)?.get()?.underway.len())
    }

    /// The parts of the real-time profile that the system refused.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let mut state = self.state.take(py)?;
        let burst = state.get()?.burst.as_ref().ok_or_else(|| closed(py))?;
        Ok(burst.warnings().to_vec())
    }

    /// Figures of all executions so far: `executions`, `missed_deadlines`, and for `latency_us`,
    /// `driver_us`, `queueing_us` and `overhead_us` the minimum, quantiles, maximum and mean.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut state = self.state.take(py)?;
        let burst = state.get()?.burst.as_ref().ok_or_else(|| closed(py))?;
        stats::summary(py, burst.stats())
    }

    /// The histogram of a part of the latency (`latency`, `driver`, `queueing` or `overhead`):
    /// microseconds, ascending, and the number of executions that took as long.
    #[pyo3(signature = (part="latency"))]
    fn histogram(&self, py: Python<'_>, part: &str) -> PyResult<Vec<(f64, u64)>> {
        let mut state = self.state.take(py)?;
        let burst = state.get()?.burst.as_ref().ok_or_else(|| closed(py))?;
        stats::histogram(py, burst.stats(), part)
    }

    /// Closes the burst. Frames in flight are lost with it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state.take(py)?;
        let state = state.get()?;
        state.underway.clear();
        if let Some(burst) = state.burst.take() {
            // It waits for the driver's thread.
            let close = move || {
                drop(burst);
                Ok(())
            };
            in_background(py, close, || Ok(()))?;
        }
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let _ = exception;
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<nnburst.Burst on {}>", self.made.device.device.name())
    }
}

/// Puts a frame back that has been computed.
///
/// # Errors
/// What its execution failed with.
pub(crate) fn put_back(
    py: Python<'_>,
    made: &Made,
    frame: &PyFrame,
    finished: Finished,
) -> PyResult<()> {
    let Finished { frame: inner, result } = finished;
    match result {
        Ok(()) => frame.put_computed(inner).or_raise(py),
        Err(error) => {
            frame.put(inner);
            Err(py.detach(|| made.device.error(error)).raise(py))
        }
    }
}

pub(crate) fn closed(py: Python<'_>) -> PyErr {
    let error: Error = nnburst::RuntimeError::State("the burst is closed".to_owned()).into();
    error.raise(py)
}
