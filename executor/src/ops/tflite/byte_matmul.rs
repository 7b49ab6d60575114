//! Products of two matrices of bytes that are known at run time alone: by dot products where the
//! machine has them, else by way of floats. Those are exact for sums below 2^24, and their tiles
//! compute many sums side by side.

use nnburst_kernels::kernels::gemm_f32::MatrixProduct;
use nnburst_kernels::kernels::gemm_i8::ByteProduct;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::round_twice_i8::{PADDING, RoundTwice};
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, Out, poll};

use super::arg::OperatorCall;
use super::math::{Stored, f32_of, low};
use crate::lowering::Label;

/// The deepest product of differences of bytes, 255 * 255 at most, whose sums floats are exact
/// for.
const DEEPEST: usize = (1 << 24) / (255 * 255);

/// Floats of the largest matrices and products that are brought to floats.
const LARGEST: usize = 1 << 22;

/// Sums that are rounded at a time.
const TOGETHER: usize = 16 * PADDING;

/// The extents of a product, and where each pair of matrices starts.
#[derive(Debug)]
pub(super) struct BytePairs {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) pairs: Vec<[usize; 2]>,
    /// The zero points of both.
    pub(super) zeros: [i32; 2],
}

impl BytePairs {
    /// Returns whether floats are exact, and not too many.
    pub(super) fn fits(&self) -> bool {
        let [rows, depth, columns] = [self.rows, self.depth, self.columns];
        let floats = [rows * depth, depth * columns, rows.saturating_mul(columns)];
        depth <= DEEPEST && floats.iter().all(|&floats| floats <= LARGEST)
    }
}

/// Adds the step of dot products; `pairs` are where each pair of matrices starts.
pub(super) fn emit_dots(
    call: &mut OperatorCall<'_, '_>,
    label: Label,
    [rows, depth, columns]: [usize; 3],
    pairs: Vec<[usize; 2]>,
    product: ByteProduct,
) {
    let scratch = 4 * product.scratch_len();
    call.emit_bands(label, scratch, pairs.len(), move |mut io, band| {
        let (a, b, to) = (io.input::<u8>(0), io.input::<u8>(1), io.output::<u8>(0));
        for pair in band {
            let [left, right] = pairs[pair];
            let a = a.slice(left..left + rows * depth);
            let b = b.slice(right..right + depth * columns);
            let to = to.slice(pair * rows * columns..(pair + 1) * rows * columns);
            product.compute(a, b, to, io.scratch_slice())?;
        }
        Ok(())
    });
}

/// Adds the step by way of floats.
pub(super) fn emit<T: Stored>(
    call: &mut OperatorCall<'_, '_>,
    label: Label,
    of: BytePairs,
    product: MatrixProduct,
    rounding: RoundTwice,
) {
    let isa = call.isa();
    let (left, right, sums) = (of.rows * of.depth, of.depth * of.columns, of.rows * of.columns);
    let scratch = 4 * (left + right + sums + product.scratch_len());
    call.emit_bands(label, scratch, of.pairs.len(), move |mut io, band| {
        let (a, b, to) = (io.input::<T>(0), io.input::<T>(1), io.output::<T>(0));
        let (lefts, rest) = io.scratch_slice::<f32>().split_at_mut(left);
        let (rights, rest) = rest.split_at_mut(right);
        let (totals, own) = rest.split_at_mut(sums);
        for pair in band {
            let [from_a, from_b] = of.pairs[pair];
            widen(isa, a.slice(from_a..from_a + left), of.zeros[0], lefts)?;
            widen(isa, b.slice(from_b..from_b + right), of.zeros[1], rights)?;
            product.compute(In::of(lefts), In::of(rights), Out::of(totals), own)?;
            let to = to.slice(pair * sums..(pair + 1) * sums);
            for (start, totals) in (0..sums).step_by(TOGETHER).zip(totals.chunks(TOGETHER)) {
                poll::work(TOGETHER)?;
                let mut whole = [0; TOGETHER];
                map(isa, In::of(totals), Out::of(&mut whole), integer);
                let whole = &whole[..totals.len().next_multiple_of(PADDING)];
                rounding.compute(whole, to.slice(start..start + totals.len()).bytes())?;
            }
        }
        Ok(())
    });
}

/// An integer that is a float: a cast saturates, for which compilers make no vectors.
#[inline(always)]
fn integer(x: f32) -> i32 {
    /// Leaves integers in the low bits.
    const INTEGER: f64 = 1.5 * (1u64 << 52) as f64;
    low((f64::from(x) + INTEGER).to_bits().cast_signed())
}

/// Stored values less their zero point, as floats.
fn widen<T: Stored>(
    isa: Isa,
    values: In<'_, T>,
    zero: i32,
    floats: &mut [f32],
) -> Result<(), String> {
    let to = Out::of(floats);
    in_chunks(values.len().min(to.len()), |part| {
        let values = values.slice(part.clone());
        map(isa, values, to.slice(part), |x: T| f32_of(x.wide() - zero));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::kernels::gemm_f32::Layout;

    use super::*;

    #[test]
    fn integers_of_floats_are_themselves() {
        for x in (-300..300).map(|x| x * 55_924).chain([1, -1, 1 << 24, -(1 << 24)]) {
            assert_eq!(integer(f32_of(x)), x);
        }
    }

    #[test]
    fn sums_of_the_deepest_products_are_exact() {
        let (left, right) = (Layout::RowMajor, Layout::ColumnMajor);
        let byte = |at: usize| f32::from(u8::try_from(at % 256).unwrap()) - 128.0;
        let columns: [Vec<f32>; 3] = [
            vec![255.0; DEEPEST],
            vec![-255.0; DEEPEST],
            (0..DEEPEST).map(|at| byte(at * 37)).collect(),
        ];
        for isa in Isa::all() {
            for row in [vec![255.0; DEEPEST], (0..DEEPEST).map(byte).collect()] {
                let product = MatrixProduct::new(isa, [1, DEEPEST, 3], left, right).unwrap();
                let mut sums = [0.0; 3];
                let mut scratch = vec![0.0; product.scratch_len()];
                let all = columns.concat();
                product
                    .compute(In::of(&row), In::of(&all), Out::of(&mut sums), &mut scratch)
                    .unwrap();
                for (sum, column) in sums.iter().zip(&columns) {
                    let pairs = row.iter().zip(column);
                    let want: f64 = pairs.map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
                    assert_eq!(f64::from(*sum), want, "{isa:?}");
                }
            }
        }
    }
}
