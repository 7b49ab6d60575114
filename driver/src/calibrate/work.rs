//! The small networks that figures are measured by: one for each type that operations go by.

use nnburst_hal::{
    ChannelQuant, DataLocation, ExtraParams, Model, Operand, OperandLifeTime, OperandType,
    Operation, OperationType, Subgraph,
};

use super::figures::Work;

/// Elements of the tensors of simple operations.
const ELEMENTS: u32 = 1 << 16;

/// Times that a loop goes round.
const ROUNDS: i32 = 16;

/// The network of a kind of work.
pub(super) fn model(work: Work) -> Model {
    use OperandType as T;
    use OperationType as O;
    match work {
        Work::Operand(
            kind @ (T::TensorFloat32
            | T::TensorFloat16
            | T::TensorQuant8Asymm
            | T::TensorQuant8AsymmSigned),
        ) => block(kind),
        Work::RelaxedTensor => relaxed(block(T::TensorFloat32)),
        Work::RelaxedScalar => relaxed(fill(T::Float32, T::TensorFloat32)),
        Work::Operand(T::Float32) => fill(T::Float32, T::TensorFloat32),
        Work::Operand(T::Float16) => fill(T::Float16, T::TensorFloat16),
        Work::Operand(T::TensorInt32) => unary(O::Abs, T::TensorInt32, T::TensorInt32),
        Work::Operand(T::TensorBool8) => unary(O::LogicalNot, T::TensorBool8, T::TensorBool8),
        Work::Operand(kind @ (T::TensorQuant8Symm | T::TensorQuant8SymmPerChannel)) => {
            unary(O::Dequantize, kind, T::TensorFloat32)
        }
        Work::Operand(kind @ (T::TensorQuant16Asymm | T::TensorQuant16Symm)) => {
            unary(O::Cast, kind, kind)
        }
        Work::If => branch(),
        Work::While => repeat(),
        // All that is left are scalars, and 32-bit integers are what operations take.
        Work::Operand(_) => fill(T::Int32, T::TensorInt32),
    }
}

fn relaxed(model: Model) -> Model {
    Model { relax_computation_float32_to_float16: true, ..model }
}

/// A graph under construction, with the constants of its model.
#[derive(Default)]
struct Graph {
    main: Subgraph,
    values: Vec<u8>,
}

impl Graph {
    fn add(&mut self, operand: Operand, lifetime: OperandLifeTime) -> u32 {
        self.main.operands.push(operand.with_lifetime(lifetime));
        u32::try_from(self.main.operands.len() - 1).unwrap_or(u32::MAX)
    }

    fn input(&mut self, operand: Operand) -> u32 {
        let index = self.add(operand, OperandLifeTime::SubgraphInput);
        self.main.input_indexes.push(index);
        index
    }

    fn output(&mut self, operand: Operand) -> u32 {
        let index = self.add(operand, OperandLifeTime::SubgraphOutput);
        self.main.output_indexes.push(index);
        index
    }

    /// A constant of its operand's size, these bytes over and over.
    fn constant(&mut self, operand: Operand, pattern: &[u8]) -> u32 {
        let length = operand.data_size().unwrap_or(0);
        self.values.resize(self.values.len().next_multiple_of(4), 0);
        let offset = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.extend(pattern.iter().cycle().take(length));
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let location = DataLocation { pool_index: 0, offset, length };
        self.add(Operand { location, ..operand }, OperandLifeTime::ConstantCopy)
    }

    fn number(&mut self, number: i32) -> u32 {
        self.constant(Operand::scalar(OperandType::Int32), &number.to_le_bytes())
    }

    /// Another graph of the model, by its place.
    fn reference(&mut self, graph: u32) -> u32 {
        let location = DataLocation { pool_index: 0, offset: graph, length: 0 };
        let operand = Operand { location, ..Operand::scalar(OperandType::Subgraph) };
        self.add(operand, OperandLifeTime::Subgraph)
    }

    fn operation(&mut self, kind: OperationType, inputs: Vec<u32>, output: u32) {
        for &index in &inputs {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            if let Some(operand) = self.main.operands.get_mut(index) {
                operand.number_of_consumers += 1;
            }
        }
        self.main.operations.push(Operation { kind, inputs, outputs: vec![output] });
    }

    fn model(self) -> Model {
        Model { main: self.main, operand_values: self.values, ..Model::default() }
    }
}

fn tensor(kind: OperandType, dimensions: &[u32]) -> Operand {
    let operand = Operand::tensor(kind, dimensions.to_vec());
    match kind {
        OperandType::TensorQuant8Asymm => operand.with_quantization(0.02, 128),
        OperandType::TensorQuant8AsymmSigned
        | OperandType::TensorQuant8Symm
        | OperandType::TensorQuant16Asymm
        | OperandType::TensorQuant16Symm => operand.with_quantization(0.02, 0),
        OperandType::TensorQuant8SymmPerChannel => {
            let channels = dimensions.first().copied().unwrap_or(1);
            let scales = vec![0.02; usize::try_from(channels).unwrap_or(1)];
            let quant = ChannelQuant { scales, channel_dim: 0 };
            Operand { extra_params: ExtraParams::ChannelQuant(quant), ..operand }
        }
        _ => operand,
    }
}

