//! [`ForeignPeer`]: libfmq's behaviour, written from its description and sharing no code with the
//! queue under test.
//!
//! It maps each grantor by itself, re-reads both counters from shared memory at every call, divides
//! to find an index, and wakes by the unconditional `fetch_or`: what a real libfmq process does on
//! the same memory.

use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

use crate::descriptor::{Descriptor, Grantor};
use crate::event_flag::{NOT_EMPTY, NOT_FULL};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sys::{futex_wait, futex_wake, page_size};

/// Either end of a queue, as libfmq would be it; of the unsynchronised flavour as it is since 2025,
/// when its writers began to mark in the read counter's word where the batch ends that they write.
#[derive(Debug)]
pub struct ForeignPeer {
    read: Mapped,
    written: Mapped,
    ring: Mapped,
    flag: Option<Mapped>,
    quantum: usize,
}

impl ForeignPeer {
    /// Maps the queue.
    #[must_use]
    pub fn new(descriptor: &Descriptor) -> Self {
        let map = |index: usize| {
            let grantor = descriptor.data.grantors.get(index)?;
            Some(Mapped::new(descriptor, grantor))
        };
        Self {
            read: map(0).expect("a read counter"),
            written: map(1).expect("a write counter"),
            ring: map(2).expect("a ring"),
            flag: map(3),
            quantum: descriptor.data.quantum as usize,
        }
    }

    /// `availableToRead`, in items.
    #[must_use]
    pub fn available_to_read(&self) -> usize {
        let ahead = self.load(&self.written).wrapping_sub(self.load(&self.read));
        usize::try_from(ahead).expect("a counter ahead") / self.quantum
    }

    /// `write`: all of `items` or nothing.
    pub fn write(&self, items: &[u8]) -> bool {
        let written = self.load(&self.written);
        let used = written.wrapping_sub(self.load(&self.read));
        if used + items.len() as u64 > self.ring.length as u64 {
            return false;
        }
        for (i, byte) in (0_u64..).zip(items) {
            // SAFETY: within the ring; the protocol gives these bytes to the writer.
            unsafe { self.byte(written.wrapping_add(i)).write_volatile(*byte) };
        }
        let written = written.wrapping_add(items.len() as u64);
        self.counter(&self.written).store(written, Ordering::Release);
        true
    }

    /// `read`: all of `items` or nothing.
    pub fn read(&self, items: &mut [u8]) -> bool {
        let written = self.load(&self.written);
        let read = self.load(&self.read);
        if written.wrapping_sub(read) < items.len() as u64 {
            return false;
        }
        for (i, byte) in (0_u64..).zip(items.iter_mut()) {
            // SAFETY: within the ring; the protocol gives these bytes to the reader.
            *byte = unsafe { self.byte(read.wrapping_add(i)).read_volatile() };
        }
        let read = read.wrapping_add(items.len() as u64);
        self.counter(&self.read).store(read, Ordering::Release);
        true
    }

    /// Unsynchronised `beginWrite` and the copying after it.
    pub fn begin_overwrite(&self, items: &[u8]) {
        let written = self.load(&self.written);
        let end = written.wrapping_add(items.len() as u64);
        self.counter(&self.read).store(end, Ordering::Release);
        for (i, byte) in (0_u64..).zip(items) {
            // SAFETY: within the ring; the protocol gives all of it to the writer.
            unsafe { self.byte(written.wrapping_add(i)).write_volatile(*byte) };
        }
    }

    /// Unsynchronised `commitWrite`.
    pub fn commit_overwrite(&self, bytes: usize) {
        let written = self.load(&self.written).wrapping_add(bytes as u64);
        self.counter(&self.written).store(written, Ordering::Release);
    }

    /// Unsynchronised `read` of a reader whose own counter is `cursor`: all of `items` or nothing.
    /// After an overflow the cursor is half a ring behind the writer.
    pub fn read_history(&self, cursor: &mut u64, items: &mut [u8]) -> bool {
        if self.is_overtaken(cursor) {
            return false;
        }
        if self.load(&self.written).wrapping_sub(*cursor) < items.len() as u64 {
            return false;
        }
        for (i, byte) in (0_u64..).zip(items.iter_mut()) {
            // SAFETY: within the ring; what the writer changes meanwhile is dropped below.
            *byte = unsafe { self.byte(cursor.wrapping_add(i)).read_volatile() };
        }
        fence(Ordering::SeqCst);
        if self.is_overtaken(cursor) {
            return false;
        }
        *cursor = cursor.wrapping_add(items.len() as u64);
        true
    }

