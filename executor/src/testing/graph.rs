//! Valid random graphs, in the spirit of Android's random graph tests.
//!
//! The maker works out every shape by itself, so that a model which isn't computed, or comes out
//! with another shape, is a finding about the executor.

use half::f16;
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
    operation_since,
};

use super::operations::TABLE;
use super::test_rng::TestRng;

/// What a graph computes with, mostly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// FLOAT32, without operations that jump: small differences stay small.
    Float32,
    /// FLOAT16, without operations that jump.
    Float16,
    /// QUANT8_ASYMM, with INT32 and BOOL8 where operations give them.
    Unsigned,
    /// QUANT8_ASYMM_SIGNED, likewise.
    Signed,
    /// INT32, likewise.
    Int32,
}

impl Element {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Float32, Self::Float16, Self::Unsigned, Self::Signed, Self::Int32];

    /// The tensor type.
    pub fn kind(self) -> OperandType {
        match self {
            Self::Float32 => OperandType::TensorFloat32,
            Self::Float16 => OperandType::TensorFloat16,
            Self::Unsigned => OperandType::TensorQuant8Asymm,
            Self::Signed => OperandType::TensorQuant8AsymmSigned,
            Self::Int32 => OperandType::TensorInt32,
        }
    }

    /// Whether results are exact whatever the order of sums.
    pub fn is_exact(self) -> bool {
        !matches!(self, Self::Float32 | Self::Float16)
    }
}

/// A model with values for its inputs.
#[derive(Clone, Debug)]
pub struct RandomModel {
    /// The model; all shapes are known.
    pub model: Model,
    /// Bytes of each input.
    pub inputs: Vec<Vec<u8>>,
}

impl RandomModel {
    /// The same model with the extents of everything but constants unknown; requests tell the
    /// inputs'.
    pub fn with_unknown_shapes(&self) -> Self {
        let mut this = self.clone();
        for operand in &mut this.model.main.operands {
            if !operand.is_constant() && !operand.kind.is_scalar() {
                operand.dimensions.fill(0);
            }
        }
        this
    }

    /// The same model with every tensor constant an input.
    pub fn with_constants_as_inputs(&self) -> Self {
        let mut this = self.clone();
        let graph = &mut this.model.main;
        for (index, operand) in graph.operands.iter_mut().enumerate() {
            if operand.lifetime == OperandLifeTime::ConstantCopy && !operand.kind.is_scalar() {
                let start = operand.location.offset as usize;
                let end = start + operand.location.length as usize;
                let bytes = self.model.operand_values.get(start..end).unwrap_or_default();
                this.inputs.push(bytes.to_vec());
                graph.input_indexes.push(u32::try_from(index).unwrap_or(u32::MAX));
                operand.lifetime = OperandLifeTime::SubgraphInput;
                operand.location = DataLocation::default();
            }
        }
        this
    }

    /// Extents and bytes of each output.
    pub fn outputs(&self) -> Vec<(Vec<u32>, usize)> {
        let operands = &self.model.main.operands;
        let output = |&index: &u32| {
            let operand = operands.get(index as usize);
            operand.map(|operand| (operand.dimensions.clone(), operand.data_size().unwrap_or(0)))
        };
        self.model.main.output_indexes.iter().filter_map(output).collect()
    }
}

/// A valid model of at most `most` operations.
pub fn random_model(rng: &mut TestRng, element: Element, most: usize) -> RandomModel {
    let mut maker = Maker {
        rng,
        element,
        graph: Subgraph::default(),
        constants: Vec::new(),
        live: Vec::new(),
        inputs: Vec::new(),
    };
    for _ in 0..maker.rng.between(1, 3) {
        maker.add_input();
    }
    let wanted = 1 + maker.rng.below(most);
    let mut tries = 0;
    while maker.graph.operations.len() < wanted && tries < wanted * 8 {
        tries += 1;
        let at = maker.rng.below(TABLE.len());
        if let Some(make) = TABLE.get(at) {
            maker.attempt(*make);
        }
    }
    maker.finish()
}

/// A tensor that operations may take.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) operand: u32,
    pub(super) kind: OperandType,
    pub(super) dims: Vec<u32>,
    pub(super) scale: f32,
    pub(super) zero_point: i32,
}

