//! The differences of raw tensors, in the output's own units.

use crate::num::real;

/// The type of a raw tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    Float32,
    Float16,
    Int32,
    Int16,
    Int8,
    Uint8,
}

impl ElementType {
    /// The type behind NNAPI's name or the manifest's.
    pub(crate) fn of_name(name: &str) -> Self {
        match name {
            "FLOAT32" | "TENSOR_FLOAT32" => Self::Float32,
            "FLOAT16" | "TENSOR_FLOAT16" => Self::Float16,
            "INT32" | "INT64" | "TENSOR_INT32" => Self::Int32,
            "INT16" | "TENSOR_QUANT16_SYMM" => Self::Int16,
            "INT8" | "TENSOR_QUANT8_ASYMM_SIGNED" | "TENSOR_QUANT8_SYMM" => Self::Int8,
            _ => Self::Uint8,
        }
    }

    /// Returns whether the elements are real numbers rather than steps.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16)
    }
}

/// The elements of a raw little-endian tensor.
pub(crate) fn values(kind: ElementType, bytes: &[u8]) -> Vec<f64> {
    let fours = || bytes.as_chunks::<4>().0.iter();
    let twos = || bytes.as_chunks::<2>().0.iter();
    match kind {
        ElementType::Float32 => fours().map(|value| f32::from_le_bytes(*value).into()).collect(),
        ElementType::Int32 => fours().map(|value| i32::from_le_bytes(*value).into()).collect(),
        ElementType::Float16 => {
            twos().map(|value| nnburst::f16::from_le_bytes(*value).into()).collect()
        }
        ElementType::Int16 => twos().map(|value| i16::from_le_bytes(*value).into()).collect(),
        ElementType::Int8 => bytes.iter().map(|value| value.cast_signed().into()).collect(),
        ElementType::Uint8 => bytes.iter().map(|&value| value.into()).collect(),
    }
}

/// The differences of two tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// Elements compared; where the lengths differ, the longer one counts.
    pub(crate) of: usize,
    /// Elements that differ at all.
    pub(crate) differ: usize,
    /// The largest magnitude; infinite where one is no number, or the lengths differ.
    pub(crate) max_abs: f64,
    pub(crate) sum_abs: f64,
    pub(crate) sum_squares: f64,
    /// The largest magnitude among the expected values.
    pub(crate) scale: f64,
    /// The first element that is further off than `allowed`.
    pub(crate) first: Option<(usize, f64, f64)>,
}

impl Difference {
    pub(crate) fn mean_abs(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.sum_abs / real(self.of) }
    }

    pub(crate) fn mean_square(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.sum_squares / real(self.of) }
    }
}

/// A value in a sentence: with its exponent where it would be a long row of zeros.
pub(crate) fn shown(value: f64) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-4..1e9).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

/// Compares raw tensors of a type; `allowed` is the distance up to which an element is no first
/// wrong one.
pub(crate) fn difference(
    kind: ElementType,
    actual: &[u8],
    expected: &[u8],
    allowed: f64,
) -> Difference {
    let (got, want) = (values(kind, actual), values(kind, expected));
    let mut result = Difference { of: got.len().max(want.len()), ..Difference::default() };
    for (index, (got, want)) in got.iter().zip(&want).enumerate() {
        // A number that is none is as far off as can be, unless it was expected.
        let apart = if got.is_nan() && want.is_nan() || got == want {
            0.0
        } else {
            let apart = (got - want).abs();
            if apart.is_nan() { f64::INFINITY } else { apart }
        };
        result.differ += usize::from(apart > 0.0);
        result.max_abs = result.max_abs.max(apart);
        result.sum_abs += apart;
        result.sum_squares += apart * apart;
        result.scale = result.scale.max(want.abs());
        if apart > allowed && result.first.is_none() {
            result.first = Some((index, *want, *got));
        }
    }
    if got.len() != want.len() {
        result.differ = result.of;
        result.max_abs = f64::INFINITY;
        let at = got.len().min(want.len());
        let of = |list: &[f64]| list.get(at).copied().unwrap_or(f64::NAN);
        result.first = result.first.or_else(|| Some((at, of(&want), of(&got))));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_no_sign_and_the_first_wrong_element_is_named() {
        let found = difference(ElementType::Uint8, &[5, 7, 9], &[5, 9, 0], 2.0);
        assert_eq!((found.of, found.differ, found.max_abs), (3, 2, 9.0));
        assert_eq!(found.first, Some((2, 0.0, 9.0)));
        assert_eq!(found.mean_abs(), 11.0 / 3.0);
        assert_eq!(found.mean_square(), 85.0 / 3.0);
    }

    #[test]
    fn what_is_no_number_is_infinitely_far_off() {
        let (nan, one) = (f32::NAN.to_le_bytes(), 1f32.to_le_bytes());
        assert_eq!(difference(ElementType::Float32, &nan, &one, 1e9).max_abs, f64::INFINITY);
        assert_eq!(difference(ElementType::Float32, &nan, &nan, 0.0).max_abs, 0.0);
    }

    #[test]
    fn small_values_have_exponents() {
        assert_eq!(shown(0.125), "0.125");
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(f64::NAN), "NaN");
        assert_eq!(shown(-8.97e-44), "-8.97e-44");
    }

    #[test]
    fn a_missing_element_is_wrong() {
        let found = difference(ElementType::Int8, &[1], &[1, 2], 0.0);
        assert_eq!(
            (found.max_abs, found.first.map(|(at, want, _)| (at, want))),
            (f64::INFINITY, Some((1, 2.0)))
        );
    }
}
