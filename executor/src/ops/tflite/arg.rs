//! An operation of the extension being lowered: its tensors as TFLite sees them, and its options.

use std::ops::Deref;

use half::f16;
use nnburst_hal::tflite_extension::{self, ExtensionType};
use nnburst_hal::{ChannelQuant, OperandType};
use nnburst_kernels::kernels::byte_table::ByteTable;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::quant::activation_range;
use nnburst_kernels::tensor::{OpError, Shape};

use super::math::rational_tanh;
use crate::lowering::{Io, Label, Lowered, OpBuilder};
use crate::ops::support::{emit_each, plain};

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementKind {
    F32,
    F16,
    F64,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    Bool,
    /// Pairs of FLOAT32.
    C64,
}

impl ElementKind {
    /// The element type of an operand; `None` for scalars and types without arithmetic here.
    pub(super) fn of(kind: OperandType) -> Option<Self> {
        Some(match kind {
            OperandType::TensorFloat32 => Self::F32,
            OperandType::TensorFloat16 => Self::F16,
            OperandType::TensorInt32 => Self::I32,
            OperandType::TensorBool8 => Self::Bool,
            OperandType::TensorQuant8Asymm => Self::U8,
            OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorQuant8Symm
            | OperandType::TensorQuant8SymmPerChannel => Self::I8,
            OperandType::TensorQuant16Symm => Self::I16,
            kind => match ExtensionType::of_operand(kind)? {
                ExtensionType::TensorInt64 => Self::I64,
                ExtensionType::TensorUint32 => Self::U32,
                ExtensionType::TensorUint16 => Self::U16,
                ExtensionType::TensorUint64 => Self::U64,
                ExtensionType::TensorFloat64 => Self::F64,
                ExtensionType::TensorComplex64 => Self::C64,
            },
        })
    }

    /// Bytes of an element.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 | Self::C64 => 8,
        }
    }

    /// The least and greatest stored value of a quantised type.
    pub(super) fn range(self) -> (i32, i32) {
        match self {
            Self::I8 => (-128, 127),
            Self::U8 => (0, 255),
            Self::I16 => (-32768, 32767),
            _ => (i32::MIN, i32::MAX),
        }
    }
}

/// Instantiates an expression for the Rust type of a [`ElementKind`]; other kinds give the error.
macro_rules! by_kind {
    ($kind:expr, [$($variant:ident $rust:ty),*], $T:ident => $then:expr) => {
        match $kind {
            $(ElementKind::$variant => { type $T = $rust; $then })*
            other => return Err(super::arg::refused(0, other).into()),
        }
    };
}
pub(super) use by_kind;

/// The error of a type that the operation doesn't take.
pub(super) fn refused(index: usize, kind: ElementKind) -> OpError {
    OpError::input(index, format!("{kind:?} is not computed by this operation"))
}

/// A tensor of the operation.
#[derive(Clone, Debug)]
pub(super) struct Arg {
    pub(super) kind: ElementKind,
    /// As TFLite has it: without extents where it is a scalar.
    pub(super) shape: Shape,
    pub(super) scale: f32,
    pub(super) zero_point: i32,
    pub(super) channels: Option<ChannelQuant>,
}

impl Arg {
    /// The scales of `count` channels: each its own, or the one of the tensor.
    pub(super) fn scales(&self, count: usize) -> Result<Vec<f32>, OpError> {
        match &self.channels {
            None => Ok(vec![self.scale; count]),
            Some(channels) if channels.scales.len() == count => Ok(channels.scales.clone()),
            Some(channels) => {
                let scales = channels.scales.len();
                Err(OpError::rule(format!("{scales} scales for {count} channels")))
            }
        }
    }

