//! Numbers as TFLite's kernels convert and round them.

use nnburst_kernels::tensor::quant::{Multiplier, round_half_away};
use nnburst_kernels::tensor::{In, Out};

use super::arg::{Arg, ElementKind, by_kind};
use crate::lowering::Lowered;

/// An integer as a float, rounded where it has more than 24 bits.
#[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
pub(super) fn f32_of(x: i32) -> f32 {
    x as f32
}

/// An integer as a double, rounded where it has more than 53 bits.
#[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
pub(super) fn f64_of(x: i64) -> f64 {
    x as f64
}

/// The nearest integer of a double, halves away from zero; saturated.
#[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
pub(super) fn round_f64(x: f64) -> i32 {
    x.round() as i32
}

/// A float, cut towards zero; saturated.
#[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
pub(super) fn cut_i32(x: f32) -> i32 {
    x as i32
}

/// A double, cut towards zero; saturated.
#[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
pub(super) fn cut(x: f64) -> i64 {
    x as i64
}

/// A double as the nearest float.
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
pub(super) fn narrow(x: f64) -> f32 {
    x as f32
}

/// The hyperbolic tangent as TFLite's layers fuse it: a quotient of polynomials of degrees 9 and 8,
/// each step rounded to single precision, within three units in the last place of the true one. It
/// is 1 from the number on where the quotient first is.
#[inline(always)]
pub(super) fn rational_tanh(x: f32) -> f32 {
    const ONE_FROM: f32 = 7.907_389_6;
    // From the highest power on; the numerator's are over `x` cubed.
    const NUMERATOR: [f32; 4] = [1.394_553_6e-8, 2.102_733_6e-5, 3.520_756_7e-3, 0.134_021_61];
    const DENOMINATOR: [f32; 5] = [8.015_777e-7, 3.326_951_4e-4, 2.597_254_5e-2, 0.467_354_83, 1.0];
    let x = x.clamp(-ONE_FROM, ONE_FROM);
    let square = x * x;
    let at_square = |factors: &[f32]| factors.iter().fold(0.0, |sum, factor| sum * square + factor);
    (square * x * at_square(&NUMERATOR) + x) / at_square(&DENOMINATOR)
}

/// The low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "wrapping is what is asked for")]
pub(super) fn low(x: i64) -> i32 {
    x as i32
}

/// A sum times a multiplier, rounded twice: halves up, also of negative numbers, as TFLite's matrix
/// library has it for results of 16 bits.
pub(super) fn apply_halves_up(multiplier: Multiplier, x: i32) -> i32 {
    let [left, right] = [multiplier.shift, -multiplier.shift].map(|by| by.clamp(0, 31));
    let product = i64::from(x << left) * i64::from(multiplier.fraction);
    let high = (product + (1 << 30)) >> 31;
    low((high + ((1i64 << right) >> 1)) >> right)
}

/// A sum of 64 bits times a multiplier of 16 bits, rounded once: what TFLite does with the
/// accumulators of 16-bit activations.
pub(super) fn apply_wide(multiplier: Multiplier, x: i64) -> i32 {
    let reduced = if multiplier.fraction < 0x7fff_0000 {
        (multiplier.fraction + (1 << 15)) >> 16
    } else {
        0x7fff
    };
    let total = (15 - multiplier.shift).clamp(1, 62);
    let product = x.wrapping_mul(i64::from(reduced)).wrapping_add(1 << (total - 1));
    low(product >> total)
}

/// Stored values of a quantised tensor, read and written as `i32`.
pub(super) trait Stored: nnburst_kernels::tensor::Element + Into<i32> {
    /// The stored value.
    fn wide(self) -> i32;
    /// The stored value of this number, which fits.
    fn stored(x: i32) -> Self;
}

macro_rules! stored {
    ($($kind:ty),*) => {$(
        impl Stored for $kind {
            #[inline(always)]
            fn wide(self) -> i32 {
                i32::from(self)
            }
            #[inline(always)]
            #[expect(clippy::cast_possible_truncation, reason = "clamped by the caller")]
            #[allow(clippy::cast_sign_loss, reason = "of one of the types alone")]
            fn stored(x: i32) -> Self {
                x as $kind
            }
        }
    )*};
}
stored!(i8, u8, i16);

/// The access to stored values of a type that is known when a model runs: what is compiled once for
/// all quantised types reads and writes them with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredType {
    /// Bytes of an element.
    pub(super) bytes: usize,
    widen: fn(In<'_, u8>, usize, i32, &mut [i16]),
}

impl StoredType {
    pub(super) fn of(kind: ElementKind) -> Lowered<Self> {
        let widen = by_kind!(kind, [I8 i8, U8 u8, I16 i16], T => widen::<T>);
        Ok(Self { bytes: kind.bytes(), widen })
    }

    /// Reads elements from `first` on, `stride` from one to the next, less a zero point.
    #[inline(always)]
    pub(super) fn widen(
        self,
        from: In<'_, u8>,
        first: usize,
        stride: usize,
        zero_point: i32,
        to: &mut [i16],
    ) {
        // Where there are none, `first` may be beyond the tensor.
        if !to.is_empty() {
            (self.widen)(from.slice(first * self.bytes..from.len()), stride, zero_point, to);
        }
    }

    /// Writes element `at`.
    #[inline(always)]
    pub(super) fn store(self, to: Out<'_, u8>, at: usize, value: i32) {
        match self.bytes {
            1 => to.set(at, u8::stored(value)),
            _ => to.set_block(at * 2, i16::stored(value).to_ne_bytes()),
        }
    }
}

