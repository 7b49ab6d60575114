//! Products of two matrices of bytes that are known at run time alone, by way of floats: those are
//! exact for sums below 2^24, and their tiles compute many sums side by side.

use nnburst_kernels::kernels::gemm_f32::MatrixProduct;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::quant::BranchlessMultiplier;
use nnburst_kernels::tensor::{In, Out};

use super::arg::OperatorCall;
use super::math::{Stored, cut_i32, f32_of};
use crate::lowering::Label;

/// The deepest product of differences of bytes, 255 * 255 at most, whose sums floats are exact
/// for.
const DEEPEST: usize = (1 << 24) / (255 * 255);

/// Floats of the largest matrices and products that are brought to floats.
const LARGEST: usize = 1 << 22;

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

/// From sums to stored values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding {
    pub(super) multiplier: BranchlessMultiplier,
    pub(super) zero_point: i32,
    pub(super) range: (i32, i32),
}

/// Adds the step.
pub(super) fn emit<T: Stored>(
    call: &mut OperatorCall<'_, '_>,
    label: Label,
    of: BytePairs,
    product: MatrixProduct,
    rounding: Rounding,
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
            let Rounding { multiplier, zero_point, range: (min, max) } = rounding;
            in_chunks(sums, |part| {
                let totals = In::of(&*totals).slice(part.clone());
                map(isa, totals, to.slice(part), |sum: f32| {
                    let scaled = multiplier.apply(cut_i32(sum)).wrapping_add(zero_point);
                    T::stored(scaled.clamp(min, max))
                });
                Ok(())
            })?;
        }
        Ok(())
    });
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
