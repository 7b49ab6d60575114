//! The C interface of `nnburst-fmq`; what each function does is said in `include/nnburst_fmq.h`.
//!
//! A thin shell over [`nnburst_fmq::erased`]: pointers become references, errors become numbers. The header is written by
//! hand, and the C test of this crate compares its constants and sizes with ours.
#![expect(
    clippy::missing_safety_doc,
    reason = "the duties are the header's: pointers are valid or null"
)]

pub mod descriptor;
pub mod end;

use std::ffi::{CStr, c_char};
use std::time::{Duration, Instant};

use nnburst_fmq::{QueueError, SetupError, Wait, WaitOptions};

/// What a call came to: 0, or one of the negative numbers below.
pub type Status = i32;

pub(crate) const OK: Status = 0;
pub(crate) const INVALID: Status = -1;

/// Every status beside [`OK`], with its meaning.
const MEANINGS: &[(Status, &CStr)] = &[
    (OK, c"done"),
    (INVALID, c"a null pointer, or an end of the wrong kind"),
    (-2, c"fewer items there than asked for"),
    (-3, c"less room than asked for"),
    (-4, c"more items than the capacity, or than were begun"),
    (-5, c"the deadline passed"),
    (-6, c"the wait was cancelled"),
    (-7, c"the peer is gone"),
    (-8, c"no event flag, or no bit, to sleep on"),
    (-9, c"the peer lied: an impossible counter"),
    (-10, c"the queue is poisoned since the peer lied"),
    (-11, c"a bad descriptor, or an impossible size"),
    (-12, c"a system call failed"),
];

/// What the status means, in English.
#[unsafe(no_mangle)]
pub extern "C" fn nnburst_fmq_strerror(status: Status) -> *const c_char {
    let meaning = MEANINGS.iter().find(|(known, _)| *known == status);
    meaning.map_or(c"an unknown status", |(_, meaning)| meaning).as_ptr()
}

pub(crate) fn queue_status(result: Result<(), QueueError>) -> Status {
    match result {
        Ok(()) => OK,
        Err(QueueError::Empty { .. }) => -2,
        Err(QueueError::Full { .. }) => -3,
        Err(QueueError::TooLarge { .. }) => -4,
        Err(QueueError::TimedOut) => -5,
        Err(QueueError::Cancelled) => -6,
        Err(QueueError::PeerDied) => -7,
        Err(QueueError::NoEventFlag | QueueError::NoBits) => -8,
        Err(QueueError::PeerLied(_)) => -9,
        Err(QueueError::Poisoned(_)) => -10,
        Err(_) => INVALID,
    }
}

pub(crate) fn setup_status(error: &SetupError) -> Status {
    if matches!(error, SetupError::System { .. }) { -12 } else { -11 }
}

/// `nnburst_fmq_wait_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct COptions {
    /// How to wait: 0 spin, 1 block, 2 adaptive.
    pub strategy: i32,
    /// The longest that an adaptive wait polls.
    pub poll_us: u32,
    /// Negative: for ever; 0: try once.
    pub timeout_ns: i64,
}

impl COptions {
    pub(crate) fn to_rust(self) -> Option<WaitOptions> {
        let strategy = match self.strategy {
            0 => Wait::Spin,
            1 => Wait::Block,
            2 => Wait::adaptive(u64::from(self.poll_us)),
            _ => return None,
        };
        Some(WaitOptions { strategy, deadline: deadline(self.timeout_ns) })
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
        return INVALID;
    }
    // SAFETY: not null, and valid by the caller's word.
    unsafe { out.write(Box::into_raw(Box::new(value))) };
    OK
}