    /// The stored values that a fused activation leaves of a quantised tensor.
    pub(super) fn activated(&self, activation: Activation) -> Result<(i32, i32), OpError> {
        use nnburst_hal::FusedActivation as Fused;
        let (min, max) = self.kind.range();
        let fused = match activation {
            Activation::None => Fused::None,
            Activation::Relu => Fused::Relu,
            Activation::ReluN1To1 => Fused::Relu1,
            Activation::Relu6 => Fused::Relu6,
            other => return Err(OpError::rule(format!("{other:?} is not fused with integers"))),
        };
        Ok(activation_range(fused, self.scale, self.zero_point, min, max))
    }

    /// Checks that another tensor is of the same type.
    pub(super) fn same_kind(&self, other: &Self) -> Result<(), OpError> {
        if self.kind == other.kind {
            Ok(())
        } else {
            Err(OpError::rule(format!("{:?} beside {:?}", other.kind, self.kind)))
        }
    }
}

/// A fused activation of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    None,
    Relu,
    ReluN1To1,
    Relu6,
    Tanh,
    SignBit,
}

impl Activation {
    /// The function on real numbers.
    pub(super) fn apply(self, x: f32) -> f32 {
        match self {
            Self::None => x,
            Self::Relu => x.max(0.0),
            Self::ReluN1To1 => x.clamp(-1.0, 1.0),
            Self::Relu6 => x.clamp(0.0, 6.0),
            Self::Tanh => rational_tanh(x),
            Self::SignBit => f32::from(u8::from(x.is_sign_negative())),
        }
    }

    /// Replaces real numbers by the function's.
    pub(super) fn apply_to(self, isa: Isa, values: &mut [f32]) {
        match self {
            // Each in a loop of its own, or none would be of vectors.
            Self::None => {}
            Self::Relu => isa.run(Each(values, |x: f32| x.max(0.0))),
            Self::Tanh => isa.run(Each(values, rational_tanh)),
            _ => values.iter_mut().for_each(|x| *x = self.apply(*x)),
        }
    }

    /// The range it leaves of real numbers.
    pub(super) fn real_range(self) -> (f32, f32) {
        match self {
            Self::Relu => (0.0, f32::INFINITY),
            Self::ReluN1To1 => (-1.0, 1.0),
            Self::Relu6 => (0.0, 6.0),
            _ => (f32::NEG_INFINITY, f32::INFINITY),
        }
    }

    /// Returns whether it is that range alone.
    pub(super) fn is_range(self) -> bool {
        !matches!(self, Self::Tanh | Self::SignBit)
    }
}

/// A function of each of some numbers.
struct Each<'a, F>(&'a mut [f32], F);

impl<F: Fn(f32) -> f32> Loop for Each<'_, F> {
    #[inline(always)]
    fn run(self) {
        let Self(values, of) = self;
        values.iter_mut().for_each(|x| *x = of(*x));
    }
}

/// The operation: [`OpBuilder`] with tensors and options told apart.
#[derive(Debug)]
pub(super) struct OperatorCall<'c, 'o> {
    op: &'c mut OpBuilder<'o>,
    tensors: usize,
    scalars: i32,
    name: &'static str,
}

impl<'o> Deref for OperatorCall<'_, 'o> {
    type Target = OpBuilder<'o>;

    fn deref(&self) -> &OpBuilder<'o> {
        self.op
    }
}

impl std::ops::DerefMut for OperatorCall<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.op
    }
}

impl<'c, 'o> OperatorCall<'c, 'o> {
    /// The operation of this number.
    pub(super) fn new(number: u16, op: &'c mut OpBuilder<'o>) -> Lowered<Self> {
        let about = tflite_extension::operation(number);
        let about =
            about.ok_or_else(|| OpError::rule(format!("there is no operation {number}")))?;
        let tensors = op.input_count().checked_sub(about.options.len() + 1);
        let tensors = tensors.ok_or_else(|| {
            let count = op.input_count();
            OpError::rule(format!("{} has {count} inputs, too few for its options", about.name))
        })?;
        let scalars = op.i32(op.input_count() - 1)?;
        Ok(Self { op, tensors, scalars, name: about.name })
    }

