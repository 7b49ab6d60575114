//! The unsynchronised flavour: one writer that overwrites, readers that learn what they lost.
#![expect(clippy::unwrap_used, reason = "a test")]

use nnburst_fmq::testing::{ForeignPeer, HostilePeer};
use nnburst_fmq::unsync::{Reader, Writer};
use nnburst_fmq::{AttachOptions, Descriptor, Queue, QueueError, SetupError};

fn queue(capacity: usize) -> (Writer<u64>, Descriptor) {
    let writer = Queue::<u64>::builder(capacity).create_unsync().unwrap();
    let descriptor = writer.descriptor().unwrap();
    (writer, descriptor)
}

fn reader(descriptor: &Descriptor) -> Reader<u64> {
    Reader::attach(descriptor.try_clone().unwrap()).unwrap()
}

#[test]
fn every_reader_has_a_cursor_of_its_own() {
    let (mut writer, descriptor) = queue(5);
    let (mut slow, mut fast) = (reader(&descriptor), reader(&descriptor));
    writer.try_write(&[1, 2, 3]).unwrap();
    let mut got = [0; 3];
    fast.try_read(&mut got).unwrap();
    assert_eq!(got, [1, 2, 3]);
    assert_eq!(fast.try_pop(), Err(QueueError::Empty { asked: 1, available: 0 }));
    assert_eq!(slow.try_pop(), Ok(1));
    assert_eq!(reader(&descriptor).available_to_read(), Ok(3));
}

#[test]
fn an_overflow_is_reported_and_leaves_the_newer_half() {
    struct Case {
        what: &'static str,
        capacity: usize,
        written: u64,
        lost: u64,
        rest: &'static [u64],
    }
    let cases = [
        Case { what: "just full", capacity: 4, written: 4, lost: 0, rest: &[0, 1, 2, 3] },
        Case { what: "one too many", capacity: 4, written: 5, lost: 3, rest: &[3, 4] },
        Case { what: "several laps", capacity: 4, written: 41, lost: 39, rest: &[39, 40] },
        Case { what: "odd capacity", capacity: 5, written: 6, lost: 4, rest: &[4, 5] },
        Case { what: "a single item keeps none", capacity: 1, written: 2, lost: 2, rest: &[] },
    ];
    for Case { what, capacity, written, lost, rest } in cases {
        let (mut writer, descriptor) = queue(capacity);
        let mut reader = reader(&descriptor);
        (0..written).for_each(|i| writer.try_push(i).unwrap());
        assert!(reader.available_to_read().unwrap() <= capacity, "{what}");
        if lost > 0 {
            assert_eq!(reader.try_pop(), Err(QueueError::Lost { lost }), "{what}");
        }
        let mut got = vec![0; rest.len()];
        reader.try_read(&mut got).unwrap();
        assert_eq!(got, rest, "{what}");
        assert_eq!(reader.available_to_read(), Ok(0), "{what}");
    }
}

#[test]
fn more_than_the_capacity_is_refused_on_both_ends() {
    let (mut writer, descriptor) = queue(3);
    let too_large = Err(QueueError::TooLarge { asked: 4, capacity: 3 });
    assert_eq!(writer.try_write(&[0; 4]), too_large);
    assert_eq!(reader(&descriptor).try_read(&mut [0; 4]), too_large);
}

#[test]
fn a_sealed_queue_can_be_read_but_not_mapped_for_writing() {
    let (mut writer, descriptor) = queue(4);
    writer.seal_future_writes().unwrap();
    writer.try_push(7).unwrap();
    assert_eq!(reader(&descriptor).try_pop(), Ok(7));
    let refused = Writer::<u64>::attach(descriptor);
    assert!(matches!(refused, Err(SetupError::System { call: "mmap", .. })), "{refused:?}");
}

#[test]
fn a_writer_that_is_replaced_goes_on_where_the_last_one_stopped() {
    let (mut writer, descriptor) = queue(3);
    writer.try_write(&[1, 2]).unwrap();
    drop(writer);
    Writer::attach(descriptor.try_clone().unwrap()).unwrap().try_push(3_u64).unwrap();
    let mut got = [0; 3];
    reader(&descriptor).try_read(&mut got).unwrap();
    assert_eq!(got, [1, 2, 3]);
}

#[test]
fn a_batch_that_was_begun_and_never_published_is_never_read() {
    let (mut writer, descriptor) = queue(4);
    let mut reader = reader(&descriptor);
    writer.try_write(&[0, 1, 2, 3]).unwrap();
    assert_eq!(reader.try_pop(), Ok(0));
    let mut slots = writer.write_transaction(3).unwrap();
    slots.copy_from(0, &[99; 3]).unwrap();
    // Over 0, 1 and 2; the writer is replaced, and its successor writes a single item.
    let _ = slots;
    drop(writer);
    Writer::attach(descriptor.try_clone().unwrap()).unwrap().try_push(4_u64).unwrap();
    // A cursor that has passed the one slot that the successor went over.
    assert_eq!(reader.try_pop(), Err(QueueError::Lost { lost: 2 }));
    let mut rest = [0; 2];
    reader.try_read(&mut rest).unwrap();
    assert_eq!(rest, [3, 4]);
}

