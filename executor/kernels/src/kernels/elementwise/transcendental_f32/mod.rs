//! The logistic function, the hyperbolic tangent, the exponential, ELU, GELU, the logarithm and
//! the sine of rows of floats.
//!
//! The first four come from `q = exp(r) - 1` on half a binary order around 0 and a power of two:
//! the polynomial for `q` keeps its relative precision down to 0, so that `tanh` needs no second
//! branch near 0. Every variant computes the same in the same order: the same bits, within 4 units
//! in the last place of the true value, GELU within 5e-7 of it times its argument.

pub(super) mod scalar;
pub(super) mod vectors;

use self::vectors::{
    Elu, Exp, FunctionRows, Gelu, GeluByTanh, Log, Sigmoid, SigmoidByTable, Sin, Tanh,
};
use crate::simd::vector_f32::PowerTable;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out};

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The same with the bits of TFLite's interpreter and the exponential of its C library, which
    /// is computed in doubles, by a table.
    SigmoidByTable,
    /// Hyperbolic tangent.
    Tanh,
    /// Exponential.
    Exp,
    /// `x`, or `exp(x) - 1` where that is negative.
    Elu,
    /// `x` times the share of a normal distribution that is below it.
    Gelu,
    /// The same by an approximation with the hyperbolic tangent.
    GeluByTanh,
    /// Natural logarithm: negative infinity of 0, and NaN of negative numbers.
    Log,
    /// Sine of radians.
    Sin,
}

/// A row and where its results go: the same place, or one that doesn't overlap; at any alignment.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    input: *const f32,
    output: *mut f32,
    len: usize,
}

/// # Safety
/// `len` floats are readable at the row's input and writable at its output; the machine has the
/// instruction set.
pub type Run = unsafe fn(&Row);

/// Best first.
pub const fn variants(function: Function) -> Variants<Run> {
    match function {
        Function::Sigmoid => variants!(FunctionRows<Sigmoid>, scalar::sigmoid),
        Function::SigmoidByTable => {
            variants!(FunctionRows<SigmoidByTable>, scalar::sigmoid_by_table)
        }
        Function::Tanh => variants!(FunctionRows<Tanh>, scalar::tanh),
        Function::Exp => variants!(FunctionRows<Exp>, scalar::exp),
        Function::Elu => variants!(FunctionRows<Elu>, scalar::elu),
        Function::Gelu => variants!(FunctionRows<Gelu>, scalar::gelu),
        Function::GeluByTanh => variants!(FunctionRows<GeluByTanh>, scalar::gelu_by_tanh),
        Function::Log => variants!(FunctionRows<Log>, scalar::log),
        Function::Sin => variants!(FunctionRows<Sin>, scalar::sin),
    }
}

/// A function in its best variant.
#[derive(Clone, Copy, Debug)]
pub struct Map(Variant<Run>);

impl Map {
    /// Takes the best variant up to `isa`.
    pub fn new(isa: Isa, function: Function) -> Self {
        Self(variants(function).best(isa))
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.0.isa
    }

    /// The function of as many elements as both have.
    pub fn compute(self, input: In<'_, f32>, output: Out<'_, f32>) {
        let len = input.len().min(output.len());
        let row = Row { input: input.as_ptr(), output: output.as_mut_ptr(), len };
        // SAFETY: lengths as checked; an input that overlaps its output is the whole of it, as
        // tensors are; `best` chose what the machine has.
        unsafe { (self.0.run)(&row) };
    }

    /// The function of each element, in place.
    pub fn apply(self, values: &mut [f32]) {
        let output = values.as_mut_ptr();
        // SAFETY: the slice, in place; `best` chose what the machine has.
        unsafe { (self.0.run)(&Row { input: output, output, len: values.len() }) };
    }
}

/// `log2(e)`.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln(2)` in two parts; the first has so few bits that its small multiples are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// `(exp(r) - 1 - r) / r^2` for |r| up to half of `ln(2)`: fitted for the least relative error of
/// `exp(r) - 1`, which is 1.4e-8.
const EXP_M1: [f32; 5] = [0.499_999_97, 0.166_665_43, 0.041_667_2, 0.008_366_581, 0.001_388_251];
/// Added to a float that is far smaller, and taken off again, it leaves the nearest integer.
const FLOAT_TO_INTEGER: f32 = 12_582_912.0;
/// Below and above these `exp` is 0 or infinite.
const EXP_RANGE: (f32, f32) = (-104.0, 89.0);
/// Below it `exp` is no normal number. Beside a 1 such a number counts for nothing, yet to make one
/// takes Intel's processors 150 cycles.
const LEAST_NORMAL_EXP: f32 = -87.3365;

