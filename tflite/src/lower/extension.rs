//! Operators as operations of the vendor extension `dev.nnburst.tflite`.
//!
//! The extension takes an operator as it is: tensors in the file's order, then options, then the
//! mask of scalars. What NNAPI computes with TFLite's results goes to NNAPI all the same.

use nnburst_hal::tflite_extension::{self, ExtensionType};
use nnburst_hal::{ExtensionCode, Operand, OperandLifeTime, OperandType, OperationType};

use self::Slot::{Bool, Byte, Float, Int, Low};
use super::import::shape_of_constant;
use super::recurrent::lstm;
use super::{Import, Lower, Lowered, custom, stablehlo};
use crate::flatbuffer::Field;
use crate::graph::is_open;
use crate::operand::operand_of;
use crate::schema::options::{self, OptionsKind};
use crate::schema::{Builtin, Tensor, TensorKind};

pub(crate) use crate::registry::PREFIX;

/// The type of an option's field in the file, and its default.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Int(i32),
    /// An enum of one byte, 0 by default.
    Byte,
    Float,
    Bool(bool),
    /// The low half of 64 bits, 0 by default: the interpreter takes no more of a seed.
    Low,
}

/// An operation with options: its number, the options' number in the union, and the slot of each.
type OptionSlots = (u16, u8, &'static [(usize, Slot)]);

/// The options of convolutions of volumes.
const VOLUME: &[(usize, Slot)] = &[
    (0, Byte),
    (1, Int(0)),
    (2, Int(0)),
    (3, Int(0)),
    (4, Byte),
    (5, Int(1)),
    (6, Int(1)),
    (7, Int(1)),
];

/// For each operation with options where they are in the file.
const SLOTS: &[OptionSlots] = &[
    (0, 11, &[(0, Byte), (1, Bool(true))]),
    (1, 5, &[(0, Byte), (1, Int(0)), (2, Int(0)), (3, Int(0)), (4, Int(0)), (5, Byte)]),
    (2, 10, &[(0, Int(0)), (1, Byte)]),
    (3, 1, &[(0, Byte), (1, Int(0)), (2, Int(0)), (3, Byte), (4, Int(1)), (5, Int(1))]),
    (4, 2, &[(0, Byte), (1, Int(0)), (2, Int(0)), (4, Byte), (5, Int(1)), (6, Int(1))]),
    (5, 94, &[(0, Int(0))]),
    (9, 8, &[(0, Byte), (2, Bool(false)), (3, Bool(false))]),
    (11, 12, &[(0, Byte)]),
    (15, 4, &[(0, Byte)]),
    (16, 14, &[(0, Byte), (1, Float), (2, Float), (4, Bool(false))]),
    (17, 5, &[(0, Byte), (1, Int(0)), (2, Int(0)), (3, Int(0)), (4, Int(0)), (5, Byte)]),
    (18, 21, &[(0, Byte)]),
    (23, 15, &[(2, Bool(false)), (3, Bool(false))]),
    (24, 7, &[(0, Byte), (1, Bool(false))]),
    (25, 9, &[(0, Float)]),
    (26, 19, &[(0, Int(0))]),
    (27, 6, &[(0, Int(0)), (1, Byte), (2, Bool(false))]),
    (33, 20, &[(0, Byte)]),
    (35, 31, &[(0, Bool(false)), (1, Byte), (2, Bool(false))]),
    (36, 23, &[(0, Int(0)), (1, Int(0))]),
    (40, 27, &[(0, Bool(false))]),
    (41, 28, &[(0, Byte), (1, Bool(true))]),
    (42, 29, &[(0, Byte)]),
    (44, 71, &[(0, Byte), (1, Float), (2, Float), (3, Bool(false)), (4, Bool(false))]),
    (45, 32, &[(0, Int(0)), (1, Int(0)), (2, Int(0)), (3, Int(0)), (4, Int(0)), (5, Bool(false))]),
    (67, 49, &[(0, Byte), (1, Int(0)), (2, Int(0)), (3, Byte)]),
    (74, 27, &[(0, Bool(false))]),
    (80, 58, &[(0, Float), (1, Float), (2, Int(0)), (3, Bool(false))]),
    (81, 27, &[(0, Bool(false))]),
    (82, 27, &[(0, Bool(false))]),
    (83, 59, &[(1, Int(0))]),
    (85, 61, &[(0, Int(0))]),
    (88, 64, &[(1, Int(0))]),
    (89, 27, &[(0, Bool(false))]),
    (91, 27, &[(0, Bool(false))]),
    (97, 74, &[(0, Bool(false)), (1, Bool(false))]),
    (98, 75, &[(0, Float)]),
    (100, 77, &[(0, Byte)]),
    (112, 87, &[(0, Int(0)), (1, Int(0))]),
    (126, 101, &[(0, Bool(false)), (1, Bool(false)), (2, Bool(false))]),
    (128, 102, &[(0, Bool(false)), (1, Bool(false))]),
    (132, 106, VOLUME),
    (140, 27, &[(0, Bool(false))]),
    (141, 106, VOLUME),
    (146, 114, &[(0, Low), (1, Low)]),
    (148, 114, &[(0, Low), (1, Low)]),
    (149, 114, &[(0, Low), (1, Low)]),
    (150, 116, &[(0, Bool(false))]),
];

/// Where a broken options table is reported.
const OPTION: &str = "Operator.builtin_options";

impl Import<'_> {
    /// The operand of a tensor in the file's own type: what NNAPI has no type for is of one of the
    /// extension's.
    pub(crate) fn own_operand(&self, tensor: &Tensor) -> Result<Operand, String> {
        match extension_type(tensor.kind).filter(|_| self.options.extension) {
            Some(kind) => Ok(Operand::tensor(kind.operand(PREFIX), tensor.shape.clone())),
            None => operand_of(tensor),
        }
    }

    /// The operand that holds a tensor's value in the file's own type.
    pub(crate) fn own_value(&mut self, index: usize) -> Lowered<u32> {
        let tensor = &self.graph.tensors[index];
        let Some(kind) = extension_type(tensor.kind) else { return self.value(index) };
        if let Some(nothing) = self.values[index].filter(|_| self.has_no_elements(index)) {
            return Ok(nothing);
        }
        if let Some(&known) = self.wide.get(&index) {
            return Ok(known);
        }
        if !self.is_constant(index) {
            let value = self.value(index)?;
            let is_narrow = kind == ExtensionType::TensorInt64
                && self.builder.operand(value).kind == OperandType::TensorInt32;
            if !is_narrow {
                return Ok(value);
            }
            let wide = self.cast(value, kind.operand(PREFIX));
            self.wide.insert(index, wide);
            return Ok(wide);
        }
        let operand = Operand::tensor(kind.operand(PREFIX), shape_of_constant(tensor));
        let value = if let Some(values) = self.folded.get(&index) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.builder.made_constant(operand, &bytes)
        } else {
            let bytes = self.file.data(tensor).unwrap_or_default();
            let elements = operand.element_count().unwrap_or(0);
            if elements.checked_mul(kind.element_bytes() as usize) != Some(bytes.len()) {
                return Err(format!("tensor {:?} has {} bytes", tensor.name, bytes.len()).into());
            }
            self.builder.made_constant(operand, bytes)
        };
        self.wide.insert(index, value);
        Ok(value)
    }
}

