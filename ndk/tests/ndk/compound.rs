//! Plans of many steps, IF and WHILE among them, on a driver in another process that fails every
//! execution: the reference device stands in for each of its steps, memory of the driver's own
//! included.

use std::process::Command;

use nnburst::hal::{
    DataLocation, Direction, Memory as HalMemory, Model, Operand, Request, RequestArgument,
};
use nnburst::{
    BurstOptions, Compilation, CompileOptions, Device, Memory, MemoryDescriptor, ModelBuilder,
    OperandId, Partitioning, compile_among,
};

use crate::drivers::FAILS_PRODUCTS;
use crate::services::Served;

const CLIENT: &str = "NNBURST_TEST_COMPOUND";
const ROWS: u32 = 32;
const WIDTH: u32 = 256;
const BYTES: usize = (ROWS * WIDTH) as usize * size_of::<f32>();

#[test]
fn the_reference_device_stands_in_for_steps_around_control_flow() {
    let served = Served::start(FAILS_PRODUCTS);
    let mut client = Command::new(std::env::current_exe().unwrap());
    client.args(["--exact", "compound::client_main", "--nocapture"]).env(CLIENT, "1");
    let output = client.env("NNBURST_SERVICE_DIR", served.dir()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// What this binary does when it is started as the client.
#[test]
fn client_main() {
    if std::env::var_os(CLIENT).is_none() {
        return;
    }
    let model = model();
    let devices = nnburst::devices();
    let options = CompileOptions {
        partitioning: Some(Partitioning::WithFallback),
        ..CompileOptions::default()
    };
    let plan = nnburst::explain_among(&model, devices, &options).unwrap();
    let shown = plan.to_string();
    assert!(shown.contains("IF") && shown.contains("WHILE"), "{shown}");
    let compilation = compile_among(&model, devices, &options).unwrap();
    assert!(compilation.devices().iter().any(|device| device.name() == FAILS_PRODUCTS), "{shown}");
    for flag in [1, 0] {
        let want = expected(&model, flag);
        for way in ["sync", "async", "fenced", "burst"] {
            assert_eq!(run(&compilation, flag, way), want, "{way}, flag {flag}");
        }
    }
}

fn tensor() -> Operand {
    Operand::float32([ROWS, WIDTH])
}

/// Each row's elements become their mean, plus 1.
fn product(graph: &mut ModelBuilder, x: OperandId) -> OperandId {
    let count = (WIDTH * WIDTH) as usize;
    let weights = graph.constant_of(Operand::float32([WIDTH, WIDTH]), &vec![1.0 / 256.0f32; count]);
    let bias = graph.constant_of(Operand::float32([WIDTH]), &vec![1.0f32; WIDTH as usize]);
    graph.fully_connected(x, weights, bias).done()
}

/// Inputs: a flag, `x`, `c` and a counter. With `p` for the product that the driver takes:
/// `p(p(c) + (flag ? p(x) : x) + p(p(x)))`, the last of them by a loop.
fn model() -> Model {
    let mut graph = ModelBuilder::new();
    let flag = graph.input(Operand::bool8([1]));
    let [x, c] = [(); 2].map(|()| graph.input(tensor()));
    let counter = graph.input(Operand::float32([1]));
    let multiplied = graph.subgraph(|graph| {
        let x = graph.input(tensor());
        let y = product(graph, x);
        graph.output(y);
    });
    let kept = graph.subgraph(|graph| {
        let x = graph.input(tensor());
        let y = graph.relu(x).done();
        graph.output(y);
    });
    let below_two = graph.subgraph(|graph| {
        let counter = graph.input(Operand::float32([1]));
        graph.input(tensor());
        let two = graph.constant_of(Operand::float32([1]), &[2.0f32]);
        let less = graph.less(counter, two).done();
        graph.output(less);
    });
    let step = graph.subgraph(|graph| {
        let counter = graph.input(Operand::float32([1]));
        let x = graph.input(tensor());
        let one = graph.constant_of(Operand::float32([1]), &[1.0f32]);
        let next = graph.add(counter, one).done();
        let y = product(graph, x);
        graph.output(next);
        graph.output(y);
    });
    let of_c = product(&mut graph, c);
    let chosen = graph.if_else(flag, multiplied, kept, &[x])[0];
    let repeated = graph.while_loop(below_two, step, &[counter, x])[1];
    let sum = graph.add(of_c, chosen).done();
    let sum = graph.add(sum, repeated).done();
    let result = product(&mut graph, sum);
    graph.output(result);
    graph.build().unwrap()
}

fn values(seed: u8) -> Vec<f32> {
    (0..ROWS * WIDTH).map(|at| ((at * 7 + u32::from(seed)) % 13) as f32 / 8.0).collect()
}

/// By the reference device alone.
fn expected(model: &Model, flag: u8) -> Vec<u8> {
    let compilation = Device::reference().compile(model, Default::default()).unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[flag]).unwrap();
    frame.write(1, &values(1)).unwrap();
    frame.write(2, &values(2)).unwrap();
    frame.write(3, &[0.0f32]).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    frame.read_bytes(0).unwrap()
}

fn own(compilation: &Compilation, direction: Direction, index: usize) -> Memory {
    let mut descriptor = MemoryDescriptor::new();
    descriptor.add_role(compilation, direction, index, 1.0).unwrap();
    descriptor.finish().unwrap();
    let memory = descriptor.create_memory().unwrap();
    assert!(memory.shared().is_none(), "the driver's own");
    memory
}

/// One execution with `c` and the result in memory of the driver's own; the bytes of the result.
fn run(compilation: &Compilation, flag: u8, way: &str) -> Vec<u8> {
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[flag]).unwrap();
    frame.write(1, &values(1)).unwrap();
    frame.write(3, &[0.0f32]).unwrap();
    let plain = Memory::from(HalMemory::ashmem(BYTES as u64).unwrap());
    let bytes: Vec<u8> = values(2).iter().flat_map(|value| value.to_le_bytes()).collect();
    let mapping = plain.shared().unwrap().mapped().unwrap();
    mapping.view_mut(0..BYTES).unwrap().copy_from_slice(&bytes);
    let (c, result) =
        (own(compilation, Direction::Input, 2), own(compilation, Direction::Output, 0));
    Memory::copy(&plain, &c).unwrap();

    let mut request: Request = frame.request().clone();
    let whole = |pool_index| RequestArgument {
        location: DataLocation { pool_index, offset: 0, length: 0 },
        dimensions: vec![ROWS, WIDTH],
        has_no_value: false,
    };
    let pools = u32::try_from(request.pools.len()).unwrap();
    request.pools.extend([c.pool(), result.pool()]);
    (request.inputs[2], request.outputs[0]) = (whole(pools), whole(pools + 1));
    let execution = compilation.execution();
    let outcome = match way {
        "sync" => execution.compute_request(&request),
        "async" => execution.start_request(request).and_then(nnburst::Pending::wait),
        "fenced" => {
            let launched = execution.start_fenced_request(request, Vec::new(), None);
            launched.and_then(nnburst::Pending::wait)
        }
        _ => compilation
            .burst(&BurstOptions::default())
            .and_then(|mut burst| burst.compute_request(&request, &execution.options())),
    };
    outcome.map_err(|error| format!("{way}: {error}")).unwrap();
    result.written(Some(&[ROWS, WIDTH]));
    Memory::copy(&result, &plain).unwrap();
    mapping.view(0..BYTES).unwrap().to_vec()
}
