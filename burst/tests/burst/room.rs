//! A driver that has room for fewer memories than its client uses.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::testing::MockModel;
use nnburst_hal::{
    BurstCallback, ErrorStatus, ExecutionOptions, HalError, Memory, PreparedModel, Result,
};

use crate::support::{bytes, memory};

/// Slots that the driver may know at a time.
const ROOM: usize = 8;

/// Hands so many memories out and no more.
struct Narrow {
    client: Arc<dyn BurstCallback>,
    known: Arc<Mutex<HashSet<i32>>>,
}

impl BurstCallback for Narrow {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        let mut known = self.known.lock().unwrap();
        if known.len() + slots.len() > ROOM {
            return Err(HalError::new(ErrorStatus::ResourceExhaustedTransient, "no room"));
        }
        known.extend(slots);
        self.client.memories(slots)
    }

    fn forgotten(&self, slots: &[i32]) {
        let mut known = self.known.lock().unwrap();
        assert!(slots.iter().all(|slot| known.remove(slot)), "{slots:?}: known, each once");
    }
}

/// A driver with little room, and the slots that it holds.
fn driver() -> (MockModel, Arc<Mutex<HashSet<i32>>>) {
    let known: Arc<Mutex<HashSet<i32>>> = Arc::default();
    let held = Arc::clone(&known);
    let model = MockModel::new().opening_bursts(move |client, [requests, results], options| {
        let narrow = Arc::new(Narrow { client, known: Arc::clone(&held) });
        AddOne::new().configure_execution_burst(narrow, requests, results, options)
    });
    (model, known)
}

#[test]
fn slots_used_least_recently_make_room_for_others() {
    let (driver, known) = driver();
    let mut burst =
        BurstController::configure(&driver, &ControllerOptions::default(), None).unwrap();
    let output = memory(&[0; 4]);
    let inputs: Vec<_> = (0..40u8).map(|value| memory(&[value; 4])).collect();
    let mut run = |input: usize| {
        let request = AddOne::request(&inputs[input], &output, 4);
        burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        assert_eq!(bytes(&output), [u8::try_from(input).unwrap() + 1; 4]);
    };
    (0..inputs.len()).for_each(&mut run);
    (0..inputs.len()).rev().for_each(&mut run);
    // What is used all the time stays: its slot is the second, after the output's.
    for input in 0..inputs.len() {
        run(input);
        run(39);
    }
    assert!(known.lock().unwrap().len() <= ROOM);
}

#[test]
fn a_request_that_alone_finds_no_room_is_told_so() {
    let (driver, known) = driver();
    known.lock().unwrap().extend(100..100 + i32::try_from(ROOM).unwrap());
    let mut burst =
        BurstController::configure(&driver, &ControllerOptions::default(), None).unwrap();
    let request = AddOne::request(&memory(&[1; 4]), &memory(&[0; 4]), 4);
    let failure = burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::ResourceExhaustedTransient);
}
