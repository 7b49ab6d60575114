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

impl Real for f16 {
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn widened(values: &[Self]) -> Cow<'_, [f32]> {
        values.iter().map(|value| value.to_f32()).collect()
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
