//! The synchronised flavour as its users see it: one end in this thread, the other attached through
//! a descriptor.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_fmq::{
    AttachOptions, Cancel, Consumer, Descriptor, PeerWatch, Producer, Queue, QueueError,
    SetupError, Wait,
};

/// A guard against a hang, never a measure of speed.
const HANG: Duration = Duration::from_secs(60);

fn ends<T: bytemuck::Pod>(capacity: usize, event_flag: bool) -> (Producer<T>, Consumer<T>) {
    let queue = Queue::<T>::builder(capacity).event_flag(event_flag).create().unwrap();
    let consumer = Queue::attach(queue.descriptor().unwrap()).unwrap().into_consumer();
    (queue.into_producer(), consumer)
}

const STRATEGIES: [Wait; 3] = [Wait::Spin, Wait::Block, Wait::adaptive(20)];

#[test]
fn items_come_out_in_order_for_odd_sizes_and_capacities() {
    fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(
        capacity: usize,
        item: impl Fn(u8) -> T,
    ) {
        let (mut producer, mut consumer) = ends::<T>(capacity, true);
        let mut values = (0..=u8::MAX).cycle();
        for batch in (1..=capacity).cycle().take(100) {
            let items: Vec<T> = values.by_ref().take(batch).map(&item).collect();
            producer.try_write(&items).unwrap();
            assert_eq!(consumer.available_to_read().unwrap(), batch);
            let mut got = vec![T::zeroed(); batch];
            consumer.try_read(&mut got).unwrap();
            assert_eq!(got, items);
        }
    }
    check::<u8>(3, |i| i);
    check::<u64>(5, |i| u64::from(i) << 40);
    check::<[u8; 3]>(7, |i| [i, 1, 2]);
    check::<[u32; 3]>(4, |i| [i.into(), 1, 2]);
    check::<u128>(6, |i| u128::from(i) << 100);
    check::<[u64; 3]>(7, |i| [i.into(), 1, 2]);
    check::<[u64; 33]>(3, |i| [i.into(); 33]);
}

#[test]
fn batches_are_all_or_nothing() {
    let (mut producer, mut consumer) = ends::<u32>(4, false);
    producer.try_write(&[1, 2, 3]).unwrap();
    assert_eq!(producer.try_write(&[4, 5]), Err(QueueError::Full { asked: 2, free: 1 }));
    assert_eq!(producer.try_write(&[0; 5]), Err(QueueError::TooLarge { asked: 5, capacity: 4 }));
    assert_eq!(consumer.try_read(&mut [0; 4]), Err(QueueError::Empty { asked: 4, available: 3 }));
    assert_eq!(consumer.try_read(&mut [0; 5]), Err(QueueError::TooLarge { asked: 5, capacity: 4 }));
    assert_eq!((producer.try_write(&[]), consumer.try_read(&mut [])), (Ok(()), Ok(())));
    let mut got = [0; 3];
    consumer.try_read(&mut got).unwrap();
    assert_eq!(got, [1, 2, 3]);
}

#[test]
fn every_strategy_moves_items_both_ways() {
    for strategy in STRATEGIES {
        let (mut to, mut from_them) = ends::<u64>(3, true);
        let (mut to_us, mut from) = ends::<u64>(3, true);
        let echo = std::thread::spawn(move || {
            for _ in 0..500 {
                let item = from_them.pop(strategy.within(HANG)).unwrap();
                to_us.push(item, strategy.within(HANG)).unwrap();
            }
        });
        for i in 0..500 {
            to.push(i, strategy.within(HANG)).unwrap();
            assert_eq!(from.pop(strategy.within(HANG)), Ok(i), "{strategy:?}");
        }
        echo.join().unwrap();
    }
}

#[test]
fn a_writer_waits_for_room_in_every_strategy() {
    for strategy in STRATEGIES {
        let (mut producer, mut consumer) = ends::<u64>(2, true);
        let writer = std::thread::spawn(move || {
            (0..1000).try_for_each(|i| producer.write(&[i], strategy.within(HANG)))
        });
        for i in 0..1000 {
            assert_eq!(consumer.pop(strategy.within(HANG)), Ok(i), "{strategy:?}");
        }
        writer.join().unwrap().unwrap();
    }
}

