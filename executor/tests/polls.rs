//! Long work ends when it is to end: each operation, of a size that takes seconds or so many polls
//! that one more or less doesn't matter, is stopped at one of its polls; and so are the passes that
//! compile a model.
//!
//! Nothing is timed: a checkpoint counts the polls, and sets the stop flag at one that only a poll
//! within a step is.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nnburst_executor::{
    Checkpoint, CompileError, CompileOptions, Control, Input, Output, Plan, RunError,
};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType as T, Operation,
    OperationType as Op, Subgraph, TimePoint, View, ViewMut,
};

/// Counts polls, and stops the work at one of them.
#[derive(Debug, Default)]
struct StopAt {
    poll: usize,
    polls: AtomicUsize,
    stop: AtomicBool,
}

impl StopAt {
    fn new(poll: usize) -> Self {
        Self { poll, ..Self::default() }
    }

    fn control(&self) -> Control<'_> {
        Control { checkpoint: Some(self), stop: Some(&self.stop), ..Control::default() }
    }
}

impl Checkpoint for StopAt {
    fn pass(&self) {
        if self.polls.fetch_add(1, Ordering::Relaxed) + 1 == self.poll {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Far behind the polls between the few steps of a model.
const WITHIN: usize = 12;

/// An operand of an operation.
#[derive(Clone)]
enum A {
    /// Zeros that come with the request.
    In(T, Vec<u32>),
    /// Numbers that come with the request.
    Of(Vec<u32>, fn(usize) -> f32),
    /// Zeros of the model.
    Zeros(T, Vec<u32>),
    I(i32),
    F(f32),
    B(bool),
    Ints(Vec<i32>),
    None(T),
}

fn f(dims: &[u32]) -> A {
    A::In(T::TensorFloat32, dims.to_vec())
}

fn of(kind: T, dims: &[u32]) -> A {
    A::In(kind, dims.to_vec())
}

fn constant(kind: T, dims: &[u32]) -> A {
    A::Zeros(kind, dims.to_vec())
}

/// A model of a single operation, and the bytes of its arguments.
struct Single {
    model: Model,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<usize>,
}

fn tensor(kind: T, dims: &[u32]) -> Operand {
    let operand = Operand::tensor(kind, dims.to_vec());
    let scale = match kind {
        T::TensorQuant8Asymm | T::TensorQuant8AsymmSigned => 0.5,
        T::TensorQuant16Symm => 1.0 / 2048.0,
        T::TensorInt32 | T::TensorFloat32 | T::TensorFloat16 | T::TensorBool8 => 0.0,
        _ => 0.25,
    };
    Operand { scale, ..operand }
}

fn bytes(operand: &Operand) -> usize {
    let elements: usize = operand.dimensions.iter().map(|&extent| extent as usize).product();
    elements * operand.kind.element_bytes().unwrap()
}

impl Single {
    fn new(kind: Op, operands: &[A], outputs: &[Operand]) -> Self {
        let mut made = Self { model: Model::default(), inputs: Vec::new(), outputs: Vec::new() };
        let inputs = operands.iter().map(|operand| made.add(operand)).collect();
        let from = u32::try_from(made.model.main.operands.len()).unwrap();
        for output in outputs {
            made.outputs.push(bytes(output).max(1 << 20));
            let output = output.clone().with_lifetime(OperandLifeTime::SubgraphOutput);
            made.model.main.operands.push(output);
        }
        let outputs: Vec<u32> = (from..).take(outputs.len()).collect();
        made.model.main.output_indexes.clone_from(&outputs);
        made.model.main.operations = vec![Operation { kind, inputs, outputs }];
        made
    }

    fn add(&mut self, operand: &A) -> u32 {
        let copied = OperandLifeTime::ConstantCopy;
        let (operand, value) = match operand {
            A::In(kind, dims) => {
                let operand = tensor(*kind, dims);
                let value = vec![0; bytes(&operand)];
                return self.input(operand, value);
            }
            A::Of(dims, value) => {
                let operand = tensor(T::TensorFloat32, dims);
                let count = bytes(&operand) / 4;
                let value = (0..count).flat_map(|at| value(at).to_le_bytes()).collect();
                return self.input(operand, value);
            }
            A::Zeros(kind, dims) => {
                let operand = tensor(*kind, dims);
                let value = vec![0; bytes(&operand)];
                (operand, value)
            }
            A::I(value) => (Operand::scalar(T::Int32), value.to_le_bytes().to_vec()),
            A::F(value) => (Operand::scalar(T::Float32), value.to_le_bytes().to_vec()),
            A::B(value) => (Operand::scalar(T::Bool), vec![u8::from(*value)]),
            A::Ints(values) => {
                let count = u32::try_from(values.len()).unwrap();
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (tensor(T::TensorInt32, &[count]), bytes)
            }
            A::None(kind) => {
                let operand = Operand::tensor(*kind, vec![]);
                return self.push(operand.with_lifetime(OperandLifeTime::NoValue));
            }
        };
        let values = &mut self.model.operand_values;
        let location = DataLocation {
            pool_index: 0,
            offset: u32::try_from(values.len()).unwrap(),
            length: u32::try_from(value.len()).unwrap(),
        };
        values.extend(value);
        self.push(Operand { location, ..operand.with_lifetime(copied) })
    }

    fn input(&mut self, operand: Operand, value: Vec<u8>) -> u32 {
        let at = self.push(operand.with_lifetime(OperandLifeTime::SubgraphInput));
        self.model.main.input_indexes.push(at);
        self.inputs.push(value);
        at
    }

    fn push(&mut self, operand: Operand) -> u32 {
        let operands = &mut self.model.main.operands;
        operands.push(Operand { number_of_consumers: 1, ..operand });
        u32::try_from(operands.len() - 1).unwrap()
    }

    fn run(&self, options: &CompileOptions, control: &Control<'_>) -> Result<(), RunError> {
        let plan = Plan::compile(&self.model, options).map_err(RunError::from)?;
        let mut made: Vec<Vec<u8>> = self.outputs.iter().map(|&bytes| vec![0; bytes]).collect();
        let inputs: Vec<_> = self.inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
        let outputs: Vec<_> =
            made.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
        plan.session().run(&inputs, &outputs, control)
    }
}

fn sees_a_stop(what: &str, single: &Single) {
    for threads in [1, 2] {
        let stopping = StopAt::new(WITHIN);
        let options = CompileOptions { threads, ..CompileOptions::default() };
        let ran = single.run(&options, &stopping.control());
        let polls = stopping.polls.load(Ordering::Relaxed);
        assert_eq!(ran, Err(RunError::Stopped), "{what} on {threads} threads, {polls} polls");
        // The one that ended it is the last, but for what the thread looked at on its way out.
        assert!(polls <= WITHIN + 2, "{what} on {threads} threads, {polls} polls");
    }
}

/// Operations whose result has the shape of what goes in, with what else they take.
#[test]
fn operations_of_single_elements_and_lines_stop_within() {
    let side = [1u32, 1, 4096, 2048];
    let (half, byte, signed) = (T::TensorFloat16, T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned);
    let (real, int, truth) = (T::TensorFloat32, T::TensorInt32, T::TensorBool8);
    let two = |kind: T| vec![of(kind, &side), of(kind, &side)];
    let sum = |kind: T| vec![of(kind, &side), of(kind, &[2048]), A::I(0)];
    let cases = [
        (Op::Relu, real, vec![]),
        (Op::Relu6, byte, vec![]),
        (Op::Abs, real, vec![]),
        (Op::Exp, half, vec![]),
        (Op::Log, real, vec![]),
        (Op::Sin, half, vec![]),
        (Op::Neg, int, vec![]),
        (Op::Floor, real, vec![]),
        (Op::Logistic, real, vec![]),
        (Op::Tanh, half, vec![]),
        (Op::HardSwish, real, vec![]),
        (Op::Elu, real, vec![A::F(1.0)]),
        (Op::LogicalNot, truth, vec![]),
        (Op::Softmax, real, vec![A::F(1.0)]),
        (Op::LogSoftmax, real, vec![A::F(1.0), A::I(3)]),
        (Op::L2Normalization, real, vec![]),
        (Op::L2Normalization, half, vec![A::I(2)]),
    ];
    for (kind, type_of, more) in cases {
        let mut operands = vec![of(type_of, &side)];
        operands.extend(more);
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[tensor(type_of, &side)]));
    }
    let cases = [
        (Op::Add, real, sum(real)),
        (Op::Mul, half, sum(half)),
        (Op::Sub, int, sum(int)),
        (Op::Add, byte, sum(byte)),
        (Op::Mul, signed, vec![of(signed, &side), of(signed, &side), A::I(0)]),
        (Op::Div, real, sum(real)),
        (Op::Pow, real, two(real)),
        (Op::Maximum, byte, two(byte)),
        (Op::Minimum, int, two(int)),
        (Op::Prelu, half, vec![of(half, &side), of(half, &[2048])]),
        // Short spans, of which there are many.
        (Op::Add, real, vec![f(&[1, 4096, 2048, 1]), f(&[1, 1, 2048, 1]), A::I(0)]),
    ];
    for (kind, type_of, operands) in cases {
        let dims = match &operands[0] {
            A::In(_, dims) => dims.clone(),
            _ => side.to_vec(),
        };
        let mut output = tensor(type_of, &dims);
        output.scale *= if kind == Op::Mul { 2.0 } else { 1.0 };
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[output]));
    }
    let cases = [
        (Op::Equal, truth, two(real)),
        (Op::Less, truth, two(byte)),
        (Op::LogicalAnd, truth, two(truth)),
        (Op::Select, int, vec![of(truth, &side), of(int, &side), of(int, &side)]),
        (Op::Cast, half, vec![f(&side)]),
        (Op::Quantize, byte, vec![f(&side)]),
        (Op::Dequantize, real, vec![of(byte, &side)]),
    ];
    for (kind, type_of, operands) in cases {
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[tensor(type_of, &side)]));
    }
}

