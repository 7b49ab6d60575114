//! Memory layout and descriptors: what libfmq's side of the memory must find, and what ours refuses
//! to be told.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl, open};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{ftruncate, pipe};
use nnburst_fmq::testing::HostilePeer;
use nnburst_fmq::{
    AidlDescriptor, AidlGrantor, Descriptor, DescriptorData, Flavor, Grantor, Part, Queue,
    RawGrantor, SetupError,
};

type Item = [u8; 24];

fn descriptor() -> Descriptor {
    Queue::<Item>::builder(8).event_flag(true).create().unwrap().descriptor().unwrap()
}

fn memfd(size: u64) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create(c"a user's", flags).unwrap();
    ftruncate(&fd, size.try_into().unwrap()).unwrap();
    fd
}

/// (offset, extent) of each grantor, and the file's size.
fn places(descriptor: &Descriptor) -> (Vec<(u32, u64)>, i64) {
    let grantors = descriptor.data.grantors.iter().map(|g| (g.offset, g.extent)).collect();
    (grantors, fstat(&descriptor.fds[0]).unwrap().st_size)
}

#[test]
fn the_packed_layout_is_libfmqs_byte_for_byte() {
    fn packed<const Q: usize>(capacity: usize) -> (Vec<(u32, u64)>, i64)
    where
        [u8; Q]: bytemuck::Pod,
    {
        let builder = Queue::<[u8; Q]>::builder(capacity).event_flag(true).packed();
        places(&builder.create().unwrap().descriptor().unwrap())
    }
    // The figures are those observed in the real library.
    assert_eq!(packed::<8>(5), (vec![(0, 8), (8, 8), (16, 40), (56, 4)], 4096));
    assert_eq!(packed::<24>(7), (vec![(0, 8), (8, 8), (16, 168), (184, 4)], 4096));
    assert_eq!(packed::<1>(3), (vec![(0, 8), (8, 8), (16, 3), (24, 4)], 4096));
    assert_eq!(packed::<16>(1024), (vec![(0, 8), (8, 8), (16, 16384), (16400, 4)], 20480));
}

#[test]
fn ours_keeps_words_and_ring_on_cache_lines_of_their_own() {
    let (grantors, size) = places(&descriptor());
    assert_eq!((grantors, size), (vec![(0, 8), (128, 8), (384, 192), (256, 4)], 4096));
    let without = Queue::<Item>::builder(8).create().unwrap().descriptor().unwrap();
    assert_eq!(without.data.grantors.len(), 3);
}

#[test]
fn counters_are_bytes_and_the_flag_starts_at_zero() {
    let queue = Queue::<Item>::builder(8).event_flag(true).packed().create().unwrap();
    let memory = HostilePeer::new(queue.descriptor().unwrap());
    assert_eq!((memory.counters(), memory.flag()), ((0, 0), Some(0)));
    let (mut producer, mut consumer) = queue.split();
    producer.try_write(&[[1; 24]; 3]).unwrap();
    consumer.try_pop().unwrap();
    // Who publishes announces: NOT_EMPTY by the producer, NOT_FULL by the consumer.
    assert_eq!((memory.counters(), memory.flag()), ((24, 72), Some(3)));
}

#[test]
fn the_ring_can_lie_in_a_file_of_the_users() {
    let cases = [("exact", 192, true), ("larger", 9000, true), ("too short", 191, false)];
    for (what, size, fits) in cases {
        let queue = Queue::<Item>::builder(8).event_flag(true).ring_in(memfd(size)).create();
        match queue {
            Ok(queue) => {
                assert!(fits, "{what}");
                let descriptor = queue.descriptor().unwrap();
                let (grantors, _) = places(&descriptor);
                assert_eq!(grantors, [(0, 8), (8, 8), (0, 192), (16, 4)], "{what}");
                assert_eq!(descriptor.data.grantors.iter().map(|g| g.fd_index).sum::<u32>(), 1);
                let mut consumer = Queue::<Item>::attach(descriptor).unwrap().into_consumer();
                queue.into_producer().try_push([7; 24]).unwrap();
                assert_eq!(consumer.try_pop(), Ok([7; 24]), "{what}");
            }
            Err(error) => {
                assert!(!fits, "{what}: {error}");
                assert!(matches!(
                    error,
                    SetupError::PastEnd { part: Part::Ring, end: 192, size: 191 }
                ));
            }
        }
    }
}