#[test]
fn deadlines_end_waits_and_the_past_tries_once() {
    for strategy in STRATEGIES {
        let (mut producer, mut consumer) = ends::<u64>(2, true);
        let soon = strategy.within(Duration::from_millis(5));
        assert_eq!(consumer.pop(soon), Err(QueueError::TimedOut), "{strategy:?}");
        let past = strategy.until(Instant::now());
        assert_eq!(consumer.pop(past), Err(QueueError::TimedOut), "{strategy:?}");
        producer.write(&[1, 2], past).unwrap();
        assert_eq!(producer.push(3, past), Err(QueueError::TimedOut), "{strategy:?}");
        assert_eq!(consumer.pop(past), Ok(1), "{strategy:?}");
    }
}

#[test]
fn cancelling_wakes_every_strategy() {
    for strategy in STRATEGIES {
        let (_producer, mut consumer) = ends::<u64>(2, true);
        let cancel = Cancel::new();
        consumer.set_cancel(&cancel);
        let waiter = std::thread::spawn(move || (consumer.pop(strategy.within(HANG)), consumer));
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        let (result, mut consumer) = waiter.join().unwrap();
        assert_eq!(result, Err(QueueError::Cancelled), "{strategy:?}");
        cancel.reset();
        let past = strategy.until(Instant::now());
        assert_eq!(consumer.pop(past), Err(QueueError::TimedOut), "{strategy:?}");
    }
}

#[test]
fn a_hang_up_ends_waits_but_not_what_was_published() {
    for strategy in STRATEGIES {
        let (mut producer, mut consumer) = ends::<u64>(2, true);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let watch = PeerWatch::connection(Arc::new(ours)).unwrap();
        consumer.set_peer(&watch);
        producer.try_push(7).unwrap();
        let waiter = std::thread::spawn(move || {
            (consumer.pop(strategy.within(HANG)), consumer.pop(strategy.within(HANG)))
        });
        std::thread::sleep(Duration::from_millis(20));
        drop(theirs);
        let results = waiter.join().unwrap();
        assert_eq!(results, (Ok(7), Err(QueueError::PeerDied)), "{strategy:?}");
        assert!(watch.is_dead());
    }
}

#[test]
fn a_killed_process_ends_waits() {
    for strategy in STRATEGIES {
        let (mut producer, mut consumer) = ends::<u64>(1, true);
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let watch = PeerWatch::process(child.id()).unwrap();
        consumer.set_peer(&watch);
        producer.set_peer(&watch);
        let waiter = std::thread::spawn(move || consumer.pop(strategy.within(HANG)));
        std::thread::sleep(Duration::from_millis(20));
        child.kill().unwrap();
        assert_eq!(waiter.join().unwrap(), Err(QueueError::PeerDied), "{strategy:?}");
        // The room that was there from the start is filled without a look; then one has to wait.
        assert_eq!(producer.push(1, strategy), Ok(()), "{strategy:?}");
        assert_eq!(producer.push(1, strategy), Err(QueueError::PeerDied), "{strategy:?}");
        child.wait().unwrap();
    }
}

#[test]
fn a_stream_that_never_waits_is_cancelled_within_a_ring() {
    let (mut producer, mut consumer) = ends::<u64>(4, true);
    let cancel = Cancel::new();
    producer.set_cancel(&cancel);
    consumer.set_cancel(&cancel);
    producer.try_write(&[1, 2, 3]).unwrap();
    assert_eq!(consumer.pop(Wait::Spin), Ok(1));
    cancel.cancel();
    let read: Vec<_> = (0..3).map(|_| consumer.pop(Wait::Spin)).collect();
    assert_eq!(read, [Ok(2), Ok(3), Err(QueueError::Cancelled)]);
    let written: Vec<_> = (0..2).map(|i| producer.push(i, Wait::Spin)).collect();
    assert_eq!(written, [Ok(()), Err(QueueError::Cancelled)], "though there is room for more");
}

#[test]
fn a_connection_is_watched_as_often_as_one_likes() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    let watches = [(); 3].map(|()| PeerWatch::connection(Arc::clone(&ours)).unwrap());
    let [first, kept @ ..] = watches;
    drop(first); // and the others go on
    let (_producer, mut consumer) = ends::<u64>(2, true);
    for watch in &kept {
        assert!(!watch.is_dead());
        consumer.set_peer(watch);
    }
    drop(theirs);
    assert_eq!(consumer.pop(Wait::Block.within(HANG)), Err(QueueError::PeerDied));
    drop(PeerWatch::connection(ours).unwrap());
}