#[test]
fn operations_that_move_and_reduce_stop_within() {
    let (real, int, byte) = (T::TensorFloat32, T::TensorInt32, T::TensorQuant8Asymm);
    let image = [1u32, 2048, 2048, 4];
    let cases: Vec<(Op, Vec<A>, T, Vec<u32>)> = vec![
        (Op::Transpose, vec![f(&image), A::Ints(vec![3, 2, 1, 0])], real, vec![4, 2048, 2048, 1]),
        (Op::Tile, vec![f(&[8]), A::Ints(vec![1 << 21])], real, vec![1 << 24]),
        (
            Op::Pad,
            vec![f(&image), A::Ints(vec![0, 0, 1, 1, 1, 1, 0, 0])],
            real,
            vec![1, 2050, 2050, 4],
        ),
        (
            Op::Slice,
            vec![f(&image), A::Ints(vec![0, 0, 0, 1]), A::Ints(vec![1, 2048, 2048, 3])],
            real,
            vec![1, 2048, 2048, 3],
        ),
        (
            Op::StridedSlice,
            vec![
                f(&image),
                A::Ints(vec![0; 4]),
                A::Ints(vec![1, 2048, 2048, 4]),
                A::Ints(vec![1, 1, 1, 2]),
                A::I(0),
                A::I(0),
                A::I(0),
            ],
            real,
            vec![1, 2048, 2048, 2],
        ),
        (Op::Concatenation, vec![f(&image), f(&image), A::I(3)], real, vec![1, 2048, 2048, 8]),
        (Op::Gather, vec![f(&[4, 2]), A::I(0), of(int, &[1 << 22])], real, vec![1 << 22, 2]),
        (Op::EmbeddingLookup, vec![of(int, &[1 << 22]), f(&[4, 2])], real, vec![1 << 22, 2]),
        (Op::ChannelShuffle, vec![f(&image), A::I(2), A::I(3)], real, image.to_vec()),
        (Op::SpaceToDepth, vec![f(&image), A::I(2)], real, vec![1, 1024, 1024, 16]),
        (Op::DepthToSpace, vec![f(&image), A::I(2)], real, vec![1, 4096, 4096, 1]),
        (
            Op::SpaceToBatchNd,
            vec![f(&image), A::Ints(vec![2, 2]), A::Ints(vec![0; 4])],
            real,
            vec![4, 1024, 1024, 4],
        ),
        (
            Op::BatchToSpaceNd,
            vec![f(&[4, 1024, 1024, 4]), A::Ints(vec![2, 2])],
            real,
            image.to_vec(),
        ),
        (
            Op::ResizeBilinear,
            vec![f(&[1, 64, 64, 4]), A::I(2048), A::I(2048)],
            real,
            image.to_vec(),
        ),
        (
            Op::ResizeNearestNeighbor,
            vec![of(byte, &[1, 64, 64, 4]), A::I(4096), A::I(4096), A::B(false)],
            byte,
            vec![1, 4096, 4096, 4],
        ),
        (Op::Fill, vec![A::Ints(vec![1 << 24]), A::F(1.0)], real, vec![1 << 24]),
        (
            Op::Reshape,
            vec![f(&[1 << 25]), A::Ints(vec![1 << 13, 1 << 12])],
            real,
            vec![1 << 13, 1 << 12],
        ),
        (Op::Mean, vec![f(&image), A::Ints(vec![1, 2]), A::I(1)], real, vec![1, 1, 1, 4]),
        (Op::Mean, vec![of(byte, &[64, 1 << 20]), A::Ints(vec![1]), A::I(0)], byte, vec![64]),
        (Op::ReduceSum, vec![f(&image), A::Ints(vec![1, 2]), A::B(true)], real, vec![1, 1, 1, 4]),
        (
            Op::ReduceMax,
            vec![of(byte, &image), A::Ints(vec![3]), A::B(false)],
            byte,
            vec![1, 2048, 2048],
        ),
        (Op::Argmax, vec![f(&[4, 1 << 22]), A::I(1)], int, vec![4]),
        (
            Op::InstanceNormalization,
            vec![f(&image), A::F(1.0), A::F(0.0), A::F(1e-5), A::B(false)],
            real,
            image.to_vec(),
        ),
        (
            Op::LocalResponseNormalization,
            vec![f(&[1, 1, 1, 1 << 16]), A::I(1 << 16), A::F(1.0), A::F(1.0), A::F(0.5)],
            real,
            vec![1, 1, 1, 1 << 16],
        ),
    ];
    for (kind, operands, type_of, dims) in cases {
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[tensor(type_of, &dims)]));
    }
    let halves = [tensor(real, &[1, 2048, 2048, 2]), tensor(real, &[1, 2048, 2048, 2])];
    sees_a_stop("SPLIT", &Single::new(Op::Split, &[f(&image), A::I(3), A::I(2)], &halves));
    let outputs = [tensor(real, &[2, 5]), tensor(int, &[2, 5])];
    sees_a_stop("TOPK_V2", &Single::new(Op::TopkV2, &[f(&[2, 1 << 21]), A::I(5)], &outputs));
    let hits = Operand { scale: 1.0, ..tensor(byte, &[1 << 20]) };
    let outputs = [tensor(real, &[1 << 20, 2]), hits];
    let operands = [of(int, &[1 << 20]), of(int, &[4]), f(&[4, 2])];
    sees_a_stop("HASHTABLE_LOOKUP", &Single::new(Op::HashtableLookup, &operands, &outputs));
}