    fn is_overtaken(&self, cursor: &mut u64) -> bool {
        let (written, ring) = (self.load(&self.written), self.ring.length as u64);
        let end = self.load(&self.read).max(written);
        let is_overtaken = end.wrapping_sub(*cursor) > ring;
        if is_overtaken {
            let quantum = self.quantum as u64;
            let half = ring / quantum / 2 * quantum;
            let is_whole = half <= ring.saturating_sub(end.wrapping_sub(written));
            *cursor = written.wrapping_sub(if is_whole { half } else { 0 });
        }
        is_overtaken
    }

    /// `writeBlocking` with the default bits.
    pub fn write_blocking(&self, items: &[u8], timeout: Duration) -> bool {
        let done = self.block(NOT_FULL, timeout, || self.write(items));
        if done {
            self.wake(NOT_EMPTY);
        }
        done
    }

    /// `readBlocking` with the default bits.
    pub fn read_blocking(&self, items: &mut [u8], timeout: Duration) -> bool {
        let done = self.block(NOT_EMPTY, timeout, || self.read(items));
        if done {
            self.wake(NOT_FULL);
        }
        done
    }

    /// `EventFlag::wake`.
    pub fn wake(&self, bits: u32) {
        let word = self.word();
        if !word.fetch_or(bits, Ordering::SeqCst) & bits != 0 {
            let mask = NonZeroU32::new(bits).expect("bits");
            futex_wake(word, mask).expect("a futex word");
        }
    }

    fn block(&self, bits: u32, timeout: Duration, mut attempt: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        while !attempt() {
            if Instant::now() >= deadline {
                return false;
            }
            let word = self.word();
            let before = word.fetch_and(!bits, Ordering::SeqCst);
            if before & bits != 0 {
                continue;
            }
            let mask = NonZeroU32::new(bits).expect("bits");
            // Changed, woken, interrupted or late: the loop looks.
            let _ = futex_wait(word, before, mask, Some(deadline.into()));
        }
        true
    }

    fn byte(&self, counter: u64) -> *mut u8 {
        let at = usize::try_from(counter % self.ring.length as u64).expect("an index");
        self.ring.at().wrapping_add(at)
    }

    fn load(&self, counter: &Mapped) -> u64 {
        self.counter(counter).load(Ordering::Acquire)
    }

    fn counter<'mapped>(&self, counter: &'mapped Mapped) -> &'mapped AtomicU64 {
        // SAFETY: a mapped, aligned word, accessed atomically by everyone.
        unsafe { AtomicU64::from_ptr(counter.at().cast()) }
    }

    fn word(&self) -> &AtomicU32 {
        let flag = self.flag.as_ref().expect("an event flag");
        // SAFETY: a mapped, aligned word, accessed atomically by everyone.
        unsafe { AtomicU32::from_ptr(flag.at().cast()) }
    }
}

/// The mapping of one grantor.
#[derive(Debug)]
struct Mapped {
    page: MmapRaw,
    /// The byte at which the grantor's part begins in it.
    skip: usize,
    length: usize,
}

impl Mapped {
    fn new(descriptor: &Descriptor, grantor: &Grantor) -> Self {
        let fd = descriptor.fds.get(grantor.fd_index as usize).expect("a file").as_raw_fd();
        let offset = u64::from(grantor.offset);
        let start = offset / page_size() * page_size();
        let skip = usize::try_from(offset - start).expect("within a page");
        let length = usize::try_from(grantor.extent).expect("a length");
        let page = MmapOptions::new().offset(start).len(skip + length).map_raw(fd);
        Self { page: page.expect("a mapping"), skip, length }
    }

    fn at(&self) -> *mut u8 {
        self.page.as_mut_ptr().wrapping_add(self.skip)
    }
}
