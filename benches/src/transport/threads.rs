//! Queues between two threads of one process, polled: ours in private memory, `rtrb`, and
//! `crossbeam` (`ArrayQueue`).

use std::sync::Arc;

use bytemuck::Pod;
use crossbeam_queue::ArrayQueue;

use nnburst_fmq::{Consumer, Producer, Queue};

use super::fmq::{FmqEnd, Spin};
use super::{Rx, Tx};
use crate::Result;

/// Makes the two ends of one direction.
pub trait Pair<M> {
    /// The sending end.
    type Tx: Tx<M> + Send + 'static;
    /// The receiving end.
    type Rx: Rx<M> + Send + 'static;
    /// A new channel.
    ///
    /// # Errors
    /// If it can't be made.
    fn pair() -> Result<(Self::Tx, Self::Rx)>;
}

/// `fmq` in private memory.
#[derive(Debug)]
pub struct FmqPair;

impl<T: Pod + Send, const N: usize> Pair<[T; N]> for FmqPair {
    type Tx = FmqEnd<Producer<T>, Spin>;
    type Rx = FmqEnd<Consumer<T>, Spin>;

    fn pair() -> Result<(Self::Tx, Self::Rx)> {
        let (producer, consumer) = Queue::builder(crate::RING_BYTES / size_of::<T>()).pair()?;
        Ok((FmqEnd::new(producer), FmqEnd::new(consumer)))
    }
}

/// `rtrb`: one by one for single items, in chunks for batches.
#[derive(Debug)]
pub struct Rtrb;

/// `crossbeam`.
#[derive(Debug)]
pub struct Crossbeam;

impl<T: Pod + Send, const N: usize> Pair<[T; N]> for Rtrb {
    type Tx = rtrb::Producer<T>;
    type Rx = rtrb::Consumer<T>;

    fn pair() -> Result<(Self::Tx, Self::Rx)> {
        Ok(rtrb::RingBuffer::new(crate::RING_BYTES / size_of::<T>()))
    }
}

impl<T: Pod + Send, const N: usize> Tx<[T; N]> for rtrb::Producer<T> {
    #[inline(always)]
    fn put(&mut self, message: &[T; N]) -> Result<()> {
        if let [item] = message.as_slice() {
            while self.push(*item).is_err() {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        loop {
            if let Ok(chunk) = self.write_chunk_uninit(N) {
                chunk.fill_from_iter(message.iter().copied());
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
}

impl<T: Pod + Send, const N: usize> Rx<[T; N]> for rtrb::Consumer<T> {
    #[inline(always)]
    fn take(&mut self, message: &mut [T; N]) -> Result<()> {
        if let [item] = message.as_mut_slice() {
            loop {
                if let Ok(popped) = self.pop() {
                    *item = popped;
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        loop {
            if let Ok(chunk) = self.read_chunk(N) {
                for (item, popped) in message.iter_mut().zip(chunk) {
                    *item = popped;
                }
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
}

impl<M: Pod + Send> Pair<M> for Crossbeam {
    type Tx = Arc<ArrayQueue<M>>;
    type Rx = Arc<ArrayQueue<M>>;

    fn pair() -> Result<(Self::Tx, Self::Rx)> {
        let queue = Arc::new(ArrayQueue::new(crate::RING_BYTES / size_of::<M>()));
        Ok((Arc::clone(&queue), queue))
    }
}

impl<M: Pod + Send> Tx<M> for Arc<ArrayQueue<M>> {
    #[inline(always)]
    fn put(&mut self, message: &M) -> Result<()> {
        while self.push(*message).is_err() {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl<M: Pod + Send> Rx<M> for Arc<ArrayQueue<M>> {
    #[inline(always)]
    fn take(&mut self, message: &mut M) -> Result<()> {
        loop {
            if let Some(popped) = self.pop() {
                *message = popped;
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
}
