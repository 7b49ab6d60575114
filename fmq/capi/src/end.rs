//! The two ends of either flavour: writing, reading, waiting, transactions.

use std::slice;

use nnburst_fmq::erased::{Consumer, Producer, Reader, Region, Writer};
use nnburst_fmq::{Bits, EventFlag, QueueError, WaitOptions};

use crate::{
    COptions, Status, deadline, give, invalid, options_of, queue_status, setup_status, take_back,
};

/// `nnburst_fmq_end`.
///
/// The two fields are borrowed one by one, never the whole: any thread may wake by the flag while
/// the end's own thread has the side to itself.
#[derive(Debug)]
pub struct CEnd {
    flag: Option<EventFlag>,
    side: Side,
}

#[derive(Debug)]
pub(crate) enum Side {
    Producer(Producer),
    Consumer(Consumer),
    Writer(Writer),
    Reader(Reader),
}

impl CEnd {
    pub(crate) fn producer(producer: Producer) -> Self {
        Self { flag: producer.event_flag(), side: Side::Producer(producer) }
    }

    pub(crate) fn consumer(consumer: Consumer) -> Self {
        Self { flag: consumer.event_flag(), side: Side::Consumer(consumer) }
    }

    pub(crate) fn writer(writer: Writer) -> Self {
        Self { flag: writer.event_flag(), side: Side::Writer(writer) }
    }

    pub(crate) fn reader(reader: Reader) -> Self {
        Self { flag: None, side: Side::Reader(reader) }
    }
}

/// The end's side, for the thread to which the end belongs.
///
/// # Safety
/// `end` is null or an end of ours, of which only the flag is used by others meanwhile.
pub(crate) unsafe fn side<'end>(end: *mut CEnd) -> Option<&'end mut Side> {
    if end.is_null() {
        return None;
    }
    // SAFETY: a field of an end of ours, which nobody else uses, by the caller's word.
    Some(unsafe { &mut (*end).side })
}

/// The end's flag, for any thread.
///
/// # Safety
/// `end` is null or an end of ours, which nobody closes or gives another flag meanwhile.
unsafe fn flag<'end>(end: *const CEnd) -> Option<&'end EventFlag> {
    if end.is_null() {
        return None;
    }
    // SAFETY: a field of an end of ours, which nobody writes meanwhile, by the caller's word.
    unsafe { &(*end).flag }.as_ref()
}

/// `nnburst_fmq_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct CRegion {
    /// The first slot; null for none.
    pub address: *mut std::ffi::c_void,
    /// Length; 0 for none.
    pub bytes: usize,
}

impl CRegion {
    const NONE: Self = Self { address: std::ptr::null_mut(), bytes: 0 };

    fn of(Region { address, bytes }: Region) -> Self {
        let address = if bytes == 0 { std::ptr::null_mut() } else { address.cast() };
        Self { address, bytes }
    }
}

/// Calls the same method of whichever side it is.
macro_rules! any {
    ($side:expr, $it:ident => $call:expr) => {
        match $side {
            Side::Producer($it) => $call,
            Side::Consumer($it) => $call,
            Side::Writer($it) => $call,
            Side::Reader($it) => $call,
        }
    };
}

