//! The ring itself: two cursors over shared memory, each side's own one private.
//!
//! Counters are in bytes and grow for ever (modulo 2^64), as in libfmq; an item lies at
//! `counter % ring_bytes`. Each side keeps its own counter and its place in the ring privately (no
//! division per operation) and never reads its own counter back. It remembers the peer's counter
//! and looks again only when what it remembers is not enough.
//!
//! | edge | release | acquire | hands over |
//! |---|---|---|---|
//! | `publish` | [`Writing::publish`], `written` | [`Reading::look`] | filled items |
//! | `retire` | [`Reading::publish`], `read` | [`Writing::look`] | slots to reuse |
//!
//! Every look checks what it saw: the peer's counter may only move towards ours, never past it, by
//! whole items. The first lie poisons this side for good: what it remembers is set so that the fast
//! path can never succeed again, and the slow path answers with the error. The fast path itself
//! pays nothing for that.

use crate::event_flag::{NOT_EMPTY, NOT_FULL};
#[cfg(not(loom))]
use crate::memory::Region;
use crate::memory::{CACHE_LINE, QueueMemory};
use crate::sync::Ordering;
use crate::wait::Bits;
use crate::{Lie, LieKind, QueueError};

/// Bytes per item: known to the compiler for a typed queue, carried along for a queue of bytes.
pub(crate) trait Quantum: Copy {
    fn bytes(self) -> usize;
}

/// The quantum of a queue of `T`: its size, at least 1.
#[derive(Debug)]
pub struct Of<T>(std::marker::PhantomData<fn() -> T>);

impl<T> Of<T> {
    pub(crate) const NEW: Self = Self(std::marker::PhantomData);
}

impl<T> Clone for Of<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Of<T> {}

impl<T> Quantum for Of<T> {
    #[inline(always)]
    fn bytes(self) -> usize {
        size_of::<T>()
    }
}

/// A quantum that is known only at run time; at least 1.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub struct ByteQuantum(pub(crate) usize);

#[cfg(not(loom))]
impl Quantum for ByteQuantum {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }
}

/// A side of the ring, where a cursor is: its own counter, the peer's, and what a distance means.
pub(crate) trait Side {
    /// `true` if this side has something to do after the peer's death: a reader has what was
    /// published.
    const OUTLIVES_PEER: bool;
    /// The bits that this side waits for and sets unless told otherwise.
    const BITS: Bits;

    /// Stores this side's counter.
    fn publish(memory: &QueueMemory, ours: u64);
    /// Loads the peer's counter.
    fn look(memory: &QueueMemory) -> u64;
    /// Called after `bytes` were published and announced.
    ///
    /// # Safety
    /// The next `left` bytes, which begin at byte `position`, below the ring's size, are this
    /// side's already.
    unsafe fn ahead(memory: &QueueMemory, position: usize, bytes: usize, left: usize);
    /// Returns how far this side's counter may go when the peer's stands at `peer`.
    fn limit(peer: u64, ring_bytes: u64) -> u64;
    /// The error for too few usable items.
    fn short(asked: usize, usable: usize) -> QueueError;
}

/// The producer's side.
#[derive(Debug)]
pub struct Writing;

/// The consumer's side.
#[derive(Debug)]
pub struct Reading;

impl Side for Writing {
    const OUTLIVES_PEER: bool = false;
    const BITS: Bits = Bits { wait: NOT_FULL, wake: NOT_EMPTY };

    #[inline(always)]
    fn publish(memory: &QueueMemory, ours: u64) {
        // edge publish (release): pairs with `Reading::look`; the items below `ours` are filled.
        memory.written().store(ours, Ordering::Release);
    }

    #[inline(always)]
    fn look(memory: &QueueMemory) -> u64 {
        // edge retire (acquire): pairs with `Reading::publish`; the consumer is done with the slots
        // below this.
        memory.read().load(Ordering::Acquire)
    }

    #[inline(always)]
    unsafe fn ahead(memory: &QueueMemory, position: usize, bytes: usize, left: usize) {
        // The consumer still has copies of the next lines from the last time round. Taking them
        // back now, while it is busy with what was just published, takes that off the way of the
        // next messages; several at a time, since their transfers overlap where a stream of counted
        // items would wait for one after the other.
        if enters(position, bytes, OWNED_AHEAD) {
            // SAFETY: the caller's words; those past the ring's end are left out.
            unsafe { memory.take_back(position, bytes.max(OWNED_AHEAD).min(left)) };
        }
    }

    #[inline(always)]
    fn limit(peer: u64, ring_bytes: u64) -> u64 {
        peer.wrapping_add(ring_bytes)
    }

