//! Clients that keep to no rule: the driver answers others as before, and nothing of them stays.

use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nnburst_hal::testing::{model_mutations, request_mutations};
use nnburst_hal::*;

use crate::processes::{Footprint, connect, start};
use crate::support::*;

const MESSAGES: u32 = 10_000;

/// Good messages, a name and bytes in each line: what hostile ones are made from.
const GOLDEN: &str = include_str!("../../../hal-ipc/src/wire/golden.txt");

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let count = self.below(most + 1);
        (0..count).map(|_| self.next() as u8).collect()
    }
}

fn golden() -> Vec<Vec<u8>> {
    let bytes = |line: &str| {
        let hex = line.split_once(' ').unwrap().1;
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    };
    GOLDEN.lines().map(bytes).collect()
}

pub(crate) fn frame(bytes: u32, descriptors: u16, kind: u8, id: u64) -> Vec<u8> {
    let mut header = bytes.to_le_bytes().to_vec();
    header.extend(descriptors.to_le_bytes());
    header.extend([kind, 0]);
    header.extend(id.to_le_bytes());
    header
}

pub(crate) fn send(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let numbers: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if fds.is_empty() { &[][..] } else { &rights };
    let (parts, flags) = ([IoSlice::new(bytes)], MsgFlags::MSG_NOSIGNAL);
    // The driver may have hung up already, as it should on some of these.
    let _ = sendmsg::<()>(socket.as_raw_fd(), &parts, control, flags, None);
}

/// One message of a kind that the dice choose.
fn attack(socket: &UnixStream, dice: &mut Dice, golden: &[Vec<u8>], memory: &Memory) {
    let id = dice.next() % 8;
    let mut message = golden[dice.below(golden.len())].clone();
    for _ in 0..dice.below(4) {
        let at = dice.below(message.len());
        message[at] = dice.next() as u8;
    }
    if dice.below(4) == 0 {
        message.truncate(dice.below(message.len()));
    }
    if dice.below(4) == 0 {
        message.extend(dice.bytes(64));
    }
    let whole = |kind, message: &[u8]| {
        [frame(message.len() as u32, 0, kind, id), message.to_vec()].concat()
    };
    match dice.below(16) {
        0 => send(socket, &whole(1, &dice.bytes(300)), &[]),
        1 => send(socket, &frame(u32::MAX, 0, 1, id), &[]),
        2 => send(socket, &frame(60 << 20, 0, 1, id), &[]),
        3 => send(socket, &whole(dice.next() as u8, &message), &[]),
        4 => send(socket, &dice.bytes(200), &[]),
        5 => send(socket, &whole(2, &message), &[]),
        6 => send(socket, &whole(3, &message), &[]),
        7 => {
            // Descriptors that the header doesn't speak of, or fewer than it says.
            let said = dice.below(4) as u16;
            let frame = [frame(message.len() as u32, said, 1, id), message].concat();
            send(socket, &frame, &[memory.fd(), memory.fd()]);
        }
        8..12 => {
            let frame = [frame(message.len() as u32, 2, 1, id), message].concat();
            send(socket, &frame, &[memory.fd(), socket.as_fd()]);
        }
        _ => send(socket, &whole(1, &message), &[]),
    }
}

#[test]
fn ten_thousand_hostile_messages_leave_the_driver_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("driver", dir.path());
    let pid = driver.0.id();
    let device = connect(dir.path());
    let model = prepare(&device, add_one(&[2])).unwrap();
    let check = || {
        let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
        let request = request(&input, &output);
        model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        assert_eq!(as_floats(&output), [2.0, 3.0]);
    };
    let (mut dice, golden) = (Dice(0x9E37_79B9_7F4A_7C15), golden());
    let path = dir.path().join(format!("{CPU}.sock"));
    let memory = Memory::ashmem(300).unwrap();
    // Some to begin with: what the driver's allocator keeps for good is there after these.
    hostile_messages(&path, MESSAGES, &mut dice, &golden, &memory);
    check();
    let before = at_rest(pid);
    let rss = resident(pid);
    hostile_messages(&path, MESSAGES, &mut dice, &golden, &memory);
    check();
    eventually("nothing of them is left", || {
        std::thread::sleep(Duration::from_millis(20));
        let now = Footprint::of(pid);
        now.descriptors <= before.descriptors
            && now.shared_maps <= before.shared_maps
            && now.threads <= before.threads
    });
    let grown = resident(pid).saturating_sub(rss);
    println!("resident memory: {rss} KiB, then {grown} KiB more");
    assert!(grown < 8 << 10, "resident memory has grown by {grown} KiB");
}

