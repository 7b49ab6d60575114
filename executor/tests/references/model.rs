//! Models of one operation.

use nnburst_executor::testing::TestRng;
use nnburst_executor::{CompileOptions, Control, Input, Isa, Output, Plan};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
    View, ViewMut,
};

/// An input of the operation.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Floats(Vec<u32>, Vec<f32>),
    Ints(Vec<u32>, Vec<i32>),
    Bytes(Vec<u32>, Vec<u8>, (f32, i32)),
    Int(i32),
    Float(f32),
    Bool(bool),
    /// Anything else.
    Other(Operand, Vec<u8>),
    /// Left out.
    None(OperandType),
}

impl Arg {
    /// Random numbers.
    pub(crate) fn random(rng: &mut TestRng, dims: &[u32]) -> Self {
        let count: u32 = dims.iter().product();
        Self::Floats(dims.to_vec(), (0..count).map(|_| rng.real()).collect())
    }

    pub(crate) fn list(values: &[i32]) -> Self {
        Self::Ints(vec![u32::try_from(values.len()).unwrap()], values.to_vec())
    }

    pub(crate) fn floats(&self) -> &[f32] {
        match self {
            Self::Floats(_, values) => values,
            _ => &[],
        }
    }

    fn operand(&self) -> (Operand, Vec<u8>) {
        let le = |values: &[i32]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
        match self {
            Self::Floats(dims, values) => (
                Operand::tensor(OperandType::TensorFloat32, dims.clone()),
                values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            ),
            Self::Ints(dims, values) => {
                (Operand::tensor(OperandType::TensorInt32, dims.clone()), le(values))
            }
            Self::Bytes(dims, values, (scale, zero_point)) => (
                Operand::tensor(OperandType::TensorQuant8Asymm, dims.clone())
                    .with_quantization(*scale, *zero_point),
                values.clone(),
            ),
            Self::Int(value) => (Operand::scalar(OperandType::Int32), le(&[*value])),
            Self::Float(value) => {
                (Operand::scalar(OperandType::Float32), value.to_le_bytes().to_vec())
            }
            Self::Bool(value) => (Operand::scalar(OperandType::Bool), vec![u8::from(*value)]),
            Self::Other(operand, bytes) => (operand.clone(), bytes.clone()),
            Self::None(kind) => (
                Operand::tensor(*kind, Vec::new()).with_lifetime(OperandLifeTime::NoValue),
                Vec::new(),
            ),
        }
    }
}

/// An output: as declared, its extents unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out(pub(crate) OperandType, pub(crate) f32, pub(crate) i32);

pub(crate) const F32: Out = Out(OperandType::TensorFloat32, 0.0, 0);
pub(crate) const I32: Out = Out(OperandType::TensorInt32, 0.0, 0);

/// A computed output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) dims: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

impl Value {
    pub(crate) fn floats(&self) -> Vec<f32> {
        self.bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
    }

    pub(crate) fn ints(&self) -> Vec<i32> {
        self.bytes.chunks_exact(4).map(|x| i32::from_le_bytes(x.try_into().unwrap())).collect()
    }
}

/// Computes the operation with tensors and scalars as constants, and again with them as inputs of
/// the model; both must give the same, floats as near as sums in another order are.
pub(crate) fn compute(
    kind: OperationType,
    args: &[Arg],
    outs: &[Out],
    elements: usize,
) -> Result<Vec<Value>, String> {
    let once = |constant| compute_once(kind, args, outs, elements, constant, &BEST);
    let (constants, inputs) = (once(true), once(false));
    assert_eq!(constants.is_ok(), inputs.is_ok(), "{constants:?} {inputs:?}");
    if let (Ok(a), Ok(b)) = (&constants, &inputs) {
        let what = format!("{kind}: constants, then inputs");
        for ((a, b), out) in a.iter().zip(b).zip(outs) {
            assert_eq!(a.dims, b.dims, "{what}");
            if out.0 == OperandType::TensorFloat32 {
                assert_same(&a.floats(), &b.floats(), &what);
            } else {
                assert_eq!(a, b, "{what}");
            }
        }
    }
    constants
}

/// As [`assert_near`], where both may be infinite or no number.
fn assert_same(a: &[f32], b: &[f32], what: &str) {
    let unlike = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    let (a, b): (Vec<f32>, Vec<f32>) = a.iter().zip(b).filter(|&(a, b)| unlike((a, b))).unzip();
    assert_near(&a, &b, what);
}

/// The best forms, one thread.
const BEST: Way = Way { isa: None, threads: 1 };

/// With what an operation is computed.
#[derive(Clone, Copy, Debug)]
struct Way {
    isa: Option<Isa>,
    threads: usize,
}