    fn short(asked: usize, free: usize) -> QueueError {
        QueueError::Full { asked, free }
    }
}

impl Side for Reading {
    const OUTLIVES_PEER: bool = true;
    const BITS: Bits = Bits { wait: NOT_EMPTY, wake: NOT_FULL };

    #[inline(always)]
    fn publish(memory: &QueueMemory, ours: u64) {
        // edge retire (release): pairs with `Writing::look`; the items below `ours` have been
        // copied out.
        memory.read().store(ours, Ordering::Release);
    }

    #[inline(always)]
    fn look(memory: &QueueMemory) -> u64 {
        // edge publish (acquire): pairs with `Writing::publish`; the items below this are visible
        // from here on.
        memory.written().load(Ordering::Acquire)
    }

    #[inline(always)]
    unsafe fn ahead(memory: &QueueMemory, position: usize, bytes: usize, left: usize) {
        // The items that wait already, a few lines on. Not the last ones: the producer may be
        // writing in their lines.
        if enters(position, bytes, CACHE_LINE) && left >= 2 * FETCHED_AHEAD {
            memory.prefetch(position + FETCHED_AHEAD);
        }
    }

    #[inline(always)]
    fn limit(peer: u64, _ring_bytes: u64) -> u64 {
        peer
    }

    fn short(asked: usize, available: usize) -> QueueError {
        QueueError::Empty { asked, available }
    }
}

/// The distance ahead of itself at which a consumer asks for items.
const FETCHED_AHEAD: usize = 8 * CACHE_LINE;
/// The least that a producer takes back at a time: as many lines as a core's store buffer overlaps.
const OWNED_AHEAD: usize = 8 * CACHE_LINE;

/// Returns whether the `bytes` before `position` ended in the block of `block` bytes that
/// `position` is in, or at its start.
#[inline(always)]
fn enters(position: usize, bytes: usize, block: usize) -> bool {
    position % block < bytes
}

/// One side's view of the ring.
#[derive(Debug)]
pub(crate) struct Cursor<S, Q> {
    memory: QueueMemory,
    /// Our counter; the truth. Shared memory has a copy for the peer. The only word that every
    /// operation changes: the next one can't start before it is there, so nothing else should be
    /// waited for in the same way.
    ours: u64,
    /// The bound of our counter by what was last seen and checked of the peer: at most `ring_bytes`
    /// past `ours`.
    limit: u64,
    /// Our counter where this lap of the ring began: less than `ring_bytes` below `ours`.
    lap: u64,
    ring_bytes: usize,
    quantum: Q,
    lie: Option<Lie>,
    _side: std::marker::PhantomData<S>,
}

impl<S: Side, Q: Quantum> Cursor<S, Q> {
    /// A cursor at `ours`, with the peer's counter at `peer`; both as found in memory and checked
    /// by [`Counters`]. `ring_bytes` is a multiple of the quantum, which is not 0.
    pub(crate) fn new(memory: QueueMemory, quantum: Q, ours: u64, peer: u64) -> Self {
        let ring_bytes = memory.ring_bytes();
        Self {
            memory,
            ours,
            limit: S::limit(peer, ring_bytes as u64),
            lap: ours.wrapping_sub(ours % ring_bytes as u64),
            ring_bytes,
            quantum,
            lie: None,
            _side: std::marker::PhantomData,
        }
    }

    /// Items that the ring holds.
    pub(crate) fn capacity(&self) -> usize {
        self.ring_bytes / self.quantum.bytes()
    }

    /// Bytes that the ring holds.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Bytes usable by what we remember of the peer: never more than `ring_bytes`, by the checks in
    /// `refresh`.
    #[inline(always)]
    pub(crate) fn remembered(&self) -> usize {
        usize_of(self.limit.wrapping_sub(self.ours))
    }

    /// Our counter as a place in the ring: below `ring_bytes`, a multiple of the quantum.
    #[inline(always)]
    fn position(&self) -> usize {
        usize_of(self.ours.wrapping_sub(self.lap))
    }

    /// Items usable now.
    #[inline]
    pub(crate) fn usable(&mut self) -> Result<usize, QueueError> {
        self.refresh()?;
        Ok(self.remembered() / self.quantum.bytes())
    }

    /// Returns whether `bytes` are usable, looking at the peer's counter only if need be.
    #[inline(always)]
    pub(crate) fn ready(&mut self, bytes: usize) -> Result<bool, QueueError> {
        if bytes <= self.remembered() {
            return Ok(true);
        }
        self.refresh()?;
        Ok(bytes <= self.remembered())
    }

