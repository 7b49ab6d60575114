//! Waiting in Python: without the interpreter's lock, and no longer than until Ctrl-C.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use nnburst::hal::process::Origin;
use nnburst_doors_common::spawn_thread;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::error::{Error, OrRaise, panicked};

/// The time between two looks for signals. Ctrl-C is to end a call within 50 ms.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

/// Runs work that can't be interrupted on a thread of its own. After a signal whose handler raises,
/// the caller goes on and the work's result is dropped with the thread.
///
/// # Errors
/// What the work or the signal's handler raises.
pub(crate) fn in_background<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    mut while_waiting: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let thread = move || {
        // Nobody receives it after a signal.
        let _ = sender.send(work());
    };
    spawn_thread("nnburst-python", thread)
        .map_err(|error| PyOSError::new_err(format!("no thread for the call: {error}")))?;
    loop {
        let came = py
            .detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE));
        match came {
            Ok(result) => return result.or_raise(py),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                while_waiting()?;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}

/// Something that one thread has at a time, and others wait for without the interpreter's lock.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    thing: Mutex<Option<T>>,
    returned: Condvar,
    origin: Origin,
}

/// The thing of a [`Turn`], for as long as this thread has it.
#[derive(Debug)]
pub(crate) struct Taken<'a, T> {
    turn: &'a Turn<T>,
    thing: Option<T>,
}

impl<T: Send> Turn<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self { thing: Mutex::new(Some(thing)), returned: Condvar::new(), origin: Origin::here() }
    }

    /// Waits for the thing.
    ///
    /// # Errors
    /// A signal's handler raised; this is a forked child.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Taken<'_, T>> {
        check_origin(py, self.origin)?;
        loop {
            let taken = py.detach(|| {
                let mut thing = self.thing.lock().unwrap_or_else(PoisonError::into_inner);
                if thing.is_none() {
                    let waited = self.returned.wait_timeout(thing, SLICE);
                    thing = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                thing.take()
            });
            if let Some(thing) = taken {
                return Ok(Taken { turn: self, thing: Some(thing) });
            }
            py.check_signals()?;
        }
    }
}

impl<T> Taken<'_, T> {
    /// The thing, which is there until this is dropped.
    pub(crate) fn get(&mut self) -> PyResult<&mut T> {
        self.thing.as_mut().ok_or_else(panicked)
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        *self.turn.thing.lock().unwrap_or_else(PoisonError::into_inner) = self.thing.take();
        self.turn.returned.notify_one();
    }
}

/// Refuses objects of the process that this one was forked from.
///
/// # Errors
/// `NnburstError`, with what to do instead.
pub(crate) fn check_origin(py: Python<'_>, origin: Origin) -> PyResult<()> {
    if origin.is_here() {
        return Ok(());
    }
    let class = py.import("nnburst.errors")?.getattr("NnburstError")?;
    let message = "the object belongs to the process that this one was forked from: make another \
        here, or start processes with multiprocessing's method 'spawn'";
    Err(PyErr::from_value(class.call1((message,))?))
}

/// A time in seconds as Python gives it.
///
/// # Errors
/// `InvalidArgument` for a negative one, or one that is no number.
pub(crate) fn seconds(py: Python<'_>, time: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(time) = time else { return Ok(None) };
    let duration = Duration::try_from_secs_f64(time).map(Some);
    duration.map_err(|_| crate::error::wrong(py, format!("timeout is {time}, expected seconds")))
}
