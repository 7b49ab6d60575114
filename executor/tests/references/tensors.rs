//! Random tensors of every type, and how near a result has to be.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{Operand, OperandType as T};

use crate::arithmetic::stored;
use crate::model::{Arg, Value};

/// Extents around the widths of vectors and tiles.
pub(crate) const SIZES: [u32; 21] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 47, 63, 64, 65];

/// Real numbers and what they are stored as.
pub(crate) struct Values {
    pub(crate) arg: Arg,
    /// Less the zero point, where there is one.
    pub(crate) numbers: Vec<f64>,
}

pub(crate) fn is_byte(kind: T) -> bool {
    kind.element_bytes() == Some(1)
}

pub(crate) fn number(n: i64) -> u32 {
    u32::try_from(n).unwrap()
}

/// A zero point that the type can have, the ends of its range among them.
pub(crate) fn zero_point(rng: &mut TestRng, kind: T) -> i32 {
    match kind {
        T::TensorQuant8Asymm => rng.one_of(&[0, 255, 128, 3, 131]),
        T::TensorQuant8AsymmSigned => rng.one_of(&[-128, 127, 0, -5, 77]),
        _ => 0,
    }
}

/// Random tensor.
pub(crate) fn values(
    rng: &mut TestRng,
    kind: T,
    dims: &[i64],
    quant: (f32, i32),
    extreme: bool,
) -> Values {
    let dims: Vec<u32> = dims.iter().map(|&n| number(n)).collect();
    let count: u32 = dims.iter().product();
    let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let special = extreme && rng.once_in(97);
        let real = match rng.below(3) {
            0 if special => f32::NAN,
            1 if special => f32::INFINITY,
            2 if special => f32::NEG_INFINITY,
            _ => rng.real(),
        };
        let byte = u8::try_from(rng.below(256)).unwrap();
        let byte = if extreme { [0, 255][usize::from(byte & 1)] } else { byte };
        match kind {
            T::TensorFloat32 => {
                bytes.extend(real.to_le_bytes());
                numbers.push(real.into());
            }
            T::TensorFloat16 => {
                bytes.extend(half::f16::from_f32(real).to_le_bytes());
                numbers.push(real.into());
            }
            _ => {
                bytes.push(byte);
                numbers.push((stored(kind, byte) - i64::from(quant.1)) as f64);
            }
        }
    }
    let operand = Operand::tensor(kind, dims).with_quantization(quant.0, quant.1);
    Values { arg: Arg::Other(operand, bytes), numbers }
}

pub(crate) fn clamped(activation: i32, x: f64) -> f64 {
    let (low, high) = match activation {
        1 => (0.0, f64::INFINITY),
        2 => (-1.0, 1.0),
        3 => (0.0, 6.0),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    // NaN stays NaN.
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// Bytes to the last bit; floats within what the order of a sum of that size can change.
pub(crate) fn near(got: &Value, kind: T, want: &[(f64, f64)]) -> Result<(), String> {
    let bytes = &got.bytes;
    let got: Vec<f64> = match kind {
        T::TensorFloat32 => got.floats().into_iter().map(f64::from).collect(),
        T::TensorFloat16 => bytes
            .chunks_exact(2)
            .map(|x| half::f16::from_le_bytes(x.try_into().unwrap()).to_f64())
            .collect(),
        _ => bytes.iter().map(|&byte| stored(kind, byte) as f64).collect(),
    };
    if got.len() != want.len() {
        return Err(format!("{} elements, not {}", got.len(), want.len()));
    }
    for (at, (&got, &(want, size))) in got.iter().zip(want).enumerate() {
        let bound = match kind {
            T::TensorFloat32 => 1e-6 + 4e-6 * size,
            T::TensorFloat16 => 1e-3 + 1e-3 * size.min(want.abs()) + 4e-6 * size,
            _ => 0.0,
        };
        let same = (got.is_nan() && want.is_nan()) || got == want || (got - want).abs() <= bound;
        if !same {
            return Err(format!("element {at} is {got}, not {want}"));
        }
    }
    Ok(())
}

/// The numbers that bytes are stored as.
pub(crate) fn stored_values(value: &Value, kind: T) -> Vec<f64> {
    value.bytes.iter().map(|&byte| stored(kind, byte) as f64).collect()
}