    /// Makes sure that `bytes` are usable.
    #[inline(always)]
    pub(crate) fn claim(&mut self, bytes: usize) -> Result<(), QueueError> {
        if self.has(bytes) { Ok(()) } else { self.claim_slowly(bytes) }
    }

    /// Returns whether `bytes`, at least one, are usable by what is remembered.
    #[inline(always)]
    pub(crate) fn has(&self, bytes: usize) -> bool {
        bytes != 0 && bytes <= self.remembered()
    }

    /// Out of line: the fast path of a call is then small enough to be compiled into its caller.
    #[cold]
    #[inline(never)]
    fn claim_slowly(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.fits(bytes)?;
        self.refresh()?;
        let remembered = self.remembered();
        if bytes <= remembered {
            return Ok(());
        }
        let quantum = self.quantum.bytes();
        Err(S::short(bytes / quantum, remembered / quantum))
    }

    /// Refuses what can never be, so that nobody waits for it.
    #[inline]
    fn fits(&self, bytes: usize) -> Result<(), QueueError> {
        if bytes <= self.ring_bytes {
            return Ok(());
        }
        let asked = bytes / self.quantum.bytes();
        Err(QueueError::TooLarge { asked, capacity: self.capacity() })
    }

    /// Looks at the peer's counter and believes it if an honest peer could have put it there.
    #[inline(always)]
    fn refresh(&mut self) -> Result<(), QueueError> {
        let seen = S::look(&self.memory);
        let limit = S::limit(seen, self.ring_bytes as u64);
        if limit == self.limit && self.lie.is_none() {
            return Ok(());
        }
        self.believe(seen, limit)
    }

    #[inline]
    fn believe(&mut self, seen: u64, limit: u64) -> Result<(), QueueError> {
        if let Some(lie) = self.lie {
            return Err(QueueError::Poisoned(lie));
        }
        let ring_bytes = self.ring_bytes as u64;
        let usable = limit.wrapping_sub(self.ours);
        let kind = if usable > ring_bytes {
            LieKind::OutOfReach
        } else if usable < self.remembered() as u64 {
            // The peer only ever adds to what we can use.
            LieKind::Backwards
        } else if !usable.is_multiple_of(self.quantum.bytes() as u64) {
            LieKind::Misaligned
        } else {
            self.limit = limit;
            return Ok(());
        };
        Err(self.poison(Lie { kind, seen, ours: self.ours, ring_bytes }))
    }

    #[cold]
    fn poison(&mut self, lie: Lie) -> QueueError {
        self.limit = self.ours; // nothing is usable ever again
        self.lie = Some(lie);
        QueueError::PeerLied(lie)
    }

    /// The regions of the next `bytes`; see [`QueueMemory::regions`].
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn regions(&self, bytes: usize) -> [Region; 2] {
        self.memory.regions(self.position(), bytes)
    }

    /// Moves on by `bytes` and shows that to the peer.
    ///
    /// # Safety
    /// As many are claimed, and [`Self::settle`] follows with the same number, before anything else
    /// is asked of this cursor.
    #[inline(always)]
    pub(crate) unsafe fn publish(&mut self, bytes: usize) {
        let ours = self.ours.wrapping_add(bytes as u64);
        self.ours = ours;
        S::publish(&self.memory, ours);
    }

    /// Prepares what comes after the `bytes` that were published last. After the announcement,
    /// whose fence would wait for the lines that are under way.
    ///
    /// # Safety
    /// [`Self::publish`] went before, with the same number.
    #[inline(always)]
    pub(crate) unsafe fn settle(&mut self, bytes: usize) {
        if self.position() >= self.ring_bytes {
            self.start_lap();
        }
        // SAFETY: the cursor's position is in the ring, and what is remembered is claimed from
        // there on.
        unsafe { S::ahead(&self.memory, self.position(), bytes, self.remembered()) };
    }

    /// A call, so that the compiler makes a branch of it: rarely taken, hence foreseen, where a
    /// conditional move would have every operation wait for the last one's.
    #[cold]
    #[inline(never)]
    fn start_lap(&mut self) {
        self.lap = self.lap.wrapping_add(self.ring_bytes as u64);
    }
}

impl<Q: Quantum> Cursor<Writing, Q> {
    /// Copies one `item` to the claimed slot at the cursor. A slot never straddles the ring's end.
    ///
    /// # Safety
    /// `item` is one quantum long, and as much is claimed.
    #[inline(always)]
    pub(crate) unsafe fn fill_one(&self, item: &[u8]) {
        // SAFETY: the position is a multiple of the quantum below the ring's size, which is one
        // too; the bytes are claimed, so the consumer is done with them.
        unsafe { self.memory.copy_in(self.position(), item) };
    }

