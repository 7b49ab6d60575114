//! Named misdeeds of a peer, each with what our end must make of it.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nnburst_fmq::testing::HostilePeer;
use nnburst_fmq::{
    Cancel, Consumer, LieKind, NOT_EMPTY, Producer, Queue, QueueError, Readiness, Wait, WaitOptions,
};

/// A guard against a hang, never a measure of speed.
const HANG: Duration = Duration::from_secs(60);
const STRATEGIES: [Wait; 3] = [Wait::Spin, Wait::Block, Wait::adaptive(20)];

fn stage(capacity: usize) -> (Producer<u64>, Consumer<u64>, HostilePeer) {
    let queue = Queue::<u64>::builder(capacity).event_flag(true).create().unwrap();
    let hostile = HostilePeer::new(queue.descriptor().unwrap());
    let (producer, consumer) = queue.split();
    (producer, consumer, hostile)
}

fn lie(error: QueueError) -> Option<LieKind> {
    match error {
        QueueError::PeerLied(lie) => Some(lie.kind),
        _ => None,
    }
}

#[test]
fn a_lie_of_the_producer_is_named_and_never_forgotten() {
    let cases = [
        ("past the ring", 9 * 8, LieKind::OutOfReach),
        ("far past the ring", 1 << 60, LieKind::OutOfReach),
        ("behind us", 0, LieKind::OutOfReach),
        ("taking back what it had given", 2 * 8, LieKind::Backwards),
        ("between two items", 4 * 8 + 3, LieKind::Misaligned),
    ];
    for (what, counter, kind) in cases {
        let (mut producer, mut consumer, hostile) = stage(4);
        producer.try_write(&[1, 2, 3]).unwrap();
        assert_eq!(consumer.try_pop(), Ok(1), "{what}");
        hostile.set_written(counter);
        assert_eq!(consumer.available_to_read().map_err(lie), Err(Some(kind)), "{what}");
        hostile.set_written(3 * 8);
        let poisoned = |error| matches!(error, QueueError::Poisoned(lie) if lie.seen == counter);
        assert!(consumer.available_to_read().is_err_and(poisoned), "{what}");
        assert!(consumer.try_pop().is_err_and(poisoned), "{what}");
        assert!(consumer.try_read(&mut []).is_err_and(poisoned), "{what}");
        assert!(consumer.read_transaction(1).is_err_and(poisoned), "{what}");
        for strategy in STRATEGIES {
            assert!(consumer.pop(strategy).is_err_and(poisoned), "{what}");
        }
    }
}

#[test]
fn a_lie_of_the_consumer_is_named_and_never_forgotten() {
    let cases = [
        ("ahead of us", 4 * 8, LieKind::OutOfReach),
        ("a ring behind", 0_u64.wrapping_sub(16), LieKind::OutOfReach),
        ("giving back what it had taken", 0, LieKind::Backwards),
        ("between two items", 8 + 5, LieKind::Misaligned),
    ];
    for (what, counter, kind) in cases {
        let (mut producer, mut consumer, hostile) = stage(4);
        producer.try_write(&[1, 2, 3]).unwrap();
        consumer.try_pop().unwrap();
        assert_eq!(producer.available_to_write(), Ok(2), "{what}");
        hostile.set_read(counter);
        assert_eq!(producer.available_to_write().map_err(lie), Err(Some(kind)), "{what}");
        hostile.set_read(8);
        let poisoned = |error| matches!(error, QueueError::Poisoned(_));
        assert!(producer.try_push(4).is_err_and(poisoned), "{what}");
        assert!(producer.write_transaction(1).is_err_and(poisoned), "{what}");
        for strategy in STRATEGIES {
            assert!(producer.push(4, strategy).is_err_and(poisoned), "{what}");
        }
    }
}

#[test]
fn our_own_counter_is_never_read_back() {
    let (mut producer, mut consumer, hostile) = stage(3);
    for i in 0..10 {
        hostile.set_written(u64::MAX - i);
        producer.try_push(i).unwrap();
        hostile.set_read(i << 50);
        assert_eq!(consumer.try_pop(), Ok(i));
        assert_eq!(hostile.counters(), ((i + 1) * 8, (i + 1) * 8));
    }
}

