//! Nothing is allocated while frames go through a burst: neither by the client nor by the driver,
//! which for once run in the same process, so that one counter sees both. Nor is it where a device
//! of this process computes.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use nnburst::{BurstOptions, Device, PrepareOptions, Wait, builtin};
use nnburst_hal::testing::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One test, since there is one counter.
#[test]
fn frames_need_no_memory_of_their_own() {
    frames_go_through_a_burst_without_allocating();
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