    /// The number of tensors, those left out included.
    pub(super) fn tensors(&self) -> usize {
        self.tensors
    }

    /// Returns whether a tensor is given.
    pub(super) fn has(&self, index: usize) -> bool {
        index < self.tensors && self.op.has_input(index)
    }

    /// A tensor that must be there.
    pub(super) fn arg(&self, index: usize) -> Result<Arg, OpError> {
        if index >= self.tensors {
            return Err(OpError::input(index, "is missing"));
        }
        let tensor = self.op.input(index)?;
        let kind = ElementKind::of(tensor.kind);
        let kind = kind.ok_or_else(|| OpError::input(index, format!("is {}", tensor.kind)))?;
        let is_scalar =
            index < 32 && self.scalars >> index & 1 == 1 && tensor.shape.elements() == 1;
        let shape = if is_scalar { Shape::default() } else { tensor.shape };
        let (scale, zero_point) = (tensor.scale, tensor.zero_point);
        Ok(Arg { kind, shape, scale, zero_point, channels: tensor.channel_quant })
    }

    /// A result as it is declared; its shape is not known yet.
    pub(super) fn result(&self, index: usize) -> Result<Arg, OpError> {
        let tensor = self.op.output(index)?;
        let kind = ElementKind::of(tensor.kind);
        let kind = kind.ok_or_else(|| OpError::output(index, format!("is {}", tensor.kind)))?;
        let (scale, zero_point) = (tensor.scale, tensor.zero_point);
        Ok(Arg { kind, shape: tensor.shape, scale, zero_point, channels: tensor.channel_quant })
    }

    /// Checks that an input is of this type and has one element.
    pub(super) fn one_element(&self, index: usize, kind: ElementKind) -> Result<(), OpError> {
        let arg = self.arg(index)?;
        if arg.kind == kind && arg.shape.elements() == 1 {
            return Ok(());
        }
        let what = format!("is {:?} of {:?}, not one {kind:?}", arg.kind, arg.shape);
        Err(OpError::input(index, what))
    }

    /// Checks that a result is of one of these types.
    pub(super) fn result_is(&self, index: usize, kinds: &[ElementKind]) -> Result<(), OpError> {
        let kind = self.result(index)?.kind;
        if kinds.contains(&kind) {
            return Ok(());
        }
        Err(OpError::output(index, format!("is {kind:?}, not one of {kinds:?}")))
    }

    /// States a result's shape, as TFLite has it.
    pub(super) fn set(&mut self, index: usize, extents: &[usize]) -> Result<Shape, OpError> {
        let shape = Shape::new(extents)?;
        let stored = if extents.is_empty() { Shape::new([1])? } else { shape.clone() };
        self.op.set_output(index, stored)?;
        Ok(shape)
    }

    /// Checks that a result is of an input's type and stands for the same numbers.
    pub(super) fn same(&self, input: &Arg, index: usize) -> Result<(), OpError> {
        let result = self.result(index)?;
        input.same_kind(&result)
    }

    /// An INT32 option.
    pub(super) fn int(&self, option: usize) -> Lowered<i32> {
        self.op.i32(self.tensors + option)
    }

    /// An INT32 option that is at least `least`.
    pub(super) fn count(&self, option: usize, least: usize) -> Lowered<usize> {
        self.op.extent(self.tensors + option, least)
    }

    /// A BOOL option.
    pub(super) fn flag(&self, option: usize) -> Lowered<bool> {
        self.op.bool(self.tensors + option)
    }

    /// A FLOAT32 option.
    pub(super) fn real(&self, option: usize) -> Lowered<f32> {
        self.op.f32(self.tensors + option)
    }

    /// The fused activation that an option names.
    pub(super) fn activation(&self, option: usize) -> Lowered<Activation> {
        Ok(match self.int(option)? {
            0 => Activation::None,
            1 => Activation::Relu,
            2 => Activation::ReluN1To1,
            3 => Activation::Relu6,
            4 => Activation::Tanh,
            5 => Activation::SignBit,
            code => return Err(OpError::rule(format!("there is no activation {code}")).into()),
        })
    }