/// `(log(1 + f) - f + f^2 / 2) / f^3` for `1 + f` from `sqrt(1/2)` to `sqrt(2)`: fitted for the
/// least relative error of the logarithm, which is 6e-9.
const LOG_1P: [f32; 8] = [
    0.333_333_3,
    -0.250_008_2,
    0.200_012_27,
    -0.166_233_57,
    0.142_017_59,
    -0.131_601_83,
    0.127_615_75,
    -0.076_344_93,
];
/// What subnormal numbers are multiplied with ahead of their logarithm, and its own.
const SUBNORMAL: [f32; 2] = [8_388_608.0, 23.0];

/// The least positive float.
const LEAST: f32 = f32::from_bits(1);

/// Beyond it the error function of `x / sqrt(2)` is 1 or -1.
const ERF_RANGE: f32 = 5.5;
/// That function over x within the range: the quotient of two polynomials of the square of x,
/// fitted for the least error of the function. Half of that, 4e-9, is the error of GELU's share of
/// x, which roundings make 2.3e-7. Where the range ends the function is above 1, and taken for 1.
const ERF: [[f32; 6]; 2] = [
    [0.797_884_5, 0.067_670_99, 0.009_352_285, 3.372_809e-4, 1.269_979e-5, 4.551_453_6e-8],
    [1.0, 0.251_478_94, 0.028_635_87, 0.001_883_411_1, 7.358_281e-5, 1.197_567_6e-6],
];
/// `sqrt(2 / pi)`, and the factor of the cube in the approximation by the hyperbolic tangent.
const GELU_TANH: [f32; 2] = [0.797_884_6, 0.044_715];

/// Pi in three parts: multiples of the first two are exact in a multiply-add.
const PI: [f32; 3] = [std::f32::consts::PI, -8.742_278e-8, -3.430_249e-15];
/// `(sin(r) - r) / r^3` for |r| up to `pi / 2`: fitted for the least relative error of the sine,
/// which is 6e-9.
const SIN: [f32; 4] = [-0.166_666_6, 0.008_333_066_5, -0.000_198_096_02, 2.605_780_8e-6];
/// From this size on the parts of pi are too few, and the sine is the C library's.
const LARGE_ANGLE: f32 = 65536.0;

/// 32nds of a power of two in a unit.
const LOG2_E_32: f64 = std::f64::consts::LOG2_E * 32.0;
/// Added to a double, it leaves the nearest integer in the low bits.
const TO_INTEGER: f64 = (3u64 << 51) as f64;
/// `(2^(r / 32) - 1) / r` of `r` up to a half.
const POWER_OF_REST: [f64; 3] = [
    f64::from_bits(0x3fe6_2e42_ff0c_52d6) / 32.0,
    f64::from_bits(0x3fce_bfce_50fa_c4f3) / 1024.0,
    f64::from_bits(0x3fac_6af8_4b91_2394) / 32768.0,
];
/// Below the first the logistic function is the exponential, above the second it is 1.
const SIGMOID_BY_TABLE: (f32, f32) = (-9.0, 16.619_047);
static POWERS: PowerTable = PowerTable::new([
    0x3ff0_0000_0000_0000,
    0x3fef_d9b0_d315_8574,
    0x3fef_b558_6cf9_890f,
    0x3fef_9301_d012_5b51,
    0x3fef_72b8_3c7d_517b,
    0x3fef_5487_3168_b9aa,
    0x3fef_387a_6e75_6238,
    0x3fef_1e9d_f51f_dee1,
    0x3fef_06fe_0a31_b715,
    0x3fee_f1a7_373a_a9cb,
    0x3fee_dea6_4c12_3422,
    0x3fee_ce08_6061_892d,
    0x3fee_bfda_d536_2a27,
    0x3fee_b42b_569d_4f82,
    0x3fee_ab07_dd48_5429,
    0x3fee_a47e_b03a_5585,
    0x3fee_a09e_667f_3bcd,
    0x3fee_9f75_e8ec_5f74,
    0x3fee_a114_73eb_0187,
    0x3fee_a589_994c_ce13,
    0x3fee_ace5_422a_a0db,
    0x3fee_b737_b0cd_c5e5,
    0x3fee_c491_82a3_f090,
    0x3fee_d503_b23e_255d,
    0x3fee_e89f_995a_d3ad,
    0x3fee_ff76_f2fb_5e47,
    0x3fef_199b_dd85_529c,
    0x3fef_3720_dcef_9069,
    0x3fef_5818_dcfb_a487,
    0x3fef_7c97_337b_9b5f,
    0x3fef_a4af_a2a4_90da,
    0x3fef_d076_5b6e_4540,
]);

#[cfg(test)]
mod tests;
