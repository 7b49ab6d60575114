//! Attackers who take all they can get of one resource: the good client beside them is served as
//! before.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::RemoteDevice;

use crate::attack::{Held, Target, report};
use crate::hostile::{frame, send};
use crate::support::*;

/// As many as Linux takes in one message.
const MOST_DESCRIPTORS: usize = 253;

/// Counts what was had until the first refusal, which must be that a resource is exhausted.
struct Taken {
    had: usize,
    refused: Option<HalError>,
}

impl Taken {
    fn none() -> Self {
        Self { had: 0, refused: None }
    }

    /// Takes one more; `None` once it was refused.
    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(had) => {
                self.had += 1;
                Some(had)
            }
            Err(error) => {
                self.refused.get_or_insert(error);
                None
            }
        }
    }

    fn report(&self, what: &str) {
        let status = self.refused.as_ref().map_or("never refused", |error| error.status.name());
        report(format_args!("{what}: {}", self.had));
        report(format_args!("{what}: {status}"));
        if let Some(error) = &self.refused {
            let exhausted =
                [ErrorStatus::ResourceExhaustedTransient, ErrorStatus::ResourceExhaustedPersistent];
            assert!(exhausted.contains(&error.status), "{what}: {error}");
        }
    }
}

/// Connections that greet, as many as are welcome.
fn guests(socket: &Path, most: usize) -> Vec<UnixStream> {
    let mut guests = Vec::new();
    while guests.len() < most {
        let mut guest = UnixStream::connect(socket).unwrap();
        guest.set_read_timeout(Some(HUNG)).unwrap();
        let mut answer = [0; 16];
        let greeted = guest.write_all(&GREETING).and_then(|()| guest.read_exact(&mut answer));
        if greeted.is_err() || answer[12] != 0 {
            break;
        }
        guests.push(guest);
    }
    guests
}

/// The first byte of a header with as many descriptors as there can be, on each of four
/// connections, and then whole messages of them that wait for more.
pub(crate) fn descriptors(socket: &Path) -> Held {
    let file = std::fs::File::open("/dev/null").unwrap();
    let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); MOST_DESCRIPTORS];
    let guests = guests(socket, 8);
    report(format_args!("connections: {}", guests.len()));
    let header = frame(1 << 20, MOST_DESCRIPTORS as u16, 1, 7);
    for (at, guest) in guests.iter().enumerate() {
        let part = if at % 2 == 0 { &header[..1] } else { &header[..] };
        send(guest, part, &fds);
    }
    // Until the driver has read them.
    std::thread::sleep(Duration::from_millis(300));
    Box::new(guests)
}

/// Descriptors with whole messages, with bytes that may bring none, and more of them than a header
/// may have, on connections that are kept and on new ones.
pub(crate) fn descriptors_again_and_again(socket: &Path) -> Held {
    let file = std::fs::File::open("/dev/null").unwrap();
    let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); MOST_DESCRIPTORS];
    let mut guests = guests(socket, 8);
    report(format_args!("connections: {}", guests.len()));
    let header = frame(8, MOST_DESCRIPTORS as u16, 1, 7);
    for round in 0..100 {
        for guest in &mut guests {
            match round % 3 {
                0 => send(guest, &[&header[..], &[0xff; 8]].concat(), &fds),
                1 => {
                    send(guest, &header, &fds);
                    (0..8).for_each(|_| send(guest, &[0xff], &fds));
                }
                _ => {
                    send(guest, &header[..1], &fds);
                    send(guest, &header[1..], &fds);
                    // The driver disconnects this one.
                    if let Some(next) = self::guests(socket, 1).pop() {
                        *guest = next;
                    }
                }
            }
        }
    }
    Box::new(guests)
}

/// Large messages that are given up in the middle, again and again; the last ones stay unfinished.
pub(crate) fn large_messages_again_and_again(socket: &Path) -> Held {
    const LENGTH: u32 = 63 << 20;
    let bytes = vec![7; 1 << 20];
    let mut held = Vec::new();
    for _ in 0..6 {
        held = guests(socket, 8);
        for (at, guest) in held.iter_mut().enumerate() {
            guest.write_all(&frame(LENGTH, 0, 1, 7)).unwrap();
            for _ in 0..=at {
                guest.write_all(&bytes).unwrap();
            }
        }
    }
    report(format_args!("connections: {}", held.len()));
    Box::new(held)
}

/// Messages that stop short of their end.
pub(crate) fn half_messages(socket: &Path) -> Held {
    const LENGTH: usize = 63 << 20;
    let mut guests = guests(socket, 32);
    report(format_args!("connections: {}", guests.len()));
    let header = frame(LENGTH as u32, 0, 1, 7);
    let bytes = vec![7; 1 << 20];
    for guest in &mut guests {
        guest.write_all(&header).unwrap();
        for _ in 0..LENGTH / bytes.len() - 1 {
            guest.write_all(&bytes).unwrap();
        }
    }
    Box::new(guests)
}

