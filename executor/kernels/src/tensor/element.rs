//! The element types of tensors, as kernels see them.

use std::borrow::Cow;

use half::f16;
use nnburst_hal::OperandType;

/// A number that lies in tensors: plain bytes, every pattern valid.
pub trait Element: bytemuck::Pod + Default + PartialOrd + Send + Sync + 'static {}

impl Element for f32 {}
impl Element for f16 {}
impl Element for f64 {}
impl Element for i64 {}
impl Element for i32 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for u16 {}
impl Element for i16 {}
impl Element for u8 {}
impl Element for i8 {}

/// FLOAT32 and FLOAT16: computed in `f32`, rounded once when stored.
pub trait Real: Element {
    /// Widened.
    fn to_f32(self) -> f32;
    /// Rounded to nearest even.
    fn from_f32(value: f32) -> Self;
    /// All of them widened; as they lie, where they are wide.
    fn widened(values: &[Self]) -> Cow<'_, [f32]>;
}

impl Real for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn from_f32(value: f32) -> Self {
        value
    }
    fn widened(values: &[Self]) -> Cow<'_, [f32]> {
        Cow::Borrowed(values)
    }
}

/// By arithmetic that vectors have: `half` asks what the machine has, in a call for each number.
impl Real for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        const LEAST: u32 = 0x3880_0000; // the least normal number, 2^-14
        let (sign, rest) = (u32::from(self.to_bits() & 0x8000), u32::from(self.to_bits() & 0x7FFF));
        // The exponent is 112 more. A subnormal number is what its bits make of the least normal
        // one, less that: no float here is a subnormal one.
        let above_least = f32::from_bits((rest << 13).wrapping_add(LEAST)) - f32::from_bits(LEAST);
        let normal = (rest << 13).wrapping_add(112 << 23);
        let scaled = if rest < 0x400 { above_least.to_bits() } else { normal };
        let infinite = if rest >= 0x7C00 { 0x7F80_0000 } else { 0 };
        let quiet = if rest > 0x7C00 { 0x0040_0000 } else { 0 };
        f32::from_bits(sign << 16 | scaled | infinite | quiet)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        const LEAST: u32 = 0x3880_0000; // the least normal number, 2^-14
        const MORE: u32 = 0x4780_0000; // more than all numbers, 2^16
        let (sign, rest) = (value.to_bits() >> 16 & 0x8000, value.to_bits() & 0x7FFF_FFFF);
        // Half a unit less than a half, and more where the last bit that stays is 1: to the even.
        let normal = rest.wrapping_add(0xC800_0FFF).wrapping_add(rest >> 13 & 1) >> 13;
        // The sum has the bits that stay at its end, rounded.
        let subnormal = (f32::from_bits(rest) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
        let nan = 0x7E00 | rest >> 13 & 0x03FF;
        let large = if rest > 0x7F80_0000 { nan } else { 0x7C00 };
        let small = if rest < LEAST { subnormal } else { normal };
        let bits = sign | if rest >= MORE { large } else { small };
        let [low, high, ..] = bits.to_le_bytes();
        Self::from_bits(u16::from_le_bytes([low, high]))
    }

    fn widened(values: &[Self]) -> Cow<'_, [f32]> {
        values.iter().map(|&value| Real::to_f32(value)).collect()
    }
}

/// Quantised elements: a small integer that stands for `(q - zero_point) * scale`.
pub trait Quantised: Element + Into<i32> {
    /// Smallest stored value.
    const MIN: i32;
    /// Largest stored value.
    const MAX: i32;
    /// The offset that brings the signed range onto the unsigned one: 0 or 128.
    const TO_UNSIGNED: i32;
    /// The bits of a byte that differ where it is on the unsigned range: 0 or 0x80.
    const FLIP: u8 = if Self::TO_UNSIGNED == 0 { 0 } else { 0x80 };
    /// Widened.
    fn to_i32(self) -> i32;
    /// Saturated.
    fn from_i32(value: i32) -> Self;
}

macro_rules! quantised {
    ($($kind:ident: $offset:literal),*) => {$(
        impl Quantised for $kind {
            const MIN: i32 = $kind::MIN as i32;
            const MAX: i32 = $kind::MAX as i32;
            const TO_UNSIGNED: i32 = $offset;
            #[inline(always)]
            fn to_i32(self) -> i32 {
                i32::from(self)
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            #[inline(always)]
            fn from_i32(value: i32) -> Self {
                value.clamp(<Self as Quantised>::MIN, <Self as Quantised>::MAX) as Self
            }
        }
    )*};
}

quantised!(u8: 0, i8: 128);

/// The stored range of a quantised type; `None` for other types.
pub fn quantised_range(kind: OperandType) -> Option<(i32, i32)> {
    Some(match kind {
        OperandType::TensorQuant8Asymm => (0, 255),
        OperandType::TensorQuant8AsymmSigned
        | OperandType::TensorQuant8Symm
        | OperandType::TensorQuant8SymmPerChannel => (-128, 127),
        OperandType::TensorQuant16Asymm => (0, 65_535),
        OperandType::TensorQuant16Symm => (-32_768, 32_767),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_what_half_makes_of_them() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            let want = value.to_f32_const();
            let got = Real::to_f32(value);
            assert_eq!(got.to_bits(), want.to_bits(), "{bits:#06x}");
            // The float itself, those beside it and beside half a unit, and some in between.
            for near in [0, 1, 2, 0xFFF, 0x1000, 0x1001, 0x1234, 0x1FFE, 0x1FFF] {
                for bits in [want.to_bits().wrapping_add(near), want.to_bits().wrapping_sub(near)] {
                    let value = f32::from_bits(bits);
                    let (got, want) = (<f16 as Real>::from_f32(value), f16::from_f32_const(value));
                    assert_eq!(got.to_bits(), want.to_bits(), "{bits:#010x}");
                }
            }
        }
        for bits in (0..=u32::MAX).step_by(9973) {
            let value = f32::from_bits(bits);
            let (got, want) = (<f16 as Real>::from_f32(value), f16::from_f32_const(value));
            assert_eq!(got.to_bits(), want.to_bits(), "{bits:#010x}");
        }
    }
}
