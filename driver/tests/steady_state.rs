//! Nothing is allocated for a frame of a burst, by the client or by the driver.

use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_hal::testing::{Calls, CountingAllocator};
use nnburst_hal::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn relu(dimensions: &[u32]) -> Model {
    let tensor = |lifetime| {
        Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec()).with_lifetime(lifetime)
    };
    let mut input = tensor(OperandLifeTime::SubgraphInput);
    input.number_of_consumers = 1;
    let operations =
        vec![Operation { kind: OperationType::Relu, inputs: vec![0], outputs: vec![1] }];
    let main = Subgraph {
        operands: vec![input, tensor(OperandLifeTime::SubgraphOutput)],
        operations,
        input_indexes: vec![0],
        output_indexes: vec![1],
    };
    Model { main, ..Model::default() }
}

/// Waits until the thread that prepared the model has ended: on a busy machine it may still be
/// letting go of what it had, which the process's count would take for a frame's.
fn wait_for_the_preparation_to_end() {
    let is_preparing = || {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        threads
            .flat_map(|thread| std::fs::read_to_string(thread.path().join("comm")))
            .any(|name| name.trim_end() == "nnburst-prepare")
    };
    while is_preparing() {
        nnburst_hal_ipc::Pool::end_idle_threads();
        std::thread::yield_now();
    }
}

/// Waits until the threads beside this one and the burst's sleep: on a busy machine the driver's
/// idle thread and the test harness's own may still be about to begin, and what that takes the
/// process's count would take for a frame's.
fn wait_for_the_others_to_sleep() {
    let me = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let is_awake = |thread: &std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(thread.path().join(name));
        // The state is the first word behind the name in parentheses.
        let stat = read("stat").unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        let is_counted = read("comm").is_ok_and(|name| name.trim_end() == "nnburst-burst");
        me.file_name() != Some(&thread.file_name()) && !is_counted && state != Some('S')
    };
    let threads = || std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    while threads().any(|thread| is_awake(&thread)) {
        std::thread::yield_now();
    }
}

#[test]
fn a_frame_of_a_burst_allocates_nothing() {
    let driver = CpuDriver::new(CpuDriverOptions::default());
    let device = driver.device();
    let model = wait_for_prepared_model(|callback| {
        let options = PrepareOptions::default();
        device.prepare_model(relu(&[4, 4]), options, CacheHandles::default(), callback)
    })
    .unwrap();
    wait_for_the_preparation_to_end();
    let memory = Memory::ashmem(128).unwrap();
    let argument = |offset| RequestArgument {
        location: DataLocation { pool_index: 0, offset, length: 64 },
        ..RequestArgument::default()
    };
    let request = Request {
        inputs: vec![argument(0)],
        outputs: vec![argument(64)],
        pools: vec![RequestPool::Memory(memory)],
    };
    let options = ControllerOptions::default();
    let mut burst = BurstController::configure(model.as_ref(), &options, None).unwrap();
    for measure in [MeasureTiming::No, MeasureTiming::Yes] {
        let options = ExecutionOptions { measure, ..ExecutionOptions::default() };
        let mut frame = burst.frame(&request, &options).unwrap();
        let mut run = |frames: u32| {
            for _ in 0..frames {
                let answer = burst.execute_frame(&mut frame).unwrap();
                assert_eq!(answer.status, ErrorStatus::None);
            }
        };
        run(100);
        wait_for_the_others_to_sleep();
        let before = CountingAllocator::calls();
        run(1000);
        assert_eq!(CountingAllocator::calls() - before, Calls::default(), "{measure:?}");
    }
}
