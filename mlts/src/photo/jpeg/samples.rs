//! From coefficients to pixels, with the arithmetic of the IJG's library to the last bit: its
//! accurate integer transform, its triangle upsampling and its colour tables. Other decoders differ
//! by a few steps, which is enough to move a quantised classifier's answer.

/// The inverse transform of a block of dequantised coefficients, in natural order.
///
/// The algorithm of Loeffler, Ligtenberg and Moschytz with 13 fractional bits, columns first with
/// two guard bits left in between, as in `jidctint.c`.
pub(super) fn inverse_dct(block: &[i32; 64]) -> [u8; 64] {
    const PASS1_BITS: u32 = 2;
    let mut columns = [0i64; 64];
    for x in 0..8 {
        let column = std::array::from_fn(|y| i64::from(block[y * 8 + x]));
        for (y, value) in pass(column, CONST_BITS - PASS1_BITS).into_iter().enumerate() {
            columns[y * 8 + x] = value;
        }
    }
    let mut out = [0; 64];
    for (row, out) in columns.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        let values = pass(*row, CONST_BITS + PASS1_BITS + 3);
        *out = values.map(|value| clamp(value + 128));
    }
    out
}

const CONST_BITS: u32 = 13;

/// One dimension; the result is rounded by `shift` bits.
fn pass(input: [i64; 8], shift: u32) -> [i64; 8] {
    let [in0, in1, in2, in3, in4, in5, in6, in7] = input;
    let z1 = (in2 + in6) * 4433;
    let (even2, even3) = (z1 - in6 * 15137, z1 + in2 * 6270);
    let (even0, even1) = ((in0 + in4) << CONST_BITS, (in0 - in4) << CONST_BITS);
    let even = [even0 + even3, even1 + even2, even1 - even2, even0 - even3];
    let z5 = (in7 + in3 + in5 + in1) * 9633;
    let (z1, z2) = ((in7 + in1) * -7373, (in5 + in3) * -20995);
    let (z3, z4) = ((in7 + in3) * -16069 + z5, (in5 + in1) * -3196 + z5);
    let odd =
        [in1 * 12299 + z1 + z4, in3 * 25172 + z2 + z3, in5 * 16819 + z2 + z4, in7 * 2446 + z1 + z3];
    let round = |value: i64| (value + (1 << (shift - 1))) >> shift;
    std::array::from_fn(|at| match at {
        0..4 => round(even[at] + odd[at]),
        _ => round(even[7 - at] - odd[7 - at]),
    })
}

/// One component: its samples, row by row, at its own resolution.
#[derive(Debug)]
pub(super) struct Plane {
    pub(super) samples: Vec<u8>,
    /// Samples from row to row; whole blocks.
    pub(super) stride: usize,
    /// The part of a row that belongs to the picture.
    pub(super) width: usize,
    /// The rows that belong to the picture.
    pub(super) height: usize,
}

impl Plane {
    fn row(&self, y: usize) -> &[u8] {
        let start = y.min(self.height.saturating_sub(1)) * self.stride;
        &self.samples[start..start + self.width]
    }

    /// Row `y` of the picture, for a component with `h` by `v` picture pixels to a sample.
    pub(super) fn upsampled_row(&self, y: usize, h: usize, v: usize, out: &mut [u8]) {
        // The library's triangle filter takes three samples; narrower pictures it repeats.
        let fancy = self.width > 2;
        let near = self.row(y / v);
        match (h, v) {
            (2, 1) if fancy => widen(out, near.len(), |x| u32::from(near[x]), [2, 1, 2], 2),
            (2, 2) if fancy => {
                // A quarter of the next row: the one above for the upper of the two, else the one
                // below; past the edge the last row counts again.
                let far = if y.is_multiple_of(2) { (y / 2).saturating_sub(1) } else { y / 2 + 1 };
                let far = self.row(far);
                let column = |x: usize| u32::from(near[x]) * 3 + u32::from(far[x]);
                widen(out, near.len(), column, [8, 8, 7], 4);
            }
            _ => {
                for (x, out) in out.iter_mut().enumerate() {
                    *out = near[(x / h).min(near.len() - 1)];
                }
            }
        }
    }
}

/// Twice as wide: each of two pixels is three quarters of its sample and a quarter of the neighbour
/// on its side. `bias` of the edge, the left and the right pixel; sums are shifted right by
/// `shift`.
fn widen(
    out: &mut [u8],
    width: usize,
    sample: impl Fn(usize) -> u32,
    [edge, left, right]: [u32; 3],
    shift: u32,
) {
    for (x, pixel) in out.iter_mut().enumerate() {
        let at = (x / 2).min(width - 1);
        let here = sample(at);
        let sum = match (x % 2, at) {
            (0, 0) if shift == 2 => here * 4,
            (0, 0) => here * 4 + edge,
            (0, _) => here * 3 + sample(at - 1) + left,
            (_, at) if at + 1 == width && shift == 2 => here * 4,
            (_, at) if at + 1 == width => here * 4 + right,
            _ => here * 3 + sample(at + 1) + right,
        };
        *pixel = u8::try_from(sum >> shift).unwrap_or(u8::MAX);
    }
}

/// Y, Cb and Cr as red, green and blue: the equations of JFIF with 16 fractional bits.
pub(super) fn rgb([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    const HALF: i64 = 1 << 15;
    let (y, cb, cr) = (i64::from(y), i64::from(cb) - 128, i64::from(cr) - 128);
    [
        clamp(y + ((91881 * cr + HALF) >> 16)),
        clamp(y + ((-22554 * cb - 46802 * cr + HALF) >> 16)),
        clamp(y + ((116_130 * cb + HALF) >> 16)),
    ]
}

fn clamp(value: i64) -> u8 {
    u8::try_from(value.clamp(0, 255)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_block_is_flat_and_extremes_stay_in_range() {
        let mut block = [0; 64];
        block[0] = 80;
        assert_eq!(inverse_dct(&block), [138; 64]);
        let wild = inverse_dct(&[i32::MAX; 64]);
        assert!(wild.contains(&255) || wild.contains(&0));
    }

    #[test]
    fn grey_is_grey_and_primaries_are_theirs() {
        assert_eq!(rgb([77, 128, 128]), [77, 77, 77]);
        assert_eq!(rgb([76, 85, 255]), [254, 0, 0]);
    }

    #[test]
    fn samples_between_two_are_three_quarters_and_one() {
        let plane = Plane { samples: vec![0, 100, 200], stride: 3, width: 3, height: 1 };
        let mut row = [0; 6];
        plane.upsampled_row(0, 2, 1, &mut row);
        assert_eq!(row, [0, 25, 75, 125, 175, 200]);
        plane.upsampled_row(1, 2, 2, &mut row);
        assert_eq!(row, [0, 25, 75, 125, 175, 200]);
    }
}
