//! Element by element: arithmetic, comparisons, functions, types.

use super::*;
use nnburst_hal::FusedActivation;

operations! {
    /// `a + b`; of extents that differ, one is 1 and is repeated.
    Add add(a: OperandId, b: OperandId) { activation: Activation = FusedActivation::None } => one;
    /// `a - b`, with extents as for [`ModelBuilder::add`].
    Sub sub(a: OperandId, b: OperandId) { activation: Activation = FusedActivation::None } => one;
    /// `a * b`, with extents as for [`ModelBuilder::add`].
    Mul mul(a: OperandId, b: OperandId) { activation: Activation = FusedActivation::None } => one;
    /// `a / b`, with extents as for [`ModelBuilder::add`].
    Div div(a: OperandId, b: OperandId) { activation: Activation = FusedActivation::None } => one;
    /// The greater of two, with extents as for [`ModelBuilder::add`].
    Maximum maximum(a: OperandId, b: OperandId) => one;
    /// The smaller of two, with extents as for [`ModelBuilder::add`].
    Minimum minimum(a: OperandId, b: OperandId) => one;
    /// `base` to the power of `exponent`, with extents as for [`ModelBuilder::add`].
    Pow pow(base: OperandId, exponent: OperandId) => one;
    /// `input` where it is positive, `alpha * input` elsewhere, with extents as for
    /// [`ModelBuilder::add`].
    Prelu prelu(input: OperandId, alpha: OperandId) => one;

    /// True if `a = b`, as BOOL8, with extents as for [`ModelBuilder::add`].
    Equal equal(a: OperandId, b: OperandId) => one;
    /// True if `a` and `b` differ, as [`ModelBuilder::equal`].
    NotEqual not_equal(a: OperandId, b: OperandId) => one;
    /// True if `a > b`, as [`ModelBuilder::equal`].
    Greater greater(a: OperandId, b: OperandId) => one;
    /// True if `a >= b`, as [`ModelBuilder::equal`].
    GreaterEqual greater_equal(a: OperandId, b: OperandId) => one;
    /// True if `a < b`, as [`ModelBuilder::equal`].
    Less less(a: OperandId, b: OperandId) => one;
    /// True if `a <= b`, as [`ModelBuilder::equal`].
    LessEqual less_equal(a: OperandId, b: OperandId) => one;
    /// True if both BOOL8 are true.
    LogicalAnd logical_and(a: OperandId, b: OperandId) => one;
    /// True if one of two BOOL8 is true.
    LogicalOr logical_or(a: OperandId, b: OperandId) => one;
    /// True if a BOOL8 is false.
    LogicalNot logical_not(a: OperandId) => one;
    /// From `if_true` where `condition`, a BOOL8 of the same shape, is true, from `if_false`
    /// elsewhere.
    Select select(condition: OperandId, if_true: OperandId, if_false: OperandId) => one;

    /// `|x|`.
    Abs abs(x: OperandId) => one;
    /// `e` to the power of `x`.
    Exp exp(x: OperandId) => one;
    /// The greatest integer that isn't above `x`.
    Floor floor(x: OperandId) => one;
    /// The natural logarithm.
    Log log(x: OperandId) => one;
    /// `-x`.
    Neg neg(x: OperandId) => one;
    /// `1 / sqrt(x)`.
    Rsqrt rsqrt(x: OperandId) => one;
    /// The sine of radians.
    Sin sin(x: OperandId) => one;
    /// The square root.
    Sqrt sqrt(x: OperandId) => one;

    /// `max(x, 0)`.
    Relu relu(x: OperandId) => one;
    /// `min(max(x, -1), 1)`.
    Relu1 relu1(x: OperandId) => one;
    /// `min(max(x, 0), 6)`.
    Relu6 relu6(x: OperandId) => one;
    /// `x` where it is positive, `alpha * (e^x - 1)` elsewhere.
    Elu elu(x: OperandId) {
        /// The limit for small `x`, negated.
        alpha: Float = 1.0,
    } => one;
    /// `x * min(max(x + 3, 0), 6) / 6`.
    HardSwish hard_swish(x: OperandId) => one;
    /// `1 / (1 + e^-x)`.
    Logistic logistic(x: OperandId) => one;
    /// The hyperbolic tangent.
    Tanh tanh(x: OperandId) => one;

    /// The same values in the type that `to` says.
    Cast cast(input: OperandId) => one;
    /// Real numbers in 8 bits: TENSOR_QUANT8_ASYMM, where `to` says nothing else, by the scale and
    /// zero point that `quantized` says.
    Quantize quantize(real: OperandId) => one;
    /// 8-bit values as the numbers that they stand for: FLOAT32, where `to` says nothing else.
    Dequantize dequantize(quantized_values: OperandId) => one;
}
