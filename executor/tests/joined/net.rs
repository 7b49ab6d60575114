//! Models in the making, and what they give joined and apart.

use std::sync::Arc;

use nnburst_executor::{
    CompileOptions, Control, ExtensionRegistry, Input, Isa, Output, Plan, TfliteExecutor,
};
use nnburst_hal::tflite_extension::NAME;
use nnburst_hal::{
    DataLocation, ExtensionCode, ExtensionNameAndPrefix, Model, Operand, OperandLifeTime,
    OperandType, Operation, OperationType as Op, Subgraph, View, ViewMut,
};

/// The prefix of operations of TFLite, and one of them.
const PREFIX: u16 = 3;
const BATCH_MATMUL: u16 = 126;

/// A model in the making, of floats or of bytes.
#[derive(Clone)]
pub(crate) struct Net {
    pub(crate) graph: Subgraph,
    values: Vec<u8>,
    /// Type, scale and zero point of tensors.
    pub(crate) like: Operand,
}

impl Net {
    pub(crate) fn new(like: Operand) -> Self {
        Self { graph: Subgraph::default(), values: Vec::new(), like }
    }

    pub(crate) fn add(&mut self, operand: Operand) -> u32 {
        self.graph.operands.push(operand);
        u32::try_from(self.graph.operands.len() - 1).unwrap()
    }

    pub(crate) fn input(&mut self, dims: &[u32]) -> u32 {
        let input = Operand { dimensions: dims.to_vec(), ..self.like.clone() };
        let input = self.add(input.with_lifetime(OperandLifeTime::SubgraphInput));
        self.graph.input_indexes.push(input);
        input
    }

    pub(crate) fn constant(&mut self, mut operand: Operand, bytes: &[u8]) -> u32 {
        self.values.resize(self.values.len().next_multiple_of(4), 0);
        let [offset, length] = [self.values.len(), bytes.len()].map(|n| u32::try_from(n).unwrap());
        operand.location = DataLocation { pool_index: 0, offset, length };
        self.values.extend(bytes);
        self.add(operand.with_lifetime(OperandLifeTime::ConstantCopy))
    }

    pub(crate) fn int(&mut self, value: i32) -> u32 {
        self.constant(Operand::scalar(OperandType::Int32), &value.to_le_bytes())
    }

    pub(crate) fn ints(&mut self, dims: &[u32], values: &[i32]) -> u32 {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(Operand::tensor(OperandType::TensorInt32, dims.to_vec()), &bytes)
    }

    /// Weights that differ from each other.
    pub(crate) fn weights(&mut self, dims: &[u32]) -> u32 {
        let operand = Operand { dimensions: dims.to_vec(), ..self.like.clone() };
        let bytes = some_bytes(&operand, 3);
        self.constant(operand, &bytes)
    }

    pub(crate) fn bias(&mut self, channels: u32) -> u32 {
        if self.like.scale == 0.0 {
            return self.weights(&[channels]);
        }
        let bias = Operand::tensor(OperandType::TensorInt32, vec![channels]);
        let bytes: Vec<u8> = (0..channels).flat_map(|i| (i * 7).to_le_bytes()).collect();
        self.constant(bias.with_quantization(self.like.scale * self.like.scale, 0), &bytes)
    }

    /// An operation with one output of unknown shape.
    pub(crate) fn op(&mut self, kind: Op, inputs: &[u32]) -> u32 {
        self.op_of(kind, inputs, self.like.clone())
    }

    pub(crate) fn op_of(&mut self, kind: Op, inputs: &[u32], like: Operand) -> u32 {
        let output = self.add(Operand { dimensions: Vec::new(), ..like });
        self.operate(kind, inputs, &[output]);
        output
    }

    pub(crate) fn operate(&mut self, kind: Op, inputs: &[u32], outputs: &[u32]) {
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        self.graph.operations.push(Operation { kind, inputs, outputs });
    }

    pub(crate) fn conv(
        &mut self,
        x: u32,
        [out, height, width, channels]: [u32; 4],
        stride: i32,
    ) -> u32 {
        let (filter, bias) = (self.weights(&[out, height, width, channels]), self.bias(out));
        let (valid, stride, none) = (self.int(2), self.int(stride), self.int(0));
        self.op(Op::Conv2d, &[x, filter, bias, valid, stride, stride, none])
    }

    pub(crate) fn depthwise(
        &mut self,
        x: u32,
        [height, width, channels]: [u32; 3],
        stride: i32,
    ) -> u32 {
        let (filter, bias) = (self.weights(&[1, height, width, channels]), self.bias(channels));
        let (valid, stride, one, none) = (self.int(2), self.int(stride), self.int(1), self.int(0));
        let inputs = [x, filter, bias, valid, stride, stride, one, none];
        self.op(Op::DepthwiseConv2d, &inputs)
    }

    pub(crate) fn pad(&mut self, x: u32, sides: [i32; 8]) -> u32 {
        let sides = self.ints(&[4, 2], &sides);
        self.op(Op::Pad, &[x, sides])
    }

    pub(crate) fn concatenate(&mut self, inputs: &[u32], axis: i32) -> u32 {
        let axis = self.int(axis);
        self.op(Op::Concatenation, &[inputs, &[axis]].concat())
    }