#[test]
fn operations_that_draw_hash_and_detect_stop_within() {
    let (real, int) = (T::TensorFloat32, T::TensorInt32);
    let one = |kind: Op, operands: &[A], type_of: T, dims: &[u32]| {
        sees_a_stop(kind.name(), &Single::new(kind, operands, &[tensor(type_of, dims)]));
    };
    let hash = [f(&[1024, 32]), of(int, &[1 << 16, 4]), A::None(real), A::I(1)];
    one(Op::LshProjection, &hash, int, &[1024]);
    let draws = [f(&[1, 16]), A::I(1 << 21), of(int, &[2])];
    one(Op::RandomMultinomial, &draws, int, &[1, 1 << 21]);
    let scalars = [A::F(1.0), A::F(1.0)];
    let mut align = vec![f(&[1, 64, 64, 1]), f(&[16, 4]), of(int, &[16]), A::I(64), A::I(64)];
    align.extend(scalars);
    let mut pooling = align.clone();
    align.extend([A::I(4096), A::I(4096), A::B(false)]);
    one(Op::RoiAlign, &align, real, &[16, 64, 64, 1]);
    pooling[0] = f(&[1, 64, 64, 64]);
    pooling.push(A::B(false));
    one(Op::RoiPooling, &pooling, real, &[16, 64, 64, 64]);
    let transform = [f(&[1 << 14, 4]), f(&[1 << 14, 256]), of(int, &[1 << 14]), f(&[1, 2])];
    one(Op::AxisAlignedBboxTransform, &transform, real, &[1 << 14, 256]);
    let heat = [f(&[64, 256, 256, 4]), f(&[64, 4]), A::B(false)];
    let outputs = [tensor(real, &[64, 4]), tensor(real, &[64, 4, 2])];
    sees_a_stop("HEATMAP", &Single::new(Op::HeatmapMaxKeypoint, &heat, &outputs));

    // Boxes that are all apart: each is held against all that were chosen.
    const BOXES: u32 = 30_000;
    let apart: fn(usize) -> f32 = |at| (at / 4 * 8 + at % 4) as f32;
    let boxes: fn(usize) -> f32 = |at| (at / 8 * 8 + at % 4) as f32;
    let scores: fn(usize) -> f32 = |_| 0.9;
    let nms = [
        A::Of(vec![BOXES, 2], scores),
        A::Of(vec![BOXES, 8], boxes),
        of(int, &[BOXES]),
        A::F(0.1),
        A::I(-1),
        A::I(0),
        A::F(0.5),
        A::F(1.0),
        A::F(0.1),
    ];
    let outputs = [tensor(real, &[0]), tensor(real, &[0, 4]), tensor(int, &[0]), tensor(int, &[0])];
    sees_a_stop("BOX_WITH_NMS_LIMIT", &Single::new(Op::BoxWithNmsLimit, &nms, &outputs));
    let count = i32::try_from(BOXES).unwrap();
    let anchors: fn(usize) -> f32 = |at| if at % 4 < 2 { (at / 4 * 8) as f32 } else { 1.0 };
    let detect = [
        A::Of(vec![1, BOXES, 2], scores),
        f(&[1, BOXES, 4]),
        A::Of(vec![BOXES, 4], anchors),
        A::F(1.0),
        A::F(1.0),
        A::F(1.0),
        A::F(1.0),
        A::B(true),
        A::I(count),
        A::I(1),
        A::I(count),
        A::F(0.1),
        A::F(0.5),
        A::B(false),
    ];
    let outputs = [
        tensor(real, &[1, BOXES]),
        tensor(real, &[1, BOXES, 4]),
        tensor(int, &[1, BOXES]),
        tensor(int, &[1]),
    ];
    let detect = Single::new(Op::DetectionPostprocessing, &detect, &outputs);
    sees_a_stop("DETECTION_POSTPROCESSING", &detect);
    let size: fn(usize) -> f32 = |_| 1e6;
    let propose = [
        A::Of(vec![1, 256, 128, 1], scores),
        f(&[1, 256, 128, 4]),
        A::Of(vec![1, 4], apart),
        A::Of(vec![1, 2], size),
        A::F(8.0),
        A::F(8.0),
        A::I(-1),
        A::I(-1),
        A::F(0.5),
        A::F(0.0),
        A::B(false),
    ];
    let outputs = [tensor(real, &[0]), tensor(real, &[0, 4]), tensor(int, &[0])];
    let propose = Single::new(Op::GenerateProposals, &propose, &outputs);
    sees_a_stop("GENERATE_PROPOSALS", &propose);
}

