//! Extents of what is computed element by element.

use super::broadcast_dims;
use crate::lower::Lower;
use crate::schema::Builtin;

impl Lower<'_, '_> {
    /// The extents of the result of an operator whose elements are computed each by themselves, or
    /// which keeps the shape of its input for another reason; `None` for other operators.
    pub(in crate::lower) fn elementwise_dims(&self, builtin: Builtin) -> Option<Vec<u32>> {
        match builtin {
            Builtin::Add
            | Builtin::Sub
            | Builtin::Mul
            | Builtin::Div
            | Builtin::Maximum
            | Builtin::Minimum
            | Builtin::Pow
            | Builtin::FloorDiv
            | Builtin::FloorMod
            | Builtin::SquaredDifference
            | Builtin::Atan2
            | Builtin::BitwiseXor
            | Builtin::RightShift
            | Builtin::Less
            | Builtin::LessEqual
            | Builtin::Greater
            | Builtin::GreaterEqual
            | Builtin::Equal
            | Builtin::NotEqual
            | Builtin::LogicalAnd
            | Builtin::LogicalOr => self.broadcast_of(0, 1),
            Builtin::SelectV2 => {
                let (condition, values) = (self.dims(0)?, self.broadcast_of(1, 2)?);
                broadcast_dims(&condition, &values)
            }
            Builtin::Select => self.dims(1),
            Builtin::Prelu
            | Builtin::AddN
            | Builtin::Abs
            | Builtin::Neg
            | Builtin::Exp
            | Builtin::Log
            | Builtin::Sin
            | Builtin::Cos
            | Builtin::Sqrt
            | Builtin::Rsqrt
            | Builtin::Square
            | Builtin::Floor
            | Builtin::Ceil
            | Builtin::Round
            | Builtin::Sign
            | Builtin::Relu
            | Builtin::Relu6
            | Builtin::ReluN1To1
            | Builtin::Relu0To1
            | Builtin::LeakyRelu
            | Builtin::Elu
            | Builtin::Gelu
            | Builtin::HardSwish
            | Builtin::Logistic
            | Builtin::Tanh
            | Builtin::LogicalNot
            | Builtin::Softmax
            | Builtin::LogSoftmax
            | Builtin::L2Normalization
            | Builtin::LocalResponseNormalization
            | Builtin::Quantize
            | Builtin::Dequantize
            | Builtin::Cast
            | Builtin::Cumsum
            | Builtin::ReverseV2
            | Builtin::ReverseSequence
            | Builtin::ZerosLike
            | Builtin::ComplexAbs
            | Builtin::Real
            | Builtin::Imag
            | Builtin::DynamicUpdateSlice => self.dims(0),
            _ => None,
        }
    }
}
