//! LOGISTIC as TFLite's LSTMs compute it: in vectors of four floats, and one by one before and
//! behind those.

use std::ops::Range;

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;

/// Floats of a vector there.
const LANES: usize = 4;

/// The part of `len` floats that is computed in vectors, which start at multiples of four: the
/// first float is the one from `start` on.
pub(super) fn in_vectors(start: usize, len: usize) -> Range<usize> {
    let head = (start.next_multiple_of(LANES) - start).min(len);
    head..head + (len - head) / LANES * LANES
}

/// Replaces floats by their LOGISTIC; those of `vectors` are computed in vectors.
pub(super) fn logistic(isa: Isa, values: &mut [f32], vectors: Range<usize>) {
    let (before, rest) = values.split_at_mut(vectors.start);
    let (vectors, behind) = rest.split_at_mut(vectors.len());
    isa.run(InVectors(vectors));
    before.iter_mut().chain(behind).for_each(|x| *x = alone(*x));
}

struct InVectors<'a>(&'a mut [f32]);

impl Loop for InVectors<'_> {
    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().for_each(|x| *x = in_vector(*x));
    }
}

/// From here on the result is 1.
const ONE_FROM: f32 = 16.635_532;

fn alone(x: f32) -> f32 {
    let power = if x > ONE_FROM { ONE_FROM } else { x }.exp();
    power / (1.0 + power)
}

/// Each operation rounds. With `x / 2 = m ln 2 + r`, half an exponential is `2^m` times a
/// polynomial of `r`, and its square the whole one.
#[inline(always)]
fn in_vector(x: f32) -> f32 {
    const ZERO_BELOW: f32 = -104.0;
    /// Added to a small integer it leaves that in the low bits.
    const INTEGER: f32 = 12_582_912.0;
    let half = if x > ONE_FROM { ONE_FROM } else { x } * 0.5;
    let m = (half * std::f32::consts::LOG2_E + 0.5).floor();
    // The logarithm of 2 in two parts, of which the first has few bits.
    let r = m * -0.693_359_4 + half;
    let r = m * 2.121_944_4e-4 + r;
    let square = r * r;
    let even = square * 4.189_866_8e-2 + 0.499_991_42;
    let odd = square * 8.334_713e-3 + 0.166_668_77;
    let polynomial = square * (r * odd + even) + (r + 1.0);
    let power = f32::from_bits((m + INTEGER).to_bits().wrapping_add(127) << 23);
    let half_power = polynomial * power;
    let power = half_power * half_power;
    if x < ZERO_BELOW { 0.0 } else { power / (1.0 + power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interpreter's results for 23 floats, of which three are behind the vectors.
    #[test]
    fn floats_are_the_interpreters() {
        let known = [
            (-120.0, 0),
            (-103.9, 1),
            (-90.0, 0x0008_ec28),
            (-30.5, 0x297f_9c32),
            (-7.3, 0x3a30_f804),
            (-3.1, 0x3d30_913a),
            (-1.2, 0x3e6d_07d6),
            (-0.4, 0x3ecd_78ce),
            (-0.01, 0x3efe_b852),
            (0.0, 0x3f00_0000),
            (0.3, 0x3f13_0ea9),
            (0.9, 0x3f36_00c9),
            (2.7, 0x3f6f_e0fa),
            (5.5, 0x3f7e_f542),
            (9.1, 0x3f7f_f8af),
            (16.5, 0x3f7f_ffff),
            (16.7, 0x3f80_0000),
            (40.0, 0x3f80_0000),
            (-2.2, 0x3dcc_49fe),
            (-2.2, 0x3dcc_49fe),
            (-5.7, 0x3b5a_8ccb),
            (-0.7, 0x3ea9_e34a),
            (3.3, 0x3f76_e4ce),
        ];
        for isa in Isa::all() {
            let mut values = known.map(|(x, _)| x);
            logistic(isa, &mut values, in_vectors(0, 23));
            for ((x, want), got) in known.into_iter().zip(values) {
                assert_eq!(got.to_bits(), want, "{isa:?}: {x}");
            }
            let mut extremes = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -0.0];
            logistic(isa, &mut extremes, 0..4);
            assert_eq!([extremes[0], extremes[1], extremes[3]], [0.0, 1.0, 0.5], "{isa:?}");
            assert!(extremes[2].is_nan(), "{isa:?}");
        }
    }

    #[test]
    fn vectors_start_at_multiples_of_four() {
        assert_eq!([in_vectors(0, 9), in_vectors(8, 4)], [0..8, 0..4]);
        assert_eq!([in_vectors(3, 10), in_vectors(6, 5)], [1..9, 2..2]);
        assert_eq!([in_vectors(1, 2), in_vectors(5, 0)], [2..2, 0..0]);
    }
}
