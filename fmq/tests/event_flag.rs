//! The event flag and the readiness bridge: bits, masks, wakes and deadlines.
#![expect(clippy::unwrap_used, clippy::disallowed_types, reason = "a test, with words of its own")]

use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nnburst_fmq::testing::HostilePeer;
use nnburst_fmq::{
    Bits, Cancel, EventFlag, NOT_EMPTY, NOT_FULL, Queue, QueueError, Readiness, Wait,
};

/// A guard against a hang, never a measure of speed.
const HANG: Duration = Duration::from_secs(60);

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(10))
}

fn flag() -> EventFlag {
    Queue::<u8>::builder(1).event_flag(true).create().unwrap().event_flag().unwrap()
}

#[test]
fn bits_are_taken_by_the_wait_that_asks_for_them() {
    let flag = flag();
    flag.wake(0b1011).unwrap();
    assert_eq!(flag.wait(0b0110, None), Ok(0b0010));
    assert_eq!(flag.bits(), 0b1001);
    assert_eq!(flag.wait(0b0110, soon()), Err(QueueError::TimedOut));
    assert_eq!(flag.wait(u32::MAX, Some(Instant::now())), Ok(0b1001), "the past looks once");
    assert_eq!(flag.wait(0, None), Err(QueueError::NoBits));
    assert_eq!(flag.wake(0), Err(QueueError::NoBits));
}

#[test]
fn a_wait_for_bits_ends_by_cancellation_and_by_death() {
    let mut plain = flag();
    let cancel = Cancel::new();
    plain.set_cancel(&cancel);
    let queue = Queue::<u64>::builder(2).event_flag(true).create().unwrap();
    let mut hostile = HostilePeer::new(queue.descriptor().unwrap());
    let mut consumer = queue.into_consumer();
    consumer.set_peer(&hostile.connection());
    let of_an_end = consumer.event_flag().unwrap();
    let [cancelled, orphaned] = [plain.clone(), of_an_end]
        .map(|flag| std::thread::spawn(move || flag.wait(1 << 7, Some(Instant::now() + HANG))));
    std::thread::sleep(Duration::from_millis(20));
    cancel.cancel();
    hostile.die();
    assert_eq!(cancelled.join().unwrap(), Err(QueueError::Cancelled));
    assert_eq!(orphaned.join().unwrap(), Err(QueueError::PeerDied));
    plain.wake(1 << 7).unwrap();
    assert_eq!(plain.wait(1 << 7, None), Ok(1 << 7), "what is set is taken all the same");
}

#[test]
fn ends_can_sleep_on_a_word_of_somebody_elses() {
    let word = Box::leak(Box::new(AtomicU32::new(NOT_FULL)));
    // SAFETY: an atomic that is never freed.
    let flag = unsafe { EventFlag::over(std::ptr::NonNull::from(&mut *word).cast()) };
    assert_eq!(flag.address().addr(), std::ptr::from_mut(word).addr());
    let (mut producer, mut consumer) = Queue::<u64>::builder(2).pair().unwrap();
    assert_eq!(consumer.pop(Wait::Block), Err(QueueError::NoEventFlag));
    producer.set_event_flag(&flag);
    consumer.set_event_flag(&flag);
    let reader = std::thread::spawn(move || {
        (0..1000).map(|_| consumer.pop(Wait::Block.within(HANG)).unwrap()).sum::<u64>()
    });
    (0..1000).for_each(|i| producer.push(i, Wait::Block.within(HANG)).unwrap());
    assert_eq!(reader.join().unwrap(), 499_500);
    assert_eq!(flag.bits(), NOT_EMPTY | NOT_FULL);
}

#[test]
fn a_peer_that_moves_our_sleeper_to_another_futex_hides_no_death_and_no_cancellation() {
    for by_death in [false, true] {
        let queue = Queue::<u64>::builder(2).event_flag(true).create().unwrap();
        let mut hostile = HostilePeer::new(queue.descriptor().unwrap());
        let flag = queue.event_flag().unwrap();
        let mut consumer = queue.into_consumer();
        let cancel = Cancel::new();
        consumer.set_cancel(&cancel);
        consumer.set_peer(&hostile.connection());
        let elsewhere = AtomicU32::new(0);
        let sleeper = std::thread::spawn(move || consumer.pop(Wait::Block.within(HANG)));
        // SAFETY: the word of a queue that lives until the end of this round.
        let word = unsafe { AtomicU32::from_ptr(flag.address()) };
        while requeue(word, &elsewhere) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if by_death {
            hostile.die();
        } else {
            cancel.cancel();
        }
        let wanted = if by_death { QueueError::PeerDied } else { QueueError::Cancelled };
        let begun = Instant::now();
        assert_eq!(sleeper.join().unwrap(), Err(wanted));
        assert!(begun.elapsed() < HANG / 2, "not by its deadline");
    }
}

/// Moves a sleeper from one futex to another, and returns how many there were.
fn requeue(from: &AtomicU32, to: &AtomicU32) -> libc::c_long {
    let (call, none, one) = (libc::FUTEX_REQUEUE, 0, 1);
    // SAFETY: two words that live during the call, which looks for sleepers by their addresses.
    unsafe { libc::syscall(libc::SYS_futex, from.as_ptr(), call, none, one, to.as_ptr()) }
}

