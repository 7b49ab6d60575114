//! The figures of a driver, and the work that each is about.

use nnburst_hal::{OperandType, PerformanceInfo};

/// The work that a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Operations whose first input is of this type.
    Operand(OperandType),
    /// Those on FLOAT32 in models that allow relaxed precision.
    RelaxedScalar,
    /// Those on TENSOR_FLOAT32 in models that allow relaxed precision.
    RelaxedTensor,
    /// IF.
    If,
    /// WHILE.
    While,
}

impl Work {
    /// All that is measured, every operand type among it but those without a meaning of their own.
    pub const ALL: [Self; 19] = [
        Self::Operand(OperandType::TensorFloat32),
        Self::RelaxedTensor,
        Self::Operand(OperandType::TensorFloat16),
        Self::Operand(OperandType::TensorQuant8Asymm),
        Self::Operand(OperandType::TensorQuant8AsymmSigned),
        Self::Operand(OperandType::TensorQuant8Symm),
        Self::Operand(OperandType::TensorQuant8SymmPerChannel),
        Self::Operand(OperandType::TensorQuant16Asymm),
        Self::Operand(OperandType::TensorQuant16Symm),
        Self::Operand(OperandType::TensorInt32),
        Self::Operand(OperandType::TensorBool8),
        Self::Operand(OperandType::Float32),
        Self::RelaxedScalar,
        Self::Operand(OperandType::Float16),
        Self::Operand(OperandType::Int32),
        Self::Operand(OperandType::Uint32),
        Self::Operand(OperandType::Bool),
        Self::If,
        Self::While,
    ];

    /// The name of the type or operation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operand(kind) => kind.name(),
            Self::RelaxedScalar => "RELAXED_FLOAT32",
            Self::RelaxedTensor => "RELAXED_TENSOR_FLOAT32",
            Self::If => "IF",
            Self::While => "WHILE",
        }
    }
}

/// The figures of the reference device.
pub(super) const ONE: PerformanceInfo = PerformanceInfo { exec_time: 1.0, power_usage: 1.0 };

/// Figures of a driver that were measured, in the order of [`Work::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured(pub(super) [PerformanceInfo; Work::ALL.len()]);

impl Measured {
    /// Every figure and what it is about.
    pub fn figures(&self) -> impl Iterator<Item = (Work, PerformanceInfo)> {
        Work::ALL.into_iter().zip(self.0)
    }

    /// The figure of some work; that of the reference device for what has no meaning that could be
    /// measured.
    pub fn of(&self, work: Work) -> PerformanceInfo {
        self.figures().find(|&(one, _)| one == work).map_or(ONE, |(_, info)| info)
    }
}
