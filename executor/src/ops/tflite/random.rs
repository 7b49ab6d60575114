//! Random numbers: those that TFLite's interpreter draws first for the same seeds.
//!
//! An interpreter goes on where its last run ended; here each run begins anew, for runs of one plan
//! may be of several users and at the same time. Seeds of 0 give other numbers each time, as there.

use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{ElementKind, OperatorCall, refused, sizes};
use super::math::narrow;
use crate::lowering::Lowered;
use crate::ops::philox::Philox;
use crate::ops::random_multinomial::accumulate;
use crate::ops::support::plain;

/// The two seeds among the options.
#[derive(Clone, Copy, Debug)]
struct Seeds([i64; 2]);

impl Seeds {
    fn read(call: &OperatorCall<'_, '_>) -> Lowered<Self> {
        Ok(Self([call.int(0)?.into(), call.int(1)?.into()]))
    }

    fn stream(self) -> Philox {
        let [seed, stream] = self.0;
        Philox::new(seed, stream)
    }
}

/// A distribution of FLOAT32.
#[derive(Clone, Copy, Debug)]
pub(super) enum Distribution {
    /// Within `[0, 1)`.
    Uniform,
    StandardNormal,
}

/// Numbers of a distribution, in a tensor whose shape is the input.
pub(super) fn distributed(call: &mut OperatorCall<'_, '_>, distribution: Distribution) -> Lowered {
    let extents = sizes(&call.ints(0)?)?;
    call.result_is(0, &[ElementKind::F32])?;
    let seeds = Seeds::read(call)?;
    let shape = call.set(0, &extents)?;
    call.step(&shape, move |io| {
        let output = io.output::<f32>(0);
        let mut random = seeds.stream();
        match distribution {
            Distribution::Uniform => {
                for at in poll::each(0..output.len(), 8) {
                    output.set(at, random.unit_f32());
                }
            }
            Distribution::StandardNormal => {
                for at in poll::each((0..output.len()).step_by(2), 60) {
                    let pair = box_muller(random.unit_f32(), random.unit_f32());
                    let rest = at..output.len().min(at + 2);
                    rest.zip(pair).for_each(|(at, value)| output.set(at, value));
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// Two normally distributed numbers of two uniform ones.
fn box_muller(radius: f32, angle: f32) -> [f32; 2] {
    let angle = narrow(f64::from(2.0f32) * std::f64::consts::PI * f64::from(angle));
    // A logarithm of 0 is nothing to compute with.
    let length = (-2.0 * radius.max(1e-7).ln()).sqrt();
    [angle.sin() * length, angle.cos() * length]
}

/// MULTINOMIAL: classes drawn by unnormalised log-probabilities `[batches, classes]`, as many for
/// each batch as the second input says.
pub(super) fn multinomial(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let logits = call.arg(0)?;
    let samples = sizes(&[call.one_int(1)?])?[0];
    let &[batches, classes] = &logits.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", logits.shape)).into());
    };
    if logits.kind != ElementKind::F32 || classes == 0 {
        return Err(refused(0, logits.kind).into());
    }
    call.result_is(0, &[ElementKind::I32, ElementKind::I64])?;
    let is_wide = call.result(0)?.kind == ElementKind::I64;
    let seeds = Seeds::read(call)?;
    let shape = call.set(0, &[batches, samples])?;
    let label = plain("tflite_multinomial", &shape, 0);
    call.emit_with_scratch(label, 8 * classes, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let logits = fixed.input::<f32>(0);
        let sums = &mut io.scratch_slice::<f64>()[..classes];
        let mut random = seeds.stream();
        for batch in poll::each(0..batches, 16) {
            accumulate(logits.slice(batch * classes..(batch + 1) * classes).iter(), sums);
            let total = sums[classes - 1];
            for sample in poll::each(0..samples, 200) {
                let drawn = random.unit() * total;
                let class = sums.partition_point(|&sum| sum <= drawn);
                let (at, class) = (batch * samples + sample, i64::try_from(class).unwrap_or(0));
                match is_wide {
                    true => fixed.output::<i64>(0).set(at, class),
                    false => fixed.output::<i32>(0).set(at, super::math::low(class)),
                }
            }
        }
        Ok(())
    });
    Ok(())
}
