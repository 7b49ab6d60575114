//! One operation on its way into the model: which signature it is, what its scalars and outputs are
//! of.
//!
//! The signatures are the tables of `hal`; shapes come from the executor's own rules, by compiling
//! the operation alone with its tensors as inputs. So a builder's method says nothing that is said
//! elsewhere already.

use half::f16;
use nnburst_executor::{CompileError, CompileOptions, Isa, OpError, Plan};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Place,
    ValidationError, operation_info,
};

use super::arguments::{BuilderArgument, Push};
use super::{COPIED_ALIGNMENT, ModelBuilder, OperandId};

/// The arguments of an operation, each with the name that it goes by.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    list: Vec<BuilderArgument>,
    names: Vec<&'static str>,
    /// The number of arguments up to the last that is not left to its default.
    keep: usize,
}

impl Arguments {
    pub(super) fn push(&mut self, name: &'static str, value: impl Push) {
        value.push(&mut self.list);
        self.names.resize(self.list.len(), name);
        self.keep = self.list.len();
    }

    /// One of those that may be missing at the end of the list.
    pub(super) fn push_trailing<T: Push>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        default: impl FnOnce() -> T,
    ) {
        let keep = value.is_none().then_some(self.keep);
        self.push(name, value.unwrap_or_else(default));
        self.keep = keep.unwrap_or(self.keep);
    }

    fn name(&self, at: usize) -> &'static str {
        self.names.get(at).copied().unwrap_or("argument")
    }
}

/// The caller's declarations of outputs.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Type of the first output.
    pub(super) kind: Option<OperandType>,
    /// Quantisation of the first output.
    pub(super) quantization: Option<(f32, i32)>,
    /// Whole outputs, by position.
    pub(super) outputs: Vec<(usize, Operand)>,
}

impl ModelBuilder {
    /// Adds an operation and gives its outputs. What is wrong is told by [`ModelBuilder::build`].
    pub(super) fn call(
        &mut self,
        kind: OperationType,
        mut arguments: Arguments,
        outputs: usize,
        told: &Told,
    ) -> Vec<OperandId> {
        arguments.list.truncate(arguments.keep);
        let Some((inputs, output_kinds)) = self.choose(kind, &arguments, outputs, told) else {
            return (0..outputs).map(|_| self.unknown()).collect();
        };
        let ids: Vec<_> = std::iter::zip(arguments.list.iter().cloned(), inputs)
            .map(|(argument, kind)| self.materialise(argument, kind))
            .collect();
        let mut results = Vec::new();
        for (at, of) in output_kinds.into_iter().enumerate() {
            results.push(self.declare(kind, at, of, &ids, told));
        }
        if self.broken.is_none() {
            self.infer_shapes(kind, &arguments, &ids, &mut results);
        }
        self.operation_with_outputs(kind, &ids, results)
    }

    /// The types of inputs and outputs by the signature that fits.
    fn choose(
        &mut self,
        kind: OperationType,
        arguments: &Arguments,
        outputs: usize,
        told: &Told,
    ) -> Option<(Vec<OperandType>, Vec<OperandType>)> {
        let count = arguments.list.len();
        let first = told.kind.or_else(|| {
            told.outputs.iter().find(|(at, _)| *at == 0).map(|(_, operand)| operand.kind)
        });
        if kind == OperationType::Cast && first.is_none() {
            self.breaks_at(kind, "what to cast to is not said: `to` does");
            return None;
        }
        // How far the best signature goes along with what is given, and what those want next.
        let (mut furthest, mut wanted) = (0, Vec::new());
        for signature in operation_info(kind).map_or(&[][..], |info| info.signatures) {
            let Some(inputs) = signature.input_types(count) else { continue };
            let fits = std::iter::zip(&arguments.list, &inputs)
                .position(|(argument, &kind)| !argument.can_be(kind, |id| self.kind_of(id)));
            let Some(stops) = fits else {
                let Some(results) = signature.output_types(outputs) else { continue };
                if first.is_none_or(|kind| results.first() == Some(&kind)) {
                    return Some((inputs, results));
                }
                continue;
            };
            if stops > furthest {
                (furthest, wanted) = (stops, Vec::new());
            }
            if stops == furthest && !wanted.contains(&inputs[stops]) {
                wanted.push(inputs[stops]);
            }
        }
        let what = match arguments.list.get(furthest) {
            Some(argument) if !wanted.is_empty() => {
                let wanted: Vec<_> = wanted.iter().map(|kind| kind.name()).collect();
                let (name, given) = (arguments.name(furthest), self.describe(argument));
                format!(
                    "{name} (input {furthest}) is {given}; it has to be {}",
                    wanted.join(" or ")
                )
            }
            _ => match first {
                Some(first) => format!("gives no {first} from what it is given"),
                None => format!("takes no {count} arguments for {outputs} outputs"),
            },
        };
        self.breaks_at(kind, &what);
        None
    }

