//! Event flags by themselves: a queue's, or over a word of somebody else's.

use std::ptr::NonNull;

use nnburst_fmq::EventFlag;

use crate::{Status, deadline, give, hand_out, invalid, queue_status, take_back};

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_over(word: *mut u32, out: *mut *mut EventFlag) -> Status {
    let Some(word) = NonNull::new(word).filter(|word| word.is_aligned()) else { return invalid() };
    // SAFETY: the header asks for a word that outlives the flag and is accessed atomically only.
    let flag = unsafe { EventFlag::over(word) };
    // SAFETY: the header asks for a valid pointer or null.
    unsafe { hand_out(flag, out) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_free(flag: *mut EventFlag) {
    // SAFETY: the header asks for a flag of ours or null.
    unsafe { take_back(flag) };
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_word(flag: *const EventFlag) -> *mut u32 {
    // SAFETY: the header asks for a flag of ours or null.
    unsafe { flag.as_ref() }.map_or(std::ptr::null_mut(), EventFlag::address)
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_wake(flag: *const EventFlag, bits: u32) -> Status {
    // SAFETY: the header asks for a flag of ours or null.
    let Some(flag) = (unsafe { flag.as_ref() }) else { return invalid() };
    queue_status(flag.wake(bits))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_wait(
    flag: *const EventFlag,
    bits: u32,
    timeout_ns: i64,
    out: *mut u32,
) -> Status {
    // SAFETY: the header asks for a flag of ours or null.
    let Some(flag) = (unsafe { flag.as_ref() }) else { return invalid() };
    if out.is_null() {
        return invalid();
    }
    match flag.wait(bits, deadline(timeout_ns)) {
        // SAFETY: the header asks for a valid pointer.
        Ok(set) => unsafe { give(set, out) },
        Err(error) => queue_status(Err(error)),
    }
}
