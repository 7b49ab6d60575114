//! The processors of the two ends of a burst: an end that polls on the other end's processor keeps
//! it from answering.
//!
//! Each end of an extended burst writes its processor into the packets it sends. It is a hint that
//! the peer chose: it decides between polling and sleeping, and so costs latency of that peer's own
//! burst at most.

#[cfg(not(loom))]
use once_cell::race::OnceBool;

#[cfg(not(loom))]
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu};

#[cfg(not(loom))]
use crate::realtime::THIS_THREAD;

/// The processor on which a thread sent a packet, and whether the thread can run on any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor(u32);

impl Processor {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self(0);

    /// The bit of a thread that can run on this processor alone.
    const PINNED: u32 = 1 << 31;

    /// A bit that no processor's word has, for others to use.
    pub(crate) const UNUSED: u32 = 1 << 30;

    /// The processor of this number.
    #[must_use]
    pub const fn new(number: u32, is_pinned: bool) -> Self {
        let pinned = if is_pinned { Self::PINNED } else { 0 };
        // Zero is unknown. Numbers that do not fit are unknown, too.
        match number.checked_add(1) {
            Some(place) if place < Self::UNUSED => Self(place | pinned),
            _ => Self::UNKNOWN,
        }
    }

    /// The processor's number, if it is known.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        (self.0 & !Self::PINNED).checked_sub(1)
    }

    /// Returns whether the thread can run on this processor alone: then it is there whenever it
    /// runs.
    #[must_use]
    pub const fn is_pinned(self) -> bool {
        self.0 & Self::PINNED != 0
    }

    /// As it stands in a packet.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        self.0
    }

    /// The processor of a packet's word. Every word means something.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word & !Self::UNUSED)
    }

    /// Returns whether both name the same processor.
    pub(crate) const fn is(self, other: Self) -> bool {
        // Both known, or else nothing is the same.
        self.0 & !Self::PINNED == other.0 & !Self::PINNED && self.number().is_some()
    }
}

/// A thread's knowledge of the processor that it runs on.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts {
    is_pinned: bool,
    /// The time at which it last asked whether it is pinned, nanoseconds of `CLOCK_MONOTONIC`; 0
    /// before.
    asked_ns: u64,
}

/// The time that a thread which sleeps takes itself for pinned or not, in nanoseconds.
const ASKED_AGAIN_NS: u64 = 100_000_000;

impl Whereabouts {
    /// The processor that the calling thread runs on just now. Whether it is pinned, which others
    /// may change, is asked of the system at the first time, and now and then where the thread has
    /// slept: polling stays free of system calls.
    #[inline]
    pub(crate) fn at(&mut self, now_ns: u64, has_slept: bool) -> Processor {
        let age = now_ns.saturating_sub(self.asked_ns);
        if self.asked_ns == 0 || (has_slept && age > ASKED_AGAIN_NS) {
            (self.is_pinned, self.asked_ns) = (is_pinned(), now_ns);
        }
        self.now()
    }

    /// As [`Self::at`], with what is known of the pinning.
    #[inline]
    pub(crate) fn now(&self) -> Processor {
        current().map_or(Processor::UNKNOWN, |number| Processor::new(number, self.is_pinned))
    }
}

/// Returns whether the machine has one processor: there, nobody can answer while somebody polls.
#[cfg(not(loom))]
pub(crate) fn is_the_only_one() -> bool {
    static ONE: OnceBool = OnceBool::new();
    // A list of ranges such as `0-3,8`. Where it can't be read, there may be others.
    ONE.get_or_init(|| {
        std::fs::read_to_string("/sys/devices/system/cpu/online")
            .is_ok_and(|online| online.trim().parse::<u32>().is_ok())
    })
}

#[cfg(not(loom))]
fn is_pinned() -> bool {
    let Ok(set) = sched_getaffinity(THIS_THREAD) else { return false };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).count() == 1
}

#[cfg(not(loom))]
#[inline]
fn current() -> Option<u32> {
    sched_getcpu().ok().and_then(|number| u32::try_from(number).ok())
}

#[cfg(loom)]
pub(crate) use model::{current, is_pinned, is_the_only_one};

/// Processors in models: all threads of a model run on one of the machine.
#[cfg(loom)]
pub mod model {
    use std::cell::Cell;

    // Not loom's: a model's threads all run on the thread that explores it.
    std::thread_local! {
        static SHARED: Cell<bool> = const { Cell::new(false) };
    }

    /// Has all threads of the models that this thread explores be pinned to the same processor, or
    /// run on unknown ones.
    pub fn share_processor(shared: bool) {
        SHARED.set(shared);
    }

    pub(crate) fn is_the_only_one() -> bool {
        false
    }

    pub(crate) fn is_pinned() -> bool {
        SHARED.get()
    }

    pub(crate) fn current() -> Option<u32> {
        SHARED.get().then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_number_and_pinning() {
        for (number, is_pinned) in [(0, false), (0, true), (7, false), (4095, true)] {
            let processor = Processor::from_word(Processor::new(number, is_pinned).to_word());
            assert_eq!((processor.number(), processor.is_pinned()), (Some(number), is_pinned));
        }
        assert_eq!(Processor::UNKNOWN.number(), None);
        assert_eq!(Processor::from_word(1 << 31).number(), None);
        assert_eq!(Processor::new(u32::MAX, true), Processor::UNKNOWN);
        assert_eq!(Processor::new(i32::MAX.cast_unsigned(), true), Processor::UNKNOWN);
        assert_eq!(Processor::from_word(Processor::UNUSED | 3), Processor::new(2, false));
    }

    #[test]
    fn unknown_processors_are_never_the_same() {
        let (zero, pinned) = (Processor::new(0, false), Processor::new(0, true));
        assert!(zero.is(pinned) && !zero.is(Processor::new(1, false)));
        assert!(!Processor::UNKNOWN.is(Processor::UNKNOWN));
        assert!(!Processor::from_word(1 << 31).is(Processor::UNKNOWN));
    }
}
