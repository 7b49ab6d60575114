//! Frames that are submitted and come back, and frames over memory that somebody else allocated:
//! with a driver in a process of its own.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "common/driver.rs"]
mod driver;

use std::time::{Duration, Instant};

use driver::Driver;
use nnburst::hal::{ExecutionPreference, Memory, Operand};
use nnburst::{
    Burst, BurstOptions, CallOptions, Compilation, Device, Finished, Frame, ModelBuilder,
    PaddedRows, Plane, PrepareOptions, RuntimeError, Wait,
};
use nnburst_hal::Access;

/// A hang guard.
const LONG: Duration = Duration::from_secs(60);

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

fn deep(compilation: &Compilation, depth: u32, wait: Wait) -> Burst {
    compilation.burst(&BurstOptions { depth, wait, ..BurstOptions::default() }).unwrap()
}

fn filled(compilation: &Compilation, value: f32) -> Frame {
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[value]).unwrap();
    frame.write(1, &[1f32]).unwrap();
    frame
}

fn next(burst: &mut Burst) -> Frame {
    let Finished { frame, result } = burst.wait_until(Instant::now() + LONG).unwrap();
    result.unwrap();
    frame
}

fn sum(frame: &Frame) -> f32 {
    frame.read::<f32>(0).unwrap()[0]
}

#[test]
fn frames_come_back_in_the_order_of_submission() {
    let served = Driver::start();
    let embedded = Device::embedded("nnburst-cpu").unwrap();
    for device in [&served.device, &embedded] {
        let model = nnburst::builtin::model("add1").unwrap();
        let compilation = device.compile(&model, PrepareOptions::default()).unwrap();
        for wait in [Wait::Adaptive, Wait::Spin, Wait::Block] {
            let mut burst = deep(&compilation, 4, wait);
            assert_eq!(burst.depth(), 4);
            let mut frames: Vec<_> = (0..4).map(|_| filled(&compilation, 0.0)).collect();
            for round in 0..20u16 {
                for (at, mut frame) in (0u16..).zip(frames.drain(..)) {
                    frame.write(0, &[f32::from(round * 10 + at)]).unwrap();
                    burst.try_submit(frame).unwrap();
                }
                for at in 0..4 {
                    let frame = next(&mut burst);
                    assert_eq!(sum(&frame), f32::from(round * 10 + at + 1), "{wait:?}");
                    assert!(frame.latency() > Duration::ZERO);
                    frames.push(frame);
                }
                assert!(burst.poll().is_none() && burst.in_flight() == 0);
            }
        }
    }
}

#[test]
fn as_many_as_the_depth_are_in_flight_and_calls_go_between_them() {
    let served = Driver::start();
    let compilation = served.compile();
    let mut burst = deep(&compilation, 2, Wait::Auto);
    served.stop();
    for value in [1.0, 2.0] {
        burst.try_submit(filled(&compilation, value)).unwrap();
    }
    let refused = burst.try_submit(filled(&compilation, 3.0)).unwrap_err();
    assert!(matches!(refused.error, RuntimeError::Busy { depth: 2 }), "{}", refused.error);
    assert!(burst.poll().is_none());
    let soon = Instant::now() + Duration::from_millis(20);
    assert!(burst.wait_until(soon).is_none() && Instant::now() >= soon);
    served.go_on();
    let mut third = refused.frame;
    burst.compute(&mut third).unwrap();
    assert_eq!(sum(&third), 4.0);
    assert_eq!([sum(&next(&mut burst)), sum(&next(&mut burst))], [2.0, 3.0]);
}

#[test]
fn a_frame_that_a_stopped_driver_has_is_handed_back_after_its_deadline() {
    let served = Driver::start();
    let compilation = served.compile();
    let mut burst = deep(&compilation, 3, Wait::Auto);
    burst.try_submit(filled(&compilation, 1.0)).unwrap();
    assert_eq!(sum(&next(&mut burst)), 2.0);
    served.stop();
    let soon = CallOptions { timeout: Some(Duration::from_millis(10)), ..CallOptions::default() };
    burst.try_submit_with(filled(&compilation, 1.0), &soon).unwrap();
    let Finished { result, .. } = burst.wait_until(Instant::now() + LONG).unwrap();
    assert!(result.unwrap_err().is_deadline_missed());
    let over = CallOptions { timeout: Some(Duration::ZERO), ..CallOptions::default() };
    let refused = burst.try_submit_with(filled(&compilation, 1.0), &over).unwrap_err();
    assert!(refused.error.is_deadline_missed(), "{}", refused.error);
    served.go_on();
    for value in [5.0, 6.0] {
        burst.try_submit(filled(&compilation, value)).unwrap();
        assert_eq!(sum(&next(&mut burst)), value + 1.0, "its own answer, not the late one");
    }
}

