//! Result codes, and in words why a call failed.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nix::errno::Errno;
pub(crate) use nnburst::ResultCode as Code;
use nnburst::RuntimeError;
use nnburst::hal::bound::Bound;
use nnburst::hal::{HalError, MemoryError, TimePoint};

use crate::stack::{ROOM, with_room};

/// Why a call failed: the code that C sees, and the reason that `nnburst_lastError` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) code: Code,
    pub(crate) reason: Cow<'static, str>,
}

/// The result of calls.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// An argument's value, or the model, is not acceptable.
    pub(crate) fn data(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::BadData, reason)
    }

    /// The object is in the wrong phase of its life.
    pub(crate) fn state(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::BadState, reason)
    }

    /// A pointer that may not be null is.
    pub(crate) fn null(what: &'static str) -> Self {
        Self::new(Code::UnexpectedNull, what)
    }

    /// Maps the result of an execution, which travels as a status of the HAL: that has no word for
    /// a driver that died, nor for memory that can't be had or mapped.
    #[must_use]
    pub(crate) fn of_execution(mut self) -> Self {
        if matches!(self.code, Code::DeadObject | Code::OutOfMemory | Code::Unmappable) {
            self.code = Code::OpFailed;
        }
        self
    }

    /// Maps the result of a driver's copy or allocation: one that died in it, or before, has failed
    /// it.
    #[must_use]
    pub(crate) fn of_buffer(mut self) -> Self {
        if self.code == Code::DeadObject {
            self.code = Code::OpFailed;
        }
        self
    }
}

impl From<HalError> for Error {
    fn from(error: HalError) -> Self {
        Self::new(error.status.into(), error.to_string())
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        RuntimeError::from(error).into()
    }
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Runs the body of a C function. A panic, which would be a bug of ours, ends here as `OP_FAILED`.
#[inline]
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    let timeout = TIMEOUT.get();
    match with_room(|| caught(timeout, body)) {
        Some(Ok(())) => 0,
        Some(Err(error)) => remember(error),
        None => remember(no_room()),
    }
}

/// Runs what may call drivers, for as long as the calling thread lets calls take: its `TIMEOUT`.
fn caught(timeout: Option<Duration>, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let _bound = timeout.map(|timeout| Bound::until(TimePoint::after(timeout)));
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(panicked()));
    if let Err(error) = &result {
        say(error);
    }
    result
}

#[cold]
fn panicked() -> Error {
    Error::new(Code::OpFailed, "the library panicked: a bug of nnburst")
}

#[cold]
fn no_room() -> Error {
    let room = ROOM >> 10;
    let reason =
        format!("the stack has less than {room} KiB left, and there is no thread to be had");
    Error::new(Code::OutOfMemory, reason)
}

thread_local! {
    /// The time that each call of this thread may wait for drivers in other processes.
    static TIMEOUT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// `nnburst_setCallTimeout`.
pub(crate) extern "C" fn set_call_timeout(nanoseconds: u64) -> c_int {
    TIMEOUT.set((nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds)));
    0
}

/// Begins to tell what the environment asks for: programs in C can't listen to events themselves.
pub(crate) fn start_logging() {
    // There is nobody to tell but the log.
    if let Err(error) = nnburst::start_logging("libneuralnetworks") {
        tracing::warn!(target: "nnburst::manager", "{error}");
    }
}

#[cold]
fn say(error: &Error) {
    let code = error.code;
    tracing::warn!(target: "nnburst::manager", ?code, "{}", error.reason);
}

/// As [`call`], for functions that answer a number of the system, negated, where they fail.
pub(crate) fn number(body: impl FnOnce() -> std::result::Result<c_int, Errno>) -> c_int {
    let failed = || Err(Errno::EIO);
    let caught = || catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| failed());
    match with_room(caught).unwrap_or(Err(Errno::ENOMEM)) {
        Ok(number) => number,
        Err(errno) => -(errno as c_int),
    }
}

/// As [`call`], for functions that answer nothing.
pub(crate) fn quietly(body: impl FnOnce()) {
    // There is nobody to tell.
    let _ = with_room(|| catch_unwind(AssertUnwindSafe(body)));
}

/// Notes why a call failed, for the calling thread; its code.
#[cold]
fn remember(error: Error) -> c_int {
    let code = error.code;
    let text = error.reason.into_owned().replace('\0', " ");
    // While the thread ends there is no place to keep it.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = CString::new(text).ok();
        }
    });
    code as c_int
}

/// Why the last call of this thread that failed did; the empty string before that.
pub(crate) extern "C" fn last_error() -> *const c_char {
    let text = LAST.try_with(|last| {
        last.try_borrow().ok().and_then(|text| text.as_ref().map(|text| text.as_ptr()))
    });
    text.ok().flatten().unwrap_or(c"".as_ptr())
}
