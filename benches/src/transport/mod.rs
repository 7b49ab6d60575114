//! The transports that are measured: ways to get a message from one side to the other.
//!
//! A way is a [`Channel`] (or a pair of ends for two threads): one direction, a [`Tx`] and an
//! [`Rx`]. From those the lab makes both its measurements, so that they are the same code for
//! everyone:
//!
//! ```text
//! round trip   near: stamp, put -------> far: take
//!                    take, compare <---       put
//! throughput   near: put put put ... --> far: take take ...
//!                    wait <---- "all here" ----
//! ```
//!
//! Every message carries its number, and every receiver compares it: nobody is fast by losing data.

pub mod eventfd;
pub mod fmq;
#[cfg(feature = "peers")]
pub mod iceoryx;
pub mod libfmq;
pub mod raw;
mod rows;
pub mod socket;
pub mod threads;

use bytemuck::Pod;

pub use rows::{Ends, Probe, Row, Way, rows};

use crate::clock::ticks;
use crate::link::Link;
use crate::shared::SharedWord;
use crate::{Result, spin_until};

/// A message: plain data whose first bytes hold its number.
pub trait Message: Pod + Send {
    /// Numbers the message.
    #[inline(always)]
    fn stamp(&mut self, number: u64) {
        if let Some(head) = bytemuck::bytes_of_mut(self).first_chunk_mut() {
            *head = number.to_ne_bytes();
        }
    }

    /// The message's number.
    #[inline(always)]
    fn number(&self) -> u64 {
        bytemuck::bytes_of(self).first_chunk().map_or(0, |head| u64::from_ne_bytes(*head))
    }
}

impl<M: Pod + Send> Message for M {}

/// The sending end.
pub trait Tx<M> {
    /// Sends, waiting for room.
    ///
    /// # Errors
    /// If the transport failed.
    fn put(&mut self, message: &M) -> Result<()>;
}

/// The receiving end.
pub trait Rx<M> {
    /// Receives, waiting for a message.
    ///
    /// # Errors
    /// If the transport failed.
    fn take(&mut self, message: &mut M) -> Result<()>;
}

/// One direction between two processes.
pub trait Channel<M: Message> {
    /// The form in which both processes hold it before it is decided who sends.
    type Both;
    /// The sending end.
    type Tx: Tx<M> + 'static;
    /// The receiving end.
    type Rx: Rx<M> + 'static;

    /// Makes a channel and tells the other process.
    ///
    /// # Errors
    /// If the transport or the link failed.
    fn create(link: &Link) -> Result<Self::Both>;
    /// Joins the channel that the other process made.
    ///
    /// # Errors
    /// If the transport or the link failed.
    fn join(link: &Link) -> Result<Self::Both>;
    /// Becomes the sending end.
    ///
    /// # Errors
    /// If the transport failed.
    fn tx(both: Self::Both) -> Result<Self::Tx>;
    /// Becomes the receiving end.
    ///
    /// # Errors
    /// If the transport failed.
    fn rx(both: Self::Both) -> Result<Self::Rx>;
}

/// The measuring side of a row.
pub trait Near {
    /// Runs `rounds` operations and adds what the clock said: a sample per round trip, or one for
    /// the whole flow.
    ///
    /// # Errors
    /// If the transport failed, or a message came back with the wrong number.
    fn run(&mut self, rounds: u32, samples: &mut Vec<u64>) -> Result<()>;
}

/// The answering side of a row.
pub trait Far {
    /// Takes part in `rounds` operations.
    ///
    /// # Errors
    /// As [`Near::run`].
    fn serve(&mut self, rounds: u32) -> Result<()>;
}

/// There and back.
struct RoundTrip<T, R, M> {
    tx: T,
    rx: R,
    sent: M,
    back: M,
    number: u64,
}

impl<T: Tx<M>, R: Rx<M>, M: Message> RoundTrip<T, R, M> {
    fn new(tx: T, rx: R) -> Self {
        Self { tx, rx, sent: M::zeroed(), back: M::zeroed(), number: 0 }
    }
}

impl<T: Tx<M>, R: Rx<M>, M: Message> Near for RoundTrip<T, R, M> {
    fn run(&mut self, rounds: u32, samples: &mut Vec<u64>) -> Result<()> {
        for _ in 0..rounds {
            self.number += 1;
            self.sent.stamp(self.number);
            let start = ticks();
            self.tx.put(&self.sent)?;
            self.rx.take(&mut self.back)?;
            samples.push(ticks().wrapping_sub(start));
            expect(self.back.number(), self.number)?;
        }
        Ok(())
    }
}

struct Echo<R, T, M> {
    rx: R,
    tx: T,
    message: M,
}

impl<R: Rx<M>, T: Tx<M>, M: Message> Far for Echo<R, T, M> {
    fn serve(&mut self, rounds: u32) -> Result<()> {
        for _ in 0..rounds {
            self.rx.take(&mut self.message)?;
            self.tx.put(&self.message)?;
        }
        Ok(())
    }
}

/// One way, as fast as it goes.
struct Flow<T, M> {
    tx: T,
    message: M,
    number: u64,
    /// The number of the last message that the other side has taken, in steps of a block.
    arrived: SharedWord,
}

impl<T: Tx<M>, M: Message> Near for Flow<T, M> {
    fn run(&mut self, rounds: u32, samples: &mut Vec<u64>) -> Result<()> {
        let start = ticks();
        for _ in 0..rounds {
            self.number += 1;
            self.message.stamp(self.number);
            self.tx.put(&self.message)?;
        }
        spin_until(self.arrived.get(), self.number);
        samples.push(ticks().wrapping_sub(start));
        Ok(())
    }
}

struct Sink<R, M> {
    rx: R,
    message: M,
    number: u64,
    arrived: SharedWord,
}

impl<R: Rx<M>, M: Message> Far for Sink<R, M> {
    fn serve(&mut self, rounds: u32) -> Result<()> {
        for _ in 0..rounds {
            self.number += 1;
            self.rx.take(&mut self.message)?;
            expect(self.message.number(), self.number)?;
        }
        // Release: pairs with `spin_until`; the block is over.
        self.arrived.get().store(self.number, std::sync::atomic::Ordering::Release);
        Ok(())
    }
}

#[inline(always)]
fn expect(got: u64, wanted: u64) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(wrong(got, wanted)) }
}

#[cold]
fn wrong(got: u64, wanted: u64) -> crate::Error {
    format!("message {got} arrived where {wanted} was due").into()
}
