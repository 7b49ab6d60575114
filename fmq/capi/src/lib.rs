//! The C interface of `nnburst-fmq`; what each function does is said in `include/nnburst_fmq.h`.
//!
//! A thin shell over [`nnburst_fmq::erased`]: pointers become references, errors become numbers.
//! The header is written by hand, and the C tests of this crate compare its constants and sizes
//! with ours.
#![expect(
    clippy::missing_safety_doc,
    reason = "the duties are the header's: pointers are valid or null"
)]

pub mod descriptor;
pub mod end;
pub mod error;
pub mod flag;
pub mod queue;
pub mod watch;

use std::time::{Duration, Instant};

use nnburst_fmq::{Wait, WaitOptions};

pub(crate) use error::{OK, invalid, queue_status, setup_status};

/// The outcome of a call: 0, or a negative number of the header's.
pub type Status = i32;

/// `nnburst_fmq_wait_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct COptions {
    /// The strategy: 0 spin, 1 block, 2 adaptive.
    pub strategy: i32,
    /// The longest that an adaptive wait polls before it sleeps; 0: it sleeps at once.
    pub poll_us: u32,
    /// Negative: for ever; 0: try once.
    pub timeout_ns: i64,
}

impl COptions {
    fn to_rust(self) -> Option<WaitOptions> {
        let strategy = match self.strategy {
            0 => Wait::Spin,
            1 => Wait::Block,
            2 => Wait::adaptive(u64::from(self.poll_us)),
            _ => return None,
        };
        Some(WaitOptions { strategy, deadline: deadline(self.timeout_ns) })
    }
}

/// The options of a wait; the default for null, none for an unknown strategy.
///
/// # Safety
/// `options` is valid or null.
pub(crate) unsafe fn options_of(options: *const COptions) -> Option<WaitOptions> {
    // SAFETY: by the caller's word.
    match unsafe { options.as_ref() } {
        Some(options) => options.to_rust(),
        None => Some(WaitOptions::from(Wait::default())),
    }
}

/// A timeout in nanoseconds as a deadline; none if it is negative, or too far to be said.
pub(crate) fn deadline(timeout_ns: i64) -> Option<Instant> {
    let timeout = u64::try_from(timeout_ns).ok()?;
    Instant::now().checked_add(Duration::from_nanos(timeout))
}

/// Moves `value` to the heap and its address to `out`.
///
/// # Safety
/// `out` is valid for a write, or null.
pub(crate) unsafe fn hand_out<T>(value: T, out: *mut *mut T) -> Status {
    if out.is_null() {
        return invalid();
    }
    // SAFETY: not null, and valid by the caller's word.
    unsafe { out.write(Box::into_raw(Box::new(value))) };
    OK
}

/// Writes `value` to `out`.
///
/// # Safety
/// `out` is valid for a write, or null.
pub(crate) unsafe fn give<T>(value: T, out: *mut T) -> Status {
    if out.is_null() {
        return invalid();
    }
    // SAFETY: not null, and valid by the caller's word.
    unsafe { out.write(value) };
    OK
}

/// Frees what [`hand_out`] has made.
///
/// # Safety
/// `handle` is null or was handed out, and nobody uses it any more.
pub(crate) unsafe fn take_back<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: a box that was handed out, by the caller's word.
        drop(unsafe { Box::from_raw(handle) });
    }
}
