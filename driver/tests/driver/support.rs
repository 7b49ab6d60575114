//! Models, requests and ways to a driver.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

pub(crate) use nnburst_driver::CPU;
use nnburst_driver::{CpuDriver, CpuDriverOptions, Personality, uniform_capabilities};
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, Serving};

/// How long anything may take before a test counts it as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(60);

/// A driver served in this process, and its device on the other side of the socket.
pub(crate) struct Served {
    pub(crate) device: RemoteDevice,
    serving: Serving,
    _dir: tempfile::TempDir,
}

impl Served {
    /// The driver's socket.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.serving.path()
    }
}

pub(crate) fn served(name: &'static str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let serving = driver(name).service().listen(dir.path()).unwrap();
    let device = RemoteDevice::connect_path(&serving.path()).unwrap();
    Served { device, serving, _dir: dir }
}

/// The driver, or one that differs from it in its name alone.
pub(crate) fn driver(name: &'static str) -> CpuDriver {
    #[derive(Debug)]
    struct Named(&'static str);
    impl Personality for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn capabilities(&self) -> Capabilities {
            uniform_capabilities(PerformanceInfo { exec_time: 1.0, power_usage: 1.0 })
        }

        fn takes(&self, _: &Operation, _: &Subgraph, _: &Model) -> bool {
            true
        }
    }
    match name {
        CPU => CpuDriver::new(CpuDriverOptions::default()),
        name => CpuDriver::with_personality(Arc::new(Named(name)), CpuDriverOptions::default()),
    }
}

pub(crate) fn tensor(kind: OperandType, dimensions: &[u32], lifetime: OperandLifeTime) -> Operand {
    Operand::tensor(kind, dimensions.to_vec()).with_lifetime(lifetime)
}

/// A model of one operation, its consumers counted.
pub(crate) fn model(operands: Vec<Operand>, kind: OperationType, values: Vec<u8>) -> Model {
    let with = |lifetime: OperandLifeTime| -> Vec<u32> {
        (0..).zip(&operands).filter(|(_, o)| o.lifetime == lifetime).map(|(at, _)| at).collect()
    };
    let input_indexes = with(OperandLifeTime::SubgraphInput);
    let output_indexes = with(OperandLifeTime::SubgraphOutput);
    let inputs: Vec<u32> =
        (0..operands.len() as u32).filter(|at| !output_indexes.contains(at)).collect();
    let mut operands = operands;
    for &input in &inputs {
        operands[input as usize].number_of_consumers = 1;
    }
    let operations = vec![Operation { kind, inputs, outputs: output_indexes.clone() }];
    let main = Subgraph { operands, operations, input_indexes, output_indexes };
    Model { main, operand_values: values, ..Model::default() }
}

/// `out = in + 1`, of floats in this shape.
pub(crate) fn add_one(dimensions: &[u32]) -> Model {
    add_one_to(dimensions, dimensions)
}

/// [`add_one`], with the output's shape declared apart.
pub(crate) fn add_one_to(dimensions: &[u32], output: &[u32]) -> Model {
    let float = OperandType::TensorFloat32;
    let constant = |kind, dimensions: &[u32], offset| {
        let mut operand = tensor(kind, dimensions, OperandLifeTime::ConstantCopy);
        operand.location = DataLocation { pool_index: 0, offset, length: 4 };
        operand
    };
    let operands = vec![
        tensor(float, dimensions, OperandLifeTime::SubgraphInput),
        constant(float, &[1], 0),
        constant(OperandType::Int32, &[], 4),
        tensor(float, output, OperandLifeTime::SubgraphOutput),
    ];
    let values = [1.0f32.to_le_bytes(), 0i32.to_le_bytes()].concat();
    model(operands, OperationType::Add, values)
}

/// `out = relu(in)`, of one type and shape.
pub(crate) fn relu(kind: OperandType, dimensions: &[u32]) -> Model {
    let quantised = !matches!(kind, OperandType::TensorFloat32 | OperandType::TensorFloat16);
    let operand = |lifetime| {
        let operand = tensor(kind, dimensions, lifetime);
        if quantised { operand.with_quantization(0.5, 0) } else { operand }
    };
    let operands =
        vec![operand(OperandLifeTime::SubgraphInput), operand(OperandLifeTime::SubgraphOutput)];
    model(operands, OperationType::Relu, Vec::new())
}

pub(crate) fn floats(values: &[f32]) -> Memory {
    memory(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

pub(crate) fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(bytes.len() as u64).unwrap();
    let mapping = memory.map(Access::ReadWrite).unwrap();
    mapping.view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
}

pub(crate) fn as_floats(memory: &Memory) -> Vec<f32> {
    let mut bytes = vec![0; memory.size() as usize];
    memory.read_at(0, &mut bytes).unwrap();
    bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect()
}

pub(crate) fn argument(pool_index: u32, length: u64) -> RequestArgument {
    let location = DataLocation { pool_index, offset: 0, length: length as u32 };
    RequestArgument { location, ..RequestArgument::default() }
}

/// A request that reads one memory and writes another.
pub(crate) fn request(input: &Memory, output: &Memory) -> Request {
    Request {
        inputs: vec![argument(0, input.size())],
        outputs: vec![argument(1, output.size())],
        pools: vec![RequestPool::Memory(input.clone()), RequestPool::Memory(output.clone())],
    }
}

pub(crate) fn prepare(device: &dyn Device, model: Model) -> Result<Arc<dyn PreparedModel>> {
    prepare_with(device, model, PrepareOptions::default())
}

pub(crate) fn prepare_with(
    device: &dyn Device,
    model: Model,
    options: PrepareOptions,
) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, options, CacheHandles::default(), callback)
    })
}

/// Sends every word of a callback on.
pub(crate) struct Tell<T>(mpsc::Sender<T>);

pub(crate) fn tell<T>() -> (Arc<Tell<T>>, mpsc::Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Tell(sender)), receiver)
}

impl PreparedModelCallback for Tell<Result<Arc<dyn PreparedModel>>> {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        let _ = self.0.send(result);
    }
}

impl ExecutionCallback for Tell<ExecutionResult> {
    fn notify(&self, result: ExecutionResult) {
        let _ = self.0.send(result);
    }
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HUNG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Executes by the callback.
pub(crate) fn execute_async(
    model: &dyn PreparedModel,
    request: &Request,
    options: ExecutionOptions,
) -> ExecutionResult {
    let (callback, words) = tell();
    let launched = model.execute(request.clone(), options, callback);
    let word: ExecutionResult = words.recv_timeout(HUNG).unwrap();
    if let Err(error) = launched {
        assert_eq!(word.as_ref().unwrap_err().error, error, "launch and callback say the same");
    }
    assert!(words.recv_timeout(HUNG).is_err(), "the callback is dropped after one word");
    word
}

/// Waits for a fence; true if it signalled, false if it is in error.
pub(crate) fn wait(fence: &std::os::fd::OwnedFd) -> bool {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(fence.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE).unwrap();
    fds[0].revents().unwrap().contains(PollFlags::POLLIN)
}

/// Executes behind no fence.
pub(crate) fn execute_fenced(
    model: &dyn PreparedModel,
    request: &Request,
    options: ExecutionOptions,
) -> Result<FencedTiming> {
    let fenced = model.execute_fenced(request.clone(), Vec::new(), options, None)?;
    let signalled = fenced.sync_fence.is_none_or(|fence| wait(&fence));
    let info = fenced.callback.execution_info();
    assert_eq!(info.is_ok(), signalled, "fence and callback say the same");
    info
}