/// Expand, depthwise, project: `[1, 28, 28, 32]` in and out.
fn block(kind: OperandType) -> Model {
    let quantised =
        matches!(kind, OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned);
    let weight: &[u8] = match kind {
        OperandType::TensorFloat32 => &0.05f32.to_le_bytes(),
        OperandType::TensorFloat16 => &0x2A66u16.to_le_bytes(), // 0.05
        _ => &[131, 120, 128],
    };
    let mut graph = Graph::default();
    let (wide, narrow) = (192, 32);
    let mut last = graph.input(tensor(kind, &[1, 28, 28, narrow]));
    let layers = [
        (OperationType::Conv2d, [wide, 1, 1, narrow], wide),
        (OperationType::DepthwiseConv2d, [1, 3, 3, wide], wide),
        (OperationType::Conv2d, [narrow, 1, 1, wide], narrow),
    ];
    for (at, (operation, filter, channels)) in layers.into_iter().enumerate() {
        let filter = graph.constant(tensor(kind, &filter), weight);
        let bias = match quantised {
            false => Operand::tensor(kind, vec![channels]),
            true => Operand::tensor(OperandType::TensorInt32, vec![channels])
                .with_quantization(0.02 * 0.02, 0),
        };
        let bias = graph.constant(bias, &[0]);
        let mut inputs = vec![last, filter, bias];
        // SAME padding, strides of 1, a depth multiplier of 1 where there is one, no activation.
        let multiplier = (operation == OperationType::DepthwiseConv2d).then_some(1);
        for number in [1, 1, 1].into_iter().chain(multiplier).chain([0i32]) {
            inputs.push(graph.number(number));
        }
        let result = tensor(kind, &[1, 28, 28, channels]);
        last = match at == layers.len() - 1 {
            true => graph.output(result),
            false => graph.add(result, OperandLifeTime::TemporaryVariable),
        };
        graph.operation(operation, inputs, last);
    }
    graph.model()
}

/// An operation of one input, element by element.
fn unary(operation: OperationType, from: OperandType, to: OperandType) -> Model {
    let shape = [64, ELEMENTS / 64];
    let mut graph = Graph::default();
    let input = graph.input(tensor(from, &shape));
    let output = graph.output(tensor(to, &shape));
    graph.operation(operation, vec![input], output);
    graph.model()
}

/// A tensor full of a scalar that comes with each request.
fn fill(scalar: OperandType, kind: OperandType) -> Model {
    let mut graph = Graph::default();
    let value = graph.input(Operand::scalar(scalar));
    let shape = Operand::tensor(OperandType::TensorInt32, vec![1]);
    let shape = graph.constant(shape, &ELEMENTS.to_le_bytes());
    let output = graph.output(tensor(kind, &[ELEMENTS]));
    graph.operation(OperationType::Fill, vec![shape, value], output);
    graph.model()
}

/// A sum or a product, as a tensor says.
fn branch() -> Model {
    let floats = || tensor(OperandType::TensorFloat32, &[ELEMENTS]);
    let mut main = Graph::default();
    let condition = main.input(Operand::tensor(OperandType::TensorBool8, vec![1]));
    let value = main.input(floats());
    let (yes, no) = (main.reference(0), main.reference(1));
    let output = main.output(floats());
    main.operation(OperationType::If, vec![condition, yes, no, value], output);
    let mut values = std::mem::take(&mut main.values);
    let referenced = [OperationType::Add, OperationType::Mul].map(|kind| {
        let mut graph = Graph { values: std::mem::take(&mut values), ..Graph::default() };
        let (input, none) = (graph.input(floats()), graph.number(0));
        let output = graph.output(floats());
        graph.operation(kind, vec![input, input, none], output);
        values = graph.values;
        graph.main
    });
    let referenced = referenced.into();
    Model { main: main.main, referenced, operand_values: values, ..Model::default() }
}

/// A number that grows by 1 until it is [`ROUNDS`].
fn repeat() -> Model {
    let integer = || Operand::tensor(OperandType::TensorInt32, vec![1]);
    let mut condition = Graph::default();
    let (input, end) =
        (condition.input(integer()), condition.constant(integer(), &ROUNDS.to_le_bytes()));
    let output = condition.output(Operand::tensor(OperandType::TensorBool8, vec![1]));
    condition.operation(OperationType::Less, vec![input, end], output);
    let mut body = Graph { values: condition.values, ..Graph::default() };
    let (input, one) = (body.input(integer()), body.constant(integer(), &1i32.to_le_bytes()));
    let none = body.number(0);
    let output = body.output(integer());
    body.operation(OperationType::Add, vec![input, one, none], output);
    let mut main = Graph { values: body.values, ..Graph::default() };
    let start = main.input(integer());
    let (first, second) = (main.reference(0), main.reference(1));
    let output = main.output(integer());
    main.operation(OperationType::While, vec![first, second, start], output);
    let referenced = vec![condition.main, body.main];
    Model { main: main.main, referenced, operand_values: main.values, ..Model::default() }
}