/// Small buffers and bursts over many connections.
pub(crate) fn mappings(socket: &Path) -> Held {
    let mut held: Vec<Held> = Vec::new();
    let (mut connected, mut allocated, mut opened) = (Taken::none(), Taken::none(), Taken::none());
    for _ in 0..63 {
        let device = connected.take(RemoteDevice::connect_path(socket).map_err(HalError::from));
        let Some(device) = device else { break };
        let Ok(model) = prepare(&device, add_one(&[2])) else { break };
        let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
        let models = [model.clone()];
        for _ in 0..1024 {
            let buffer = device.allocate(&BufferDesc::default(), &models, &[role], &[]);
            let Some(buffer) = allocated.take(buffer) else { break };
            held.push(Box::new(buffer));
        }
        let options = ControllerOptions::default();
        let Some(burst) = opened.take(
            BurstController::configure(model.as_ref(), &options, None)
                .map_err(|error| HalError::failure(error.to_string())),
        ) else {
            opened.refused = None;
            break;
        };
        held.push(Box::new((burst, models, device)));
    }
    connected.report("connections");
    allocated.report("buffers");
    opened.report("bursts");
    Box::new(held)
}

/// Memories of no pages and of tens of terabytes, mapped for bursts.
pub(crate) fn address_space(socket: &Path) -> Held {
    const SIZE: u64 = 1 << 44;
    let device = RemoteDevice::connect_path(socket).unwrap();
    let model = prepare(&device, add_one(&[2])).unwrap();
    let options = ControllerOptions::default();
    let mut burst = BurstController::configure(model.as_ref(), &options, None).unwrap();
    let mut taken = Taken::none();
    let mut held = Vec::new();
    for _ in 0..10 {
        let (input, output) = (Memory::ashmem(SIZE).unwrap(), Memory::ashmem(SIZE).unwrap());
        let request = Request {
            inputs: vec![argument(0, 8)],
            outputs: vec![argument(1, 8)],
            pools: vec![RequestPool::Memory(input), RequestPool::Memory(output)],
        };
        let executed = burst.execute(&request, &ExecutionOptions::default()).unwrap();
        let executed = executed.map_err(|failure| failure.error);
        held.push(request);
        if taken.take(executed).is_none() {
            break;
        }
    }
    taken.report("requests");
    Box::new((held, burst, model, device))
}

/// Connections, each with executions of all priorities that hang on fences, preparations and
/// bursts.
pub(crate) fn threads(socket: &Path) -> Held {
    let mut held: Vec<Held> = Vec::new();
    let (mut connected, mut opened) = (Taken::none(), Taken::none());
    'all: for _ in 0..64 {
        let device = connected.take(RemoteDevice::connect_path(socket).map_err(HalError::from));
        let Some(device) = device else { break };
        let Ok(model) = prepare(&device, add_one(&[2])) else { break };
        for _ in 0..64 {
            let options = ControllerOptions::default();
            match BurstController::configure(model.as_ref(), &options, None) {
                Ok(burst) => {
                    opened.had += 1;
                    held.push(Box::new(burst));
                }
                Err(_) => break 'all,
            }
            if opened.had >= 300 {
                break 'all;
            }
        }
        held.push(Box::new((model, device)));
    }
    connected.report("connections");
    opened.report("bursts");
    Box::new(held)
}

/// `out = sum(a * b)` of a column and a row: a few bytes of model that take a square between them.
pub(crate) fn square(side: u32) -> Model {
    let float = OperandType::TensorFloat32;
    let constant = |kind, dimensions: &[u32], offset, length| {
        let mut operand = tensor(kind, dimensions, OperandLifeTime::ConstantCopy);
        operand.location = DataLocation { pool_index: 0, offset, length };
        operand
    };
    let mut operands = vec![
        tensor(float, &[side, 1], OperandLifeTime::SubgraphInput),
        tensor(float, &[1, side], OperandLifeTime::SubgraphInput),
        constant(OperandType::Int32, &[], 0, 4),
        tensor(float, &[side, side], OperandLifeTime::TemporaryVariable),
        constant(OperandType::TensorInt32, &[2], 4, 8),
        constant(OperandType::Bool, &[], 12, 1),
        tensor(float, &[1], OperandLifeTime::SubgraphOutput),
    ];
    operands.iter_mut().take(6).for_each(|operand| operand.number_of_consumers = 1);
    let operation = |kind, inputs, outputs| Operation { kind, inputs, outputs };
    let main = Subgraph {
        operands,
        operations: vec![
            operation(OperationType::Mul, vec![0, 1, 2], vec![3]),
            operation(OperationType::ReduceSum, vec![3, 4, 5], vec![6]),
        ],
        input_indexes: vec![0, 1],
        output_indexes: vec![6],
    };
    let values = [0i32, 0, 1].iter().flat_map(|number| number.to_le_bytes());
    Model { main, operand_values: values.chain([0]).collect(), ..Model::default() }
}

