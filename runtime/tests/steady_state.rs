//! Nothing is allocated while frames go through a burst: neither by the client nor by the driver,
//! which for once run in the same process, so that one counter sees both. Nor is it where a device
//! of this process computes.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use nnburst::hal::{Memory, View, ViewMut};
use nnburst::{BurstOptions, CallOptions, Device, Plane, PrepareOptions, Wait, builtin};
use nnburst_hal::testing::{CountingAllocator, calls_between_marks, is_there, mark, traced_test};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One test, since there is one counter of all threads.
#[test]
fn frames_need_no_memory_of_their_own() {
    frames_go_through_a_burst_without_allocating();
    frames_in_flight_over_a_ring_of_buffers_need_no_memory();
    frames_are_computed_in_this_process_without_allocating();
    state_is_carried_in_this_process_without_allocating();
}

fn frames_go_through_a_burst_without_allocating() {
    let device = Device::embedded("nnapi-sample_all").unwrap();
    for name in ["add1", "sine", "mobilenet_v1_0.25_128"] {
        let model = device.compile(&builtin::model(name).unwrap(), PrepareOptions::default());
        let model = model.unwrap();
        for wait in [Wait::Spin, Wait::Adaptive, Wait::Block] {
            let options = BurstOptions { wait, ..BurstOptions::default() };
            let mut burst = model.burst(&options).unwrap();
            let mut frame = burst.frame().unwrap();
            let mut output = [0f32; 1];
            // The first frames map memory and grow what is used again.
            for _ in 0..3 {
                burst.compute(&mut frame).unwrap();
            }
            let mut frames = || {
                let before = CountingAllocator::calls().allocations;
                for _ in 0..20 {
                    burst.compute(&mut frame).unwrap();
                    frame.read_into(0, &mut output).unwrap();
                }
                CountingAllocator::calls().allocations - before
            };
            // All threads are counted, those of earlier bursts that are ending too: a few times
            // over, what frames need shows each time.
            let least = (0..5).map(|_| frames()).min();
            assert_eq!(least, Some(0), "{name}, {wait:?}: allocations in 20 frames");
        }
    }
}

/// Submits frames over the buffers of a ring and polls for them, as many times. Returns how often
/// the calling thread allocated or released.
fn ring(wait: Wait, rounds: usize) -> u64 {
    let device = Device::embedded("nnapi-sample_all").unwrap();
    let model = device.compile(&builtin::model("sine").unwrap(), PrepareOptions::default());
    let model = model.unwrap();
    // A processor each: on one, both would sleep for each other.
    let (cpus, driver_cpus) = (vec![0], vec![1]);
    let options = BurstOptions { wait, depth: 2, cpus, driver_cpus, ..BurstOptions::default() };
    let mut burst = model.burst(&options).unwrap();
    let buffers: Vec<_> = (0..4).map(|_| Memory::ashmem(64).unwrap()).collect();
    let plane = |memory: &Memory| [Some(Plane { memory: memory.clone(), offset: 0, rows: None })];
    let mut frames: Vec<_> =
        buffers[..2].iter().map(|buffer| model.frame_over(&plane(buffer), &[]).unwrap()).collect();
    let low = Some(nnburst::hal::ExecutionPreference::LowPower).filter(|_| wait == Wait::Block);
    let call = CallOptions { preference: low, ..CallOptions::default() };
    let mut turn = |number: usize| {
        let (mut frame, buffer) = (frames.pop().unwrap(), &buffers[number % buffers.len()]);
        frame.set_input_memory(0, buffer, 0).unwrap();
        burst.try_submit_with(frame, &call).unwrap();
        if let Some(frame) = frames.pop() {
            burst.try_submit(frame).unwrap();
        }
        let finished = loop {
            if let Some(finished) = burst.poll() {
                break finished;
            }
            std::hint::spin_loop();
        };
        finished.result.unwrap();
        frames.push(finished.frame);
    };
    (0..20).for_each(&mut turn);
    mark();
    let before = CountingAllocator::calls_of_thread();
    (0..rounds).for_each(&mut turn);
    let calls = CountingAllocator::calls_of_thread() - before;
    mark();
    calls.allocations + calls.releases
}

