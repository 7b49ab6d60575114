//! Random graphs over random drivers give what the whole model gives on one device.

use nnburst::hal::{Model, Operand, OperationType, Version};
use nnburst::{
    CompileOptions, Device, ModelBuilder, Partitioning, compile_among, compile_for, explain,
};

use crate::devices::Picky;
use crate::plans::tensor;

/// A generator of small numbers that tests can repeat.
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

const UNARY: [OperationType; 4] =
    [OperationType::Relu, OperationType::Tanh, OperationType::Logistic, OperationType::Abs];
const BINARY: [OperationType; 5] = [
    OperationType::Add,
    OperationType::Mul,
    OperationType::Sub,
    OperationType::Maximum,
    OperationType::Minimum,
];

fn model(rng: &mut TestRng) -> Model {
    let extent = u32::try_from(1 + rng.below(8)).unwrap();
    let shape = [extent, extent];
    let mut graph = ModelBuilder::new();
    let mut values: Vec<_> = (0..1 + rng.below(3)).map(|_| graph.input(tensor(&shape))).collect();
    let constant: Vec<f32> = (0..extent * extent).map(|at| at as f32 * 0.125 - 1.0).collect();
    values.push(graph.tensor_f32(shape.to_vec(), &constant));
    let mut made = Vec::new();
    for _ in 0..1 + rng.below(100) {
        // Now and then a shape is left for the execution to find.
        let output = if rng.below(100) < 3 { tensor(&[0, extent]) } else { tensor(&shape) };
        let a = values[rng.below(values.len())];
        let id = if rng.below(3) == 0 {
            graph.operation(UNARY[rng.below(UNARY.len())], &[a], output)
        } else {
            let kind = BINARY[rng.below(BINARY.len())];
            let b = values[rng.below(values.len())];
            let has_activation =
                matches!(kind, OperationType::Add | OperationType::Mul | OperationType::Sub);
            let none = graph.scalar_i32(0);
            let inputs = [a, b, none];
            graph.operation(kind, &inputs[..if has_activation { 3 } else { 2 }], output)
        };
        values.push(id);
        made.push(id);
    }
    // The last value is an output, and some of the others.
    graph.output(made.pop().unwrap());
    for id in made {
        if rng.below(6) == 0 {
            graph.output(id);
        }
    }
    let mut model = graph.build().unwrap();
    // What no output needs is computed all the same; a constant that nobody reads is no matter.
    model.relax_computation_float32_to_float16 = false;
    model
}

fn device(rng: &mut TestRng, at: usize) -> Device {
    let (salt, share) = (rng.below(1000), 1 + rng.below(4));
    let cost = [0.5, 0.8, 1.0, 1.3][rng.below(4)];
    let version = Version::ALL[rng.below(4)];
    // The same of an operation in a step as in the whole model: a driver keeps its word.
    let taste = move |operation: &nnburst::hal::Operation, _: &Model| {
        let kind = usize::try_from(operation.kind.code()).unwrap();
        let doubled = usize::from(operation.inputs.first() == operation.inputs.get(1));
        !(kind * 7 + doubled * 3 + salt).is_multiple_of(share + 1)
    };
    Picky::new(cost, taste).device(&format!("random-{at}"), version)
}

fn outputs(compilation: &nnburst::Compilation, model: &Model) -> Vec<Vec<u32>> {
    let elements = |operand: &Operand| {
        let extent = operand.dimensions.iter().copied().max().unwrap_or(1);
        usize::try_from(extent * extent).unwrap()
    };
    let arguments = |operands: &[Operand]| -> Vec<_> {
        let length = |operand| elements(operand) * 4;
        operands
            .iter()
            .map(|operand| nnburst::Argument { dimensions: Vec::new(), length: length(operand) })
            .collect()
    };
    let (inputs, outputs) = (compilation.inputs(), compilation.outputs());
    let mut frame = compilation.frame_with(&arguments(inputs), &arguments(outputs)).unwrap();
    for (at, operand) in inputs.iter().enumerate() {
        let values: Vec<f32> =
            (0..elements(operand)).map(|e| (e * 31 % 17) as f32 * 0.25 - 2.0 + at as f32).collect();
        frame.write(at, &values).unwrap();
    }
    compilation.execution().compute(&mut frame).unwrap();
    let count = model.main.output_indexes.len();
    let bits = |output| frame.read::<f32>(output).unwrap().iter().map(|v| v.to_bits()).collect();
    (0..count).map(bits).collect()
}

#[test]
fn spread_models_compute_what_whole_ones_do() {
    let mut compound = 0;
    for seed in 0..225 {
        let mut rng = TestRng(seed * 2_654_435_761 + 1);
        let model = model(&mut rng);
        let mut devices: Vec<_> = (0..1 + rng.below(4)).map(|at| device(&mut rng, at)).collect();
        devices.push(Device::reference());
        let options = CompileOptions {
            partitioning: Some(Partitioning::WithFallback),
            ..CompileOptions::default()
        };
        let whole = compile_for(&model, &[Device::reference()], &options).unwrap();
        let want = outputs(&whole, &model);
        let spread = compile_among(&model, &devices, &options).unwrap();
        compound += usize::from(!explain(&model, &devices, &options).unwrap().is_simple());
        for round in 0..2 {
            assert_eq!(outputs(&spread, &model), want, "seed {seed}, round {round}");
        }
    }
    assert!(compound > 100, "only {compound} of 225 were spread");
}