/// Small models with large temporaries, kept and executed, of several connections.
pub(crate) fn temporaries(socket: &Path) -> Held {
    let devices: Vec<_> = (0..4).map(|_| RemoteDevice::connect_path(socket).unwrap()).collect();
    let too_large = prepare(&devices[0], square(17_500)).map(drop).unwrap_err();
    report(format_args!("too large: {}", too_large.status.name()));
    let mut taken = Taken::none();
    let mut held: Vec<Held> = Vec::new();
    for device in devices.iter().cycle().take(40) {
        // 100 MB each.
        let Some(model) = taken.take(prepare(device, square(5_000))) else { break };
        held.push(Box::new(model));
    }
    taken.report("models");
    Box::new((devices, held))
}

/// How many of a thing the attacker reported.
fn count(words: &[String], what: &str) -> usize {
    let found = words.iter().find_map(|word| word.strip_prefix(&format!("{what}: "))?.parse().ok());
    found.unwrap_or_else(|| panic!("no word of {what}: {words:?}"))
}

fn said(words: &[String], what: &str, status: ErrorStatus) -> bool {
    words.contains(&format!("{what}: {}", status.name()))
}

#[test]
#[ignore = "only root can start processes of other users"]
fn descriptors_are_charged_as_they_arrive() {
    let target = Target::start("nofile=1024");
    let attacker = target.attack("descriptors");
    assert_eq!(count(attacker.words(), "connections"), 8);
    let during = target.now().descriptors;
    // Half of what is left, and what a connection has of its own.
    assert!(during > target.before().descriptors + 250 && during < 600, "{during} descriptors");
    drop(attacker);
    target.survives();
}

#[test]
#[ignore = "only root can start processes of other users"]
fn floods_of_descriptors_and_messages_leave_nothing() {
    for attack in ["descriptors again and again", "large messages again and again"] {
        let target = Target::start("nofile=1024,as=3221225472");
        let attacker = target.attack(attack);
        assert!(count(attacker.words(), "connections") > 0);
        let during = target.now();
        assert!(during.descriptors < 700, "{attack}: {during:?}");
        assert!(during.resident_kib < 1200 << 10, "{attack}: {during:?}");
        drop(attacker);
        target.survives();
    }
}

#[test]
#[ignore = "only root can start processes of other users"]
fn messages_are_charged_as_they_arrive() {
    let target = Target::start("as=3221225472");
    let attacker = target.attack("half messages");
    assert!(count(attacker.words(), "connections") > 16, "{:?}", attacker.words());
    let during = target.now().resident_kib;
    assert!(during < 1200 << 10, "{during} KiB");
    drop(attacker);
    target.survives();
}

#[test]
#[ignore = "only root can start processes of other users"]
fn mappings_of_one_user_leave_some_for_others() {
    let target = Target::start("mappings=4000");
    let attacker = target.attack("mappings");
    let words = attacker.words();
    assert!(said(words, "buffers", ErrorStatus::ResourceExhaustedTransient), "{words:?}");
    let (buffers, during) = (count(words, "buffers"), target.now().mappings);
    assert!(buffers > 1000 && during < 2000 + target.before().mappings, "{buffers}, {during}");
    drop(attacker);
    target.survives();
}

#[test]
#[ignore = "only root can start processes of other users"]
fn memories_of_no_pages_leave_others_some_address_space() {
    let target = Target::start("");
    let attacker = target.attack("address space");
    let words = attacker.words();
    assert!(said(words, "requests", ErrorStatus::ResourceExhaustedTransient), "{words:?}");
    drop(attacker);
    target.survives();
}

#[test]
#[ignore = "only root can start processes of other users"]
fn threads_of_one_user_leave_some_for_others() {
    let target = Target::start("as=3221225472");
    let attacker = target.attack("threads");
    let during = target.now().threads;
    assert!(during < 150, "{during} threads, {:?}", attacker.words());
    drop(attacker);
    target.survives();
}

#[test]
#[ignore = "only root can start processes of other users"]
fn temporaries_are_charged_before_they_are_touched() {
    let target = Target::start("as=3221225472");
    let attacker = target.attack("temporaries");
    let words = attacker.words();
    assert!(said(words, "too large", ErrorStatus::ResourceExhaustedPersistent), "{words:?}");
    assert!(said(words, "models", ErrorStatus::ResourceExhaustedTransient), "{words:?}");
    let (models, during) = (count(words, "models"), target.now().resident_kib);
    assert!((2..12).contains(&models) && during < 1200 << 10, "{models} models, {during} KiB");
    drop(attacker);
    target.survives();
}