#[test]
fn frames_in_flight_may_be_forgotten_or_dropped_with_the_burst() {
    let served = Driver::start();
    let compilation = served.compile();
    let mut burst = deep(&compilation, 3, Wait::Auto);
    for round in 0..20u8 {
        for _ in 0..2 {
            burst.try_submit(filled(&compilation, 1.0)).unwrap();
        }
        burst.forget();
        assert!(burst.in_flight() == 0 && burst.poll().is_none());
        burst.try_submit(filled(&compilation, f32::from(round))).unwrap();
        assert_eq!(sum(&next(&mut burst)), f32::from(round) + 1.0);
        burst.try_submit(filled(&compilation, 1.0)).unwrap();
        drop(std::mem::replace(&mut burst, deep(&compilation, 3, Wait::Auto)));
    }
}

#[test]
fn the_death_of_the_driver_ends_what_is_in_flight() {
    let served = Driver::start();
    let compilation = served.compile();
    let mut burst = deep(&compilation, 2, Wait::Auto);
    served.stop();
    for _ in 0..2 {
        burst.try_submit(filled(&compilation, 1.0)).unwrap();
    }
    drop(served);
    for _ in 0..2 {
        let Finished { result, .. } = burst.wait_until(Instant::now() + LONG).unwrap();
        assert!(matches!(result, Err(RuntimeError::DeviceDied(_))), "{result:?}");
    }
    let refused = burst.try_submit(filled(&compilation, 1.0)).unwrap_err();
    assert!(refused.error.is_device_lost(), "{}", refused.error);
}

/// A request with more arguments than the queue has room for goes another way, in its turn.
#[test]
fn what_a_burst_can_not_carry_is_executed_in_the_background() {
    let served = Driver::start();
    let mut graph = ModelBuilder::new();
    let one = graph.input(Operand::float32([1]));
    let two = graph.input(Operand::float32([1]));
    let sum_of_both = graph.add(one, two).done();
    graph.output(sum_of_both);
    let model = graph.build().unwrap();
    // Several devices: no single burst carries it.
    let devices = [served.device.clone(), Device::reference()];
    let options = nnburst::CompileOptions::default();
    let compilation = nnburst::compile_for(&model, &devices, &options).unwrap();
    let mut burst = deep(&compilation, 2, Wait::Auto);
    for value in [1.0, 2.0] {
        burst.try_submit(filled(&compilation, value)).unwrap();
    }
    assert_eq!([sum(&next(&mut burst)), sum(&next(&mut burst))], [2.0, 3.0]);
}

#[test]
fn calls_of_low_power_are_answered_like_others() {
    let served = Driver::start();
    let compilation = served.compile();
    let mut burst = deep(&compilation, 1, Wait::Spin);
    let low =
        CallOptions { preference: Some(ExecutionPreference::LowPower), ..CallOptions::default() };
    for value in 0..50u8 {
        let call = if value % 3 == 0 { CallOptions::default() } else { low };
        let mut frame = filled(&compilation, f32::from(value));
        burst.compute_with(&mut frame, &call).unwrap();
        assert_eq!(sum(&frame), f32::from(value) + 1.0);
    }
}

const WIDTH: usize = 5;
const HEIGHT: usize = 3;
const STRIDE: usize = 8;

/// Adds two pictures of bytes.
fn picture_model() -> nnburst::hal::Model {
    let picture = || Operand::quant8([1, 3, 5, 1], 1.0, 0);
    let mut graph = ModelBuilder::new();
    let (one, two) = (graph.input(picture()), graph.input(picture()));
    let sum = graph.add(one, two).quantized(1.0, 0).done();
    graph.output(sum);
    graph.build().unwrap()
}

/// A camera's buffer: so many bytes of this value.
fn buffer(size: usize, value: u8) -> Memory {
    let memory = Memory::ashmem(size as u64).unwrap();
    put(&memory, &vec![value; size]);
    memory
}

fn put(memory: &Memory, bytes: &[u8]) {
    let mapping = memory.map(Access::ReadWrite).unwrap();
    mapping.view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
}

fn bytes_of(memory: &Memory) -> Vec<u8> {
    let mapping = memory.map(Access::Read).unwrap();
    mapping.view(0..mapping.len()).unwrap().to_vec()
}

