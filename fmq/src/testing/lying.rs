//! Random calls of ours against random misdeeds of the peer, judged by a model that is written from
//! the rules alone.

use std::time::Instant;

use super::HostilePeer;
use crate::erased::{Consumer, Producer, Queue};
use crate::{QueueError, Wait};

/// Item sizes that the scripts choose from.
const QUANTA: [usize; 6] = [1, 3, 8, 12, 16, 24];

/// Plays `script` on a consumer whose producer lies. Panics if the consumer does anything but what
/// the model says.
pub fn lying_producer(script: &[u8]) {
    let Some((mut stage, script)) = Stage::set(script) else { return };
    let mut victim = stage.queue().into_consumer();
    stage.model.known = stage.theirs;
    for step in script.as_chunks().0 {
        stage.misbehave(step, HostilePeer::set_written, HostilePeer::set_read);
        stage.consume(&mut victim, step);
    }
}

/// Plays `script` on a producer whose consumer lies. Panics if the producer does anything but what
/// the model says.
pub fn lying_consumer(script: &[u8]) {
    let Some((mut stage, script)) = Stage::set(script) else { return };
    let mut victim = stage.queue().into_producer();
    // The producer starts at the write counter, which is the read counter: all is free.
    stage.model.known = stage.theirs;
    stage.model.writes = true;
    for step in script.as_chunks().0 {
        stage.misbehave(step, HostilePeer::set_read, HostilePeer::set_written);
        stage.produce(&mut victim, step);
    }
}

/// The limits of an end, from the two counters alone.
#[derive(Debug)]
struct Model {
    ours: u64,
    known: u64,
    ring: u64,
    quantum: u64,
    writes: bool,
    lied: bool,
}

/// The answer that a call has to give.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Short,
    TooLarge,
    Lied,
    Poisoned,
}

impl Model {
    fn usable(&self, theirs: u64) -> u64 {
        if self.writes {
            self.ring.wrapping_sub(self.ours.wrapping_sub(theirs))
        } else {
            theirs.wrapping_sub(self.ours)
        }
    }

    fn look(&mut self, theirs: u64) -> Result<u64, Answer> {
        if self.lied {
            return Err(Answer::Poisoned);
        }
        let usable = self.usable(theirs);
        if usable > self.ring
            || usable < self.usable(self.known)
            || !usable.is_multiple_of(self.quantum)
        {
            self.lied = true;
            return Err(Answer::Lied);
        }
        self.known = theirs;
        Ok(usable)
    }

    /// Returns what a request for `items` items has to answer while the peer's counter is `theirs`.
    fn ask(&mut self, items: u64, theirs: u64) -> Answer {
        let bytes = items * self.quantum;
        if bytes > self.ring {
            return Answer::TooLarge;
        }
        if !self.lied && bytes != 0 && bytes <= self.usable(self.known) {
            return Answer::Done;
        }
        match self.look(theirs) {
            Ok(usable) if bytes <= usable => Answer::Done,
            Ok(_) => Answer::Short,
            Err(answer) => answer,
        }
    }
}

fn answer(result: &Result<(), QueueError>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(QueueError::Empty { .. } | QueueError::Full { .. } | QueueError::TimedOut) => {
            Answer::Short
        }
        Err(QueueError::TooLarge { .. }) => Answer::TooLarge,
        Err(QueueError::PeerLied(_)) => Answer::Lied,
        Err(QueueError::Poisoned(_)) => Answer::Poisoned,
        Err(other) => panic!("an error that nothing here can cause: {other}"),
    }
}

/// The queue, the peer, and what the memory holds.
struct Stage {
    queue: Option<Queue>,
    peer: HostilePeer,
    model: Model,
    /// The peer's counter as it stands in memory.
    theirs: u64,
    /// Our place in the ring.
    position: usize,
    /// The ring as it has to be.
    ring: Vec<u8>,
    stamp: u8,
}

impl Stage {
    /// Three bytes say size, capacity and where the counters start; the rest is the script.
    fn set(script: &[u8]) -> Option<(Self, &[u8])> {
        let ([size, capacity, start], script) = script.split_first_chunk::<3>()?;
        let quantum = QUANTA.get(usize::from(*size) % QUANTA.len())?;
        let capacity = usize::from(*capacity) % 9 + 1;
        let queue = Queue::builder(capacity, *quantum).event_flag(true).create().expect("a queue");
        let descriptor = queue.descriptor().expect("a descriptor");
        let peer = HostilePeer::new(descriptor.try_clone().expect("a descriptor"));
        let bytes = *quantum;
        let (quantum, ring) = (bytes as u64, (capacity * bytes) as u64);
        // Anywhere in the counters' range, their end included.
        let near = [0, ring, u64::MAX / 2, u64::MAX - 2 * ring][usize::from(*start) % 4];
        let ours = near / quantum * quantum;
        peer.set_read(ours);
        peer.set_written(ours);
        let queue =
            Queue::attach(descriptor, bytes).expect("counters that an honest peer could leave");
        let model = Model { ours, known: ours, ring, quantum, writes: false, lied: false };
        let position = usize::try_from(ours % ring).expect("a place");
        let ring = vec![0; peer.ring_bytes()];
        let stage =
            Self { queue: Some(queue), peer, model, theirs: ours, position, ring, stamp: 1 };
        Some((stage, script))
    }

