//! The queue in private memory, between two threads: no file and no second process, so that Miri
//! and ThreadSanitizer can watch. (`cargo xtask miri`, `cargo xtask tsan`)

use std::thread;

use nnburst_fmq::{Cancel, Queue, QueueError, Wait};

/// Miri takes a thousand times as long.
const ITEMS: u64 = if cfg!(miri) { 60 } else { 50_000 };

#[test]
fn items_arrive_in_order_one_by_one() {
    for wait in [Wait::Spin, Wait::Block, Wait::adaptive(20)] {
        let (mut producer, mut consumer) =
            Queue::<u64>::builder(7).event_flag(true).pair().unwrap();
        let writer = thread::spawn(move || {
            for item in 0..ITEMS {
                producer.push(item, wait).unwrap();
            }
        });
        for item in 0..ITEMS {
            assert_eq!(consumer.pop(wait), Ok(item), "{wait:?}");
        }
        writer.join().unwrap();
    }
}

#[test]
fn batches_of_odd_sizes_stay_whole() {
    let (mut producer, mut consumer) = Queue::<[u8; 3]>::builder(11).pair().unwrap();
    let rounds = u8::try_from(ITEMS.min(200)).unwrap();
    let writer = thread::spawn(move || {
        for round in 0..rounds {
            let batch = vec![[round; 3]; usize::from(round % 11) + 1];
            producer.write(&batch, Wait::Spin).unwrap();
        }
    });
    for round in 0..rounds {
        let mut batch = vec![[0; 3]; usize::from(round % 11) + 1];
        consumer.read(&mut batch, Wait::Spin).unwrap();
        assert!(batch.iter().all(|item| *item == [round; 3]), "round {round}: {batch:?}");
    }
    writer.join().unwrap();
}

#[test]
fn transactions_meet_at_the_rings_end() {
    let (mut producer, mut consumer) = Queue::<u64>::builder(5).pair().unwrap();
    for round in 0..20 {
        let mut slots = producer.write_transaction(3).unwrap();
        slots.copy_from(0, &[round, round + 1]).unwrap();
        slots.set(2, round + 2).unwrap();
        slots.commit();
        let slots = consumer.read_transaction(3).unwrap();
        let mut items = [0; 3];
        slots.copy_to(0, &mut items).unwrap();
        slots.commit();
        assert_eq!(items, [round, round + 1, round + 2]);
    }
}

#[test]
fn cancellation_ends_a_sleep() {
    let (_producer, mut consumer) = Queue::<u64>::builder(1).event_flag(true).pair().unwrap();
    let cancel = Cancel::new();
    consumer.set_cancel(&cancel);
    let sleeper = thread::spawn(move || consumer.pop(Wait::Block));
    cancel.cancel();
    assert_eq!(sleeper.join().unwrap(), Err(QueueError::Cancelled));
}