impl Import<'_> {
    /// A value in another type, by the extension's CAST.
    pub(crate) fn cast(&mut self, value: u32, kind: OperandType) -> u32 {
        let dims = self.builder.dims(value).to_vec();
        let cast = self.builder.temporary(kind, dims);
        self.cast_into(value, cast);
        cast
    }

    /// As [`Self::cast`], into an operand that is there.
    fn cast_into(&mut self, value: u32, cast: u32) {
        self.convert_into(Builtin::Cast, value, cast);
    }

    /// Has an operand hold what another one stores, whatever that stands for there, by the
    /// extension's BITCAST.
    pub(super) fn reinterpret_into(&mut self, value: u32, result: u32) {
        self.convert_into(Builtin::Bitcast, value, result);
    }

    fn convert_into(&mut self, how: Builtin, value: u32, cast: u32) {
        let number = u16::try_from(how.number()).unwrap_or(u16::MAX);
        let no_scalars = self.builder.int(0);
        let operation = OperationType::Extension(ExtensionCode { prefix: PREFIX, number });
        self.builder.op(operation, &[value, no_scalars], &[cast]);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
fn low(value: i64) -> i32 {
    value as i32
}

/// The extension's type for elements that NNAPI has no type for.
pub(crate) fn extension_type(kind: TensorKind) -> Option<ExtensionType> {
    Some(match kind {
        TensorKind::Int64 => ExtensionType::TensorInt64,
        TensorKind::Uint32 => ExtensionType::TensorUint32,
        TensorKind::Uint16 => ExtensionType::TensorUint16,
        TensorKind::Uint64 => ExtensionType::TensorUint64,
        TensorKind::Float64 => ExtensionType::TensorFloat64,
        TensorKind::Complex64 => ExtensionType::TensorComplex64,
        _ => return None,
    })
}

impl Lower<'_, '_> {
    /// Lowers the operator to the operation of the extension.
    pub(crate) fn extension(&mut self) -> Lowered {
        let code = &self.import.file.codes[self.op.code];
        let builtin = code.builtin;
        let number = match builtin {
            Builtin::BidirectionalSequenceLstm | Builtin::BidirectionalSequenceRnn => {
                return self.bidirectional_on_the_fly(builtin);
            }
            Builtin::Lstm if self.op.inputs.len() == 5 => return self.basic_lstm_by_extension(),
            Builtin::Custom => code.custom.as_deref().and_then(custom::number),
            // 16-bit integers that stand for themselves wrap around, as STABLEHLO's do.
            Builtin::Add if self.is_of_plain_words(options::add::KIND)? => Some(163),
            Builtin::Mul if self.is_of_plain_words(options::mul::KIND)? => Some(165),
            builtin => u16::try_from(builtin.number()).ok(),
        };
        let about = number.and_then(tflite_extension::operation);
        let about = about.ok_or("the extension has no such operation")?;
        let mut inputs = Vec::new();
        let mut scalars = 0i32;
        let mut scales_of_blocks = None;
        for argument in 0..self.op.inputs.len() {
            let Some(index) = self.optional_tensor(argument) else {
                inputs.push(self.builder().omitted(OperandType::TensorFloat32, 1));
                continue;
            };
            let tensor = &self.import.graph.tensors[index];
            if tensor.is_scalar() && argument < 31 {
                scalars |= 1 << argument;
            }
            let has_blocks = matches!(builtin, Builtin::FullyConnected | Builtin::EmbeddingLookup)
                && argument == 1;
            if has_blocks && tensor.quantization.blockwise.is_some() {
                // Dense layers take blocks in whole words of the machine's dot products.
                let word = if builtin == Builtin::FullyConnected { 4 } else { 1 };
                let [integers, scales] = self.blockwise_integers(index, word)?;
                inputs.push(integers);
                scales_of_blocks = Some(scales);
                continue;
            }
            inputs.push(match self.compared_infinity(builtin, index)? {
                Some(zeros) => zeros,
                None => self.import.own_value(index)?,
            });
        }
        if let Some((argument, zeros)) = self.narrow_bias(builtin)? {
            inputs.truncate(argument);
            inputs.push(zeros);
        }
        if let Some(scales) = scales_of_blocks {
            if builtin == Builtin::FullyConnected && inputs.len() < 3 {
                inputs.push(self.builder().omitted(OperandType::TensorFloat32, 1));
            }
            inputs.push(scales);
        }
        if let Some(more) = self.list_option(builtin)? {
            inputs.truncate(1);
            inputs.push(more);
        }
        inputs.extend(self.lists(builtin)?);
        self.check_kinds(builtin, &inputs)?;
        inputs.extend(self.option_operands(about)?);
        inputs.push(self.builder().int(scalars));
        let is_open = inputs.iter().any(|&input| {
            let operand = self.import.builder.operand(input);
            let is_there = operand.lifetime != OperandLifeTime::NoValue;
            is_there && !operand.is_constant() && is_open(&operand.dimensions)
        });
        let is_open = is_open || self.has_open_shape(builtin) || self.takes_other_shapes();
        let mut outputs = (0..self.op.outputs.len())
            .map(|result| self.own_output(result, is_open))
            .collect::<Lowered<Vec<u32>>>()?;
        if matches!(builtin, Builtin::Svdf | Builtin::Rnn | Builtin::UnidirectionalSequenceRnn) {
            outputs.push(self.next_state(4)?);
        }
        if matches!(builtin, Builtin::Lstm | Builtin::UnidirectionalSequenceLstm) {
            for state in [lstm::OUTPUT_STATE, lstm::CELL_STATE] {
                outputs.push(self.next_state(state)?);
            }
        }
        let code = OperationType::Extension(ExtensionCode { prefix: PREFIX, number: about.number });
        if builtin == Builtin::ReduceProd && self.is_of_plain_integers()? {
            // Products wrap around, of more bits as of fewer.
            inputs[0] = self.import.cast(inputs[0], OperandType::TensorInt32);
            let dims = self.import.builder.dims(outputs[0]).to_vec();
            let wide = self.builder().temporary(OperandType::TensorInt32, dims);
            self.emit(code, &inputs, &[wide]);
            self.import.cast_into(wide, outputs[0]);
            return Ok(());
        }
        self.emit(code, &inputs, &outputs);
        Ok(())
    }

    /// A constant of an infinite scale, as converters make of an infinity: in comparisons it is 0,
    /// as in the interpreter, which finds no multiplier for it.
    fn compared_infinity(&mut self, builtin: Builtin, index: usize) -> Lowered<Option<u32>> {
        let compares = matches!(
            builtin,
            Builtin::Equal
                | Builtin::NotEqual
                | Builtin::Less
                | Builtin::LessEqual
                | Builtin::Greater
                | Builtin::GreaterEqual
        );
        let tensor = &self.import.graph.tensors[index];
        if !compares || tensor.quantization.scales != [f32::INFINITY] {
            return Ok(None);
        }
        let mut tensor = tensor.clone();
        tensor.quantization.scales = vec![f32::MIN_POSITIVE];
        let operand = operand_of(&tensor)?;
        self.import.constant_as(index, operand).map(Some)
    }

    /// The bias of a layer of 16-bit activations that has none, where its options say that sums
    /// have 32 bits, and which argument it is: without one they have 64.
    fn narrow_bias(&mut self, builtin: Builtin) -> Lowered<Option<(usize, u32)>> {
        const INT32: i8 = 2;
        use options::{conv_2d, fully_connected, transpose_conv};
        let (kind, field, input) = match builtin {
            Builtin::Conv2d => (conv_2d::KIND, conv_2d::BIAS_TYPE, 0),
            Builtin::FullyConnected => (fully_connected::KIND, fully_connected::BIAS_TYPE, 0),
            Builtin::TransposeConv => (transpose_conv::KIND, transpose_conv::BIAS_TYPE, 2),
            _ => return Ok(None),
        };
        let bias = input.max(1) + 1;
        let weights = self.tensor_index(1)?;
        let is_wanted = self.tensor(input)?.kind == TensorKind::Int16
            && !self.has(bias)
            && self.import.is_constant(weights)
            && self.options(kind)?.byte(field)? == INT32;
        let channels = self.tensor(1)?.shape.first().filter(|_| is_wanted);
        let Some(&channels) = channels else { return Ok(None) };
        let zeros = vec![0; usize::try_from(channels).unwrap_or(0)];
        Ok(Some((bias, self.builder().int_tensor(&zeros, vec![channels]))))
    }

    /// Returns whether the operator computes 16-bit integers that have no scales, and no
    /// activation.
    fn is_of_plain_words(&self, kind: OptionsKind) -> Lowered<bool> {
        let is_plain = |tensor: &Tensor| {
            tensor.kind == TensorKind::Int16 && tensor.quantization.scales.is_empty()
        };
        let inputs = (0..self.op.inputs.len()).map(|argument| self.tensor(argument));
        if !inputs.chain([self.output_tensor(0)]).all(|tensor| tensor.is_ok_and(is_plain)) {
            return Ok(false);
        }
        Ok(self.fused(self.options(kind)?.byte(options::add::ACTIVATION)?) == 0)
    }

    /// Returns whether the operator computes integers of 8 or 16 bits that have no scales.
    fn is_of_plain_integers(&self) -> Lowered<bool> {
        let [input, result] = [self.tensor(0)?, self.output_tensor(0)?];
        let is_short =
            matches!(input.kind, TensorKind::Int8 | TensorKind::Uint8 | TensorKind::Int16);
        let has_none = |tensor: &Tensor| tensor.quantization.scales.is_empty();
        Ok(is_short && has_none(input) && has_none(result))
    }

    /// Types that the kernels take beside each other only where TFLite does.
    fn check_kinds(&self, builtin: Builtin, inputs: &[u32]) -> Lowered {
        let has_filter =
            matches!(builtin, Builtin::Conv2d | Builtin::DepthwiseConv2d | Builtin::TransposeConv);
        let filter = inputs.get(1).filter(|_| has_filter);
        if filter.is_some_and(|&it| self.kind(it) == OperandType::TensorQuant16Symm) {
            return Err("a filter of 16 bits".into());
        }
        let kinds = inputs.iter().map(|&input| self.kind(input));
        if kinds.clone().any(|kind| kind == OperandType::TensorQuant16Asymm) {
            return Err("16-bit values with a zero point".into());
        }
        Ok(())
    }

    /// The list among an operator's options as a constant: the second input where it isn't given.
    fn list_option(&mut self, builtin: Builtin) -> Lowered<Option<u32>> {
        match builtin {
            Builtin::Reshape if !self.has(1) => {
                let options = self.options(options::reshape::KIND)?;
                let shape = options.ints(options::reshape::NEW_SHAPE)?;
                Ok(Some(self.builder().ints(&shape)))
            }
            Builtin::Squeeze => {
                const KIND: OptionsKind = OptionsKind::new(30, "SqueezeOptions");
                let axes =
                    self.options(KIND)?.ints(Field::new(0, "SqueezeOptions.squeeze_dims"))?;
                if axes.is_empty() {
                    return Ok(None);
                }
                Ok(Some(self.builder().ints(&axes)))
            }
            Builtin::Bucketize => {
                const KIND: OptionsKind = OptionsKind::new(115, "BucketizeOptions");
                let field = Field::new(0, "BucketizeOptions.boundaries");
                let bounds = self.options(KIND)?.floats(field)?;
                let dims = vec![u32::try_from(bounds.len()).unwrap_or(u32::MAX)];
                Ok(Some(self.builder().float_tensor(&bounds, dims)))
            }
            _ => Ok(None),
        }
    }

    /// The options as operands.
    pub(super) fn option_operands(
        &mut self,
        about: &tflite_extension::ExtensionOperation,
    ) -> Lowered<Vec<u32>> {
        if about.number >= tflite_extension::FIRST_CUSTOM {
            return self.custom_options(about);
        }
        let builtin = Builtin::from_code(i32::from(about.number));
        if stablehlo::has_own_options(builtin) {
            return self.own_options(builtin);
        }
        let Ok(at) = SLOTS.binary_search_by_key(&about.number, |&(number, ..)| number) else {
            return Ok(Vec::new());
        };
        let (_, union, slots) = SLOTS[at];
        let fields = self.options(OptionsKind::new(union, OPTION))?;
        let mut operands = Vec::new();
        for (&(slot, kind), option) in slots.iter().zip(about.options) {
            let field = Field::new(slot, OPTION);
            operands.push(match kind {
                Int(default) => {
                    let value = fields.int(field, default)?;
                    self.builder().int(value)
                }
                Byte => {
                    let code = fields.byte(field)?;
                    let value = if option.name == "activation" { self.fused(code) } else { code };
                    self.builder().int(i32::from(value))
                }
                Float => {
                    let value = fields.float(field)?;
                    self.builder().float(value)
                }
                Low => {
                    let value = low(fields.long(field)?);
                    self.builder().int(value)
                }
                Bool(default) => {
                    let value = fields.boolean(field, default)?;
                    self.builder().boolean(value)
                }
            });
        }
        Ok(operands)
    }

    /// The operand of a result in the file's own type. Where its shape is known only at run time,
    /// the file's signature says what stays.
    pub(super) fn own_output(&mut self, result: usize, is_open: bool) -> Lowered<u32> {
        let tensor = self.output_tensor(result)?;
        let mut operand = self.import.own_operand(tensor)?;
        if tensor.is_shape_open {
            operand.dimensions = self.inferred(result).unwrap_or_default();
        } else if let Some(dims) = self.instead_of_files(result) {
            operand.dimensions = dims;
        } else if operand.dimensions.is_empty() {
            let is_scalar = tensor.has_rank || self.is_result(result);
            let scalar = is_scalar.then(|| vec![1]);
            operand.dimensions = scalar.or_else(|| self.inferred(result)).unwrap_or_default();
        }
        if is_open && !tensor.is_shape_given && !tensor.is_shape_open {
            operand.dimensions = self.open_dims(result, &operand.dimensions);
        }
        let output = self.builder().add(operand);
        self.bind(result, output)?;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use nnburst_hal::tflite_extension::OptionType;

    use super::*;

    /// The operations that are no custom operators.
    fn builtins() -> impl Iterator<Item = &'static tflite_extension::ExtensionOperation> {
        let operations = tflite_extension::OPERATIONS.iter();
        operations.filter(|about| about.number < tflite_extension::FIRST_CUSTOM)
    }

    #[test]
    fn slots_are_those_of_the_operations() {
        assert!(SLOTS.is_sorted_by(|a, b| a.0 < b.0));
        let is_own =
            |number: u16| stablehlo::has_own_options(Builtin::from_code(i32::from(number)));
        for about in builtins().filter(|about| !is_own(about.number)) {
            let slots = SLOTS.iter().find(|(number, ..)| *number == about.number);
            let slots = slots.map_or(&[][..], |(.., slots)| slots);
            let kinds = slots.iter().map(|(_, slot)| match slot {
                Int(_) | Byte | Low => OptionType::Int,
                Float => OptionType::Float,
                Bool(_) => OptionType::Bool,
            });
            let wanted = about.options.iter().map(|option| option.kind);
            assert!(kinds.eq(wanted), "{}", about.name);
        }
    }

    #[test]
    fn numbers_are_those_of_the_schema() {
        for about in builtins() {
            assert_eq!(Builtin::from_code(i32::from(about.number)).name(), about.name);
        }
    }
}