impl Value {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(super) fn elements(&self) -> u64 {
        self.dims.iter().map(|&extent| u64::from(extent)).product()
    }

    pub(super) fn is_quantised(&self) -> bool {
        self.scale != 0.0
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self.kind, OperandType::TensorFloat32 | OperandType::TensorFloat16)
    }

    /// The same type and quantisation with other extents.
    pub(super) fn of(&self, dims: Vec<u32>) -> Self {
        Self { operand: u32::MAX, dims, ..self.clone() }
    }

    /// Another type, not quantised.
    pub(super) fn as_kind(&self, kind: OperandType) -> Self {
        Self { kind, scale: 0.0, zero_point: 0, ..self.of(self.dims.clone()) }
    }

    /// Another quantisation, where there is one.
    pub(super) fn rescaled(&self, scale: f32, zero_point: i32) -> Self {
        if !self.is_quantised() {
            return self.clone();
        }
        let zero_point = match self.kind {
            OperandType::TensorQuant8AsymmSigned => zero_point - 128,
            _ => zero_point,
        };
        Self { scale, zero_point, ..self.clone() }
    }
}

/// How an operation is made: its code, inputs and outputs; `None` where nothing fits it.
pub(super) type Make = fn(&mut Maker<'_>) -> Option<(OperationType, Vec<u32>, Vec<Value>)>;

/// A graph in the making.
pub(super) struct Maker<'c> {
    pub(super) rng: &'c mut TestRng,
    pub(super) element: Element,
    graph: Subgraph,
    constants: Vec<u8>,
    live: Vec<Value>,
    inputs: Vec<Vec<u8>>,
}

/// Most elements of any tensor.
const MOST_ELEMENTS: u64 = 4096;