    fn describe(&self, argument: &BuilderArgument) -> String {
        match argument {
            BuilderArgument::Operand(id) => {
                let kind = self.kind_of(*id);
                kind.map_or_else(|| self.whose(*id).into(), |kind| kind.name().to_string())
            }
            BuilderArgument::I32(_) => "an integer".into(),
            BuilderArgument::F32(_) => "a float".into(),
            BuilderArgument::Flag(_) => "a flag".into(),
            BuilderArgument::I32s { .. } => "a list of integers".into(),
            BuilderArgument::Omitted => "left out".into(),
        }
    }

    /// The operand of an argument, made where it is a constant.
    fn materialise(&mut self, argument: BuilderArgument, kind: OperandType) -> OperandId {
        let scalar = Operand::scalar(kind);
        match (argument, kind) {
            (BuilderArgument::Operand(id), _) => id,
            (BuilderArgument::I32(value), _) => self.constant(scalar, &value.to_le_bytes()),
            (BuilderArgument::F32(value), OperandType::Float16) => {
                self.constant(scalar, &f16::from_f32(value).to_le_bytes())
            }
            (BuilderArgument::F32(value), _) => self.constant(scalar, &value.to_le_bytes()),
            (BuilderArgument::Flag(value), OperandType::Int32) => {
                self.constant(scalar, &i32::from(value).to_le_bytes())
            }
            (BuilderArgument::Flag(value), _) => self.constant(scalar, &[u8::from(value)]),
            (BuilderArgument::I32s { values, dimensions }, _) => {
                self.constant_of(Operand::tensor(kind, dimensions), &values)
            }
            (BuilderArgument::Omitted, _) => self.omitted(kind),
        }
    }

    /// An output with all that is known of it but its shape.
    fn declare(
        &mut self,
        operation: OperationType,
        at: usize,
        kind: OperandType,
        inputs: &[OperandId],
        told: &Told,
    ) -> Operand {
        if let Some((_, operand)) = told.outputs.iter().find(|(of, _)| *of == at) {
            return operand.clone();
        }
        let output = Operand::tensor(kind, Vec::new());
        let quantization = match told.quantization {
            Some(told) if at == 0 => Some(told),
            _ => match quantization(operation, at, kind) {
                Quantization::Is(scale, zero_point) => Some((scale, zero_point)),
                Quantization::OfInput(input) => inputs
                    .get(input)
                    .and_then(|&id| self.operand(id))
                    .filter(|operand| operand.scale > 0.0)
                    .map(|operand| (operand.scale, operand.zero_point)),
                Quantization::Free => None,
            },
        };
        match (is_quantized(kind), quantization) {
            (true, Some((scale, zero_point))) => output.with_quantization(scale, zero_point),
            (true, None) => {
                let what = format!(
                    "output {at} is {kind}, whose scale and zero point don't follow from the inputs: `quantized` says them"
                );
                self.breaks_at(operation, &what);
                output
            }
            (false, _) => output,
        }
    }

    /// Fills in the outputs' shapes where those of the inputs are known.
    fn infer_shapes(
        &mut self,
        kind: OperationType,
        arguments: &Arguments,
        inputs: &[OperandId],
        outputs: &mut [Operand],
    ) {
        let Some(model) = self.alone(kind, inputs, outputs) else { return };
        // Shapes don't depend on kernels, so the machine and its settings play no part.
        let options = CompileOptions { isa: Some(Isa::Scalar), ..CompileOptions::default() };
        match Plan::compile(&model, &options) {
            Ok(plan) => {
                for (at, dimensions) in plan.known_outputs() {
                    let tensor = outputs.get_mut(at).filter(|output| !output.kind.is_scalar());
                    if let Some(output) = tensor {
                        output.dimensions = dimensions.to_vec();
                    }
                }
            }
            Err(error) => {
                let what = told_by_name(&error, arguments, inputs.len());
                self.breaks_at(kind, &what);
            }
        }
    }