/// A lie that comes without a wake harms nobody who sleeps: the sleeper stays asleep, as if nothing
/// had been written, and whatever ends its wait shows it the lie.
#[test]
fn a_sleeper_that_no_lie_wakes_finds_it_when_its_wait_ends() {
    let lied =
        |ended: Result<u64, QueueError>| ended.map_err(lie) == Err(Some(LieKind::OutOfReach));
    let asleep = |consumer: Consumer<u64>, hostile: &HostilePeer, wait: WaitOptions| {
        let mut consumer = consumer;
        let sleeper = std::thread::spawn(move || (consumer.pop(wait), consumer));
        std::thread::sleep(Duration::from_millis(20));
        hostile.set_written(1 << 40);
        sleeper
    };
    let (_producer, consumer, hostile) = stage(4);
    let sleeper = asleep(consumer, &hostile, Wait::Block.within(Duration::from_millis(100)));
    assert!(lied(sleeper.join().unwrap().0), "at its deadline");

    let (_producer, mut consumer, mut hostile) = stage(4);
    consumer.set_peer(&hostile.connection());
    let sleeper = asleep(consumer, &hostile, Wait::Block.into());
    hostile.die();
    assert!(lied(sleeper.join().unwrap().0), "by the death of who lied");

    let (_producer, mut consumer, hostile) = stage(4);
    let cancel = Cancel::new();
    consumer.set_cancel(&cancel);
    let sleeper = asleep(consumer, &hostile, Wait::Block.into());
    cancel.cancel();
    let (ended, mut consumer) = sleeper.join().unwrap();
    // A cancellation that races the first look may come after it.
    assert!(ended == Err(QueueError::Cancelled) || lied(ended), "{ended:?}");
    assert!(consumer.try_pop().is_err_and(|error| lie(error).is_some() || lied(ended)));
}

/// A side that polls looks at the counter all the time, so no wake is needed.
#[test]
fn who_polls_finds_a_lie_at_the_next_poll() {
    for at_first in [false, true] {
        let (_producer, mut consumer, hostile) = stage(4);
        if at_first {
            hostile.set_written(1 << 40);
        }
        let poller = std::thread::spawn(move || consumer.pop(Wait::Spin));
        std::thread::sleep(Duration::from_millis(5));
        hostile.set_written(1 << 40);
        assert_eq!(poller.join().unwrap().map_err(lie), Err(Some(LieKind::OutOfReach)));
    }
}

#[test]
fn a_sleeper_is_told_of_a_lie() {
    let (_producer, mut consumer, hostile) = stage(4);
    let flag = consumer.event_flag().unwrap();
    let sleeper = std::thread::spawn(move || consumer.pop(Wait::Block.within(HANG)));
    std::thread::sleep(Duration::from_millis(20));
    hostile.set_written(1 << 40);
    flag.wake(NOT_EMPTY).unwrap();
    assert_eq!(sleeper.join().unwrap().map_err(lie), Err(Some(LieKind::OutOfReach)));
}

#[test]
fn a_flag_that_never_rests_moves_no_deadline_and_no_cancellation() {
    for strategy in STRATEGIES {
        let (mut producer, mut consumer, hostile) = stage(1);
        let flip = |peer: &HostilePeer, i: u64| peer.set_flag((i as u32).wrapping_mul(0x9E37_79B9));
        hostile.while_it(flip, || {
            let soon: WaitOptions = strategy.within(Duration::from_millis(30));
            assert_eq!(consumer.pop(soon), Err(QueueError::TimedOut), "{strategy:?}");
            producer.try_push(1).unwrap();
            let soon: WaitOptions = strategy.within(Duration::from_millis(30));
            assert_eq!(producer.push(2, soon), Err(QueueError::TimedOut), "{strategy:?}");
            assert_eq!(consumer.pop(strategy.within(HANG)), Ok(1), "{strategy:?}");
            let cancel = Cancel::new();
            consumer.set_cancel(&cancel);
            let waiter = std::thread::spawn(move || consumer.pop(strategy.within(HANG)));
            std::thread::sleep(Duration::from_millis(10));
            cancel.cancel();
            assert_eq!(waiter.join().unwrap(), Err(QueueError::Cancelled), "{strategy:?}");
        });
    }
}

#[test]
fn bits_that_never_rest_end_no_wait_for_another_bit() {
    let (_producer, consumer, hostile) = stage(1);
    let flag = consumer.event_flag().unwrap();
    let flip = |peer: &HostilePeer, i: u64| peer.set_flag((i as u32).wrapping_mul(2) & !4);
    hostile.while_it(flip, || {
        let soon = Some(Instant::now() + Duration::from_millis(30));
        assert_eq!(flag.wait(4, soon), Err(QueueError::TimedOut));
    });
}

