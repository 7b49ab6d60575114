//! The body of a fuzz target: operations of `dev.nnburst.tflite` with random tensors and values.

use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::tflite_extension::{ExtensionType, NAME, OPERATIONS, OptionType};
use nnburst_hal::{
    ChannelQuant, DataLocation, ExtensionCode, ExtensionNameAndPrefix, ExtraParams, Model, Operand,
    OperandLifeTime, OperandType, Operation, OperationType, View, ViewMut,
};

use super::test_rng::TestRng;
use crate::{CompileOptions, Control, ExtensionRegistry, Input, Output, Plan, TfliteExecutor};

const PREFIX: u16 = 3;

/// Tensors that an operation takes and gives: a letter each, see [`Draft::input`] and
/// [`Draft::output`].
struct Signature {
    numbers: &'static [u16],
    ranks: (u32, u32),
    inputs: &'static str,
    outputs: &'static str,
}

const fn of(
    numbers: &'static [u16],
    low: u32,
    high: u32,
    inputs: &'static str,
    outputs: &'static str,
) -> Signature {
    Signature { numbers, ranks: (low, high), inputs, outputs }
}

const SIGNATURES: &[Signature] = &[
    of(&[0, 41, 18, 42, 55, 57, 78, 90, 95, 99, 156, 160, 161, 54], 1, 5, "de", "k"),
    of(&[58, 61, 62, 63, 71, 72], 1, 5, "de", "b"),
    of(&[84, 86], 1, 4, "cc", "b"),
    of(&[1, 17, 5, 26], 4, 4, "d", "k"),
    of(&[2, 83, 106], 1, 4, "ddd", "k"),
    of(&[3], 4, 4, "dwz", "k"),
    of(&[4], 4, 4, "dWz", "k"),
    of(&[67], 4, 4, "oTdz", "k"),
    of(&[6, 133, 134, 135], 1, 4, "d", "f"),
    of(&[7], 1, 4, "xd", "k"),
    of(&[8, 14, 19, 20, 21, 28, 47, 59, 66, 73, 75, 76, 92, 93, 98, 101], 1, 5, "d", "k"),
    of(&[104, 108, 111, 116, 150, 152, 158, 25, 113, 11], 1, 5, "d", "k"),
    of(&[87], 1, 4, "c", "b"),
    of(&[9], 1, 4, "dmz", "k"),
    of(&[22, 130], 1, 5, "dv", "k"),
    of(&[23, 97], 4, 4, "dh", "k"),
    of(&[34, 100], 1, 5, "dp", "k"),
    of(&[60], 1, 5, "dps", "k"),
    of(&[36], 1, 5, "dx", "k"),
    of(&[37, 38], 4, 4, "dhP", "k"),
    of(&[39], 1, 5, "dO", "k"),
    of(&[40, 74, 81, 82, 89, 43, 105], 1, 5, "dl", "k"),
    of(&[91, 140], 1, 5, "cl", "b"),
    of(&[45], 1, 4, "drrr", "k"),
    of(&[48], 1, 4, "dk", "ki"),
    of(&[49], 1, 4, "ad", "kk"),
    of(&[53, 159, 114], 1, 4, "d", "?"),
    of(&[56, 79], 1, 4, "da", "i"),
    of(&[64], 1, 4, "cdd", "k"),
    of(&[123], 1, 4, "cde", "k"),
    of(&[65], 1, 5, "drr", "k"),
    of(&[68], 1, 3, "yvVs", "k"),
    of(&[69], 1, 5, "dr", "k"),
    of(&[70, 128], 1, 5, "da", "k"),
    of(&[77, 110], 1, 5, "d", "i"),
    of(&[85], 1, 3, "xkss", "k"),
    of(&[88], 1, 4, "d", "kk"),
    of(&[94], 1, 4, "rs", "k"),
    of(&[96], 1, 1, "sss", "k"),
    of(&[102], 1, 4, "dra", "kk"),
    of(&[103], 1, 1, "d", "ki"),
    of(&[107], 1, 4, "dy", "k"),
    of(&[109], 1, 4, "d", "I"),
    of(&[112], 2, 4, "dg", "k"),
    of(&[115], 2, 4, "dG", "k"),
    of(&[120], 1, 1, "BSktt", "ii"),
    of(&[121], 1, 1, "BSkttt", "ifi"),
    of(&[122], 1, 3, "yVv", "k"),
    of(&[125], 1, 4, "dg", "k"),
    of(&[153, 154, 155, 157], 1, 4, "dgk", "k"),
    of(&[126], 2, 4, "dM", "k"),
    of(&[145], 1, 4, "vv", "i"),
    of(&[147], 1, 4, "dt", "i"),
    of(&[151], 1, 4, "dUr", "k"),
    of(&[10], 1, 4, "nnd", "ku"),
    of(&[15], 1, 4, "HdN", "i"),
    of(&[24], 2, 2, "AmRZ1", "ff"),
    of(&[35], 3, 3, "AmRZ2", "ff"),
    of(&[27], 2, 2, "*mEzK", "kM"),
    of(&[50], 1, 4, "d", "L"),
    of(&[131], 2, 4, "AF", "C"),
    of(&[132], 5, 5, "AXZ", "f"),
    of(&[141], 5, 5, "QYAZ", "f"),
    of(&[146, 148], 1, 4, "v", "f"),
    of(&[149], 2, 2, "Ak", "i"),
    of(&[1024], 4, 4, "ADZ", "f"),
    of(&[1025], 4, 4, "A", "fj"),
    of(&[1026], 4, 4, "AJ", "f"),
];

