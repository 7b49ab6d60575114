//! Functions over 16-bit values as TFLite has them: 513 points, and straight lines between them.

use nnburst_kernels::tensor::quant::round_half_away;

use super::math::{Stored, f32_of, f64_of, round_f64};

/// A quantisation: scale and zero point.
pub(super) type Scale<Real> = (Real, i32);

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident $real:ident $of:expr, $nearest:ident;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(
            input: Scale<$real>,
            result: Scale<$real>,
            f: impl Fn($real) -> $real,
        ) -> Vec<i16> {
            let of = $of;
            let ends = |(scale, zero_point): Scale<$real>| {
                [scale * of(-32768 - zero_point), scale * of(32767 - zero_point)]
            };
            let ([least, most], [low_out, high_out]) = (ends(input), ends(result));
            let step = (most - least) / 512.0;
            let half = step / 2.0;
            let inverse = 65536.0 / (high_out - low_out);
            let clamp = |x: $real| i16::stored($nearest(x.clamp(-32768.0, 32767.0)));
            let mut points: Vec<i16> = (0..512)
                .map(|at| {
                    let x = least + of(at) * step;
                    let here = (f(x) * inverse).round();
                    let middle = (f(x + half) * inverse).round();
                    let next = f(least + of(at + 1) * step) * inverse;
                    let line = ((next + here) / 2.0).round();
                    clamp(here - ((line - middle) / 2.0).round())
                })
                .collect();
            points.push(clamp((f(most) * inverse).round()));
            points
        }
    )*};
}

tables! {
    /// Points of a function over 16-bit values, each corrected by half of what a straight line
    /// errs by in the middle to the next.
    wide_table f32 f32_of, round_half_away;
    /// As [`wide_table`], in double precision, which TFLite has for the tables of SOFTMAX alone.
    wide_table_f64 f64 |x: i32| f64_of(i64::from(x)), round_f64;
}

/// A value between two points: seven bits of fraction.
pub(super) fn between(table: &[i16], x: i16) -> i16 {
    let index = usize::try_from(256 + (i32::from(x) >> 7)).unwrap_or(0);
    let fraction = i32::from(x) & 0x7f;
    let base = i32::from(table[index]);
    let slope = i32::from(table[index + 1]) - base;
    i16::stored(base + ((slope * fraction + 64) >> 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the exponential are the same in both precisions, those of the reciprocal are not.
    #[test]
    fn the_points_of_softmax_are_those_of_doubles() {
        let unit = (2.0 / 65535.0, 0);
        let doubles = wide_table_f64((1.0 / 65535.0, -32768), unit, |x| 1.0 / (1.0 + x));
        let (floats, to) = ((1.0 / 65535.0, -32768), (2.0 / 65535.0, 0));
        let floats = wide_table(floats, to, |x| 1.0 / (1.0 + x));
        assert_eq!((doubles.len(), doubles[0], doubles[512]), (513, 32767, 16384));
        let apart = doubles.iter().zip(&floats).filter(|(a, b)| a != b);
        assert!(apart.clone().all(|(a, b)| a.abs_diff(*b) == 1));
        assert_eq!(apart.count(), 2);
    }
}