fn frames_in_flight_over_a_ring_of_buffers_need_no_memory() {
    if two_processors() {
        for wait in [Wait::Spin, Wait::Adaptive, Wait::Block] {
            assert_eq!(ring(wait, 100), 0, "{wait:?}");
        }
    }
}

/// Returns whether the two sides can have a processor each.
fn two_processors() -> bool {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    is_there("processors", set.is_set(0).unwrap() && set.is_set(1).unwrap())
}

const TRACED: &str = "NNBURST_TEST_TRACED";

/// The part of the test below that is traced.
#[test]
fn traced_process() {
    if std::env::var_os(TRACED).is_some() {
        ring(Wait::Spin, 500);
    }
}

#[test]
fn frames_in_flight_over_a_ring_of_buffers_make_no_system_call() {
    if !two_processors() {
        return;
    }
    let Some(log) = traced_test("traced_process", TRACED, "1") else { return };
    let runs = calls_between_marks(&log);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(runs[0].is_empty(), "{:#?}", runs[0]);
}

fn frames_are_computed_in_this_process_without_allocating() {
    for name in ["add1", "sine", "mobilenet_v1_0.25_128"] {
        for device in [Device::reference(), Device::embedded("nnapi-sample_all").unwrap()] {
            let model = device.compile(&builtin::model(name).unwrap(), PrepareOptions::default());
            let model = model.unwrap();
            let mut frame = model.frame().unwrap();
            for _ in 0..3 {
                model.execution().compute(&mut frame).unwrap();
            }
            let before = CountingAllocator::calls_of_thread().allocations;
            for _ in 0..20 {
                model.execution().compute(&mut frame).unwrap();
            }
            let allocations = CountingAllocator::calls_of_thread().allocations - before;
            assert_eq!(allocations, 0, "{name}, {}: allocations in 20 frames", device.name());
            let memory = |sizes: &[Option<usize>]| -> Vec<_> {
                sizes.iter().map(|size| vec![0u8; size.unwrap()]).collect()
            };
            let (inputs, mut outputs) = (memory(model.input_bytes()), memory(model.output_bytes()));
            let inputs: Vec<_> = inputs.iter().map(|bytes| View::of(bytes)).collect();
            let outputs: Vec<_> = outputs.iter_mut().map(|bytes| ViewMut::of(bytes)).collect();
            let mut in_place = model.in_place().unwrap();
            let before = CountingAllocator::calls_of_thread().allocations;
            for _ in 0..20 {
                in_place.compute(&inputs, &outputs).unwrap();
            }
            let allocations = CountingAllocator::calls_of_thread().allocations - before;
            assert_eq!(allocations, 0, "{name}, {}: allocations in 20 calls", device.name());
        }
    }
}

/// What came out goes in again: the places of both are exchanged behind every step.
fn state_is_carried_in_this_process_without_allocating() {
    for device in [Device::reference(), Device::embedded("nnapi-sample_all").unwrap()] {
        let model = device.compile(&builtin::model("add1").unwrap(), PrepareOptions::default());
        let model = model.unwrap();
        let mut frame = model.frame().unwrap();
        frame.write(0, &[0f32]).unwrap();
        frame.write(1, &[1f32]).unwrap();
        let mut step = || {
            model.execution().compute(&mut frame).unwrap();
            frame.exchange(0, 0).unwrap();
        };
        (0..4).for_each(|_| step());
        let before = CountingAllocator::calls_of_thread().allocations;
        (0..20).for_each(|_| step());
        let allocations = CountingAllocator::calls_of_thread().allocations - before;
        assert_eq!(allocations, 0, "{}: allocations in 20 steps", device.name());
        let mut last = [0f32; 1];
        frame.read_into(0, &mut last).unwrap();
        // Exchanged once more behind the last step, the output holds what went into that.
        assert_eq!(last, [23.0], "{}", device.name());
    }
}
