//! The arguments of operations beside tensors: numbers, lists, sizes, paddings.
//!
//! Each is a type that values convert into, so that `2`, `(2, 1)`, `[1, -1]` or an operand that
//! holds the value can stand where one is asked for. What NNAPI spreads over several arguments (a
//! stride in two directions, a padding of one or four numbers, the gates of an LSTM) is one value
//! here and can't be given by half or in the wrong order.

use nnburst_hal::{FusedActivation, OperandType};

use super::OperandId;

/// One argument of the interface, its operand not made yet where it is a constant.
#[derive(Clone, Debug)]
pub(super) enum BuilderArgument {
    Operand(OperandId),
    I32(i32),
    F32(f32),
    /// BOOL, or INT32 where the signature has flags as numbers.
    Flag(bool),
    /// A tensor of INT32.
    I32s {
        values: Vec<i32>,
        dimensions: Vec<u32>,
    },
    Omitted,
}

impl BuilderArgument {
    /// Returns whether it can be of this type; operands are looked up.
    pub(super) fn can_be(
        &self,
        kind: OperandType,
        kind_of: impl Fn(OperandId) -> Option<OperandType>,
    ) -> bool {
        match self {
            Self::Operand(id) => kind_of(*id) == Some(kind),
            Self::I32(_) => kind == OperandType::Int32,
            Self::F32(_) => matches!(kind, OperandType::Float32 | OperandType::Float16),
            Self::Flag(_) => matches!(kind, OperandType::Bool | OperandType::Int32),
            Self::I32s { .. } => kind == OperandType::TensorInt32,
            Self::Omitted => true,
        }
    }
}

/// Values that become arguments.
pub(super) trait Push {
    /// Adds the arguments, in the interface's order.
    fn push(self, to: &mut Vec<BuilderArgument>);
}

impl Push for OperandId {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(BuilderArgument::Operand(self));
    }
}

impl Push for bool {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(BuilderArgument::Flag(self));
    }
}

impl Push for i32 {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(BuilderArgument::I32(self));
    }
}

/// Types that are one argument.
macro_rules! one_argument {
    ($($(#[$doc:meta])* $name:ident { $($from:ty: $value:ident => $argument:expr;)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(BuilderArgument);

        impl Push for $name {
            fn push(self, to: &mut Vec<BuilderArgument>) {
                to.push(self.0);
            }
        }

        impl From<OperandId> for $name {
            fn from(id: OperandId) -> Self {
                Self(BuilderArgument::Operand(id))
            }
        }

        $(impl From<$from> for $name {
            fn from($value: $from) -> Self {
                Self($argument)
            }
        })*
    )* };
}

one_argument! {
    /// An INT32 scalar: a number, or an operand that holds one.
    Int { i32: value => BuilderArgument::I32(value); }
    /// A floating-point scalar of the type that the operation takes with its tensors, FLOAT32 or
    /// FLOAT16: a number, or an operand that holds one.
    Float { f32: value => BuilderArgument::F32(value); }
    /// A scalar of the kind that goes with the tensors: `f32` for those of floats, `i32` for the
    /// others.
    Number {
        i32: value => BuilderArgument::I32(value);
        f32: value => BuilderArgument::F32(value);
    }
    /// A BOOL scalar: `true` or `false`, or an operand that holds one.
    Flag { bool: value => BuilderArgument::Flag(value); }
    /// A fused activation, or an operand that holds its code.
    Activation { FusedActivation: value => BuilderArgument::I32(value.code()); }
    /// A tensor that may be left out.
    MaybeTensor { Option<OperandId>: id => id.map_or(BuilderArgument::Omitted, BuilderArgument::Operand); }
}

/// Tensors in a row, as many as there are.
#[derive(Clone, Debug)]
pub struct Tensors(Vec<OperandId>);

impl From<&[OperandId]> for Tensors {
    fn from(ids: &[OperandId]) -> Self {
        Self(ids.to_vec())
    }
}

impl From<Vec<OperandId>> for Tensors {
    fn from(ids: Vec<OperandId>) -> Self {
        Self(ids)
    }
}

impl<const N: usize> From<[OperandId; N]> for Tensors {
    fn from(ids: [OperandId; N]) -> Self {
        Self(ids.to_vec())
    }
}

impl Push for Tensors {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend(self.0.into_iter().map(BuilderArgument::Operand));
    }
}

