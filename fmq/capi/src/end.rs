//! The two ends: writing, reading, waiting, transactions, the event flag.

use std::os::fd::BorrowedFd;
use std::slice;

use nnburst_fmq::erased::{Consumer, Producer, Run};
use nnburst_fmq::{Bits, Cancel, PeerWatch, QueueError, Wait, WaitOptions};

use crate::{COptions, INVALID, OK, Status, deadline, hand_out, queue_status, setup_status};

/// `nnburst_fmq_end`.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a queue has two ends")]
pub enum End {
    /// The writing end.
    Producer(Producer),
    /// The reading end.
    Consumer(Consumer),
}

/// Calls the same method of whichever end it is.
macro_rules! either {
    ($end:expr, $it:ident => $call:expr) => {
        match $end {
            End::Producer($it) => $call,
            End::Consumer($it) => $call,
        }
    };
}

/// `nnburst_fmq_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct CRegion {
    /// The first slot.
    pub address: *mut std::ffi::c_void,
    /// Length; 0 for none.
    pub bytes: usize,
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_close(end: *mut End) {
    if !end.is_null() {
        // SAFETY: the header asks for an end of ours, which is a box that was handed out.
        drop(unsafe { Box::from_raw(end) });
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_capacity(end: *const End) -> usize {
    // SAFETY: the header asks for an end of ours or null.
    unsafe { end.as_ref() }.map_or(0, |end| either!(end, it => it.capacity()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_quantum(end: *const End) -> usize {
    // SAFETY: the header asks for an end of ours or null.
    unsafe { end.as_ref() }.map_or(0, |end| either!(end, it => it.quantum()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_available(end: *mut End, out: *mut usize) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    if out.is_null() {
        return INVALID;
    }
    match either!(end, it => it.available()) {
        Ok(items) => {
            // SAFETY: not null, and valid by the header.
            unsafe { out.write(items) };
            OK
        }
        Err(error) => queue_status(Err(error)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_write(
    end: *mut End,
    items: *const std::ffi::c_void,
    count: usize,
) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { write(end, items.cast(), count, |producer, items| producer.try_write(items)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_write_blocking(
    end: *mut End,
    items: *const std::ffi::c_void,
    count: usize,
    options: *const COptions,
) -> Status {
    // SAFETY: the header asks for valid options or null.
    let Some(options) = (unsafe { options_of(options) }) else { return INVALID };
    // SAFETY: handed on with the header's demands.
    unsafe { write(end, items.cast(), count, |producer, items| producer.write(items, options)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_read(
    end: *mut End,
    items: *mut std::ffi::c_void,
    count: usize,
) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { read(end, items.cast(), count, None) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_read_blocking(
    end: *mut End,
    items: *mut std::ffi::c_void,
    count: usize,
    options: *const COptions,
) -> Status {
    // SAFETY: the header asks for valid options or null.
    let Some(options) = (unsafe { options_of(options) }) else { return INVALID };
    // SAFETY: handed on with the header's demands.
    unsafe { read(end, items.cast(), count, Some(options)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_begin(
    end: *mut End,
    count: usize,
    regions: *mut CRegion,
) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    if regions.is_null() {
        return INVALID;
    }
    match either!(end, it => it.begin(count)) {
        Ok(runs) => {
            let runs = runs.map(|(address, bytes): Run| CRegion { address: address.cast(), bytes });
            // SAFETY: not null, and valid for two regions by the header.
            unsafe { regions.cast::<[CRegion; 2]>().write(runs) };
            OK
        }
        Err(error) => queue_status(Err(error)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_commit(end: *mut End, count: usize) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    queue_status(either!(end, it => it.commit(count)))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_wake(end: *const End, bits: u32) -> Status {
    // SAFETY: the header asks for an end of ours or null.
    let Some(end) = (unsafe { end.as_ref() }) else { return INVALID };
    let flag = either!(end, it => it.event_flag());
    queue_status(flag.ok_or(QueueError::NoEventFlag).and_then(|flag| flag.wake(bits)))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_wait(
    end: *const End,
    bits: u32,
    timeout_ns: i64,
    out: *mut u32,
) -> Status {
    // SAFETY: the header asks for an end of ours or null.
    let Some(end) = (unsafe { end.as_ref() }) else { return INVALID };
    if out.is_null() {
        return INVALID;
    }
    let flag = either!(end, it => it.event_flag()).ok_or(QueueError::NoEventFlag);
    match flag.and_then(|flag| flag.wait(bits, deadline(timeout_ns))) {
        Ok(set) => {
            // SAFETY: not null, and valid by the header.
            unsafe { out.write(set) };
            OK
        }
        Err(error) => queue_status(Err(error)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_set_bits(end: *mut End, wait: u32, wake: u32) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    either!(end, it => it.set_bits(Bits { wait, wake }));
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_watch_process(end: *mut End, pid: u32) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    match PeerWatch::process(pid) {
        Ok(watch) => either!(end, it => it.set_peer(&watch)),
        Err(error) => return setup_status(&error),
    }
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_watch_connection(end: *mut End, fd: i32) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    if fd < 0 {
        return INVALID;
    }
    // SAFETY: the header asks for an open file, which is only used in this line.
    let Ok(file) = (unsafe { BorrowedFd::borrow_raw(fd) }).try_clone_to_owned() else {
        return INVALID;
    };
    match PeerWatch::connection(file) {
        Ok(watch) => either!(end, it => it.set_peer(&watch)),
        Err(error) => return setup_status(&error),
    }
    OK
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
    if !canceller.is_null() {
        // SAFETY: the header asks for a handle of ours, which is a box that was handed out.
        drop(unsafe { Box::from_raw(canceller) });
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_set_canceller(
    end: *mut End,
    canceller: *const Cancel,
) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(end) = (unsafe { end.as_mut() }) else { return INVALID };
    // SAFETY: the header asks for a handle of ours or null.
    let Some(canceller) = (unsafe { canceller.as_ref() }) else { return INVALID };
    either!(end, it => it.set_cancel(canceller));
    OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_cancel(canceller: *const Cancel) -> Status {
    // SAFETY: the header asks for a handle of ours or null.
    let Some(canceller) = (unsafe { canceller.as_ref() }) else { return INVALID };
    canceller.cancel();
    OK
}

/// # Safety
/// `end` is null or an end of ours; `items` holds `count` items.
unsafe fn write(
    end: *mut End,
    items: *const u8,
    count: usize,
    call: impl FnOnce(&mut Producer, &[u8]) -> Result<(), QueueError>,
) -> Status {
    // SAFETY: by the caller's word.
    let Some(End::Producer(producer)) = (unsafe { end.as_mut() }) else { return INVALID };
    let bytes = match bytes(count, producer.quantum(), producer.capacity()) {
        Ok(0) => return queue_status(call(producer, &[])),
        Ok(_) if items.is_null() => return INVALID,
        Ok(bytes) => bytes,
        Err(error) => return queue_status(Err(error)),
    };
    // SAFETY: not null, and holds as many bytes by the caller's word.
    queue_status(call(producer, unsafe { slice::from_raw_parts(items, bytes) }))
}

/// # Safety
/// `end` is null or an end of ours; `items` has room for `count` items.
unsafe fn read(end: *mut End, items: *mut u8, count: usize, wait: Option<WaitOptions>) -> Status {
    // SAFETY: by the caller's word.
    let Some(End::Consumer(consumer)) = (unsafe { end.as_mut() }) else { return INVALID };
    if items.is_null() && count != 0 {
        return INVALID;
    }
    let waited = wait.map_or(Ok(()), |options| consumer.wait(count, options));
    let begun = waited.and_then(|()| consumer.begin(count));
    let runs = match begun {
        Ok(runs) => runs,
        Err(error) => return queue_status(Err(error)),
    };
    // C's buffer may be uninitialised, which a slice may not be: copy through raw pointers.
    let mut to = items;
    for (from, bytes) in runs {
        // SAFETY: the run was begun, and the buffer has room for all runs by the caller's word; a hostile producer can
        // only change what is copied.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        to = to.wrapping_add(bytes);
    }
    queue_status(consumer.commit(count))
}

/// Bytes of `count` items, which the queue could hold: no more is ever touched of a caller's buffer.
fn bytes(count: usize, quantum: usize, capacity: usize) -> Result<usize, QueueError> {
    let too_large = QueueError::TooLarge { asked: count, capacity };
    if count > capacity { Err(too_large) } else { count.checked_mul(quantum).ok_or(too_large) }
}

/// # Safety
/// `options` is valid or null.
unsafe fn options_of(options: *const COptions) -> Option<WaitOptions> {
    // SAFETY: by the caller's word.
    match unsafe { options.as_ref() } {
        Some(options) => options.to_rust(),
        None => Some(WaitOptions::from(Wait::default())),
    }
}