#[test]
fn each_of_the_32_bits_wakes_its_sleeper_and_no_other() {
    for bit in 0..32 {
        let flag = flag();
        let sleeper = {
            let flag = flag.clone();
            std::thread::spawn(move || flag.wait(1 << bit, Some(Instant::now() + HANG)))
        };
        flag.wake(!(1 << bit)).unwrap();
        flag.wake(1 << bit).unwrap();
        assert_eq!(sleeper.join().unwrap(), Ok(1 << bit));
    }
}

#[test]
fn a_queue_without_a_flag_has_no_handle() {
    assert!(Queue::<u8>::builder(1).create().unwrap().event_flag().is_none());
}

#[test]
fn ends_can_wait_for_bits_of_ones_own() {
    let queue = Queue::<u64>::builder(2).event_flag(true).create().unwrap();
    let memory = HostilePeer::new(queue.descriptor().unwrap());
    let (mut producer, mut consumer) = queue.split();
    producer.set_bits(Bits { wait: 1 << 20, wake: 1 << 30 });
    consumer.set_bits(Bits { wait: 1 << 30, wake: 1 << 20 });
    let reader = std::thread::spawn(move || {
        (0..100).map(|_| consumer.pop(Wait::Block.within(HANG)).unwrap()).sum::<u64>()
    });
    (0..100).for_each(|i| producer.push(i, Wait::Block.within(HANG)).unwrap());
    assert_eq!(reader.join().unwrap(), 4950);
    assert_eq!(memory.flag().unwrap() & (NOT_EMPTY | NOT_FULL), 0);
    producer.set_bits(Bits { wait: 0, wake: 0 });
    producer.try_write(&[1, 2]).unwrap();
    assert_eq!(producer.push(3, Wait::Block), Err(QueueError::NoBits));
}

#[test]
fn nobody_asleep_means_the_bits_stay_set_and_wakes_stay_quiet() {
    let queue = Queue::<u64>::builder(2).event_flag(true).create().unwrap();
    let memory = HostilePeer::new(queue.descriptor().unwrap());
    let (mut producer, mut consumer) = queue.split();
    producer.try_push(1).unwrap();
    consumer.try_pop().unwrap();
    assert_eq!(memory.flag(), Some(NOT_EMPTY | NOT_FULL));
    // A wait that ends leaves its bit set, so the next publication need not call the kernel.
    assert_eq!(consumer.pop(Wait::Block.until(Instant::now())), Err(QueueError::TimedOut));
    assert_eq!(memory.flag(), Some(NOT_EMPTY | NOT_FULL));
    producer.try_push(2).unwrap();
    assert_eq!(consumer.pop(Wait::Block), Ok(2));
    assert_eq!(memory.flag(), Some(NOT_EMPTY | NOT_FULL));
}

#[test]
fn one_thread_waits_for_more_queues_than_one_call_can() {
    let mut ends: Vec<_> = (0..200)
        .map(|_| {
            let (producer, consumer) = Queue::<u64>::builder(2).event_flag(true).pair().unwrap();
            (producer, consumer, Readiness::new().unwrap())
        })
        .collect();
    for (_, consumer, readiness) in &mut ends {
        assert_eq!(readiness.poll_readable(consumer, 1), Ok(false));
    }
    for chosen in [0, 63, 127, 128, 199] {
        let (producer, consumer, readiness) = &mut ends[chosen];
        producer.try_push(chosen as u64).unwrap();
        poll(&mut [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        assert_eq!(readiness.poll_readable(consumer, 1), Ok(true));
        assert_eq!(consumer.try_pop(), Ok(chosen as u64));
        assert_eq!(readiness.poll_readable(consumer, 1), Ok(false));
    }
}

#[test]
fn readiness_is_level_after_level_for_both_ends() {
    let (mut producer, mut consumer) = Queue::<u64>::builder(2).event_flag(true).pair().unwrap();
    let writer = std::thread::spawn(move || {
        let mut readiness = Readiness::new().unwrap();
        for i in 0..1000 {
            while !readiness.poll_writable(&mut producer, 1).unwrap() {
                poll(&mut [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)
                    .unwrap();
            }
            producer.try_push(i).unwrap();
        }
    });
    let mut readiness = Readiness::new().unwrap();
    for i in 0..1000 {
        while !readiness.poll_readable(&mut consumer, 1).unwrap() {
            poll(&mut [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)
                .unwrap();
        }
        assert_eq!(consumer.try_pop(), Ok(i));
    }
    writer.join().unwrap();
}

#[test]
fn readiness_tells_of_death_and_cancellation() {
    let queue = Queue::<u64>::builder(2).event_flag(true).create().unwrap();
    let mut hostile = HostilePeer::new(queue.descriptor().unwrap());
    let mut consumer = queue.into_consumer();
    let cancel = Cancel::new();
    consumer.set_cancel(&cancel);
    consumer.set_peer(&hostile.connection());
    let mut readiness = Readiness::new().unwrap();
    assert_eq!(readiness.poll_readable(&mut consumer, 1), Ok(false));
    cancel.cancel();
    poll(&mut [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
    assert_eq!(readiness.poll_readable(&mut consumer, 1), Err(QueueError::Cancelled));
    cancel.reset();
    assert_eq!(readiness.poll_readable(&mut consumer, 1), Ok(false));
    hostile.die();
    poll(&mut [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
    assert_eq!(readiness.poll_readable(&mut consumer, 1), Err(QueueError::PeerDied));
}

#[test]
fn readiness_needs_an_event_flag() {
    let (_producer, mut consumer) = Queue::<u64>::builder(2).pair().unwrap();
    let refused = Readiness::new().unwrap().poll_readable(&mut consumer, 1);
    assert_eq!(refused, Err(QueueError::NoEventFlag));
}