#[test]
fn new_memory_is_sealed_and_no_peer_can_shorten_it() {
    let descriptor = descriptor();
    let seals = fcntl(&descriptor.fds[0], FcntlArg::F_GET_SEALS).unwrap();
    let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    assert_eq!(seals, fixed.bits());
    assert!(!HostilePeer::new(descriptor).shrink());
}

#[test]
fn a_foreigns_memory_is_sealed_at_attaching() {
    let ours = descriptor();
    let file = memfd(4096);
    let foreign = Descriptor { data: ours.data, fds: vec![file] };
    Queue::<Item>::attach(foreign.try_clone().unwrap()).unwrap();
    assert!(ftruncate(&foreign.fds[0], 0).is_err());
}

/// One thing wrong with a descriptor, and whether an error is about that.
struct Case {
    what: &'static str,
    spoil: fn(&mut Descriptor),
    named: fn(&SetupError) -> bool,
}

fn grantor_error(error: &SetupError, of: Part, name: &str) -> bool {
    matches!(error, SetupError::Grantor { part, field, .. } if *part == of && *field == name)
}

const CORRUPT: &[Case] = &[
    Case {
        what: "another item size",
        spoil: |d| d.data.quantum = 8,
        named: |e| matches!(e, SetupError::Quantum { theirs: 8, ours: 24 }),
    },
    Case {
        what: "items of no size",
        spoil: |d| d.data.quantum = 0,
        named: |e| matches!(e, SetupError::Quantum { theirs: 0, ours: 24 }),
    },
    Case {
        what: "the other flavour",
        spoil: |d| d.data.flags = Flavor::Unsynchronized as u32,
        named: |e| matches!(e, SetupError::Flavor { flags: 2, wanted: 1 }),
    },
    Case {
        what: "no such flavour",
        spoil: |d| d.data.flags = 3,
        named: |e| matches!(e, SetupError::Flavor { flags: 3, wanted: 1 }),
    },
    Case {
        what: "two grantors",
        spoil: |d| d.data.grantors.truncate(2),
        named: |e| matches!(e, SetupError::Grantors { count: 2 }),
    },
    Case {
        what: "no files",
        spoil: |d| d.fds.clear(),
        named: |e| grantor_error(e, Part::EventFlag, "fd index"),
    },
    Case {
        what: "a file that is not there",
        spoil: |d| d.data.grantors[2].fd_index = 1,
        named: |e| grantor_error(e, Part::Ring, "fd index"),
    },
    Case {
        what: "a file index that is negative elsewhere",
        spoil: |d| d.data.grantors[0].fd_index = u32::MAX,
        named: |e| grantor_error(e, Part::ReadCounter, "fd index"),
    },
    Case {
        what: "a crooked counter",
        spoil: |d| d.data.grantors[1].offset = 132,
        named: |e| grantor_error(e, Part::WriteCounter, "offset"),
    },
    Case {
        what: "a crooked flag",
        spoil: |d| d.data.grantors[3].offset = 260,
        named: |e| grantor_error(e, Part::EventFlag, "offset"),
    },
    Case {
        what: "an absurd offset",
        spoil: |d| d.data.grantors[2].offset = u32::MAX - 7,
        named: |e| grantor_error(e, Part::Ring, "offset"),
    },
    Case {
        what: "a short counter",
        spoil: |d| d.data.grantors[0].extent = 7,
        named: |e| grantor_error(e, Part::ReadCounter, "extent"),
    },
    Case {
        what: "a short flag",
        spoil: |d| d.data.grantors[3].extent = 3,
        named: |e| grantor_error(e, Part::EventFlag, "extent"),
    },
    Case {
        what: "an empty ring",
        spoil: |d| d.data.grantors[2].extent = 0,
        named: |e| grantor_error(e, Part::Ring, "extent"),
    },
    Case {
        what: "a ring of 7.9 items",
        spoil: |d| d.data.grantors[2].extent = 191,
        named: |e| grantor_error(e, Part::Ring, "extent"),
    },
    Case {
        what: "an extent that overflows",
        spoil: |d| d.data.grantors[2].extent = u64::MAX,
        named: |e| grantor_error(e, Part::Ring, "extent"),
    },
    Case {
        what: "a ring past the file's end",
        spoil: |d| d.data.grantors[2].extent = 24 * 155,
        named: |e| matches!(e, SetupError::PastEnd { part: Part::Ring, end: 4104, size: 4096 }),
    },
    Case {
        what: "a flag past the file's end",
        spoil: |d| d.data.grantors[3].offset = 4096,
        named: |e| matches!(e, SetupError::PastEnd { part: Part::EventFlag, .. }),
    },
    Case {
        what: "both counters in one place",
        spoil: |d| d.data.grantors[1].offset = 0,
        named: |e| matches!(e, SetupError::Overlap { .. }),
    },
    Case {
        what: "a flag within the ring",
        spoil: |d| d.data.grantors[3].offset = 384,
        named: |e| matches!(e, SetupError::Overlap { .. }),
    },
    Case {
        what: "parts that overlap through two descriptors of one file",
        spoil: |d| {
            let again = d.fds[0].try_clone().unwrap();
            d.fds.push(again);
            d.data.grantors[3] = Grantor { flags: 0, fd_index: 1, offset: 384, extent: 4 };
        },
        named: |e| matches!(e, SetupError::Overlap { .. }),
    },
    Case {
        what: "a file without sealing",
        spoil: |d| {
            d.fds[0] = memfd_create(c"unsealable", MFdFlags::MFD_CLOEXEC).unwrap();
            ftruncate(&d.fds[0], 4096).unwrap();
        },
        named: |e| matches!(e, SetupError::Unsealed { .. }),
    },
    Case {
        what: "a file that can't be mapped",
        spoil: |d| d.fds[0] = pipe().unwrap().0,
        named: |e| matches!(e, SetupError::Unsealed { .. }),
    },
    Case {
        what: "a counter between two items",
        spoil: |d| HostilePeer::new(d.try_clone().unwrap()).set_written(23),
        named: |e| matches!(e, SetupError::Counters { written: 23, .. }),
    },
    Case {
        what: "more written than the ring holds",
        spoil: |d| HostilePeer::new(d.try_clone().unwrap()).set_written(216),
        named: |e| matches!(e, SetupError::Counters { written: 216, ring_bytes: 192, .. }),
    },
    Case {
        what: "more read than written",
        spoil: |d| HostilePeer::new(d.try_clone().unwrap()).set_read(24),
        named: |e| matches!(e, SetupError::Counters { read: 24, written: 0, .. }),
    },
];