impl Maker<'_> {
    /// Any tensor that meets a condition; later ones more often, so that graphs grow deep.
    pub(super) fn pick(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let fitting: Vec<usize> =
            (0..self.live.len()).filter(|&at| self.live.get(at).is_some_and(&fits)).collect();
        let (a, b) = (self.rng.below(fitting.len()), self.rng.below(fitting.len()));
        self.live.get(*fitting.get(a.max(b))?).cloned()
    }

    pub(super) fn quantisation(&mut self) -> (f32, i32) {
        let scale = self.rng.one_of(&[0.5f32, 0.25, 0.031_25, 0.1, 0.013, 1.0]);
        (scale, self.rng.one_of(&[0, 128, 255, 3, 100]))
    }

    pub(super) fn int(&mut self, value: i32) -> u32 {
        self.constant(Operand::scalar(OperandType::Int32), &value.to_le_bytes())
    }

    pub(super) fn bool(&mut self, value: bool) -> u32 {
        self.constant(Operand::scalar(OperandType::Bool), &[u8::from(value)])
    }

    /// A float scalar of the precision of a tensor type.
    pub(super) fn float(&mut self, like: OperandType, value: f32) -> u32 {
        if like == OperandType::TensorFloat16 {
            let bytes = f16::from_f32(value).to_le_bytes();
            return self.constant(Operand::scalar(OperandType::Float16), &bytes);
        }
        self.constant(Operand::scalar(OperandType::Float32), &value.to_le_bytes())
    }

    pub(super) fn ints(&mut self, values: &[i32], dims: Vec<u32>) -> u32 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(Operand::tensor(OperandType::TensorInt32, dims), &bytes)
    }

    /// A list of numbers.
    pub(super) fn list(&mut self, values: &[i32]) -> u32 {
        let len = u32::try_from(values.len()).unwrap_or(u32::MAX);
        self.ints(values, vec![len])
    }

    /// A random constant tensor.
    pub(super) fn weights(&mut self, like: &Value) -> u32 {
        let bytes = self.bytes(like);
        let operand = Operand::tensor(like.kind, like.dims.clone());
        self.constant(operand.with_quantization(like.scale, like.zero_point), &bytes)
    }

    fn constant(&mut self, mut operand: Operand, bytes: &[u8]) -> u32 {
        self.constants.resize(self.constants.len().next_multiple_of(4), 0);
        let length = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        operand.location = DataLocation {
            pool_index: 0,
            offset: length(self.constants.len()),
            length: length(bytes.len()),
        };
        self.constants.extend_from_slice(bytes);
        self.add(operand.with_lifetime(OperandLifeTime::ConstantCopy))
    }

    fn add(&mut self, operand: Operand) -> u32 {
        self.graph.operands.push(operand);
        u32::try_from(self.graph.operands.len() - 1).unwrap_or(u32::MAX)
    }

    /// Random elements.
    fn bytes(&mut self, like: &Value) -> Vec<u8> {
        let count = usize::try_from(like.elements()).unwrap_or(0);
        let mut bytes = Vec::new();
        for _ in 0..count {
            match like.kind {
                OperandType::TensorFloat32 => bytes.extend(self.rng.real().to_le_bytes()),
                OperandType::TensorFloat16 => {
                    bytes.extend(f16::from_f32(self.rng.real()).to_le_bytes());
                }
                OperandType::TensorInt32 => {
                    let value = self.rng.between(0, 400).cast_signed() - 200;
                    bytes.extend(value.to_le_bytes());
                }
                OperandType::TensorBool8 => bytes.push(u8::from(self.rng.once_in(2))),
                _ => {
                    let any = u8::try_from(self.rng.below(256)).unwrap_or(0);
                    bytes.push(if self.rng.once_in(8) { 255 } else { any });
                }
            }
        }
        bytes
    }

    fn add_input(&mut self) {
        let rank = self.rng.one_of(&[4, 4, 4, 2, 3, 1]);
        let dims: Vec<u32> = (0..rank)
            .map(|axis| if axis == 0 { self.rng.between(1, 2) } else { self.rng.between(1, 9) })
            .collect();
        let mut value =
            Value { operand: 0, kind: self.element.kind(), dims, scale: 0.0, zero_point: 0 };
        if matches!(self.element, Element::Unsigned | Element::Signed) {
            value.scale = 1.0;
            let (scale, zero_point) = self.quantisation();
            value = value.rescaled(scale, zero_point);
        }
        let bytes = self.bytes(&value);
        let operand = Operand::tensor(value.kind, value.dims.clone())
            .with_quantization(value.scale, value.zero_point)
            .with_lifetime(OperandLifeTime::SubgraphInput);
        value.operand = self.add(operand);
        self.graph.input_indexes.push(value.operand);
        self.inputs.push(bytes);
        self.live.push(value);
    }

    /// Adds an operation if it is valid, and forgets it otherwise.
    fn attempt(&mut self, make: Make) {
        let mark = (self.graph.operands.len(), self.constants.len(), self.live.clone());
        if self.try_add(make).is_none() {
            self.graph.operands.truncate(mark.0);
            self.constants.truncate(mark.1);
            self.live = mark.2;
        }
    }

    fn try_add(&mut self, make: Make) -> Option<()> {
        let (kind, inputs, results) = make(self)?;
        let mut outputs = Vec::new();
        for mut value in results {
            if value.elements() > MOST_ELEMENTS || value.dims.contains(&0) {
                return None;
            }
            let operand = Operand::tensor(value.kind, value.dims.clone());
            value.operand = self.add(operand.with_quantization(value.scale, value.zero_point));
            outputs.push(value.operand);
            self.live.push(value);
        }
        let operation = Operation { kind, inputs, outputs };
        operation_since(&operation, &self.graph).ok()?;
        self.graph.operations.push(operation);
        Some(())
    }

    /// What nobody reads is an output.
    fn finish(mut self) -> RandomModel {
        for value in &self.live {
            let read = self.graph.operations.iter().any(|it| it.inputs.contains(&value.operand));
            let is_input = self.graph.input_indexes.contains(&value.operand);
            if !read && !is_input {
                if let Some(operand) = self.graph.operands.get_mut(value.operand as usize) {
                    operand.lifetime = OperandLifeTime::SubgraphOutput;
                }
                self.graph.output_indexes.push(value.operand);
            }
        }
        for operation in &self.graph.operations {
            for &input in &operation.inputs {
                if let Some(operand) = self.graph.operands.get_mut(input as usize) {
                    operand.number_of_consumers += 1;
                }
            }
        }
        let model = Model { main: self.graph, operand_values: self.constants, ..Model::default() };
        RandomModel { model, inputs: self.inputs }
    }
}
