//! Blocks on their way between `run` and the worker: two rings without locks.
//!
//! ```text
//!   run ── Heard { session, number, samples } ──► worker
//!   run ◄─ Cleaned { session, number, samples or nothing } ── worker: one for each, in order
//! ```
//!
//! `run` never waits for room and asks nobody for anything: the worker looks for blocks by itself.
//! A block that doesn't fit is dropped, which the worker sees by the gap in the numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nnburst_denoise::BLOCK;
use rtrb::{Consumer, Producer, RingBuffer};

/// The room of each ring, in blocks: a quarter of a second.
const ROOM: usize = 32;

/// A block of each channel.
pub(crate) type Block<const CHANNELS: usize> = [[f32; BLOCK]; CHANNELS];

/// A block for the worker.
#[derive(Debug)]
pub(crate) struct Heard<const CHANNELS: usize> {
    /// Counts activations: with a new one all that was heard is forgotten.
    pub(crate) session: u64,
    /// Counts blocks of the session.
    pub(crate) number: u64,
    pub(crate) samples: Block<CHANNELS>,
}

/// The worker's result for a block.
#[derive(Debug)]
pub(crate) struct Cleaned<const CHANNELS: usize> {
    pub(crate) session: u64,
    pub(crate) number: u64,
    /// `None` where it could make nothing of it.
    pub(crate) samples: Option<Block<CHANNELS>>,
}

/// State that both sides share beside the blocks. All is `Relaxed`: no flag stands for other
/// memory, as blocks go through the rings.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    /// The number of the next block that `run` takes: those before are of no use any more.
    wanted: AtomicU64,
    /// True once the networks were made, or failed to be made, for the first time.
    loaded: AtomicBool,
    /// True when the worker is to end.
    over: AtomicBool,
}

impl LinkState {
    pub(crate) fn is_wanted(&self, number: u64) -> bool {
        number >= self.wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn set_loaded(&self) {
        self.loaded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The worker's side.
#[derive(Debug)]
pub(crate) struct WorkerLink<const CHANNELS: usize> {
    pub(crate) heard: Consumer<Heard<CHANNELS>>,
    pub(crate) cleaned: Producer<Cleaned<CHANNELS>>,
    pub(crate) shared: Arc<LinkState>,
}

/// The side of `run`.
#[derive(Debug)]
pub(crate) struct RunLink<const CHANNELS: usize> {
    heard: Producer<Heard<CHANNELS>>,
    cleaned: Consumer<Cleaned<CHANNELS>>,
    shared: Arc<LinkState>,
    session: u64,
    /// The number of the next block to send.
    next: u64,
    /// For each of the last 64 blocks, whether it was sent.
    sent: u64,
}

/// The state of a block that was asked for.
#[derive(Debug)]
pub(crate) enum Taken<const CHANNELS: usize> {
    /// The worker's block.
    Clean(Block<CHANNELS>),
    /// Nothing, and there will be nothing.
    Nothing,
    /// Nothing yet.
    NotYet,
}

/// Both sides of a stream.
pub(crate) fn link<const CHANNELS: usize>() -> (RunLink<CHANNELS>, WorkerLink<CHANNELS>) {
    let (to_worker, heard) = RingBuffer::new(ROOM);
    let (cleaned, from_worker) = RingBuffer::new(ROOM);
    let shared = Arc::new(LinkState::default());
    let run = RunLink {
        heard: to_worker,
        cleaned: from_worker,
        shared: Arc::clone(&shared),
        session: 0,
        next: 0,
        sent: 0,
    };
    (run, WorkerLink { heard, cleaned, shared })
}

impl<const CHANNELS: usize> RunLink<CHANNELS> {
    /// Begins a session.
    pub(crate) fn reset(&mut self) {
        (self.session, self.next, self.sent) = (self.session + 1, 0, 0);
        self.shared.wanted.store(0, Ordering::Relaxed);
    }

    /// Returns whether the networks were made, or failed to be made.
    pub(crate) fn is_loaded(&self) -> bool {
        self.shared.loaded.load(Ordering::Relaxed)
    }

    /// Sends the next block, or drops it where the worker is so far behind.
    pub(crate) fn send(&mut self, samples: &Block<CHANNELS>) {
        let (session, number) = (self.session, self.next);
        let pushed = self.heard.push(Heard { session, number, samples: *samples });
        self.next += 1;
        self.sent = self.sent << 1 | u64::from(pushed.is_ok());
    }

    /// Takes the block of a number, dropping those before it.
    pub(crate) fn take(&mut self, number: u64) -> Taken<CHANNELS> {
        self.shared.wanted.store(number, Ordering::Relaxed);
        while let Ok(first) = self.cleaned.peek() {
            if first.session == self.session && first.number > number {
                return Taken::Nothing;
            }
            let is_it = first.session == self.session && first.number == number;
            match self.cleaned.pop() {
                Ok(Cleaned { samples, .. }) if is_it => {
                    return samples.map_or(Taken::Nothing, Taken::Clean);
                }
                _ => {}
            }
        }
        let behind = self.next.saturating_sub(number + 1);
        let was_sent = behind < 64 && self.sent >> behind & 1 == 1;
        if was_sent { Taken::NotYet } else { Taken::Nothing }
    }

    /// Ends the worker.
    pub(crate) fn end(&self) {
        self.shared.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(worker: &mut WorkerLink<1>, samples: Option<f32>) {
        let Heard { session, number, .. } = worker.heard.pop().unwrap();
        let samples = samples.map(|sample| [[sample; BLOCK]]);
        worker.cleaned.push(Cleaned { session, number, samples }).unwrap();
    }

    #[test]
    fn blocks_are_taken_by_number_and_late_ones_dropped() {
        let (mut run, mut worker) = link::<1>();
        run.reset();
        for _ in 0..4 {
            run.send(&[[0.5; BLOCK]]);
        }
        assert!(matches!(run.take(0), Taken::NotYet));
        answer(&mut worker, Some(0.0));
        answer(&mut worker, Some(1.0));
        answer(&mut worker, None);
        // The first came too late.
        assert!(matches!(run.take(1), Taken::Clean(block) if block[0][0] == 1.0));
        assert!(!worker.shared.is_wanted(0) && worker.shared.is_wanted(1));
        assert!(matches!(run.take(2), Taken::Nothing), "the worker could do nothing");
        assert!(matches!(run.take(3), Taken::NotYet));
        // What is left of another session is nobody's.
        run.reset();
        run.send(&[[0.5; BLOCK]]);
        answer(&mut worker, Some(3.0));
        assert!(matches!(run.take(0), Taken::NotYet));
        answer(&mut worker, Some(4.0));
        assert!(matches!(run.take(0), Taken::Clean(block) if block[0][0] == 4.0));
    }

    #[test]
    fn what_does_not_fit_is_not_waited_for() {
        let (mut run, mut worker) = link::<1>();
        run.reset();
        let room = u64::try_from(ROOM).unwrap();
        for _ in 0..=room {
            run.send(&[[0.5; BLOCK]]);
        }
        assert!(matches!(run.take(room - 1), Taken::NotYet));
        assert!(matches!(run.take(room), Taken::Nothing));
        for _ in 0..room {
            answer(&mut worker, None);
        }
        run.send(&[[0.5; BLOCK]]);
        assert!(matches!(run.take(room), Taken::Nothing));
        assert!(matches!(run.take(room + 1), Taken::NotYet));
    }
}
