//! Bodies of fuzz targets, for libFuzzer and for property tests alike; feature `testing`.
//!
//! What is asked of every one: no panic, no endless loop, no undefined behaviour, and an answer.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nnburst_executor::testing::{Element, TestRng, random_model};
use nnburst_hal::{
    Access, CACHE_TOKEN_BYTES, CacheHandles, DataLocation, Device, ExecutionOptions, ExtraParams,
    FileStatus, Memory, Model, OperandLifeTime, OperandType, OperationType, PrepareOptions,
    PreparedModel, Request, RequestArgument, RequestPool, Result, wait_for_prepared_model,
};

pub use crate::cache::testing::stripe_sum;
use crate::cache::testing::with_right_sums;
use crate::{CpuDriver, CpuDriverOptions};

const TOKEN: [u8; CACHE_TOKEN_BYTES] = [5; CACHE_TOKEN_BYTES];

fn device() -> Arc<dyn Device> {
    static DRIVER: OnceLock<CpuDriver> = OnceLock::new();
    DRIVER.get_or_init(|| CpuDriver::new(CpuDriverOptions::default())).device()
}

/// Prepares a valid random model with a few random changes in it, and executes a request that fits
/// it or nearly does. Whether the model was taken.
///
/// # Panics
/// A model was prepared that the driver said it wouldn't take: that is the finding.
pub fn fuzz_prepare(bytes: &[u8]) -> bool {
    let device = device();
    let mut rng = TestRng::of_bytes(bytes);
    let elements = [Element::Float32, Element::Unsigned, Element::Signed];
    let element = pick(&mut rng, &elements).unwrap_or(Element::Float32);
    let mut model = random_model(&mut rng, element, 6).model;
    for _ in 0..rng.below(4) {
        change(&mut model, &mut rng);
    }
    let taken = device.supported_operations(&model);
    let prepared = wait_for_prepared_model(|callback| {
        let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
        device.prepare_model(model.clone(), options, cache, callback)
    });
    let Ok(prepared) = prepared else { return false };
    assert!(taken.is_ok_and(|taken| taken.iter().all(|&taken| taken)), "prepared, hence taken");
    let slack = rng.below(3);
    execute(prepared.as_ref(), &model, slack);
    true
}

fn pick<T: Copy>(rng: &mut TestRng, choices: &[T]) -> Option<T> {
    choices.get(rng.below(choices.len())).copied()
}

/// One field of a model, set to something else.
fn change(model: &mut Model, rng: &mut TestRng) {
    let edge = |rng: &mut TestRng| -> u32 {
        let small = u32::try_from(rng.below(6)).unwrap_or(0);
        rng.one_of(&[small, small, u32::MAX, u32::MAX - 1, 1 << 31, 1 << 16])
    };
    let operands = model.main.operands.len();
    let at = rng.below(operands.max(1));
    let Some(operand) = model.main.operands.get_mut(at) else { return };
    match rng.below(9) {
        0 => {
            let value = edge(rng);
            if let Some(extent) = operand.dimensions.last_mut() {
                *extent = value;
            }
        }
        1 => operand.dimensions.push(edge(rng)),
        2 => operand.kind = pick(rng, OperandType::BASE).unwrap_or(operand.kind),
        3 => operand.scale = rng.one_of(&[0.0, 1e-30, f32::NAN, -1.0, f32::MAX]),
        4 => operand.zero_point = edge(rng).cast_signed(),
        5 => operand.lifetime = pick(rng, OperandLifeTime::ALL).unwrap_or(operand.lifetime),
        6 => {
            let (offset, length) = (edge(rng), edge(rng));
            operand.location = DataLocation { pool_index: 0, offset, length };
        }
        7 => operand.extra_params = ExtraParams::Extension(vec![1, 2]),
        _ => {
            let count = model.main.operations.len();
            let kind = pick(rng, OperationType::BASE).unwrap_or(OperationType::Add);
            let index = u32::try_from(rng.below(operands + 1)).unwrap_or(0);
            let swap = rng.once_in(2);
            if let Some(operation) = model.main.operations.get_mut(rng.below(count.max(1))) {
                if swap {
                    operation.kind = kind;
                } else if let Some(input) = operation.inputs.first_mut() {
                    *input = index;
                }
            }
        }
    }
}

/// Executes a model on zeros, with outputs of 64 KiB and inputs that are `slack` bytes too long.
fn execute(prepared: &dyn PreparedModel, model: &Model, slack: usize) {
    let main = &model.main;
    let size = |&index: &u32| {
        let operand = usize::try_from(index).ok().and_then(|index| main.operands.get(index));
        operand.and_then(|operand| operand.data_size()).unwrap_or(64).min(1 << 20) + slack
    };
    let output = 64 << 10;
    let mut end = 0;
    let mut argument = |length: usize| {
        let offset = u32::try_from(end).unwrap_or(u32::MAX);
        end += length;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let location = DataLocation { pool_index: 0, offset, length };
        RequestArgument { location, ..RequestArgument::default() }
    };
    let inputs = main.input_indexes.iter().map(size).map(&mut argument).collect();
    let outputs = main.output_indexes.iter().map(|_| argument(output)).collect();
    let Ok(memory) = Memory::ashmem(u64::try_from(end.max(1)).unwrap_or(1)) else { return };
    let request = Request { inputs, outputs, pools: vec![RequestPool::Memory(memory)] };
    // Some are refused; all are answered.
    drop(prepared.execute_synchronously(&request, ExecutionOptions::default()));
}