/// Computes the operation with every kernel form that the machine has, with one thread and two,
/// with weights that are constants and with weights that come with the request, and gives each
/// result to `check`.
pub(crate) fn compute_all(
    kind: OperationType,
    args: &[Arg],
    outs: &[Out],
    elements: usize,
    check: impl Fn(&str, Vec<Value>),
) {
    for isa in Isa::all() {
        for (threads, constant) in [(1, true), (1, false), (2, true)] {
            let what = format!("{kind}, {isa:?}, {threads} threads, constants: {constant}");
            let way = Way { isa: Some(isa), threads };
            match compute_once(kind, args, outs, elements, constant, &way) {
                Ok(values) => check(&what, values),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

fn compute_once(
    kind: OperationType,
    args: &[Arg],
    outs: &[Out],
    elements: usize,
    constant: bool,
    way: &Way,
) -> Result<Vec<Value>, String> {
    let (model, given) = model_of(kind, args, outs, constant);
    let options =
        CompileOptions { isa: way.isa, threads: way.threads, ..CompileOptions::default() };
    let plan = Plan::compile(&model, &options).map_err(|e| e.to_string())?;
    let mut session = plan.session();
    let given: Vec<_> = given.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let mut buffers = vec![vec![0; elements * 4]; outs.len()];
    let targets: Vec<_> =
        buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
    session.run(&given, &targets, &Control::default()).map_err(|error| error.to_string())?;
    let shapes = session.output_shapes().iter().zip(outs).zip(buffers);
    Ok(shapes
        .map(|((shape, out), mut bytes)| {
            let count: u32 = shape.dimensions.iter().product();
            bytes.truncate(count as usize * out.0.element_bytes().unwrap());
            Value { dims: shape.dimensions.clone(), bytes }
        })
        .collect())
}

/// A model of the operation alone, its outputs of unknown shape, and what its inputs are given. All
/// arguments are inputs; if they are to be constant, only the first, so that there is one.
pub(crate) fn model_of(
    kind: OperationType,
    args: &[Arg],
    outs: &[Out],
    constant: bool,
) -> (Model, Vec<Vec<u8>>) {
    let (mut graph, mut values, mut given) = (Subgraph::default(), Vec::new(), Vec::new());
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for (index, arg) in args.iter().enumerate() {
        let (mut operand, bytes) = arg.operand();
        operand.number_of_consumers = 1;
        let at = u32::try_from(index).unwrap();
        inputs.push(at);
        if operand.lifetime == OperandLifeTime::NoValue {
        } else if constant && index > 0 {
            let (offset, length) = (values.len().next_multiple_of(4), bytes.len());
            values.resize(offset, 0);
            values.extend(bytes);
            let number = |n: usize| u32::try_from(n).unwrap();
            operand.lifetime = OperandLifeTime::ConstantCopy;
            operand.location =
                DataLocation { pool_index: 0, offset: number(offset), length: number(length) };
        } else {
            operand.lifetime = OperandLifeTime::SubgraphInput;
            graph.input_indexes.push(at);
            given.push(bytes);
        }
        graph.operands.push(operand);
    }
    for Out(kind, scale, zero_point) in outs {
        let operand = Operand::tensor(*kind, Vec::new()).with_quantization(*scale, *zero_point);
        outputs.push(u32::try_from(graph.operands.len()).unwrap());
        graph.operands.push(operand.with_lifetime(OperandLifeTime::SubgraphOutput));
    }
    graph.output_indexes.clone_from(&outputs);
    graph.operations.push(Operation { kind, inputs, outputs });
    (Model { main: graph, operand_values: values, ..Model::default() }, given)
}

/// So many seeds; `NNBURST_ROUNDS` multiplies them for a longer search.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let rounds = std::env::var("NNBURST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    0..count * rounds.unwrap_or(1u64)
}

/// Calls `each` with every position of a shape, in row-major order.
pub(crate) fn positions(dims: &[u32]) -> Vec<Vec<u32>> {
    dims.iter().fold(vec![Vec::new()], |all, &extent| {
        all.iter()
            .flat_map(|position| {
                (0..extent).map(|at| position.iter().copied().chain([at]).collect())
            })
            .collect()
    })
}

/// The row-major place of a position.
pub(crate) fn place(dims: &[u32], position: &[u32]) -> usize {
    dims.iter().zip(position).fold(0, |at, (&extent, &p)| at * extent as usize + p as usize)
}

pub(crate) fn dims_at_random(rng: &mut TestRng, rank: usize) -> Vec<u32> {
    (0..rank).map(|_| rng.between(1, 5)).collect()
}

/// Differs by at most a few units of single precision of what is summed.
pub(crate) fn assert_near(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= 1e-5 + 2e-5 * b.abs(), "{what}: element {at} is {a}, not {b}");
    }
}
