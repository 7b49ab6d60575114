//! Sleeping and waking. A lost wake shows as a deadlock, which loom reports.
#![cfg(loom)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use nnburst_fmq::{Cancel, Consumer, NOT_EMPTY, PeerWatch, Producer, Queue, QueueError, Wait};

type Ends = (Producer<u64>, Consumer<u64>);

/// Ends that look before they wake: both are of one process, or on x86-64.
fn looking(capacity: usize) -> Ends {
    Queue::builder(capacity).event_flag(true).pair().unwrap()
}

/// Ends that wake without looking, as libfmq does.
fn unconditional(capacity: usize) -> Ends {
    let ours = Queue::builder(capacity).event_flag(true).create().unwrap();
    let theirs = Queue::attach(ours.descriptor().unwrap()).unwrap();
    (ours.into_producer(), theirs.into_consumer())
}

/// Traffic without sleepers leaves both bits set: then who looks before waking finds no reason to,
/// and only the fences keep that look and the sleeper's clearing of the bit from missing each
/// other.
fn leave_bits_set(producer: &mut Producer<u64>, consumer: &mut Consumer<u64>) {
    producer.try_push(0).unwrap();
    assert_eq!(consumer.try_pop(), Ok(0));
}

fn a_sleeping_reader_is_woken(ends: fn(usize) -> Ends) {
    loom::model(move || {
        let (mut producer, mut consumer) = ends(1);
        leave_bits_set(&mut producer, &mut consumer);
        let writer = thread::spawn(move || producer.try_push(7).unwrap());
        assert_eq!(consumer.pop(Wait::Block), Ok(7));
        writer.join().unwrap();
    });
}

#[test]
fn a_sleeping_reader_is_woken_by_one_who_looks() {
    a_sleeping_reader_is_woken(looking);
}

#[test]
fn a_sleeping_reader_is_woken_unconditionally() {
    a_sleeping_reader_is_woken(unconditional);
}

fn a_sleeping_writer_is_woken(ends: fn(usize) -> Ends) {
    loom::model(move || {
        let (mut producer, mut consumer) = ends(1);
        leave_bits_set(&mut producer, &mut consumer);
        producer.try_push(1).unwrap();
        let reader = thread::spawn(move || {
            assert_eq!(consumer.try_pop(), Ok(1));
            consumer
        });
        producer.push(2, Wait::Block).unwrap();
        assert_eq!(reader.join().unwrap().try_pop(), Ok(2));
    });
}

#[test]
fn a_sleeping_writer_is_woken_by_one_who_looks() {
    a_sleeping_writer_is_woken(looking);
}

#[test]
fn a_sleeping_writer_is_woken_unconditionally() {
    a_sleeping_writer_is_woken(unconditional);
}

#[test]
fn both_sleep_in_turn_and_none_for_good() {
    loom::model(|| {
        let (mut producer, mut consumer) = looking(1);
        let writer = thread::spawn(move || {
            for item in 1..=2 {
                producer.push(item, Wait::Block).unwrap();
            }
        });
        assert_eq!(consumer.pop(Wait::Block), Ok(1));
        assert_eq!(consumer.pop(Wait::Block), Ok(2));
        writer.join().unwrap();
    });
}

#[test]
fn an_adaptive_reader_is_woken_after_it_gave_up_polling() {
    loom::model(|| {
        let (mut producer, mut consumer) = looking(1);
        let writer = thread::spawn(move || producer.try_push(7).unwrap());
        assert_eq!(consumer.pop(Wait::adaptive(50)), Ok(7));
        writer.join().unwrap();
    });
}

#[test]
fn cancellation_wakes_a_sleeping_reader() {
    loom::model(|| {
        let (_producer, mut consumer) = looking(1);
        let cancel = Cancel::new();
        consumer.set_cancel(&cancel);
        let canceller = thread::spawn(move || cancel.cancel());
        assert_eq!(consumer.pop(Wait::Block), Err(QueueError::Cancelled));
        canceller.join().unwrap();
    });
}

#[test]
fn cancellation_wakes_a_sleeping_writer() {
    loom::model(|| {
        let (mut producer, _consumer) = looking(1);
        producer.try_push(1).unwrap();
        let cancel = Cancel::new();
        producer.set_cancel(&cancel);
        let canceller = thread::spawn(move || cancel.cancel());
        assert_eq!(producer.push(2, Wait::Block), Err(QueueError::Cancelled));
        canceller.join().unwrap();
    });
}

