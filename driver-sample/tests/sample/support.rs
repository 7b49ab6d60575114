//! Models, requests and ways to a sample driver.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_driver_sample::sample_driver;
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, Serving};

/// How long anything may take before a test counts it as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(60);

/// A driver served in this process, and its device on the other side of the socket.
pub(crate) struct Served {
    pub(crate) device: RemoteDevice,
    _serving: Serving,
    _dir: tempfile::TempDir,
}

pub(crate) fn served(name: &str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let serving = driver(name).service().listen(dir.path()).unwrap();
    let device = RemoteDevice::connect_path(&serving.path()).unwrap();
    Served { device, _serving: serving, _dir: dir }
}

pub(crate) fn driver(name: &str) -> CpuDriver {
    sample_driver(name, CpuDriverOptions::default()).unwrap()
}

/// Sends every word of a callback on.
pub(crate) struct Tell<T>(mpsc::Sender<T>);

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

pub(crate) fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(bytes.len() as u64).unwrap();
    let mapping = memory.map(Access::ReadWrite).unwrap();
    mapping.view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
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
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, PrepareOptions::default(), CacheHandles::default(), callback)
    })
}

pub(crate) fn tell<T>() -> (Arc<Tell<T>>, mpsc::Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Tell(sender)), receiver)
}

impl PreparedModelCallback for Tell<Result<Arc<dyn PreparedModel>>> {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        let _ = self.0.send(result);
    }
}

pub(crate) fn as_floats(memory: &Memory) -> Vec<f32> {
    let mut bytes = vec![0; memory.size() as usize];
    memory.read_at(0, &mut bytes).unwrap();
    bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect()
}
