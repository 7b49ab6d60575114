//! The ring by itself: nobody sleeps.
#![cfg(loom)]

use loom::thread;
use nnburst_fmq::unsync::Writer;
use nnburst_fmq::{Consumer, Producer, Queue, QueueError, Wait};

/// The shipped ring, on loom's atomics; without event flag, so that nothing but the counters hands
/// anything over.
fn pair(capacity: usize) -> (Producer<u64>, Consumer<u64>) {
    Queue::builder(capacity).pair().unwrap()
}

#[test]
fn a_batch_arrives_whole_or_not_at_all() {
    loom::model(|| {
        let (mut producer, mut consumer) = pair(2);
        let writer = thread::spawn(move || producer.try_write(&[7, 8]).unwrap());
        let mut batch = [0; 2];
        match consumer.try_read(&mut batch) {
            Ok(()) => assert_eq!(batch, [7, 8]),
            Err(error) => assert_eq!(error, QueueError::Empty { asked: 2, available: 0 }),
        }
        writer.join().unwrap();
    });
}

#[test]
fn nothing_is_lost_duplicated_or_reordered() {
    loom::model(|| {
        let (mut producer, mut consumer) = pair(1);
        let writer = thread::spawn(move || {
            for item in 1..=2 {
                producer.push(item, Wait::Spin).unwrap();
            }
        });
        assert_eq!(consumer.pop(Wait::Spin), Ok(1));
        assert_eq!(consumer.pop(Wait::Spin), Ok(2));
        assert_eq!(consumer.try_pop(), Err(QueueError::Empty { asked: 1, available: 0 }));
        writer.join().unwrap();
    });
}

#[test]
fn batches_go_round_the_end() {
    loom::model(|| {
        let (mut producer, mut consumer) = pair(3);
        let writer = thread::spawn(move || {
            producer.write(&[1, 2], Wait::Spin).unwrap();
            producer.write(&[3, 4], Wait::Spin).unwrap(); // into the last slot and the first one
        });
        let mut batch = [0; 2];
        for expected in [[1, 2], [3, 4]] {
            consumer.read(&mut batch, Wait::Spin).unwrap();
            assert_eq!(batch, expected);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_transaction_is_seen_when_it_is_committed() {
    loom::model(|| {
        let (mut producer, mut consumer) = pair(2);
        let writer = thread::spawn(move || {
            let mut slots = producer.write_transaction(2).unwrap();
            slots.set(0, 5).unwrap();
            slots.set(1, 6).unwrap();
            slots.commit();
        });
        if let Ok(slots) = consumer.read_transaction(2) {
            assert_eq!([slots.item(0), slots.item(1)], [Ok(5), Ok(6)]);
            slots.commit();
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_consumer_that_attaches_sees_the_items_it_counts() {
    loom::model(|| {
        let queue = Queue::<u64>::builder(2).create().unwrap();
        let descriptor = queue.descriptor().unwrap();
        let mut producer = queue.into_producer();
        let writer = thread::spawn(move || producer.try_write(&[7, 8]).unwrap());
        let mut consumer = Queue::<u64>::attach(descriptor).unwrap().into_consumer();
        let mut batch = [0; 2];
        if consumer.try_read(&mut batch).is_ok() {
            assert_eq!(batch, [7, 8]);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_producer_that_attaches_leaves_unread_items_alone() {
    loom::model(|| {
        let first = Queue::<u64>::builder(1).create().unwrap();
        let [reading, second] = [(); 2].map(|()| first.descriptor().unwrap());
        first.into_producer().try_push(1).unwrap();
        let mut consumer = Queue::<u64>::attach(reading).unwrap().into_consumer();
        let reader = thread::spawn(move || consumer.try_pop());
        // There is room only once the reader is done with the slot: loom sees it if both are at it.
        let pushed = Queue::<u64>::attach(second).unwrap().into_producer().try_push(2);
        assert!(matches!(pushed, Ok(()) | Err(QueueError::Full { .. })));
        assert_eq!(reader.join().unwrap(), Ok(1));
    });
}

#[test]
fn an_overtaken_reader_never_takes_a_new_item_for_an_old_one() {
    loom::model(|| {
        let (mut writer, mut reader) = Queue::<u64>::builder(2).pair_unsync().unwrap();
        let writing = thread::spawn(move || {
            for item in 1..=3 {
                writer.try_push(item).unwrap(); // 3 goes over 1
            }
        });
        let mut next = 1;
        for _ in 0..2 {
            match reader.try_pop() {
                Ok(item) => {
                    assert_eq!(item, next);
                    next += 1;
                }
                Err(QueueError::Lost { lost }) => next += lost,
                Err(error) => assert_eq!(error, QueueError::Empty { asked: 1, available: 0 }),
            }
        }
        writing.join().unwrap();
    });
}

#[test]
fn what_a_dead_writer_has_not_published_is_never_read() {
    loom::model(|| {
        let (mut first, mut reader) = Queue::<u64>::builder(2).pair_unsync().unwrap();
        let descriptor = first.descriptor().unwrap();
        first.try_write(&[0, 1]).unwrap();
        assert_eq!(reader.try_pop(), Ok(0));
        let writers = thread::spawn(move || {
            // Dies in mid batch, over 0 and 1; its successor goes over 0 alone.
            let mut slots = first.write_transaction(2).unwrap();
            slots.copy_from(0, &[98, 99]).unwrap();
            let _ = slots;
            let mut second = Writer::<u64>::attach(descriptor).unwrap();
            second.try_push(2).unwrap();
        });
        let mut next = 1;
        for _ in 0..2 {
            match reader.try_pop() {
                Ok(item) => {
                    assert_eq!(item, next);
                    next += 1;
                }
                Err(QueueError::Lost { lost }) => next += lost,
                Err(error) => assert_eq!(error, QueueError::Empty { asked: 1, available: 0 }),
            }
        }
        writers.join().unwrap();
    });
}