#[test]
fn a_ring_of_buffers_is_read_and_written_where_it_lies() {
    let served = Driver::start();
    let embedded = Device::embedded("nnburst-cpu").unwrap();
    for device in [&served.device, &embedded] {
        let compilation = device.compile(&picture_model(), PrepareOptions::default()).unwrap();
        let mut burst = deep(&compilation, 2, Wait::Auto);
        let size = WIDTH * HEIGHT;
        let ring: Vec<_> = (0..8).map(|at| buffer(size + 64, at)).collect();
        let results: Vec<_> = (0..3).map(|_| buffer(size + 16, 0)).collect();
        let plane = |memory: &Memory, offset| Plane { memory: memory.clone(), offset, rows: None };
        let input = [Some(plane(&ring[0], 64))];
        let mut frame = compilation.frame_over(&input, &[Some(plane(&results[0], 3))]).unwrap();
        frame.write(1, &[10u8; WIDTH * HEIGHT]).unwrap();
        for turn in 0..32 {
            let (picture, result) = (&ring[turn % 8], &results[turn % 3]);
            put(picture, &vec![u8::try_from(turn).unwrap(); size + 64]);
            put(result, &vec![0xEE; size + 16]);
            frame.set_input_memory(0, picture, 64).unwrap();
            frame.set_output_memory(0, result, 3).unwrap();
            match turn % 3 {
                0 => burst.compute(&mut frame).unwrap(),
                1 => compilation.execution().compute(&mut frame).unwrap(),
                _ => {
                    burst.try_submit(frame).unwrap();
                    frame = next(&mut burst);
                }
            }
            let want = u8::try_from(turn).unwrap() + 10;
            assert_eq!(frame.read::<u8>(0).unwrap(), vec![want; size], "turn {turn}");
            let there = bytes_of(result);
            assert_eq!(there[..3], [0xEE; 3], "nothing before it");
            assert_eq!(there[3..3 + size], vec![want; size]);
            assert!(there[3 + size..].iter().all(|&byte| byte == 0xEE), "nothing behind it");
        }
        // Another place in the same memory is another request.
        put(&ring[0], &[vec![1; 64], vec![2; size]].concat());
        for (offset, want) in [(0, 11), (64, 12), (0, 11)] {
            frame.set_input_memory(0, &ring[0], offset).unwrap();
            burst.compute(&mut frame).unwrap();
            assert_eq!(frame.read::<u8>(0).unwrap(), vec![want; size], "offset {offset}");
        }
    }
}

#[test]
fn padded_rows_are_read_and_written_without_their_padding() {
    let served = Driver::start();
    let compilation = served.device.compile(&picture_model(), PrepareOptions::default()).unwrap();
    let mut burst = deep(&compilation, 1, Wait::Auto);
    let rows = PaddedRows { bytes: WIDTH, stride: STRIDE };
    // The last row has no padding behind it.
    let size = STRIDE * (HEIGHT - 1) + WIDTH;
    let ring: Vec<_> = (0..3).map(|_| buffer(size + 1, 0)).collect();
    let result = buffer(size + 1, 0xEE);
    let plane = |memory: &Memory| Plane { memory: memory.clone(), offset: 1, rows: Some(rows) };
    let input = [Some(plane(&ring[0]))];
    let mut frame = compilation.frame_over(&input, &[Some(plane(&result))]).unwrap();
    frame.write(1, &[100u8; WIDTH * HEIGHT]).unwrap();
    for turn in 0..9usize {
        let picture: Vec<u8> = (0..=size).map(|at| u8::try_from(at + turn).unwrap()).collect();
        put(&ring[turn % 3], &picture);
        frame.set_input_memory(0, &ring[turn % 3], 1).unwrap();
        if turn % 2 == 0 {
            burst.compute(&mut frame).unwrap();
        } else {
            burst.try_submit(frame).unwrap();
            frame = next(&mut burst);
        }
        let there = bytes_of(&result);
        for (at, byte) in there.iter().enumerate() {
            let is_padding = at == 0 || (at - 1) % STRIDE >= WIDTH;
            let want = if is_padding { 0xEE } else { picture[at] + 100 };
            assert_eq!(*byte, want, "byte {at} of turn {turn}");
        }
    }
    assert!(frame.exchange(0, 0).unwrap_err().to_string().contains("padded rows"));
}

#[test]
fn planes_that_do_not_fit_are_refused_and_say_why() {
    let device = Device::embedded("nnburst-cpu").unwrap();
    let compilation = device.compile(&picture_model(), PrepareOptions::default()).unwrap();
    let memory = buffer(16, 0);
    let refused = |offset, rows| {
        let plane = Plane { memory: memory.clone(), offset, rows };
        compilation.frame_over(&[Some(plane)], &[]).unwrap_err().to_string()
    };
    assert!(refused(2, None).contains("takes 15 bytes from 2 on, the memory has 16"));
    assert!(refused(u64::MAX, None).contains("the memory has 16"));
    for rows in [
        PaddedRows { bytes: 0, stride: 8 },
        PaddedRows { bytes: 4, stride: 8 },
        PaddedRows { bytes: 5, stride: 4 },
        PaddedRows { bytes: 5, stride: usize::MAX },
    ] {
        let told = refused(0, Some(rows));
        assert!(told.contains("no such rows"), "{told}");
    }
    let told = refused(0, Some(PaddedRows { bytes: 5, stride: 8 }));
    assert!(told.contains("takes 21 bytes"), "{told}");
    let planes = [None, None, None];
    let told = compilation.frame_over(&planes, &[]).unwrap_err().to_string();
    assert!(told.contains("the model has 2"), "{told}");
    let read_only = Memory::from_fd(memory.fd().try_clone_to_owned().unwrap(), 0, 16, false);
    let plane = Plane { memory: read_only.unwrap(), offset: 0, rows: None };
    let told = compilation.frame_over(&[], &[Some(plane)]).unwrap_err().to_string();
    assert!(told.contains("read-only"), "{told}");
}