#[test]
fn convolutions_products_and_pools_stop_within() {
    let (real, half, byte, int) =
        (T::TensorFloat32, T::TensorFloat16, T::TensorQuant8Asymm, T::TensorInt32);
    for weights_are_constant in [true, false] {
        for kind in [real, half, byte] {
            let bias_kind = if kind == byte { int } else { kind };
            let weights = |kind: T, dims: &[u32]| match weights_are_constant {
                true => constant(kind, dims),
                false => of(kind, dims),
            };
            let run = |op: Op, image: &[u32], filter: &[u32], more: &[A], out: &[u32]| {
                let mut single = {
                    let bias = filter[if op == Op::DepthwiseConv2d { 3 } else { 0 }];
                    let mut operands =
                        vec![of(kind, image), weights(kind, filter), weights(bias_kind, &[bias])];
                    operands.extend(more.iter().cloned());
                    let output = Operand {
                        scale: if kind == byte { 1.0 } else { 0.0 },
                        ..tensor(kind, out)
                    };
                    Single::new(op, &operands, &[output])
                };
                if kind == byte {
                    let scaled = |operand: &mut Operand| operand.scale = 0.25;
                    single.model.main.operands.get_mut(2).map(scaled);
                }
                let what = format!("{op} of {kind}, constant weights: {weights_are_constant}");
                sees_a_stop(&what, &single);
            };
            let window = [A::I(1), A::I(1), A::I(1)];
            // As large as plain code takes a second for, and kernels some tens of milliseconds.
            let image = [1, 256, 256, 64];
            let conv = [&window[..], &[A::I(0)]].concat();
            run(Op::Conv2d, &image, &[64, 3, 3, 64], &conv, &image);
            let dilated = [&conv[..], &[A::B(false), A::I(3), A::I(2)]].concat();
            run(Op::Conv2d, &image, &[64, 3, 3, 64], &dilated, &image);
            // A single line.
            let line = [1, 1, 1 << 15, 64];
            run(Op::Conv2d, &line, &[64, 1, 3, 64], &conv, &line);
            let depthwise = [&window[..], &[A::I(1), A::I(0)]].concat();
            run(
                Op::DepthwiseConv2d,
                &[1, 512, 512, 64],
                &[1, 5, 5, 64],
                &depthwise,
                &[1, 512, 512, 64],
            );
            run(
                Op::DepthwiseConv2d,
                &[1, 64, 64, 16],
                &[1, 63, 63, 16],
                &depthwise,
                &[1, 64, 64, 16],
            );
            let grouped = [&window[..], &[A::I(2), A::I(0), A::B(false)]].concat();
            run(Op::GroupedConv2d, &image, &[64, 3, 3, 32], &grouped, &image);
            let shape = A::Ints(vec![1, 512, 512, 16]);
            let transposed = [shape, A::I(1), A::I(2), A::I(2), A::I(0), A::B(false)];
            run(
                Op::TransposeConv2d,
                &[1, 256, 256, 16],
                &[16, 3, 3, 16],
                &transposed,
                &[1, 512, 512, 16],
            );
            run(Op::FullyConnected, &[1024, 1024], &[1024, 1024], &[A::I(0)], &[1024, 1024]);
        }
    }
    for (op, kind) in [
        (Op::AveragePool2d, real),
        (Op::MaxPool2d, byte),
        (Op::AveragePool2d, byte),
        (Op::L2Pool2d, half),
    ] {
        let image = [1, 256, 256, 64];
        let numbers = [1, 1, 1, 9, 9, 0].map(A::I);
        let operands = [&[of(kind, &image)], &numbers[..]].concat();
        sees_a_stop(op.name(), &Single::new(op, &operands, &[tensor(kind, &image)]));
    }
    // Few rows, which stream their weights.
    let operands = [f(&[4, 4096]), constant(real, &[4096, 4096]), constant(real, &[4096]), A::I(0)];
    sees_a_stop(
        "FULLY_CONNECTED",
        &Single::new(Op::FullyConnected, &operands, &[tensor(real, &[4, 4096])]),
    );
}