#[test]
fn the_mark_never_goes_back() {
    struct Case {
        what: &'static str,
        written: u64,
        mark: u64,
        then: u64,
    }
    let cases = [
        Case { what: "a new queue", written: 0, mark: 0, then: 8 },
        Case { what: "an orderly end", written: 9 * 8, mark: 9 * 8, then: 10 * 8 },
        Case { what: "died in mid batch", written: 9 * 8, mark: 12 * 8, then: 12 * 8 },
        Case { what: "died over all", written: 9 * 8, mark: 13 * 8, then: 13 * 8 },
        Case { what: "first lap, died over its end", written: 3 * 8, mark: 6 * 8, then: 6 * 8 },
        Case { what: "a writer's without marks", written: 9 * 8, mark: 0, then: 13 * 8 },
        Case { what: "the same in the first lap", written: 2 * 8, mark: 0, then: 6 * 8 },
        Case { what: "ahead of all", written: 9 * 8, mark: 1 << 60, then: 13 * 8 },
        Case { what: "between items", written: 9 * 8, mark: 10 * 8 + 1, then: 13 * 8 },
    ];
    for Case { what, written, mark, then } in cases {
        let (writer, descriptor) = queue(4);
        drop(writer);
        let memory = HostilePeer::new(descriptor.try_clone().unwrap());
        memory.set_written(written);
        memory.set_read(mark);
        let mut successor = Writer::<u64>::attach(descriptor).unwrap();
        successor.try_push(7).unwrap();
        assert_eq!(memory.counters(), (then, written + 8), "{what}");
    }
}

#[test]
fn transactions_are_taken_back_whole_when_the_writer_overtakes_them() {
    let (mut writer, descriptor) = queue(5);
    let mut reader = reader(&descriptor);
    writer.try_write(&[0, 1, 2]).unwrap();
    reader.try_read(&mut [0; 3]).unwrap();
    let mut slots = writer.write_transaction(4).unwrap();
    assert_eq!(slots.slots().map(|run| run.count()), [2, 2]);
    slots.copy_from(0, &[3, 4, 5, 6]).unwrap();
    assert_eq!(slots.set(4, 7), Err(QueueError::TooLarge { asked: 5, capacity: 4 }));
    slots.truncate(3);
    slots.commit();
    let mut slots = reader.read_transaction(3).unwrap();
    assert_eq!(slots.slots().map(|run| run.count()), [2, 1]);
    assert_eq!([0, 1, 2].map(|i| slots.item(i)), [Ok(3), Ok(4), Ok(5)]);
    slots.truncate(1);
    assert_eq!(slots.commit(), Ok(()));
    let slots = reader.read_transaction(2).unwrap();
    writer.try_write(&[6, 7, 8, 9]).unwrap(); // over 4
    assert_eq!(slots.commit(), Err(QueueError::Lost { lost: 4 }));
    assert_eq!(reader.available_to_read(), Ok(2));
    assert_eq!(
        reader.read_transaction(3).map(drop).unwrap_err(),
        QueueError::Empty { asked: 3, available: 2 }
    );
    assert!(matches!(writer.write_transaction(6).map(drop), Err(QueueError::TooLarge { .. })));
}

#[test]
fn the_owner_can_reset_the_counters() {
    let (mut writer, descriptor) = queue(4);
    (0..9).for_each(|i| writer.try_push(i).unwrap());
    drop(writer);
    let reset = AttachOptions::default().reset_counters(true);
    Writer::<u64>::attach_with(descriptor.try_clone().unwrap(), reset).unwrap();
    assert_eq!(reader(&descriptor).available_to_read(), Ok(0));
    let synchronised = Queue::<u64>::builder(4).create().unwrap();
    let descriptor = synchronised.descriptor().unwrap();
    HostilePeer::new(descriptor.try_clone().unwrap()).set_read(77);
    let refused = Queue::<u64>::attach(descriptor.try_clone().unwrap());
    assert!(matches!(refused, Err(SetupError::Counters { read: 77, .. })), "{refused:?}");
    let (mut producer, mut consumer) = Queue::attach_with(descriptor, reset).unwrap().split();
    producer.try_push(5).unwrap();
    assert_eq!(consumer.try_pop(), Ok(5_u64));
}

