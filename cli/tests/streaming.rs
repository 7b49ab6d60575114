//! A stateful model frame by frame through a burst to another process: its state is never copied.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::sync::Arc;

use nnburst::hal::{
    Buffer, BufferDesc, BufferRole, DataLocation, ExecutionOptions, Memory, Model, Operand,
    OperandType, OperationType, Request, RequestPool,
};
use nnburst::{BurstOptions, Compilation, Device, DriverOptions, ModelBuilder, PrepareOptions};

const DRIVER: &str = "nnapi-sample_all";
const WIDTH: usize = 64;
const STATE_BYTES: u64 = 4 * 64;
/// The argument that is the state, among inputs and outputs alike.
const STATE: usize = 1;
const STEPS: usize = 40;
/// Here the state begins anew.
const RESET: usize = 25;

/// `state = tanh(state + x)`, `y = state * x`.
fn model() -> Model {
    let tensor = || Operand::tensor(OperandType::TensorFloat32, vec![1, WIDTH.try_into().unwrap()]);
    let mut graph = ModelBuilder::new();
    let (x, state, plain) = (graph.input(tensor()), graph.input(tensor()), graph.scalar_i32(0));
    let sum = graph.operation(OperationType::Add, &[state, x, plain], tensor());
    let state = graph.operation(OperationType::Tanh, &[sum], tensor());
    let y = graph.operation(OperationType::Mul, &[state, x, plain], tensor());
    graph.output(y);
    graph.output(state);
    graph.build().unwrap()
}

/// In a process of its own.
fn remote() -> (Device, Compilation) {
    let program = Some(env!("CARGO_BIN_EXE_nnburst").into());
    let device =
        Device::spawn_with(DRIVER, &DriverOptions { program, ..DriverOptions::default() }).unwrap();
    let compilation = device.compile(&model(), PrepareOptions::default()).unwrap();
    (device, compilation)
}

fn heard(step: usize) -> Vec<f32> {
    (0..WIDTH).map(|at| ((step * 7 + at) % 13) as f32 / 6.0 - 1.0).collect()
}

/// What comes out of each step, by calls in this process that carry the state by hand.
fn expected() -> Vec<Vec<f32>> {
    let device = Device::embedded(DRIVER).unwrap();
    let compilation = device.compile(&model(), PrepareOptions::default()).unwrap();
    let mut frame = compilation.frame().unwrap();
    let mut state = vec![0f32; WIDTH];
    let step = |step| {
        if step == RESET {
            state.fill(0.0);
        }
        frame.write(0, &heard(step)).unwrap();
        frame.write(STATE, &state).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        state = frame.read(STATE).unwrap();
        frame.read(0).unwrap()
    };
    let out: Vec<Vec<f32>> = (0..STEPS).map(step).collect();
    assert_ne!(out[RESET], out[0], "what is heard differs");
    out
}

#[test]
fn state_in_places_that_swap_roles_is_that_of_calls_with_copies() {
    let (_device, compilation) = remote();
    let mut burst = compilation.burst(&BurstOptions::default()).unwrap();
    let mut frame = burst.frame().unwrap();
    let place = |request: &Request| request.outputs[STATE].location;
    let mut places = Vec::new();
    for (step, want) in expected().into_iter().enumerate() {
        if step == 0 || step == RESET {
            frame.write(STATE, &[0f32; WIDTH]).unwrap();
        }
        frame.write(0, &heard(step)).unwrap();
        places.push(place(frame.request()));
        burst.compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), want, "step {step}");
        frame.exchange(STATE, STATE).unwrap();
    }
    assert_eq!(burst.stats().unwrap().executions(), STEPS as u64, "none took another way");
    assert!(places.windows(3).all(|three| three[0] == three[2] && three[0] != three[1]));
}

/// A buffer of the driver's for the state, as input and as output.
fn state_buffer(device: &Device, compilation: &Compilation) -> Arc<dyn Buffer> {
    let role = [BufferRole { model_index: 0, io_index: STATE.try_into().unwrap(), frequency: 1.0 }];
    let models = [Arc::clone(compilation.prepared())];
    device.hal().allocate(&BufferDesc::default(), &models, &role, &role).unwrap()
}

#[test]
fn state_in_the_drivers_buffers_is_that_of_calls_with_copies() {
    let (device, compilation) = remote();
    let mut burst = compilation.burst(&BurstOptions::default()).unwrap();
    let mut frame = burst.frame().unwrap();
    let silence = Memory::ashmem(STATE_BYTES).unwrap();
    let buffers = [(); 2].map(|()| state_buffer(&device, &compilation));
    // One request for each direction: from the first buffer to the second, and back.
    let requests = [[0, 1], [1, 0]].map(|[from, to]: [usize; 2]| {
        let mut request = frame.request().clone();
        let in_pool = |pool_index| DataLocation { pool_index, offset: 0, length: 0 };
        request.pools.push(RequestPool::Token(buffers[from].token()));
        request.pools.push(RequestPool::Token(buffers[to].token()));
        request.inputs[STATE].location = in_pool(1);
        request.outputs[STATE].location = in_pool(2);
        request
    });
    for (step, want) in expected().into_iter().enumerate() {
        if step == 0 || step == RESET {
            buffers[step % 2].copy_from(&silence, &[]).unwrap();
        }
        frame.write(0, &heard(step)).unwrap();
        burst.compute_request(&requests[step % 2], &ExecutionOptions::default()).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), want, "step {step}");
    }
    assert_eq!(burst.stats().unwrap().executions(), STEPS as u64, "none took another way");
}