#[test]
fn recurrent_operations_stop_within() {
    let real = T::TensorFloat32;
    for constant_weights in [true, false] {
        let weights = |dims: &[u32]| if constant_weights { constant(real, dims) } else { f(dims) };
        let (units, width) = (1024, 512);
        let rnn = [
            f(&[256, width]),
            weights(&[units, width]),
            weights(&[units, units]),
            weights(&[units]),
            f(&[256, units]),
            A::I(4),
        ];
        let outputs = [tensor(real, &[256, units]), tensor(real, &[256, units])];
        sees_a_stop("RNN", &Single::new(Op::Rnn, &rnn, &outputs));
        let sequence = [
            f(&[1, 512, width]),
            weights(&[units, width]),
            weights(&[units, units]),
            weights(&[units]),
            f(&[1, units]),
            A::I(4),
            A::I(0),
        ];
        let output = [tensor(real, &[1, 512, units])];
        sees_a_stop(
            "SEQUENCE_RNN",
            &Single::new(Op::UnidirectionalSequenceRnn, &sequence, &output),
        );
        let memory = 8;
        let svdf = [
            f(&[256, width]),
            weights(&[units, width]),
            weights(&[units, memory]),
            weights(&[units]),
            f(&[256, memory * units]),
            A::I(1),
            A::I(1),
        ];
        let outputs = [tensor(real, &[256, memory * units]), tensor(real, &[256, units])];
        sees_a_stop("SVDF", &Single::new(Op::Svdf, &svdf, &outputs));
    }
    let byte = T::TensorQuant8Asymm;
    let of_scale =
        |operand: Operand, scale: f32, zero_point: i32| Operand { scale, zero_point, ..operand };
    let (batch, width, units) = (64, 256, 256);
    let mut operands = vec![of(byte, &[batch, width])];
    operands.extend((0..4).map(|_| of(byte, &[units, width])));
    operands.extend((0..4).map(|_| of(byte, &[units, units])));
    operands.extend((0..4).map(|_| of(T::TensorInt32, &[units])));
    operands.extend([of(T::TensorQuant16Symm, &[batch, units]), of(byte, &[batch, units])]);
    let outputs = [
        tensor(T::TensorQuant16Symm, &[batch, units]),
        of_scale(tensor(byte, &[batch, units]), 1.0 / 128.0, 128),
    ];
    let mut lstm = Single::new(Op::Quantized16bitLstm, &operands, &outputs);
    for (at, operand) in lstm.model.main.operands.iter_mut().enumerate() {
        match at {
            0 | 14 => (operand.scale, operand.zero_point) = (1.0 / 128.0, 128),
            9..=12 => operand.scale = 0.5 / 128.0,
            _ => {}
        }
    }
    sees_a_stop("QUANTIZED_16BIT_LSTM", &lstm);
}