#[test]
fn an_idle_end_that_is_watched_sleeps_without_waking() {
    let (producer, mut consumer) = ends::<u64>(2, true);
    let (ours, theirs) = UnixStream::pair().unwrap();
    consumer.set_peer(&PeerWatch::connection(ours).unwrap());
    consumer.set_cancel(&Cancel::new());
    let mut flag = producer.event_flag().unwrap();
    flag.set_peer(&PeerWatch::connection(theirs.try_clone().unwrap()).unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let waits: [Box<dyn FnOnce() -> Result<(), QueueError> + Send>; 2] = [
        Box::new(move || consumer.pop(Wait::Block.within(HANG)).map(drop)),
        Box::new(move || flag.wait(1 << 9, Some(Instant::now() + HANG)).map(drop)),
    ];
    let sleepers = waits.map(|wait| {
        let tell = tell.clone();
        std::thread::spawn(move || {
            tell.send(nix::unistd::gettid()).unwrap();
            wait()
        })
    });
    let threads = [(); 2].map(|()| told.recv().unwrap());
    // On a loaded machine the threads may still be on their way to sleep: then once more.
    let quiet = (0..20).any(|_| {
        let before = threads.map(sleeps_of);
        std::thread::sleep(Duration::from_millis(500));
        threads.map(sleeps_of) == before
    });
    theirs.shutdown(std::net::Shutdown::Both).unwrap();
    drop(theirs);
    for sleeper in sleepers {
        assert_eq!(sleeper.join().unwrap(), Err(QueueError::PeerDied));
    }
    assert!(quiet, "the threads keep going to sleep again, so they are awake in between");
    drop(producer);
}

/// Returns how often a thread of this process has given up its processor of its own accord.
fn sleeps_of(thread: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn sleeping_needs_an_event_flag_and_polling_does_not() {
    let (_producer, mut consumer) = ends::<u64>(1, false);
    assert_eq!(consumer.pop(Wait::Block), Err(QueueError::NoEventFlag));
    let past = Wait::Spin.until(Instant::now());
    assert_eq!(consumer.pop(past), Err(QueueError::TimedOut));
}

#[test]
fn an_end_that_is_replaced_goes_on_where_the_last_one_stopped() {
    let queue = Queue::<u32>::builder(5).create().unwrap();
    let descriptor = queue.descriptor().unwrap();
    let attach =
        |descriptor: &Descriptor| Queue::<u32>::attach(descriptor.try_clone().unwrap()).unwrap();
    queue.into_producer().try_write(&[1, 2, 3]).unwrap();
    assert_eq!(attach(&descriptor).into_consumer().try_pop(), Ok(1));
    attach(&descriptor).into_producer().try_write(&[4, 5, 6]).unwrap();
    let mut rest = [0; 5];
    attach(&descriptor).into_consumer().try_read(&mut rest).unwrap();
    assert_eq!(rest, [2, 3, 4, 5, 6]);
}

#[test]
fn a_file_that_can_shrink_is_refused_unless_allowed() {
    let queue = Queue::<u32>::builder(4).create().unwrap();
    let mut descriptor = queue.descriptor().unwrap();
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    let unsealable = nix::sys::memfd::memfd_create(c"unsealable", flags).unwrap();
    nix::unistd::ftruncate(&unsealable, 4096).unwrap();
    descriptor.fds = vec![unsealable];
    let refused = Queue::<u32>::attach(descriptor.try_clone().unwrap());
    assert!(matches!(refused, Err(SetupError::Unsealed { .. })), "{refused:?}");
    let options = AttachOptions::default().allow_unsealed(true);
    Queue::<u32>::attach_with(descriptor, options).unwrap();
}

#[test]
fn transactions_publish_what_was_begun_and_no_more() {
    let (mut producer, mut consumer) = ends::<u32>(5, false);
    producer.try_write(&[0; 3]).unwrap();
    consumer.try_read(&mut [0; 3]).unwrap();
    let mut slots = producer.write_transaction(4).unwrap();
    slots.copy_from(0, &[1, 2, 3, 4]).unwrap();
    let full = slots.set(4, 5);
    assert_eq!(full, Err(QueueError::TooLarge { asked: 5, capacity: 4 }));
    assert_eq!(slots.slots().map(|run| run.count()), [2, 2]);
    slots.truncate(3);
    slots.commit();
    drop(producer.write_transaction(2).unwrap());
    let slots = consumer.read_transaction(3).unwrap();
    assert_eq!((0..3).map(|i| slots.item(i).unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(slots.item(3).is_err());
    slots.commit();
    assert_eq!(consumer.available_to_read(), Ok(0));
}