    /// A model of one operation: small constants are its own, everything else comes in. `None`
    /// where the shape of something that comes in is open.
    fn alone(
        &self,
        kind: OperationType,
        inputs: &[OperandId],
        outputs: &[Operand],
    ) -> Option<Model> {
        let mut model = Model::default();
        let mut operation = Operation { kind, inputs: Vec::new(), outputs: Vec::new() };
        let main = &mut model.main;
        let index = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        for &id in inputs {
            let mut operand = self.operand(id)?.clone();
            operand.number_of_consumers = 1;
            match operand.lifetime {
                OperandLifeTime::NoValue => {}
                OperandLifeTime::ConstantCopy => {
                    let values = &mut model.operand_values;
                    values.resize(values.len().next_multiple_of(COPIED_ALIGNMENT), 0);
                    let offset = index(values.len());
                    values.extend_from_slice(self.copied(&operand)?);
                    operand.location.offset = offset;
                }
                _ if operand.has_unspecified_dimensions() => return None,
                _ => {
                    operand.lifetime = OperandLifeTime::SubgraphInput;
                    operand.location = DataLocation::default();
                    main.input_indexes.push(index(main.operands.len()));
                }
            }
            operation.inputs.push(index(main.operands.len()));
            main.operands.push(operand);
        }
        for output in outputs {
            operation.outputs.push(index(main.operands.len()));
            main.output_indexes.push(index(main.operands.len()));
            main.operands.push(output.clone().with_lifetime(OperandLifeTime::SubgraphOutput));
        }
        main.operations.push(operation);
        Some(model)
    }
}

/// Describes the error of an operation that was compiled alone, its arguments by their names.
/// Operands of that model are the inputs and then the outputs.
fn told_by_name(error: &CompileError, arguments: &Arguments, inputs: usize) -> String {
    let (at, what) = match error {
        CompileError::Operation { error: OpError::Input { index, what }, .. } => {
            (*index, what.clone())
        }
        CompileError::Operation { error, .. } => return error.to_string(),
        CompileError::Invalid(ValidationError { place: Place::Operand { index, .. }, rule }) => {
            (*index, rule.to_string())
        }
        CompileError::Invalid(ValidationError { rule, .. }) => return rule.to_string(),
        error => return error.to_string(),
    };
    match at.checked_sub(inputs) {
        Some(output) => format!("output {output}: {what}"),
        None => format!("{} (input {at}): {what}", arguments.name(at)),
    }
}

/// The source of an output's scale and zero point.
enum Quantization {
    /// Fixed by the interface.
    Is(f32, i32),
    /// The same as an input's.
    OfInput(usize),
    /// Whatever the model says.
    Free,
}

/// The interface's rules.
fn quantization(operation: OperationType, output: usize, kind: OperandType) -> Quantization {
    use OperationType as Op;
    use Quantization::{Free, Is, OfInput};
    /// Of coordinates in eighths of a pixel.
    const BOXES: Quantization = Is(0.125, 0);
    let signed = kind == OperandType::TensorQuant8AsymmSigned;
    match (operation, output) {
        (Op::Softmax | Op::Logistic, _) => Is(1.0 / 256.0, if signed { -128 } else { 0 }),
        (Op::Tanh | Op::L2Normalization, _) => Is(1.0 / 128.0, if signed { 0 } else { 128 }),
        (Op::Quantized16bitLstm, 0) => Is(1.0 / 2048.0, 0),
        (Op::Quantized16bitLstm, _) => Is(1.0 / 128.0, 128),
        (Op::QuantizedLstm, 1) => OfInput(19),
        (Op::QuantizedLstm, _) => OfInput(18),
        (Op::HashtableLookup, 1) => Is(1.0, 0),
        (Op::HashtableLookup, _) => OfInput(2),
        (Op::EmbeddingLookup | Op::Select, _) => OfInput(1),
        (Op::AxisAlignedBboxTransform, _)
        | (Op::BoxWithNmsLimit | Op::GenerateProposals | Op::HeatmapMaxKeypoint, 1) => BOXES,
        (
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Conv2d
            | Op::DepthwiseConv2d
            | Op::GroupedConv2d
            | Op::TransposeConv2d
            | Op::FullyConnected
            | Op::Quantize
            | Op::Prelu
            | Op::HardSwish
            | Op::RoiAlign
            | Op::HeatmapMaxKeypoint,
            _,
        ) => Free,
        _ => OfInput(0),
    }
}

pub(super) fn is_quantized(kind: OperandType) -> bool {
    matches!(
        kind,
        OperandType::TensorQuant8Asymm
            | OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorQuant8Symm
            | OperandType::TensorQuant16Asymm
            | OperandType::TensorQuant16Symm
    )
}
