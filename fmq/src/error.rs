//! Errors: [`SetupError`] while a queue is made or attached, [`QueueError`] while it is used.

use std::fmt;

/// The reason why a queue operation did not happen. Nothing was written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// Fewer items are there than were asked for. Try again later, or wait.
    #[error("{asked} items asked for, {available} available")]
    Empty {
        /// Items that were asked for.
        asked: usize,
        /// Items that could be read now.
        available: usize,
    },
    /// Fewer free slots are there than were asked for. Try again later, or wait.
    #[error("{asked} items to write, room for {free}")]
    Full {
        /// Items that were to be written.
        asked: usize,
        /// Items that could be written now.
        free: usize,
    },
    /// More items than the queue can ever hold; waiting would not help.
    #[error("{asked} items are more than the capacity of {capacity}")]
    TooLarge {
        /// Items that were asked for.
        asked: usize,
        /// Items the queue can hold.
        capacity: usize,
    },
    /// An unsynchronised writer was faster than this reader, which has lost items; the next read
    /// goes on with the newer half of the history.
    #[error("{lost} items were overwritten before they were read")]
    Lost {
        /// Items that this reader will never see.
        lost: u64,
    },
    /// The deadline passed first.
    #[error("the deadline passed before the queue was ready")]
    TimedOut,
    /// A [`Cancel`](crate::Cancel) handle ended the wait.
    #[error("the wait was cancelled")]
    Cancelled,
    /// The peer's process is gone, or its connection is; what it had published can still be read.
    #[error("the peer is gone")]
    PeerDied,
    /// The queue has no event-flag word, so nobody can sleep on it: use
    /// [`Wait::Spin`](crate::Wait::Spin).
    #[error("the queue has no event flag to sleep on")]
    NoEventFlag,
    /// A wait for no bits would never end.
    #[error("an event-flag mask needs at least one bit")]
    NoBits,
    /// The length of a buffer is no multiple of an item's.
    #[error("{bytes} bytes are no multiple of the items' {quantum} bytes")]
    Uneven {
        /// Length of the buffer.
        bytes: usize,
        /// Bytes per item.
        quantum: usize,
    },
    /// The peer's counter stands where no honest peer could have put it. From now on the queue is
    /// poisoned.
    #[error("the peer lied: {0}")]
    PeerLied(Lie),
    /// The peer lied earlier; this queue stays closed for good.
    #[error("the queue is poisoned since the peer lied: {0}")]
    Poisoned(Lie),
}

/// The figures of a counter that no honest peer could have written. Counters are in bytes, modulo
/// 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lie {
    /// The rule that the counter broke.
    pub kind: LieKind,
    /// The peer's counter as read from shared memory.
    pub seen: u64,
    /// Our own counter.
    pub ours: u64,
    /// The size of the ring.
    pub ring_bytes: u64,
}

/// The rule that a peer's counter broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LieKind {
    /// Further from our counter than the ring is long.
    OutOfReach,
    /// Behind a value that the same counter has shown before.
    Backwards,
    /// No multiple of an item away from ours.
    Misaligned,
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, seen, ours, ring_bytes } = self;
        let rule = match kind {
            LieKind::OutOfReach => "is out of reach of",
            LieKind::Backwards => "has gone backwards, relative to",
            LieKind::Misaligned => "is no multiple of an item away from",
        };
        write!(f, "counter {seen} {rule} ours at {ours}, in a ring of {ring_bytes} bytes")
    }
}

/// The reason why a queue could not be made, described or attached to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A capacity of zero items.
    #[error("a queue needs at least one item")]
    NoCapacity,
    /// Items of zero bytes, or of more than the format's 32-bit size can say.
    #[error("items of {bytes} bytes can't be queued")]
    ItemSize {
        /// Bytes per item.
        bytes: usize,
    },
    /// More bytes than a region may have.
    #[error("the queue would take {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Bytes that were asked for; `u64::MAX` if they can't be expressed.
        bytes: u64,
        /// Most bytes that a region may have.
        limit: u64,
    },
    /// The descriptor is for items of another size.
    #[error("the descriptor is for items of {theirs} bytes, not {ours}")]
    Quantum {
        /// Bytes per item in the descriptor.
        theirs: u64,
        /// Bytes per item here.
        ours: u64,
    },
    /// The descriptor is for the other flavour, or for none that exists.
    #[error("the descriptor's flags are {flags}, not {wanted}")]
    Flavor {
        /// Flags in the descriptor.
        flags: i64,
        /// Flags of the flavour that was asked for.
        wanted: u32,
    },
    /// Fewer grantors than the three that every queue has.
    #[error("{count} grantors, at least 3 are needed")]
    Grantors {
        /// Grantors in the descriptor.
        count: usize,
    },
    /// A grantor points outside what it may: the field and its value are named.
    #[error("the grantor of the {part} has {field} {value}: {why}")]
    Grantor {
        /// The part of the queue.
        part: Part,
        /// The field of the grantor.
        field: &'static str,
        /// The field's value.
        value: i128,
        /// The rule it breaks.
        why: &'static str,
    },
    /// Two parts of the queue overlap in memory.
    #[error("the {first} and the {second} overlap")]
    Overlap {
        /// One of the two parts.
        first: Part,
        /// The other one.
        second: Part,
    },
    /// The file ends before the part does; touching it would raise `SIGBUS`.
    #[error("the {part} ends at byte {end} of a file of {size}")]
    PastEnd {
        /// The part that does not fit.
        part: Part,
        /// The byte at which it would end.
        end: u64,
        /// The byte at which the file ends.
        size: u64,
    },
    /// The file can be shortened by anyone who holds it, and can't be sealed against that.
    #[error("the memory of the {part} is not sealed against shrinking and can't be: {source}")]
    Unsealed {
        /// The part that lies in that file.
        part: Part,
        /// The reason why it can't be sealed.
        source: nix::errno::Errno,
    },
    /// The counters in the region can't belong to a queue in use.
    #[error(
        "the counters make no sense: read {read}, written {written}, ring of {ring_bytes} bytes"
    )]
    Counters {
        /// Bytes read since the start.
        read: u64,
        /// Bytes written since the start.
        written: u64,
        /// The size of the ring.
        ring_bytes: u64,
    },
    /// The queue lives in private memory, which no descriptor can hand over.
    #[error("a queue in private memory has no descriptor")]
    Private,
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: nix::errno::Errno,
    },
}

/// A part of a queue, in the order of its grantors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Grantor 0: bytes read since the start, 64 bits.
    ReadCounter,
    /// Grantor 1: bytes written since the start, 64 bits.
    WriteCounter,
    /// Grantor 2: the items.
    Ring,
    /// Grantor 3, optional: the 32-bit event-flag word.
    EventFlag,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadCounter => "read counter",
            Self::WriteCounter => "write counter",
            Self::Ring => "ring",
            Self::EventFlag => "event flag",
        })
    }
}
