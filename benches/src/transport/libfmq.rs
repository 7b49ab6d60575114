//! `libfmq-model`: what Android's libfmq does per operation, done again here, since its code can't
//! be built here.
//!
//! Counters, ring and flag word lie where its allocator puts them (both counters and the ring's
//! first bytes in one cache line); every operation reads both counters from shared memory, takes
//! the index modulo a size known at run time, and (in the blocking form) sets its bit with a locked
//! operation each time. Facts: AOSP `libfmq/include/fmq`, `MessageQueueBase.h` and `EventFlag.cpp`,
//! 2025. It is a lower bound of the real one's time: no logging, no checks.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::fmq::Strategy;
use super::{Channel, Message, Rx, Tx};
use crate::Result;
use crate::link::Link;
use crate::shared::{Shared, SharedWord, Span};
use crate::sys::{futex_wait, futex_wake};

const READ_AT: usize = 0;
const WRITTEN_AT: usize = 8;
const RING_AT: usize = 16;
const FLAG_AT: usize = RING_AT + crate::RING_BYTES;
const BYTES: usize = FLAG_AT + 8;
const NOT_FULL: NonZeroU32 = NonZeroU32::MIN;
const NOT_EMPTY: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// Polls the plain operations, or sleeps on the flag, by the strategy.
#[derive(Debug)]
pub struct Libfmq<W>(PhantomData<W>);

/// One end.
#[derive(Debug)]
pub struct LibfmqEnd<W> {
    read: SharedWord,
    written: SharedWord,
    flag: SharedWord,
    ring: Span,
    /// Read through `black_box`: the library learns it at run time, so the compiler must not know
    /// it.
    ring_bytes: u64,
    strategy: PhantomData<W>,
}

impl<W: Strategy, M: Message> Channel<M> for Libfmq<W> {
    type Both = Shared;
    type Tx = LibfmqEnd<W>;
    type Rx = LibfmqEnd<W>;

    fn create(link: &Link) -> Result<Shared> {
        let shared = Shared::create(BYTES)?;
        link.send(b"page", &[shared.fd().as_fd()])?;
        Ok(shared)
    }

    fn join(link: &Link) -> Result<Shared> {
        let (_, mut fds) = link.expect()?;
        Shared::attach(fds.pop().ok_or("a queue without a file")?, BYTES)
    }

    fn tx(both: Shared) -> Result<LibfmqEnd<W>> {
        LibfmqEnd::new(&both, size_of::<M>())
    }

    fn rx(both: Shared) -> Result<LibfmqEnd<W>> {
        LibfmqEnd::new(&both, size_of::<M>())
    }
}

impl<W: Strategy> LibfmqEnd<W> {
    fn new(shared: &Shared, quantum: usize) -> Result<Self> {
        let ring_bytes = crate::RING_BYTES / quantum * quantum;
        Ok(Self {
            read: shared.word(READ_AT)?,
            written: shared.word(WRITTEN_AT)?,
            flag: shared.word(FLAG_AT)?,
            ring: shared.span(RING_AT, ring_bytes)?,
            ring_bytes: std::hint::black_box(ring_bytes as u64),
            strategy: PhantomData,
        })
    }

    fn try_write(&self, bytes: &[u8]) -> bool {
        // Orderings are libfmq's: both counters acquired for the room, its own read again,
        // published with release.
        let written = self.written.get().load(Ordering::Acquire);
        let read = self.read.get().load(Ordering::Acquire);
        let room = self.ring_bytes.wrapping_sub(written.wrapping_sub(read));
        if room < bytes.len() as u64 {
            return false;
        }
        let written = self.written.get().load(Ordering::Relaxed);
        let at = usize::try_from(written % self.ring_bytes).unwrap_or(0);
        self.ring.store(at, bytes);
        let written = self.written.get().load(Ordering::Relaxed);
        self.written.get().store(written.wrapping_add(bytes.len() as u64), Ordering::Release);
        true
    }

    fn try_read(&self, bytes: &mut [u8]) -> bool {
        let written = self.written.get().load(Ordering::Acquire);
        let read = self.read.get().load(Ordering::Relaxed);
        if written.wrapping_sub(read) < bytes.len() as u64 {
            return false;
        }
        let at = usize::try_from(read % self.ring_bytes).unwrap_or(0);
        self.ring.load(at, bytes);
        let read = self.read.get().load(Ordering::Relaxed);
        let written = self.written.get().load(Ordering::Acquire);
        if written.wrapping_sub(read) > self.ring_bytes {
            return false;
        }
        self.read.get().store(read.wrapping_add(bytes.len() as u64), Ordering::Release);
        true
    }

    fn wake(&self, mask: NonZeroU32) -> Result<()> {
        let before = self.flag.half().fetch_or(mask.get(), Ordering::SeqCst);
        if before & mask.get() != mask.get() {
            futex_wake(self.flag.half(), i32::MAX, mask)?;
        }
        Ok(())
    }

    fn wait(&self, mask: NonZeroU32) {
        let before = self.flag.half().fetch_and(!mask.get(), Ordering::SeqCst);
        if before & mask.get() == 0 {
            // Woken, changed or interrupted: the caller tries again.
            let _ = futex_wait(self.flag.half(), before, mask);
        }
    }
}

/// The strategy's class: [`nnburst_fmq::Wait::Spin`] polls the plain calls, anything else uses the
/// blocking ones.
fn polls<W: Strategy>() -> bool {
    W::WAIT == nnburst_fmq::Wait::Spin
}

impl<W: Strategy, M: Message> Tx<M> for LibfmqEnd<W> {
    #[inline]
    fn put(&mut self, message: &M) -> Result<()> {
        while !self.try_write(bytemuck::bytes_of(message)) {
            if polls::<W>() { std::hint::spin_loop() } else { self.wait(NOT_FULL) }
        }
        if polls::<W>() { Ok(()) } else { self.wake(NOT_EMPTY) }
    }
}

impl<W: Strategy, M: Message> Rx<M> for LibfmqEnd<W> {
    #[inline]
    fn take(&mut self, message: &mut M) -> Result<()> {
        while !self.try_read(bytemuck::bytes_of_mut(message)) {
            if polls::<W>() { std::hint::spin_loop() } else { self.wait(NOT_EMPTY) }
        }
        if polls::<W>() { Ok(()) } else { self.wake(NOT_FULL) }
    }
}