/// Calls the same method of whichever side that can wait it is; [`invalid`] for those that never
/// do.
macro_rules! waiting {
    ($side:expr, $it:ident => $call:expr) => {
        match $side {
            Side::Producer($it) => $call,
            Side::Consumer($it) => $call,
            Side::Writer(_) | Side::Reader(_) => return invalid(),
        }
    };
}
pub(crate) use waiting;

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_close(end: *mut CEnd) {
    // SAFETY: the header asks for an end of ours or null.
    unsafe { take_back(end) };
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_capacity(end: *const CEnd) -> usize {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    unsafe { side(end.cast_mut()) }.map_or(0, |side| any!(side, it => it.capacity()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_quantum(end: *const CEnd) -> usize {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    unsafe { side(end.cast_mut()) }.map_or(0, |side| any!(side, it => it.quantum()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_available(end: *mut CEnd, out: *mut usize) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    let available = match side {
        Side::Producer(producer) => producer.available(),
        Side::Consumer(consumer) => consumer.available(),
        Side::Writer(writer) => Ok(writer.capacity()),
        Side::Reader(reader) => reader.available(),
    };
    match available {
        // SAFETY: the header asks for a valid pointer or null.
        Ok(items) => unsafe { give(items, out) },
        Err(error) => queue_status(Err(error)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_write(
    end: *mut CEnd,
    items: *const std::ffi::c_void,
    count: usize,
) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { write(end, items.cast(), count, None) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_write_blocking(
    end: *mut CEnd,
    items: *const std::ffi::c_void,
    count: usize,
    options: *const COptions,
) -> Status {
    // SAFETY: the header asks for valid options or null.
    let Some(options) = (unsafe { options_of(options) }) else { return invalid() };
    // SAFETY: handed on with the header's demands.
    unsafe { write(end, items.cast(), count, Some(options)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_read(
    end: *mut CEnd,
    items: *mut std::ffi::c_void,
    count: usize,
) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { read(end, items.cast(), count, None) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_read_blocking(
    end: *mut CEnd,
    items: *mut std::ffi::c_void,
    count: usize,
    options: *const COptions,
) -> Status {
    // SAFETY: the header asks for valid options or null.
    let Some(options) = (unsafe { options_of(options) }) else { return invalid() };
    // SAFETY: handed on with the header's demands.
    unsafe { read(end, items.cast(), count, Some(options)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_wait_ready(
    end: *mut CEnd,
    count: usize,
    options: *const COptions,
) -> Status {
    // SAFETY: the header asks for valid options or null.
    let Some(options) = (unsafe { options_of(options) }) else { return invalid() };
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    queue_status(waiting!(side, it => it.wait(count, options)))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_begin(
    end: *mut CEnd,
    count: usize,
    regions: *mut CRegion,
) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    if regions.is_null() {
        return invalid();
    }
    let begun = any!(side, it => it.begin(count));
    let slots = begun.map_or([CRegion::NONE; 2], |slots| slots.map(CRegion::of));
    // SAFETY: not null, and valid for two regions by the header.
    unsafe { regions.cast::<[CRegion; 2]>().write(slots) };
    queue_status(begun.map(drop))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_commit(end: *mut CEnd, count: usize) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    queue_status(any!(side, it => it.commit(count)))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_seal_future_writes(end: *mut CEnd) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    match unsafe { side(end) } {
        Some(Side::Writer(writer)) => {
            writer.seal_future_writes().map_or_else(setup_status, |()| crate::OK)
        }
        _ => invalid(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_wake(end: *const CEnd, bits: u32) -> Status {
    if end.is_null() {
        return invalid();
    }
    // SAFETY: the header asks for an end of ours, which stays open and keeps its flag.
    let flag = unsafe { flag(end) }.ok_or(QueueError::NoEventFlag);
    queue_status(flag.and_then(|flag| flag.wake(bits)))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_wait(
    end: *mut CEnd,
    bits: u32,
    timeout_ns: i64,
    out: *mut u32,
) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    if out.is_null() {
        return invalid();
    }
    let flag = match side {
        Side::Producer(producer) => producer.event_flag(),
        Side::Consumer(consumer) => consumer.event_flag(),
        Side::Writer(writer) => writer.event_flag(),
        Side::Reader(_) => None,
    };
    let flag = flag.ok_or(QueueError::NoEventFlag);
    match flag.and_then(|flag| flag.wait(bits, deadline(timeout_ns))) {
        // SAFETY: the header asks for a valid pointer.
        Ok(set) => unsafe { give(set, out) },
        Err(error) => queue_status(Err(error)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_event_flag_word(end: *const CEnd) -> *mut u32 {
    // SAFETY: the header asks for an end of ours or null, which stays open and keeps its flag.
    unsafe { flag(end) }.map_or(std::ptr::null_mut(), EventFlag::address)
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_flag_of(end: *const CEnd, out: *mut *mut EventFlag) -> Status {
    if end.is_null() {
        return invalid();
    }
    // SAFETY: the header asks for an end of ours, which stays open and keeps its flag.
    match unsafe { flag(end) } {
        // SAFETY: the header asks for a valid pointer or null.
        Some(flag) => unsafe { crate::hand_out(flag.clone(), out) },
        None => queue_status(Err(QueueError::NoEventFlag)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_set_flag(end: *mut CEnd, flag: *const EventFlag) -> Status {
    // SAFETY: the header asks for a flag of ours or null.
    let Some(flag) = (unsafe { flag.as_ref() }) else { return invalid() };
    // SAFETY: the header asks for an end of ours or null, which no other thread uses.
    let Some(end) = (unsafe { end.as_mut() }) else { return invalid() };
    waiting!(&mut end.side, it => it.set_event_flag(flag));
    end.flag = Some(flag.clone());
    crate::OK
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_set_bits(end: *mut CEnd, wait: u32, wake: u32) -> Status {
    // SAFETY: the header asks for an end of ours or null, used by one thread at a time.
    let Some(side) = (unsafe { side(end) }) else { return invalid() };
    waiting!(side, it => it.set_bits(Bits { wait, wake }));
    crate::OK
}

/// # Safety
/// `end` is null or an end of ours; `items` holds `count` items.
unsafe fn write(
    end: *mut CEnd,
    items: *const u8,
    count: usize,
    wait: Option<WaitOptions>,
) -> Status {
    // SAFETY: by the caller's word.
    let side = unsafe { side(end) };
    let (quantum, capacity) = match &side {
        Some(Side::Producer(producer)) => (producer.quantum(), producer.capacity()),
        Some(Side::Writer(writer)) if wait.is_none() => (writer.quantum(), writer.capacity()),
        _ => return invalid(),
    };
    let items = match bytes(count, quantum, capacity) {
        Ok(0) => &[],
        Ok(_) if items.is_null() => return invalid(),
        // SAFETY: not null, and holds as many bytes by the caller's word.
        Ok(bytes) => unsafe { slice::from_raw_parts(items, bytes) },
        Err(error) => return queue_status(Err(error)),
    };
    queue_status(match (side, wait) {
        (Some(Side::Producer(producer)), Some(options)) => producer.write(items, options),
        (Some(Side::Producer(producer)), None) => producer.try_write(items),
        (Some(Side::Writer(writer)), _) => writer.try_write(items),
        _ => return invalid(),
    })
}

/// # Safety
/// `end` is null or an end of ours; `items` has room for `count` items.
unsafe fn read(end: *mut CEnd, items: *mut u8, count: usize, wait: Option<WaitOptions>) -> Status {
    if items.is_null() && count != 0 {
        return invalid();
    }
    // SAFETY: by the caller's word, both.
    match (unsafe { side(end) }, wait) {
        (Some(Side::Consumer(consumer)), wait) => {
            let waited = wait.map_or(Ok(()), |options| consumer.wait(count, options));
            queue_status(waited.and_then(|()| consumer.begin(count)).and_then(|slots| {
                // SAFETY: just begun; a hostile producer can only change what is copied.
                unsafe { copy(items, slots) };
                consumer.commit(count)
            }))
        }
        (Some(Side::Reader(reader)), None) => {
            queue_status(reader.begin(count).and_then(|slots| {
                // SAFETY: just begun; what the writer overwrites meanwhile is not vouched for by
                // the commit.
                unsafe { copy(items, slots) };
                reader.commit(count)
            }))
        }
        _ => invalid(),
    }
}

/// Copies through raw pointers: C's buffer may be uninitialised, which a slice may not be.
///
/// # Safety
/// The slots are readable, and `to` has room for all of them.
unsafe fn copy(mut to: *mut u8, slots: [Region; 2]) {
    for Region { address: from, bytes } in slots {
        // SAFETY: by the caller's word; an empty region copies nothing.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        to = to.wrapping_add(bytes);
    }
}

/// Bytes of `count` items, which the queue could hold: no more is ever touched of a caller's
/// buffer.
fn bytes(count: usize, quantum: usize, capacity: usize) -> Result<usize, QueueError> {
    let too_large = QueueError::TooLarge { asked: count, capacity };
    if count > capacity { Err(too_large) } else { count.checked_mul(quantum).ok_or(too_large) }
}