/// A vector of INT32: the numbers, or an operand that holds them.
#[derive(Clone, Debug)]
pub struct Ints(BuilderArgument);

impl From<OperandId> for Ints {
    fn from(id: OperandId) -> Self {
        Self(BuilderArgument::Operand(id))
    }
}

impl From<&[i32]> for Ints {
    fn from(values: &[i32]) -> Self {
        let extent = u32::try_from(values.len()).unwrap_or(u32::MAX);
        Self(BuilderArgument::I32s { values: values.to_vec(), dimensions: vec![extent] })
    }
}

impl From<Vec<i32>> for Ints {
    fn from(values: Vec<i32>) -> Self {
        values.as_slice().into()
    }
}

impl<const N: usize> From<[i32; N]> for Ints {
    fn from(values: [i32; N]) -> Self {
        values.as_slice().into()
    }
}

impl Push for Ints {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(self.0);
    }
}

/// A vector of INT32 that may be left out.
#[derive(Clone, Debug)]
pub struct MaybeInts(Option<Ints>);

impl From<Option<Ints>> for MaybeInts {
    fn from(values: Option<Ints>) -> Self {
        Self(values)
    }
}

impl<const N: usize> From<[i32; N]> for MaybeInts {
    fn from(values: [i32; N]) -> Self {
        Self(Some(values.into()))
    }
}

impl From<&[i32]> for MaybeInts {
    fn from(values: &[i32]) -> Self {
        Self(Some(values.into()))
    }
}

impl From<OperandId> for MaybeInts {
    fn from(id: OperandId) -> Self {
        Self(Some(id.into()))
    }
}

impl Push for MaybeInts {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        match self.0 {
            Some(values) => values.push(to),
            None => to.push(BuilderArgument::Omitted),
        }
    }
}

/// Pairs of INT32, such as what to pad before and behind each dimension: the pairs, or an operand
/// of shape `[n, 2]`.
#[derive(Clone, Debug)]
pub struct Pairs(BuilderArgument);

impl From<OperandId> for Pairs {
    fn from(id: OperandId) -> Self {
        Self(BuilderArgument::Operand(id))
    }
}

impl From<&[[i32; 2]]> for Pairs {
    fn from(pairs: &[[i32; 2]]) -> Self {
        let rows = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        Self(BuilderArgument::I32s {
            values: pairs.as_flattened().to_vec(),
            dimensions: vec![rows, 2],
        })
    }
}

impl<const N: usize> From<[[i32; 2]; N]> for Pairs {
    fn from(pairs: [[i32; 2]; N]) -> Self {
        pairs.as_slice().into()
    }
}

impl Push for Pairs {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(self.0);
    }
}

/// Two numbers, for the directions of a picture: one for both, or `(width, height)`, in this order
/// everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Across.
    pub width: i32,
    /// Down.
    pub height: i32,
}

impl From<i32> for Size {
    fn from(both: i32) -> Self {
        Self { width: both, height: both }
    }
}

impl From<(i32, i32)> for Size {
    fn from((width, height): (i32, i32)) -> Self {
        Self { width, height }
    }
}

impl Push for Size {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend([BuilderArgument::I32(self.width), BuilderArgument::I32(self.height)]);
    }
}

/// As [`Size`], for operations that take the height first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeightFirst(Size);

impl<T: Into<Size>> From<T> for HeightFirst {
    fn from(size: T) -> Self {
        Self(size.into())
    }
}

impl Push for HeightFirst {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend([BuilderArgument::I32(self.0.height), BuilderArgument::I32(self.0.width)]);
    }
}

/// Two ratios for the directions of a picture: one for both, or `(width, height)`. The operations
/// take the height first; nobody who gives them needs to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Across.
    pub width: f32,
    /// Down.
    pub height: f32,
}

impl From<f32> for Ratio {
    fn from(both: f32) -> Self {
        Self { width: both, height: both }
    }
}

