//! RANDOM_MULTINOMIAL: class indexes drawn by unnormalised log-probabilities.
//!
//! Source: NNAPI, since HAL 1.2. The numbers are Android's, two words of Philox for each sample.

use nnburst_kernels::tensor::{OpError, Real, Shape, poll};

use super::Op;
use super::philox::Philox;
use super::support::{by_real, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static RANDOM_MULTINOMIAL: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (logits, seeds) = (op.input(0)?, op.input(2)?);
    let &[batches, classes] = &logits.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", logits.shape)).into());
    };
    let samples = op.extent(1, 1)?;
    if classes == 0 || i32::try_from(classes).is_err() || seeds.shape[..] != [2] {
        let what = format!("{classes} classes, seeds of {:?}", seeds.shape);
        return Err(OpError::rule(what).into());
    }
    op.set_output(0, Shape::new([batches, samples])?)?;
    by_real!(logits.kind, emit(op, batches, classes, samples))
}

fn emit<T: Real>(
    op: &mut OpBuilder<'_>,
    batches: usize,
    classes: usize,
    samples: usize,
) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit_with_scratch(
        plain("random_multinomial", &shape, 0),
        classes * 8,
        move |mut io: Io<'_>| {
            let (logits, seeds) = (io.input::<T>(0), io.input::<i32>(2));
            let output = io.output::<i32>(0);
            let mut random = Philox::new(i64::from(seeds.get(0)), i64::from(seeds.get(1)));
            let sums = bytemuck::cast_slice_mut::<u32, f64>(io.scratch_slice::<u32>());
            for batch in poll::each(0..batches, 16) {
                let logits = logits.slice(batch * classes..(batch + 1) * classes);
                accumulate(logits.iter().map(T::to_f32), &mut sums[..classes]);
                let total = sums[classes - 1];
                for sample in poll::each(0..samples, 200) {
                    let drawn = random.unit() * total;
                    let class =
                        sums[..classes].partition_point(|&sum| sum <= drawn).min(classes - 1);
                    output.set(batch * samples + sample, i32::try_from(class).unwrap_or(i32::MAX));
                }
            }
            Ok(())
        },
    );
    Ok(())
}

/// Running sums of `exp(x - max)`; what isn't finite adds nothing.
pub(super) fn accumulate(logits: impl Iterator<Item = f32>, sums: &mut [f64]) {
    let values = poll::each(sums.iter_mut(), 2).zip(logits);
    values.for_each(|(sum, x)| *sum = f64::from(x));
    let max = poll::each(sums.iter().copied(), 2)
        .filter(|x| x.is_finite())
        .fold(f64::NEG_INFINITY, f64::max);
    let mut running = 0.0;
    for sum in poll::each(sums.iter_mut(), 16) {
        if sum.is_finite() {
            running += (*sum - max).exp();
        }
        *sum = running;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_has_no_share() {
        let mut sums = [0.0; 4];
        accumulate([0.0, f32::NEG_INFINITY, f32::NAN, 0.0].into_iter(), &mut sums);
        assert_eq!(sums, [1.0, 1.0, 1.0, 2.0]);
    }
}