fn hostile_messages(path: &Path, count: u32, dice: &mut Dice, golden: &[Vec<u8>], memory: &Memory) {
    let mut sent = 0;
    while sent < count {
        let mut socket = UnixStream::connect(path).unwrap();
        let greeting: &[u8] = match dice.below(20) {
            0 => b"GET / HTTP/1.1\r\n",
            1 => b"NNBURST\0\x09\0\0\0\0\0\0\0",
            _ => &GREETING,
        };
        socket.write_all(greeting).unwrap();
        socket.set_read_timeout(Some(HUNG)).unwrap();
        let _ = socket.read(&mut [0; 16]);
        for _ in 0..=dice.below(25) {
            attack(&socket, dice, golden, memory);
            sent += 1;
        }
    }
}

/// Waits for the threads that served one who left.
fn at_rest(pid: u32) -> Footprint {
    let mut before = Footprint::of(pid);
    eventually("the driver is at rest", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = Footprint::of(pid);
        // Main, test, acceptor, our session, the watchdog of our model.
        let rests = now == before && now.threads <= 5;
        before = now;
        rests
    });
    before
}

/// In KiB.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn every_mutation_of_a_model_is_refused_over_the_socket() {
    let served = served(CPU);
    let device = &served.device;
    let mut count = 0;
    for model in [add_one(&[2, 3]), relu(OperandType::TensorQuant8Asymm, &[2])] {
        for mutation in model_mutations(&model, Version::V1_3) {
            let what = &mutation.what;
            let asked = device.supported_operations(&mutation.model).map_err(|error| error.status);
            assert_eq!(asked, Err(ErrorStatus::InvalidArgument), "{what}");
            let prepared = prepare(device, mutation.model).map(drop).unwrap_err();
            assert_eq!(prepared.status, ErrorStatus::InvalidArgument, "{what}");
            count += 1;
        }
        prepare(device, model).unwrap();
    }
    assert!(count > 50, "{count} mutations");
}

#[test]
fn every_mutation_of_a_request_is_refused_over_the_socket() {
    let served = served(CPU);
    let graph = add_one(&[2, 3]);
    let model = prepare(&served.device, graph.clone()).unwrap();
    let (input, output) = (floats(&[0.0; 6]), floats(&[0.0; 6]));
    let good = request(&input, &output);
    let options = ExecutionOptions::default();
    for mutation in request_mutations(&good, &graph) {
        let what = &mutation.what;
        let refused = |result: ExecutionResult| {
            assert_eq!(result.unwrap_err().error.status, ErrorStatus::InvalidArgument, "{what}");
        };
        refused(model.execute_synchronously(&mutation.request, options));
        refused(execute_async(model.as_ref(), &mutation.request, options));
        let fenced = model.execute_fenced(mutation.request, Vec::new(), options, None);
        assert_eq!(fenced.map(drop).unwrap_err().status, ErrorStatus::InvalidArgument, "{what}");
    }
    model.execute_synchronously(&good, options).unwrap();
}

/// A client of its own making: ours refuses such memory before it is sent.
#[test]
fn memories_of_huge_pages_are_refused_over_the_socket() {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    const FDS: u16 = 2;
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_HUGETLB;
    let huge = memfd_create(c"huge", flags).expect("a kernel with huge pages");
    nix::unistd::ftruncate(&huge, 4 << 20).unwrap();
    let call = GOLDEN.lines().position(|line| line.starts_with("execute_synchronously "));
    let message = golden().swap_remove(call.expect("a golden execution"));
    let served = served(CPU);
    let mut socket = UnixStream::connect(served.path()).unwrap();
    socket.set_read_timeout(Some(HUNG)).unwrap();
    socket.write_all(&GREETING).unwrap();
    socket.read_exact(&mut [0; 16]).unwrap();
    let bytes = [frame(message.len() as u32, FDS, 1, 7), message].concat();
    send(&socket, &bytes, &[huge.as_fd(); FDS as usize]);
    let mut header = [0; 16];
    socket.read_exact(&mut header).unwrap();
    let mut answer = vec![0; u32::from_le_bytes(header[..4].try_into().unwrap()) as usize];
    socket.read_exact(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("a memfd of huge pages"), "{answer}");
}