#[test]
fn readers_never_see_a_torn_or_reordered_batch() {
    // Batches of three equal numbers, written as fast as can be over a small ring.
    let (mut writer, descriptor) = queue(12);
    let mut reader = reader(&descriptor);
    let last = 200_000;
    let writing =
        std::thread::spawn(move || (1..=last).for_each(|i| writer.try_write(&[i; 3]).unwrap()));
    let (mut seen, mut lost) = (0, 0);
    while seen < last {
        let mut batch = [0; 3];
        match reader.try_read(&mut batch) {
            Ok(()) => {
                assert_eq!(batch, [batch[0]; 3]);
                assert!(batch[0] > seen, "{} after {seen}", batch[0]);
                seen = batch[0];
            }
            Err(QueueError::Lost { lost: more }) => {
                assert_eq!(more % 3, 0);
                lost += more;
            }
            Err(QueueError::Empty { .. }) => std::hint::spin_loop(),
            Err(other) => panic!("{other}"),
        }
    }
    writing.join().unwrap();
    assert!(lost <= last * 3);
}

#[test]
fn a_libfmq_writer_that_marks_its_batches_is_read_whole() {
    let (_writer, descriptor) = queue(4);
    let foreign = ForeignPeer::new(&descriptor);
    let mut reader = reader(&descriptor);
    let bytes =
        |items: &[u64]| items.iter().flat_map(|item| item.to_ne_bytes()).collect::<Vec<_>>();
    for item in 0..20 {
        foreign.begin_overwrite(&bytes(&[item]));
        foreign.commit_overwrite(8);
        assert_eq!(reader.try_pop(), Ok(item));
    }
    foreign.begin_overwrite(&bytes(&[20, 21, 22, 23]));
    foreign.commit_overwrite(32);
    // Begun over 20, and not published.
    foreign.begin_overwrite(&bytes(&[24]));
    assert_eq!(reader.available_to_read(), Ok(4));
    assert_eq!(reader.try_pop(), Err(QueueError::Lost { lost: 2 }));
    assert_eq!(reader.try_pop(), Ok(22));
    foreign.commit_overwrite(8);
    assert_eq!([reader.try_pop(), reader.try_pop()], [Ok(23), Ok(24)]);
}

#[test]
fn a_libfmq_reader_finds_our_marks() {
    let (mut writer, descriptor) = queue(4);
    let foreign = ForeignPeer::new(&descriptor);
    let (mut cursor, mut item) = (0, [0; 8]);
    writer.try_write(&[1, 2, 3, 4]).unwrap();
    assert!(foreign.read_history(&mut cursor, &mut item));
    let mut slots = writer.write_transaction(2).unwrap();
    slots.copy_from(0, &[5, 6]).unwrap();
    // Over 1 and 2: what it reads next isn't vouched for, though nothing new is published.
    assert!(!foreign.read_history(&mut cursor, &mut item));
    assert!(foreign.read_history(&mut cursor, &mut item));
    assert_eq!(u64::from_ne_bytes(item), 3);
    slots.commit();
    for expected in 4..=6 {
        assert!(foreign.read_history(&mut cursor, &mut item));
        assert_eq!(u64::from_ne_bytes(item), expected);
    }
}

#[test]
fn no_batch_of_a_libfmq_writer_that_marks_them_is_torn() {
    let (_writer, descriptor) = queue(12);
    let foreign = ForeignPeer::new(&descriptor);
    let mut reader = reader(&descriptor);
    let last = 100_000_u64;
    let writing = std::thread::spawn(move || {
        for i in 1..=last {
            foreign.begin_overwrite(&[i.to_ne_bytes(); 3].concat());
            foreign.commit_overwrite(24);
        }
    });
    let mut seen = 0;
    while seen < last {
        let mut batch = [0; 3];
        match reader.try_read(&mut batch) {
            Ok(()) => {
                assert_eq!(batch, [batch[0]; 3]);
                seen = batch[0];
            }
            Err(QueueError::Lost { lost }) => assert_eq!(lost % 3, 0),
            Err(QueueError::Empty { .. }) => std::hint::spin_loop(),
            Err(other) => panic!("{other}"),
        }
    }
    writing.join().unwrap();
}

#[test]
fn a_lying_writer_poisons_its_readers_one_by_one() {
    let (_writer, descriptor) = queue(4);
    let mut reader = reader(&descriptor);
    let hostile = HostilePeer::new(descriptor);
    hostile.set_written(12);
    let lied = reader.try_pop();
    assert!(matches!(lied, Err(QueueError::PeerLied(_))), "{lied:?}");
    hostile.set_written(8);
    let poisoned = reader.try_pop();
    assert!(matches!(poisoned, Err(QueueError::Poisoned(_))), "{poisoned:?}");
}

#[test]
fn a_mark_of_any_value_is_survived() {
    let (mut writer, descriptor) = queue(4);
    let mut reader = reader(&descriptor);
    let hostile = HostilePeer::new(descriptor);
    for mark in [1, 7, 8, 64, u64::MAX, 1 << 63] {
        writer.try_push(mark).unwrap();
        hostile.set_read(mark);
        match reader.try_pop() {
            Ok(item) => assert_eq!(item, mark),
            Err(QueueError::Lost { lost }) => assert!(lost <= 6, "{lost}"),
            Err(QueueError::Empty { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