#[test]
fn the_peers_death_wakes_a_sleeping_reader_who_gets_what_came_before() {
    loom::model(|| {
        let (mut producer, mut consumer) = looking(1);
        let peer = PeerWatch::new();
        consumer.set_peer(&peer);
        let dying = thread::spawn(move || {
            producer.try_push(7).unwrap();
            peer.die();
        });
        assert_eq!(consumer.pop(Wait::Block), Ok(7));
        assert_eq!(consumer.pop(Wait::Block), Err(QueueError::PeerDied));
        dying.join().unwrap();
    });
}

#[test]
fn the_watcher_wakes_a_sleeper_who_may_be_cancelled_too() {
    loom::model(|| {
        let (_producer, mut consumer) = looking(1);
        let peer = PeerWatch::new();
        consumer.set_cancel(&Cancel::new());
        consumer.set_peer(&peer);
        let watcher = thread::spawn(move || peer.die());
        assert_eq!(consumer.pop(Wait::Block), Err(QueueError::PeerDied));
        watcher.join().unwrap();
    });
}

#[test]
fn a_watched_reader_is_woken_by_items_as_well() {
    loom::model(|| {
        let (mut producer, mut consumer) = looking(1);
        leave_bits_set(&mut producer, &mut consumer);
        consumer.set_peer(&PeerWatch::new());
        let writer = thread::spawn(move || producer.try_push(7).unwrap());
        assert_eq!(consumer.pop(Wait::Block), Ok(7));
        writer.join().unwrap();
    });
}

#[test]
fn a_death_while_the_peers_bits_come_and_go_is_not_missed() {
    loom::model(|| {
        let (mut producer, mut consumer) = looking(1);
        let peer = PeerWatch::new();
        consumer.set_peer(&peer);
        // A hostile peer clears the bit that another one has set, whenever it likes.
        let flag = producer.event_flag().unwrap();
        let hostile = thread::spawn(move || {
            producer.try_push(7).unwrap();
            let _ = flag.wait(NOT_EMPTY, Some(std::time::Instant::now()));
            peer.die();
        });
        let first = consumer.pop(Wait::Block);
        assert_eq!(first, Ok(7), "what came before the death counts");
        assert_eq!(consumer.pop(Wait::Block), Err(QueueError::PeerDied));
        hostile.join().unwrap();
    });
}

#[test]
fn death_and_cancellation_end_a_wait_for_bits() {
    for by_death in [false, true] {
        loom::model(move || {
            let queue = Queue::<u64>::builder(1).event_flag(true).create().unwrap();
            let mut flag = queue.event_flag().unwrap();
            let (cancel, peer) = (Cancel::new(), PeerWatch::new());
            flag.set_cancel(&cancel);
            flag.set_peer(&peer);
            let raiser = thread::spawn(move || if by_death { peer.die() } else { cancel.cancel() });
            let wanted = if by_death { QueueError::PeerDied } else { QueueError::Cancelled };
            assert_eq!(flag.wait(0x4, None), Err(wanted));
            raiser.join().unwrap();
        });
    }
}

#[test]
fn who_learns_of_a_cancellation_sees_what_came_before_it() {
    loom::model(|| {
        let (mut producer, _consumer) = looking(1);
        producer.try_push(1).unwrap();
        let cancel = Cancel::new();
        let reason = Arc::new(UnsafeCell::new(0));
        let theirs = (cancel.clone(), Arc::clone(&reason));
        let canceller = thread::spawn(move || {
            let (cancel, reason) = theirs;
            // SAFETY: loom panics if anybody else is at the cell.
            reason.with_mut(|reason| unsafe { *reason = 3 });
            cancel.cancel();
        });
        if cancel.is_cancelled() {
            // SAFETY: loom panics if anybody writes the cell.
            assert_eq!(reason.with(|reason| unsafe { *reason }), 3);
        }
        canceller.join().unwrap();
    });
}

#[test]
fn a_bit_of_ones_own_hands_over_what_came_before_it() {
    loom::model(|| {
        let ours = Queue::<u64>::builder(1).event_flag(true).create().unwrap();
        let theirs = ours.event_flag().unwrap();
        let news = Arc::new(AtomicU32::new(0));
        let written = Arc::clone(&news);
        let waker = thread::spawn(move || {
            written.store(5, Ordering::Relaxed);
            ours.event_flag().unwrap().wake(0x4).unwrap();
        });
        assert_eq!(theirs.wait(0x4, None), Ok(0x4));
        assert_eq!(news.load(Ordering::Relaxed), 5);
        waker.join().unwrap();
    });
}
