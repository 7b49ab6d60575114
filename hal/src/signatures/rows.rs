//! The short names and the notation of the tables.

pub(super) use super::signature::{
    Condition, OperandRun, OperationInfo, Ranks, Signature, Trailing,
};
pub(super) use crate::types::{OperandType, OperationType, Version};

pub(super) const TF32: OperandType = OperandType::TensorFloat32;
pub(super) const TF16: OperandType = OperandType::TensorFloat16;
pub(super) const TI32: OperandType = OperandType::TensorInt32;
pub(super) const TQ8: OperandType = OperandType::TensorQuant8Asymm;
pub(super) const TQ8S: OperandType = OperandType::TensorQuant8AsymmSigned;
pub(super) const TQ8C: OperandType = OperandType::TensorQuant8SymmPerChannel;
pub(super) const TQ8Y: OperandType = OperandType::TensorQuant8Symm;
pub(super) const TQ16: OperandType = OperandType::TensorQuant16Asymm;
pub(super) const TQ16Y: OperandType = OperandType::TensorQuant16Symm;
pub(super) const TB8: OperandType = OperandType::TensorBool8;
pub(super) const F32: OperandType = OperandType::Float32;
pub(super) const F16: OperandType = OperandType::Float16;
pub(super) const I32: OperandType = OperandType::Int32;
pub(super) const BOOL: OperandType = OperandType::Bool;

/// Tensors are NCHW rather than NHWC.
pub(super) const LAYOUT: Trailing = Trailing { kinds: &[BOOL], since: Version::V1_2 };
/// Dilation of width and height.
pub(super) const DILATION: Trailing = Trailing { kinds: &[I32, I32], since: Version::V1_2 };
/// The dimension to work along.
pub(super) const AXIS: Trailing = Trailing { kinds: &[I32], since: Version::V1_2 };
/// The corners' centres are aligned.
pub(super) const ALIGN_CORNERS: Trailing = Trailing { kinds: &[BOOL], since: Version::V1_3 };
/// Pixel centres are at halves.
pub(super) const HALF_PIXEL: Trailing = Trailing { kinds: &[BOOL], since: Version::V1_3 };

/// Lengths of a run that varies.
pub(super) const ONE_OR_MORE: (usize, usize) = (1, usize::MAX);
/// As [`ONE_OR_MORE`], with none allowed.
pub(super) const ANY_NUMBER: (usize, usize) = (0, usize::MAX);

impl OperationInfo {
    /// A row without signatures or anything special.
    pub(super) const fn plain(kind: OperationType) -> Self {
        Self {
            kind,
            signatures: &[],
            omittable: &[],
            zero_sized: false,
            ranks: Ranks::Any,
            channel_dim: None,
        }
    }
}

/// The notation of the tables; [`super`] explains a line of it.
macro_rules! operations {
    (
        pub(super) static $table:ident;
        $($kind:ident { $($field:ident : $value:expr),* $(,)? } [ $(
            $since:ident : $($input:ident $(* $count:tt)?)+ $([ $($trailing:ident)+ ])?
                => $($output:ident $(* $out_count:tt)?)+ $(, $condition:ident)?;
        )* ];)+
    ) => {
        pub(super) static $table: &[OperationInfo] = &[$(OperationInfo {
            signatures: &[$(Signature {
                since: Version::$since,
                inputs: &[$(run!($input $(* $count)?)),+],
                trailing: &[$($($trailing),+)?],
                outputs: &[$(run!($output $(* $out_count)?)),+],
                condition: condition!($($condition)?),
            }),*],
            $($field: $value,)*
            ..OperationInfo::plain(OperationType::$kind)
        }),+];
    };
}

macro_rules! run {
    ($kind:ident) => {
        OperandRun { kind: $kind, least: 1, most: 1 }
    };
    ($kind:ident * $count:literal) => {
        OperandRun { kind: $kind, least: $count, most: $count }
    };
    ($kind:ident * $range:ident) => {
        OperandRun { kind: $kind, least: $range.0, most: $range.1 }
    };
}

macro_rules! condition {
    () => {
        None
    };
    ($condition:ident) => {
        Some(Condition::$condition)
    };
}

pub(super) use {condition, operations, run};
