//! Memories that are cut short under the driver: a burst's, many at once, again and again.

use std::fs::File;
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::RemoteDevice;

use crate::attack::{Held, Target, report};
use crate::support::*;

/// Every second page of this many is looked at: more faults than a process may have mappings.
const PAGES: u32 = 70_000;

/// What an unsealed memory is: a file that its owner may cut short.
fn unsealed(bytes: u64) -> (File, Memory) {
    let file = File::from(memfd_create(c"unsealed", MFdFlags::MFD_CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    let memory = Memory::from_fd(file.try_clone().unwrap().into(), 0, bytes, true).unwrap();
    (file, memory)
}

/// Reads one byte of every 8 KiB.
fn one_byte_in_8_kib() -> Model {
    let bytes = |dimensions: &[u32], lifetime| {
        tensor(OperandType::TensorQuant8Asymm, dimensions, lifetime).with_quantization(0.5, 0)
    };
    let mut values = Vec::new();
    let mut constant = |kind, dimensions: &[u32], words: &[i32]| {
        let mut operand = tensor(kind, dimensions, OperandLifeTime::ConstantCopy);
        let (offset, length) = (values.len() as u32, words.len() as u32 * 4);
        operand.location = DataLocation { pool_index: 0, offset, length };
        values.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        operand
    };
    let (pair, word) = (OperandType::TensorInt32, OperandType::Int32);
    let operands = vec![
        bytes(&[PAGES, 8192], OperandLifeTime::SubgraphInput),
        constant(pair, &[2], &[0, 0]),
        constant(pair, &[2], &[PAGES.cast_signed(), 1]),
        constant(pair, &[2], &[1, 1]),
        constant(word, &[], &[0]),
        constant(word, &[], &[0]),
        constant(word, &[], &[0]),
        bytes(&[PAGES, 1], OperandLifeTime::SubgraphOutput),
    ];
    model(operands, OperationType::StridedSlice, values)
}

/// A sparse memory that the driver has mapped in a burst is cut to nothing, and then used.
pub(crate) fn cuts_sparse_memories(socket: &Path) -> Held {
    let device = RemoteDevice::connect_path(socket).unwrap();
    let model = prepare(&device, one_byte_in_8_kib()).unwrap();
    let options = ControllerOptions::default();
    let mut burst = BurstController::configure(model.as_ref(), &options, None).unwrap();
    let mut held = Vec::new();
    for round in 0..3 {
        let (file, input) = unsealed(u64::from(PAGES) * 8192);
        let request = request(&input, &memory(&vec![0; PAGES as usize]));
        let mut execute = |request: &Request| {
            let executed = burst.execute(request, &ExecutionOptions::default()).unwrap();
            executed.map(drop).map_err(|failure| failure.error.status)
        };
        // Mapped, and refused before a byte is read.
        let mut wrong = request.clone();
        wrong.inputs[0].dimensions = vec![1, 1];
        assert_eq!(execute(&wrong), Err(ErrorStatus::InvalidArgument), "round {round}");
        file.set_len(0).unwrap();
        // A length that comes back doesn't bring the bytes back.
        for length in [0, 0, input.size()] {
            file.set_len(length).unwrap();
            let cut = execute(&request);
            assert_eq!(cut, Err(ErrorStatus::GeneralFailure), "round {round}, {length} bytes");
        }
        // A mapping made afresh has what the file has.
        burst.free_memory(&input);
        let afresh = burst.execute(&request, &ExecutionOptions::default()).unwrap();
        assert!(afresh.is_ok(), "round {round}: {afresh:?}");
        held.push((file, input));
    }
    report("cut");
    Box::new((device, model, burst, held))
}

/// More unsealed memories than one client should need, all of them cut short.
pub(crate) fn cuts_many_memories(socket: &Path) -> Held {
    let mut held = Vec::new();
    'connections: for _ in 0..6 {
        let Ok(device) = RemoteDevice::connect_path(socket) else { break };
        let Ok(model) = prepare(&device, add_one(&[2])) else { break };
        let options = ControllerOptions::default();
        let Ok(mut burst) = BurstController::configure(model.as_ref(), &options, None) else {
            break;
        };
        let output = floats(&[0.0; 2]);
        let mut memories = Vec::new();
        for _ in 0..900 {
            let (file, input) = unsealed(8);
            let executed =
                burst.execute(&request(&input, &output), &ExecutionOptions::default()).unwrap();
            memories.push((file, input));
            if executed.is_err() {
                break 'connections; // as many as this user may have
            }
        }
        for (file, input) in &memories {
            file.set_len(0).unwrap();
            let request = request(input, &output);
            let cut = burst.execute(&request, &ExecutionOptions::default()).unwrap();
            assert!(cut.is_err(), "{cut:?}");
        }
        held.push((device, model, burst, memories));
    }
    report("cut");
    Box::new(held)
}

/// Unsealed memories that stay mapped, over as many connections as are welcome: until the user may
/// have no more of them.
pub(crate) fn guards(socket: &Path) -> Held {
    let mut held = Vec::new();
    let (mut mapped, mut refused) = (0, None);
    'connections: for _ in 0..60 {
        let Ok(device) = RemoteDevice::connect_path(socket) else { break };
        let Ok(model) = prepare(&device, add_one(&[2])) else { break };
        let output = floats(&[0.0; 2]);
        let options = ControllerOptions::default();
        let Ok(mut burst) = BurstController::configure(model.as_ref(), &options, None) else {
            break;
        };
        let mut memories = Vec::new();
        for _ in 0..900 {
            let (file, input) = unsealed(8);
            let executed =
                burst.execute(&request(&input, &output), &ExecutionOptions::default()).unwrap();
            memories.push((file, input));
            mapped += 1;
            if let Err(failure) = executed {
                refused = Some(failure.error.status);
                held.push((device, model, burst, memories));
                break 'connections;
            }
        }
        held.push((device, model, burst, memories));
    }
    report(format_args!("mapped: {mapped}"));
    report(format_args!("refused: {}", refused.map_or("never", ErrorStatus::name)));
    Box::new(held)
}

#[test]
#[ignore = "only root can start processes of other users"]
fn unsealed_memories_of_one_user_leave_the_guard_room_for_others() {
    let target = Target::start("guards=2000,nofile=20000");
    let attacker = target.attack("guards");
    // A burst makes room by its own slots that are idle: mapped again and again, never all at once.
    let watched = target.now().shared_mappings.saturating_sub(target.before().shared_mappings);
    assert!((500..1500).contains(&watched), "{watched} mappings, {:?}", attacker.words());
    drop(attacker);
    target.survives();
}

#[test]
#[ignore = "only root can start processes of other users"]
fn memories_cut_short_cost_their_client_alone() {
    for attack in ["cuts sparse memories", "cuts many memories"] {
        let target = Target::start("");
        let attacker = target.attack(attack);
        assert_eq!(attacker.words(), ["cut"]);
        let mappings = target.now().mappings;
        assert!(mappings < 10_000, "{mappings} mappings");
        drop(attacker);
        target.survives();
    }
}