#[test]
fn an_event_loop_learns_of_a_death_however_the_flag_flickers() {
    let queue = Queue::<u64>::builder(1).event_flag(true).create().unwrap();
    let descriptor = queue.descriptor().unwrap();
    let mut hostile = HostilePeer::new(queue.descriptor().unwrap());
    let mut consumer = queue.into_consumer();
    consumer.set_peer(&hostile.connection());
    let flicker = HostilePeer::new(descriptor);
    let flip = |peer: &HostilePeer, i: u64| peer.set_flag((i as u32).wrapping_mul(0x9E37_79B9));
    flicker.while_it(flip, || {
        let mut readiness = Readiness::new().unwrap();
        for look in 0.. {
            match readiness.poll_readable(&mut consumer, 1) {
                Ok(ready) => assert!(!ready),
                Err(error) => {
                    assert_eq!(error, QueueError::PeerDied);
                    break;
                }
            }
            if look == 0 {
                hostile.die();
            }
            let hang = PollTimeout::try_from(HANG).unwrap();
            let mut fds = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut fds, hang).unwrap();
            assert_eq!(ready, 1, "look {look}");
        }
    });
}

#[test]
fn a_cancellation_that_races_an_item_loses_neither() {
    for strategy in STRATEGIES {
        let (mut producer, mut consumer, _hostile) = stage(2);
        let cancel = Cancel::new();
        consumer.set_cancel(&cancel);
        for round in 0..100 {
            std::thread::scope(|scope| {
                scope.spawn(|| producer.try_push(round).unwrap());
                scope.spawn(|| cancel.cancel());
                let first = consumer.pop(strategy.within(HANG));
                assert!(matches!(first, Ok(_) | Err(QueueError::Cancelled)), "{first:?}");
                if first.is_err() {
                    assert_eq!(consumer.pop(strategy), Err(QueueError::Cancelled));
                } else {
                    assert_eq!(first, Ok(round));
                }
            });
            cancel.reset();
            let left = consumer.available_to_read().unwrap();
            if left == 1 {
                assert_eq!(consumer.pop(strategy.within(HANG)), Ok(round));
            }
            assert_eq!(consumer.available_to_read(), Ok(0));
        }
    }
}

#[test]
fn payload_that_changes_while_it_is_read_is_only_garbage() {
    let queue = Queue::<[u64; 16]>::builder(3).create().unwrap();
    let hostile = HostilePeer::new(queue.descriptor().unwrap());
    let (mut producer, mut consumer) = queue.split();
    let scribble = |peer: &HostilePeer, i: u64| peer.scribble(i as usize, &[i as u8; 64]);
    hostile.while_it(scribble, || {
        for _ in 0..2000 {
            producer.try_write(&[[1; 16]; 3]).unwrap();
            let mut items = [[0; 16]; 3];
            consumer.try_read(&mut items).unwrap();
            let first = items[0];
            std::hint::black_box(&mut items);
            assert_eq!(items[0], first, "what was copied out stays put");
        }
    });
}

#[test]
fn death_at_every_step_ends_every_wait() {
    for strategy in STRATEGIES {
        // The peer is the producer: it dies before, between and after two publications and two
        // transactions.
        for step in 0..5 {
            let (mut producer, mut consumer, mut hostile) = stage(8);
            consumer.set_peer(&hostile.connection());
            for i in 0..step {
                let mut slots = producer.write_transaction(2).unwrap();
                slots.copy_from(0, &[i, i]).unwrap();
                slots.truncate(if i % 2 == 0 { 1 } else { 2 });
                slots.commit();
            }
            // Begun and never committed: no part of it may be seen.
            drop(producer.write_transaction(1));
            hostile.die();
            let published = (0..step).map(|i| if i % 2 == 0 { 1 } else { 2 }).sum::<usize>();
            let mut items = vec![0; published];
            consumer.read(&mut items, strategy.within(HANG)).unwrap();
            assert_eq!(
                consumer.pop(strategy.within(HANG)),
                Err(QueueError::PeerDied),
                "{strategy:?}"
            );
            assert_eq!(consumer.available_to_read(), Ok(0));
        }
    }
}

/// Kills the peer of a consumer that waits; returns how long the consumer took to notice.
fn time_to_notice(strategy: Wait) -> Duration {
    let (_producer, mut consumer, mut hostile) = stage(8);
    consumer.set_peer(&hostile.connection());
    let waiter = std::thread::spawn(move || {
        let result = consumer.pop(strategy);
        (result, Instant::now())
    });
    std::thread::sleep(Duration::from_millis(5));
    let died = Instant::now();
    hostile.die();
    let (result, noticed) = waiter.join().unwrap();
    assert_eq!(result, Err(QueueError::PeerDied), "{strategy:?}");
    noticed - died
}

#[test]
fn a_death_ends_a_wait_that_nothing_else_would_end() {
    for strategy in STRATEGIES {
        assert!(time_to_notice(strategy) < HANG, "{strategy:?}");
    }
}

#[test]
#[ignore = "measures time: run it on an idle machine"]
fn a_death_is_noticed_within_ten_milliseconds() {
    for strategy in STRATEGIES {
        let best = (0..5).map(|_| time_to_notice(strategy)).min();
        assert!(best < Some(Duration::from_millis(10)), "{strategy:?}: {best:?}");
    }
}