#[test]
fn whatever_is_wrong_with_a_descriptor_is_named() {
    for Case { what, spoil, named } in CORRUPT {
        let mut descriptor = descriptor();
        spoil(&mut descriptor);
        let error = Queue::<Item>::attach(descriptor).expect_err(what);
        assert!(named(&error), "{what}: {error}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn files_that_are_no_memory_are_refused_however_much_is_allowed() {
    let opened = |path: &str, flags| open(path, flags | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
    let eventfd = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
    let cases = [
        ("a pipe", pipe().unwrap().0),
        ("an eventfd", eventfd.into()),
        ("a directory", opened("/", OFlag::O_DIRECTORY)),
        ("a path", opened("/proc/self/exe", OFlag::O_PATH)),
        ("a device", opened("/dev/null", OFlag::O_RDWR)),
        ("a file of the kernel's", opened("/proc/self/maps", OFlag::O_RDONLY)),
        ("our own program, to be read only", opened("/proc/self/exe", OFlag::O_RDONLY)),
    ];
    for (what, file) in cases {
        let mut descriptor = descriptor();
        descriptor.fds[0] = file;
        for allow in [false, true] {
            let options = nnburst_fmq::AttachOptions::default().allow_unsealed(allow);
            let descriptor = descriptor.try_clone().unwrap();
            let error = Queue::<Item>::attach_with(descriptor, options).expect_err(what);
            let fits = match error {
                SetupError::Unsealed { .. } => !allow,
                SetupError::PastEnd { .. } | SetupError::System { .. } => allow,
                _ => false,
            };
            assert!(fits, "{what}: {error}");
        }
    }
}

#[test]
fn grantors_past_the_fourth_and_long_words_are_ignored() {
    let mut descriptor = descriptor();
    descriptor.data.grantors.push(Grantor { fd_index: 77, ..Grantor::default() });
    descriptor.data.grantors[0].extent = 64;
    Queue::<Item>::attach(descriptor).unwrap();
}

#[test]
fn attaching_and_refusing_leak_no_descriptors() {
    fn open() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }
    // Other tests of this process open files too: look for the trend, not the number.
    let before = open();
    for Case { spoil, .. } in CORRUPT.iter().cycle().take(600) {
        let mut descriptor = descriptor();
        spoil(&mut descriptor);
        drop(Queue::<Item>::attach(descriptor));
    }
    assert!(open() < before + 300);
}

#[test]
fn impossible_sizes_are_refused_before_anything_is_allocated() {
    let refused = |capacity| Queue::<Item>::builder(capacity).create().unwrap_err();
    assert!(matches!(refused(0), SetupError::NoCapacity));
    assert!(matches!(refused(usize::MAX), SetupError::TooLarge { bytes: u64::MAX, .. }));
    assert!(matches!(refused(1 << 31), SetupError::TooLarge { .. }));
    let nothing = Queue::<()>::builder(1).create().unwrap_err();
    assert!(matches!(nothing, SetupError::ItemSize { bytes: 0 }));
}

#[test]
fn descriptors_go_to_aidl_and_back() {
    for flavor in [Flavor::Synchronized, Flavor::Unsynchronized] {
        let mut descriptor = descriptor();
        descriptor.data.flags = flavor as u32;
        let data = descriptor.data.clone();
        let aidl = descriptor.into_aidl().unwrap();
        assert_eq!(aidl.grantors[1], AidlGrantor { fd_index: 0, offset: 128, extent: 8 });
        assert_eq!((aidl.quantum, aidl.flags, aidl.fds.len()), (24, flavor as i32, 1));
        assert_eq!(Descriptor::from_aidl(aidl).unwrap().data, data);
    }
}

#[test]
fn what_a_form_cannot_say_is_refused() {
    type Spoil = fn(&mut AidlDescriptor);
    let cases: [(&str, Spoil); 5] = [
        ("fd index", |d| d.grantors[0].fd_index = -1),
        ("offset", |d| d.grantors[1].offset = -8),
        ("extent", |d| d.grantors[2].extent = -1),
        ("quantum", |d| d.quantum = -24),
        ("flags", |d| d.flags = -1),
    ];
    for (what, spoil) in cases {
        let mut aidl = descriptor().into_aidl().unwrap();
        spoil(&mut aidl);
        assert!(Descriptor::from_aidl(aidl).is_err(), "{what}");
    }
    let mut hidl = descriptor();
    hidl.data.grantors[2].offset = u32::MAX;
    assert!(hidl.into_aidl().is_err());
}

#[test]
fn a_raw_grantor_is_libfmqs_24_bytes() {
    let grantor = Grantor { flags: 1, fd_index: 2, offset: 3, extent: 4 };
    let raw = RawGrantor::from(grantor);
    let words: [u32; 6] = bytemuck::cast(raw);
    assert_eq!(words, [1, 2, 3, 0, 4, 0]);
    assert_eq!(Grantor::from(raw), grantor);
    assert_eq!(DescriptorData::default().grantors, []);
}