    fn queue(&mut self) -> Queue {
        self.queue.take().expect("one victim")
    }

    /// The peer's half of a step: sometimes honest, mostly not.
    fn misbehave(
        &mut self,
        &[deed, how, _]: &[u8; 3],
        set_theirs: fn(&HostilePeer, u64),
        set_ours: fn(&HostilePeer, u64),
    ) {
        let how64 = u64::from(how);
        let quantum = self.model.quantum;
        match deed % 16 {
            // Mostly honest moves, else a script would end at its first lie.
            0..=8 => {
                let room = self.model.ring - self.model.usable(self.theirs).min(self.model.ring);
                let step = (how64 % 10 * quantum).min(room / quantum * quantum);
                self.theirs = self.theirs.wrapping_add(step);
            }
            9 => self.theirs = self.theirs.wrapping_add(how64),
            10 => self.theirs = self.theirs.wrapping_sub(how64 * quantum),
            11 => self.theirs = [0, 1 << 60, u64::MAX, 1 << 63][usize::from(how) % 4],
            12 => set_ours(&self.peer, self.model.ours.wrapping_add(how64 << 32).wrapping_sub(1)),
            13 => self.peer.set_flag(u32::from(how) * 0x0101_0101),
            14 => assert!(!self.peer.shrink(), "a sealed file was shortened"),
            _ => {
                let at = usize::from(how) % self.ring.len();
                self.peer.scribble(at, &[how]);
                self.ring[at] = how;
            }
        }
        set_theirs(&self.peer, self.theirs);
    }

    fn consume(&mut self, victim: &mut Consumer, &[_, call, count]: &[u8; 3]) {
        let count = usize::from(count) % 11;
        let expected = self.ask(call, count);
        let mut items = vec![0; count * victim.quantum()];
        let past = Wait::adaptive(0).until(Instant::now());
        let got = match call % 5 {
            0 => return self.check_available(victim.available(), &expected),
            1 => victim.read(&mut items, past),
            2 => victim.begin(count).and_then(|_| {
                assert!(victim.commit(count + 1).is_err(), "committed more than was begun");
                victim.commit(count)
            }),
            _ => victim.try_read(&mut items),
        };
        assert_eq!(answer(&got), expected, "{count} items: {got:?}, {:?}", self.model);
        if got.is_ok() {
            if call % 5 != 2 {
                let held: Vec<u8> = self.places(items.len()).map(|at| self.ring[at]).collect();
                assert_eq!(items, held);
            }
            self.advance(items.len());
            // Nothing is published for no items; else our counter stands, whatever it was
            // overwritten with.
            let ours = self.peer.counters().0;
            assert!(count == 0 || ours == self.model.ours, "the read counter: {ours}");
        }
    }

    fn produce(&mut self, victim: &mut Producer, &[_, call, count]: &[u8; 3]) {
        let count = usize::from(count) % 11;
        let expected = self.ask(call, count);
        self.stamp = self.stamp.wrapping_add(1);
        let items = vec![self.stamp; count * victim.quantum()];
        let past = Wait::Block.until(Instant::now());
        let got = match call % 5 {
            0 => return self.check_available(victim.available(), &expected),
            1 => victim.write(&items, past),
            2 => victim.begin(count).and_then(|slots| {
                assert_eq!(slots.iter().map(|slots| slots.bytes).sum::<usize>(), items.len());
                assert!(victim.commit(count + 1).is_err(), "committed more than was begun");
                victim.commit(count)
            }),
            _ => victim.try_write(&items),
        };
        assert_eq!(answer(&got), expected, "{count} items: {got:?}, {:?}", self.model);
        if got.is_ok() {
            self.advance(items.len());
            // Nothing is published for no items; else our counter stands, whatever it was
            // overwritten with.
            let ours = self.peer.counters().1;
            assert!(count == 0 || ours == self.model.ours, "the write counter: {ours}");
        }
    }

    /// Returns the model's answer to this step's call; asked once per call, since asking can be the
    /// first look at a lie.
    fn ask(&mut self, call: u8, count: usize) -> Answer {
        if call.is_multiple_of(5) {
            return match self.model.look(self.theirs) {
                Ok(_) => Answer::Done,
                Err(answer) => answer,
            };
        }
        self.model.ask(count as u64, self.theirs)
    }

    fn check_available(&self, got: Result<usize, QueueError>, expected: &Answer) {
        if let Ok(items) = got {
            let usable = self.model.usable(self.model.known);
            assert_eq!(items as u64 * self.model.quantum, usable, "{:?}", self.model);
        }
        assert_eq!(&answer(&got.map(drop)), expected, "{:?}", self.model);
    }

    fn places(&self, bytes: usize) -> impl Iterator<Item = usize> + use<> {
        let (start, ring) = (self.position, self.ring.len());
        (0..bytes).map(move |i| (start + i) % ring)
    }

    fn advance(&mut self, bytes: usize) {
        if self.model.writes && bytes != 0 {
            for at in self.places(bytes) {
                self.ring[at] = self.stamp;
            }
        }
        self.position = (self.position + bytes) % self.ring.len();
        self.model.ours = self.model.ours.wrapping_add(bytes as u64);
    }
}
