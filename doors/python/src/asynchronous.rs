//! Bursts for event loops, below `nnburst.aio`.

use std::future::Future;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nnburst::hal::process::Origin;
use nnburst::{AsyncBurst, BurstOptions, CallOptions, Finished, FrameFuture};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::burst::{BurstArgs, closed, put_back};
use crate::compilation::{Made, PyCompilation};
use crate::frame::PyFrame;
use crate::stats;
use crate::wait::{check_origin, seconds};

/// A burst with a descriptor that is readable when a frame may be back.
#[pyclass(frozen, module = "nnburst._nnburst")]
pub(crate) struct AsyncCore {
    state: Mutex<State>,
    made: Made,
    origin: Origin,
}

struct State {
    /// `None` once it is closed.
    burst: Option<AsyncBurst>,
    underway: Vec<Underway>,
}

struct Underway {
    future: Pin<Box<FrameFuture>>,
    frame: Py<PyFrame>,
    /// The future of the event loop.
    token: Py<PyAny>,
}

/// A token, its frame, and the exception that the execution failed with.
type Back = (Py<PyAny>, Py<PyFrame>, Option<PyErr>);

impl AsyncCore {
    fn open(py: Python<'_>, made: &Made, options: &BurstOptions) -> PyResult<Self> {
        let open = || AsyncBurst::new(made.compilation.burst(options)?);
        let burst = py.detach(open).map_err(|error| made.device.error(error).raise(py))?;
        let state = State { burst: Some(burst), underway: Vec::new() };
        Ok(Self { state: Mutex::new(state), made: made.clone(), origin: Origin::here() })
    }

    /// The state, which no thread holds while it waits.
    fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        check_origin(py, self.origin)?;
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl AsyncCore {
    /// Opens a burst, as `Compilation.burst` does.
    #[staticmethod]
    #[pyo3(name = "open")]
    #[pyo3(signature = (compilation, *, wait, depth, driver_cpus, realtime))]
    fn open_with(
        py: Python<'_>,
        compilation: &Bound<'_, PyCompilation>,
        wait: &str,
        depth: u32,
        driver_cpus: Option<Vec<u32>>,
        realtime: bool,
    ) -> PyResult<Self> {
        // The calling thread is the event loop's, which goes where it likes.
        let args = BurstArgs { wait, depth, timeout: None, cpus: None, driver_cpus, realtime };
        Self::open(py, &compilation.get().made, &args.options(py)?)
    }

    /// The descriptor, readable when `finished` may have something.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        let state = self.state(py)?;
        Ok(state.burst.as_ref().ok_or_else(|| closed(py))?.as_fd().as_raw_fd())
    }

    /// Sends a frame, or queues it; `finished` hands it back with `token`.
    #[pyo3(signature = (frame, token, *, timeout=None))]
    fn submit(
        &self,
        py: Python<'_>,
        frame: &Bound<'_, PyFrame>,
        token: Py<PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let call = CallOptions { timeout: seconds(py, timeout)?, ..CallOptions::default() };
        let mut state = self.state(py)?;
        let burst = state.burst.as_ref().ok_or_else(|| closed(py))?;
        let inner = frame.get().take(py, &self.made.compilation)?;
        let future = Box::pin(burst.compute_with(inner, &call));
        state.underway.push(Underway { future, frame: frame.clone().unbind(), token });
        Ok(())
    }

    /// The frames that are back, each with its token and the exception that it failed with. Where
    /// others are in flight, the descriptor becomes readable when one may be back.
    fn finished(&self, py: Python<'_>) -> PyResult<Vec<Back>> {
        let mut state = self.state(py)?;
        let mut context = Context::from_waker(Waker::noop());
        let (mut back, mut underway) = (Vec::new(), Vec::new());
        for mut one in state.underway.drain(..) {
            match one.future.as_mut().poll(&mut context) {
                Poll::Ready((frame, result)) => back.push((one, Finished { frame, result })),
                Poll::Pending => underway.push(one),
            }
        }
        state.underway = underway;
        drop(state);
        let back = back.into_iter().map(|(Underway { frame, token, .. }, finished)| {
            let error = put_back(py, &self.made, frame.get(), finished).err();
            (token, frame, error)
        });
        Ok(back.collect())
    }

    /// Figures of all executions so far.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state(py)?;
        let burst = state.burst.as_ref().ok_or_else(|| closed(py))?;
        burst.with(|burst| stats::summary(py, burst.stats()))
    }

    /// The histogram of a part of the latency.
    fn histogram(&self, py: Python<'_>, part: &str) -> PyResult<Vec<(f64, u64)>> {
        let state = self.state(py)?;
        let burst = state.burst.as_ref().ok_or_else(|| closed(py))?;
        burst.with(|burst| stats::histogram(py, burst.stats(), part))
    }

    /// Closes the burst; the tokens of what was in flight.
    fn close(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let mut state = self.state(py)?;
        let burst = state.burst.take();
        let underway = std::mem::take(&mut state.underway);
        drop(state);
        let (futures, tokens): (Vec<_>, Vec<_>) =
            underway.into_iter().map(|one| (one.future, one.token)).unzip();
        py.detach(|| drop((futures, burst)));
        Ok(tokens)
    }
}