fn widen<T: Stored>(from: In<'_, u8>, stride: usize, zero_point: i32, to: &mut [i16]) {
    let from = from.cast::<T>();
    if stride == 1 {
        // Side by side: in vectors.
        for (to, value) in to.iter_mut().zip(from.iter()) {
            *to = i16::stored(value.wide() - zero_point);
        }
        return;
    }
    for (at, to) in to.iter_mut().enumerate() {
        *to = i16::stored(from.get(at * stride).wide() - zero_point);
    }
}

/// Real numbers of a tensor of any arithmetic type: stored values times their scale.
pub(super) fn real_at(arg: &Arg, bytes: In<'_, u8>, index: usize) -> f64 {
    let quantised = |stored: i32| f64::from(arg.scale) * f64::from(stored - arg.zero_point);
    let at = index * arg.kind.bytes();
    match arg.kind {
        ElementKind::F32 => f64::from(f32::from_le_bytes(bytes.block(at))),
        ElementKind::F16 => f64::from(half::f16::from_le_bytes(bytes.block(at)).to_f32()),
        ElementKind::F64 => f64::from_le_bytes(bytes.block(at)),
        ElementKind::I8 => quantised(i32::from(bytes.get(at).cast_signed())),
        ElementKind::U8 => quantised(i32::from(bytes.get(at))),
        ElementKind::I16 => quantised(i32::from(i16::from_le_bytes(bytes.block(at)))),
        ElementKind::U16 => f64::from(u16::from_le_bytes(bytes.block(at))),
        ElementKind::I32 => f64::from(i32::from_le_bytes(bytes.block(at))),
        ElementKind::U32 => f64::from(u32::from_le_bytes(bytes.block(at))),
        ElementKind::I64 => f64_of(i64::from_le_bytes(bytes.block(at))),
        #[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
        ElementKind::U64 => u64::from_le_bytes(bytes.block(at)) as f64,
        ElementKind::Bool => f64::from(u8::from(bytes.get(at) != 0)),
        ElementKind::C64 => f64::from(f32::from_le_bytes(bytes.block(at))),
    }
}

/// `x / 2^exponent`, rounded. Beyond 31, and below 0, C++ leaves open what the interpreter does:
/// this is what comes of it on x86-64, which shifts by the low bits of the exponent.
pub(super) fn shifted_right(x: i32, exponent: i32) -> i32 {
    let count = exponent.cast_unsigned();
    let mask = low(1i64.wrapping_shl(count).wrapping_sub(1));
    let threshold = (mask >> 1) + i32::from(x < 0);
    x.wrapping_shr(count).wrapping_add(i32::from(x & mask > threshold))
}

/// A table of 8-bit values: `f` of each real number, at the result's scale.
pub(super) fn table(input: &Arg, result: &Arg, f: impl Fn(f32) -> f32) -> [u8; 256] {
    let (min, max) = result.kind.range();
    std::array::from_fn(|byte| {
        let byte = u8::try_from(byte).unwrap_or(0);
        let stored = if input.kind == ElementKind::I8 {
            i32::from(byte.cast_signed())
        } else {
            i32::from(byte)
        };
        let real = f(input.scale * f32_of(stored - input.zero_point));
        let rescaled =
            round_half_away(real * (1.0 / result.scale)).saturating_add(result.zero_point);
        let [low, ..] = rescaled.clamp(min, max).to_le_bytes();
        low
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_out_of_range_are_by_their_low_bits() {
        assert_eq!([-6, -5, 5, 6].map(|x| shifted_right(x, 2)), [-2, -1, 1, 2]);
        assert_eq!([-6, 0, 6].map(|x| shifted_right(x, 33)), [-3, 1, 4]);
        assert_eq!([-6, 0, 6].map(|x| shifted_right(x, -4)), [-1, 1, 1]);
    }

    /// What TFLite's interpreter gives for these sums.
    #[test]
    fn halves_of_results_of_16_bits_go_up() {
        let multiplier = Multiplier::new(0.276_917_25);
        for (sum, want) in [(-11937, -3305), (-1707, -472), (-36901, -10218), (-4505, -1247)] {
            assert_eq!(apply_halves_up(multiplier, sum), want);
        }
        assert_eq!(apply_halves_up(Multiplier::new(0.5), 3), 2);
        assert_eq!(apply_halves_up(Multiplier::new(3.0), -5), -15);
    }

    /// The bits that TFLite's interpreter gives.
    #[test]
    fn the_tangent_of_layers_is_a_quotient_of_polynomials() {
        for (x, want) in [
            (1e-6, 0x3586_37bd),
            (0.1, 0x3dcc_1ebd),
            (0.3334, 0x3ea4_a528),
            (0.5, 0x3eec_9a9e),
            (1.0, 0x3f42_f7d6),
            (1.7, 0x3f6f_76f8),
            (2.3, 0x3f7a_e799),
            (3.7, 0x3f7f_afef),
            (5.4, 0x3f7f_fd56),
            (5.5, 0x3f7f_fdcf),
            (7.9, 0x3f7f_fffd),
            (8.5, 0x3f80_0000),
            (f32::INFINITY, 0x3f80_0000),
        ] {
            let want = f32::from_bits(want);
            assert_eq!([rational_tanh(x), rational_tanh(-x)], [want, -want], "{x}");
        }
        assert!(rational_tanh(f32::NAN).is_nan());
    }

    #[test]
    fn wide_sums_are_rounded_once() {
        let half = Multiplier::new(0.5);
        assert_eq!([3i64, -3, 1 << 40].map(|x| apply_wide(half, x)), [2, -1, 0]);
        assert_eq!(apply_wide(Multiplier::new(1.0 / 3.0), 300), 100);
        // The multiplier itself keeps 15 bits.
        assert_eq!(apply_wide(Multiplier::new(0.999_999), 100_000), 99_997);
    }
}