/// The operand types of data.
fn kinds() -> [OperandType; 13] {
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
struct Draft<'r> {
    rng: &'r mut TestRng,
    model: Model,
    inputs: Vec<Vec<u8>>,
    shape: Vec<u32>,
    kind: OperandType,
    /// Height, width and output channels of filters.
    filter: [u32; 3],
    operation: Operation,
}

impl Draft<'_> {
    fn bytes_of(&self, kind: OperandType) -> usize {
        let own = ExtensionType::of_operand(kind).map(|kind| kind.element_bytes() as usize);
        kind.element_bytes().or(own).unwrap_or(1)
    }

    /// Adds an operand of these bytes: a constant, or an input of the model.
    fn add(&mut self, mut operand: Operand, bytes: Vec<u8>, is_constant: bool) {
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

    fn input(&mut self, letter: char) {
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
            '1' => {
                let rows = shape.first().copied().unwrap_or(1);
                self.data(OperandType::TensorFloat32, vec![rows, outputs]);
            }
            '2' => {
                let rows = shape.get(self.rng.below(2)).copied().unwrap_or(1);
                self.data(OperandType::TensorFloat32, vec![rows, outputs]);
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
    fn output(&mut self, letter: char) {
        let kind = match letter {
            'k' => self.kind,
            'b' => OperandType::TensorBool8,
            'f' => OperandType::TensorFloat32,
            'i' => OperandType::TensorInt32,
            'I' => ExtensionType::TensorInt64.operand(PREFIX),
            'C' => ExtensionType::TensorComplex64.operand(PREFIX),
            'u' => OperandType::TensorQuant8Asymm,
            'M' => self.memory_kind(),
            'j' => self.floats_or(OperandType::TensorInt32),
            // Logarithms of probabilities.
            'L' => self.kind,
            _ => kinds().get(self.rng.below(13)).copied().unwrap_or(self.kind),
        };
        let mut operand = self.quantised(kind, Vec::new());
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
    fn option(&mut self, kind: OptionType, count: usize) {
        let (kind, bytes) = match kind {
            OptionType::Int => {
                let value = match self.rng.once_in(if count > 6 { 6 * count } else { 6 }) {
                    true => self.rng.one_of(&[i32::MAX, i32::MIN, -1, -2, 65_536, 1 << 30, 255]),
                    false if count > 6 => self.rng.one_of(&[0, 1, 1, 1, 1, 1, 1, 2]),
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

/// Makes a model of one operation of the extension of the bytes, with tensors of random types and
/// shapes that may fit it, and values that nothing can be computed with here and there; compiles it
/// and runs it twice, inputs having changed in between. Anything but a panic or a fault will do.
///
/// Gives the operation's number, and whether a run computed something.
pub fn fuzz_extension(bytes: &[u8]) -> (u16, bool) {
    let rng = &mut TestRng::of_bytes(bytes);
    let about = &OPERATIONS[rng.below(OPERATIONS.len())];
    let find = |it: &&Signature| it.numbers.contains(&about.number);
    let Some(signature) = SIGNATURES.iter().find(find) else { return (about.number, false) };
    let rank = rng.between(signature.ranks.0, signature.ranks.1);
    let extent = |rng: &mut TestRng| if rng.once_in(16) { 0 } else { rng.between(1, 4) };
    let shape = (0..rank).map(|_| extent(rng)).collect();
    let filter = [rng.between(1, 3), rng.between(1, 3), rng.between(1, 20)];
    let kind = kinds().get(rng.below(13)).copied().unwrap_or(OperandType::TensorFloat32);
    let code = ExtensionCode { prefix: PREFIX, number: about.number };
    let operation =
        Operation { kind: OperationType::Extension(code), inputs: Vec::new(), outputs: Vec::new() };
    let mut draft =
        Draft { rng, model: Model::default(), inputs: Vec::new(), shape, kind, filter, operation };
    signature.inputs.chars().for_each(|letter| draft.input(letter));
    let options = about.options;
    options.iter().for_each(|option| draft.option(option.kind, options.len()));
    let scalars = i32::from(draft.rng.once_in(6)) * 0b101;
    draft.add(Operand::scalar(OperandType::Int32), scalars.to_le_bytes().to_vec(), true);
    signature.outputs.chars().for_each(|letter| draft.output(letter));
    let Draft { mut model, mut inputs, operation, rng, .. } = draft;
    model.main.operations.push(operation);
    let name = NAME.to_owned();
    model.extension_name_to_prefix = vec![ExtensionNameAndPrefix { name, prefix: PREFIX }];
    (about.number, run(&model, &mut inputs, rng))
}

fn run(model: &Model, inputs: &mut [Vec<u8>], rng: &mut TestRng) -> bool {
    let mut extensions = ExtensionRegistry::default();
    extensions.register(NAME, Arc::new(TfliteExecutor));
    let options = CompileOptions { arena_limit: 1 << 20, extensions, ..CompileOptions::default() };
    let Ok(plan) = Plan::compile(model, &options) else { return false };
    let mut session = plan.session();
    let control = Control { loop_timeout: Duration::from_millis(5), ..Control::default() };
    let mut buffers = vec![vec![0xa5u8; 1 << 14]; model.main.output_indexes.len()];
    let mut computed = false;
    for _ in 0..2 {
        let graph = &model.main;
        let dimensions = graph.input_indexes.iter().filter_map(|&index| {
            graph.operands.get(index as usize).map(|operand| &operand.dimensions)
        });
        let given: Vec<Input<'_>> = inputs
            .iter()
            .zip(dimensions)
            .map(|(bytes, dimensions)| Input::Value { bytes: View::of(bytes), dimensions })
            .collect();
        let outputs: Vec<Output<'_>> =
            buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
        computed |= session.run(&given, &outputs, &control).is_ok();
        for value in inputs.iter_mut() {
            spoil(value, rng);
        }
    }
    computed
}

/// Puts a number that computations go wrong on somewhere into a value.
fn spoil(value: &mut [u8], rng: &mut TestRng) {
    const EDGES: [u32; 10] =
        [0, u32::MAX, 0x7fff_ffff, 0x8000_0000, 0x7f80_0000, 0x7fc0_0000, 1, 9, 1 << 20, 0xfffe];
    let at = rng.below(value.len() / 4) * 4;
    if let Some(element) = value.get_mut(at..at + 4) {
        element.copy_from_slice(&rng.one_of(&EDGES).to_le_bytes());
    } else if let Some(byte) = value.first_mut() {
        *byte = rng.one_of(&[0, 0x80, 0xff]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_signature() {
        for about in OPERATIONS {
            let count = SIGNATURES.iter().filter(|it| it.numbers.contains(&about.number)).count();
            assert_eq!(count, 1, "{}", about.name);
        }
    }
}
