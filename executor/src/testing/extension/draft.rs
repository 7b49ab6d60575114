//! A model of one operation in the making.

use nnburst_hal::tflite_extension::{ExtensionType, OptionType};
use nnburst_hal::{
    ChannelQuant, DataLocation, ExtensionCode, ExtraParams, Model, Operand, OperandLifeTime,
    OperandType, Operation, OperationType,
};

use super::PREFIX;
use crate::testing::TestRng;

/// The operand types of data.
pub(super) fn kinds() -> [OperandType; 13] {
    let own = |kind: ExtensionType| kind.operand(PREFIX);
    [
        OperandType::TensorFloat32,
        OperandType::TensorFloat16,
        OperandType::TensorInt32,
        OperandType::TensorBool8,
        OperandType::TensorQuant8Asymm,
        OperandType::TensorQuant8AsymmSigned,
        OperandType::TensorQuant16Symm,
        own(ExtensionType::TensorInt64),
        own(ExtensionType::TensorUint32),
        own(ExtensionType::TensorUint16),
        own(ExtensionType::TensorUint64),
        own(ExtensionType::TensorFloat64),
        own(ExtensionType::TensorComplex64),
    ]
}

/// A model of one operation in the making.
pub(super) struct Draft<'r> {
    pub(super) rng: &'r mut TestRng,
    pub(super) model: Model,
    pub(super) inputs: Vec<Vec<u8>>,
    pub(super) shape: Vec<u32>,
    pub(super) kind: OperandType,
    /// Height, width and output channels of filters.
    pub(super) filter: [u32; 3],
    pub(super) operation: Operation,
}