    /// Copies `items` to the claimed bytes from `at` bytes after the cursor on.
    ///
    /// # Safety
    /// `at + items.len()` bytes are claimed.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, at: usize, items: &[u8]) {
        let start = wrap(self.position() + at, self.ring_bytes);
        // SAFETY: `start` is in the ring; the bytes are claimed: no more than the ring, and the
        // consumer is done with them.
        unsafe { put(&self.memory, start, items) };
    }
}

impl<Q: Quantum> Cursor<Reading, Q> {
    /// Copies the item in the claimed slot at the cursor. A slot never straddles the ring's end.
    ///
    /// # Safety
    /// `item` is one quantum long, and as much is claimed.
    #[inline(always)]
    pub(crate) unsafe fn drain_one(&self, item: &mut [u8]) {
        // SAFETY: the position is a multiple of the quantum below the ring's size, which is one
        // too; the bytes are claimed, so the producer is done with them.
        unsafe { self.memory.copy_out(self.position(), item) };
    }

    /// Copies the claimed bytes from `at` bytes after the cursor on to `items`.
    ///
    /// # Safety
    /// `at + items.len()` bytes are claimed.
    #[inline(always)]
    pub(crate) unsafe fn drain(&self, at: usize, items: &mut [u8]) {
        let start = wrap(self.position() + at, self.ring_bytes);
        // SAFETY: `start` is in the ring; the bytes are claimed: no more than the ring, and the
        // producer is done with them.
        unsafe { take(&self.memory, start, items) };
    }
}

/// Copies `items` into the ring from byte `start` on, going on at its start when its end is
/// reached.
///
/// # Safety
/// `start` is below `ring_bytes`, `items` is no longer than that, and by the protocol the bytes are
/// the caller's.
#[inline(always)]
pub(crate) unsafe fn put(memory: &QueueMemory, start: usize, items: &[u8]) {
    let room = memory.ring_bytes() - start;
    if items.len() <= room {
        // SAFETY: ends at most at the ring's end; the caller's by the protocol.
        unsafe { memory.copy_in(start, items) };
    } else {
        let (head, tail) = items.split_at(room);
        // SAFETY: ends at the ring's end; the caller's by the protocol.
        unsafe { memory.copy_in(start, head) };
        // SAFETY: no more than the ring in all, so the tail ends before `start`.
        unsafe { memory.copy_in(0, tail) };
    }
}

/// Copies from the ring from byte `start` on to `items`, going on at its start when its end is
/// reached.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub(crate) unsafe fn take(memory: &QueueMemory, start: usize, items: &mut [u8]) {
    let room = memory.ring_bytes() - start;
    if items.len() <= room {
        // SAFETY: ends at most at the ring's end; the caller's by the protocol.
        unsafe { memory.copy_out(start, items) };
    } else {
        let (head, tail) = items.split_at_mut(room);
        // SAFETY: ends at the ring's end; the caller's by the protocol.
        unsafe { memory.copy_out(start, head) };
        // SAFETY: no more than the ring in all, so the tail ends before `start`.
        unsafe { memory.copy_out(0, tail) };
    }
}

/// `place` modulo `ring_bytes`, for places up to twice as far.
#[inline(always)]
pub(crate) fn wrap(place: usize, ring_bytes: usize) -> usize {
    if place >= ring_bytes { place - ring_bytes } else { place }
}

/// For numbers bounded by the ring's size, which is a `usize`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "bounded by the ring's size")]
pub(crate) fn usize_of(bytes: u64) -> usize {
    bytes as usize
}

/// Both counters as an attaching side finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Counters {
    /// Reads both counters of a queue to attach to.
    pub(crate) fn of_queue(
        memory: &QueueMemory,
        quantum: usize,
    ) -> Result<Self, crate::SetupError> {
        // The consumer may be at work: its counter is read first, so that it is never ahead of the
        // other. edge retire (acquire), edge publish (acquire): as in `look`, for the cursors that
        // start here.
        let read = memory.read().load(Ordering::Acquire);
        let written = memory.written().load(Ordering::Acquire);
        let quantum = quantum as u64;
        let ring_bytes = memory.ring_bytes() as u64;
        let whole = read.is_multiple_of(quantum) && written.is_multiple_of(quantum);
        if whole && written.wrapping_sub(read) <= ring_bytes {
            Ok(Self { read, written })
        } else {
            Err(crate::SetupError::Counters { read, written, ring_bytes })
        }
    }
}
