//! Exact sums of products of one row with many, compiled for the machine's vectors.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;

/// Products of which as many as this are summed in 32 bits: of values and weights of 9 bits.
pub(super) const OF_BYTES: usize = 1 << 14;
/// As [`OF_BYTES`], of values of 16 bits and weights of 9.
pub(super) const OF_WORDS: usize = 1 << 7;

/// Returns how many products of activations of this many bytes are summed in 32 bits.
pub(super) const fn exact(bytes: usize) -> usize {
    if bytes == 1 { OF_BYTES } else { OF_WORDS }
}

/// Tells `each` the sum of products of `row` with each of `count` filters as long as it, which lie
/// one behind the other, and the filter's place. `exact` is [`OF_BYTES`] or [`OF_WORDS`].
pub(super) fn dots(
    isa: Isa,
    exact: usize,
    row: &[i16],
    filters: &[i16],
    count: usize,
    mut each: impl FnMut(usize, i64),
) {
    /// The filters of a call.
    const BLOCK: usize = 64;
    let mut sums = [0; BLOCK];
    for first in (0..count).step_by(BLOCK) {
        let end = count.min(first + BLOCK);
        let filters = &filters[first * row.len()..end * row.len()];
        let sums = &mut sums[..end - first];
        if exact == OF_BYTES {
            isa.run(Dots::<OF_BYTES> { row, filters, sums });
        } else {
            isa.run(Dots::<OF_WORDS> { row, filters, sums });
        }
        for (at, &sum) in sums.iter().enumerate() {
            each(first + at, sum);
        }
    }
}

/// As [`dots`] of a row and filters that both have 16 bits. The row comes as its upper bytes,
/// signed, and its lower ones: products with each are as exact as those of bytes.
pub(super) fn wide_dots(
    isa: Isa,
    [high, low]: [&[i16]; 2],
    filters: &[i16],
    count: usize,
    mut each: impl FnMut(usize, i64),
) {
    const BLOCK: usize = 64;
    let (mut highs, mut lows) = ([0; BLOCK], [0; BLOCK]);
    for first in (0..count).step_by(BLOCK) {
        let end = count.min(first + BLOCK);
        let filters = &filters[first * high.len()..end * high.len()];
        isa.run(Dots::<OF_WORDS> { row: high, filters, sums: &mut highs[..end - first] });
        isa.run(Dots::<OF_WORDS> { row: low, filters, sums: &mut lows[..end - first] });
        let sums = highs.iter().zip(&lows).map(|(high, low)| (high << 8) + low);
        (first..end).zip(sums).for_each(|(at, sum)| each(at, sum));
    }
}

struct Dots<'a, const EXACT: usize> {
    row: &'a [i16],
    filters: &'a [i16],
    sums: &'a mut [i64],
}

impl<const EXACT: usize> Loop for Dots<'_, EXACT> {
    #[inline(always)]
    fn run(self) {
        let length = self.row.len();
        for (at, sum) in self.sums.iter_mut().enumerate() {
            *sum = dot::<EXACT>(self.row, &self.filters[at * length..(at + 1) * length]);
        }
    }
}

#[inline(always)]
fn dot<const EXACT: usize>(a: &[i16], b: &[i16]) -> i64 {
    if a.len() <= EXACT {
        return i64::from(sum_of_products(a, b));
    }
    let chunks = a.chunks(EXACT).zip(b.chunks(EXACT));
    chunks.map(|(a, b)| i64::from(sum_of_products(a, b))).sum()
}

#[inline(always)]
fn sum_of_products(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_of_words_are_exact() {
        let word = |at: usize| match at % 5 {
            0 => i16::MIN,
            1 => i16::MAX,
            _ => i16::try_from(at * 7919 % 65_536).map_or(-7, |word| word),
        };
        for length in [0, 1, 127, 128, 129, 1000] {
            let row: Vec<i16> = (0..length).map(word).collect();
            let filters: Vec<i16> = (0..65 * length).map(|at| word(at * 3)).collect();
            let high: Vec<i16> = row.iter().map(|x| x >> 8).collect();
            let low: Vec<i16> = row.iter().map(|x| x & 0xFF).collect();
            for isa in Isa::all() {
                let mut count = 0;
                wide_dots(isa, [&high, &low], &filters, 65, |at, sum| {
                    let pairs = row.iter().zip(&filters[at * length..]);
                    let want: i64 = pairs.map(|(&x, &y)| i64::from(x) * i64::from(y)).sum();
                    assert_eq!((at, sum), (count, want), "{isa:?}, {length}");
                    count += 1;
                });
                assert_eq!(count, 65);
            }
        }
    }

    #[test]
    fn sums_of_the_greatest_products_are_exact() {
        for (exact, value) in [(OF_WORDS, i16::MIN), (OF_BYTES, -255)] {
            for length in [0, 1, 3, 1000, 40_000] {
                let (row, filters) = (vec![value; length], vec![-255i16; 65 * length]);
                let mut sums = Vec::new();
                dots(Isa::best(), exact, &row, &filters, 65, |at, sum| sums.push((at, sum)));
                let all = i64::from(value) * -255 * i64::try_from(length).unwrap();
                let expected: Vec<_> = (0..65).map(|at| (at, all)).collect();
                assert_eq!(sums, expected, "{length} of {value}");
            }
        }
    }
}