impl From<(f32, f32)> for Ratio {
    fn from((width, height): (f32, f32)) -> Self {
        Self { width, height }
    }
}

impl Push for Ratio {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend([BuilderArgument::F32(self.height), BuilderArgument::F32(self.width)]);
    }
}

/// To what size a picture is brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resize {
    /// So many pixels.
    To(Size),
    /// So many times its own width and height.
    By {
        /// Across.
        width: f32,
        /// Down.
        height: f32,
    },
}

impl From<i32> for Resize {
    fn from(both: i32) -> Self {
        Self::To(both.into())
    }
}

impl From<(i32, i32)> for Resize {
    fn from(size: (i32, i32)) -> Self {
        Self::To(size.into())
    }
}

impl From<f32> for Resize {
    fn from(both: f32) -> Self {
        Self::By { width: both, height: both }
    }
}

impl Push for Resize {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        match self {
            Self::To(size) => size.push(to),
            Self::By { width, height } => {
                to.extend([BuilderArgument::F32(width), BuilderArgument::F32(height)]);
            }
        }
    }
}

/// The padding around a picture, so that a window fits at its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// As much as it takes for an output of `input / stride`, rounded up.
    Same,
    /// Nothing: windows that don't fit are left out.
    Valid,
    /// So many pixels on each side.
    Explicit {
        /// Before the first column.
        left: i32,
        /// Behind the last column.
        right: i32,
        /// Above the first row.
        top: i32,
        /// Below the last row.
        bottom: i32,
    },
}

/// The codes of the interface.
const SAME: i32 = 1;
const VALID: i32 = 2;

impl Push for Padding {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        match self {
            Self::Same => to.push(BuilderArgument::I32(SAME)),
            Self::Valid => to.push(BuilderArgument::I32(VALID)),
            Self::Explicit { left, right, top, bottom } => {
                to.extend([left, right, top, bottom].map(BuilderArgument::I32));
            }
        }
    }
}

/// The part that a transposed convolution leaves out at the edges, which decides the size of its
/// output.
#[derive(Clone, Debug)]
pub enum TransposePadding {
    /// As a convolution with [`Padding::Same`] from a picture of this shape would have had.
    Same(Ints),
    /// As a convolution with [`Padding::Valid`] from a picture of this shape would have had.
    Valid(Ints),
    /// So many pixels on each side.
    Explicit {
        /// Before the first column.
        left: i32,
        /// Behind the last column.
        right: i32,
        /// Above the first row.
        top: i32,
        /// Below the last row.
        bottom: i32,
    },
}

impl Push for TransposePadding {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        match self {
            Self::Same(shape) => {
                shape.push(to);
                Padding::Same.push(to);
            }
            Self::Valid(shape) => {
                shape.push(to);
                Padding::Valid.push(to);
            }
            Self::Explicit { left, right, top, bottom } => {
                Padding::Explicit { left, right, top, bottom }.push(to);
            }
        }
    }
}

/// The kind of an LSH_PROJECTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// One element for each bit of each hash; inputs count by a vector of weights.
    Dense {
        /// One for each input, of the type of the hashes.
        weight: OperandId,
    },
    /// One number for each hash, each in a range of its own.
    Sparse,
    /// One number for each hash, all in the same range; the interface advises against it.
    SparseDeprecated,
}

impl Push for Projection {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        let (weight, code) = match self {
            Self::SparseDeprecated => (BuilderArgument::Omitted, 1),
            Self::Dense { weight } => (BuilderArgument::Operand(weight), 2),
            Self::Sparse => (BuilderArgument::Omitted, 3),
        };
        to.extend([weight, BuilderArgument::I32(code)]);
    }
}

/// The rule by which BOX_WITH_NMS_LIMIT lowers the scores of boxes that overlap a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NmsKernel {
    /// To nothing, from the threshold on.
    Hard,
    /// By the share that overlaps, from the threshold on.
    Linear,
    /// By a Gaussian of the share that overlaps.
    Gaussian,
}

impl Push for NmsKernel {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(BuilderArgument::I32(match self {
            Self::Hard => 0,
            Self::Linear => 1,
            Self::Gaussian => 2,
        }));
    }
}
