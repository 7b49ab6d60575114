//! Queues that have not yet taken a side: made, attached to, described.

use std::os::fd::BorrowedFd;

use nnburst_fmq::erased::{Queue, QueueBuilder, Reader, Writer};
use nnburst_fmq::{AttachOptions, Descriptor, Flavor, SetupError};

use crate::descriptor::CDescriptor;
use crate::end::CEnd;
use crate::{Status, give, hand_out, invalid, setup_status, take_back};

/// Flags of creating and attaching.
const EVENT_FLAG: u32 = 1;
const PACKED: u32 = 2;
const ALLOW_UNSEALED: u32 = 4;
const RING_IN_FILE: u32 = 8;
const RESET_COUNTERS: u32 = 16;

/// `nnburst_fmq_create_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct CCreateOptions {
    /// Items that the queue holds.
    pub capacity: usize,
    /// Bytes per item.
    pub quantum: usize,
    /// The flavour.
    pub flavor: u32,
    /// Further settings.
    pub flags: u32,
    /// The ring's file, if that is wanted.
    pub ring_fd: i32,
}

/// `nnburst_fmq_queue`.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there are two flavours")]
pub enum CQueue {
    /// One reader, who waits and is waited for.
    Synchronized(Queue),
    /// One writer, who waits for nobody.
    Unsynchronized(Unsynchronized),
}

/// An unsynchronised queue that has not yet taken a side; readers map it otherwise than the writer
/// does.
#[derive(Debug)]
pub struct Unsynchronized {
    /// Of a queue that was made here.
    writer: Option<Writer>,
    descriptor: Descriptor,
    quantum: usize,
    options: AttachOptions,
}

impl CCreateOptions {
    /// # Safety
    /// With [`RING_IN_FILE`], `ring_fd` is open or negative.
    unsafe fn create(self) -> Option<Result<CQueue, SetupError>> {
        let Self { capacity, quantum, flavor, flags, ring_fd } = self;
        let has = |flag| flags & flag != 0;
        if flags & !(EVENT_FLAG | PACKED | ALLOW_UNSEALED | RING_IN_FILE) != 0
            || has(PACKED) && has(RING_IN_FILE)
        {
            return None;
        }
        let mut builder = Queue::builder(capacity, quantum)
            .event_flag(has(EVENT_FLAG))
            .allow_unsealed(has(ALLOW_UNSEALED));
        if has(PACKED) {
            builder = builder.packed();
        }
        if has(RING_IN_FILE) {
            if ring_fd < 0 {
                return None;
            }
            // SAFETY: open by the caller's word, and only used in this line.
            let file = unsafe { BorrowedFd::borrow_raw(ring_fd) }.try_clone_to_owned();
            builder = builder.ring_in(file.ok()?);
        }
        let options = AttachOptions::default().allow_unsealed(has(ALLOW_UNSEALED));
        match flavor {
            SYNCHRONIZED => Some(builder.create().map(CQueue::Synchronized)),
            UNSYNCHRONIZED => Some(unsynchronized(builder, quantum, options)),
            _ => None,
        }
    }
}

const SYNCHRONIZED: u32 = Flavor::Synchronized as u32;
const UNSYNCHRONIZED: u32 = Flavor::Unsynchronized as u32;

fn unsynchronized(
    builder: QueueBuilder,
    quantum: usize,
    options: AttachOptions,
) -> Result<CQueue, SetupError> {
    let writer = builder.create_unsync()?;
    let descriptor = writer.descriptor()?;
    let writer = Some(writer);
    Ok(CQueue::Unsynchronized(Unsynchronized { writer, descriptor, quantum, options }))
}

impl CQueue {
    fn attach(
        descriptor: Descriptor,
        quantum: usize,
        options: AttachOptions,
    ) -> Result<Self, SetupError> {
        if descriptor.data.flags != UNSYNCHRONIZED {
            return Queue::attach_with(descriptor, quantum, options).map(Self::Synchronized);
        }
        // Everything but the right to write is checked now.
        Reader::attach_with(descriptor.try_clone()?, quantum, options)?;
        Ok(Self::Unsynchronized(Unsynchronized { writer: None, descriptor, quantum, options }))
    }

    fn descriptor(&self) -> Result<Descriptor, SetupError> {
        match self {
            Self::Synchronized(queue) => queue.descriptor(),
            Self::Unsynchronized(queue) => queue.descriptor.try_clone(),
        }
    }

