//! Diagnostics of support libraries: functions that clients look for, behind which nothing is kept.
//!
//! See `NeuralNetworksDiagnostic.h`. Getters share a function where their results have the same
//! type.

use std::ffi::{c_char, c_void};

/// The type of callbacks and infos: never called, never followed.
type Opaque = *const c_void;

pub(crate) extern "C" fn register_callbacks(_: Opaque, _: Opaque, _: Opaque) {}

/// Session ids, error codes, data classes and execution modes.
pub(crate) extern "C" fn code(_: Opaque) -> i32 {
    0
}

pub(crate) extern "C" fn version(_: Opaque) -> i64 {
    0
}

/// Hashes and names.
pub(crate) extern "C" fn text(_: Opaque) -> *const c_char {
    std::ptr::null()
}

/// Nanoseconds; the largest number where none were measured.
pub(crate) extern "C" fn time(_: Opaque) -> u64 {
    u64::MAX
}

pub(crate) extern "C" fn flag(_: Opaque) -> bool {
    false
}
