//! Packets: requests and answers as runs of elements, and back.
//!
//! | request | times | answer | times |
//! |---|---|---|---|
//! | packet information | 1 | packet information | 1 |
//! | input, then its dimensions | per input | output, then its dimensions | per output |
//! | output, then its dimensions | per output | *driver times* | 0 or 1 |
//! | pool identifier or *pool token* | per pool | execution timing | 1 |
//! | *execution limits* | 0 or 1 |  |  |
//! | measure timing | 1 |  |  |
//!
//! What stands in italics is ours and travels only where both ends agreed to it
//! ([`Dialect::Extended`]); the rest is Android's, bit for bit.
//!
//! Elements come from another process. They are copied out of shared memory before they get here,
//! so they hold still, but they may say anything: every count is held against what is left of the
//! packet before anything follows from it, and a packet that breaks a rule is a [`PacketError`]
//! that names rule and place.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod answer;
mod datum;
mod request;

pub use answer::{BurstAnswer, DriverTimes, deserialize_answer, serialize_answer};
pub use datum::{RequestDatum, RequestItem, ResultDatum, ResultItem};
pub(crate) use request::pool_datum;
pub use request::{BurstPool, BurstRequest, deserialize_request, serialize_request};

/// The elements that a packet may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Android's, of HAL 1.2 and 1.3.
    #[default]
    Android,
    /// Android's and ours: deadlines, loop timeouts, driver-managed buffers, the driver's clock
    /// readings and the statuses of 1.3.
    Extended,
}

/// The rule that a packet breaks, or the reason why one can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The first element is not the packet information, or there is none.
    #[error("a packet of {received} elements does not start with the packet information")]
    NoInformation {
        /// Elements received.
        received: usize,
    },
    /// The packet's own size is not that of what came.
    #[error("the packet says that it has {said} elements, {received} came")]
    Size {
        /// The size in the packet information.
        said: u32,
        /// Elements received.
        received: usize,
    },
    /// Another kind of element was due, or none is left.
    #[error("element {at} is not the {wanted} that was due")]
    Unexpected {
        /// Index of the element.
        at: usize,
        /// The element that was due.
        wanted: &'static str,
    },
    /// Elements follow after the last one that was due.
    #[error("{left} elements follow after the packet's end")]
    Leftover {
        /// Their number.
        left: usize,
    },
    /// More elements, operands, dimensions or pools than a packet can count.
    #[error("{count} {what} are more than a packet can have")]
    TooMany {
        /// Their number.
        count: usize,
        /// Of what.
        what: &'static str,
    },
    /// There is no memory for what the packet holds.
    #[error("no memory for {count} {what}")]
    NoMemory {
        /// Their number.
        count: usize,
        /// Of what.
        what: &'static str,
    },
    /// Something that only [`Dialect::Extended`] can say.
    #[error("a driver-managed buffer can't travel in a burst of the original protocol")]
    Token,
}

/// The elements of a packet in order, and where we are.
#[derive(Debug)]
struct Cursor<'a, D> {
    packet: &'a [D],
    at: usize,
}

impl<'a, D> Cursor<'a, D> {
    /// Starts after the packet information, whose size has to be that of the packet.
    fn after_information(packet: &'a [D], said: u32) -> Result<Self, PacketError> {
        if usize::try_from(said) != Ok(packet.len()) {
            return Err(PacketError::Size { said, received: packet.len() });
        }
        Ok(Self { packet, at: 1 })
    }

    /// The element that is due; `take` says `None` if it is of another kind.
    fn next<T>(
        &mut self,
        wanted: &'static str,
        take: impl FnOnce(&D) -> Option<T>,
    ) -> Result<T, PacketError> {
        let wrong = PacketError::Unexpected { at: self.at, wanted };
        let value = self.packet.get(self.at).and_then(take).ok_or(wrong)?;
        self.at = self.at.saturating_add(1);
        Ok(value)
    }

    /// As [`Cursor::next`] for an element that may be left out.
    fn next_if<T>(&mut self, take: impl FnOnce(&D) -> Option<T>) -> Option<T> {
        let value = self.packet.get(self.at).and_then(take)?;
        self.at = self.at.saturating_add(1);
        Some(value)
    }

    /// A count of things of at least one element each: more than is left of the packet can't be
    /// true, and is refused before it sizes anything.
    fn bounded(&self, count: u32, wanted: &'static str) -> Result<usize, PacketError> {
        let left = self.packet.len().saturating_sub(self.at);
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= left)
            .ok_or(PacketError::Unexpected { at: self.packet.len(), wanted })
    }

    fn end(&self) -> Result<(), PacketError> {
        match self.packet.len().saturating_sub(self.at) {
            0 => Ok(()),
            left => Err(PacketError::Leftover { left }),
        }
    }
}

/// Makes room in `list` for `count` elements in all, which a packet has said and
/// [`Cursor::bounded`] has allowed: no packet may end the process.
fn make_room<T>(list: &mut Vec<T>, count: usize, what: &'static str) -> Result<(), PacketError> {
    let missing = count.saturating_sub(list.len());
    list.try_reserve(missing).map_err(|_| PacketError::NoMemory { count, what })
}

/// A length as a packet counts it.
fn count(length: usize, what: &'static str) -> Result<u32, PacketError> {
    u32::try_from(length).map_err(|_| PacketError::TooMany { count: length, what })
}

#[cfg(test)]
mod tests;
