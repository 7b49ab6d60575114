//! `fmq`: our queue, through the calls that its users make.

use std::marker::PhantomData;
use std::os::fd::AsFd;

use bytemuck::Pod;
use nnburst_fmq::{Cancel, Consumer, Descriptor, PeerWatch, Producer, Queue, Wait};

use super::{Channel, Rx, Tx};
use crate::Result;
use crate::link::Link;

/// The strategy of the ends.
pub trait Strategy: Send + 'static {
    /// The strategy that is passed to every call.
    const WAIT: Wait;
    /// `true` if the queue has an event flag, so that either end could sleep.
    const FLAG: bool = true;
    /// `true` if a watch and a canceller are attached to both ends.
    const WATCHED: bool = false;
}

/// A strategy for ends that a peer's death and a canceller end the waits of.
#[derive(Debug)]
pub struct Watched<W>(PhantomData<W>);

impl<W: Strategy> Strategy for Watched<W> {
    const WAIT: Wait = W::WAIT;
    const FLAG: bool = W::FLAG;
    const WATCHED: bool = true;
}

/// Both ends poll, and the queue has no event flag: nobody can ever sleep on it.
#[derive(Debug)]
pub struct Spin;
/// Both ends poll a queue that has an event flag, so that each publication must look whether
/// somebody sleeps.
#[derive(Debug)]
pub struct SpinFlagged;
/// Both ends sleep at once.
#[derive(Debug)]
pub struct Block;
/// Both ends poll for up to 50 microseconds, then sleep.
#[derive(Debug)]
pub struct Adaptive;

impl Strategy for Spin {
    const WAIT: Wait = Wait::Spin;
    const FLAG: bool = false;
}

impl Strategy for SpinFlagged {
    const WAIT: Wait = Wait::Spin;
}

impl Strategy for Block {
    const WAIT: Wait = Wait::Block;
}

impl Strategy for Adaptive {
    const WAIT: Wait = Wait::adaptive(50);
}

/// Batches of `N` items in a ring of [`crate::RING_BYTES`].
#[derive(Debug)]
pub struct Fmq<T, const N: usize, W>(PhantomData<(T, W)>);

impl<T: Pod + Send, const N: usize, W: Strategy> Channel<[T; N]> for Fmq<T, N, W>
where
    [T; N]: Pod,
{
    type Both = Queue<T>;
    type Tx = FmqEnd<Producer<T>, W>;
    type Rx = FmqEnd<Consumer<T>, W>;

    fn create(link: &Link) -> Result<Queue<T>> {
        let capacity = crate::RING_BYTES / size_of::<T>();
        let queue = Queue::<T>::builder(capacity).event_flag(W::FLAG).create()?;
        let Descriptor { data, fds } = queue.descriptor()?;
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        link.send(&serde_json::to_vec(&data)?, &fds)?;
        Ok(queue)
    }

    fn join(link: &Link) -> Result<Queue<T>> {
        let (data, fds) = link.expect()?;
        Ok(Queue::attach(Descriptor { data: serde_json::from_slice(&data)?, fds })?)
    }

    fn tx(both: Queue<T>) -> Result<Self::Tx> {
        let mut producer = both.into_producer();
        if W::WATCHED {
            producer.set_cancel(&Cancel::new());
            producer.set_peer(&living()?);
        }
        Ok(FmqEnd::new(producer))
    }

    fn rx(both: Queue<T>) -> Result<Self::Rx> {
        let mut consumer = both.into_consumer();
        if W::WATCHED {
            consumer.set_cancel(&Cancel::new());
            consumer.set_peer(&living()?);
        }
        Ok(FmqEnd::new(consumer))
    }
}

/// A watch of a process that outlives the measurement: which one makes no difference to what a
/// watch costs.
fn living() -> Result<PeerWatch> {
    Ok(PeerWatch::process(std::process::id())?)
}

/// Up to this many bytes an item is passed by value; what is larger is written and read where it
/// lies.
const FEW: usize = 64;

/// One end and its strategy.
#[derive(Debug)]
pub struct FmqEnd<E, W>(E, PhantomData<W>);

impl<E, W> FmqEnd<E, W> {
    pub(super) fn new(end: E) -> Self {
        Self(end, PhantomData)
    }
}

impl<T: Pod + Send, const N: usize, W: Strategy> Tx<[T; N]> for FmqEnd<Producer<T>, W> {
    #[inline(always)]
    fn put(&mut self, message: &[T; N]) -> Result<()> {
        match message.as_slice() {
            [item] if size_of::<T>() <= FEW => self.0.push(*item, W::WAIT)?,
            items => self.0.write(items, W::WAIT)?,
        }
        Ok(())
    }
}

impl<T: Pod + Send, const N: usize, W: Strategy> Rx<[T; N]> for FmqEnd<Consumer<T>, W> {
    #[inline(always)]
    fn take(&mut self, message: &mut [T; N]) -> Result<()> {
        match message.as_mut_slice() {
            [item] if size_of::<T>() <= FEW => *item = self.0.pop(W::WAIT)?,
            items => self.0.read(items, W::WAIT)?,
        }
        Ok(())
    }
}