#[test]
fn a_deadline_is_met_within_a_step() {
    let operands = [f(&[1, 1, 1, 1 << 18]), A::I(1 << 18), A::F(1.0), A::F(1.0), A::F(0.5)];
    let output = tensor(T::TensorFloat32, &[1, 1, 1, 1 << 18]);
    let single = Single::new(Op::LocalResponseNormalization, &operands, &[output]);
    let deadline = Some(TimePoint::after(Duration::from_millis(100)));
    let ran = single.run(&CompileOptions::default(), &Control { deadline, ..Control::default() });
    assert_eq!(ran, Err(RunError::DeadlineMissed));
}

/// RELUs and sums of two before, each a temporary but the last: of as many operations.
fn long_chain(count: u32) -> Model {
    let operand = |at: u32| {
        let lifetime = match at {
            0 => OperandLifeTime::SubgraphInput,
            at if at == count => OperandLifeTime::SubgraphOutput,
            _ => OperandLifeTime::TemporaryVariable,
        };
        tensor(T::TensorFloat32, &[1 + at % 7, 64]).with_lifetime(lifetime)
    };
    let mut operands: Vec<_> = (0..=count).map(operand).collect();
    for (at, operand) in operands.iter_mut().enumerate() {
        operand.dimensions = vec![64];
        operand.number_of_consumers = u32::from(at < count as usize);
    }
    let relu = |at| Operation { kind: Op::Abs, inputs: vec![at], outputs: vec![at + 1] };
    let main = Subgraph {
        operands,
        operations: (0..count).map(relu).collect(),
        input_indexes: vec![0],
        output_indexes: vec![count],
    };
    Model { main, ..Model::default() }
}