impl Draft<'_> {
    fn bytes_of(&self, kind: OperandType) -> usize {
        let own = ExtensionType::of_operand(kind).map(|kind| kind.element_bytes() as usize);
        kind.element_bytes().or(own).unwrap_or(1)
    }

    /// Adds an operand of these bytes: a constant, or an input of the model.
    pub(super) fn add(&mut self, mut operand: Operand, bytes: Vec<u8>, is_constant: bool) {
        let graph = &mut self.model.main;
        let index = u32::try_from(graph.operands.len()).unwrap_or(0);
        operand.number_of_consumers = 1;
        if is_constant {
            let offset = self.model.operand_values.len().next_multiple_of(8);
            self.model.operand_values.resize(offset, 0);
            self.model.operand_values.extend(&bytes);
            let place = |at: usize| u32::try_from(at).unwrap_or(0);
            operand.location =
                DataLocation { pool_index: 0, offset: place(offset), length: place(bytes.len()) };
            operand.lifetime = OperandLifeTime::ConstantCopy;
        } else {
            operand.lifetime = OperandLifeTime::SubgraphInput;
            graph.input_indexes.push(index);
            self.inputs.push(bytes);
        }
        self.operation.inputs.push(index);
        graph.operands.push(operand);
    }

    fn quantised(&mut self, kind: OperandType, shape: Vec<u32>) -> Operand {
        let mut operand = Operand::tensor(kind, shape);
        let scale = self.rng.one_of(&[0.5, 0.5, 0.02, 1.0, 1e-30, 1e30]);
        (operand.scale, operand.zero_point) = match kind {
            OperandType::TensorQuant8Asymm => (scale, self.rng.one_of(&[0, 128, 255, 7])),
            OperandType::TensorQuant8AsymmSigned => (scale, self.rng.one_of(&[0, -128, 127, 7])),
            OperandType::TensorQuant16Symm => (scale, 0),
            _ => (0.0, 0),
        };
        operand
    }

    fn data(&mut self, kind: OperandType, shape: Vec<u32>) {
        let count: usize = shape.iter().map(|&extent| extent as usize).product();
        let bytes = match kind {
            OperandType::TensorFloat32 => {
                (0..count).flat_map(|_| (4.0 * self.rng.real()).to_le_bytes()).collect()
            }
            _ if self.bytes_of(kind) == 4 => {
                (0..count).flat_map(|_| self.rng.between(0, 6).to_le_bytes()).collect()
            }
            _ if self.bytes_of(kind) == 8 => {
                (0..count).flat_map(|_| u64::from(self.rng.between(0, 6)).to_le_bytes()).collect()
            }
            _ => {
                let count = count * self.bytes_of(kind);
                (0..count).map(|_| self.rng.number().to_le_bytes()[0]).collect()
            }
        };
        let (operand, is_constant) = (self.quantised(kind, shape), self.rng.once_in(4));
        self.add(operand, bytes, is_constant);
    }

    /// Integers that something depends on, as INT32 or INT64; now and then one that nothing can
    /// depend on.
    fn ints(&mut self, shape: Vec<u32>, mut values: Vec<i64>) {
        const EDGES: [i64; 14] = [
            0,
            -1,
            1,
            -2,
            7,
            65_536,
            1 << 28,
            i32::MAX as i64,
            i32::MIN as i64,
            1 << 32,
            i64::MAX,
            i64::MIN,
            i64::MAX - 1,
            i64::MIN + 1,
        ];
        if self.rng.once_in(3) {
            let at = self.rng.below(values.len());
            if let Some(value) = values.get_mut(at) {
                *value = self.rng.one_of(&EDGES);
            }
        }
        let is_wide = self.rng.once_in(2);
        let kind = match is_wide {
            true => ExtensionType::TensorInt64.operand(PREFIX),
            false => OperandType::TensorInt32,
        };
        let bytes = values.iter().flat_map(|value| {
            let bytes = value.to_le_bytes();
            bytes.into_iter().take(if is_wide { 8 } else { 4 })
        });
        let (bytes, is_constant) = (bytes.collect(), self.rng.once_in(2));
        self.add(Operand::tensor(kind, shape), bytes, is_constant);
    }

    fn some_ints(&mut self, count: u32, low: u32, high: u32) {
        let values = (0..count).map(|_| i64::from(self.rng.between(low, high))).collect();
        self.ints(vec![count], values);
    }

    pub(super) fn input(&mut self, letter: char) {
        let (kind, shape) = (self.kind, self.shape.clone());
        let rank = u32::try_from(shape.len()).unwrap_or(0);
        let [height, width, outputs] = self.filter;
        let last = shape.last().copied().unwrap_or(1);
        match letter {
            // The tensor; one that broadcasts with it; a part of it; its diagonal; one element.
            'd' => self.data(kind, shape),
            'e' => {
                let mut own = shape;
                let at = self.rng.below(own.len() + 1);
                if let Some(extent) = own.get_mut(at) {
                    *extent = 1;
                }
                if self.rng.once_in(4) {
                    own = own.split_off(1.min(own.len() - 1));
                }
                self.data(kind, own);
            }
            'U' => {
                let own = shape.iter().map(|&extent| self.rng.between(0, extent)).collect();
                self.data(kind, own);
            }
            'G' => {
                let mut own = shape;
                let columns = own.pop().unwrap_or(1);
                if let Some(rows) = own.last_mut() {
                    *rows = columns.min(*rows);
                }
                self.data(kind, own);
            }
            's' => self.data(kind, vec![1]),
            'V' => self.data(kind, vec![4]),
            'c' => self.data(OperandType::TensorBool8, shape),
            't' => self.data(OperandType::TensorFloat32, vec![1]),
            'A' => self.data(OperandType::TensorFloat32, shape),
            // The input of a layer with a memory, its weights over time, its state.
            '*' => {
                self.kind = self.floats_or(OperandType::TensorQuant8AsymmSigned);
                self.data(self.kind, shape);
            }
            'R' => self.weights(vec![outputs, outputs], outputs),
            // Weights of gates: of the input, of the state, of the cell.
            '3' => self.gate_weights(vec![outputs, last]),
            '4' => self.gate_weights(vec![outputs, outputs]),
            '5' => self.gate_weights(vec![outputs]),
            '1' => {
                let rows = shape.first().copied().unwrap_or(1);
                self.data(OperandType::TensorFloat32, vec![rows, outputs]);
            }
            '2' => {
                let rows = shape.get(self.rng.below(2)).copied().unwrap_or(1);
                self.data(OperandType::TensorFloat32, vec![rows, outputs]);
            }
            // A gated layer of bytes with one matrix: input, result before, weights, biases, cells.
            '!' => self.data(OperandType::TensorQuant8Asymm, shape),
            '@' | '%' => {
                let kind = match letter {
                    '@' => OperandType::TensorQuant8Asymm,
                    _ => OperandType::TensorQuant16Symm,
                };
                self.data(kind, vec![shape.first().copied().unwrap_or(1), outputs]);
            }
            '#' => {
                let weights = vec![4 * outputs, last + outputs];
                self.data(OperandType::TensorQuant8Asymm, weights);
            }
            '$' => {
                let scale = self.rng.one_of(&[1e-5, 1e-5, 1.0, 0.0, 1e30, f32::NAN]);
                let values = (0..4 * outputs).map(|_| self.rng.number().to_le_bytes());
                let bytes = values.flat_map(|value| value.into_iter().take(4)).collect();
                let mut biases = Operand::tensor(OperandType::TensorInt32, vec![4 * outputs]);
                biases.scale = scale;
                let is_constant = self.rng.once_in(4);
                self.add(biases, bytes, is_constant);
            }
            // A dense layer whose weights have scales of blocks: its input, weights, scales.
            '&' => {
                if let Some(depth) = self.shape.last_mut().filter(|_| !self.rng.once_in(8)) {
                    *depth = 4;
                }
                self.data(OperandType::TensorFloat32, self.shape.clone());
            }
            '0' => {
                let bytes = (0..outputs * last).map(|_| self.rng.number().to_le_bytes()[0]);
                let bytes = bytes.collect();
                self.add(Operand::quant8_signed(vec![outputs, last], 0.5, 0), bytes, true);
            }
            '9' => {
                let blocks = if self.rng.once_in(4) { 2 } else { 1 };
                let values = (0..outputs * blocks).map(|_| self.rng.one_of(&[0.5, 1e-30, 1e30]));
                let bytes = values.flat_map(f32::to_le_bytes).collect();
                let scales = Operand::tensor(OperandType::TensorFloat32, vec![outputs, blocks]);
                self.add(scales, bytes, true);
            }
            'E' => {
                let time = match kind {
                    OperandType::TensorFloat32 => OperandType::TensorQuant8AsymmSigned,
                    _ => OperandType::TensorQuant16Symm,
                };
                self.data(time, vec![outputs, height]);
            }
            'K' => {
                let rows = shape.first().copied().unwrap_or(1);
                self.data(self.memory_kind(), vec![rows, outputs * height]);
            }
            'B' => self.data(OperandType::TensorFloat32, vec![5, 4]),
            'S' => self.data(OperandType::TensorFloat32, vec![5]),
            // Hash functions, and weights of the items that are hashed.
            'H' => self.data(OperandType::TensorFloat32, vec![3, outputs.min(4)]),
            'N' => self.data(OperandType::TensorFloat32, shape.into_iter().take(1).collect()),
            // Filters of convolutions of volumes and of those that are undone, and their biases.
            'X' => {
                let filter = vec![1, height, width, last, outputs];
                self.data(OperandType::TensorFloat32, filter);
            }
            'Y' => {
                let filter = vec![1, height, width, outputs, last];
                self.data(OperandType::TensorFloat32, filter);
            }
            'D' => {
                let filter = vec![outputs, height, width, last];
                self.data(OperandType::TensorFloat32, filter);
            }
            'Z' => self.data(OperandType::TensorFloat32, vec![outputs]),
            // Places that values came from.
            'J' => {
                let kind = self.floats_or(OperandType::TensorInt32);
                self.data(kind, shape);
            }
            // Filters of convolutions, weights of dense layers, matrices, biases.
            'w' => self.weights(vec![outputs, height, width, last], outputs),
            'W' => self.weights(vec![1, height, width, last * outputs], last * outputs),
            'T' => self.weights(vec![outputs, height, width, last], outputs),
            'm' => self.weights(vec![outputs, last], outputs),
            'M' => {
                let mut own = shape;
                let rank = own.len();
                own.swap(rank - 1, rank - 2);
                self.data(kind, own);
            }
            'z' => {
                let kind = match kind {
                    OperandType::TensorFloat32 => OperandType::TensorFloat32,
                    OperandType::TensorQuant16Symm => ExtensionType::TensorInt64.operand(PREFIX),
                    _ => OperandType::TensorInt32,
                };
                let channels = match self.operation.kind {
                    OperationType::Extension(ExtensionCode { number: 4, .. }) => last * outputs,
                    _ => outputs,
                };
                let short = u32::from(self.rng.once_in(8));
                self.data(kind, vec![(channels - short.min(channels)).max(1)]);
            }
            // Integers: as many as there are dimensions, pairs of them, an order, axes, an axis,
            // extents, a count, two sizes, borders, the result of a transposed convolution, the
            // points of a transform, keys.
            'r' => self.some_ints(rank, 0, 3),
            'p' => {
                let values = (0..2 * rank).map(|_| i64::from(self.rng.between(0, 2))).collect();
                self.ints(vec![rank, 2], values);
            }
            'O' => {
                let first = self.rng.between(0, rank - 1);
                let order = (0..rank).map(|axis| i64::from((axis + first) % rank)).collect();
                self.ints(vec![rank], order);
            }
            'l' => {
                let count = self.rng.between(0, rank);
                self.some_ints(count, 0, rank - 1);
            }
            'a' => self.some_ints(1, 0, rank - 1),
            'v' => {
                let values = shape.iter().map(|&extent| i64::from(extent)).collect();
                self.ints(vec![rank], values);
            }
            'k' => self.some_ints(1, 0, 4),
            'h' => self.some_ints(2, 1, 4),
            'P' => {
                let values = (0..4).map(|_| i64::from(self.rng.between(0, 2))).collect();
                self.ints(vec![2, 2], values);
            }
            'o' => {
                let wide = |extent: Option<&u32>, more: u32| {
                    i64::from(extent.copied().unwrap_or(1) + more - 1)
                };
                let values = vec![
                    wide(shape.first(), 1),
                    wide(shape.get(1), height),
                    wide(shape.get(2), width),
                    i64::from(outputs),
                ];
                self.ints(vec![4], values);
            }
            'Q' => {
                let taps = [1, 1, height, width].into_iter();
                let wide = shape.iter().zip(taps).map(|(extent, taps)| extent + taps - 1);
                let values = wide.chain([outputs]).map(i64::from).collect();
                self.ints(vec![5], values);
            }
            'F' => {
                let values = (0..2).map(|_| self.rng.one_of(&[1, 2, 4, 8])).collect();
                self.ints(vec![2], values);
            }
            'n' => self.some_ints(shape.first().copied().unwrap_or(1), 0, 2),
            // Dimensions of windows behind the first, a state of random bits, places of lookups,
            // a rate.
            '6' => {
                let axes = (1..=rank).map(i64::from).collect();
                self.ints(vec![rank], axes);
            }
            '7' => {
                let count = self.rng.between(2, 3);
                self.data(ExtensionType::TensorUint64.operand(PREFIX), vec![count]);
            }
            'q' => {
                let rows = shape.first().copied().unwrap_or(1);
                self.data(OperandType::TensorInt32, vec![rows, 2]);
            }
            '8' => self.data(OperandType::TensorInt32, vec![1]),
            // Indices: of any shape, positions in the tensor, one per row.
            'x' => {
                let values = (0..6).map(|_| i64::from(self.rng.between(0, 1))).collect();
                self.ints(vec![3, 2], values);
            }
            'y' => {
                let values = (0..4 * rank).map(|_| i64::from(self.rng.between(0, 1))).collect();
                self.ints(vec![4, rank], values);
            }
            _ => self.some_ints(shape.first().copied().unwrap_or(1), 0, 2),
        }
    }

    /// Weights of bytes, some with a scale for each of `channels`.
    fn weights(&mut self, shape: Vec<u32>, channels: u32) {
        let count: u32 = shape.iter().product();
        let bytes = (0..count).map(|_| self.rng.number().to_le_bytes()[0]).collect();
        let mut operand = match self.rng.below(3) {
            0 => Operand::quant8(shape, 0.5, 100),
            1 => Operand::quant8_signed(shape, 0.5, self.rng.one_of(&[0, 0, 5])),
            _ => Operand::tensor(OperandType::TensorQuant8SymmPerChannel, shape),
        };
        if operand.kind == OperandType::TensorQuant8SymmPerChannel {
            let scales = vec![0.5; if self.rng.once_in(8) { 1 } else { channels as usize }];
            operand.extra_params =
                ExtraParams::ChannelQuant(ChannelQuant { scales, channel_dim: 0 });
        }
        let is_constant = !self.rng.once_in(4);
        self.add(operand, bytes, is_constant);
    }

    /// Weights as layers with gates have them: there are too many of them for each to be of a type
    /// of its own, and a model that is computed now and then.
    fn gate_weights(&mut self, shape: Vec<u32>) {
        let (count, first) = (shape.iter().product(), self.rng.number().to_le_bytes()[0]);
        let bytes =
            (0..count).map(|at: u32| at.to_le_bytes()[0].wrapping_mul(37) ^ first).collect();
        let operand = match self.rng.once_in(60) {
            true => Operand::quant8(shape, 0.5, 100),
            false => Operand::quant8_signed(shape, 0.5, 0),
        };
        let is_constant = !self.rng.once_in(4);
        self.add(operand, bytes, is_constant);
    }

    /// FLOAT32, or another type as often.
    fn floats_or(&mut self, other: OperandType) -> OperandType {
        if self.rng.once_in(2) { OperandType::TensorFloat32 } else { other }
    }

    /// The type of the state beside inputs of the draft's type.
    fn memory_kind(&self) -> OperandType {
        match self.kind {
            OperandType::TensorFloat32 => OperandType::TensorFloat32,
            _ => OperandType::TensorQuant16Symm,
        }
    }

    /// An output, whose shape a run tells.
    pub(super) fn output(&mut self, letter: char) {
        let kind = match letter {
            'k' => self.kind,
            'b' => OperandType::TensorBool8,
            'f' => OperandType::TensorFloat32,
            'i' => OperandType::TensorInt32,
            'I' => ExtensionType::TensorInt64.operand(PREFIX),
            'C' => ExtensionType::TensorComplex64.operand(PREFIX),
            'W' => ExtensionType::TensorUint64.operand(PREFIX),
            'S' if self.rng.once_in(2) => OperandType::TensorInt32,
            'u' => OperandType::TensorQuant8Asymm,
            '%' => OperandType::TensorQuant16Symm,
            'M' => self.memory_kind(),
            'j' => self.floats_or(OperandType::TensorInt32),
            // Logarithms of probabilities.
            'L' => self.kind,
            _ => kinds().get(self.rng.below(13)).copied().unwrap_or(self.kind),
        };
        // Of some the shape is declared, for nothing else tells it.
        let shape = if letter == 'S' { self.shape.clone() } else { Vec::new() };
        let mut operand = self.quantised(kind, shape);
        if letter == 'L' {
            (operand.scale, operand.zero_point) = match kind {
                OperandType::TensorQuant8Asymm => (0.0625, 255),
                OperandType::TensorQuant8AsymmSigned => (0.0625, 127),
                _ => (operand.scale, operand.zero_point),
            };
        }
        let index = u32::try_from(self.model.main.operands.len()).unwrap_or(0);
        self.model.main.operands.push(operand.with_lifetime(OperandLifeTime::SubgraphOutput));
        self.model.main.output_indexes.push(index);
        self.operation.outputs.push(index);
    }

    /// One of `count` options: the more there are, the less often it is one that nothing can be
    /// computed with.
    pub(super) fn option(&mut self, kind: OptionType, count: usize) {
        let (kind, bytes) = match kind {
            OptionType::Int => {
                let value = match self.rng.once_in(if count > 5 { 6 * count } else { 6 }) {
                    true => self.rng.one_of(&[i32::MAX, i32::MIN, -1, -2, 65_536, 1 << 30, 255]),
                    false if count > 5 => self.rng.one_of(&[0, 1, 1, 1, 1, 1, 1, 2]),
                    false => self.rng.one_of(&[0, 1, 1, 1, 2]),
                };
                (OperandType::Int32, value.to_le_bytes().to_vec())
            }
            OptionType::Float => {
                let value = self.rng.one_of(&[1.0, 0.5, -2.0, 0.0, f32::NAN, f32::INFINITY, 1e30]);
                (OperandType::Float32, value.to_le_bytes().to_vec())
            }
            OptionType::Bool => (OperandType::Bool, vec![u8::from(self.rng.once_in(2))]),
        };
        self.add(Operand::scalar(kind), bytes, true);
    }
}
