//! The probes: what the machine itself takes, with no queue at all.
//!
//! - `raw-atomic`: a cache line each way, polled with a pause. Nothing between two cores that poll
//!   by loads is faster.
//! - `raw-copy`: the same, with the message copied into shared memory and out again each way,
//!   always at one place.
//! - `raw-futex`: a futex word each way, and a real sleep on each side.

use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::{Channel, Message, Rx, Tx};
use crate::Result;
use crate::link::Link;
use crate::shared::{Shared, SharedWord, Span};
use crate::sys::{ANY, futex_wait, futex_wake};

const BYTES: usize = 4096;
/// The payload starts on a line of its own, two lines on because CPUs fetch lines in pairs.
const PAYLOAD: usize = 128;

fn create(link: &Link, bytes: usize) -> Result<Shared> {
    let shared = Shared::create(bytes)?;
    link.send(b"page", &[shared.fd().as_fd()])?;
    Ok(shared)
}

fn join(link: &Link, bytes: usize) -> Result<Shared> {
    let (_, mut fds) = link.expect()?;
    Shared::attach(fds.pop().ok_or("a page without a file")?, bytes)
}

/// `raw-atomic`: the number is all there is.
#[derive(Debug)]
pub struct Atomic;

/// One end of [`Atomic`].
#[derive(Debug)]
pub struct AtomicEnd {
    word: SharedWord,
    last: u64,
}

impl Channel<[u64; 1]> for Atomic {
    type Both = AtomicEnd;
    type Tx = AtomicEnd;
    type Rx = AtomicEnd;

    fn create(link: &Link) -> Result<AtomicEnd> {
        Ok(AtomicEnd { word: create(link, BYTES)?.word(0)?, last: 0 })
    }

    fn join(link: &Link) -> Result<AtomicEnd> {
        Ok(AtomicEnd { word: join(link, BYTES)?.word(0)?, last: 0 })
    }

    fn tx(both: AtomicEnd) -> Result<AtomicEnd> {
        Ok(both)
    }

    fn rx(both: AtomicEnd) -> Result<AtomicEnd> {
        Ok(both)
    }
}

impl Tx<[u64; 1]> for AtomicEnd {
    #[inline(always)]
    fn put(&mut self, [number]: &[u64; 1]) -> Result<()> {
        // Release: pairs with `take`.
        self.word.get().store(*number, Ordering::Release);
        Ok(())
    }
}

impl Rx<[u64; 1]> for AtomicEnd {
    #[inline(always)]
    fn take(&mut self, [number]: &mut [u64; 1]) -> Result<()> {
        *number = changed(&self.word, &mut self.last);
        Ok(())
    }
}

/// Polls until the word is no longer `last`.
#[inline(always)]
fn changed(word: &SharedWord, last: &mut u64) -> u64 {
    loop {
        // Acquire: pairs with `put`.
        let now = word.get().load(Ordering::Acquire);
        if now != *last {
            *last = now;
            return now;
        }
        std::hint::spin_loop();
    }
}

/// `raw-copy`: number and payload.
#[derive(Debug)]
pub struct Copying<M>(PhantomData<M>);

/// One end of [`Copying`].
#[derive(Debug)]
pub struct CopyEnd {
    word: SharedWord,
    payload: Span,
    last: u64,
}

impl<M: Message> Channel<M> for Copying<M> {
    type Both = Shared;
    type Tx = CopyEnd;
    type Rx = CopyEnd;

    fn create(link: &Link) -> Result<Shared> {
        create(link, PAYLOAD + size_of::<M>())
    }

    fn join(link: &Link) -> Result<Shared> {
        join(link, PAYLOAD + size_of::<M>())
    }

    fn tx(both: Shared) -> Result<CopyEnd> {
        let payload = both.span(PAYLOAD, size_of::<M>())?;
        Ok(CopyEnd { word: both.word(0)?, payload, last: 0 })
    }

    fn rx(both: Shared) -> Result<CopyEnd> {
        <Self as Channel<M>>::tx(both)
    }
}

impl<M: Message> Tx<M> for CopyEnd {
    #[inline(always)]
    fn put(&mut self, message: &M) -> Result<()> {
        self.payload.store(0, bytemuck::bytes_of(message));
        // Release: pairs with `take`.
        self.word.get().store(message.number(), Ordering::Release);
        Ok(())
    }
}

impl<M: Message> Rx<M> for CopyEnd {
    #[inline(always)]
    fn take(&mut self, message: &mut M) -> Result<()> {
        changed(&self.word, &mut self.last);
        self.payload.load(0, bytemuck::bytes_of_mut(message));
        Ok(())
    }
}

/// `raw-futex`: the lower half of the number, and the system calls to sleep for it and to wake for
/// it.
#[derive(Debug)]
pub struct Futex;

/// One end of [`Futex`].
#[derive(Debug)]
pub struct FutexEnd {
    word: SharedWord,
    last: u32,
}

impl Channel<[u64; 1]> for Futex {
    type Both = FutexEnd;
    type Tx = FutexEnd;
    type Rx = FutexEnd;

    fn create(link: &Link) -> Result<FutexEnd> {
        Ok(FutexEnd { word: create(link, BYTES)?.word(0)?, last: 0 })
    }

    fn join(link: &Link) -> Result<FutexEnd> {
        Ok(FutexEnd { word: join(link, BYTES)?.word(0)?, last: 0 })
    }

    fn tx(both: FutexEnd) -> Result<FutexEnd> {
        Ok(both)
    }

    fn rx(both: FutexEnd) -> Result<FutexEnd> {
        Ok(both)
    }
}

impl Tx<[u64; 1]> for FutexEnd {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what changes")]
    fn put(&mut self, [number]: &[u64; 1]) -> Result<()> {
        // Release: pairs with `take`.
        self.word.half().store(*number as u32, Ordering::Release);
        futex_wake(self.word.half(), 1, ANY)?;
        Ok(())
    }
}

impl Rx<[u64; 1]> for FutexEnd {
    fn take(&mut self, [number]: &mut [u64; 1]) -> Result<()> {
        loop {
            // Acquire: pairs with `put`.
            let now = self.word.half().load(Ordering::Acquire);
            if now != self.last {
                self.last = now;
                *number = u64::from(now);
                return Ok(());
            }
            // A word that has changed already, or a signal: look again.
            let _ = futex_wait(self.word.half(), now, ANY);
        }
    }
}
