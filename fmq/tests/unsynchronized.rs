//! The unsynchronised flavour: one writer that overwrites, readers that learn what they lost.
#![expect(clippy::unwrap_used, reason = "a test")]

use nnburst_fmq::testing::HostilePeer;
use nnburst_fmq::unsync::{Reader, Writer};
use nnburst_fmq::{Descriptor, Queue, QueueError, SetupError};

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
fn a_doomed_counter_of_any_value_is_survived() {
    let (mut writer, descriptor) = queue(4);
    let mut reader = reader(&descriptor);
    let hostile = HostilePeer::new(descriptor);
    for doomed in [1, 7, 8, 64, u64::MAX, 1 << 63] {
        writer.try_push(doomed).unwrap();
        hostile.set_read(doomed);
        match reader.try_pop() {
            Ok(item) => assert_eq!(item, doomed),
            Err(QueueError::Lost { lost }) => assert!(lost <= 6, "{lost}"),
            Err(QueueError::Empty { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