    pub(crate) fn split(&mut self, x: u32, axis: i32, parts: i32) -> Vec<u32> {
        let (axis, count) = (self.int(axis), self.int(parts));
        let like = Operand { dimensions: Vec::new(), ..self.like.clone() };
        let outputs: Vec<u32> = (0..parts).map(|_| self.add(like.clone())).collect();
        self.operate(Op::Split, &[x, axis, count], &outputs);
        outputs
    }

    /// BATCH_MATMUL, of the second operand's transposed matrices if that is `transposed`.
    pub(crate) fn matmul(&mut self, a: u32, b: u32, transposed: bool) -> u32 {
        let flag = Operand::scalar(OperandType::Bool);
        let [no, other] = [false, transposed].map(|is| self.constant(flag.clone(), &[is.into()]));
        let code = ExtensionCode { prefix: PREFIX, number: BATCH_MATMUL };
        let scalars = self.int(0);
        self.op(Op::Extension(code), &[a, b, no, other, no, scalars])
    }

    pub(crate) fn relu(&mut self, x: u32) -> u32 {
        self.op(Op::Relu, &[x])
    }

    pub(crate) fn sum(&mut self, a: u32, b: u32) -> u32 {
        let none = self.int(0);
        self.op(Op::Add, &[a, b, none])
    }

    pub(crate) fn model(mut self, outputs: &[u32]) -> Model {
        for &output in outputs {
            self.graph.operands[output as usize].lifetime = OperandLifeTime::SubgraphOutput;
        }
        self.graph.output_indexes = outputs.to_vec();
        for operation in &self.graph.operations {
            for &input in &operation.inputs {
                self.graph.operands[input as usize].number_of_consumers += 1;
            }
        }
        let entry = ExtensionNameAndPrefix { name: NAME.to_owned(), prefix: PREFIX };
        Model {
            main: self.graph,
            operand_values: self.values,
            extension_name_to_prefix: vec![entry],
            ..Model::default()
        }
    }
}

/// Random bytes, or floats that are small multiples of a power of two: sums are then exact in any
/// order.
pub(crate) fn some_bytes(operand: &Operand, seed: u32) -> Vec<u8> {
    let count: u32 = operand.dimensions.iter().product();
    let numbers = (0..count).map(|i| (i + seed).wrapping_mul(2_654_435_761) >> 13);
    match operand.kind {
        OperandType::TensorFloat32 => {
            numbers.flat_map(|n| ((n % 17) as f32 * 0.25 - 2.0).to_le_bytes()).collect()
        }
        _ => numbers.map(|n| n.to_le_bytes()[0]).collect(),
    }
}

/// Names of kernels, and every output.
pub(crate) type Ran = (Vec<&'static str>, Vec<Vec<u8>>);

pub(crate) fn run(model: &Model, isa: Isa, apart: bool) -> Ran {
    run_with(model, &CompileOptions { isa: Some(isa), apart, ..options() })
}

/// Those of models with operations of TFLite.
pub(crate) fn options() -> CompileOptions {
    let mut extensions = ExtensionRegistry::default();
    extensions.register(NAME, Arc::new(TfliteExecutor));
    CompileOptions { extensions, ..CompileOptions::default() }
}

fn run_with(model: &Model, options: &CompileOptions) -> Ran {
    let plan = Plan::compile(model, options).unwrap();
    let kernels = plan.labels().map(|(_, _, label)| label.kernel).collect();
    let inputs = model.main.input_indexes.iter().zip(7..);
    let inputs: Vec<Vec<u8>> =
        inputs.map(|(&at, seed)| some_bytes(&model.main.operands[at as usize], seed)).collect();
    let given: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let mut buffers = vec![vec![0xA5; 1 << 22]; model.main.output_indexes.len()];
    let mut session = plan.session();
    for _ in 0..2 {
        let outputs: Vec<_> = buffers.iter_mut().map(|it| Output::new(ViewMut::of(it))).collect();
        session.run(&given, &outputs, &Control::default()).unwrap();
    }
    (kernels, buffers)
}

pub(crate) fn floats() -> Operand {
    Operand::tensor(OperandType::TensorFloat32, Vec::new())
}

pub(crate) fn unsigned() -> Operand {
    Operand::tensor(OperandType::TensorQuant8Asymm, Vec::new()).with_quantization(0.125, 121)
}

pub(crate) fn signed() -> Operand {
    Operand::tensor(OperandType::TensorQuant8AsymmSigned, Vec::new()).with_quantization(0.125, -7)
}

/// Runs a model in every form, joined, shared between threads and apart, which must give the same,
/// and has a look at the names of the kernels that are left and of all.
pub(crate) fn compare(
    what: &str,
    model: &Model,
    look: impl Fn(Isa, &[&'static str], &[&'static str]),
) {
    for isa in Isa::all() {
        let (kernels, joined) = run(model, isa, false);
        let (all, apart) = run(model, isa, true);
        assert!(joined == apart, "{what}, {isa:?}: {kernels:?} differ from {all:?}");
        let two = CompileOptions { isa: Some(isa), threads: 2, ..options() };
        assert!(run_with(model, &two).1 == apart, "{what}, {isa:?}: {kernels:?} by two threads");
        look(isa, &kernels, &all);
    }
}
