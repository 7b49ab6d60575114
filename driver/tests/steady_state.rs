//! Nothing is allocated for a frame of a burst, by the client or by the driver.

use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver::{CpuDriver, Options};
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

#[test]
fn a_frame_of_a_burst_allocates_nothing() {
    let driver = CpuDriver::new(Options::default());
    let device = driver.device();
    let model = wait_for_prepared_model(|callback| {
        let options = PrepareOptions::default();
        device.prepare_model(relu(&[4, 4]), options, CacheHandles::default(), callback)
    })
    .unwrap();
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
        // The thread that prepared the model may still be letting go of what it had: on a busy
        // machine in the midst of the first frames. What a frame allocates shows each time.
        let mut counted = || {
            let before = CountingAllocator::calls();
            run(1000);
            CountingAllocator::calls() - before
        };
        let is_still = (0..10).any(|_| counted() == Calls::default());
        assert!(is_still, "{measure:?}: {:?} in a thousand frames", counted());
    }
}