#[test]
fn passes_over_many_operations_are_polled_and_take_no_square_of_them() {
    const COUNT: u32 = 80_000;
    let model = long_chain(COUNT);
    let options = CompileOptions { apart: true, ..CompileOptions::default() };
    let counting = StopAt::new(usize::MAX);
    let plan = Plan::compile_under(&model, &options, &counting.control());
    assert!(plan.is_ok());
    let polls = counting.polls.load(Ordering::Relaxed);
    // Beyond the operands and operations, of which each is polled for: the arena alone is 160,000
    // reports.
    let each = 2 * COUNT as usize + 1;
    assert!((each + 20..each + 20_000).contains(&polls), "{polls} polls of {each}");
    for stop in [each / 4, each - 1, each + 10] {
        let stopping = StopAt::new(stop);
        let compiled = Plan::compile_under(&model, &options, &stopping.control());
        assert_eq!(compiled.map(drop), Err(CompileError::Stopped), "at poll {stop} of {polls}");
    }
}

#[test]
fn constants_and_weights_are_read_and_packed_in_polled_parts() {
    let real = T::TensorFloat32;
    let operands = [f(&[8, 4096]), constant(real, &[4096, 4096]), constant(real, &[4096]), A::I(0)];
    let single = Single::new(Op::FullyConnected, &operands, &[tensor(real, &[8, 4096])]);
    let counting = StopAt::new(usize::MAX);
    assert!(
        Plan::compile_under(&single.model, &CompileOptions::default(), &counting.control()).is_ok()
    );
    let polls = counting.polls.load(Ordering::Relaxed);
    assert!(polls > 20, "{polls}");
    let late = CompileOptions { late_errors: true, ..CompileOptions::default() };
    let stopping = StopAt::new(polls - 2);
    let compiled = Plan::compile_under(&single.model, &late, &stopping.control());
    assert_eq!(compiled.map(drop), Err(CompileError::Stopped));

    // What is computed of constants alone is computed when the plan is made.
    let operands =
        [constant(real, &[1, 1, 1, 1 << 16]), A::I(1 << 16), A::F(1.0), A::F(1.0), A::F(0.5)];
    let output = tensor(real, &[1, 1, 1, 1 << 16]);
    let mut folded = Single::new(Op::LocalResponseNormalization, &operands, &[output]);
    let graph = &mut folded.model.main;
    let result = graph.output_indexes[0];
    graph.operands[result as usize].lifetime = OperandLifeTime::TemporaryVariable;
    graph.operands[result as usize].number_of_consumers = 1;
    graph
        .operands
        .push(tensor(real, &[1, 1, 1, 1 << 16]).with_lifetime(OperandLifeTime::SubgraphOutput));
    graph.operations.push(Operation {
        kind: Op::Abs,
        inputs: vec![result],
        outputs: vec![result + 1],
    });
    graph.output_indexes = vec![result + 1];
    for options in [late, CompileOptions::default()] {
        let stopping = StopAt::new(50);
        let compiled = Plan::compile_under(&folded.model, &options, &stopping.control());
        assert_eq!(compiled.map(drop), Err(CompileError::Stopped));
    }
}
