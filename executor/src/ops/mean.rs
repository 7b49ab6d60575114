//! MEAN: the average over some axes.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::tensor::quant::truncate;
use nnburst_kernels::tensor::{In, OpError, Quantised, Real};

use super::Op;
use super::reduction::{IntegerSums, RealSums, Reduction};
use super::support::{compiled, dispatch, same_quantisation};
use crate::lowering::recipe::Recipe;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static MEAN: Op = Op { lower };

/// Axes may be negative and repeat; none reduce nothing. What is left of all axes is `[1]`.
/// The quantised mean is rounded to nearest, halves away from zero: the reference truncates, which
/// is biased, and both are within what the interface allows.
///
/// Source: NNAPI `MEAN`, since HAL 1.1.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    if input.shape.rank() > 4 || input.shape.contains(&0) {
        return Err(
            OpError::input(0, format!("{:?} is empty or of rank above 4", input.shape)).into()
        );
    }
    let reduction = Reduction::new(&input.shape, &op.i32s(1)?, op.i32(2)? > 0)?;
    op.set_output(0, reduction.shape.clone())?;
    dispatch!(input.kind, 0, real: real(op, reduction), byte: byte(op, reduction))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts within 24 bits are exact, others near enough"
)]
fn real<T: Real>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
    let label = compiled(op.isa(), "mean_real", &reduction.shape, 0);
    let is_f32 = op.input_kind(0)? == OperandType::TensorFloat32;
    let columns_of_rows = reduction.columns_of_rows().filter(|_| is_f32);
    let count = reduction.count as f32;
    let sums = RealSums::new(op.isa(), reduction);
    op.emit_with_scratch(label, sums.scratch_elements() * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let sums = sums.compute(input, io.scratch_slice::<f32>())?;
        output.fill(sums.iter().map(|sum| T::from_f32(sum / count)));
        Ok(())
    });
    if let Some(columns) = columns_of_rows {
        op.recipe(Recipe::Means { columns });
    }
    Ok(())
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
    same_quantisation(&op.input(0)?, &op.output(0)?)?;
    let count = i32::try_from(reduction.count)
        .ok()
        .filter(|&count| count <= 1 << 23)
        .ok_or_else(|| OpError::rule(format!("a mean over {} elements", reduction.count)))?;
    let isa = op.isa();
    let label = compiled(isa, "mean_byte", &reduction.shape, 0);
    let sums = IntegerSums::new(isa, reduction);
    op.emit_with_scratch(label, sums.scratch_elements() * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let sums = sums.compute(input, io.scratch_slice::<i32>())?;
        in_chunks(sums.len().min(output.len()), |part| {
            let (sums, output) = (In::of(sums).slice(part.clone()), output.slice(part));
            map(isa, sums, output, |sum: i32| T::from_i32(divide_round(sum, count)));
            Ok(())
        })
    });
    Ok(())
}

/// To nearest, halves away from zero: of a sum of `count` bytes, at least one.
#[inline(always)]
pub(super) fn divide_round(sum: i32, count: i32) -> i32 {
    let half = count / 2;
    let sum = if sum > 0 { sum + half } else { sum - half };
    if count > 1 << 12 {
        return sum / count;
    }
    // Vectors divide floats alone. Sums of so few bytes are exact in them, and a quotient, up to
    // 256, is further from the next integer than it is rounded by: 2^-12 against 2^-17.
    #[expect(clippy::cast_precision_loss, reason = "exact")]
    truncate(sum as f32 / count as f32)
}

#[cfg(test)]
mod tests {
    use super::divide_round;

    #[test]
    fn bytes_are_divided_exactly() {
        for count in (1..=4096).filter(|count| count % 97 < 3 || *count < 70 || *count > 4090) {
            for whole in (-128..=255).step_by(3) {
                for near in [-count / 2, -1, 0, 1, count / 2] {
                    let sum = (whole * count + near).clamp(-128 * count, 255 * count);
                    let half = if sum > 0 { count / 2 } else { -(count / 2) };
                    assert_eq!(divide_round(sum, count), (sum + half) / count, "{sum} / {count}");
                }
            }
        }
    }
}