/// Loads cache files that were saved and then changed as the bytes say, with sums put right at
/// times, so that what lies behind them is reached. Whether a model came of it; it is executed
/// then.
pub fn fuzz_cache_files(bytes: &[u8]) -> bool {
    static SAVED: OnceLock<Option<[Vec<u8>; 2]>> = OnceLock::new();
    let Some(saved) = SAVED.get_or_init(|| saved().ok()) else { return false };
    let mut files = saved.clone();
    let (&first, edits) = bytes.split_first().unwrap_or((&0, &[]));
    for edit in edits.chunks(4) {
        let &[which, high, low, value] = edit else { break };
        let at = usize::from(high) << 8 | usize::from(low);
        let [model, data] = &mut files;
        let file = if which % 4 == 0 { data } else { model };
        match which / 64 {
            0 => file.truncate(at),
            1 if file.len() < 1 << 17 => file.resize(at, value),
            _ => {
                let len = file.len().max(1);
                if let Some(byte) = file.get_mut(at % len) {
                    *byte = value;
                }
            }
        }
    }
    if first % 4 != 0 {
        files = with_right_sums(files);
    }
    let handles = files.iter().map(|bytes| file(bytes)).collect::<Result<Vec<_>>>();
    let Ok(Ok([model, data])) = handles.map(<[OwnedFd; 2]>::try_from) else { return false };
    let cache = CacheHandles { model: vec![model], data: vec![data], token: TOKEN };
    let loaded = wait_for_prepared_model(|callback| {
        device().prepare_model_from_cache(None, cache, callback)
    });
    let Ok(loaded) = loaded else { return false };
    // The model that was loaded may be another than was saved; its own is known to the driver
    // alone.
    execute(loaded.as_ref(), &product(), 0);
    true
}

/// What a driver saves of a model.
fn saved() -> Result<[Vec<u8>; 2]> {
    let device = device();
    let (model, data) = (file(&[])?, file(&[])?);
    let again = |file: &OwnedFd| {
        file.try_clone().map_err(|error| nnburst_hal::HalError::failure(error.to_string()))
    };
    let cache =
        CacheHandles { model: vec![again(&model)?], data: vec![again(&data)?], token: TOKEN };
    wait_for_prepared_model(|callback| {
        device.prepare_model(product(), PrepareOptions::default(), cache, callback)
    })?;
    Ok([contents(model)?, contents(data)?])
}

fn file(bytes: &[u8]) -> Result<OwnedFd> {
    let failed = |errno| nnburst_hal::HalError::failure(format!("memfd: {errno}"));
    let file = memfd_create(c"fuzz", MFdFlags::MFD_CLOEXEC).map_err(failed)?;
    nix::sys::uio::pwrite(&file, bytes, 0).map_err(failed)?;
    Ok(file)
}

fn contents(file: OwnedFd) -> Result<Vec<u8>> {
    let size = FileStatus::of(&file).map_or(0, |status| status.size);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let memory = Memory::from_fd(file, 0, size, false)?;
    if let Some(view) = memory.map(Access::Read)?.view(0..bytes.len()) {
        bytes = view.to_vec();
    }
    Ok(bytes)
}

/// A fully connected layer: two units over three inputs.
fn product() -> Model {
    use nnburst_hal::{Operand, Operation, Subgraph};
    let float = |dimensions: &[u32], lifetime| {
        Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec()).with_lifetime(lifetime)
    };
    let constant = |operand: Operand, offset, length| Operand {
        location: DataLocation { pool_index: 0, offset, length },
        lifetime: OperandLifeTime::ConstantCopy,
        number_of_consumers: 1,
        ..operand
    };
    let copied = OperandLifeTime::ConstantCopy;
    let operands = vec![
        Operand { number_of_consumers: 1, ..float(&[1, 3], OperandLifeTime::SubgraphInput) },
        constant(float(&[2, 3], copied), 0, 24),
        constant(float(&[2], copied), 24, 8),
        constant(Operand::scalar(OperandType::Int32), 32, 4),
        float(&[1, 2], OperandLifeTime::SubgraphOutput),
    ];
    let kind = OperationType::FullyConnected;
    let operations = vec![Operation { kind, inputs: vec![0, 1, 2, 3], outputs: vec![4] }];
    let main = Subgraph { operands, operations, input_indexes: vec![0], output_indexes: vec![4] };
    Model { main, operand_values: vec![0; 36], ..Model::default() }
}
