//! Reasons why a burst has no answer.

use nnburst_fmq::QueueError;

use crate::packet::PacketError;

/// A request that was not sent. Nothing has happened; the ordinary path can run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fallback {
    /// The packet is longer than the room in the queue.
    #[error("a packet of {elements} elements, room for {free}")]
    TooLong {
        /// Elements of the packet.
        elements: usize,
        /// Elements that could be sent.
        free: usize,
    },
    /// More memories than a burst has slots for.
    #[error("all {limit} slots of the burst are in use")]
    TooManyMemories {
        /// Slots of a burst.
        limit: usize,
    },
    /// The request says what the burst's protocol can't.
    #[error("{0}")]
    Inexpressible(PacketError),
    /// The burst is over.
    #[error("the burst is over: {0}")]
    Closed(Closed),
}

/// The end of a burst, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The driver's process, or the connection to it, is gone.
    #[error("the driver is gone")]
    DriverDied,
    /// The driver broke a queue.
    #[error("{0}")]
    Queue(QueueError),
    /// This process is a child of the one that opened the burst, to which it and its queues belong.
    #[error("the burst belongs to the process that this one was forked from")]
    Forked,
    /// Among several answers one was malformed: no later one can be told from its rest.
    #[error("the answers are out of step: {0}")]
    OutOfStep(PacketError),
}

/// The reason why an execution has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BurstError {
    /// It was not sent: the ordinary path can run it.
    #[error("not sent: {0}")]
    NotSent(Fallback),
    /// It was sent, and what came back was no answer. The burst goes on. It may have been executed.
    #[error("malformed answer: {0}")]
    Malformed(PacketError),
    /// It was sent, and the burst ended before the answer. It may have been executed.
    #[error("the burst ended before the answer: {0}")]
    Closed(Closed),
    /// Its deadline passed before the answer came. The burst goes on; an answer that comes later is
    /// dropped. It may have been executed, and may be still.
    #[error("the driver has not answered by the deadline")]
    DeadlineMissed,
    /// The frame was never executed.
    #[error("the frame was not executed yet")]
    NotExecuted,
}

/// The reason why a frame could not be submitted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many frames are in flight, or done and not taken, as the burst allows.
    #[error("{depth} frames are in flight or not taken yet")]
    Busy {
        /// The burst's depth.
        depth: usize,
    },
    /// It can't be sent: the ordinary path can run it.
    #[error(transparent)]
    Fallback(#[from] Fallback),
}
