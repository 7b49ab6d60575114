//! Requests in batches: with a driver in a process of its own, and in this one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "common/driver.rs"]
mod driver;

use std::time::{Duration, Instant};

use driver::Driver;
use nnburst::hal::{Model, Operand, OperandType, OperationType};
use nnburst::{
    Batches, BurstOptions, Compilation, Device, ModelBuilder, PrepareOptions, RuntimeError,
};

/// A hang guard.
const LONG: Duration = Duration::from_secs(60);

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

/// `x + y` of `batch` requests with two elements each.
fn sums(batch: u32) -> Model {
    let mut builder = ModelBuilder::new();
    let pair = || Operand::tensor(OperandType::TensorFloat32, vec![batch, 2]);
    let (x, y) = (builder.input(pair()), builder.input(pair()));
    let plain = builder.scalar_i32(0);
    let sum = builder.operation(OperationType::Add, &[x, y, plain], pair());
    builder.output(sum);
    builder.build().unwrap()
}

fn compiled(device: &Device, batch: u32) -> Compilation {
    device.compile(&sums(batch), PrepareOptions::default()).unwrap()
}

fn opened(compilation: &Compilation, depth: u32, patience: Option<Duration>) -> Batches {
    let options = BurstOptions { depth, ..BurstOptions::default() };
    Batches::new(compilation.burst(&options).unwrap(), patience).unwrap()
}

fn submit(batches: &mut Batches, value: f32) -> u64 {
    let mut place = batches.place().unwrap();
    place.write(0, &[value, -value]).unwrap();
    place.write(1, &[1f32, 2.0]).unwrap();
    batches.submit().unwrap()
}

/// Takes answers until `wanted` came, which have to be those of requests from 0 on, whose values
/// were their numbers.
fn take(batches: &mut Batches, from: u64, wanted: u64) -> u64 {
    let mut next = from;
    while next < from + wanted {
        let answers = batches.wait_until(Instant::now() + LONG).unwrap().unwrap();
        assert_eq!(answers.first, next);
        assert!(answers.result.is_ok(), "{:?}", answers.result);
        for request in 0..answers.count {
            let value = f32::from(u16::try_from(next).unwrap());
            let sum = answers.read::<f32>(request, 0).unwrap();
            assert_eq!(sum, [value + 1.0, 2.0 - value]);
            next += 1;
        }
        assert!(answers.output(answers.count, 0).is_err(), "there is no such request");
    }
    next
}

#[test]
fn requests_are_answered_in_order_whatever_is_in_flight() {
    let served = Driver::start();
    let embedded = Device::embedded("nnburst-cpu").unwrap();
    for device in [&served.device, &embedded] {
        let compilation = compiled(device, 4);
        let mut batches = opened(&compilation, 2, None);
        assert_eq!(batches.size(), 4);
        let (mut sent, mut taken) = (0u16, 0);
        for _ in 0..10 {
            // Two batches in flight, and two requests in the next one.
            for _ in 0..10 {
                assert_eq!(submit(&mut batches, f32::from(sent)), u64::from(sent));
                sent += 1;
            }
            assert_eq!(batches.pending(), usize::from(sent) - usize::try_from(taken).unwrap());
            batches.flush().unwrap_or_else(|error| {
                assert!(matches!(error, RuntimeError::Busy { .. }), "{error}");
            });
            taken = take(&mut batches, taken, 8);
            batches.flush().unwrap();
            taken = take(&mut batches, taken, u64::from(sent) - taken);
        }
        assert_eq!(batches.pending(), 0);
        assert!(batches.poll().unwrap().is_none());
    }
}

#[test]
fn a_batch_waits_for_others_as_long_as_its_patience() {
    let device = Device::embedded("nnburst-cpu").unwrap();
    let compilation = compiled(&device, 8);
    let mut endless = opened(&compilation, 1, None);
    submit(&mut endless, 0.0);
    let soon = Instant::now() + Duration::from_millis(20);
    assert!(endless.wait_until(soon).unwrap().is_none(), "one of eight is no batch");
    let mut patient = opened(&compilation, 1, Some(Duration::from_millis(5)));
    for number in 0..3u16 {
        submit(&mut patient, f32::from(number));
    }
    take(&mut patient, 0, 3);
}

#[test]
fn a_full_batch_waits_for_room_and_no_request_is_lost() {
    let device = Device::embedded("nnburst-cpu").unwrap();
    let compilation = compiled(&device, 2);
    let mut batches = opened(&compilation, 1, None);
    // One in flight, one full; the next has no place.
    for number in 0..4u16 {
        submit(&mut batches, f32::from(number));
    }
    assert!(matches!(batches.place().unwrap_err(), RuntimeError::Busy { depth: 1 }));
    assert!(batches.submit().is_err(), "without a place");
    take(&mut batches, 0, 4);
    submit(&mut batches, 4.0);
    batches.flush().unwrap();
    take(&mut batches, 4, 1);
}

#[test]
fn arguments_that_hold_no_batch_are_named() {
    let device = Device::embedded("nnburst-cpu").unwrap();
    let mut builder = ModelBuilder::new();
    let x = builder.input(Operand::tensor(OperandType::TensorFloat32, vec![4, 2]));
    let axes = builder.vector_i32(&[0]);
    let keep = builder.scalar_i32(0);
    let mean = Operand::tensor(OperandType::TensorFloat32, vec![2]);
    let mean = builder.operation(OperationType::Mean, &[x, axes, keep], mean);
    builder.output(mean);
    let compilation = device.compile(&builder.build().unwrap(), PrepareOptions::default()).unwrap();
    let burst = compilation.burst(&BurstOptions::default()).unwrap();
    let error = Batches::new(burst, None).unwrap_err().to_string();
    assert!(error.contains("output 0 of shape [2] holds no batch of 4"), "{error}");
    let sums = compiled(&device, 2);
    let mut batches = opened(&sums, 1, None);
    let mut place = batches.place().unwrap();
    let error = place.write(0, &[1f32]).unwrap_err().to_string();
    assert!(error.contains("takes 8 bytes, 4 given"), "{error}");
    assert!(place.write(0, &[1i32, 2]).is_err(), "floats");
}
