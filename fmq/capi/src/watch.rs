//! Ends of waits from outside: cancellers, and watches of the peer.

use std::os::fd::BorrowedFd;

use nnburst_fmq::{Cancel, EventFlag, PeerWatch, SetupError};

use crate::end::{CEnd, Side, side, waiting};
use crate::{OK, Status, hand_out, invalid, setup_status, take_back};

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_watch_process(end: *mut CEnd, pid: u32) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    unsafe { watch_end(end, PeerWatch::process(pid)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_watch_connection(end: *mut CEnd, fd: i32) -> Status {
    // SAFETY: the header asks for an open file.
    let Some(watch) = (unsafe { connection(fd) }) else { return invalid() };
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    unsafe { watch_end(end, watch) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_watch_process(flag: *mut EventFlag, pid: u32) -> Status {
    // SAFETY: the header asks for a flag of ours or null, which no other thread uses.
    unsafe { watch_flag(flag, PeerWatch::process(pid)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_watch_connection(
    flag: *mut EventFlag,
    fd: i32,
) -> Status {
    // SAFETY: the header asks for an open file.
    let Some(watch) = (unsafe { connection(fd) }) else { return invalid() };
    // SAFETY: the header asks for a flag of ours or null, which no other thread uses.
    unsafe { watch_flag(flag, watch) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn nnburst_fmq_canceller_new() -> *mut Cancel {
    let mut out = std::ptr::null_mut();
    // SAFETY: a local variable is valid for a write.
    unsafe { hand_out(Cancel::new(), &raw mut out) };
    out
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_canceller_free(canceller: *mut Cancel) {
    // SAFETY: the header asks for a handle of ours or null.
    unsafe { take_back(canceller) };
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_set_canceller(
    end: *mut CEnd,
    canceller: *const Cancel,
) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    // SAFETY: the header asks for a handle of ours or null.
    let Some(canceller) = (unsafe { canceller.as_ref() }) else { return invalid() };
    waiting!(side, it => it.set_cancel(canceller));
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_set_canceller(
    flag: *mut EventFlag,
    canceller: *const Cancel,
) -> Status {
    // SAFETY: the header asks for a flag of ours or null, which no other thread uses.
    let Some(flag) = (unsafe { flag.as_mut() }) else { return invalid() };
    // SAFETY: the header asks for a handle of ours or null.
    let Some(canceller) = (unsafe { canceller.as_ref() }) else { return invalid() };
    flag.set_cancel(canceller);
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_cancel(canceller: *const Cancel) -> Status {
    // SAFETY: the header asks for a handle of ours or null.
    let Some(canceller) = (unsafe { canceller.as_ref() }) else { return invalid() };
    canceller.cancel();
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_canceller_reset(canceller: *const Cancel) -> Status {
    // SAFETY: the header asks for a handle of ours or null.
    let Some(canceller) = (unsafe { canceller.as_ref() }) else { return invalid() };
    canceller.reset();
    OK
}

/// Watches a connection through a descriptor of its own; none if `fd` can't be duplicated.
///
/// # Safety
/// `fd` is open or negative.
unsafe fn connection(fd: i32) -> Option<Result<PeerWatch, SetupError>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: open by the caller's word, and only used in this line.
    let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()?;
    Some(PeerWatch::connection(file))
}

/// # Safety
/// `end` is null or an end of ours, used by one thread at a time.
unsafe fn watch_end(end: *mut CEnd, watch: Result<PeerWatch, SetupError>) -> Status {
    // SAFETY: by the caller's word.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    match watch {
        Ok(watch) => waiting!(side, it => it.set_peer(&watch)),
        Err(error) => return setup_status(error),
    }
    OK
}

/// # Safety
/// `flag` is null or a flag of ours, which no other thread uses.
unsafe fn watch_flag(flag: *mut EventFlag, watch: Result<PeerWatch, SetupError>) -> Status {
    // SAFETY: by the caller's word.
    let Some(flag) = (unsafe { flag.as_mut() }) else { return invalid() };
    match watch {
        Ok(watch) => flag.set_peer(&watch),
        Err(error) => return setup_status(error),
    }
    OK
}