    /// The integers of a tensor that shapes depend on; see [`OpBuilder::value`].
    pub(super) fn ints(&self, index: usize) -> Lowered<Vec<i64>> {
        let kind = self.arg(index)?.kind;
        let bytes = self.op.value(index)?;
        Ok(match kind {
            ElementKind::I32 => bytes.typed::<i32>().iter().map(|&x| i64::from(x)).collect(),
            ElementKind::I64 => bytes.typed::<i64>().to_vec(),
            ElementKind::I16 => bytes.typed::<i16>().iter().map(|&x| i64::from(x)).collect(),
            ElementKind::U32 => bytes.typed::<u32>().iter().map(|&x| i64::from(x)).collect(),
            kind => return Err(refused(index, kind).into()),
        })
    }

    /// The one integer of such a tensor.
    pub(super) fn one_int(&self, index: usize) -> Lowered<i64> {
        let ints = self.ints(index)?;
        ints.first().copied().ok_or_else(|| OpError::input(index, "has no element").into())
    }

    /// The one real number of a FLOAT32 or FLOAT16 tensor that shapes depend on.
    pub(super) fn one_real(&self, index: usize) -> Lowered<f32> {
        let kind = self.arg(index)?.kind;
        let bytes = self.op.value(index)?;
        let value = match kind {
            ElementKind::F32 => bytes.typed::<f32>().first().copied(),
            ElementKind::F16 => bytes.typed::<f16>().first().map(|x| x.to_f32()),
            kind => return Err(refused(index, kind).into()),
        };
        value.ok_or_else(|| OpError::input(index, "has no element").into())
    }

    /// An axis that a tensor's value names, below `rank`.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize, OpError> {
        let signed = i64::try_from(rank).unwrap_or(i64::MAX);
        let from_front = if axis < 0 { axis.saturating_add(signed) } else { axis };
        let found = usize::try_from(from_front).ok().filter(|&axis| axis < rank);
        found.ok_or_else(|| OpError::rule(format!("axis {axis} is not within rank {rank}")))
    }

    /// Adds a step of plain code over `elements` elements.
    pub(super) fn step(
        &mut self,
        shape: &Shape,
        run: impl Fn(Io<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let label = self.label(shape);
        self.op.emit(label, run);
    }

    /// Returns whether an input is there, the bias of so many outputs.
    ///
    /// # Errors
    /// It has other elements than as many floats.
    pub(super) fn has_float_bias(&self, index: usize, outputs: usize) -> Lowered<bool> {
        if !self.has(index) {
            return Ok(false);
        }
        let bias = self.arg(index)?;
        if bias.kind != ElementKind::F32 || bias.shape.elements() != outputs {
            return Err(OpError::input(index, "is no bias of floats").into());
        }
        Ok(true)
    }

    /// Adds a step that looks up each byte of the first input in a table.
    pub(super) fn look_up(&mut self, shape: &Shape, table: [u8; 256]) {
        let lookup = ByteTable::new(self.isa(), table);
        let label = Label { form: lookup.isa(), ..self.label(shape) };
        emit_each(self.op, label, move |from, to| lookup.compute(from, to));
        self.op.join_table(table);
    }

    /// The label of such a step.
    #[inline(never)]
    pub(super) fn label(&self, shape: &Shape) -> Label {
        let operations = u64::try_from(shape.elements()).unwrap_or(u64::MAX);
        plain(self.name, shape, operations)
    }
}

/// Extents as sizes.
pub(super) fn sizes(values: &[i64]) -> Result<Vec<usize>, OpError> {
    let size = |&value: &i64| {
        usize::try_from(value)
            .ok()
            .filter(|&size| u32::try_from(size).is_ok())
            .ok_or_else(|| OpError::rule(format!("{value} is no extent")))
    };
    values.iter().map(size).collect()
}