    fn into_producer(self) -> Result<CEnd, SetupError> {
        match self {
            Self::Synchronized(queue) => Ok(CEnd::producer(queue.into_producer())),
            Self::Unsynchronized(Unsynchronized { writer: Some(writer), .. }) => {
                Ok(CEnd::writer(writer))
            }
            Self::Unsynchronized(Unsynchronized { descriptor, quantum, options, .. }) => {
                Writer::attach_with(descriptor, quantum, options).map(CEnd::writer)
            }
        }
    }

    fn into_consumer(self) -> Result<CEnd, SetupError> {
        match self {
            Self::Synchronized(queue) => Ok(CEnd::consumer(queue.into_consumer())),
            Self::Unsynchronized(Unsynchronized { descriptor, quantum, options, .. }) => {
                Reader::attach_with(descriptor, quantum, options).map(CEnd::reader)
            }
        }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_create(
    capacity: usize,
    quantum: usize,
    event_flag: bool,
    out: *mut *mut CQueue,
) -> Status {
    let flags = if event_flag { EVENT_FLAG } else { 0 };
    let options = CCreateOptions { capacity, quantum, flavor: SYNCHRONIZED, flags, ring_fd: -1 };
    // SAFETY: handed on with the header's demands.
    unsafe { nnburst_fmq_create_with(&raw const options, out) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_create_with(
    options: *const CCreateOptions,
    out: *mut *mut CQueue,
) -> Status {
    // SAFETY: the header asks for valid options or null.
    let Some(options) = (unsafe { options.as_ref() }) else { return invalid() };
    // SAFETY: the header asks for an open file.
    match unsafe { options.create() } {
        // SAFETY: the header asks for a valid pointer or null.
        Some(Ok(queue)) => unsafe { hand_out(queue, out) },
        Some(Err(error)) => setup_status(error),
        None => invalid(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_attach(
    descriptor: *const CDescriptor,
    quantum: usize,
    out: *mut *mut CQueue,
) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { nnburst_fmq_attach_with(descriptor, quantum, 0, out) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_attach_with(
    descriptor: *const CDescriptor,
    quantum: usize,
    flags: u32,
    out: *mut *mut CQueue,
) -> Status {
    // SAFETY: the header asks for a valid pointer or null.
    let Some(descriptor) = (unsafe { descriptor.as_ref() }) else { return invalid() };
    // SAFETY: the header asks for open files.
    let Some(descriptor) = (unsafe { descriptor.to_rust() }) else { return invalid() };
    if flags & !(ALLOW_UNSEALED | RESET_COUNTERS) != 0 {
        return invalid();
    }
    let options = AttachOptions::default()
        .allow_unsealed(flags & ALLOW_UNSEALED != 0)
        .reset_counters(flags & RESET_COUNTERS != 0);
    match CQueue::attach(descriptor, quantum, options) {
        // SAFETY: the header asks for a valid pointer or null.
        Ok(queue) => unsafe { hand_out(queue, out) },
        Err(error) => setup_status(error),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_describe(
    queue: *const CQueue,
    out: *mut CDescriptor,
) -> Status {
    // SAFETY: the header asks for a queue of ours or null.
    let Some(queue) = (unsafe { queue.as_ref() }) else { return invalid() };
    if out.is_null() {
        return invalid();
    }
    match queue.descriptor().map(CDescriptor::from_rust) {
        // SAFETY: the header asks for a valid pointer.
        Ok(Some(descriptor)) => unsafe { give(descriptor, out) },
        Ok(None) => invalid(),
        Err(error) => setup_status(error),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_free(queue: *mut CQueue) {
    // SAFETY: the header asks for a queue of ours or null.
    unsafe { take_back(queue) };
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_producer(queue: *mut CQueue, out: *mut *mut CEnd) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { become_an_end(queue, CQueue::into_producer, out) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_consumer(queue: *mut CQueue, out: *mut *mut CEnd) -> Status {
    // SAFETY: handed on with the header's demands.
    unsafe { become_an_end(queue, CQueue::into_consumer, out) }
}

/// # Safety
/// `queue` is null or a queue of ours, which is gone afterwards; `out` is valid for a write, or
/// null.
unsafe fn become_an_end(
    queue: *mut CQueue,
    side: impl FnOnce(CQueue) -> Result<CEnd, SetupError>,
    out: *mut *mut CEnd,
) -> Status {
    if queue.is_null() {
        return invalid();
    }
    // SAFETY: a box that was handed out, by the caller's word.
    match side(*unsafe { Box::from_raw(queue) }) {
        // SAFETY: by the caller's word.
        Ok(end) => unsafe { hand_out(end, out) },
        Err(error) => setup_status(error),
    }
}
