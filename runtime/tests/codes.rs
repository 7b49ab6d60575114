//! What a driver in another process answers to what can never be, and to what can once something
//! else is over. The same through C: `ndk/tests/c/codes.c`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "common/driver.rs"]
mod driver;

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Driver, THREADS};
use nnburst::hal::{
    BufferDesc, BufferRole, Model, Operand, OperandType, OperationType, PrepareOptions,
};
use nnburst::{BurstOptions, CompileOptions, ModelBuilder, ResultCode, Wait, compile_for};

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

/// Two values of nearly 4 GiB at a time, from inputs of 64 KiB.
fn too_large() -> Model {
    let bytes = |dimensions: [u32; 2], scale| Operand {
        scale,
        ..Operand::tensor(OperandType::TensorQuant8Asymm, dimensions.to_vec())
    };
    let mut graph = ModelBuilder::new();
    let column = graph.input(bytes([65_536, 1], 1.0));
    let row = graph.input(bytes([1, 65_535], 1.0));
    let none = graph.scalar_i32(0);
    let whole = [65_536, 65_535];
    let sum = graph.operation(OperationType::Add, &[column, row, none], bytes(whole, 1.0));
    let product = graph.operation(OperationType::Mul, &[sum, row, none], bytes(whole, 2.0));
    let larger = graph.operation(OperationType::Maximum, &[sum, product], bytes(whole, 2.0));
    let axes = graph.constant_of(Operand::tensor(OperandType::TensorInt32, vec![2]), &[0i32, 1]);
    let keeps = graph.scalar_bool(false);
    let one = Operand { scale: 2.0, ..Operand::tensor(OperandType::TensorQuant8Asymm, vec![1]) };
    let result = graph.operation(OperationType::ReduceMax, &[larger, axes, keeps], one);
    graph.output(result);
    graph.build().unwrap()
}

#[test]
fn a_model_that_never_fits_is_refused_for_good() {
    let driver = Driver::start();
    let model = too_large();
    let options = CompileOptions::default();
    for _ in 0..2 {
        let direct = driver.device.compile(&model, PrepareOptions::default()).unwrap_err();
        let named = compile_for(&model, std::slice::from_ref(&driver.device), &options);
        for error in [direct, named.unwrap_err()] {
            assert_eq!(error.code(), ResultCode::ResourceExhaustedPersistent, "{error}");
        }
    }
    driver.compile();
}

/// Buffers, of which a client may have 1,024: one that is given back makes room.
#[test]
fn tokens_run_out_until_one_is_given_back() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let role = [BufferRole { model_index: 0, io_index: 0, frequency: 1.0 }];
    let allocate = || {
        let models = [Arc::clone(compilation.prepared())];
        driver.device.hal().allocate(&BufferDesc::default(), &models, &role, &[])
    };
    let mut buffers = Vec::new();
    let refused = loop {
        match allocate() {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => break error,
        }
        assert!(buffers.len() < 100_000, "no end of buffers");
    };
    let code = ResultCode::from(refused.status);
    assert_eq!(code, ResultCode::ResourceExhaustedTransient, "{refused}");
    buffers.pop();
    // The driver hears of it by the same connection.
    buffers.push(allocate().unwrap());
}

/// A burst has a thread of the driver's; without one it takes the ordinary path, and says why.
#[test]
fn threads_run_out_until_one_is_given_back() {
    let driver = Driver::start_with(&[(THREADS, "16")]);
    let compilation = driver.compile();
    let options = BurstOptions { wait: Wait::Block, ..BurstOptions::default() };
    let mut bursts = Vec::new();
    let warning = loop {
        let mut burst = compilation.burst(&options).unwrap();
        let mut frame = burst.frame().unwrap();
        frame.write(0, &[1.0f32]).unwrap();
        frame.write(1, &[2.0f32]).unwrap();
        burst.compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [3.0]);
        if let Some(warning) = burst.warnings().first() {
            break warning.clone();
        }
        bursts.push(burst);
        assert!(bursts.len() <= 16, "no end of threads");
    };
    assert!(warning.contains("RESOURCE_EXHAUSTED_TRANSIENT"), "{warning}");
    bursts.clear();
    // Their threads end a moment after their connections.
    let start = Instant::now();
    while !compilation.burst(&options).unwrap().warnings().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "no thread came back");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Six products of matrices: tens of milliseconds.
fn slow() -> Model {
    const WIDTH: u32 = 1024;
    let mut graph = ModelBuilder::new();
    let count = (WIDTH * WIDTH) as usize;
    let weights: Vec<f32> = (0..count).map(|at| (at % 7) as f32 / 1024.0).collect();
    let weights = graph.constant_of(Operand::float32([WIDTH, WIDTH]), &weights);
    let bias = graph.constant_of(Operand::float32([WIDTH]), &vec![0.0f32; WIDTH as usize]);
    let mut value = graph.input(Operand::float32([256, WIDTH]));
    for _ in 0..6 {
        value = graph.fully_connected(value, weights, bias).done();
    }
    graph.output(value);
    graph.build().unwrap()
}

#[test]
fn a_deadline_that_no_run_ever_met_is_missed_for_good() {
    let driver = Driver::start();
    let compilation = driver.device.compile(&slow(), PrepareOptions::default()).unwrap();
    let mut frame = compilation.frame().unwrap();
    let mut run = || {
        compilation.execution().compute(&mut frame).unwrap();
        frame.latency()
    };
    let quickest = (0..3).map(|_| run()).min().unwrap();
    let late = compilation.execution().timeout(quickest / 4);
    // On a busy machine the time may be over before the driver sees the request.
    for _ in 0..500 {
        let error = late.compute(&mut frame).unwrap_err();
        assert!(error.is_deadline_missed(), "{error}");
        if error.code() == ResultCode::MissedDeadlinePersistent {
            return;
        }
        assert_eq!(error.code(), ResultCode::MissedDeadlineTransient, "{error}");
    }
    unreachable!("the driver never said that the deadline can't be met");
}
